//! Platforms: who makes them, whom they make administrators, and that a tenant has one.

use crate::support::{Client, World, child, namespace, namespaces, project, until};
use http::Method;
use serde_json::{Value, json};

const PLATFORMS: &str = "/platforms";
const ACME: &str = "/platforms/plf-acme";

fn platform(name: &str, tenant: &str, administrators: &[&str]) -> Value {
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Platform", "metadata": metadata,
        "spec": {"tenantID": tenant, "administrators": administrators},
    })
}

async fn until_administrator(who: &Client) {
    until("he is an administrator", async || who.get("/portal").await.body["administrator"] == true).await;
}

async fn acme() -> World {
    let world = World::new().await;
    world.operator().post(PLATFORMS, platform("plf-acme", "acme", &["root"])).await.expect(201);
    until_administrator(&world.member("root", "acme")).await;
    world
}

#[tokio::test]
async fn whom_a_platform_names_rules_its_tenant() {
    let world = acme().await;
    let (root, alice) = (world.member("root", "acme"), world.member("alice", "acme"));
    root.post("/projects", project("p", json!({"pods": "5"}))).await.expect(201);
    root.post(&namespaces("p"), namespace("web", json!({"pods": "1"}))).await.expect(201);
    root.delete(&format!("{}/c1-web", namespaces("p"))).await.expect(200);
    root.patch("/projects/p", json!({"spec": {"members": ["alice"]}})).await.expect(200);
    until("alice is a member", async || alice.get("/projects/p").await.code == 200).await;
    assert_eq!(alice.patch("/projects/p", json!({"spec": {"displayName": "x"}})).await.code, 403);
    assert_eq!(world.member("root", "globex").get("/projects/p").await.code, 404, "a namesake elsewhere");
    assert_eq!(world.member("root", "globex").post("/projects", project("q", json!({}))).await.code, 403);
    world.operator().delete(ACME).await.expect(200);
    until("he is none any more", async || root.post("/projects", project("r", json!({}))).await.code == 403)
        .await;
}

#[tokio::test]
async fn administrators_say_who_they_are_and_operators_make_platforms() {
    let world = acme().await;
    let (root, operator) = (world.member("root", "acme"), world.operator());
    for who in [&root, &world.admin("globex"), &world.member("alice", "acme"), &world.stranger()] {
        let mine = platform("mine", "globex", &["me"]);
        assert_eq!(who.post(PLATFORMS, mine).await.code, 403);
        assert!([403, 404].contains(&who.delete(ACME).await.code));
    }
    let named =
        root.patch(ACME, json!({"spec": {"administrators": ["root", "alice"], "tenantID": "globex"}})).await;
    assert_eq!(named.expect(200)["spec"], json!({"tenantID": "acme", "administrators": ["root", "alice"]}));
    until_administrator(&world.member("alice", "acme")).await;
    // A strategic patch leaves nobody in who is not in it.
    let body = json!({"spec": {"administrators": ["alice"]}});
    let content = "application/strategic-merge-patch+json";
    let left = root.send(Method::PATCH, ACME, content, Some(body)).await.expect(200);
    assert_eq!(left["spec"]["administrators"], json!(["alice"]));
    until("root is out", async || root.patch(ACME, json!({})).await.code == 403).await;
    for (body, cause) in [
        (json!({"spec": {"tenantID": "globex"}}), "spec.tenantID"),
        (json!({"spec": {"administrators": [""]}}), "spec.administrators[0]"),
    ] {
        let refused = operator.patch(ACME, body).await;
        assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, cause), "{refused:?}");
    }
    let put = json!({"apiVersion": "business.tkestack.io/v1", "kind": "Platform", "spec": {},
        "metadata": {"name": "plf-acme", "resourceVersion": left["metadata"]["resourceVersion"]}});
    let kept = operator.put(ACME, put).await.expect(200);
    assert_eq!(kept["spec"], json!({"tenantID": "acme", "administrators": []}), "the tenant stays");
}

#[tokio::test]
async fn the_whole_tenant_sees_its_platforms_and_nobody_elses() {
    let world = acme().await;
    world.operator().post(PLATFORMS, platform("alice", "globex", &["gina"])).await.expect(201);
    world.operator().post(PLATFORMS, platform("nobodys", "", &["gina"])).await.expect(201);
    // Somebody whose project has the name of another tenant's platform.
    let mut body = project("alice", json!({}));
    body["spec"]["members"] = json!(["alice"]);
    world.admin("acme").post("/projects", body).await.expect(201);
    for who in [world.admin("acme"), world.member("alice", "acme"), world.member("nobody", "acme")] {
        until("it is seen", async || who.get(PLATFORMS).await.names() == ["plf-acme"]).await;
        for hidden in ["alice", "nobodys", "nope"] {
            let missing = who.get(&format!("{PLATFORMS}/{hidden}")).await;
            let message = format!("platforms.business.tkestack.io {hidden:?} not found");
            assert_eq!((missing.code, missing.message()), (404, message.as_str()));
        }
    }
    assert_eq!(world.operator().get(PLATFORMS).await.names(), ["alice", "nobodys", "plf-acme"]);
    assert_eq!(world.stranger().get(PLATFORMS).await.code, 403);
    let chosen = world.operator().get("/platforms?fieldSelector=spec.tenantID%3Dglobex").await;
    assert_eq!(chosen.names(), ["alice"]);
}

#[tokio::test]
async fn a_tenant_has_one_beside_the_default_however_many_are_tried_at_once() {
    let world = World::with_replicas(2).await;
    let tries = (0..24).map(|number| {
        let operator = world.operator_at(number % 2);
        async move { operator.post(PLATFORMS, platform(&format!("plf-{number}"), "acme", &["root"])).await }
    });
    let answers = futures_util::future::join_all(tries).await;
    let made = answers.iter().filter(|answer| answer.code == 201).count();
    assert_eq!(made, 1, "{answers:?}");
    for refused in answers.iter().filter(|answer| answer.code != 201) {
        let cause = ("FieldValueDuplicate".to_owned(), "spec.tenantID".to_owned());
        assert_eq!((refused.code, refused.causes()), (422, vec![cause]), "{refused:?}");
    }
    let operator = world.operator();
    let message = operator.post(PLATFORMS, platform("two", "acme", &[])).await;
    assert_eq!(
        message.message(),
        "Platform.business.tkestack.io \"two\" is invalid: spec.tenantID: Duplicate value: \"acme\""
    );
    operator.post(PLATFORMS, platform("platform-default", "acme", &["chief"])).await.expect(201);
    // What nobody owns stands in nobody's way.
    for _ in 0..2 {
        let made = operator.post(PLATFORMS, platform("", "", &[])).await.expect(201);
        assert!(made["metadata"]["name"].as_str().unwrap().starts_with("platform-"));
    }
    let first = operator.get("/platforms?fieldSelector=spec.tenantID%3Dacme").await.names();
    operator.delete(&format!("{PLATFORMS}/{}", first[1])).await.expect(200);
    operator.post(PLATFORMS, platform("two", "acme", &[])).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn what_an_open_watch_shows_ends_with_the_role() {
    let world = acme().await;
    world.admin("acme").post("/projects", project("p", json!({}))).await.expect(201);
    let root = world.member("root", "acme");
    let watching = tokio::spawn({
        let root = root.clone();
        async move { root.get("/projects?watch=true&timeoutSeconds=30").await }
    });
    let names = |administrators: &[&str]| json!({"spec": {"administrators": administrators}});
    let called = |name: &str| json!({"spec": {"displayName": name}});
    // Again until the watch is open and sees it.
    until("the watch has ended", async || {
        world.operator().patch(ACME, names(&[])).await.expect(200);
        world.operator().patch("/projects/p", called("unseen")).await.expect(200);
        world.operator().patch("/projects/p", called("seen")).await.expect(200);
        world.operator().patch(ACME, names(&["root"])).await.expect(200);
        watching.is_finished()
    })
    .await;
    let text = watching.await.unwrap().body.to_string();
    assert!(text.contains("ERROR") && text.contains("410") && !text.contains("unseen"), "{text}");
}

#[tokio::test]
async fn the_write_that_takes_a_role_away_is_not_shown_to_whom_it_is_taken_from() {
    let world = acme().await;
    world.admin("acme").post("/projects", project("p", json!({}))).await.expect(201);
    let ed = world.member("ed", "acme");
    let write = |people: &[&str], name: &str| json!({"spec": {"members": people, "displayName": name}});
    world.operator().patch("/projects/p", write(&["ed"], "seen")).await.expect(200);
    until("ed is a member", async || ed.get("/projects/p").await.code == 200).await;
    let watching = tokio::spawn(async move { ed.get("/projects?watch=true&timeoutSeconds=30").await });
    until("the watch is under way", async || world.metric("apiserver_longrunning_requests") > 0.0).await;
    until("the watch has ended", async || {
        world.operator().patch("/projects/p", write(&[], "unseen")).await.expect(200);
        world.operator().patch("/projects/p", write(&["ed"], "seen")).await.expect(200);
        watching.is_finished()
    })
    .await;
    let text = watching.await.unwrap().body.to_string();
    assert!(text.contains("ERROR") && !text.contains("unseen"), "{text}");
}

#[tokio::test]
async fn the_first_administrator_is_there_from_the_start_and_then_left_alone() {
    let flags = ["--initial-administrator-tenant=acme", "--initial-administrator-user=root"];
    let world = World::with_replicas_and(3, &flags).await;
    let (operator, root) = (world.operator(), world.member("root", "acme"));
    until_administrator(&root).await;
    assert_eq!(operator.get(PLATFORMS).await.names(), ["platform-default"]);
    let made = operator.get("/platforms/platform-default").await.expect(200);
    assert_eq!(made["spec"], json!({"tenantID": "acme", "administrators": ["root"]}));
    root.patch("/platforms/platform-default", json!({"spec": {"administrators": ["root", "chief"]}}))
        .await
        .expect(200);
    let another = World::started(world.database.clone(), &flags).await;
    another.until_ready().await;
    let kept = another.operator().get("/platforms/platform-default").await.expect(200);
    assert_eq!(kept["spec"]["administrators"], json!(["root", "chief"]));
    world.assert_books_agree().await;
}

#[tokio::test]
async fn an_administrator_named_here_makes_children_where_he_may_not_grant() {
    let world = World::with_settings(&[]).await;
    world.operator().post(PLATFORMS, platform("plf-acme", "acme", &["root"])).await.expect(201);
    let root = world.member("root", "acme");
    until_administrator(&root).await;
    assert_eq!(
        root.post("/projects", project("p", json!({"pods": "5"}))).await.code,
        403,
        "no --tenant-grant"
    );
    let mut body = project("p", json!({"pods": "5"}));
    body["spec"]["tenantID"] = json!("acme");
    world.operator().post("/projects", body).await.expect(201);
    root.post("/projects", child("kid", "p", json!({"pods": "2"}))).await.expect(201);
}
