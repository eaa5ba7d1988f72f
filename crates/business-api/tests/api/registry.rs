//! Image namespaces and chart groups: a budget of the registry, prefixes that belong to one object, and their lives.

use crate::support::{Client, World, child, project, until};
use http::Method;
use serde_json::{Value, json};

const IMAGES: &str = "/namespaces/p/imagenamespaces";
const CHARTS: &str = "/namespaces/p/chartgroups";

/// An image namespace or chart group's body.
pub(crate) fn registry_object(kind: &str, name: &str, storage: Option<&str>) -> Value {
    let hard = storage.map_or(json!({}), |bytes| json!({"requests.storage": bytes}));
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": kind, "metadata": {},
        "spec": {"name": name, "hard": hard}
    })
}

fn image(name: &str, storage: Option<&str>) -> Value {
    registry_object("ImageNamespace", name, storage)
}

fn chart(name: &str, storage: Option<&str>) -> Value {
    registry_object("ChartGroup", name, storage)
}

/// A project with this budget in the registry.
fn with_registry(mut project: Value, hard: &Value) -> Value {
    project["spec"]["clusters"]["registry"] = json!({"hard": hard});
    project
}

/// A world in which project `p` of tenant `t` has this budget.
async fn world(hard: &Value) -> (World, Client) {
    let world = World::new().await;
    let admin = world.admin("t");
    admin.post("/projects", with_registry(project("p", json!({"pods": "10"})), hard)).await.expect(201);
    (world, admin)
}

#[tokio::test]
async fn both_kinds_share_a_budget_and_a_refusal_names_the_registry() {
    let (world, admin) = world(&json!({"imagenamespaces": "2", "requests.storage": "10Gi"})).await;
    let lacking = admin.post(IMAGES, image("a", None)).await;
    assert_eq!(lacking.code, 422, "the project limits it: {lacking:?}");
    assert_eq!(
        lacking.causes(),
        [("FieldValueInvalid".to_owned(), "spec.hard[requests.storage]".to_owned())]
    );
    let made = admin.post(IMAGES, image("a", Some("6Gi"))).await.expect(201);
    assert_eq!(made["spec"]["tenantID"], "t");
    assert_eq!(
        (&made["metadata"]["name"], &made["spec"]["finalizers"]),
        (&json!("a"), &json!(["imagenamespace"]))
    );
    assert_eq!(made["status"], json!({"phase": "Pending", "observedGeneration": 0}));

    let over = admin.post(CHARTS, chart("b", Some("5Gi"))).await;
    assert_eq!(over.code, 403);
    assert_eq!(over.causes(), [("QuotaExceeded".to_owned(), "spec.hard[requests.storage]".to_owned())]);
    assert!(
        over.message().ends_with(
            "exceeded quota of project \"p\" in the registry: requested requests.storage=5Gi, hard 10Gi, allocated 6Gi, \
             remaining 4Gi; the largest that fits is 4Gi"
        ),
        "{}",
        over.message()
    );
    let told = over.body["details"]["causes"][0]["message"].as_str().unwrap().to_owned();
    assert!(told.starts_with("project=p domain=registry resource=requests.storage"), "{told}");
    admin.post(CHARTS, chart("b", Some("3Gi"))).await.expect(201);
    admin.post(IMAGES, image("c", Some("1Gi"))).await.expect(201);
    let third = admin.post(IMAGES, image("d", Some("0"))).await;
    assert_eq!(third.causes(), [("QuotaExceeded".to_owned(), "metadata.namespace".to_owned())], "{third:?}");
    let below = admin
        .patch(
            "/projects/p",
            json!({"spec": {"clusters": {"registry": {"hard": {"requests.storage": "9Gi"}}}}}),
        )
        .await;
    assert_eq!(
        below.causes(),
        [("BelowAllocated".to_owned(), "spec.clusters[registry].hard[requests.storage]".to_owned())]
    );
    assert!(below.message().contains("in the registry: hard cannot be 9Gi"), "{}", below.message());
    let unlimited = chart("e", Some("0"));
    admin.post(CHARTS, unlimited).await.expect(201);
    world.assert_books_agree().await;
}

/// Whoever applies looks for the object by the name to which it was sent, now and at the next time.
#[tokio::test]
async fn an_apply_makes_no_object_of_another_name() {
    let (world, admin) = world(&json!({"imagenamespaces": "2"})).await;
    let apply = async |name: &str| {
        let mut object = image("web", None);
        object["metadata"]["name"] = json!(name);
        let path = format!("{IMAGES}/{name}?fieldManager=flux");
        admin.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(object)).await
    };
    let refused = apply("web-images").await;
    assert_eq!(refused.code, 400, "{refused:?}");
    let told =
        "the name of the object (web), which its spec says, does not match the name on the URL (web-images)";
    assert!(refused.message().starts_with(told), "{}", refused.message());
    assert_eq!(admin.get(IMAGES).await.names(), [""; 0]);
    assert_eq!(apply("web").await.expect(201)["metadata"]["name"], "web");
    apply("web").await.expect(200);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_project_that_does_not_name_the_registry_is_not_limited_there_and_goes_round_no_parent() {
    let world = World::new().await;
    let admin = world.admin("t");
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    admin.post("/projects", child("kid", "p", json!({"pods": "1"}))).await.expect(201);
    admin.post("/namespaces/kid/imagenamespaces", image("a", None)).await.expect(201);
    // A limit above is for all below: who does not carry it yet has to, first.
    let limit =
        |storage: &str| json!({"spec": {"clusters": {"registry": {"hard": {"requests.storage": storage}}}}});
    let lacking = admin.patch("/projects/p", limit("5Gi")).await;
    assert_eq!((lacking.code, lacking.causes().len()), (422, 1), "{lacking:?}");
    assert!(
        lacking.message().contains("\"requests.storage\" of the registry for all children"),
        "{}",
        lacking.message()
    );
    let storage = json!({"spec": {"hard": {"requests.storage": "2Gi"}}});
    admin.patch("/namespaces/kid/imagenamespaces/a", storage).await.expect(200);
    admin.patch("/projects/kid", limit("3Gi")).await.expect(200);
    admin.patch("/projects/p", limit("5Gi")).await.expect(200);
    let dropped = admin.patch("/projects/kid", json!({"spec": {"clusters": {"registry": null}}})).await;
    assert_eq!(dropped.code, 422, "it would be unlimited below a limit: {dropped:?}");
    let over = admin.patch("/projects/kid", limit("6Gi")).await;
    assert_eq!(over.code, 403, "{over:?}");
    admin.post("/projects", child("other", "p", json!({"pods": "1"}))).await.expect(422);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_root_gains_nothing_in_the_registry_without_the_right_to_grant() {
    let world = World::with_settings(&[]).await;
    let (admin, operator) = (world.admin("t"), world.operator());
    let mut root = with_registry(project("p", json!({"pods": "10"})), &json!({"requests.storage": "5Gi"}));
    root["spec"]["tenantID"] = json!("t");
    operator.post("/projects", root).await.expect(201);
    let set = |hard: Value| json!({"spec": {"clusters": {"registry": hard}}});
    for more in [
        json!({"hard": {"requests.storage": "6Gi"}}),
        json!({"hard": {"requests.storage": null}}),
        Value::Null,
    ] {
        let refused = admin.patch("/projects/p", set(more.clone())).await;
        assert_eq!(refused.code, 403, "{more}: {refused:?}");
    }
    let less = set(json!({"hard": {"requests.storage": "4Gi", "chartgroups": "1"}}));
    admin.patch("/projects/p", less).await.expect(200);

    // One that does not name the registry is not limited there: a new one that limits itself takes less.
    let mut own = project("own", json!({}));
    own["spec"]["clusters"] = json!({"registry": {"hard": {"requests.storage": "5Gi"}}});
    admin.post("/projects", own).await.expect(201);
    let more = admin.patch("/projects/own", set(json!({"hard": {"requests.storage": "6Gi"}}))).await;
    assert_eq!(more.code, 403, "{more:?}");
}

#[tokio::test]
async fn a_prefix_of_the_registry_belongs_to_one_object_of_both_kinds_until_that_is_gone() {
    let (world, admin) = world(&json!({})).await;
    let (operator, other) = (world.operator(), world.admin("u"));
    admin.post("/projects", project("q", json!({"pods": "1"}))).await.expect(201);
    other.post("/projects", project("theirs", json!({"pods": "1"}))).await.expect(201);
    admin.post(IMAGES, image("web", None)).await.expect(201);
    for path in [CHARTS, "/namespaces/q/chartgroups"] {
        let taken = admin.post(path, chart("web", None)).await;
        assert_eq!(taken.code, 409);
        assert_eq!(taken.causes(), [("ClaimTaken".to_owned(), "spec.name".to_owned())]);
        assert!(
            taken.message().ends_with("name \"t/web\" of the registry is already taken by another object")
        );
    }
    other.post("/namespaces/theirs/imagenamespaces", image("web", None)).await.expect(201);

    let one = format!("{IMAGES}/web");
    let status = |status: Value| json!({"status": status});
    let record = json!({"backend": "OCI", "provenance": "Made"});
    let ready = status(json!({"phase": "Available", "registry": record, "used": {"requests.storage": "5"}}));
    operator.patch(&format!("{one}/status"), ready).await.expect(200);
    let kept = operator.patch(&format!("{one}/status"), status(json!({"registry": null}))).await.expect(200);
    assert_eq!(kept["status"]["registry"], record, "what is the object's is not forgotten while it lives");
    assert_eq!(admin.patch(&format!("{one}/status"), status(json!({"locked": true}))).await.code, 403);

    admin.delete(&one).await.expect(200);
    assert_eq!(admin.delete(&one).await.code, 409, "it is being deleted");
    let finalize = format!("{one}/finalize");
    let emptied = json!({"spec": {"finalizers": []}});
    let refused = operator.patch(&finalize, emptied.clone()).await;
    assert_eq!(refused.code, 409, "its content is on record: {refused:?}");
    assert_eq!(admin.patch(&finalize, emptied.clone()).await.code, 409);
    assert_eq!(
        admin.post(CHARTS, chart("web", None)).await.code,
        409,
        "the prefix is its own until it is gone"
    );
    let gone = operator.patch(&format!("{one}/status"), status(json!({"registry": null}))).await.expect(200);
    assert_eq!(
        (&gone["status"]["registry"], &gone["status"]["phase"]),
        (&Value::Null, &json!("Terminating"))
    );
    operator.patch(&finalize, emptied).await.expect(200);
    assert_eq!(admin.get(&one).await.code, 404);
    admin.post(CHARTS, chart("web", None)).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn an_operator_gives_up_what_a_registry_that_is_lost_had() {
    let (world, admin) = world(&json!({})).await;
    let operator = world.operator();
    admin.post(IMAGES, image("web", None)).await.expect(201);
    let one = format!("{IMAGES}/web");
    let record =
        json!({"status": {"phase": "Available", "registry": {"backend": "OCI", "provenance": "Made"}}});
    operator.patch(&format!("{one}/status"), record).await.expect(200);
    let abandon =
        json!({"metadata": {"annotations": {"business.tkestack.io/abandon": "the registry burnt down"}}});
    assert_eq!(admin.patch(&one, abandon.clone()).await.code, 403, "operators only");
    admin.delete(&one).await.expect(200);
    operator.patch(&one, abandon).await.expect(200);
    operator.patch(&format!("{one}/finalize"), json!({"spec": {"finalizers": []}})).await.expect(200);
    assert_eq!(admin.get(&one).await.code, 404);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn what_is_kept_bounds_how_far_storage_is_lowered() {
    let (world, admin) = world(&json!({"requests.storage": "10Gi"})).await;
    let one = format!("{IMAGES}/web");
    admin.post(IMAGES, image("web", Some("5Gi"))).await.expect(201);
    let used = json!({"status": {"phase": "Available", "used": {"requests.storage": "2147483649"}}});
    world.operator().patch(&format!("{one}/status"), used).await.expect(200);
    let hard = |bytes: &str| json!({"spec": {"hard": {"requests.storage": bytes}}});
    let below = admin.patch(&one, hard("2Gi")).await;
    assert_eq!(
        (below.code, below.causes()),
        (403, vec![("BelowUsed".to_owned(), "spec.hard[requests.storage]".to_owned())])
    );
    assert!(below.message().contains("the smallest that fits is 2147483649"), "{}", below.message());
    admin.patch(&one, hard("2147483649")).await.expect(200);
    admin.post(CHARTS, chart("rest", Some("7Gi"))).await.expect(201);
    // An overshoot that was measured later does not forbid anything but to lower it further.
    let more = json!({"status": {"used": {"requests.storage": "4Gi"}}});
    world.operator().patch(&format!("{one}/status"), more).await.expect(200);
    admin.patch(&one, json!({"spec": {"displayName": "Web"}})).await.expect(200);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn names_tenants_and_projects_are_those_that_a_registry_can_have() {
    let (world, admin) = world(&json!({})).await;
    let operator = world.operator();
    let generated = admin.post(CHARTS, chart("", None)).await.expect(201);
    let name = generated["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("rcg-"), "{name}");
    let mut named = image("one", None);
    named["metadata"]["name"] = json!("ignored");
    assert_eq!(admin.post(IMAGES, named).await.expect(201)["metadata"]["name"], "one");
    assert_eq!(admin.post(IMAGES, image("Bad_Name", None)).await.causes()[0].1, "metadata.name");
    assert_eq!(admin.post("/namespaces/nowhere/imagenamespaces", image("a", None)).await.code, 404);
    assert_eq!(world.admin("u").post(IMAGES, image("a", None)).await.code, 404, "another tenant's project");
    let mut foreign = image("theirs", None);
    foreign["spec"]["tenantID"] = json!("u");
    assert_eq!(admin.post(IMAGES, foreign.clone()).await.expect(201)["spec"]["tenantID"], "t");
    let misplaced = operator
        .post(IMAGES, {
            foreign["spec"]["name"] = json!("x");
            foreign
        })
        .await;
    assert_eq!(misplaced.code, 404, "the project is not of that tenant: {misplaced:?}");
    let of_project = operator.post(IMAGES, image("two", None)).await.expect(201);
    assert_eq!(of_project["spec"]["tenantID"], "t", "an operator's is of its project's tenant");
    let renamed = admin.patch(&format!("{IMAGES}/one"), json!({"spec": {"name": "other"}})).await;
    assert_eq!((renamed.code, renamed.causes()[0].1.as_str()), (422, "spec.name"));
    let odd = world.admin("Odd Tenant");
    odd.post("/projects", project("odd", json!({"pods": "1"}))).await.expect(201);
    let refused = odd.post("/namespaces/odd/imagenamespaces", image("a", None)).await;
    assert_eq!(refused.causes(), [("FieldValueInvalid".to_owned(), "spec.tenantID".to_owned())]);
}

#[tokio::test]
async fn selectors_take_tenant_name_and_phase() {
    let (world, admin) = world(&json!({})).await;
    for name in ["one", "two"] {
        admin.post(IMAGES, image(name, None)).await.expect(201);
    }
    let locked = json!({"status": {"phase": "Locked", "locked": true}});
    world.operator().patch(&format!("{IMAGES}/two/status"), locked).await.expect(200);
    for (selector, names) in [
        ("metadata.name=one", ["one"].as_slice()),
        ("spec.name=two", &["two"]),
        ("spec.tenantID=t", &["one", "two"]),
        ("spec.tenantID=u", &[]),
        ("status.phase=Locked", &["two"]),
    ] {
        let path = format!("/imagenamespaces?fieldSelector={}", selector.replace('=', "%3D"));
        until(selector, async || admin.get(&path).await.names() == names).await;
    }
}

#[tokio::test]
async fn the_registry_is_no_cluster() {
    let (_world, admin) = world(&json!({})).await;
    let mut namespace = crate::support::namespace("n", json!({"pods": "1"}));
    namespace["spec"]["clusterName"] = json!("registry");
    let refused = admin.post(&crate::support::namespaces("p"), namespace).await;
    assert_eq!(refused.code, 422);
    assert!(refused.causes().iter().any(|(_, field)| field == "spec.clusterName"), "{refused:?}");
    let pods = with_registry(project("x", json!({})), &json!({"pods": "1"}));
    let odd = admin.post("/projects", pods).await;
    assert_eq!(
        odd.causes(),
        [("FieldValueNotSupported".to_owned(), "spec.clusters[registry].hard[pods]".to_owned())]
    );
}
