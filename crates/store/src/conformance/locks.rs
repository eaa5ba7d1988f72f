use super::{Check, DEADLINE, Finding, STILL_WAITING, Sessions, execute, execute_counting, query_number};
use crate::connect;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, PgConnection};
use std::time::Duration;

/// Longest time that a notification may take. Later it is of no use.
const NOTIFY_DEADLINE: Duration = Duration::from_secs(2);

const LOCK: (&str, &str) =
    ("row locks", "a budget is never handed out twice; commit order is revision order");
const AGAIN: (&str, &str) =
    ("what waited for a row looks again", "an update that waited is decided by what was committed meanwhile");
const FRESH: (&str, &str) = (
    "a function sees what was committed while it waited",
    "the batch function reads its rows after it has the lock",
);
const PROOF: (&str, &str) = (
    "an insert waits for its rival",
    "the outcome of a batch whose connection was lost is found out, never guessed",
);
const SNAPSHOT: (&str, &str) = ("snapshots", "a list is one state; an audit adds up one state");
const LIMIT: (&str, &str) =
    ("CHECK constraints", "the ledger refuses an overdrawn row, whatever the function does");
const NOTIFY: (&str, &str) =
    ("NOTIFY", "changes by other replicas arrive within milliseconds, not within the poll");

/// All checks of this module, as skipped.
pub(super) fn skipped(reason: &str) -> Vec<Check> {
    let all = [LOCK, AGAIN, FRESH, PROOF, SNAPSHOT, LIMIT, NOTIFY];
    all.map(|(name, carries)| Finding::skipped(reason).into_check(name, carries)).into()
}

impl Sessions {
    /// Checks how two transactions affect each other.
    pub(super) async fn locks(&mut self) -> Vec<Check> {
        if let Err(error) = self.prepare().await {
            return vec![Finding::from(error).into_check(LOCK.0, LOCK.1)];
        }
        let findings = [
            (LOCK, self.row_lock().await),
            (AGAIN, self.looks_again().await),
            (FRESH, self.fresh_statement().await),
            (PROOF, self.rival_insert().await),
            (SNAPSHOT, self.snapshot().await),
            (LIMIT, self.limit().await),
            (NOTIFY, self.notify().await),
        ];
        findings
            .map(|((name, carries), finding)| finding.unwrap_or_else(Finding::from).into_check(name, carries))
            .into()
    }

    async fn prepare(&mut self) -> Result<(), sqlx::Error> {
        let schema = &self.schema;
        let made = format!(
            "CREATE SCHEMA {schema};
             CREATE TABLE {schema}.counter (id int PRIMARY KEY, v bigint NOT NULL);
             INSERT INTO {schema}.counter VALUES (1, 0);
             CREATE TABLE {schema}.budget (id int PRIMARY KEY, used bigint NOT NULL CHECK (used <= 10));
             INSERT INTO {schema}.budget VALUES (1, 0);
             CREATE TABLE {schema}.log (id int PRIMARY KEY);
             CREATE FUNCTION {schema}.locked_count() RETURNS bigint LANGUAGE plpgsql AS $$
             DECLARE n bigint;
             BEGIN
                 UPDATE {schema}.counter SET v = v WHERE id = 1;
                 SELECT count(*) INTO n FROM {schema}.log;
                 RETURN n;
             END $$"
        );
        execute(&mut self.one, &made).await
    }

    /// Runs `first` in a transaction that stays open, and `second` in the other session. Returns how many rows `second`
    /// has changed after the commit of the first; `None` if it did not wait.
    async fn run_conflicting(&mut self, first: &str, second: &str) -> Result<Option<u64>, sqlx::Error> {
        execute(&mut self.one, &format!("BEGIN; {first}")).await?;
        let mut waiting = Box::pin(execute_counting(&mut self.two, second));
        let early = tokio::time::timeout(STILL_WAITING, &mut waiting).await;
        let committed = execute(&mut self.one, "COMMIT").await;
        match early {
            Ok(outcome) => {
                outcome?;
                committed.map(|()| None)
            }
            Err(_elapsed) => {
                committed?;
                waiting.await.map(Some)
            }
        }
    }

    async fn row_lock(&mut self) -> Result<Finding, sqlx::Error> {
        let update = format!("UPDATE {}.counter SET v = v + 1 WHERE id = 1", self.schema);
        let Some(_changed) = self.run_conflicting(&update, &update).await? else {
            return Ok(Finding::broken(
                "a second transaction changed a row that the first had changed and not committed",
            ));
        };
        let value = query_number(&mut self.one, &format!("SELECT v FROM {}.counter", self.schema)).await?;
        Ok(match value {
            2 => Finding::holds("the second waits, and counts on from the first"),
            other => Finding::broken(format!("two increments came to {other}: one of them was lost")),
        })
    }

    async fn looks_again(&mut self) -> Result<Finding, sqlx::Error> {
        let take =
            format!("UPDATE {}.budget SET used = used + 6 WHERE id = 1 AND used + 6 <= 10", self.schema);
        Ok(match self.run_conflicting(&take, &take).await? {
            Some(0) => Finding::holds("the second finds that it does not fit any more"),
            Some(_) => Finding::broken(
                "12 of 10 were taken: the second was decided by what it had read before it waited",
            ),
            None => Finding::broken("the second did not wait"),
        })
    }

    async fn fresh_statement(&mut self) -> Result<Finding, sqlx::Error> {
        let schema = self.schema.clone();
        let first = format!(
            "UPDATE {schema}.counter SET v = v + 1 WHERE id = 1; INSERT INTO {schema}.log VALUES (1)"
        );
        execute(&mut self.one, &format!("BEGIN; {first}")).await?;
        let counted = format!("{schema}.locked_count()");
        let mut waiting = Box::pin(query_number(&mut self.two, &counted));
        let early = tokio::time::timeout(STILL_WAITING, &mut waiting).await;
        execute(&mut self.one, "COMMIT").await?;
        let Err(_elapsed) = early else {
            return Ok(Finding::broken("the function did not wait for the row"));
        };
        Ok(match waiting.await? {
            1 => Finding::holds("it does"),
            other => Finding::broken(format!(
                "it counts {other} of 1 rows that were committed before it got the lock"
            )),
        })
    }

    async fn rival_insert(&mut self) -> Result<Finding, sqlx::Error> {
        let insert = format!("INSERT INTO {}.log VALUES (2) ON CONFLICT DO NOTHING", self.schema);
        Ok(match self.run_conflicting(&insert, &insert).await? {
            Some(0) => Finding::holds("it does, and then finds the row"),
            Some(_) => Finding::broken("both have inserted the same key"),
            None => Finding::broken("it does not wait: whether the rival will commit is not known"),
        })
    }

    async fn snapshot(&mut self) -> Result<Finding, sqlx::Error> {
        let schema = self.schema.clone();
        let sum = format!("(SELECT v FROM {schema}.counter) * 1000 + (SELECT count(*) FROM {schema}.log)");
        execute(&mut self.one, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let before = query_number(&mut self.one, &sum).await?;
        let both = format!(
            "BEGIN; UPDATE {schema}.counter SET v = v + 1; INSERT INTO {schema}.log VALUES (3); COMMIT"
        );
        execute(&mut self.two, &both).await?;
        let during = query_number(&mut self.one, &sum).await?;
        execute(&mut self.one, "COMMIT").await?;
        let after = query_number(&mut self.one, &sum).await?;
        Ok(match (during == before, after == before + 1001) {
            (true, true) => Finding::holds("one state, until its transaction ends"),
            (false, _) => Finding::broken("a transaction that reads one state saw what was committed later"),
            (true, false) => Finding::broken("what was committed is not to be seen"),
        })
    }

    async fn limit(&mut self) -> Result<Finding, sqlx::Error> {
        let overdraw = format!("UPDATE {}.budget SET used = 11 WHERE id = 1", self.schema);
        Ok(match execute(&mut self.one, &overdraw).await {
            Err(error) if connect::has_code(&error, "23514") => Finding::holds("an overdrawn row is refused"),
            Err(error) => return Err(error),
            Ok(()) => Finding::broken("a row was stored that its CHECK forbids"),
        })
    }

    async fn notify(&mut self) -> Result<Finding, sqlx::Error> {
        let notified = listen(&self.url, &self.schema, &mut self.two);
        Ok(match tokio::time::timeout(DEADLINE, notified).await {
            Ok(Ok(true)) => Finding::holds("heard"),
            Ok(Ok(false)) => {
                Finding::doubtful("not heard: changes by other replicas are seen at the next poll")
            }
            Ok(Err(error)) => {
                Finding::doubtful(format!("{error}: changes by other replicas are seen at the next poll"))
            }
            Err(_elapsed) => {
                Finding::doubtful("no answer: changes by other replicas are seen at the next poll")
            }
        })
    }
}

async fn listen(url: &str, channel: &str, two: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let mut listener = PgListener::connect(url).await?;
    listener.listen(channel).await?;
    sqlx::raw_sql(AssertSqlSafe(format!("NOTIFY {channel}"))).execute(two).await?;
    Ok(tokio::time::timeout(NOTIFY_DEADLINE, listener.recv()).await.is_ok_and(|heard| heard.is_ok()))
}
