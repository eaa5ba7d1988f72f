use crate::controller::Controller as _;
use crate::directory::description::ClusterDescription;
use crate::directory::registration::{IdentifiedCluster, describe, recorded, register};
use crate::fixtures::server::{CLUSTER, Link, Passage, merge};
use crate::fixtures::world::{NAMESPACE, OBJECT, PROJECT, QUOTA, World};
use crate::fixtures::{CLUSTER_UID as UID, NAMESPACE_UID, bulky, pending};
use crate::kinds::{ChangeSource, ObjectKey as _, RootKey};
use crate::member::recount::RECOUNT;
use crate::member::{Member, Reach, session};
use crate::member_cluster::capacity::{Capacities, look};
use crate::member_cluster::kind::{BusinessMemberCluster, MemberClusterView};
use crate::outcome::PassOutcome;
use crate::shares::Share;
use business_types::{ClusterIdentity, Provenance, names};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The path at which our namespaces are listed.
const OBJECTS: &str = "/apis/business.tkestack.io/v1/namespaces";

async fn pass(world: &World) -> PassOutcome {
    BusinessMemberCluster::reconcile(&world.cx, &RootKey::new(None, "c1")).await.unwrap()
}

fn condition(world: &World, type_: &str) -> (String, String) {
    let conditions = world.stored(CLUSTER)["status"]["conditions"].clone();
    let found =
        conditions.as_array().unwrap().iter().find(|condition| condition["type"] == type_).unwrap().clone();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("message"))
}

fn recognized<'a>(uid: &'a str, described: &'a ClusterDescription) -> IdentifiedCluster<'a> {
    IdentifiedCluster { name: "c1", uid, described }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_answers_registers_by_itself_and_its_name_stays_its_own() {
    let world = World::new();
    let described = ClusterDescription { display_name: "One".to_owned(), ..ClusterDescription::imported() };
    assert_eq!(recorded(&world.cx, "c1").await.unwrap(), None);
    let registered = register(&world.cx, recognized(UID, &described)).await.unwrap();
    assert_eq!(registered.as_deref(), Some(UID));
    let stored = world.stored(CLUSTER);
    assert_eq!((&stored["spec"]["displayName"], &stored["spec"]["tenants"]), (&json!("One"), &json!(["*"])));
    assert_eq!(stored["status"]["uid"], UID);
    let other = register(&world.cx, recognized("another", &described)).await.unwrap();
    assert_eq!(other.as_deref(), Some(UID), "another cluster behind the name is no answer");
    assert_eq!(recorded(&world.cx, "c1").await.unwrap().as_deref(), Some(UID));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_registered_although_its_status_is_written_meanwhile() {
    let world = World::new();
    world.server.meddle(CLUSTER, &json!({ "status": { "version": "v1" } }));
    let registered = register(&world.cx, recognized(UID, &ClusterDescription::imported())).await.unwrap();
    assert_eq!(registered.as_deref(), Some(UID));
    let status = world.stored(CLUSTER)["status"].clone();
    assert_eq!((&status["uid"], &status["version"]), (&json!(UID), &json!("v1")));
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_made_is_registered_as_he_made_it() {
    let world = World::new();
    let his =
        json!({ "metadata": { "uid": "m" }, "spec": { "hard": { "pods": "5" }, "displayName": "His" } });
    world.knows_cluster(&his);
    let described = ClusterDescription { display_name: "One".to_owned(), ..ClusterDescription::imported() };
    register(&world.cx, recognized(UID, &described)).await.unwrap();
    world.knows_cluster(&world.stored(CLUSTER));
    let object = world.cx.objects.member_clusters.get(&RootKey::new(None, "c1")).unwrap();
    describe(&world.cx, &object, &described).await.unwrap();
    let spec = world.stored(CLUSTER)["spec"].clone();
    assert_eq!((&spec["displayName"], &spec["hard"]["pods"]), (&json!("His"), &json!("5")));
    assert_eq!(spec["tenants"], json!(["*"]), "what he did not say");
}

fn registered(extra: &Value) -> Value {
    let mut metadata = json!({ "uid": "m", "generation": 1 });
    merge(&mut metadata, extra);
    json!({ "metadata": metadata, "spec": { "finalizers": ["membercluster"] }, "status": { "uid": UID } })
}

#[tokio::test(start_paused = true)]
async fn its_status_says_what_is_seen_and_how_far_it_was_compared() {
    let world = World::new();
    world.knows_cluster(&registered(&json!({})));
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(pass(&world).await, PassOutcome::Applied);
    let status = world.stored(CLUSTER)["status"].clone();
    assert_eq!((&status["namespaces"], &status["observedGeneration"]), (&json!(1), &json!(1)));
    assert_eq!(condition(&world, "Ready").0, "True");
    assert!(status["comparison"].is_null(), "nothing was compared");
    let comparison = world.audit().await;
    pass(&world).await;
    let told = world.stored(CLUSTER)["status"]["comparison"].clone();
    assert_eq!(told["revision"], json!(comparison.clusters["c1"]));
    assert_eq!(told["time"], json!(world.cx.now()));
}

#[tokio::test(start_paused = true)]
async fn what_is_used_of_it_is_counted_anew_when_a_namespace_says_so() {
    let world = World::new();
    world.knows_cluster(&registered(&json!({})));
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("2");
    world.woken();
    world.pass().await.unwrap();
    assert!(world.woken().contains(&"c1".to_owned()));
    world.catches_up();
    assert_eq!(pass(&world).await, PassOutcome::Applied);
    assert_eq!(world.stored(CLUSTER)["status"]["consumed"], json!({ "pods": "2" }));
}

#[tokio::test(start_paused = true)]
async fn it_says_by_which_names_it_knows_people() {
    let world = World::new();
    assert_eq!(world.cx.identity_of("c1"), ClusterIdentity::Certificates);
    let mut shared = registered(&json!({}));
    shared["spec"]["identity"] = json!("Shared");
    world.knows_cluster(&shared);
    assert_eq!(world.cx.identity_of("c1"), ClusterIdentity::Shared);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_goes_when_nothing_is_left_in_it() {
    let world = World::new();
    world.knows_cluster(&registered(&json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" })));
    let budget = json!({
        "metadata": { "name": "p", "uid": "p" }, "spec": { "clusters": { "c1": { "hard": { "pods": "5" } } } },
        "status": {},
    });
    world.knows_project(&budget);
    assert!(matches!(pass(&world).await, PassOutcome::WaitingFor(_)));
    assert_eq!(condition(&world, "Terminating").1, "1 projects have a budget for it");
    assert!(matches!(pass(&world).await, PassOutcome::WaitingFor(_)));
    // The cache shows it before the API does: the API is asked last.
    let mut free = budget.clone();
    free["spec"] = json!({});
    world.knows_project(&free);
    world.server.put(PROJECT, &budget);
    for _look in 0..3 {
        assert!(matches!(pass(&world).await, PassOutcome::WaitingFor(_)));
    }
    assert!(world.server.find(CLUSTER).is_some());
    world.server.put(PROJECT, &free);
    assert_eq!(pass(&world).await, PassOutcome::Applied);
    assert!(world.server.find(CLUSTER).is_none());
}

/// What the caches do not show yet, each by itself.
#[tokio::test(start_paused = true)]
async fn a_cluster_stays_for_whatever_the_api_alone_knows_of_it() {
    let budgets = json!({ "clusters": { "c1": { "hard": { "pods": "5" } } } });
    let of_p = json!({ "name": "p", "uid": "p" });
    let in_project =
        |spec: &Value, status: &Value| json!({ "metadata": of_p, "spec": spec, "status": status });
    let (nothing, place) = (json!({}), json!({ "clusterName": "c1", "namespace": "web", "uid": "gone" }));
    let namespace = json!({
        "metadata": { "namespace": "p", "name": "n", "uid": "u" },
        "spec": pending(&[("pods", "3")]).spec, "status": {},
    });
    let ceiling = json!({ "metadata": { "name": "t", "uid": "t" }, "spec": budgets, "status": {} });
    for (what, path, object) in [
        ("a namespace", OBJECT, namespace),
        ("a budget", PROJECT, in_project(&budgets, &nothing)),
        ("a ceiling", "/apis/business.tkestack.io/v1/tenants/t", ceiling),
        ("an amount that is held", PROJECT, in_project(&nothing, &json!({ "ledger": { "held": [place] } }))),
        ("an orphan", PROJECT, in_project(&nothing, &json!({ "orphans": [place] }))),
    ] {
        let world = World::new();
        world.knows_cluster(&registered(&json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" })));
        world.server.put(path, &object);
        for _look in 0..3 {
            assert!(matches!(pass(&world).await, PassOutcome::WaitingFor(_)), "{what}");
        }
        assert!(world.server.find(CLUSTER).is_some(), "{what}");
        world.server.remove(path);
        assert_eq!(pass(&world).await, PassOutcome::Applied, "{what}");
        assert!(world.server.find(CLUSTER).is_none(), "{what}");
    }
}

fn node(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": { "name": name }, "spec": {},
        "status": { "allocatable": { "cpu": cpu }, "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

fn pod(namespace: &str) -> Value {
    let container = json!({ "resources": { "requests": { "cpu": "2" } } });
    json!({
        "metadata": { "name": "x", "namespace": namespace },
        "spec": { "nodeName": "a", "containers": [container] },
    })
}

fn derives() -> Value {
    let mut cluster = registered(&json!({}));
    cluster["spec"]["derived"] =
        json!({ "resources": { "requests.cpu": { "resource": "cpu", "factor": "1.5", "max": "20" } } });
    cluster
}

#[tokio::test(start_paused = true)]
async fn what_is_derived_follows_the_nodes_and_stays_while_they_cannot_be_read() {
    let world = World::new();
    let made = json!({ "metadata": { "uid": NAMESPACE_UID, "labels": { names::NAMESPACE_LABEL: "n" } } });
    world.server.put(NAMESPACE, &made);
    world.watches();
    world.knows_cluster(&derives());
    world.holds(&pending(&[("pods", "3")]).recorded(Provenance::Made));
    let ours = world.seen().spec.namespace;
    for (name, cpu) in [("a", "8"), ("b", "4")] {
        world.server.put(&format!("/api/v1/nodes/{name}"), &node(name, cpu));
    }
    for namespace in ["kube-system", ours.as_str()] {
        world.server.put(&format!("/api/v1/namespaces/{namespace}/pods/x"), &pod(namespace));
    }
    let mut ended = pod("kube-system");
    ended["status"] = json!({ "phase": "Succeeded" });
    world.server.put("/api/v1/namespaces/kube-system/pods/y", &ended);
    let capacity = || world.stored(CLUSTER)["status"]["capacity"]["requests.cpu"].clone();
    look(&world.cx).await;
    assert_eq!(capacity(), "15", "(8 + 4 - 2) x 1.5");
    pass(&world).await;
    assert_eq!(world.stored(CLUSTER)["status"]["allocatable"]["cpu"], "12");
    assert_eq!(condition(&world, "CapacityDerived").0, "True");

    world.server.remove("/api/v1/nodes/b");
    world.member.set_reach(Reach::Unreachable { since: String::new(), reason: String::new() });
    look(&world.cx).await;
    assert_eq!(capacity(), "15", "no answer is no news");
    world.member.set_reach(Reach::Reachable);
    look(&world.cx).await;
    assert_eq!(capacity(), "9", "a node went");

    world.server.remove("/api/v1/nodes/a");
    world.server.refuse("GET /api/v1/nodes");
    look(&world.cx).await;
    pass(&world).await;
    assert_eq!(capacity(), "9");
    assert_eq!(world.stored(CLUSTER)["status"]["allocatable"]["cpu"], "12", "as it was last shown");
    let (status, message) = condition(&world, "CapacityDerived");
    assert_eq!(status, "False");
    assert!(message.contains("stays as it was"), "{message}");
    assert!(message.contains("call the member cluster: refused with 403"), "{message}");
}

/// Anybody who may create pods in a namespace can make them as large as they like.
#[tokio::test(start_paused = true)]
async fn pods_that_are_large_together_keep_nothing_from_being_derived() {
    let world = World::new();
    world.knows_cluster(&derives());
    world.server.put("/api/v1/nodes/a", &node("a", "200"));
    for number in 0..99 {
        let mut large = pod("theirs");
        merge(&mut large, &bulky());
        world.server.put(&format!("/api/v1/namespaces/theirs/pods/x{number}"), &large);
    }
    world.calls();
    look(&world.cx).await;
    assert_eq!(world.stored(CLUSTER)["status"]["capacity"]["requests.cpu"], "3", "(200 - 99 x 2) x 1.5");
    let pages = world.calls().into_iter().filter(|call| call == "GET /api/v1/pods").count();
    assert_eq!(pages, 1, "what nobody reads of them weighs its text alone");
}

/// Another cluster over this link, from which capacity is derived.
fn derives_from(world: &World, link: &Link, name: &str) {
    let post = world.cx.shares.state(Share::Clusters(0));
    let member = Member::new(name, UID, world.server.client_over(link), post, RECOUNT);
    member.set_reach(Reach::Reachable);
    world.cx.members.insert(member);
    let mut slow = derives();
    slow["apiVersion"] = json!("business.tkestack.io/v1");
    slow["kind"] = json!("MemberCluster");
    slow["metadata"]["name"] = json!(name);
    slow["metadata"]["uid"] = json!(name);
    slow["metadata"]["resourceVersion"] = json!("1");
    let view = MemberClusterView::decode(serde_json::from_value(slow).unwrap()).unwrap();
    world.cx.objects.member_clusters.upsert(view, ChangeSource::WatchEvent);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_takes_long_to_read_is_left_alone_for_longer() {
    let (world, link) = (World::new(), Link::default());
    world.lists_all();
    derives_from(&world, &link, "a1");
    // Two lists of eight seconds: this cluster rests until the others were read twice.
    link.is(Passage::Slow(Duration::from_secs(4)));
    world.calls();
    let looks = Capacities { cx: Arc::clone(&world.cx) }.run();
    assert!(timeout(Duration::from_secs(290), looks).await.is_err(), "it looks for ever");
    let reads = world.calls().into_iter().filter(|call| call == "GET /api/v1/nodes").count();
    assert_eq!(reads, 5);
}

#[tokio::test(start_paused = true)]
async fn clusters_that_are_slow_keep_no_other_from_being_read() {
    let (world, link) = (World::new(), Link::default());
    world.server.put("/api/v1/nodes/a", &node("a", "8"));
    world.knows_cluster(&derives());
    // Each list takes four seconds there.
    link.is(Passage::Slow(Duration::from_secs(2)));
    for name in ["a1", "a2", "a3", "a4"] {
        derives_from(&world, &link, name);
    }
    assert!(timeout(Duration::from_secs(6), look(&world.cx)).await.is_err(), "they are not read so soon");
    assert_eq!(world.stored(CLUSTER)["status"]["capacity"]["requests.cpu"], "12");
}

#[tokio::test(start_paused = true)]
async fn pods_in_a_namespace_that_is_not_ours_take_what_they_take() {
    let world = World::new();
    world.knows_cluster(&derives());
    world.server.put("/api/v1/nodes/a", &node("a", "8"));
    world.server.put("/api/v1/namespaces/web/pods/x", &pod("web"));
    let there = |uid: &str| {
        let labels = json!({ names::NAMESPACE_LABEL: "n" });
        world.server.put(NAMESPACE, &json!({ "metadata": { "uid": uid, "labels": labels } }));
        world.watches();
    };
    let capacity = || world.stored(CLUSTER)["status"]["capacity"]["requests.cpu"].clone();
    let asks = || pending(&[("pods", "3")]);
    for (object, uid, left) in [
        (asks().recorded(Provenance::Made), NAMESPACE_UID, "12"),
        // An object of somebody accounts for what others use.
        (asks(), NAMESPACE_UID, "9"),
        (asks().recorded(Provenance::Adopted), NAMESPACE_UID, "12"),
        (asks().recorded(Provenance::Foreign), NAMESPACE_UID, "9"),
        (asks().recorded(Provenance::Imported), NAMESPACE_UID, "9"),
        // A replacement of ours.
        (asks().recorded(Provenance::Made), "another", "9"),
    ] {
        there(uid);
        world.holds(&object);
        look(&world.cx).await;
        assert_eq!(capacity(), left, "{:?} at {uid}", object.status.cluster_namespace);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_lists_are_not_answered_is_unreachable_and_listed_anew() {
    let (world, link) = (World::new(), Link::default());
    world.lists_all();
    world.server.put("/api/v1/namespaces/kube-system", &json!({ "metadata": { "uid": UID } }));
    link.is(Passage::LosesLists);
    let share = world.cx.shares.state(Share::Clusters(0));
    let member = Member::new("c1", UID, world.server.client_over(&link), share, RECOUNT);
    let following = tokio::spawn(session::run(Arc::clone(&world.cx), Arc::clone(&member)));
    let until = async |is_so: fn(&Reach) -> bool| {
        let looks = async {
            while !is_so(&member.reach()) {
                sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(Duration::from_mins(1), looks).await.is_ok(), "{:?}", member.reach());
    };
    until(|reach| matches!(reach, Reach::Unreachable { .. })).await;
    link.is(Passage::Open);
    until(|reach| *reach == Reach::Reachable).await;
    following.abort();
}

/// Its API servers, behind a load balancer, restart one by one over restored storage. Every probe succeeds.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_restored_without_a_gap_is_listed_anew() {
    let world = World::new();
    world.lists_all();
    let quota = |pods: &str| {
        let metadata = json!({ "namespace": "web", "name": "web", "uid": "q" });
        json!({ "metadata": metadata, "spec": { "hard": { "pods": pods } } })
    };
    world.server.comes_to(5000);
    world.server.put(QUOTA, &quota("9"));
    let share = world.cx.shares.state(Share::Clusters(0));
    let member = Member::new("c1", UID, world.server.client(), share, RECOUNT);
    let following = tokio::spawn(session::run(Arc::clone(&world.cx), Arc::clone(&member)));
    let until = async |is_so: &dyn Fn() -> bool| {
        let looks = async {
            while !is_so() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(Duration::from_mins(1), looks).await.is_ok(), "{:?}", member.observed.at("web"));
    };
    until(&|| member.reach() == Reach::Reachable).await;
    let pods = || member.observed.at("web").1.map(|quota| quota.spec_hard["pods"].to_string());
    assert_eq!(pods().as_deref(), Some("9"));
    // It is probed a few times.
    sleep(Duration::from_secs(20)).await;
    assert_eq!(pods().as_deref(), Some("9"));
    world.server.comes_to(900);
    world.server.put(QUOTA, &quota("3"));
    until(&|| {
        assert_eq!(member.reach(), Reach::Reachable, "what is seen holds until it is listed");
        pods().as_deref() == Some("3")
    })
    .await;
    following.abort();
}

/// Its lists may end while it counts as unreachable, and before its namespaces are known.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_answers_and_was_listed_is_reachable_in_whatever_order_that_became_known() {
    let (world, link) = (World::new(), Link::default());
    world.lists_all();
    link.is(Passage::Cut);
    world.server.intercept(OBJECTS);
    let share = world.cx.shares.state(Share::Clusters(0));
    let member = Member::new("c1", UID, world.server.client_over(&link), share, RECOUNT);
    let following = tokio::spawn(session::run(Arc::clone(&world.cx), Arc::clone(&member)));
    let until = async |is_so: &dyn Fn() -> bool| {
        let looks = async {
            while !is_so() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(Duration::from_mins(1), looks).await.is_ok(), "{:?}", member.reach());
    };
    until(&|| matches!(member.reach(), Reach::Unreachable { .. })).await;
    link.is(Passage::Open);
    until(&|| member.observed.is_synced()).await;
    assert!(!member.has_acquisition_snapshot() && matches!(member.reach(), Reach::Unreachable { .. }));
    world.server.forget_faults();
    until(&|| member.has_acquisition_snapshot()).await;
    until(&|| member.reach() == Reach::Reachable).await;
    following.abort();
}
