//! Objects that go elsewhere: charged to the one or to the other, never to neither or both.

use crate::kit::{Kit, NAMESPACES, Object, refused};
use crate::outage::{terminate_writer, until_waiting};
use meta::selector::{FieldSelector, LabelSelector};
use sqlx::Connection as _;
use std::time::Duration;
use store::quota::Violation;
use store::read::{At, ListQuery, Op, Selection, WatchFrom, WatchItem, WatchQuery};
use store::{Error, Revision};

async fn two_projects(kit: &Kit) {
    kit.create(Object::project("a", "", "c1: cpu=4")).await.unwrap();
    kit.create(Object::project("b", "", "c1: cpu=2")).await.unwrap();
}

fn selection(namespace: Option<&str>) -> Selection {
    Selection {
        kind: NAMESPACES,
        namespace: namespace.map(str::to_owned),
        labels: LabelSelector::default(),
        fields: FieldSelector::default(),
    }
}

async fn claims(kit: &Kit) -> Vec<String> {
    let query = "SELECT concat_ws(' ', domain, place, uid) FROM claims ORDER BY 1";
    sqlx::query_scalar(query).fetch_all(&mut kit.sql().await).await.unwrap()
}

#[tokio::test]
async fn a_move_is_a_deletion_at_one_revision_and_a_creation_at_the_next() {
    let kit = Kit::new().await;
    kit.until("the cache is filled", || kit.store.synced()).await;
    two_projects(&kit).await;
    let web = kit.create(Object::namespace("a", "web", "c1: cpu=2")).await.unwrap();
    let claimed = claims(&kit).await;
    let query =
        |namespace| WatchQuery { selection: selection(namespace), from: WatchFrom::After(web.revision) };
    let mut watches = Vec::new();
    for namespace in [None, Some("a"), Some("b")] {
        watches.push(kit.store.watch(&kit.access, &query(namespace)).await.unwrap());
    }
    let moved = kit.relocate(&web, "b").await.unwrap();
    assert_eq!(moved.revision, Revision(web.revision.0 + 2), "it takes two revisions and tells the last");
    let left = format!("Deleted a/web {}", web.revision.0 + 1);
    let came = format!("Added b/web {}", moved.revision);
    let expected = [vec![left.clone(), came.clone()], vec![left], vec![came]];
    for (watch, expected) in watches.iter_mut().zip(expected) {
        for line in expected {
            assert_eq!(next(watch).await, line);
        }
    }
    let ledger = kit.ledger().await;
    assert!(ledger.contains(&"a/c1/cpu 0 0 0 4 0".to_owned()), "{ledger:?}");
    assert!(ledger.contains(&"b/c1/cpu 0 0 1 2 2".to_owned()), "{ledger:?}");
    assert_eq!(claims(&kit).await, claimed, "it keeps what it claims");
    let row: (String, String, i64, i64) =
        sqlx::query_as("SELECT namespace, scope, rv, create_rv FROM objects WHERE name = 'web'")
            .fetch_one(&mut kit.sql().await)
            .await
            .unwrap();
    let at = i64::try_from(moved.revision.0).unwrap();
    assert_eq!(row, ("b".to_owned(), "b".to_owned(), at, at));
    let before = ListQuery {
        selection: selection(None),
        at: At::Exact(web.revision),
        limit: None,
        continue_token: None,
    };
    let page = kit.store.list(&kit.access, &before).await.unwrap();
    assert_eq!(page.items.iter().map(|entry| &*entry.key.namespace).collect::<Vec<_>>(), ["a"]);
    kit.check().await;
    // and back, so that nothing of the first journey is in the way
    let back = kit.relocate(&moved, "a").await.unwrap();
    kit.delete(&back).await.unwrap();
    assert!(claims(&kit).await.is_empty());
    kit.check().await;
}

async fn next(watch: &mut store::Watch) -> String {
    match tokio::time::timeout(Duration::from_secs(30), watch.next()).await.unwrap().unwrap() {
        WatchItem::Event { op, entry, .. } => {
            let op = match op {
                Op::Added => "Added",
                Op::Modified => "Modified",
                Op::Deleted => "Deleted",
            };
            let stored: Object = serde_json::from_slice(&entry.body).unwrap();
            assert_eq!(stored.namespace, &*entry.key.namespace, "the body of its place");
            format!("{op} {}/{} {}", entry.key.namespace, entry.key.name, entry.revision)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_does_not_go_stays_whole() {
    let kit = Kit::new().await;
    two_projects(&kit).await;
    let large = kit.create(Object::namespace("a", "large", "c1: cpu=3")).await.unwrap();
    let web = kit.create(Object::namespace("a", "web", "c1: cpu=1")).await.unwrap();
    let mut other = Object::namespace("b", "web", "c1: cpu=1");
    other.claim = Some(("c1".to_owned(), "another".to_owned()));
    kit.create(other).await.unwrap();
    let events = kit.events().await;
    let told = refused(kit.relocate(&large, "b").await);
    assert!(matches!(&told[..], [Violation::DoesNotFit(_)]), "{told:?}");
    let told = refused(kit.relocate(&large, "nobody").await);
    assert!(matches!(&told[..], [Violation::ScopeMissing { .. }]), "{told:?}");
    let taken = kit.relocate(&web, "b").await;
    assert!(matches!(taken, Err(Error::AlreadyExists { deleting: false })), "{taken:?}");
    let stale = Object { revision: Revision(web.revision.0 - 1), ..web.clone() };
    assert!(matches!(kit.relocate(&stale, "b").await, Err(Error::Conflict)));
    for object in [&large, &web] {
        let dry = kit.store.check(&kit.access, object.relocate(&object.in_project("b"))).await;
        assert!(dry.is_err(), "a rehearsal decides the same");
    }
    let same_place = kit.write(web.relocate(&web)).await;
    assert!(matches!(same_place, Err(Error::NotAdmitted)), "{same_place:?}");
    let small = web.relocate(&web.in_project("b"));
    let status = kit.write(store::model::Write { growth: store::model::Growth::Refused, ..small }).await;
    assert!(matches!(status, Err(Error::NotAdmitted)), "only a main write charges another scope");
    let going = kit.update(&web, |o| o.deleting = true).await.unwrap();
    let moved = kit.relocate(&going, "b").await;
    assert!(matches!(moved, Err(Error::NotAdmitted)), "what is being deleted stays where it is: {moved:?}");
    assert_eq!(kit.events().await.len(), events.len() + 1);
    kit.check().await;
}

#[tokio::test]
async fn a_shut_scope_lets_its_objects_go_and_takes_none() {
    let kit = Kit::new().await;
    two_projects(&kit).await;
    for shut in [|o: &mut Object| o.locked = true, |o: &mut Object| o.deleting = true] {
        let name = format!("shut{}", kit.events().await.len());
        let project = kit.create(Object::project(&name, "", "c1: cpu=4")).await.unwrap();
        let inside = kit.create(Object::namespace(&name, &format!("in-{name}"), "c1: cpu=1")).await.unwrap();
        let outside = kit.create(Object::namespace("a", &format!("out-{name}"), "c1: cpu=1")).await.unwrap();
        kit.update(&project, shut).await.unwrap();
        let told = refused(kit.relocate(&outside, &name).await);
        assert!(
            matches!(&told[..], [Violation::ScopeLocked { .. } | Violation::ScopeTerminating { .. }]),
            "{told:?}"
        );
        kit.relocate(&inside, "b").await.unwrap();
    }
    kit.check().await;
}

/// Whoever decides from the old place is told so.
#[tokio::test]
async fn of_a_move_and_a_change_at_once_one_is_made() {
    let kit = Kit::new().await;
    two_projects(&kit).await;
    for round in 0..8 {
        let web = Object::namespace("a", &format!("w{round}"), "c1: cpu=1");
        let web = kit.create(web).await.unwrap();
        let (moved, raised) =
            tokio::join!(kit.relocate(&web, "b"), kit.update(&web, |o| o.hard("c1: cpu=2")));
        let left = match (moved, raised) {
            (Ok(moved), Err(Error::Conflict | Error::NotFound)) => moved,
            (Err(Error::Conflict), Ok(raised)) => raised,
            other => panic!("{other:?}"),
        };
        kit.check().await;
        kit.delete(&left).await.unwrap();
    }
}

/// The last room of a scope, wanted by a move and by creates of two other places.
#[tokio::test]
async fn the_last_room_is_given_once() {
    let kit = Kit::new().await;
    two_projects(&kit).await;
    let other = Kit::on(kit.database.clone()).await;
    let a = kit.create(Object::namespace("a", "x", "c1: cpu=2")).await.unwrap();
    let moves = kit.relocate(&a, "b");
    let creates = (0..4).map(|n| other.create(Object::namespace("b", &format!("n{n}"), "c1: cpu=2")));
    let (moved, created) = tokio::join!(moves, futures_util::future::join_all(creates));
    let made = created.iter().filter(|result| result.is_ok()).count() + usize::from(moved.is_ok());
    assert_eq!(made, 1, "{moved:?} {created:?}");
    kit.check().await;
}

#[tokio::test]
async fn a_move_whose_backend_is_terminated_is_made_once() {
    let kit = Kit::new().await;
    two_projects(&kit).await;
    let web = kit.create(Object::namespace("a", "web", "c1: cpu=2")).await.unwrap();
    let (mut lock, mut sql) = (kit.sql().await, kit.sql().await);
    let mut held = lock.begin().await.unwrap();
    sqlx::query("SELECT FROM rev FOR UPDATE").execute(&mut *held).await.unwrap();
    let disturbing = async {
        until_waiting(&mut sql, "Lock", 1).await;
        terminate_writer(&mut sql).await;
        until_waiting(&mut sql, "Lock", 1).await;
        held.rollback().await.unwrap();
    };
    let (moved, ()) = tokio::join!(kit.relocate(&web, "b"), disturbing);
    moved.unwrap();
    assert_eq!(kit.events().await[3..], ["d a/web", "c b/web"]);
    kit.check().await;
}
