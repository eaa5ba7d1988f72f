use crate::kit::{Kit, NOTES, Object, tenant_access};
use crate::outage::until_waiting;
use sqlx::Connection as _;
use sqlx::postgres::PgListener;
use std::sync::Arc;
use std::time::Duration;
use store::model::{Change, Write};
use store::{Access, Error, Revision, Store};

#[tokio::test]
async fn create_update_delete_leave_a_row_and_three_events() {
    let kit = Kit::new().await;
    let note = kit.create(Object::note("a")).await.unwrap();
    let note = kit.update(&note, |n| n.locked = true).await.unwrap();
    let (rv, create_rv, locked): (i64, i64, bool) =
        sqlx::query_as("SELECT rv, create_rv, locked FROM objects")
            .fetch_one(&mut kit.sql().await)
            .await
            .unwrap();
    assert!(create_rv < rv && locked);
    assert_eq!(Revision(u64::try_from(rv).unwrap()), note.revision);
    let deleted = kit.delete(&note).await.unwrap();
    assert!(deleted > note.revision);
    assert_eq!(kit.events().await, ["c a", "u a", "d a"]);
}

#[tokio::test]
async fn others_are_told_of_a_write_unless_the_queue_of_what_is_told_fills() {
    let kit = Kit::new().await;
    let mut listener = PgListener::connect(&kit.database.url).await.unwrap();
    listener.listen("store").await.unwrap();
    let mut told = async || {
        let heard = tokio::time::timeout(Duration::from_secs(30), listener.recv()).await;
        heard.unwrap().unwrap().payload().to_owned()
    };
    let note = kit.create(Object::note("a")).await.unwrap();
    assert!(told().await.starts_with(&format!("{} ", note.revision.0)));
    // Half of the real one is gigabytes.
    let full = "CREATE FUNCTION public.pg_notification_queue_usage() RETURNS float8 LANGUAGE sql AS 'SELECT 0.5::float8'; \
         DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$";
    let mut sql = kit.sql().await;
    sqlx::raw_sql(full).execute(&mut sql).await.unwrap();
    let other = Kit::on(kit.database.clone()).await;
    other.create(Object::note("b")).await.unwrap();
    sqlx::query("SELECT pg_notify('store', 'end')").execute(&mut sql).await.unwrap();
    assert_eq!(told().await, "end", "the write is made and nobody is told");
    other.stop().await;
}

#[tokio::test]
async fn a_create_of_a_taken_key_says_so_and_whether_it_is_being_deleted() {
    let kit = Kit::new().await;
    let note = kit.create(Object::note("a")).await.unwrap();
    let again = kit.create(Object::note("a")).await;
    assert!(matches!(again, Err(Error::AlreadyExists { deleting: false })), "{again:?}");
    kit.update(&note, |n| n.deleting = true).await.unwrap();
    let again = kit.create(Object::note("a")).await;
    assert!(matches!(again, Err(Error::AlreadyExists { deleting: true })), "{again:?}");
}

#[tokio::test]
async fn a_write_at_a_stale_revision_or_of_another_uid_conflicts() {
    let kit = Kit::new().await;
    let old = kit.create(Object::note("a")).await.unwrap();
    let new = kit.update(&old, |n| n.locked = true).await.unwrap();
    assert!(matches!(kit.update(&old, |_| ()).await, Err(Error::Conflict)));
    assert!(matches!(kit.delete(&old).await, Err(Error::Conflict)));
    let mut other = Object::note("a");
    other.revision = new.revision;
    assert!(matches!(kit.delete(&other).await, Err(Error::Conflict)));
    kit.delete(&new).await.unwrap();
    assert!(matches!(kit.delete(&new).await, Err(Error::NotFound)));
    assert_eq!(kit.events().await.len(), 3, "what was refused has left no event");
}

#[tokio::test]
async fn an_object_that_is_being_deleted_stays_so() {
    let kit = Kit::new().await;
    let note = kit.create(Object::note("a")).await.unwrap();
    let note = kit.update(&note, |n| n.deleting = true).await.unwrap();
    assert!(matches!(kit.update(&note, |n| n.deleting = false).await, Err(Error::Conflict)));
}

/// What waits while somebody holds the counter goes out as one batch.
#[tokio::test]
async fn a_batch_that_is_wrong_about_some_rows_gives_each_write_its_own_outcome() {
    let kit = Kit::new().await;
    let old = kit.create(Object::note("changed")).await.unwrap();
    let new = kit.update(&old, |n| n.locked = true).await.unwrap();
    let gone = kit.create(Object::note("gone")).await.unwrap();
    kit.delete(&gone).await.unwrap();
    let project = kit.create(Object::project("p", "", "c1: cpu=2")).await.unwrap();
    kit.create(Object::namespace("p", "n", "c1: cpu=1")).await.unwrap();
    let before = kit.events().await.len();

    let mut lock = kit.sql().await;
    let mut held = lock.begin().await.unwrap();
    sqlx::query("SELECT FROM rev FOR UPDATE").execute(&mut *held).await.unwrap();
    let mut sql = kit.sql().await;
    let releasing = async {
        until_waiting(&mut sql, "Lock", 1).await;
        held.rollback().await.unwrap();
    };
    let (first, made, taken, stale, late, fits, raised, ()) = tokio::join!(
        kit.create(Object::note("first")),
        kit.create(Object::note("made")),
        kit.create(Object::note("changed")),
        kit.update(&old, |n| n.deleting = true),
        kit.delete(&gone),
        kit.create(Object::namespace("p", "fits", "c1: cpu=1")),
        kit.update(&project, |p| p.limit("c1: cpu=3")),
        releasing,
    );
    first.unwrap();
    made.unwrap();
    assert!(matches!(taken, Err(Error::AlreadyExists { deleting: false })), "{taken:?}");
    assert!(matches!(stale, Err(Error::Conflict)), "{stale:?}");
    assert!(matches!(late, Err(Error::NotFound)), "{late:?}");
    fits.unwrap();
    raised.unwrap();
    assert_eq!(kit.events().await[before..], ["c first", "c made", "c p/fits", "u p"]);
    kit.delete(&new).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn of_sixteen_writers_of_one_revision_one_succeeds() {
    let kit = Arc::new(Kit::new().await);
    let note = kit.create(Object::note("a")).await.unwrap();
    let writers = (0..16).map(|_| kit.update(&note, |n| n.locked = true));
    let results = futures_util::future::join_all(writers).await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    assert!(results.iter().all(|r| matches!(r, Ok(_) | Err(Error::Conflict))));
}

#[tokio::test]
async fn revisions_of_acknowledged_writes_are_the_events() {
    let kit = Arc::new(Kit::new().await);
    let names: Vec<String> = (0..700).map(|n| format!("n{n}")).collect();
    let writers = names.iter().map(|name| kit.create(Object::note(name)));
    let created = futures_util::future::join_all(writers).await;
    let events: Vec<(i64, String)> = sqlx::query_as("SELECT rv, name FROM events ORDER BY rv")
        .fetch_all(&mut kit.sql().await)
        .await
        .unwrap();
    assert_eq!(events.len(), 700);
    for object in created {
        let object = object.unwrap();
        let rv = i64::try_from(object.revision.0).unwrap();
        assert!(events.contains(&(rv, object.name)));
    }
    let newest: i64 = sqlx::query_scalar("SELECT v FROM rev").fetch_one(&mut kit.sql().await).await.unwrap();
    assert!(newest >= events.last().unwrap().0);
}

#[tokio::test]
async fn what_a_caller_does_not_see_does_not_exist_for_his_writes() {
    let kit = Kit::new().await;
    let note = kit.create(Object::note("a")).await.unwrap();
    let (stranger, owner) = (tenant_access("u").await, tenant_access("t").await);
    let try_it = |access: Access, write: Write| {
        let store: Store = kit.store.clone();
        async move { store.write(&access, write).await }
    };
    assert!(matches!(try_it(stranger.clone(), note.delete()).await, Err(Error::NotFound)));
    assert!(matches!(try_it(stranger, Object::note("b").create()).await, Err(Error::NotFound)));
    assert!(try_it(owner, note.delete()).await.is_ok());
}

#[tokio::test]
async fn a_body_that_postgresql_refuses_fails_alone() {
    let kit = Kit::new().await;
    let mut bad = Object::note("bad").create();
    if let Change::Create(state) = &mut bad.change {
        state.body = "\0".to_owned();
    }
    assert_eq!(bad.key.kind, NOTES);
    let good: Vec<Object> = (0..20).map(|n| Object::note(&format!("n{n}"))).collect();
    let good = good.iter().map(|note| kit.create(note.clone()));
    let (bad, good) = tokio::join!(kit.write(bad), futures_util::future::join_all(good));
    assert!(matches!(bad, Err(Error::Corrupt(_))), "{bad:?}");
    assert!(good.iter().all(Result::is_ok));
}
