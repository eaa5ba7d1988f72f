//! Namespaces that go to another project: whole, or not at all.

use crate::support::{Client, World, namespace, namespaces, project};
use serde_json::{Value, json};

const WEB: &str = "/namespaces/src/namespaces/c1-web";
const MOVED: &str = "/namespaces/dst/namespaces/c1-web";

/// Projects `src` and `dst` of tenant t, and a namespace of 2 pods in the first.
async fn two_projects() -> (World, Client) {
    let world = World::new().await;
    let admin = world.admin("t");
    for (name, pods) in [("src", "10"), ("dst", "4")] {
        let mut body = project(name, json!({"pods": pods}));
        body["spec"]["members"] = json!(["alice"]);
        admin.post("/projects", body).await.expect(201);
    }
    admin.post(&namespaces("src"), namespace("web", json!({"pods": "2"}))).await.expect(201);
    (world, admin)
}

async fn transfer(client: &Client, query: &str, body: Value) -> crate::support::Answer {
    client.post(&format!("{WEB}/transfer{query}"), body).await
}

#[tokio::test]
async fn a_namespace_goes_with_its_charge_and_stays_itself() {
    let (world, admin) = two_projects().await;
    let before = admin.replace(WEB, "", |web| web["spec"]["hard"]["pods"] = json!("1")).await.expect(200);
    assert_eq!(before["status"]["cachedSpecHard"]["pods"], "2", "the cluster has not confirmed less");
    let body = json!({"project": "dst", "reason": "the team has moved"});
    let tried = transfer(&admin, "?dryRun=All", body.clone()).await.expect(201);
    assert_eq!(tried["metadata"]["namespace"], "dst");
    assert_eq!(admin.get(WEB).await.expect(200), before, "a rehearsal stores nothing");
    let moved = transfer(&admin, "", body).await.expect(201);
    assert_eq!(moved, admin.get(MOVED).await.expect(200), "the answer is the object as it was stored");
    assert_eq!(admin.get(WEB).await.code, 404);
    for field in ["uid", "creationTimestamp", "name"] {
        assert_eq!(moved["metadata"][field], before["metadata"][field], "{field}");
    }
    assert_eq!(moved["metadata"]["generation"], json!(3));
    assert_eq!(moved["spec"], before["spec"]);
    assert_eq!(moved["status"]["cachedSpecHard"]["pods"], "2", "the high-water charge goes with it");
    assert_eq!(
        moved["metadata"]["annotations"]["business.tkestack.io/transfer-reason"],
        "the team has moved"
    );
    let conditions = moved["status"]["conditions"].as_array().unwrap();
    let told = conditions.iter().find(|condition| condition["type"] == "Transferred").unwrap();
    assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("FormerMarks")));
    assert!(told["message"].as_str().unwrap().contains("\"src\""), "{told}");
    let owners = moved["metadata"]["managedFields"].as_array().unwrap();
    let kept = before["metadata"]["managedFields"].as_array().unwrap();
    assert!(kept.iter().all(|owner| owners.iter().any(|now| now["fieldsV1"] == owner["fieldsV1"])));
    // What it is charged is there, and no more is elsewhere.
    let full = admin.post(&namespaces("dst"), namespace("full", json!({"pods": "3"}))).await;
    assert_eq!(full.causes(), [("QuotaExceeded".to_owned(), "spec.hard[pods]".to_owned())]);
    admin.post(&namespaces("src"), namespace("next", json!({"pods": "10"}))).await.expect(201);
    world.assert_books_agree().await;
    // Its place in the cluster is still its own.
    let taken = admin.post(&namespaces("src"), namespace("web", json!({"pods": "0"}))).await;
    assert_eq!(taken.causes()[0].0, "ClaimTaken", "{:#}", taken.body);
}

#[tokio::test]
async fn a_late_confirmation_of_the_old_project_lowers_nothing() {
    let (world, admin) = two_projects().await;
    let operator = world.operator();
    admin.replace(WEB, "", |web| web["spec"]["hard"]["pods"] = json!("1")).await.expect(200);
    let mut late = operator.get(WEB).await.expect(200);
    late["status"]["cachedSpecHard"]["pods"] = json!("1");
    late["status"]["observedGeneration"] = late["metadata"]["generation"].clone();
    transfer(&admin, "", json!({"project": "dst"})).await.expect(201);
    assert_eq!(operator.put(&format!("{WEB}/status"), late.clone()).await.code, 404);
    let now = operator.get(MOVED).await.expect(200);
    late["metadata"] = now["metadata"].clone();
    let answer = operator.put(&format!("{MOVED}/status"), late).await;
    assert_eq!(answer.code, 409, "its generation is another: {:#}", answer.body);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn what_the_destination_does_not_take_stays_where_it_is() {
    let (world, admin) = two_projects().await;
    let operator = world.operator();
    let made = async |name: &str, change: &dyn Fn(&mut Value)| {
        let mut body = project(name, json!({"pods": "4"}));
        change(&mut body);
        admin.post("/projects", body).await.expect(201);
    };
    made("small", &|body| body["spec"]["clusters"]["c1"]["hard"]["pods"] = json!("1")).await;
    made("keys", &|body| body["spec"]["clusters"]["c1"]["hard"]["services"] = json!("1")).await;
    made("elsewhere", &|body| body["spec"]["clusters"] = json!({"c2": {"hard": {"pods": "4"}}})).await;
    made("locked", &|_| ()).await;
    made("going", &|_| ()).await;
    made("taken", &|_| ()).await;
    operator.patch("/projects/locked/status", json!({"status": {"locked": true}})).await.expect(200);
    admin.delete("/projects/going").await.expect(200);
    let mut other = namespace("other", json!({"pods": "1"}));
    other["metadata"]["name"] = json!("c1-web");
    admin.post(&namespaces("taken"), other).await.expect(201);
    let before = admin.get(WEB).await.expect(200);
    for (to, code, reason, field) in [
        ("small", 403, "QuotaExceeded", "spec.clusters[c1].hard[pods]"),
        ("keys", 422, "FieldValueInvalid", "spec.hard[services]"),
        ("elsewhere", 422, "FieldValueInvalid", "project"),
        ("locked", 403, "ProjectLocked", "project"),
        ("going", 403, "NamespaceTerminating", "project"),
        ("src", 422, "FieldValueInvalid", "project"),
        ("", 422, "FieldValueRequired", "project"),
    ] {
        for query in ["?dryRun=All", ""] {
            let answer = transfer(&admin, query, json!({"project": to})).await;
            assert_eq!(answer.code, code, "{to}: {:#}", answer.body);
            assert_eq!(answer.causes()[0], (reason.to_owned(), field.to_owned()), "{to}: {:#}", answer.body);
        }
    }
    let told = transfer(&admin, "", json!({"project": "taken"})).await;
    assert_eq!((told.code, told.body["reason"].as_str()), (409, Some("AlreadyExists")), "{:#}", told.body);
    let other = transfer(&admin, "", json!({"project": "dst", "uid": "another"})).await;
    assert_eq!((other.code, other.body["reason"].as_str()), (409, Some("Conflict")), "{:#}", other.body);
    assert_eq!(admin.get(WEB).await.expect(200), before);
    admin.delete(WEB).await.expect(200);
    let going = transfer(&admin, "", json!({"project": "dst"})).await;
    assert_eq!(going.code, 409, "what is being deleted stays: {:#}", going.body);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn who_may_not_or_does_not_see_moves_nothing() {
    let (world, admin) = two_projects().await;
    world.admin("u").post("/projects", project("theirs", json!({"pods": "10"}))).await.expect(201);
    let create = admin.post(&namespaces("theirs"), namespace("x", json!({"pods": "1"}))).await;
    let missing = transfer(&admin, "", json!({"project": "nobody"})).await;
    let theirs = transfer(&admin, "", json!({"project": "theirs"})).await;
    assert_eq!((theirs.code, theirs.message()), (create.code, create.message()), "as a create there");
    assert_eq!(theirs.body.to_string().replace("theirs", "nobody"), missing.body.to_string());
    let member = transfer(&world.member("alice", "t"), "", json!({"project": "dst"})).await;
    assert_eq!(member.code, 403, "members take nothing away: {:#}", member.body);
    let foreign = transfer(&world.admin("u"), "", json!({"project": "theirs"})).await;
    assert_eq!(foreign.code, 404);
    let operator = transfer(&world.operator(), "", json!({"project": "theirs"})).await;
    assert_eq!(
        (operator.code, operator.message()),
        (404, "projects.business.tkestack.io \"theirs\" not found in this tenant: it is another one's")
    );
    transfer(&world.operator(), "", json!({"project": "dst"})).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn who_has_an_owner_or_dependents_in_its_project_stays() {
    let (world, admin) = two_projects().await;
    let web = admin.get(WEB).await.expect(200);
    let owner = |kind: &str, name: &str, uid: &Value| json!([{"apiVersion": "business.tkestack.io/v1", "kind": kind, "name": name, "uid": uid}]);
    let mut kid = namespace("kid", json!({"pods": "1"}));
    kid["metadata"]["ownerReferences"] = owner("Namespace", "c1-web", &web["metadata"]["uid"]);
    admin.post(&namespaces("src"), kid).await.expect(201);
    let owning = transfer(&admin, "", json!({"project": "dst"})).await;
    assert_eq!(owning.code, 422);
    assert_eq!(owning.causes(), [("FieldValueForbidden".to_owned(), "metadata.ownerReferences".to_owned())]);
    assert!(owning.message().contains("Namespace \"c1-kid\" names it as its owner"), "{}", owning.message());
    let owned = admin.post("/namespaces/src/namespaces/c1-kid/transfer", json!({"project": "dst"})).await;
    assert_eq!(
        (owned.code, owned.causes()),
        (422, vec![("FieldValueForbidden".to_owned(), "metadata.ownerReferences[0]".to_owned())])
    );
    // An owner at cluster scope goes along.
    let src = admin.get("/projects/src").await.expect(200);
    let mut free = namespace("free", json!({"pods": "1"}));
    free["metadata"]["ownerReferences"] = owner("Project", "src", &src["metadata"]["uid"]);
    admin.post(&namespaces("src"), free).await.expect(201);
    admin.post("/namespaces/src/namespaces/c1-free/transfer", json!({"project": "dst"})).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn many_that_want_the_last_room_do_not_share_it() {
    let (world, admin) = two_projects().await;
    for number in 0..6 {
        let made = namespace(&format!("n{number}"), json!({"pods": "1"}));
        admin.post(&namespaces("src"), made).await.expect(201);
    }
    let moves = (0..6).map(|number| {
        let admin = admin.clone();
        let path = format!("/namespaces/src/namespaces/c1-n{number}/transfer");
        async move { admin.post(&path, json!({"project": "dst"})).await.code }
    });
    let codes = futures_util::future::join_all(moves).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 4, "{codes:?}");
    world.assert_books_agree().await;
}

const EMIGRATIONS: &str = "/namespaces/src/nsemigrations";

fn emigration(namespace: &str, destination: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "NsEmigration",
        "metadata": {"name": "ignored", "namespace": "src"},
        "spec": {"namespace": namespace, "nsShowName": "web", "destination": destination, "tenantID": "t"},
        "status": {"phase": "Finished", "reason": "sent"},
    })
}

#[tokio::test]
async fn an_emigration_is_made_of_what_can_go_only() {
    let (world, admin) = two_projects().await;
    world.admin("u").post("/projects", project("theirs", json!({"pods": "10"}))).await.expect(201);
    admin.post("/projects", project("small", json!({"pods": "1"}))).await.expect(201);
    let refused = async |namespace: &str, to: &str| {
        let answer = admin.post(EMIGRATIONS, emigration(namespace, to)).await;
        assert_eq!(answer.code, 422, "{:#}", answer.body);
        answer.message().split_once(" is invalid: ").unwrap().1.to_owned()
    };
    let pending = "spec.namespace: Invalid value: \"c1-web\": in phase Pending, can NOT emigrate";
    assert_eq!(refused("c1-web", "dst").await, pending);
    world
        .operator()
        .patch(&format!("{WEB}/status"), json!({"status": {"phase": "Available"}}))
        .await
        .expect(200);
    for (namespace, to, told) in [
        ("c1-web", "src", "spec.destination: Invalid value: \"src\": is still the current project"),
        ("c1-web", "", "spec.destination: Invalid value: \"\": empty project name"),
        (
            "c1-web",
            "theirs",
            "spec.destination: Invalid value: \"theirs\": failed to get this project, \
             projects.business.tkestack.io \"theirs\" not found",
        ),
        (
            "c1-web",
            "small",
            "namespace(c1-web).spec.hard[pods]: Invalid value: \"2\": should NOT be more than remaining quantity(1)",
        ),
        ("", "dst", "spec.namespace: Invalid value: \"\": empty business namespace name"),
        (
            "none",
            "dst",
            "spec.namespace: Invalid value: \"none\": failed to get this business namespace, \
             namespaces.business.tkestack.io \"none\" not found",
        ),
    ] {
        assert_eq!(refused(namespace, to).await, told);
    }
    let mut nameless = emigration("", "dst");
    nameless["metadata"] = json!({});
    let told = admin.post(EMIGRATIONS, nameless.clone()).await;
    assert!(told.body["details"]["name"].as_str().is_some_and(|name| name.starts_with("nse-")), "{told:?}");
    for who in [&admin, &world.operator()] {
        let nowhere = who.post("/namespaces/nowhere/nsemigrations", nameless.clone()).await;
        let missing = "projects.business.tkestack.io \"nowhere\" not found";
        assert_eq!((nowhere.code, nowhere.message()), (404, missing), "whatever else is wrong");
    }
    let made = admin.post(EMIGRATIONS, emigration("c1-web", "dst")).await.expect(201);
    assert_eq!(made["metadata"]["name"], "c1-web", "it has the namespace's name");
    assert_eq!(made["status"]["phase"], "Pending", "what is sent of its status is not taken");
    assert_eq!(made["status"]["namespaceUID"], admin.get(WEB).await.expect(200)["metadata"]["uid"]);
    let second = admin.post(EMIGRATIONS, emigration("c1-web", "dst")).await;
    assert_eq!((second.code, second.body["reason"].as_str()), (409, Some("AlreadyExists")));
    let url = format!("{EMIGRATIONS}/c1-web");
    let patched =
        admin.patch(&url, json!({"spec": {"destination": "small"}, "status": {"phase": "Failed"}})).await;
    let patched = patched.expect(200);
    assert_eq!((&patched["spec"], &patched["status"]["phase"]), (&made["spec"], &json!("Pending")));
    let foreign = world.admin("u");
    assert_eq!(foreign.get(&url).await.code, 404);
    let theirs = foreign.post(EMIGRATIONS, emigration("c1-web", "dst")).await;
    let create = foreign.post(&namespaces("src"), namespace("x", json!({"pods": "1"}))).await;
    assert_eq!((theirs.code, theirs.message()), (create.code, create.message()), "another tenant makes none");
    let member = world.member("alice", "t").post(EMIGRATIONS, emigration("c1-web", "dst")).await;
    assert_eq!(member.code, 403, "{:#}", member.body);
    admin.delete(&url).await.expect(200);
    world.assert_books_agree().await;
}
