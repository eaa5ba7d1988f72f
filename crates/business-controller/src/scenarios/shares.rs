//! Shares that are gained and lost: what is followed, what is remembered, and how old our view may be.

use crate::dial::Dialer;
use crate::directory::description::ClusterDescription;
use crate::directory::{Directory, DirectorySource, ListedCluster, Listing};
use crate::dispatch;
use crate::error::Error;
use crate::fixtures::server::{Link, Passage};
use crate::fixtures::world::{NAMESPACE, OBJECT, World};
use crate::fixtures::{CLUSTER_UID, pending};
use crate::kinds::{ChangeSource, ObjectKey as _, ProjectKey};
use crate::member::recount::RECOUNT;
use crate::member::{Member, Reach, session};
use crate::members::Lookup;
use crate::outcome::PassOutcome;
use crate::seal::key_manager::KeyManager;
use crate::shares::elector::ShareCallbacks as _;
use crate::shares::{Share, ShareState};
use business_types::NamespacePhase;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use runtime::Tasks;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

fn post(world: &World) -> Arc<ShareState> {
    Arc::clone(world.cx.shares.state(Share::Clusters(0)))
}

/// The member cluster as a new holder of its share follows it.
fn new_member(world: &World) -> Arc<Member> {
    let member = Member::new("c1", CLUSTER_UID, world.server.client(), &post(world), RECOUNT);
    member.observed.begin_namespace_list();
    member.observed.end_namespace_list();
    member.observed.begin_quota_list();
    member.observed.end_quota_list();
    world.cx.members.insert(Arc::clone(&member));
    member
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_has_let_go_is_not_made_again() {
    let world = World::new();
    world.lists_all();
    world.holds(&pending(&[("pods", "3")]));
    let view = world.seen();
    // The former holder has finalized the object, and our watch has not delivered that yet.
    world.server.remove(OBJECT);
    let member = new_member(&world);
    session::load_acquisition_snapshot(&world.cx, &member).await;
    assert_eq!(member.reach(), Reach::Reachable);
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::NotBegun(_)));
    world.cx.objects.namespaces.remove(&view);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Skipped);
    assert!(world.server.find(NAMESPACE).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_had_come_and_gone_before_our_watch_told_of_it_is_not_made() {
    let world = World::new();
    world.lists_all();
    world.holds(&pending(&[("pods", "3")]));
    let view = world.seen();
    // Our watch has delivered neither the object nor its end.
    world.cx.objects.namespaces.remove(&view);
    world.server.remove(OBJECT);
    let member = new_member(&world);
    session::load_acquisition_snapshot(&world.cx, &member).await;
    world.cx.objects.namespaces.upsert(view.clone(), ChangeSource::WatchEvent);
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::NotBegun(_)));
    assert!(world.server.find(NAMESPACE).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_of_before_the_term_may_have_been_written_for() {
    let world = World::new();
    world.lists_all();
    let untried = |world: &World| world.has_untried("u");
    let view = pending(&[("pods", "3")]);
    world.is_born(&view);
    assert!(untried(&world));
    // The share is lost and gained again.
    post(&world).begin_drain();
    world.cx.stopped(Share::Clusters(0));
    post(&world).stop();
    assert!(!untried(&world), "what was known of it counts no more");
    post(&world).start();
    let member = new_member(&world);
    session::load_acquisition_snapshot(&world.cx, &member).await;
    let seen = world.seen();
    world.cx.objects.namespaces.remove(&seen);
    world.sees(&seen);
    crate::controller::Controller::changed(
        &world.cx,
        &crate::kinds::ViewChange::<crate::namespace::kind::BusinessNamespace> {
            old: None,
            new: Some(Arc::new(seen)),
            source: ChangeSource::WatchEvent,
        },
    );
    assert!(
        !untried(&world),
        "it was there when the share was taken: a former holder may have written for it"
    );
    world.is_born(&view);
    assert!(untried(&world), "it was made since");
}

/// Its former cluster is followed until the directory has noticed the change.
#[tokio::test]
async fn a_name_whose_record_was_made_anew_stands_for_no_cluster() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    assert!(matches!(world.cx.member("c1"), Lookup::Found(_)));
    world.knows_cluster(&json!({ "metadata": { "uid": "m2" }, "spec": {}, "status": { "uid": "" } }));
    assert!(matches!(world.cx.member("c1"), Lookup::NotLoaded));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Waiting);
    assert!(world.server.find(NAMESPACE).is_none(), "nothing is written to the former one");
    world
        .knows_cluster(&json!({ "metadata": { "uid": "m2" }, "spec": {}, "status": { "uid": CLUSTER_UID } }));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
}

/// A cluster whose share is lost is followed until the directory has noticed that.
#[tokio::test(start_paused = true)]
async fn what_is_born_in_a_share_that_is_not_ours_may_have_been_written_for() {
    for goes in ["before", "after"] {
        let world = World::new();
        world.lists_all();
        if goes == "after" {
            world.is_born(&pending(&[("pods", "3")]));
            assert!(world.has_untried("u"));
        }
        post(&world).begin_drain();
        if goes == "before" {
            world.cx.stopped(Share::Clusters(0));
        }
        post(&world).stop();
        if goes == "before" {
            assert!(matches!(world.cx.member("c1"), Lookup::Found(_)));
            world.is_born(&pending(&[("pods", "3")]));
        }
        assert!(!world.has_untried("u"), "the share goes {goes} it is born");
        // The holder in between creates the namespace, and the answer is lost.
        let metadata = json!({ "name": "web", "uid": "his", "creationTimestamp": "2026-01-01T00:00:00Z" });
        world.server.put(NAMESPACE, &json!({ "metadata": metadata }));
        world.holds(&world.seen().ending());
        post(&world).start();
        let member = new_member(&world);
        session::load_acquisition_snapshot(&world.cx, &member).await;
        world.pass().await.unwrap();
        let status = &world.stored(OBJECT)["status"];
        assert_eq!(status["cachedSpecHard"], json!({ "pods": "3" }), "goes {goes}: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_cluster_that_came_to_us_what_was_changed_meanwhile_goes_first() {
    let world = World::new();
    let settled = |name: &str| {
        let mut view = pending(&[("pods", "3")]);
        view.key = ProjectKey::new(Some("p"), name);
        view.uid = name.to_owned();
        view.spec.namespace = name.to_owned();
        view.status.phase = NamespacePhase::Available;
        view.status.observed_generation = Some(view.generation);
        view
    };
    world.sees(&settled("a"));
    world.sees(&settled("b").asks(&[("pods", "4")]));
    world.sees(&settled("c"));
    world.woken();
    dispatch::cluster_changed(&world.cx, "c1");
    let woken = world.woken();
    let mut namespaces = woken.iter().filter(|key| key.contains("p/"));
    assert_eq!(namespaces.next().unwrap(), "p/b", "{woken:?}");
    assert_eq!(namespaces.count(), 2);
}

/// A directory with one cluster, which does not answer.
#[derive(Debug)]
struct OneCluster;

impl DirectorySource for OneCluster {
    fn load(&self) -> BoxFuture<'_, Result<Listing, Error>> {
        let one = ListedCluster {
            name: "c1".to_owned(),
            config: kube::Config::new("http://127.0.0.1:1".parse().unwrap()),
            fingerprint: "one".to_owned(),
            version: "v1".to_owned(),
            entry: ClusterDescription::imported(),
            agents_end: None,
        };
        async { Ok(Listing { clusters: vec![one], ..Listing::default() }) }.boxed()
    }

    fn period(&self) -> Duration {
        Duration::from_mins(10)
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_followed_as_long_as_its_share_is_ours_and_each_time_anew() {
    let world = World::new();
    world.cx.members.remove("c1");
    let post = post(&world);
    post.begin_drain();
    post.stop();
    world.knows_cluster(&json!({ "metadata": { "uid": "m" }, "spec": {}, "status": { "uid": CLUSTER_UID } }));
    world.lists_all();
    let dialer = Dialer::new(None);
    let directory = Directory::new(Arc::clone(&world.cx), Box::new(OneCluster), dialer);
    let tasks = Tasks::new();
    tasks.spawn("directory", directory.run());
    let found = |term: u64| matches!(world.cx.member("c1"), Lookup::Found(member) if member.term == term);
    let until = async |is_so: &dyn Fn() -> bool| {
        timeout(Duration::from_secs(10), async {
            while !is_so() {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .unwrap();
    };
    until(&|| world.cx.members.is_read()).await;
    sleep(Duration::from_secs(1)).await;
    assert!(world.cx.members.all().is_empty(), "its share is not ours");
    assert!(matches!(world.cx.member("c1"), Lookup::NotLoaded));
    for term in [2, 3] {
        post.start();
        until(&|| found(term)).await;
        post.begin_drain();
        post.stop();
        if term == 3 {
            until(&|| world.cx.members.all().is_empty()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_keys_waits_for_no_period_after_a_read_that_has_failed() {
    let (world, link) = (World::new(), Link::default());
    let secrets = kube::Api::namespaced(world.server.client_over(&link), "tke-business");
    let keeper = tokio::spawn(KeyManager::new(secrets, Arc::clone(&world.cx)).run());
    world.cx.seals.wait_for_read().await;
    // It rests by then.
    sleep(Duration::from_secs(1)).await;
    link.is(Passage::Cut);
    let begun = Instant::now();
    let goes_on = async {
        sleep(Duration::from_secs(5)).await;
        link.is(Passage::Open);
    };
    tokio::join!(world.cx.seals.wait_for_read(), goes_on);
    // A call without an answer fails after ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(11), "{:?}", begun.elapsed());
    keeper.abort();
}
