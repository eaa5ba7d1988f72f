use crate::support::{Answer, Client, World, child, member_cluster, namespace, namespaces, project, until};
use serde_json::{Value, json};

/// The tree that every case starts from: `ca` with 100 pods and 10 cores, of which `kid` has 40 and 4.
async fn tree() -> (World, Client) {
    let world = World::new().await;
    for name in ["c1", "c2"] {
        world.register(member_cluster(name, &["*"]), json!({})).await;
    }
    let admin = world.admin("t");
    admin.post("/projects", project("ca", json!({"pods": "100", "requests.cpu": "10"}))).await.expect(201);
    admin.post("/projects", child("kid", "ca", json!({"pods": "40", "requests.cpu": "4"}))).await.expect(201);
    (world, admin)
}

#[track_caller]
fn assert_refused(case: &str, answer: &Answer, code: u16, causes: &[(&str, &str)]) {
    assert_eq!(answer.code, code, "{case}: {:#}", answer.body);
    let found = answer.causes();
    let found: Vec<(&str, &str)> =
        found.iter().map(|(reason, field)| (reason.as_str(), field.as_str())).collect();
    assert_eq!(found, causes, "{case}: {}", answer.message());
}

const INVALID: &str = "FieldValueInvalid";

#[tokio::test]
async fn projects_are_refused_with_the_fields_that_clients_know() {
    let (_world, admin) = tree().await;
    let both = |pods: &str| json!({"pods": pods, "requests.cpu": "1"});
    let at = |cluster: &str| {
        let mut body = child("oc", "ca", json!({}));
        body["spec"]["clusters"] = json!({cluster: {"hard": both("1")}});
        body
    };
    let unnamed = |mut body: Value| {
        body["spec"]["displayName"] = json!("");
        body
    };
    let cases = [
        ("negative", project("a", json!({"pods": "-1"})), 422, vec![(INVALID, "spec.clusters[c1pods]")]),
        (
            "part of a pod",
            project("a", json!({"pods": "1.5"})),
            422,
            vec![(INVALID, "spec.clusters[c1pods]")],
        ),
        (
            "unknown resource",
            project("a", json!({"foo": "1"})),
            422,
            vec![(INVALID, "spec.clusters[c1foo]"); 2],
        ),
        (
            "no display name",
            unnamed(project("a", json!({}))),
            422,
            vec![("FieldValueRequired", "spec.displayName")],
        ),
        ("bad name", project("Bad_Name", json!({})), 422, vec![(INVALID, "metadata.name")]),
        (
            "own parent",
            child("a", "a", json!({})),
            404,
            vec![("FieldValueNotFound", "spec.parentProjectName")],
        ),
        (
            "unknown parent",
            child("a", "no", json!({})),
            404,
            vec![("FieldValueNotFound", "spec.parentProjectName")],
        ),
        (
            "key missing",
            child("a", "ca", json!({"pods": "1"})),
            422,
            vec![(INVALID, "spec.hard[requests.cpu]")],
        ),
        (
            "too big",
            child("a", "ca", both("61")),
            403,
            vec![("QuotaExceeded", "spec.clusters[c1].hard[pods]")],
        ),
        ("unlisted cluster", at("c2"), 422, vec![(INVALID, "spec.hard")]),
        ("unknown cluster", at("c9"), 422, vec![("FieldValueNotFound", "spec.clusters[c9]")]),
    ];
    for (case, body, code, causes) in cases {
        assert_refused(case, &admin.post("/projects", body).await, code, &causes);
    }
    for text in ["many", "1e99", "9223372036854775808", "0x1", ""] {
        let answer = admin.post("/projects", project("a", json!({"pods": text}))).await;
        assert_eq!(answer.code, 400, "{text:?}: {:#}", answer.body);
    }
    assert_eq!(admin.get("/projects").await.names(), ["ca", "kid"], "nothing was stored");
    let accepted = child("extra", "ca", json!({"pods": "60", "requests.cpu": "6", "requests.memory": "1Gi"}));
    admin.post("/projects", accepted).await.expect(201);
}

#[tokio::test]
async fn changes_of_projects_are_refused_with_what_would_fit() {
    let (world, admin) = tree().await;
    let hard = |pods: &str| json!({"spec": {"clusters": {"c1": {"hard": {"pods": pods}}}}});
    let raised = admin.patch("/projects/kid", hard("101")).await;
    assert_refused("raise", &raised, 403, &[("QuotaExceeded", "spec.clusters[c1].hard[pods]")]);
    assert_eq!(
        raised.message(),
        "projects.business.tkestack.io \"kid\" is forbidden: exceeded quota of project \"ca\" on cluster \"c1\": \
         requested pods=101, hard 100, allocated 40, remaining 60; the largest that fits is 100"
    );
    let lowered = admin.patch("/projects/ca", hard("30")).await;
    assert_refused("lower", &lowered, 403, &[("BelowAllocated", "spec.clusters[c1].hard[pods]")]);
    assert!(lowered.message().ends_with("the smallest that fits is 40"), "{}", lowered.message());
    admin.patch("/projects/ca", hard("40")).await.expect(200);
    admin.patch("/projects/kid", hard("40")).await.expect(200);

    let parent = json!({"spec": {"parentProjectName": "kid"}});
    let cycle = admin.patch("/projects/ca", parent).await;
    assert_eq!(cycle.code, 422, "{:#}", cycle.body);
    assert!(cycle.causes().contains(&(INVALID.to_owned(), "spec.parentProjectName".to_owned())), "{cycle:?}");
    let key = json!({"spec": {"clusters": {"c1": {"hard": {"services": "5"}}}}});
    assert_refused(
        "new key",
        &admin.patch("/projects/ca", key.clone()).await,
        422,
        &[(INVALID, "spec.hard.c1")],
    );
    let without = json!({"spec": {"clusters": {"c1": null}}});
    assert_refused(
        "cluster in use",
        &admin.patch("/projects/ca", without).await,
        422,
        &[(INVALID, "spec.clusters")],
    );
    let tenant = json!({"spec": {"tenantID": "other"}});
    let moved = world.operator().patch("/projects/ca", tenant).await;
    assert_refused("tenant", &moved, 422, &[(INVALID, "spec.tenantID")]);
    admin
        .patch("/projects/kid", json!({"spec": {"clusters": {"c1": {"hard": {"services": "5"}}}}}))
        .await
        .expect(200);
    admin.patch("/projects/ca", key).await.expect(200);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn namespaces_are_refused_with_the_fields_that_clients_know() {
    let (_world, admin) = tree().await;
    let both = |pods: &str| json!({"pods": pods, "requests.cpu": "1"});
    let at = |cluster: &str| {
        let mut body = namespace("a", both("1"));
        body["spec"]["clusterName"] = json!(cluster);
        body
    };
    let long = "x".repeat(64);
    let name = (INVALID, "metadata.name");
    let missing = vec![(INVALID, "spec.hard[pods]"), (INVALID, "spec.hard[requests.cpu]")];
    let cases = [
        ("too big", namespace("a", both("61")), 403, vec![("QuotaExceeded", "spec.hard[pods]")]),
        (
            "key missing",
            namespace("a", json!({"pods": "1"})),
            422,
            vec![(INVALID, "spec.hard[requests.cpu]")],
        ),
        ("no hard", namespace("a", json!({})), 422, missing),
        ("negative", namespace("a", both("-1")), 422, vec![(INVALID, "spec.hard[pods]")]),
        ("forbidden", namespace("kube-system", both("1")), 422, vec![(INVALID, "spec.namespace")]),
        ("the platform's own", namespace("tke-business", both("1")), 422, vec![(INVALID, "spec.namespace")]),
        ("bad namespace", namespace("Bad_Name", both("1")), 422, vec![name, (INVALID, "spec.namespace")]),
        ("long namespace", namespace(&long, both("1")), 422, vec![name, (INVALID, "spec.namespace")]),
        ("no label", namespace("-foo", both("1")), 422, vec![(INVALID, "spec.namespace")]),
        ("NUL", namespace("a\u{0}", both("1")), 400, vec![(INVALID, "spec.namespace")]),
        ("no cluster", at(""), 422, vec![("FieldValueRequired", "spec.clusterName")]),
        ("unknown cluster", at("c9"), 422, vec![("FieldValueNotFound", "spec.clusterName")]),
        ("unlisted cluster", at("c2"), 422, vec![(INVALID, "metadata.namespace")]),
    ];
    for (case, body, code, causes) in cases {
        assert_refused(case, &admin.post(&namespaces("ca"), body).await, code, &causes);
    }
    let nowhere = admin.post(&namespaces("nope"), namespace("a", both("1"))).await;
    assert_refused("no project", &nowhere, 404, &[("FieldValueNotFound", "metadata.namespace")]);
    assert_eq!(nowhere.message(), "projects.business.tkestack.io \"nope\" not found");
    admin.post(&namespaces("ca"), namespace("a", both("60"))).await.expect(201);
    let twice = admin.post(&namespaces("ca"), namespace("a", both("0"))).await;
    assert_eq!((twice.code, twice.body["reason"].as_str()), (409, Some("AlreadyExists")));
    let path = "/namespaces/ca/namespaces/c1-a";
    let fixed = admin.patch(path, json!({"spec": {"clusterName": "c2", "namespace": "b"}})).await;
    assert_refused("fixed", &fixed, 422, &[(INVALID, "spec.clusterName"), (INVALID, "spec.namespace")]);
    let raised = admin.patch(path, json!({"spec": {"hard": {"pods": "61"}}})).await;
    assert_refused("raise", &raised, 403, &[("QuotaExceeded", "spec.hard[pods]")]);
    assert!(raised.message().ends_with("the largest that fits is 60"), "{}", raised.message());
}

#[tokio::test]
async fn an_operators_lock_stops_growth_only() {
    let (world, admin) = tree().await;
    let lock = |locked: bool| {
        let operator = world.operator();
        async move { operator.replace("/projects/ca", "/status", |p| p["status"]["locked"] = json!(locked)).await }
    };
    admin
        .post(&namespaces("ca"), namespace("a", json!({"pods": "5", "requests.cpu": "1"})))
        .await
        .expect(201);
    lock(true).await.expect(200);
    let new = || namespace("b", json!({"pods": "1", "requests.cpu": "1"}));
    assert_refused(
        "locked",
        &admin.post(&namespaces("ca"), new()).await,
        403,
        &[("ProjectLocked", "metadata.namespace")],
    );
    let path = "/namespaces/ca/namespaces/c1-a";
    let raised = admin.patch(path, json!({"spec": {"hard": {"pods": "6"}}})).await;
    assert_refused("raise", &raised, 403, &[("ProjectLocked", "metadata.namespace")]);
    admin.patch(path, json!({"spec": {"hard": {"pods": "4"}}})).await.expect(200);
    admin.patch(path, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    let limit = |pods: Value| json!({"spec": {"clusters": {"c1": {"hard": {"pods": pods}}}}});
    for more in [json!("101"), Value::Null] {
        let raised = admin.patch("/projects/ca", limit(more)).await;
        assert_refused("its own limit", &raised, 403, &[("ProjectLocked", "spec.clusters")]);
    }
    admin.patch("/projects/ca", limit(json!("99"))).await.expect(200);
    lock(false).await.expect(200);
    admin.post(&namespaces("ca"), new()).await.expect(201);
}

#[tokio::test]
async fn amounts_are_compared_by_value_in_every_suffix() {
    let world = World::new().await;
    for name in ["c1", "c2"] {
        world.register(member_cluster(name, &["*"]), json!({})).await;
    }
    let admin = world.admin("t");
    let hard = json!({"requests.cpu": "1", "requests.memory": "1Ki", "pods": "1e3"});
    let made = admin.post("/projects", project("p", hard)).await.expect(201);
    let stored = &made["spec"]["clusters"]["c1"]["hard"];
    assert_eq!(stored, &json!({"requests.cpu": "1", "requests.memory": "1Ki", "pods": "1e3"}));
    let ask = |name: &str, cpu: &str, memory: &str, pods: Value| {
        let body = namespace(name, json!({"requests.cpu": cpu, "requests.memory": memory, "pods": pods}));
        let admin = admin.clone();
        async move { admin.post(&namespaces("p"), body).await }
    };
    ask("a", "500m", "512", json!("0.5k")).await.expect(201);
    ask("b", "0.499", "0.25Ki", json!(499)).await.expect(201);
    let full = ask("c", "0.002", "257", json!("2")).await;
    assert_eq!(full.code, 403, "{:#}", full.body);
    let facts: Vec<&str> = full.body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        facts,
        [
            "project=p cluster=c1 resource=pods requested=2 hard=1k allocated=999 remaining=1 fits=1",
            "project=p cluster=c1 resource=requests.cpu requested=2m hard=1 allocated=999m remaining=1m fits=1m",
            "project=p cluster=c1 resource=requests.memory requested=257 hard=1024 allocated=768 remaining=256 fits=256",
        ]
    );
    ask("d", "1m", "256", json!("1")).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_dry_run_is_refused_like_the_write_and_charges_nothing() {
    let (world, admin) = tree().await;
    let path = format!("{}?dryRun=All", namespaces("ca"));
    let both = |pods: &str| json!({"pods": pods, "requests.cpu": "1"});
    for _twice in 0..2 {
        admin.post(&path, namespace("a", both("60"))).await.expect(201);
    }
    assert_eq!(admin.post(&path, namespace("a", both("61"))).await.code, 403);
    admin.post(&namespaces("ca"), namespace("a", both("60"))).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_write_that_almost_uses_a_limit_up_is_warned() {
    let (_world, admin) = tree().await;
    let mut quiet = 0;
    until("the allocations are known", async || {
        quiet += 1;
        let made = namespace(&format!("n{quiet}"), json!({"pods": "45", "requests.cpu": "1"}));
        let dry = admin.post(&format!("{}?dryRun=All", namespaces("ca")), made).await;
        assert_eq!(dry.code, 201);
        dry.warnings == ["299 - \"85% of pods of project ca on cluster c1 is allocated: 85 of 100\""]
    })
    .await;
}
