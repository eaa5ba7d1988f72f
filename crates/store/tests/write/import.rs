use crate::kit::{Bodies, Kit, Object, amounts, refused, scope};
use std::slice::from_ref;
use store::hold::Hold;
use store::import::{IMPORTED, Imported};
use store::quota::{Claim, HoldState};
use store::repair::Repair;
use store::{Error, Revision};
use uuid::Uuid;

fn imported(object: &Object) -> Imported {
    Imported { key: object.key(), uid: object.uid, state: object.state() }
}

async fn begun() -> Kit {
    let kit = Kit::new().await;
    assert!(kit.store.begin_import(&kit.access).await.unwrap());
    kit
}

#[tokio::test]
async fn what_is_imported_counts_whatever_the_limits_say_and_then_takes_nothing_new() {
    let kit = begun().await;
    let top = Object::project("top", "", "c1: cpu=4");
    let sub = Object::project("sub", "top", "c1: cpu=3");
    let web = Object::namespace("sub", "web", "c1: cpu=5");
    kit.store.import(&kit.access, &[top, sub].each_ref().map(imported)).await.unwrap();
    kit.store.import(&kit.access, &[imported(&web)]).await.unwrap();
    kit.check().await;
    let ledger = kit.ledger().await;
    assert!(ledger.contains(&"sub/c1/cpu 0 0 1 3 5".to_owned()), "{ledger:?}");
    assert!(ledger.contains(&"top/c1/cpu 0 0 1 4 5".to_owned()), "3, and 2 above them: {ledger:?}");
    assert_eq!(kit.events().await, ["c top", "c sub", "c sub/web"]);

    kit.store.finish_import(&kit.access).await.unwrap();
    let hold = kit.store.growth_hold(&kit.access).await.unwrap().unwrap();
    assert!(hold.reason == IMPORTED && hold.waits_for_audit());
    let more = Object::namespace("sub", "more", "c1: cpu=1");
    assert!(matches!(kit.create(more.clone()).await, Err(Error::Held)));
    assert!(kit.store.release_growth(&kit.access, &hold).await.unwrap());
    assert_eq!(refused(kit.create(more).await).len(), 1);
    kit.check().await;
}

#[tokio::test]
async fn a_batch_is_imported_whole_or_not_at_all() {
    let kit = begun().await;
    let (p, q) = (Object::project("p", "", "c1: cpu=4"), Object::project("q", "", "c1: cpu=4"));
    let web = Object::namespace("p", "web", "c1: cpu=1");
    kit.store.import(&kit.access, &[imported(&p), imported(&web)]).await.unwrap();
    let before = kit.ledger().await;
    let same_key = kit.store.import(&kit.access, &[imported(&q), imported(&p)]).await;
    assert!(matches!(same_key, Err(Error::AlreadyExists { .. })), "{same_key:?}");
    let mut same_place = Object::namespace("q", "other", "c1: cpu=1");
    same_place.claim.clone_from(&web.claim);
    let taken = kit.store.import(&kit.access, &[imported(&q), imported(&same_place)]).await;
    assert!(matches!(taken, Err(Error::AlreadyExists { .. })), "{taken:?}");
    let lost = Object::namespace("nowhere", "lost", "c1: cpu=1");
    assert!(kit.store.import(&kit.access, &[imported(&q), imported(&lost)]).await.is_err());
    assert_eq!(kit.ledger().await, before);
    assert_eq!(kit.store.existing_objects(&kit.access).await.unwrap().len(), 2);
    kit.check().await;
}

/// An audit of the one before may end while the next is under way.
#[tokio::test]
async fn the_audit_of_an_import_lets_nothing_grow_in_the_midst_of_the_next() {
    let kit = begun().await;
    kit.store.finish_import(&kit.access).await.unwrap();
    let audited = kit.store.growth_hold(&kit.access).await.unwrap().unwrap();
    assert!(kit.store.begin_import(&kit.access).await.unwrap());
    assert!(!kit.store.release_growth(&kit.access, &audited).await.unwrap());
    assert!(
        !kit.store.hold_growth(&kit.access, "maintenance").await.unwrap(),
        "it is held already, until it is whole"
    );
    let ended = kit.store.resume_growth(&kit.access).await;
    assert!(matches!(ended, Err(Error::Importing)), "{ended:?}");
    let p = imported(&Object::project("p", "", "c1: cpu=4"));
    kit.store.import(&kit.access, from_ref(&p)).await.unwrap();
    assert!(matches!(kit.create(Object::namespace("p", "web", "c1: cpu=1")).await, Err(Error::Held)));
    kit.check().await;
}

/// What TKE was deleting comes with its project first, and whoever ends it looks at what has come so far.
#[tokio::test]
async fn a_scope_stays_until_everything_that_was_imported_into_it_is_there() {
    let kit = begun().await;
    let mut p = Object::project("p", "", "c1: cpu=4");
    p.deleting = true;
    kit.store.import(&kit.access, &[imported(&p)]).await.unwrap();
    let revision = "SELECT rv FROM objects WHERE name = 'p'";
    let revision: i64 = sqlx::query_scalar(revision).fetch_one(&mut kit.sql().await).await.unwrap();
    p.revision = Revision(revision.try_into().unwrap());
    let early = kit.delete(&p).await;
    assert!(matches!(early, Err(Error::Importing)), "{early:?}");
    let note = kit.create(Object::note("a note")).await.unwrap();
    kit.delete(&note).await.unwrap();
    let mut web = Object::namespace("p", "web", "c1: cpu=1");
    web.deleting = true;
    kit.store.import(&kit.access, &[imported(&web)]).await.unwrap();
    kit.store.finish_import(&kit.access).await.unwrap();
    assert_eq!(refused(kit.delete(&p).await).len(), 1, "something lies in it");
    kit.check().await;
}

/// What was sealed for an object that is to come again is an orphan until it is there.
#[tokio::test]
async fn nothing_is_held_for_a_place_whose_object_may_come_with_the_next_batch() {
    let kit = begun().await;
    let (p, web) = (Object::project("p", "", "c1: cpu=4"), Object::namespace("p", "web", "c1: cpu=1"));
    kit.store.import(&kit.access, &[imported(&p)]).await.unwrap();
    let lost = Hold {
        uid: Uuid::new_v4(),
        scope: scope("p"),
        claim: Some(Claim { domain: "c1".to_owned(), place: "web".to_owned() }),
        amounts: amounts("c1: cpu=1"),
        state: HoldState::Orphaned,
        reason: "found".to_owned(),
    };
    let early = kit.store.hold(&kit.access, &lost).await;
    assert!(matches!(early, Err(Error::Importing)), "{early:?}");
    kit.store.import(&kit.access, &[imported(&web)]).await.unwrap();
    kit.check().await;
    kit.store.finish_import(&kit.access).await.unwrap();
    kit.store.hold(&kit.access, &lost).await.unwrap();
}

#[tokio::test]
async fn nothing_is_imported_unless_growth_is_held_for_it() {
    let kit = Kit::new().await;
    let p = imported(&Object::project("p", "", "c1: cpu=4"));
    assert!(kit.store.import(&kit.access, from_ref(&p)).await.is_err());
    assert!(kit.store.hold_growth(&kit.access, "maintenance").await.unwrap());
    assert!(!kit.store.begin_import(&kit.access).await.unwrap(), "somebody else's hold stays his");
    assert_eq!(kit.store.resume_growth(&kit.access).await.unwrap(), None);
    assert!(kit.store.begin_import(&kit.access).await.unwrap());
    assert!(kit.store.begin_import(&kit.access).await.unwrap(), "one that was killed begins again");
    kit.store.import(&kit.access, from_ref(&p)).await.unwrap();
    assert_eq!(kit.store.repair(&kit.access, &Bodies, None, Repair::Rebuild).await.unwrap(), []);
}
