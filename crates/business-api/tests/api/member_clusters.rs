//! What member clusters are to those who name them.

use crate::support::{World, member_cluster, namespace, namespaces, project, until};
use serde_json::{Value, json};

const C1: &str = "/memberclusters/c1";
const PROJECT: &str = "/projects/p";
const WEB: &str = "/namespaces/p/namespaces/c1-web";

fn pods(pods: &str) -> Value {
    json!({"pods": pods})
}

/// A project with a namespace in a cluster.
async fn world() -> World {
    let world = World::new().await;
    world.register(member_cluster("c1", &["*"]), json!({})).await;
    let admin = world.admin("t");
    admin.post("/projects", project("p", pods("10"))).await.expect(201);
    admin.post(&namespaces("p"), namespace("web", pods("2"))).await.expect(201);
    world
}

fn raise(amount: &str) -> Value {
    json!({"spec": {"hard": {"pods": amount}}})
}

fn grant(amount: &str) -> Value {
    json!({"spec": {"clusters": {"c1": {"hard": {"pods": amount}}}}})
}

fn tenant(name: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Tenant", "metadata": {"name": name},
        "spec": {"clusters": {"c1": {"hard": {"pods": "3"}}}},
    })
}

/// Everything that grows in the cluster is refused in these words, and everything else goes on.
async fn is_closed(world: &World, state: &str) {
    let (admin, operator) = (world.admin("t"), world.operator());
    let create = async || admin.post(&namespaces("p"), namespace("more", pods("1"))).await;
    until("it is known", async || create().await.code == 403).await;
    let refused = [
        create().await,
        admin.patch(WEB, raise("3")).await,
        admin.patch(PROJECT, grant("11")).await,
        admin.post("/projects", project("q", pods("1"))).await,
        operator.post(&namespaces("p"), namespace("more", pods("1"))).await,
        operator.post("/tenants", tenant("u")).await,
    ];
    for answer in refused {
        assert_eq!(answer.code, 403, "{answer:?}");
        assert!(answer.message().contains(&format!("cluster \"c1\" {state}:")), "{answer:?}");
    }
    admin.patch(WEB, raise("1")).await.expect(200);
    admin.patch(PROJECT, grant("9")).await.expect(200);
    admin.patch(WEB, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
}

#[tokio::test]
async fn what_is_cordoned_takes_nothing_more_and_lets_go() {
    let world = world().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    operator.patch(C1, json!({"spec": {"cordoned": true}})).await.expect(200);
    is_closed(&world, "is cordoned").await;
    operator.patch(C1, json!({"spec": {"cordoned": false}})).await.expect(200);
    until("it is open again", async || admin.patch(WEB, raise("4")).await.code == 200).await;
    operator.patch(C1, json!({"spec": {"cordoned": true}})).await.expect(200);
    admin.delete(WEB).await.expect(200);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn what_is_cordoned_for_one_tenant_is_not_there_for_another() {
    let world = world().await;
    let operator = world.operator();
    operator.patch(C1, json!({"spec": {"cordoned": true, "tenants": ["t"]}})).await.expect(200);
    let theirs = async || world.admin("u").post("/projects", project("theirs", pods("1"))).await;
    until("it is not theirs", async || theirs().await.code == 422).await;
    assert_eq!(theirs().await.causes()[0].0, "FieldValueNotFound");
}

#[tokio::test]
async fn whoever_is_in_two_tenants_is_told_of_a_cordon_by_the_one_whose_project_it_is() {
    let world = world().await;
    let both = world.host_user("both");
    let access = json!({"spec": {"access": [{"kind": "User", "name": "both", "role": "edit"}]}});
    world.admin("u").post("/projects", project("theirs", pods("5"))).await.expect(201);
    for (tenant, project) in [("t", PROJECT), ("u", "/projects/theirs")] {
        world.admin(tenant).patch(project, access.clone()).await.expect(200);
    }
    let make = async |place: &str, project: &str, cluster: &str| {
        let mut body = namespace(place, pods("1"));
        body["spec"]["clusterName"] = json!(cluster);
        both.post(&namespaces(project), body).await
    };
    until("he may make some", async || make("first", "theirs", "c1").await.code == 201).await;
    let closed = json!({"spec": {"cordoned": true, "tenants": ["t"]}});
    world.operator().patch(C1, closed).await.expect(200);
    until("it is known", async || make("second", "p", "c1").await.code == 403).await;
    let [hidden, absent] = [make("third", "theirs", "c1").await, make("third", "theirs", "nowhere").await];
    assert_eq!((hidden.code, hidden.causes()), (absent.code, absent.causes()));
    assert_eq!((hidden.code, hidden.causes()[0].0.as_str()), (422, "FieldValueNotFound"), "{hidden:?}");
}

#[tokio::test]
async fn a_cluster_that_goes_waits_and_takes_nothing_meanwhile() {
    let world = world().await;
    let operator = world.operator();
    let early = json!({"spec": {"finalizers": []}});
    assert_eq!(
        operator.patch(&format!("{C1}/finalize"), early.clone()).await.code,
        409,
        "it is not being deleted"
    );
    operator.delete(C1).await.expect(200);
    is_closed(&world, "is being deleted").await;
    operator.patch(C1, raise("5")).await.expect(200);
    let more = operator.patch(C1, raise("6")).await;
    assert_eq!(more.code, 403, "{more:?}");
    assert!(more.message().ends_with("it is being deleted: nothing more is granted of it"), "{more:?}");
    operator.patch(C1, raise("4")).await.expect(200);
    let waits = json!([{
        "type": "Terminating", "status": "True", "reason": "InUse", "message": "1 namespaces live in it",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    operator.patch(&format!("{C1}/status"), json!({"status": {"conditions": waits}})).await.expect(200);
    let again = operator.delete(C1).await;
    assert_eq!(again.code, 409, "{again:?}");
    assert!(again.message().contains("1 namespaces live in it"), "{again:?}");
    operator.patch(&format!("{C1}/finalize"), early).await.expect(200);
    assert_eq!(operator.get(C1).await.code, 404);
}

#[tokio::test]
async fn a_cluster_has_one_name_for_as_long_as_that_is_there() {
    let world = World::new().await;
    let operator = world.operator();
    for name in ["c1", "c2"] {
        operator.post("/memberclusters", member_cluster(name, &["*"])).await.expect(201);
    }
    let says = async |name: &str, uid: &str| {
        operator.patch(&format!("/memberclusters/{name}/status"), json!({"status": {"uid": uid}})).await
    };
    says("c1", "u1").await.expect(200);
    let second = says("c2", "u1").await;
    assert_eq!(second.code, 409, "{second:?}");
    assert!(second.message().contains("stands for the cluster with uid u1 already"), "{second:?}");
    let other = says("c1", "u2").await;
    assert_eq!((other.code, other.causes()[0].1.as_str()), (422, "status.uid"), "{other:?}");
    let forgotten = operator.patch(&format!("{C1}/status"), json!({"status": null})).await.expect(200);
    assert_eq!(forgotten["status"]["uid"], "u1");
    operator.delete(C1).await.expect(200);
    operator.patch(&format!("{C1}/finalize"), json!({"spec": {"finalizers": []}})).await.expect(200);
    says("c2", "u1").await.expect(200);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn clusters_are_registered_while_growth_is_held() {
    let world = World::new().await;
    let held = "UPDATE rev SET held = true, held_reason = 'history has diverged'";
    sqlx::query(held).execute(&mut world.database.connect().await.unwrap()).await.unwrap();
    world.register(member_cluster("c1", &["*"]), json!({"uid": "u1"})).await;
    world.operator().patch(C1, json!({"spec": {"hard": {"pods": "5"}}})).await.expect(200);
    world.operator().patch(C1, json!({"spec": {"hard": {"pods": "7"}}})).await.expect(200);
    assert_eq!(world.admin("t").post("/projects", project("p", pods("1"))).await.code, 503);
}

fn derived(factor: &str) -> Value {
    json!({"spec": {"derived": {"resources": {"pods": {"resource": "pods", "factor": factor}}}}})
}

fn capacity(pods: &str) -> Value {
    json!({"status": {"capacity": {"pods": pods}}})
}

#[tokio::test]
async fn what_is_derived_limits_tenants_and_a_fall_takes_nothing_away() {
    let world = world().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    let (at, ceiling) = (format!("{C1}/capacity"), "/tenants/t");
    let mut ten = tenant("t");
    ten["spec"]["clusters"]["c1"]["hard"] = pods("10");
    operator.post("/tenants", ten).await.expect(201);
    operator.patch(C1, derived("1")).await.expect(200);
    let refused = operator.patch(ceiling, grant("11")).await;
    assert_eq!(refused.code, 403, "not derived yet, so nothing grows: {refused:?}");
    operator.patch(&at, capacity("12")).await.expect(200);
    operator.patch(ceiling, grant("12")).await.expect(200);
    assert_eq!(operator.patch(ceiling, grant("13")).await.code, 403);
    for amount in ["5", "0", "11"] {
        operator.patch(&at, capacity(amount)).await.expect(200);
        assert_eq!(operator.patch(ceiling, grant("13")).await.code, 403, "{amount}");
        admin.patch(WEB, raise("3")).await.expect(200);
        admin.patch(WEB, raise("2")).await.expect(200);
        world.assert_books_agree().await;
    }
    operator.patch(ceiling, grant("10")).await.expect(200);
    assert_eq!(operator.patch(ceiling, grant("12")).await.code, 403);
    operator.patch(ceiling, grant("11")).await.expect(200);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn what_was_derived_is_written_by_its_own_subresource_alone() {
    let world = world().await;
    let operator = world.operator();
    operator.patch(C1, derived("1")).await.expect(200);
    let at = format!("{C1}/capacity");
    operator.patch(&at, json!({"status": {"capacity": {"pods": "12"}, "version": "v9"}})).await.expect(200);
    for path in [C1.to_owned(), format!("{C1}/status")] {
        operator.patch(&path, capacity("99")).await.expect(200);
        let stored = operator.get(C1).await;
        assert_eq!(stored.body["status"]["capacity"]["pods"], "12", "{path}");
        assert_ne!(stored.body["status"]["version"], "v9");
    }
    operator.patch(&format!("{C1}/status"), json!({"status": null})).await.expect(200);
    assert_eq!(operator.get(C1).await.body["status"]["capacity"]["pods"], "12");
    assert_eq!(operator.patch(&at, capacity("-1")).await.code, 422);
    assert_eq!(world.admin("t").patch(&at, capacity("99")).await.code, 403);
    operator.delete(C1).await.expect(200);
    assert_eq!(operator.patch(&at, capacity("99")).await.code, 409);
}

/// Capacity and ceilings change in any order: a raise is taken exactly if all of it fits what was derived last.
#[tokio::test]
async fn however_capacity_changes_ceilings_never_grow_beyond_it() {
    let world = World::new().await;
    let operator = world.operator();
    world.register(member_cluster("c1", &["*"]), json!({})).await;
    operator.patch(C1, derived("1")).await.expect(200);
    let mut ceilings = [0_u64; 2];
    for name in ["t", "u"] {
        let mut new = tenant(name);
        new["spec"]["clusters"]["c1"]["hard"] = pods("0");
        operator.post("/tenants", new).await.expect(201);
    }
    let (mut seed, mut limit) = (7_u64, 0_u64);
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for step in 0..150 {
        let (which, amount) = (usize::try_from(next(3)).unwrap(), next(20));
        let Some(old) = ceilings.get(which).copied() else {
            operator.patch(&format!("{C1}/capacity"), capacity(&amount.to_string())).await.expect(200);
            limit = amount;
            continue;
        };
        let total = ceilings.iter().sum::<u64>() - old + amount;
        let answer =
            operator.patch(&format!("/tenants/{}", ["t", "u"][which]), grant(&amount.to_string())).await;
        let expected = if amount <= old || total <= limit { 200 } else { 403 };
        assert_eq!(
            answer.code, expected,
            "step {step}: {ceilings:?} of {limit}, {which} to {amount}: {answer:?}"
        );
        if expected == 200 {
            ceilings[which] = amount;
        }
    }
    world.assert_books_agree().await;
}
