use super::{Bench, Check, DEADLINE, STILL_WAITING, Sight, changed, execute, number};
use crate::connect;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, PgConnection};
use std::time::Duration;

/// Longer than a notification takes; later it is of no use.
const NOTIFIED: Duration = Duration::from_secs(2);

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

/// None of it was tried.
pub(super) fn skipped(reason: &str) -> Vec<Check> {
    let all = [LOCK, AGAIN, FRESH, PROOF, SNAPSHOT, LIMIT, NOTIFY];
    all.map(|(name, carries)| Sight::skipped(reason).called(name, carries)).into()
}

impl Bench {
    /// What two transactions do to one another.
    pub(super) async fn locks(&mut self) -> Vec<Check> {
        if let Err(error) = self.prepare().await {
            return vec![Sight::from(error).called(LOCK.0, LOCK.1)];
        }
        let sights = [
            (LOCK, self.row_lock().await),
            (AGAIN, self.looks_again().await),
            (FRESH, self.fresh_statement().await),
            (PROOF, self.rival_insert().await),
            (SNAPSHOT, self.snapshot().await),
            (LIMIT, self.limit().await),
            (NOTIFY, self.notify().await),
        ];
        sights.map(|((name, carries), sight)| sight.unwrap_or_else(Sight::from).called(name, carries)).into()
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

    /// The first changes rows and keeps its transaction open; the second must wait, and then do what it does.
    async fn meet(&mut self, first: &str, second: &str) -> Result<Option<u64>, sqlx::Error> {
        execute(&mut self.one, &format!("BEGIN; {first}")).await?;
        let mut waiting = Box::pin(changed(&mut self.two, second));
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

    async fn row_lock(&mut self) -> Result<Sight, sqlx::Error> {
        let update = format!("UPDATE {}.counter SET v = v + 1 WHERE id = 1", self.schema);
        let Some(_changed) = self.meet(&update, &update).await? else {
            return Ok(Sight::broken(
                "a second transaction changed a row that the first had changed and not committed",
            ));
        };
        let value = number(&mut self.one, &format!("SELECT v FROM {}.counter", self.schema)).await?;
        Ok(match value {
            2 => Sight::holds("the second waits, and counts on from the first"),
            other => Sight::broken(format!("two increments came to {other}: one of them was lost")),
        })
    }

    async fn looks_again(&mut self) -> Result<Sight, sqlx::Error> {
        let take =
            format!("UPDATE {}.budget SET used = used + 6 WHERE id = 1 AND used + 6 <= 10", self.schema);
        Ok(match self.meet(&take, &take).await? {
            Some(0) => Sight::holds("the second finds that it does not fit any more"),
            Some(_) => Sight::broken(
                "12 of 10 were taken: the second was decided by what it had read before it waited",
            ),
            None => Sight::broken("the second did not wait"),
        })
    }

    async fn fresh_statement(&mut self) -> Result<Sight, sqlx::Error> {
        let schema = self.schema.clone();
        let first = format!(
            "UPDATE {schema}.counter SET v = v + 1 WHERE id = 1; INSERT INTO {schema}.log VALUES (1)"
        );
        execute(&mut self.one, &format!("BEGIN; {first}")).await?;
        let counted = format!("{schema}.locked_count()");
        let mut waiting = Box::pin(number(&mut self.two, &counted));
        let early = tokio::time::timeout(STILL_WAITING, &mut waiting).await;
        execute(&mut self.one, "COMMIT").await?;
        let Err(_elapsed) = early else { return Ok(Sight::broken("the function did not wait for the row")) };
        Ok(match waiting.await? {
            1 => Sight::holds("it does"),
            other => Sight::broken(format!(
                "it counts {other} of 1 rows that were committed before it got the lock"
            )),
        })
    }

    async fn rival_insert(&mut self) -> Result<Sight, sqlx::Error> {
        let insert = format!("INSERT INTO {}.log VALUES (2) ON CONFLICT DO NOTHING", self.schema);
        Ok(match self.meet(&insert, &insert).await? {
            Some(0) => Sight::holds("it does, and then finds the row"),
            Some(_) => Sight::broken("both have inserted the same key"),
            None => Sight::broken("it does not wait: whether the rival will commit is not known"),
        })
    }

    async fn snapshot(&mut self) -> Result<Sight, sqlx::Error> {
        let schema = self.schema.clone();
        let sum = format!("(SELECT v FROM {schema}.counter) * 1000 + (SELECT count(*) FROM {schema}.log)");
        execute(&mut self.one, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let before = number(&mut self.one, &sum).await?;
        let both = format!(
            "BEGIN; UPDATE {schema}.counter SET v = v + 1; INSERT INTO {schema}.log VALUES (3); COMMIT"
        );
        execute(&mut self.two, &both).await?;
        let during = number(&mut self.one, &sum).await?;
        execute(&mut self.one, "COMMIT").await?;
        let after = number(&mut self.one, &sum).await?;
        Ok(match (during == before, after == before + 1001) {
            (true, true) => Sight::holds("one state, until its transaction ends"),
            (false, _) => Sight::broken("a transaction that reads one state saw what was committed later"),
            (true, false) => Sight::broken("what was committed is not to be seen"),
        })
    }

    async fn limit(&mut self) -> Result<Sight, sqlx::Error> {
        let overdraw = format!("UPDATE {}.budget SET used = 11 WHERE id = 1", self.schema);
        Ok(match execute(&mut self.one, &overdraw).await {
            Err(error) if connect::has_code(&error, "23514") => Sight::holds("an overdrawn row is refused"),
            Err(error) => return Err(error),
            Ok(()) => Sight::broken("a row was stored that its CHECK forbids"),
        })
    }

    async fn notify(&mut self) -> Result<Sight, sqlx::Error> {
        let heard = listen(&self.url, &self.schema, &mut self.two);
        Ok(match tokio::time::timeout(DEADLINE, heard).await {
            Ok(Ok(true)) => Sight::holds("heard"),
            Ok(Ok(false)) => {
                Sight::doubtful("not heard: changes by other replicas are seen at the next poll")
            }
            Ok(Err(error)) => {
                Sight::doubtful(format!("{error}: changes by other replicas are seen at the next poll"))
            }
            Err(_elapsed) => {
                Sight::doubtful("no answer: changes by other replicas are seen at the next poll")
            }
        })
    }
}

async fn listen(url: &str, channel: &str, two: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let mut listener = PgListener::connect(url).await?;
    listener.listen(channel).await?;
    sqlx::raw_sql(AssertSqlSafe(format!("NOTIFY {channel}"))).execute(two).await?;
    Ok(tokio::time::timeout(NOTIFIED, listener.recv()).await.is_ok_and(|heard| heard.is_ok()))
}
