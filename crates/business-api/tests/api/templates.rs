//! Templates: who writes them, who names them, what a change says before it is made.

use crate::support::{World, project, until};
use serde_json::{Value, json};

const TEMPLATES: &str = "/namespacetemplates";
const STANDARD: &str = "/namespacetemplates/standard";

#[expect(clippy::needless_pass_by_value, reason = "callers write a literal")]
fn template(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "NamespaceTemplate",
        "metadata": {"name": name}, "spec": spec,
    })
}

#[tokio::test]
async fn operators_write_them_and_every_caller_of_a_tenant_reads_them() {
    let world = World::new().await;
    let operator = world.operator();
    let made =
        operator.post(TEMPLATES, template("standard", json!({"labels": {"a": "b"}}))).await.expect(201);
    assert_eq!(made["spec"]["finalizers"], json!(["namespacetemplate"]));
    assert_eq!(made["spec"]["rollout"], Value::Null, "nobody said how");
    for who in [world.admin("acme"), world.member("alice", "acme"), world.admin("globex")] {
        assert_eq!(who.get(STANDARD).await.expect(200)["spec"]["labels"], json!({"a": "b"}));
        assert_eq!(who.get(TEMPLATES).await.names(), ["standard"]);
        for answer in [
            who.post(TEMPLATES, template("mine", json!({}))).await,
            who.patch(STANDARD, json!({"spec": {"labels": {"a": "c"}}})).await,
            who.delete(STANDARD).await,
        ] {
            assert_eq!(answer.code, 403);
        }
    }
    assert_eq!(world.stranger().get(STANDARD).await.code, 403);
}

#[tokio::test]
async fn a_refusal_names_the_field_and_one_alone_is_the_default() {
    let world = World::new().await;
    let operator = world.operator();
    let wrong = json!({
        "labels": {"tkestack.io/projectName": "other"},
        "limitRange": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "1"}}]},
        "networkPolicies": [{"name": "a", "spec": {"policyTypes": ["None"]}}],
        "roleBindings": [{"name": "a", "role": "cluster-admin", "subjects": [{"kind": "User", "name": "eve"}]}],
    });
    let refused = operator.post(TEMPLATES, template("standard", wrong)).await;
    let fields: Vec<String> = refused.causes().into_iter().map(|(_, field)| field).collect();
    let expected = [
        "spec.labels[tkestack.io/projectName]",
        "spec.limitRange.limits[0].defaultRequest[cpu]",
        "spec.networkPolicies[0].spec.policyTypes[0]",
        "spec.roleBindings[0].role",
    ];
    assert_eq!((refused.code, fields), (422, expected.map(str::to_owned).to_vec()));

    operator.post(TEMPLATES, template("standard", json!({"default": true}))).await.expect(201);
    let second = operator.post(TEMPLATES, template("other", json!({"default": true}))).await;
    assert_eq!((second.code, second.causes()[0].1.as_str()), (422, "spec.default"), "{second:?}");
    operator.delete(STANDARD).await.expect(200);
    operator.post(TEMPLATES, template("other", json!({"default": true}))).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_change_says_beforehand_how_far_it_goes() {
    let world = World::new().await;
    let operator = world.operator();
    operator.post(TEMPLATES, template("standard", json!({"rollout": {"batch": 5}}))).await.expect(201);
    let status = json!({"status": {"namespaces": 30, "clusters": 2}});
    operator.patch(&format!("{STANDARD}/status"), status).await.expect(200);
    for change in [json!({"labels": {"a": "b"}}), json!({"pullSecret": {"serviceAccounts": ["default"]}})] {
        let answer = operator.patch(&format!("{STANDARD}?dryRun=All"), json!({ "spec": change })).await;
        let said = "this changes 30 namespaces in 2 member clusters, in waves of 5";
        assert_eq!(answer.warnings, [format!("299 - \"{said}\"")]);
        answer.expect(200);
    }
    assert_eq!(operator.get(STANDARD).await.expect(200)["spec"]["labels"], Value::Null);
    let name = operator.patch(STANDARD, json!({"spec": {"displayName": "x"}})).await;
    assert!(name.warnings.is_empty(), "nothing of it goes into a namespace: {name:?}");
    let default = operator.patch(STANDARD, json!({"spec": {"default": true}})).await;
    assert!(default.warnings[0].contains("every namespace for which no project"), "{default:?}");
}

#[tokio::test]
async fn projects_and_tenants_name_templates_that_are_there() {
    let world = World::new().await;
    let (operator, admin) = (world.operator(), world.admin("acme"));
    operator.post(TEMPLATES, template("standard", json!({}))).await.expect(201);
    let mut body = project("p", json!({"pods": "5"}));
    body["spec"]["template"] = json!("nowhere");
    body["spec"]["members"] = json!(["alice"]);
    let refused = operator.post("/projects", body.clone()).await;
    assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, "spec.template"), "{refused:?}");
    body["spec"].as_object_mut().unwrap().remove("template");
    body["spec"]["tenantID"] = json!("acme");
    operator.post("/projects", body).await.expect(201);
    let named = json!({"spec": {"template": "standard"}});
    assert_eq!(admin.patch("/projects/p", named.clone()).await.expect(200)["spec"]["template"], "standard");
    let alice = world.member("alice", "acme");
    until("alice is a member", async || alice.get("/projects/p").await.code == 200).await;
    assert_eq!(alice.patch("/projects/p", json!({"spec": {"template": ""}})).await.code, 403);

    let tenant = |template: &str| {
        json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "Tenant",
            "metadata": {"name": "acme"}, "spec": {"template": template},
        })
    };
    let refused = operator.post("/tenants", tenant("nowhere")).await;
    assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, "spec.template"), "{refused:?}");
    operator.post("/tenants", tenant("standard")).await.expect(201);
}

#[tokio::test]
async fn what_is_deleted_stays_until_it_is_released_and_is_named_no_more() {
    let world = World::new().await;
    let operator = world.operator();
    operator.post(TEMPLATES, template("standard", json!({}))).await.expect(201);
    let early = operator.patch(&format!("{STANDARD}/finalize"), json!({"spec": {"finalizers": []}})).await;
    assert_eq!(early.code, 409);
    operator.delete(STANDARD).await.expect(200);
    let mut body = project("p", json!({"pods": "5"}));
    body["spec"]["template"] = json!("standard");
    let refused = operator.post("/projects", body).await;
    assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, "spec.template"), "{refused:?}");
    operator.patch(&format!("{STANDARD}/finalize"), json!({"spec": {"finalizers": []}})).await.expect(200);
    assert_eq!(operator.get(STANDARD).await.code, 404);
}
