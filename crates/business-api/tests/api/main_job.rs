use crate::support::{World, child, member_cluster, namespace, namespaces, project, until};
use serde_json::json;

#[tokio::test]
async fn a_project_and_a_namespace_are_made_together_and_deleted_in_order() {
    let world = World::new().await;
    world.register(member_cluster("c1", &["*"]), json!({"version": "v1.36.3"})).await;
    let (admin, operator) = (world.admin("t"), world.operator());
    let made = admin
        .post("/projects", project("web", json!({"pods": "100", "requests.cpu": "10"})))
        .await
        .expect(201);
    assert_eq!(made["spec"]["tenantID"], "t");
    assert_eq!(made["spec"]["finalizers"], json!(["project"]));
    assert_eq!(made["spec"]["members"], json!([]), "always there");
    assert_eq!(made["status"], json!({"phase": "Pending", "observedGeneration": 0}));
    let shop = namespace("shop", json!({"pods": "40", "requests.cpu": "0.5"}));
    let made = admin.post(&namespaces("web"), shop).await.expect(201);
    assert_eq!(made["metadata"]["name"], "c1-shop");
    assert_eq!(made["status"]["cachedSpecHard"], json!({"pods": "40", "requests.cpu": "500m"}));
    let read = admin.get("/namespaces/web/namespaces/c1-shop").await.expect(200);
    assert_eq!(read["spec"]["clusterVersion"], "v1.36.3");

    admin.delete("/projects/web").await.expect(200);
    assert_eq!(admin.delete("/projects/web").await.code, 409, "it still waits for its finalizer");
    let refused = admin.post(&namespaces("web"), namespace("late", json!({}))).await;
    assert_eq!(refused.code, 403);
    assert_eq!(refused.causes()[0], ("NamespaceTerminating".to_owned(), "metadata.namespace".to_owned()));
    let early = operator.replace("/projects/web", "/finalize", |p| p["spec"]["finalizers"] = json!([])).await;
    assert_eq!(early.code, 409, "children first: {}", early.message());
    assert_eq!(early.causes()[0].0, "ProjectInUse");

    admin.delete("/namespaces/web/namespaces/c1-shop").await.expect(200);
    release(&world, "web", "c1-shop").await;
    operator.replace("/projects/web", "/finalize", |p| p["spec"]["finalizers"] = json!([])).await.expect(200);
    assert_eq!(admin.get("/projects/web").await.code, 404);
    world.assert_books_agree().await;
}

/// What the controller does once the cluster's namespace is gone.
async fn release(world: &World, project: &str, name: &str) {
    let (operator, path) = (world.operator(), format!("/namespaces/{project}/namespaces/{name}"));
    let confirmed = operator.replace(&path, "/status", |object| {
        object["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
        object["status"]["cachedSpecHard"] = json!({});
    });
    confirmed.await.expect(200);
    operator.replace(&path, "/finalize", |object| object["spec"]["finalizers"] = json!([])).await.expect(200);
    assert_eq!(operator.get(&path).await.code, 404);
}

#[tokio::test]
async fn ten_of_sixty_four_creates_fit_on_two_replicas() {
    let world = World::with_replicas(2).await;
    world.operator().post("/projects", project("web", json!({"pods": "10"}))).await.expect(201);
    until("both replicas know the project", async || {
        world.operator_at(1).get("/projects/web").await.code == 200
    })
    .await;
    let creates = (0..64).map(|n| {
        let client = world.operator_at(n % 2);
        tokio::spawn(async move {
            client.post(&namespaces("web"), namespace(&format!("n{n}"), json!({"pods": "1"}))).await
        })
    });
    let mut codes = Vec::new();
    for create in creates.collect::<Vec<_>>() {
        let answer = create.await.unwrap();
        if answer.code == 403 {
            assert_eq!(answer.causes(), [("QuotaExceeded".to_owned(), "spec.hard[pods]".to_owned())]);
            assert!(
                answer.message().contains("remaining 0; the largest that fits is 0"),
                "{}",
                answer.message()
            );
        }
        codes.push(answer.code);
    }
    codes.sort_unstable();
    assert_eq!(codes, [vec![201; 10], vec![403; 54]].concat());
    assert_eq!(world.operator().get(&namespaces("web")).await.names().len(), 10);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn every_documented_field_selects() {
    let world = World::new().await;
    let admin = world.admin("t");
    admin.post("/projects", project("top", json!({"pods": "10"}))).await.expect(201);
    admin.post("/projects", child("kid", "top", json!({"pods": "5"}))).await.expect(201);
    admin.post(&namespaces("kid"), namespace("a", json!({"pods": "1"}))).await.expect(201);
    for (query, names) in [
        ("metadata.name=kid", vec!["kid"]),
        ("spec.tenantID=t", vec!["kid", "top"]),
        ("spec.parentProjectName=top", vec!["kid"]),
        ("status.phase=Pending", vec!["kid", "top"]),
        ("status.phase=Active", vec![]),
    ] {
        assert_eq!(admin.get(&format!("/projects?fieldSelector={query}")).await.names(), names, "{query}");
    }
    for (query, count) in [
        ("metadata.name=c1-a", 1),
        ("metadata.namespace=kid", 1),
        ("spec.tenantID=t", 1),
        ("spec.clusterName=c1", 1),
        ("spec.clusterName=c2", 0),
        ("spec.namespace=a", 1),
        ("status.phase=Pending", 1),
    ] {
        assert_eq!(
            admin.get(&format!("/namespaces?fieldSelector={query}")).await.names().len(),
            count,
            "{query}"
        );
    }
    assert_eq!(admin.get("/projects?fieldSelector=spec.nope=x").await.code, 400);
}

#[tokio::test]
async fn a_name_is_given_or_derived_or_generated() {
    let world = World::new().await;
    let admin = world.admin("t");
    let mut unnamed = project("any", json!({}));
    unnamed["metadata"] = json!({});
    let made = admin.post("/projects", unnamed).await.expect(201);
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("prj-") && name.len() > 4, "{name}");
    let mut own = namespace("a", json!({}));
    own["metadata"]["name"] = json!("mine");
    assert_eq!(admin.post(&namespaces(name), own).await.expect(201)["metadata"]["name"], "mine");
}
