//! Changes that somebody has made to the schema by hand.
//!
//! The migrations make a second schema in a transaction that is rolled back, and the current schema is compared with
//! it. So the definitions of both come from the same PostgreSQL.

use crate::{Error, connect, functions, migrate};
use sqlx::postgres::PgConnection;
use sqlx::{Acquire as _, AssertSqlSafe, Row as _};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// The tables of the current schema.
const TABLES: &str = "SELECT relname::text FROM pg_class \
     WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r' ORDER BY 1";

/// The parts of the tables `$1` and functions `$2` of the current schema: the name and the definition of each.
const DESCRIBE: &str = "WITH ours AS ( \
       SELECT oid, relname, relpersistence, relrowsecurity FROM pg_class \
       WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r' AND relname = ANY($1)) \
     SELECT 'table ' || relname, CASE relpersistence WHEN 'p' THEN 'logged' ELSE 'unlogged' END || \
         CASE WHEN relrowsecurity THEN ', with row security' ELSE '' END FROM ours \
     UNION ALL \
     SELECT 'column ' || relname || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod), \
         (SELECT 'collate ' || collname FROM pg_collation c WHERE c.oid = attcollation AND collname <> 'default'), \
         CASE WHEN attnotnull THEN 'not null' END, 'default ' || pg_get_expr(adbin, adrelid)) \
       FROM ours JOIN pg_attribute a ON attrelid = ours.oid AND attnum > 0 AND NOT attisdropped \
       LEFT JOIN pg_attrdef d ON adrelid = attrelid AND adnum = attnum \
     UNION ALL \
     SELECT 'constraint ' || relname || '.' || conname, pg_get_constraintdef(c.oid, true) \
       FROM ours JOIN pg_constraint c ON conrelid = ours.oid AND contype <> 'n' \
     UNION ALL \
     SELECT 'index ' || ours.relname || '.' || i.relname, \
         pg_get_indexdef(i.oid, 0, true) || CASE WHEN indisvalid THEN '' ELSE ' INVALID' END \
       FROM ours JOIN pg_index x ON indrelid = ours.oid JOIN pg_class i ON i.oid = indexrelid \
     UNION ALL \
     SELECT 'trigger ' || relname || '.' || tgname, pg_get_triggerdef(t.oid, true) || ' ' || tgenabled::text \
       FROM ours JOIN pg_trigger t ON tgrelid = ours.oid AND NOT tgisinternal \
     UNION ALL \
     SELECT 'rule ' || relname || '.' || rulename, pg_get_ruledef(r.oid, true) \
       FROM ours JOIN pg_rewrite r ON ev_class = ours.oid \
     UNION ALL \
     SELECT 'function ' || proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', \
         concat_ws(' ', sha256(convert_to(prosrc, 'UTF8'))::text, provolatile::text, proconfig::text) \
       FROM pg_proc p WHERE pronamespace = to_regnamespace(current_schema()) AND proname = ANY($2)";

/// How the schema of the database differs from what the migrations make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaDifference {
    /// The database does not have it.
    Missing {
        /// Such as `column objects.body`.
        what: String,
    },
    /// No migration makes it.
    Foreign {
        /// Such as `index objects.objects_by_age`.
        what: String,
        /// Its definition.
        is: String,
    },
    /// It is defined otherwise.
    Changed {
        /// Such as `constraint ledger.ledger_never_over_committed`.
        what: String,
        /// Its definition in the database.
        is: String,
        /// Its definition by the migrations.
        made: String,
    },
}

impl fmt::Display for SchemaDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { what } => write!(f, "{what} is missing"),
            Self::Foreign { what, is } => write!(f, "{what} is made by no migration: {is}"),
            Self::Changed { what, is, made } => write!(f, "{what} is {is}, but was made as {made}"),
        }
    }
}

/// Definitions by name.
type Definitions = BTreeMap<String, String>;

/// Compares the schema with this version's. `None` for a schema of another version: programs of that version compare
/// it.
pub(crate) async fn differences(url: &str) -> Result<Option<Vec<SchemaDifference>>, Error> {
    let mut connection = connect::connect(url, "schema").await.map_err(connect::unavailable)?;
    let compared = compare(&mut connection).await.map_err(connect::unavailable);
    migrate::close(connection).await;
    compared
}

async fn compare(connection: &mut PgConnection) -> Result<Option<Vec<SchemaDifference>>, sqlx::Error> {
    if !migrate::is_of_this_version(connection).await? {
        return Ok(None);
    }
    let current: String =
        sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&mut *connection).await?;
    let mut transaction = connection.begin().await?;
    let fresh = format!("store_{}", Uuid::new_v4().simple());
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {fresh}"))).execute(&mut *transaction).await?;
    set_search_path(&mut transaction, &fresh).await?;
    migrate::create_schema(&mut transaction).await?;
    let tables: Vec<String> =
        sqlx::query_scalar(TABLES).persistent(false).fetch_all(&mut *transaction).await?;
    let made = describe(&mut transaction, &tables).await?;
    set_search_path(&mut transaction, &current).await?;
    let is = describe(&mut transaction, &tables).await?;
    transaction.rollback().await?;
    Ok(Some(diff(made, is)))
}

async fn set_search_path(connection: &mut PgConnection, schema: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT set_config('search_path', quote_ident($1), true)")
        .persistent(false)
        .bind(schema)
        .execute(connection)
        .await
        .map(drop)
}

async fn describe(connection: &mut PgConnection, tables: &[String]) -> Result<Definitions, sqlx::Error> {
    let query = sqlx::query(DESCRIBE).persistent(false).bind(tables).bind(functions::names());
    let rows = query.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

fn diff(made: Definitions, mut is: Definitions) -> Vec<SchemaDifference> {
    let mut found = Vec::new();
    for (what, made) in made {
        match is.remove(&what) {
            Some(is) if is == made => {}
            Some(is) => found.push(SchemaDifference::Changed { what, is, made }),
            None => found.push(SchemaDifference::Missing { what }),
        }
    }
    found.extend(is.into_iter().map(|(what, is)| SchemaDifference::Foreign { what, is }));
    found
}
