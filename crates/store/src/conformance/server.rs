use super::{Bench, Check, DEADLINE, Sight, execute, number, text};
use crate::connect;
use crate::migrate::{SERVER_VERSION_MIN, ServerVersion, encoding, encoding_trouble, server_version};
use crate::identity::read_identity;
use sqlx::PgConnection;

/// The oldest that is tested.
const VERSION_TESTED: i64 = 150_000;

const VERSION: &str = "server version";
const WRITABLE: &str = "takes writes";
const SESSIONS: &str = "sessions of one's own";

/// Whether nothing else can be tried after this check has failed.
pub(super) fn is_obstacle(check: &Check) -> bool {
    [VERSION, WRITABLE, SESSIONS].contains(&check.name)
}

impl Bench {
    /// What the server says of itself.
    pub(super) async fn server(&mut self) -> Vec<Check> {
        let Self { one, two, .. } = self;
        let version = server_version(one).await;
        vec![
            version.map_or_else(Sight::from, version_of).called(VERSION, "the schema and the batch function"),
            writable(one).await.unwrap_or_else(Sight::from).called(WRITABLE, "every write"),
            sessions(one, two).await.unwrap_or_else(Sight::from).called(
                SESSIONS,
                "prepared statements, settings and LISTEN, which last as long as a connection",
            ),
            encoding(one)
                .await
                .map_or_else(Sight::from, |own| encoding_of(&own))
                .called("encoding", "every write: an object may hold any character"),
            identity(one)
                .await
                .called("tells its identity", "a restore is noticed also by a replica that starts after it"),
            on(one, "fsync").await.called("fsync", "what was acknowledged outlasts a loss of power"),
            on(one, "full_page_writes")
                .await
                .called("full_page_writes", "a page that was half written is mended"),
            commits(one).await.unwrap_or_else(Sight::from).called(
                "synchronous_commit",
                "what was acknowledged is on the disk, and at the synchronous standby",
            ),
            standby(one).await.called("synchronous standby", "what was acknowledged outlasts a lost server"),
            isolation(one)
                .await
                .unwrap_or_else(Sight::from)
                .called("isolation", "a statement that waited for a lock sees what was committed meanwhile"),
        ]
    }
}

pub(super) fn version_of(number: i64) -> Sight {
    let told = ServerVersion(number);
    match number {
        VERSION_TESTED.. => Sight::holds(told.to_string()),
        SERVER_VERSION_MIN.. => {
            Sight::doubtful(format!("{told}: tested is {} and later", ServerVersion(VERSION_TESTED)))
        }
        _ => Sight::broken(format!("{told} is too old: {} is needed", ServerVersion(SERVER_VERSION_MIN))),
    }
}

fn encoding_of(own: &str) -> Sight {
    encoding_trouble(own).map_or_else(|| Sight::holds(own), Sight::broken)
}

async fn writable(one: &mut PgConnection) -> Result<Sight, sqlx::Error> {
    if text(one, "pg_is_in_recovery()").await?.as_deref() == Some("true") {
        return Ok(Sight::broken("this is a standby: name the primary, or a proxy that leads there"));
    }
    let read_only = text(one, "current_setting('transaction_read_only')").await?;
    Ok(match read_only.as_deref() {
        Some("on") => {
            Sight::broken("read-only: default_transaction_read_only is on for this user or database")
        }
        _ => Sight::holds("it does"),
    })
}

/// A pool hands one session to two clients in turn, or two to one.
async fn sessions(one: &mut PgConnection, two: &mut PgConnection) -> Result<Sight, sqlx::Error> {
    const PROCESS: &str = "pg_backend_pid()";
    let first = number(one, PROCESS).await?;
    execute(two, "BEGIN").await?;
    let other = number(two, PROCESS).await;
    let again = if other.as_ref().is_ok_and(|other| *other == first) {
        Ok(first)
    } else {
        number(one, PROCESS).await
    };
    execute(two, "ROLLBACK").await?;
    let (other, again) = (other?, again?);
    if other == first || again != first {
        return Ok(Sight::broken(
            "two connections share a session: there is a proxy in between that pools transactions. Name the server \
             itself",
        ));
    }
    Ok(Sight::holds("each connection has its own"))
}

/// Whether the server tells its identity. Without it a replica can only compare a history with what it has seen
/// itself, and a replica that starts has seen nothing.
async fn identity(one: &mut PgConnection) -> Sight {
    match connect::within(DEADLINE, read_identity(one, false)).await {
        Ok(Some(_identity)) => Sight::holds("with its timeline"),
        Ok(None) => Sight::skipped("not tried: a standby has none of its own"),
        Err(error @ sqlx::Error::Database(_)) => {
            Sight::doubtful(format!("{error}: say `business-api audit --restored` after each restore"))
        }
        Err(error) => Sight::from(error),
    }
}

/// A setting with a default that our sessions may change; `None` where the server does not tell.
async fn default_of(one: &mut PgConnection, name: &str) -> Option<String> {
    text(one, &format!("SELECT reset_val FROM pg_settings WHERE name = '{name}'")).await.ok().flatten()
}

async fn on(one: &mut PgConnection, name: &str) -> Sight {
    match default_of(one, name).await.as_deref() {
        Some("on") => Sight::holds("on"),
        Some(other) => Sight::broken(format!("{other}: a server that loses power may lose anything")),
        None => Sight::doubtful("the server does not tell"),
    }
}

/// Our sessions set it, whatever the default is.
async fn commits(one: &mut PgConnection) -> Result<Sight, sqlx::Error> {
    let default = default_of(one, "synchronous_commit").await.unwrap_or_default();
    let effective = text(one, "current_setting('synchronous_commit')").await?.unwrap_or_default();
    Ok(match (effective.as_str(), default.as_str()) {
        ("on" | "remote_apply", "on" | "remote_apply" | "") => Sight::holds(effective),
        ("on" | "remote_apply", _) => Sight::doubtful(format!(
            "{default} for everybody else; sessions of this program set it to {effective}. What others write may be lost"
        )),
        _ => Sight::broken(format!("{effective}, although the session has set it to on")),
    })
}

async fn standby(one: &mut PgConnection) -> Sight {
    match default_of(one, "synchronous_standby_names").await.as_deref() {
        Some("") => Sight::doubtful(
            "none: when this server is lost, its last commits are. After that growth waits for the audit",
        ),
        Some(names) => Sight::holds(names),
        None => Sight::doubtful("the server does not tell"),
    }
}

async fn isolation(one: &mut PgConnection) -> Result<Sight, sqlx::Error> {
    let default = default_of(one, "default_transaction_isolation").await.unwrap_or_default();
    let effective = text(one, "current_setting('transaction_isolation')").await?.unwrap_or_default();
    Ok(match (effective.as_str(), default.as_str()) {
        ("read committed", "read committed" | "") => Sight::holds(effective),
        ("read committed", _) => {
            Sight::holds(format!("{default} by default; sessions of this program set it to {effective}"))
        }
        _ => Sight::broken(format!("{effective}, although the session has set it to read committed")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{Broken, Doubtful, Holds};
    use super::*;

    #[test]
    fn old_servers_are_told_by_their_number() {
        let verdicts =
            [90_600, 120_022, 130_000, 140_019, 150_018, 170_011].map(|number| version_of(number).verdict);
        assert_eq!(verdicts, [Broken, Broken, Broken, Doubtful, Holds, Holds]);
    }

    #[test]
    fn only_one_encoding_has_every_character() {
        let verdicts = ["UTF8", "LATIN1", "SQL_ASCII"].map(|own| encoding_of(own).verdict);
        assert_eq!(verdicts, [Holds, Broken, Broken]);
    }
}
