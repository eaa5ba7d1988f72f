//! How many blocks one batch reads, however large the tables are.

use crate::kit::{Kit, Object};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

/// Enough old versions, or objects, for dozens of blocks.
const BATCHES: i64 = 2000;
/// Most blocks of a table that one batch may read.
const BLOCKS_MAX: i64 = 8;
/// Arrays of the function that describe quota; all are empty here.
const NO_QUOTA: usize = 25;

/// A call of the function with one create without quota. `checked`: the function reads the row before it writes.
fn create(seq: &str, name: &str, checked: bool) -> String {
    let no_quota = ", '{}'".repeat(NO_QUOTA);
    format!(
        "apply_batch_former('{}', {seq}, 10000, false, false, false, '{{}}', '{{}}', true, false, {}, \
         ARRAY['c']::\"char\"[], ARRAY[3]::smallint[], ARRAY[''], ARRAY[{name}], ARRAY[gen_random_uuid()], \
         ARRAY[0]::bigint[], ARRAY['t'], ARRAY[NULL]::smallint[], ARRAY[NULL]::text[], ARRAY[false], ARRAY[false], \
         ARRAY[NULL]::text[], ARRAY['{{}}']{no_quota})",
        Uuid::from_u128(7),
        if checked { "'{}'" } else { "NULL" }
    )
}

/// The functions under a name that does not change with their text.
async fn kit() -> Kit {
    let database = store::testing::database().await.unwrap();
    database.install_former().await.unwrap();
    Kit::on(database).await
}

/// The number of blocks of a table that a transaction has read.
async fn touched(transaction: &mut PgConnection, table: &str) -> i64 {
    sqlx::query_scalar("SELECT pg_stat_get_xact_blocks_fetched($1::regclass)")
        .bind(table)
        .fetch_one(transaction)
        .await
        .unwrap()
}

/// Somebody keeps a snapshot, as `pg_dump` does, and PostgreSQL cleans up no version of any row meanwhile.
#[tokio::test]
async fn no_batch_passes_the_versions_that_a_snapshot_keeps() {
    let kit = kit().await;
    kit.create(Object::note("first")).await.unwrap();
    let mut foreign = kit.sql().await;
    sqlx::raw_sql("SET idle_in_transaction_session_timeout = 0").execute(&mut foreign).await.unwrap();
    let mut kept = foreign.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await.unwrap();
    sqlx::query("SELECT count(*) FROM objects").execute(&mut *kept).await.unwrap();

    let mut sql = kit.sql().await;
    sqlx::raw_sql("SET statement_timeout = 0").execute(&mut sql).await.unwrap();
    let many = format!(
        "DO $$ BEGIN FOR n IN 1..{BATCHES} LOOP PERFORM {}; COMMIT; END LOOP; END $$",
        create("n", "'o' || n", false)
    );
    sqlx::raw_sql(AssertSqlSafe(many)).execute(&mut sql).await.unwrap();

    // What was counted until now is reported when the session is idle; then the transaction's own counts are left.
    sqlx::query("SELECT pg_stat_force_next_flush()").execute(&mut sql).await.unwrap();
    let mut transaction = sql.begin().await.unwrap();
    let one = format!("SELECT {}", create(&(BATCHES + 1).to_string(), "'last'", true));
    sqlx::raw_sql(AssertSqlSafe(one)).execute(&mut *transaction).await.unwrap();
    for table in ["rev", "batches"] {
        let touched = touched(&mut transaction, table).await;
        assert!(touched <= BLOCKS_MAX, "{touched} blocks of {table}");
    }
    transaction.commit().await.unwrap();
    kept.rollback().await.unwrap();
    kit.create(Object::note("after")).await.unwrap();
    kit.stop().await;
}

/// The plans of a session are made at its first batch, and kept.
#[tokio::test]
async fn a_plan_that_was_made_for_an_empty_table_does_not_read_a_full_one() {
    let kit = kit().await;
    let mut sql = kit.sql().await;
    sqlx::raw_sql("ANALYZE objects").execute(&mut sql).await.unwrap();
    let create = |seq: i64| {
        let checked = seq % 2 == 0;
        AssertSqlSafe(format!("SELECT {}", create(&seq.to_string(), &format!("'o{seq}'"), checked)))
    };
    for seq in 1..=2 {
        sqlx::raw_sql(create(seq)).execute(&mut sql).await.unwrap();
    }
    let many = format!(
        "INSERT INTO objects SELECT 3, '', 'n' || i, gen_random_uuid(), 0, 0, 't', NULL, NULL, false, false, repeat('x', 500) \
         FROM generate_series(1, {BATCHES}) i; SELECT pg_stat_force_next_flush()"
    );
    sqlx::raw_sql(AssertSqlSafe(many)).execute(&mut sql).await.unwrap();

    for seq in 3..=4 {
        let mut transaction = sql.begin().await.unwrap();
        sqlx::raw_sql(create(seq)).execute(&mut *transaction).await.unwrap();
        let touched = touched(&mut transaction, "objects").await;
        assert!(touched <= BLOCKS_MAX, "{touched} blocks of objects");
        transaction.commit().await.unwrap();
        sqlx::query("SELECT pg_stat_force_next_flush()").execute(&mut sql).await.unwrap();
    }
    kit.stop().await;
}
