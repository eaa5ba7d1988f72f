//! Budgets from the top: what member clusters have, tenants may be granted, and their root projects take.

use crate::support::{Answer, World, child, namespace, namespaces, project, until};
use serde_json::{Value, json};

const TENANTS: &str = "/tenants";
const ACME: &str = "/tenants/acme";
const CLUSTERS: &str = "/memberclusters";

#[expect(clippy::needless_pass_by_value, reason = "callers write a literal")]
fn tenant(name: &str, ceilings: Value) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Tenant", "metadata": {"name": name},
        "spec": {"displayName": name, "clusters": ceilings},
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers write a literal")]
fn member_cluster(name: &str, hard: Value) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "MemberCluster", "metadata": {"name": name},
        "spec": {"tenants": ["*"], "hard": hard},
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers write a literal")]
fn ceiling(hard: Value) -> Value {
    json!({"c1": {"hard": hard}})
}

/// A cluster of 20 pods, of which acme may have 10.
async fn world() -> World {
    let world = World::with_settings(&[]).await;
    let operator = world.operator();
    world.register(member_cluster("c1", json!({"pods": "20"})), json!({})).await;
    world.register(member_cluster("c2", json!({})), json!({})).await;
    operator.post(TENANTS, tenant("acme", ceiling(json!({"pods": "10"})))).await.expect(201);
    world
}

#[track_caller]
fn refused(answer: &Answer, cause: &str, field: &str, text: &str) {
    assert_eq!(answer.code, 403, "{answer:?}");
    assert_eq!(answer.causes()[0], (cause.to_owned(), field.to_owned()), "{answer:?}");
    assert!(answer.message().contains(text), "{}", answer.message());
}

const ROOT_PODS: &str = "spec.clusters[c1].hard[pods]";

/// Tools that wait until an object is ready would otherwise take a new one for it.
#[tokio::test]
async fn a_new_cluster_or_tenant_says_that_nobody_has_looked_at_it() {
    let world = World::with_settings(&[]).await;
    for (path, mut body) in
        [(CLUSTERS, member_cluster("c1", json!({}))), (TENANTS, tenant("acme", json!({})))]
    {
        body["status"] = json!({"observedGeneration": 1});
        let made = world.operator().post(path, body).await.expect(201);
        assert_eq!(made["status"], json!({"observedGeneration": 0}));
    }
}

#[tokio::test]
async fn below_its_ceiling_a_tenant_makes_and_raises_roots_by_itself() {
    let world = world().await;
    let (admin, operator) = (world.admin("acme"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "6"}))).await.expect(201);
    let over = admin.post("/projects", project("q", json!({"pods": "5"}))).await;
    refused(
        &over,
        "QuotaExceeded",
        ROOT_PODS,
        "exceeded quota of tenant \"acme\" on cluster \"c1\": requested pods=5, hard 10, allocated 6, remaining 4; the \
         largest that fits is 4",
    );
    let raise = |pods: &str| json!({"spec": {"clusters": {"c1": {"hard": {"pods": pods}}}}});
    admin.patch("/projects/p", raise("10")).await.expect(200);
    refused(&admin.patch("/projects/p", raise("11")).await, "QuotaExceeded", ROOT_PODS, "tenant \"acme\"");
    admin.post("/projects", child("below", "p", json!({"pods": "2"}))).await.expect(201);
    admin.post(&namespaces("below"), namespace("web", json!({"pods": "2"}))).await.expect(201);

    // Where there is no ceiling nobody of the tenant makes budget, whatever he leaves out.
    for (cluster, hard) in [("c2", json!({"pods": "1"})), ("c2", json!({}))] {
        let mut body = project("other", json!({}));
        body["spec"]["clusters"] = json!({cluster: {"hard": hard}});
        refused(
            &admin.post("/projects", body.clone()).await,
            "NoCeiling",
            "spec.clusters[c2]",
            "needs the verb \"grant\" on projects",
        );
        body["metadata"]["name"] = json!("op");
        body["spec"]["tenantID"] = json!("acme");
        operator.post("/projects?dryRun=All", body).await.expect(201);
    }
    let unlimited =
        admin.patch("/projects/p", json!({"spec": {"clusters": {"c1": {"hard": {"pods": null}}}}})).await;
    assert_eq!(unlimited.code, 422, "{unlimited:?}");
    refused(
        &world.admin("globex").post("/projects", project("g", json!({"pods": "1"}))).await,
        "NoCeiling",
        "spec.clusters[c1]",
        "tenant \"globex\" has no ceiling on cluster \"c1\"",
    );
    world.assert_books_agree().await;
}

#[tokio::test]
async fn operators_share_out_what_a_cluster_has() {
    let world = world().await;
    let operator = world.operator();
    let over = operator.post(TENANTS, tenant("globex", ceiling(json!({"pods": "11"})))).await;
    refused(
        &over,
        "QuotaExceeded",
        ROOT_PODS,
        "exceeded quota of cluster \"c1\": requested pods=11, hard 20, allocated 10",
    );
    let bare = operator.post(TENANTS, tenant("globex", ceiling(json!({})))).await;
    assert_eq!(
        (bare.code, bare.message().contains("must set a ceiling of \"pods\"")),
        (422, true),
        "{bare:?}"
    );
    let nowhere = operator.post(TENANTS, tenant("globex", json!({"c7": {"hard": {"pods": "1"}}}))).await;
    assert_eq!((nowhere.code, nowhere.message().contains("is not registered")), (422, true), "{nowhere:?}");
    operator.post(TENANTS, tenant("globex", ceiling(json!({"pods": "10"})))).await.expect(201);
    let less = operator.patch(&format!("{CLUSTERS}/c1"), json!({"spec": {"hard": {"pods": "19"}}})).await;
    refused(
        &less,
        "BelowAllocated",
        "spec.hard[pods]",
        "cluster \"c1\" has already given away pods=20: hard cannot be 19",
    );
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_ceiling_on_what_exists_blocks_growth_and_nothing_else() {
    let world = World::with_settings(&[]).await;
    let (admin, operator) = (world.admin("acme"), world.operator());
    let mut root = project("p", json!({"pods": "12"}));
    root["spec"]["tenantID"] = json!("acme");
    operator.post("/projects", root).await.expect(201);
    operator.post(CLUSTERS, member_cluster("c1", json!({"pods": "20"}))).await.expect(201);
    operator.post(TENANTS, tenant("acme", ceiling(json!({"pods": "10"})))).await.expect(201);
    let over = operator.post(TENANTS, tenant("globex", ceiling(json!({"pods": "9"})))).await;
    refused(&over, "QuotaExceeded", ROOT_PODS, "allocated 12, remaining 8");
    until("it is seen", async || admin.get("/projects/p").await.code == 200).await;
    refused(
        &admin.post("/projects", project("q", json!({"pods": "1"}))).await,
        "QuotaExceeded",
        ROOT_PODS,
        "tenant",
    );
    admin.patch("/projects/p", json!({"spec": {"displayName": "renamed"}})).await.expect(200);
    admin
        .patch("/projects/p", json!({"spec": {"clusters": {"c1": {"hard": {"pods": "9"}}}}}))
        .await
        .expect(200);
    admin.post("/projects", project("q", json!({"pods": "1"}))).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn nothing_is_promised_of_a_cluster_that_others_use_without_a_ceiling() {
    let world = world().await;
    let operator = world.operator();
    let mut wild = project("wild", json!({}));
    wild["spec"]["tenantID"] = json!("globex");
    operator.post("/projects", wild).await.expect(201);
    let raise = |annotation: Value| {
        json!({
            "metadata": {"annotations": {"business.tkestack.io/accept-unbounded": annotation}},
            "spec": {"clusters": {"c1": {"hard": {"pods": "11"}}}},
        })
    };
    let told = async || operator.patch(&format!("{ACME}?dryRun=All"), raise(Value::Null)).await;
    until("it is known", async || told().await.code == 403).await;
    assert!(told().await.message().contains("cluster \"c1\" is used without a ceiling by globex, so"));
    operator.patch(ACME, json!({"spec": {"clusters": {"c1": {"hard": {"pods": "9"}}}}})).await.expect(200);
    operator.patch(&format!("{ACME}?dryRun=All"), raise(json!("c2, c1"))).await.expect(200);
    operator
        .patch("/projects/wild", json!({"spec": {"clusters": {"c1": {"hard": {"pods": "1"}}}}}))
        .await
        .expect(200);
    operator.post(TENANTS, tenant("globex", ceiling(json!({"pods": "1"})))).await.expect(201);
    until("all are bounded", async || told().await.code == 200).await;
}

#[tokio::test]
async fn a_tenant_sees_itself_and_changes_nothing_of_it() {
    let world = world().await;
    world.operator().post(TENANTS, tenant("globex", json!({}))).await.expect(201);
    for who in [world.admin("acme"), world.member("alice", "acme")] {
        until("it is seen", async || who.get(TENANTS).await.names() == ["acme"]).await;
        assert_eq!(who.get("/tenants/globex").await.code, 404);
        assert_eq!(who.patch(ACME, json!({"spec": {"displayName": "x"}})).await.code, 403);
        assert_eq!(who.delete(ACME).await.code, 403);
        assert_eq!(who.get(CLUSTERS).await.code, 403);
    }
}

#[tokio::test]
async fn a_tenant_with_projects_is_not_deleted_by_any_policy_and_takes_new_ones() {
    let world = world().await;
    let (admin, operator) = (world.admin("acme"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "1"}))).await.expect(201);
    let refusal = async |query: &str| {
        let answer = operator.delete(&format!("{ACME}{query}")).await;
        (answer.code, answer.causes().first().map(|(cause, _field)| cause.clone()))
    };
    let in_use = (409, Some("TenantInUse".to_owned()));
    assert_eq!(refusal("").await, in_use);
    until("the project is known where nothing would be deleted at once", async || {
        refusal("?dryRun=All&propagationPolicy=Foreground").await == in_use
    })
    .await;
    for policy in ["Foreground", "Orphan", "Background"] {
        assert_eq!(refusal(&format!("?propagationPolicy={policy}")).await, in_use, "{policy}");
    }
    let kept = operator.get(ACME).await.expect(200);
    assert_eq!(kept["metadata"].get("deletionTimestamp"), None, "nor is it Terminating");
    admin.post("/projects", project("q", json!({"pods": "1"}))).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_tenant_that_is_being_deleted_is_granted_nothing_more() {
    let world = world().await;
    let operator = world.operator();
    operator.patch(ACME, json!({"metadata": {"finalizers": ["example.com/billing"]}})).await.expect(200);
    operator.delete(ACME).await.expect(200);
    let ceiling = |pods: &str| json!({"spec": {"clusters": ceiling(json!({"pods": pods}))}});
    let more = operator.patch(ACME, ceiling("11")).await;
    assert_eq!(more.code, 403, "{more:?}");
    assert!(more.message().ends_with("it is being deleted: nothing more is granted of it"), "{more:?}");
    operator.patch(ACME, ceiling("9")).await.expect(200);
    operator.patch(ACME, json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(operator.get(ACME).await.code, 404);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn whom_a_tenant_names_rules_it_by_name_or_by_group() {
    let world = World::with_settings(&[]).await;
    let mut body = tenant("acme", json!({}));
    body["spec"]["administrators"] =
        json!([{"kind": "User", "name": "root"}, {"kind": "Group", "name": "chiefs"}]);
    world.operator().post(TENANTS, body).await.expect(201);
    let chief = world.bearer(json!({"sub": "carol", "tenantid": "acme", "groups": ["chiefs"]}));
    let rules = async |who: &crate::support::Client| who.get("/portal").await.body["administrator"] == true;
    for who in [&world.member("root", "acme"), &chief] {
        until("he is an administrator", async || rules(who).await).await;
    }
    assert!(!rules(&world.member("alice", "acme")).await && !rules(&world.member("root", "globex")).await);
    world.operator().patch(ACME, json!({"spec": {"administrators": []}})).await.expect(200);
    until("she is none any more", async || !rules(&chief).await).await;
}

#[tokio::test]
async fn operators_lock_and_give_up_with_a_reason_and_a_right_of_its_own() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("acme"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "5"}))).await.expect(201);
    admin.post(&namespaces("p"), namespace("web", json!({"pods": "1"}))).await.expect(201);
    let because = json!({"reason": "unpaid"});
    assert_eq!(admin.post("/projects/p/lock", because.clone()).await.code, 403);
    let wrong = operator.post("/projects/p/lock", json!({"reason": " "})).await;
    assert_eq!((wrong.code, wrong.causes()[0].1.as_str()), (422, "reason"), "{wrong:?}");
    operator.post("/projects/p/lock?dryRun=All", because.clone()).await.expect(201);
    let done = operator.post("/projects/p/lock", because.clone()).await.expect(201);
    assert_eq!((done["kind"].as_str(), done["reason"].as_str()), (Some("OperatorAct"), Some("unpaid")));
    let locked = admin.get("/projects/p").await.expect(200);
    assert_eq!(locked["status"]["locked"], true);
    assert_eq!(locked["metadata"]["annotations"]["business.tkestack.io/lock-reason"], "unpaid");
    let refused = admin.post(&namespaces("p"), namespace("more", json!({"pods": "1"}))).await;
    assert_eq!((refused.code, refused.causes()[0].0.as_str()), (403, "ProjectLocked"), "{refused:?}");
    operator.post("/projects/p/unlock", because.clone()).await.expect(201);
    let free = admin.get("/projects/p").await.expect(200);
    assert!(free["status"].get("locked").is_none(), "{free:#}");
    assert!(!free.to_string().contains("lock-reason"), "{free:#}");

    let web = format!("{}/c1-web", namespaces("p"));
    let early = operator.post(&format!("{web}/abandon"), because.clone()).await;
    assert_eq!((early.code, early.message().contains("delete it first")), (409, true), "{early:?}");
    admin.delete(&web).await.expect(200);
    operator.post(&format!("{web}/abandon"), because).await.expect(201);
    let given_up = operator.get(&web).await.expect(200);
    assert_eq!(given_up["metadata"]["annotations"]["business.tkestack.io/abandon"], "unpaid");
    world.assert_books_agree().await;
}

#[tokio::test]
async fn the_clusters_that_a_tenant_may_use_are_offered_with_what_is_left_of_its_ceiling() {
    const OFFERS: &str = "/clusteroffers";
    let world = world().await;
    let (admin, member, operator) = (world.admin("acme"), world.member("bob", "acme"), world.operator());
    let mut closed = member_cluster("theirs", json!({}));
    closed["spec"]["tenants"] = json!(["other"]);
    world.register(closed, json!({})).await;
    operator
        .patch("/memberclusters/c2", json!({"spec": {"displayName": "Two", "cordoned": true}}))
        .await
        .expect(200);
    admin.post("/projects", project("p", json!({"pods": "6"}))).await.expect(201);
    let c1 = json!([{"tenantID": "acme", "hard": {"pods": "10"}, "left": {"pods": "4"}}]);
    for who in [&admin, &member] {
        until("it is known", async || {
            let offers = who.get(OFFERS).await.expect(200);
            let of = |name: &str| {
                let items = offers["items"].as_array().unwrap();
                items.iter().find(|offer| offer["metadata"]["name"] == name).cloned()
            };
            let two = of("c2").unwrap_or_default();
            assert!(of("theirs").is_none(), "another tenant's does not exist");
            let closed = two["cordoned"] == true && two["displayName"] == "Two";
            closed && two["tenants"] == json!([{"tenantID": "acme"}]) && of("c1").unwrap()["tenants"] == c1
        })
        .await;
        assert_eq!(who.get("/clusteroffers/theirs").await.code, 404);
        assert_eq!(who.get("/clusteroffers/c1").await.expect(200)["tenants"], c1);
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = admin.get_as("/clusteroffers/c1", table).await.expect(200);
    assert_eq!(table["rows"][0]["cells"][5], "pods: 6/10", "{table:#}");
    assert_eq!(operator.get(OFFERS).await.names(), ["c1", "c2", "theirs"]);
    assert_eq!(world.stranger().get(OFFERS).await.code, 403);
}

#[tokio::test]
async fn defaults_name_clusters_that_are_there_and_a_refusal_says_that_it_is_they() {
    let world = world().await;
    let (admin, operator) = (world.admin("acme"), world.operator());
    let defaults = |cluster: &str| json!({"spec": {"defaults": {"clusters": {cluster: {"hard": {}}}}}});
    let unknown = operator.patch(ACME, defaults("nosuch")).await;
    assert_eq!((unknown.code, unknown.causes()[0].1.as_str()), (422, "spec.defaults.clusters[nosuch]"));
    operator.patch(ACME, defaults("c2")).await.expect(200);
    operator.patch("/memberclusters/c2", json!({"spec": {"tenants": ["globex"]}})).await.expect(200);
    until("c2 is for others", async || admin.get("/clusteroffers/c2").await.code == 404).await;
    let new = || json!({"metadata": {"name": "plain"}, "spec": {"displayName": "plain"}});
    let refused = admin.post("/projects", new()).await;
    assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, "spec.clusters[c2]"), "{refused:?}");
    assert!(refused.message().contains("spec.defaults of the tenant"), "{refused:?}");
    // What was named before blocks nothing else.
    operator.patch(ACME, json!({"spec": {"displayName": "Acme"}})).await.expect(200);
    operator.patch(ACME, json!({"spec": {"defaults": null}})).await.expect(200);
    admin.post("/projects", new()).await.expect(201);
    // One that has just come is there, whether or not the replica's index has it yet.
    for number in 0..8 {
        let name = format!("new{number}");
        operator.post("/memberclusters", member_cluster(&name, json!({}))).await.expect(201);
        operator.patch(ACME, defaults(&name)).await.expect(200);
    }
}

#[tokio::test]
async fn new_roots_begin_with_what_their_tenant_says_and_name_people_of_its_own() {
    let world = world().await;
    let (admin, operator) = (world.admin("acme"), world.operator());
    let ann = json!({"kind": "User", "name": "acme:ann", "role": "edit"});
    let terms = json!({"spec": {
        "identityPrefixes": ["acme:"],
        "defaults": {"clusters": {"c1": {"hard": {"pods": "2"}}}, "access": [ann]},
    }});
    operator.patch(ACME, terms).await.expect(200);
    let bare = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let made = admin.post("/projects", bare("plain", json!({"displayName": "plain"}))).await.expect(201);
    assert_eq!(made["spec"]["clusters"], json!({"c1": {"hard": {"pods": "2"}}}), "{made:#}");
    assert_eq!(made["spec"]["access"], json!([ann]));

    // What one says oneself is not touched, and what lies below has its own.
    let own = admin.post("/projects", project("own", json!({"pods": "1"}))).await.expect(201);
    assert_eq!(own["spec"]["clusters"], json!({"c1": {"hard": {"pods": "1"}}}));
    let below = bare("below", json!({"displayName": "below", "parentProjectName": "own"}));
    let below = admin.post("/projects", below).await.expect(201);
    assert!(["access", "clusters"].iter().all(|field| below["spec"].get(field).is_none()), "{below:#}");

    // Defaults are granted like whatever else.
    for (name, code) in [("b", 201), ("c", 201), ("d", 201), ("e", 403)] {
        let answer = admin.post("/projects", bare(name, json!({"displayName": name}))).await;
        assert_eq!(answer.code, code, "{answer:?}");
    }

    let eve = json!({"kind": "Group", "name": "globex:devs", "role": "view"});
    let robot = json!({"kind": "ServiceAccount", "namespace": "gitops", "name": "argocd", "role": "edit"});
    let named = |all: Value| json!({"spec": {"access": all}});
    let refused = admin.patch("/projects/own", named(json!([robot, eve]))).await;
    assert_eq!(refused.code, 422, "{refused:?}");
    assert_eq!(refused.causes()[0].1, "spec.access[1].name");
    assert!(refused.message().contains("names of this tenant begin with acme:"), "{refused:?}");
    admin.patch("/projects/own", named(json!([robot, ann]))).await.expect(200);

    // Who is named already stays until he is taken away.
    operator.patch(ACME, json!({"spec": {"identityPrefixes": null}})).await.expect(200);
    admin.patch("/projects/own", named(json!([eve]))).await.expect(200);
    operator.patch(ACME, json!({"spec": {"identityPrefixes": ["acme:"]}})).await.expect(200);
    admin.patch("/projects/own", json!({"spec": {"displayName": "mine"}})).await.expect(200);
    admin
        .patch("/projects/own", named(json!([{"kind": "Group", "name": "globex:devs", "role": "edit"}])))
        .await
        .expect(200);
    admin.patch("/projects/own", named(json!([]))).await.expect(200);
    assert_eq!(admin.patch("/projects/own", named(json!([eve]))).await.code, 422);
    world.assert_books_agree().await;
}
