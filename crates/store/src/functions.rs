//! The functions of `sql/`. A hash of their texts is part of their names. So a database has the functions of two
//! releases side by side, and both releases can write at the same time.

use meta::quantity::Quantity;
use quota::ANCESTORS_MAX;
use sha2::{Digest as _, Sha256};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::sync::LazyLock;

/// Number of digits of the hash in a name.
const DIGITS: usize = 12;

const FILES: [&str; 6] = [
    include_str!("../sql/settle_excess.sql"),
    include_str!("../sql/decide_each.sql"),
    include_str!("../sql/apply_batch.sql"),
    include_str!("../sql/hold.sql"),
    include_str!("../sql/repair.sql"),
    include_str!("../sql/import.sql"),
];
const NAMES: [&str; 7] = [
    "settle_excess",
    "decide_each",
    "apply_batch",
    "hold_amounts",
    "write_off",
    "repair_ledger",
    "import_objects",
];

/// The texts, with the constants filled in that several of them have. The functions' names are not filled in yet.
static TEXTS: LazyLock<[String; 6]> = LazyLock::new(|| {
    let (amount, ancestors) = (Quantity::MAX.nanos_text(), ANCESTORS_MAX.to_string());
    FILES.map(|text| text.replace("{amount_max}", &amount).replace("{ancestors_max}", &ancestors))
});

static SUFFIX: LazyLock<String> = LazyLock::new(|| {
    let mut hash = hex::encode(Sha256::digest(TEXTS.concat()));
    hash.truncate(DIGITS);
    hash
});

/// The names of this release's functions.
pub(crate) fn names() -> Vec<String> {
    NAMES.iter().map(|function| name(function)).collect()
}

/// The name under which a function of this release is installed.
pub(crate) fn name(function: &str) -> String {
    format!("{function}_{}", *SUFFIX)
}

/// Installs the functions unless they exist. Several replicas may do it at once.
pub(crate) async fn install(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    if are_installed(connection).await? {
        return Ok(());
    }
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql("LOCK TABLE compaction IN SHARE ROW EXCLUSIVE MODE").execute(&mut *transaction).await?;
    if !are_installed(&mut transaction).await? {
        create(&mut transaction).await?;
    }
    transaction.commit().await
}

/// Creates the functions, which must not exist yet.
pub(crate) async fn create(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    install_as(connection, &SUFFIX).await
}

/// Installs the functions under another suffix.
pub(crate) async fn install_as(connection: &mut PgConnection, suffix: &str) -> Result<(), sqlx::Error> {
    for text in &*TEXTS {
        let named = NAMES.iter().fold(text.clone(), |text, name| {
            text.replace(&format!("{{{name}}}"), &format!("{name}_{suffix}"))
        });
        sqlx::raw_sql(AssertSqlSafe(named)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Whether the functions of this release exist.
pub(crate) async fn are_installed(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT bool_and(to_regproc(n) IS NOT NULL) FROM unnest($1::text[]) AS n")
        .persistent(false)
        .bind(names())
        .fetch_one(connection)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_braces_is_a_function() {
        let mut text = TEXTS.concat();
        for name in NAMES {
            assert!(text.contains(&format!("CREATE FUNCTION {{{name}}}(")), "{name}");
            text = text.replace(&format!("{{{name}}}"), "");
        }
        assert!(
            !text.contains("'{'") && !text.contains("{a") && !text.contains("{s"),
            "a name that is no function's"
        );
    }
}
