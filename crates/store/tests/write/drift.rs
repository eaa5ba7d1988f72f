//! A schema that somebody has changed by hand.

use crate::kit::kinds;
use runtime::{Metrics, Tasks};
use store::testing::{Database, database};
use store::{Config, Store};

async fn differences(database: &Database) -> Option<Vec<String>> {
    let tasks = Tasks::new();
    let store = Store::open(Config::new(&database.url), kinds(), &tasks, &Metrics::new()).unwrap();
    let found = store.schema_differences().await.unwrap();
    tasks.cancel();
    found.map(|found| found.iter().map(ToString::to_string).collect())
}

async fn change(database: &Database, sql: &'static str) {
    sqlx::raw_sql(sql).execute(&mut database.connect().await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn what_somebody_has_changed_of_the_schema_is_told() {
    let database = database().await.unwrap();
    assert_eq!(differences(&database).await.unwrap(), [""; 0]);
    change(
        &database,
        "ALTER TABLE ledger DROP CONSTRAINT ledger_never_over_committed; \
         ALTER TABLE events SET UNLOGGED; \
         ALTER TABLE objects ADD COLUMN remark text DEFAULT 'none'; \
         CREATE INDEX mine ON objects (tenant); \
         CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER swallow BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION nothing(); \
         CREATE TABLE somebody_elses (id int); \
         DO $$ DECLARE f text; BEGIN \
           SELECT pg_get_functiondef(oid) INTO f FROM pg_proc WHERE proname LIKE 'write_off_%'; \
           EXECUTE replace(f, 'BEGIN', 'BEGIN PERFORM 1;'); END $$",
    )
    .await;
    let told = differences(&database).await.unwrap();
    let begins = [
        "constraint ledger.ledger_never_over_committed is missing",
        "function write_off_",
        "table events is unlogged, but was made as logged",
        "column objects.remark is made by no migration: text default 'none'::text",
        "index objects.mine is made by no migration: CREATE INDEX mine ON objects USING btree (tenant)",
        "trigger events.swallow is made by no migration: CREATE TRIGGER swallow",
    ];
    assert_eq!(told.len(), begins.len(), "{told:#?}");
    for (told, begin) in told.iter().zip(begins) {
        assert!(told.starts_with(begin), "{told}");
    }
}

#[tokio::test]
async fn a_schema_of_another_version_is_not_judged() {
    let database = database().await.unwrap();
    change(
        &database,
        "INSERT INTO _sqlx_migrations SELECT 99990101000000, 'later', now(), true, '', 0; \
         ALTER TABLE objects ADD COLUMN later text",
    )
    .await;
    assert_eq!(differences(&database).await, None);
}
