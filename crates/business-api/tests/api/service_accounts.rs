//! Service accounts in lists of people: nobody gets their roles by making the namespace that they live in.

use crate::support::{Client, World, member_cluster, namespace, namespaces, project, until};
use serde_json::{Value, json};

/// The clusters `c1` and `local`, which is the host cluster, and the tenants `a` and `b` with a project each.
async fn world() -> World {
    let world = World::new().await;
    world.register(member_cluster("c1", &["*"]), json!({})).await;
    let mut local = member_cluster("local", &["*"]);
    local["metadata"]["annotations"] = json!({"business.tkestack.io/host-cluster": "true"});
    world.register(local, json!({})).await;
    for tenant in ["a", "b"] {
        let mut body = project(&format!("{tenant}-web"), json!({}));
        body["spec"]["clusters"]["local"] = json!({"hard": {}});
        world.admin(tenant).post("/projects", body).await.expect(201);
    }
    world
}

fn access() -> Value {
    json!({"spec": {"access": [
        {"kind": "ServiceAccount", "namespace": "ci", "name": "deployer", "cluster": "c1", "role": "edit"},
        {"kind": "ServiceAccount", "namespace": "gitops", "name": "argocd", "role": "admin"},
        {"kind": "User", "name": "ann", "role": "view"},
    ]}})
}

fn claim(cluster: &str, name: &str) -> Value {
    let mut body = namespace(name, json!({}));
    body["spec"]["clusterName"] = json!(cluster);
    body
}

#[tokio::test]
async fn nobody_claims_where_another_tenants_service_account_lives() {
    let world = world().await;
    let (a, b, operator) = (world.admin("a"), world.admin("b"), world.operator());
    a.patch("/projects/a-web", access()).await.expect(200);
    let rehearse = async |who: &Client, project: &str, cluster: &str, name: &str| {
        who.post(&format!("{}?dryRun=All", namespaces(project)), claim(cluster, name)).await
    };
    until("the list is known", async || rehearse(&b, "b-web", "c1", "ci").await.code == 422).await;
    for (cluster, name) in [("c1", "ci"), ("local", "gitops")] {
        let refused = rehearse(&b, "b-web", cluster, name).await;
        let cause = ("FieldValueInvalid".to_owned(), "spec.namespace".to_owned());
        assert_eq!((refused.code, refused.causes()), (422, vec![cause]), "{refused:?}");
        assert!(!refused.message().contains("a-web"), "{}", refused.message());
        rehearse(&a, "a-web", cluster, name).await.expect(201);
        let told = rehearse(&operator, "b-web", cluster, name).await;
        assert!(told.warnings.iter().any(|told| told.contains("outside this tenant")), "{told:?}");
        told.expect(201);
    }
    for (cluster, name) in [("local", "ci"), ("c1", "gitops")] {
        rehearse(&b, "b-web", cluster, name).await.expect(201);
    }
    a.patch("/projects/a-web", json!({"spec": {"access": []}})).await.expect(200);
    until("nobody lists it", async || rehearse(&b, "b-web", "c1", "ci").await.code == 201).await;
}

#[tokio::test]
async fn nobody_lists_accounts_of_a_cluster_that_his_tenant_may_not_use() {
    let world = world().await;
    world.register(member_cluster("theirs", &["b"]), json!({})).await;
    let (a, b) = (world.admin("a"), world.admin("b"));
    let list = |cluster: &str| {
        let entry = json!({"kind": "ServiceAccount", "namespace": "ci", "name": "x", "cluster": cluster, "role": "edit"});
        json!({"spec": {"access": [entry]}})
    };
    for cluster in ["theirs", "nowhere"] {
        let refused = a.patch("/projects/a-web", list(cluster)).await;
        let cause = ("FieldValueNotFound".to_owned(), "spec.access[0].cluster".to_owned());
        assert_eq!((refused.code, refused.causes()), (422, vec![cause]), "{refused:?}");
    }
    b.patch("/projects/b-web", list("theirs")).await.expect(200);
    world.register(member_cluster("theirs", &["a"]), json!({})).await;
    let claimed = async || {
        let mut body = project("a-new", json!({}));
        body["spec"]["clusters"] = json!({"theirs": {"hard": {}}});
        a.post("/projects?dryRun=All", body).await.code == 201
    };
    until("it is the other tenant's cluster now", claimed).await;
    let body = json!({"spec": {"clusters": {"theirs": {"hard": {}}}}});
    a.patch("/projects/a-web", body).await.expect(200);
    a.post(&format!("{}?dryRun=All", namespaces("a-web")), claim("theirs", "ci")).await.expect(201);
    b.patch("/projects/b-web", json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
}

#[tokio::test]
async fn whoever_lists_a_service_account_hears_that_its_namespace_is_not_his() {
    let world = world().await;
    let (a, b) = (world.admin("a"), world.admin("b"));
    let told = async || {
        let answer = a.patch("/projects/a-web?dryRun=All", access()).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        let mut places: Vec<String> = answer
            .warnings
            .iter()
            .filter(|told| told.contains("is none of this tenant's"))
            .map(|told| told.split(':').next().unwrap_or_default().replace("299 - \"", ""))
            .collect();
        places.sort_unstable();
        places
    };
    assert_eq!(told().await, ["spec.access[0]", "spec.access[1]"]);
    b.post(&namespaces("b-web"), claim("c1", "ci")).await.expect(201);
    assert_eq!(told().await, ["spec.access[0]", "spec.access[1]"], "they learn nothing of one another");
    a.post(&namespaces("a-web"), claim("local", "gitops")).await.expect(201);
    until("it is its own", async || told().await == ["spec.access[0]"]).await;
    a.patch("/projects/a-web", access()).await.expect(200);
    assert_eq!(told().await, [""; 0], "it was told");
}
