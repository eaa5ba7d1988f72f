use super::{Check, DEADLINE, Finding, Sessions, execute, query_number, query_text};
use crate::connect;
use crate::identity::read_identity;
use crate::migrate::{SERVER_VERSION_MIN, ServerVersion, encoding, encoding_error, server_version};
use sqlx::PgConnection;

/// The oldest server version that the store is tested with.
const VERSION_TESTED: i64 = 150_000;

const VERSION: &str = "server version";
const WRITABLE: &str = "takes writes";
const SESSIONS: &str = "sessions of one's own";

/// Whether no other check is possible if this one has failed.
pub(super) fn is_obstacle(check: &Check) -> bool {
    [VERSION, WRITABLE, SESSIONS].contains(&check.name)
}

impl Sessions {
    /// Checks the server's version and settings.
    pub(super) async fn server(&mut self) -> Vec<Check> {
        let Self { one, two, .. } = self;
        let version = server_version(one).await;
        vec![
            version
                .map_or_else(Finding::from, version_of)
                .into_check(VERSION, "the schema and the batch function"),
            writable(one).await.unwrap_or_else(Finding::from).into_check(WRITABLE, "every write"),
            sessions(one, two).await.unwrap_or_else(Finding::from).into_check(
                SESSIONS,
                "prepared statements, settings and LISTEN, which last as long as a connection",
            ),
            encoding(one)
                .await
                .map_or_else(Finding::from, |own| encoding_of(&own))
                .into_check("encoding", "every write: an object may hold any character"),
            identity(one).await.into_check(
                "tells its identity",
                "a restore is noticed also by a replica that starts after it",
            ),
            on(one, "fsync").await.into_check("fsync", "what was acknowledged outlasts a loss of power"),
            on(one, "full_page_writes")
                .await
                .into_check("full_page_writes", "a page that was half written is mended"),
            commits(one).await.unwrap_or_else(Finding::from).into_check(
                "synchronous_commit",
                "what was acknowledged is on the disk, and at the synchronous standby",
            ),
            standby(one)
                .await
                .into_check("synchronous standby", "what was acknowledged outlasts a lost server"),
            isolation(one).await.unwrap_or_else(Finding::from).into_check(
                "isolation",
                "a statement that waited for a lock sees what was committed meanwhile",
            ),
        ]
    }
}

pub(super) fn version_of(number: i64) -> Finding {
    let version = ServerVersion(number);
    match number {
        VERSION_TESTED.. => Finding::holds(version.to_string()),
        SERVER_VERSION_MIN.. => {
            Finding::doubtful(format!("{version}: tested is {} and later", ServerVersion(VERSION_TESTED)))
        }
        _ => {
            Finding::broken(format!("{version} is too old: {} is needed", ServerVersion(SERVER_VERSION_MIN)))
        }
    }
}

fn encoding_of(own: &str) -> Finding {
    encoding_error(own).map_or_else(|| Finding::holds(own), Finding::broken)
}

async fn writable(one: &mut PgConnection) -> Result<Finding, sqlx::Error> {
    if query_text(one, "pg_is_in_recovery()").await?.as_deref() == Some("true") {
        return Ok(Finding::broken("this is a standby: name the primary, or a proxy that leads there"));
    }
    let read_only = query_text(one, "current_setting('transaction_read_only')").await?;
    Ok(match read_only.as_deref() {
        Some("on") => {
            Finding::broken("read-only: default_transaction_read_only is on for this user or database")
        }
        _ => Finding::holds("it does"),
    })
}

/// Checks for a pool, which gives one session to two clients in turn, or two sessions to one client.
async fn sessions(one: &mut PgConnection, two: &mut PgConnection) -> Result<Finding, sqlx::Error> {
    const PROCESS: &str = "pg_backend_pid()";
    let first = query_number(one, PROCESS).await?;
    execute(two, "BEGIN").await?;
    let other = query_number(two, PROCESS).await;
    let again = if other.as_ref().is_ok_and(|other| *other == first) {
        Ok(first)
    } else {
        query_number(one, PROCESS).await
    };
    execute(two, "ROLLBACK").await?;
    let (other, again) = (other?, again?);
    if other == first || again != first {
        return Ok(Finding::broken(
            "two connections share a session: there is a proxy in between that pools transactions. Name the server \
             itself",
        ));
    }
    Ok(Finding::holds("each connection has its own"))
}

/// Whether the server lets us read its identity. Without it a replica can only compare a history with what it has seen
/// itself, and a replica that starts has seen nothing.
async fn identity(one: &mut PgConnection) -> Finding {
    match connect::within(DEADLINE, read_identity(one, false)).await {
        Ok(Some(_identity)) => Finding::holds("with its timeline"),
        Ok(None) => Finding::skipped("not tried: a standby has none of its own"),
        Err(error @ sqlx::Error::Database(_)) => {
            Finding::doubtful(format!("{error}: say `business-api audit --restored` after each restore"))
        }
        Err(error) => Finding::from(error),
    }
}

/// The default of a setting, which our sessions may change; `None` if the server does not show it.
async fn default_of(one: &mut PgConnection, name: &str) -> Option<String> {
    query_text(one, &format!("SELECT reset_val FROM pg_settings WHERE name = '{name}'")).await.ok().flatten()
}

async fn on(one: &mut PgConnection, name: &str) -> Finding {
    match default_of(one, name).await.as_deref() {
        Some("on") => Finding::holds("on"),
        Some(other) => Finding::broken(format!("{other}: a server that loses power may lose anything")),
        None => Finding::doubtful("the server does not tell"),
    }
}

/// Our sessions set `synchronous_commit`, whatever the default is.
async fn commits(one: &mut PgConnection) -> Result<Finding, sqlx::Error> {
    let default = default_of(one, "synchronous_commit").await.unwrap_or_default();
    let effective = query_text(one, "current_setting('synchronous_commit')").await?.unwrap_or_default();
    Ok(match (effective.as_str(), default.as_str()) {
        ("on" | "remote_apply", "on" | "remote_apply" | "") => Finding::holds(effective),
        ("on" | "remote_apply", _) => Finding::doubtful(format!(
            "{default} for everybody else; sessions of this program set it to {effective}. What others write may be lost"
        )),
        _ => Finding::broken(format!("{effective}, although the session has set it to on")),
    })
}

async fn standby(one: &mut PgConnection) -> Finding {
    match default_of(one, "synchronous_standby_names").await.as_deref() {
        Some("") => Finding::doubtful(
            "none: when this server is lost, its last commits are. After that growth waits for the audit",
        ),
        Some(names) => Finding::holds(names),
        None => Finding::doubtful("the server does not tell"),
    }
}

async fn isolation(one: &mut PgConnection) -> Result<Finding, sqlx::Error> {
    let default = default_of(one, "default_transaction_isolation").await.unwrap_or_default();
    let effective = query_text(one, "current_setting('transaction_isolation')").await?.unwrap_or_default();
    Ok(match (effective.as_str(), default.as_str()) {
        ("read committed", "read committed" | "") => Finding::holds(effective),
        ("read committed", _) => {
            Finding::holds(format!("{default} by default; sessions of this program set it to {effective}"))
        }
        _ => Finding::broken(format!("{effective}, although the session has set it to read committed")),
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
