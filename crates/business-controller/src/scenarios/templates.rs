//! What templates put into namespaces, and how changes are rolled out.

use crate::controller::Controller as _;
use crate::error::{CallFailure, Error, ListFailure};
use crate::fixtures::pending;
use crate::fixtures::server::CLUSTER;
use crate::fixtures::world::{BINDINGS, NAMESPACE, OBJECT, World};
use crate::kinds::{ChangeSource, ObjectKey as _, RootKey, ViewChange};
use crate::member::Reach;
use crate::member::template_objects::{TemplateObject, TemplateObjectKind};
use crate::member::watch_store::UpdateSource;
use crate::member_cluster::kind::{BusinessMemberCluster, MemberClusterView};
use crate::metrics::{Drift, DriftLabels};
use crate::namespace_template::kind::{NamespaceTemplate, TemplateView};
use crate::outcome::PassOutcome;
use crate::queue::Requeue;
use business_types::Condition;
use business_types::condition::{TERMINATING, find};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::time::Duration;

const TEMPLATE: &str = "/apis/business.tkestack.io/v1/namespacetemplates/standard";
const LIMITS: &str = "/api/v1/namespaces/web/limitranges/business-template";
const POLICY: &str = "/apis/networking.k8s.io/v1/namespaces/web/networkpolicies/business-template-deny";
const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/web/rolebindings/business:template:sre";
const NOTHING: [&str; 0] = [];

fn full() -> Value {
    json!({
        "default": true,
        "finalizers": ["namespacetemplate"],
        "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
        "limitRange": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]},
        "networkPolicies": [{"name": "deny", "spec": {"policyTypes": ["Ingress"]}}],
        "roleBindings": [{
            "name": "sre", "role": "business:offered:view", "subjects": [{"kind": "Group", "name": "sre"}],
        }],
    })
}

/// Puts the template into the API, and delivers it to the controller.
fn put_template(world: &World, spec: &Value) {
    let generation =
        world.server.find(TEMPLATE).map_or(1, |old| old["metadata"]["generation"].as_i64().unwrap() + 1);
    let status = world.server.find(TEMPLATE).map_or(json!({}), |old| old["status"].clone());
    let metadata = json!({ "name": "standard", "uid": "t", "generation": generation });
    world.server.put(TEMPLATE, &json!({ "metadata": metadata, "spec": spec, "status": status }));
    if world.server.find(CLUSTER).is_none() {
        world.answers();
    }
    sync_template(world);
}

fn sync_template(world: &World) {
    let stored: DynamicObject = serde_json::from_value(world.server.get(TEMPLATE)).unwrap();
    let view = TemplateView::decode(stored).unwrap();
    if let Some(change) = world.cx.objects.namespace_templates.upsert(view, ChangeSource::WatchEvent) {
        NamespaceTemplate::changed(&world.cx, &change);
    }
}

async fn template_pass(world: &World) -> PassOutcome {
    NamespaceTemplate::reconcile(&world.cx, &RootKey::new(None, "standard")).await.unwrap()
}

fn condition(world: &World, path: &str, type_: &str) -> (String, String, String) {
    let object = world.stored(path);
    let all = object["status"]["conditions"].as_array().unwrap().clone();
    let one = all.iter().find(|one| one["type"] == type_).unwrap_or_else(|| panic!("{type_}: {all:?}"));
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

/// A namespace in use with the full template.
async fn in_use() -> World {
    let world = World::new();
    put_template(&world, &full());
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("1");
    world.pass().await.unwrap();
    world.calls();
    world
}

#[tokio::test]
async fn a_new_namespace_gets_all_of_it_before_it_is_available() {
    let world = World::new();
    put_template(&world, &full());
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    let writes: Vec<String> = world.calls().into_iter().filter(|call| !call.starts_with("GET")).collect();
    let expected = [
        "POST /api/v1/namespaces".to_owned(),
        "POST /api/v1/namespaces/web/resourcequotas".to_owned(),
        format!("APPLY {LIMITS}"),
        format!("APPLY {POLICY}"),
        format!("APPLY {BINDING}"),
        format!("POST {BINDINGS}"),
        format!("PATCH {OBJECT}/status"),
    ];
    assert_eq!(writes, expected);
    assert_eq!(
        world.stored(NAMESPACE)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "baseline"
    );
    assert_eq!(world.stored(LIMITS)["spec"]["limits"][0]["default"]["cpu"], "1");
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(world.stored(OBJECT)["status"]["template"]["name"], "standard");
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").0, "True");
    world.enforces("1");
    world.pass().await.unwrap();
    world.calls();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
    assert_eq!(world.calls(), NOTHING, "what is right costs nothing");
}

#[tokio::test]
async fn it_waits_for_limits_and_not_for_the_rest() {
    let world = World::new();
    put_template(&world, &full());
    world.server.refuse("/api/v1/namespaces/web/limitranges");
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused, "it is tried again");
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Failed");
    let (status, reason, message) = condition(&world, OBJECT, "TemplateApplied");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Refused"));
    assert!(message.contains("LimitRange business-template: refused with 403"), "{message}");
    assert!(world.server.find(POLICY).is_some(), "all else is there");

    let world = World::new();
    put_template(&world, &full());
    world.server.refuse("/apis/networking.k8s.io");
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").0, "False");
}

#[tokio::test]
async fn what_somebody_changes_is_restored_and_what_he_adds_stays() {
    let world = in_use().await;
    let drift = || world.cx.metrics.drift.get_or_create(&DriftLabels { what: Drift::Template }).get();
    let theirs = json!({ "metadata": { "name": "mine" }, "spec": { "limits": [] } });
    world.server.put("/api/v1/namespaces/web/limitranges/mine", &theirs);
    world.server.edit(LIMITS, &json!({
        "spec": { "limits": [] },
        "metadata": { "managedFields": [{ "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:spec": {} } }] },
    }));
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(world.calls(), [format!("APPLY {LIMITS}")]);
    assert_eq!(
        (world.stored(LIMITS)["spec"]["limits"][0]["default"]["cpu"].clone(), drift()),
        (json!("1"), 1)
    );
    assert!(world.server.find("/api/v1/namespaces/web/limitranges/mine").is_some());

    world.server.remove(POLICY);
    let labels = json!({ "pod-security.kubernetes.io/enforce": "privileged", "theirs": "stays" });
    world.server.edit(NAMESPACE, &json!({ "metadata": { "labels": labels } }));
    world.watches();
    world.pass().await.unwrap();
    assert!(world.server.find(POLICY).is_some());
    let labels = world.stored(NAMESPACE)["metadata"]["labels"].clone();
    assert_eq!(
        (&labels["pod-security.kubernetes.io/enforce"], &labels["theirs"]),
        (&json!("baseline"), &json!("stays"))
    );
    assert_eq!(drift(), 2);
}

#[tokio::test]
async fn what_the_template_names_no_more_goes() {
    let world = in_use().await;
    let less = json!({ "default": true, "labels": { "team": "a" }, "finalizers": ["namespacetemplate"] });
    put_template(&world, &less);
    world.pass().await.unwrap();
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").1, "WaitingForWave");
    assert!(world.server.find(LIMITS).is_some(), "it is not its turn");
    template_pass(&world).await;
    assert_eq!(world.stored(TEMPLATE)["status"]["wave"]["namespaces"], json!(["u"]));
    world.pass().await.unwrap();
    for gone in [LIMITS, POLICY, BINDING] {
        assert!(world.server.find(gone).is_none(), "{gone}");
    }
    let labels = world.stored(NAMESPACE)["metadata"]["labels"].clone();
    assert_eq!((&labels["team"], &labels["pod-security.kubernetes.io/enforce"]), (&json!("a"), &Value::Null));
    world.watches();
    world.calls();
    world.pass().await.unwrap();
    assert_eq!(world.calls(), NOTHING);
    assert_eq!(world.cx.metrics.drift.get_or_create(&DriftLabels { what: Drift::Template }).get(), 0);
}

#[tokio::test]
async fn a_paused_rollout_waits_and_status_says_how_far_it_is() {
    let world = in_use().await;
    template_pass(&world).await;
    let status = world.stored(TEMPLATE)["status"].clone();
    assert_eq!(
        (&status["namespaces"], &status["updated"], &status["clusters"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(condition(&world, TEMPLATE, "Ready").0, "True");
    let mut spec = full();
    spec["rollout"] = json!({ "paused": true });
    put_template(&world, &spec);
    template_pass(&world).await;
    assert_eq!(condition(&world, TEMPLATE, "RolledOut").0, "True", "a pause changes nothing in a namespace");
    spec["labels"]["team"] = json!("a");
    put_template(&world, &spec);
    template_pass(&world).await;
    world.pass().await.unwrap();
    assert_eq!(condition(&world, TEMPLATE, "RolledOut").1, "Paused");
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"]["team"], Value::Null);
    spec["rollout"] = json!({ "paused": false });
    put_template(&world, &spec);
    template_pass(&world).await;
    world.pass().await.unwrap();
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"]["team"], "a");
}

#[tokio::test]
async fn a_rollout_stops_where_it_fails() {
    let world = in_use().await;
    world.server.refuse(POLICY);
    let mut spec = full();
    spec["networkPolicies"][0]["spec"] = json!({ "policyTypes": ["Egress"] });
    put_template(&world, &spec);
    template_pass(&world).await;
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available", "it stays in use");
    template_pass(&world).await;
    let (status, reason, message) = condition(&world, TEMPLATE, "RolledOut");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Stopped"));
    assert!(message.contains("0 of 1 namespaces") && message.contains("1 have failed"), "{message}");
    assert_eq!(world.stored(TEMPLATE)["status"]["failed"], 1);
    let (_, _, message) = condition(&world, OBJECT, "TemplateApplied");
    assert!(
        message.contains("cluster c1: NetworkPolicy business-template-deny: refused with 403"),
        "{message}"
    );
}

/// A quota that anybody can set to zero is no failure of the template.
#[tokio::test]
async fn a_quota_that_leaves_no_room_stops_no_rollout() {
    let world = in_use().await;
    let why = "networkpolicies.networking.k8s.io is forbidden: exceeded quota: web, requested: 1, used: 0, limited: 0";
    world.server.refuse_because(POLICY, why);
    let mut spec = full();
    spec["networkPolicies"][0]["spec"] = json!({ "policyTypes": ["Egress"] });
    put_template(&world, &spec);
    template_pass(&world).await;
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused, "it is tried again");
    let (status, reason, message) = condition(&world, OBJECT, "TemplateApplied");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "QuotaExceeded"));
    assert!(message.contains("NetworkPolicy business-template-deny: refused with 403"), "{message}");
    template_pass(&world).await;
    assert_eq!(condition(&world, TEMPLATE, "RolledOut").0, "True");
    assert_eq!(world.stored(TEMPLATE)["status"]["failed"], Value::Null, "nobody");
    // There is another failure, too.
    world.server.refuse(BINDING);
    spec["roleBindings"][0]["subjects"][0]["name"] = json!("others");
    put_template(&world, &spec);
    template_pass(&world).await;
    world.pass().await.unwrap();
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").1, "Refused");
    template_pass(&world).await;
    assert_eq!(condition(&world, TEMPLATE, "RolledOut").1, "Stopped");
}

/// Every tenant reads a template.
#[tokio::test(start_paused = true)]
async fn what_a_template_says_of_itself_names_nobody() {
    let world = World::new();
    world.knows_project(&json!({
        "metadata": { "name": "acme-shop", "uid": "project-1" },
        "spec": { "tenantID": "acme", "template": "standard" }, "status": {},
    }));
    let mut object = pending(&[("pods", "3")]);
    object.key = crate::kinds::ProjectKey::new(Some("acme-shop"), "acme-front");
    object.uid = "uid-1".into();
    object.spec.tenant_id = "acme".into();
    object.spec.cluster_name = "acme-east".into();
    object.status.phase = business_types::NamespacePhase::Available;
    let mut other = object.clone();
    other.key.name = "acme-back".into();
    other.uid = "uid-2".into();
    put_template(&world, &full());
    let state = world.cx.objects.namespace_templates.current(&RootKey::new(None, "standard")).unwrap().state;
    other.status.template = Some(state);
    let told =
        Condition::new("TemplateApplied", "False", "Refused", "cluster acme-east: refused with 403: acme");
    other.status.conditions.push(told);
    other.spec.tenant_id = "acme-too".into();
    let east = json!({
        "metadata": { "uid": "m" },
        "spec": {},
        "status": { "conditions": [{ "type": "Reachable", "status": "True" }] },
    });
    let east = world.server.put("/apis/business.tkestack.io/v1/memberclusters/acme-east", &east);
    let east: DynamicObject = serde_json::from_value(east).unwrap();
    world
        .cx
        .objects
        .member_clusters
        .upsert(MemberClusterView::decode(east).unwrap(), ChangeSource::WatchEvent);
    world.cx.objects.namespaces.upsert(object, ChangeSource::WatchEvent);
    world.cx.objects.namespaces.upsert(other, ChangeSource::WatchEvent);
    let says = || world.stored(TEMPLATE)["status"].clone();
    template_pass(&world).await;
    let status = says();
    assert_eq!(
        (&status["namespaces"], &status["clusters"], &status["failed"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!(status["wave"]["namespaces"], json!(["uid-1"]));
    assert!(!status.to_string().contains("acme"), "{status}");
    world.server.edit(TEMPLATE, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    sync_template(&world);
    tokio::time::advance(Duration::from_secs(1)).await;
    template_pass(&world).await;
    let (_, reason, message) = condition(&world, TEMPLATE, "Ready");
    assert_eq!(reason, "InUse");
    assert!(message.contains("1 projects name it") && !says().to_string().contains("acme"), "{message}");
}

#[tokio::test]
async fn the_nearest_that_is_named_counts() {
    let world = World::new();
    put_template(&world, &full());
    let other = "/apis/business.tkestack.io/v1/namespacetemplates/other";
    world.server.put(
        other,
        &json!({ "metadata": { "name": "other", "uid": "o" }, "spec": { "labels": { "a": "b" } } }),
    );
    let stored: DynamicObject = serde_json::from_value(world.server.get(other)).unwrap();
    world
        .cx
        .objects
        .namespace_templates
        .upsert(TemplateView::decode(stored).unwrap(), ChangeSource::WatchEvent);
    let project = |name: &str, parent: &str, template: &str| {
        world.knows_project(&json!({
            "metadata": { "name": name, "uid": "project-1" },
            "spec": { "parentProjectName": parent, "template": template }, "status": {},
        }));
    };
    project("above", "", "other");
    project("p", "above", "");
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    assert_eq!(world.stored(OBJECT)["status"]["template"]["name"], "other");
    assert!(world.server.find(LIMITS).is_none());
    project("p", "above", "nowhere");
    world.pass().await.unwrap();
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").1, "TemplateNotFound");
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"]["a"], "b", "what is in place stays");
}

#[tokio::test]
async fn a_template_goes_when_nobody_has_it_any_more() {
    let world = in_use().await;
    world.server.edit(TEMPLATE, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    sync_template(&world);
    template_pass(&world).await;
    let (status, reason, message) = condition(&world, TEMPLATE, "Ready");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "InUse"));
    assert!(message.contains("1 namespaces have it"), "{message}");
    world.server.edit(TEMPLATE, &json!({ "spec": { "default": false } }));
    sync_template(&world);
    world.pass().await.unwrap();
    assert!(world.server.find(LIMITS).is_none());
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").1, "NoTemplate");
    template_pass(&world).await;
    assert!(world.server.find(TEMPLATE).is_none());
}

/// The kinds of the objects in the queue.
async fn queued_kinds(world: &World) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    while let Ok(key) = tokio::time::timeout(Duration::from_secs(1), world.cx.queue.next()).await {
        kinds.push(key.kind());
        world.cx.queue.done(&key, Requeue::Never);
    }
    kinds
}

#[tokio::test(start_paused = true)]
async fn a_template_hears_of_what_was_written_to_the_status_of_its_namespaces() {
    let world = World::new();
    put_template(&world, &full());
    world.holds(&pending(&[("pods", "3")]));
    queued_kinds(&world).await;
    world.pass().await.unwrap();
    assert!(queued_kinds(&world).await.contains(&"NamespaceTemplate"), "it counts it");
}

#[tokio::test(start_paused = true)]
async fn a_template_hears_that_a_cluster_does_not_answer_any_more() {
    let world = in_use().await;
    queued_kinds(&world).await;
    let since = "2026-01-01T00:00:00Z".to_owned();
    world.member.set_reach(Reach::Unreachable { since, reason: "no answer".into() });
    BusinessMemberCluster::reconcile(&world.cx, &RootKey::new(None, "c1")).await.unwrap();
    assert!(queued_kinds(&world).await.contains(&"NamespaceTemplate"), "it waits for nobody there");
}

#[tokio::test(start_paused = true)]
async fn a_template_hears_that_a_project_has_gone_that_named_it() {
    let world = World::new();
    put_template(&world, &full());
    world.knows_project(
        &json!({ "metadata": { "name": "q", "uid": "project-2" }, "spec": { "template": "standard" }, "status": {} }),
    );
    let gone = world.cx.objects.projects.get(&RootKey::new(None, "q")).unwrap();
    queued_kinds(&world).await;
    let change = world.cx.objects.projects.remove(&gone).unwrap();
    crate::project::kind::BusinessProject::changed(&world.cx, &change);
    assert!(
        queued_kinds(&world).await.contains(&"NamespaceTemplate"),
        "its deletion may have waited for that"
    );
}

#[tokio::test]
async fn a_projects_change_wakes_its_namespaces_if_their_template_takes_what_has_changed() {
    let world = in_use().await;
    let key = RootKey::new(None, "p");
    let wakes = |metadata: Value, spec: Value| {
        let old = world.cx.objects.projects.get(&key);
        world.knows_project(&json!({ "metadata": metadata, "spec": spec, "status": {} }));
        let change =
            ViewChange { old, new: world.cx.objects.projects.get(&key), source: ChangeSource::WatchEvent };
        world.woken();
        crate::project::kind::BusinessProject::changed(&world.cx, &change);
        world.woken().iter().any(|key| key.contains("p/n"))
    };
    let with = |labels: Value| json!({ "name": "p", "uid": "project-1", "labels": labels });
    assert!(!wakes(with(json!({ "cost": "1" })), json!({ "displayName": "One" })), "nothing is taken");
    let mut template = full();
    template["labelsFromProject"] = json!({ "cost": "metadata.labels['cost']" });
    put_template(&world, &template);
    assert!(!wakes(with(json!({ "cost": "1", "a": "b" })), json!({ "displayName": "Two" })), "it is another");
    assert!(wakes(with(json!({ "cost": "2", "a": "b" })), json!({ "displayName": "Two" })));
}

/// For example another replica works on it by now, and has applied a newer state.
#[tokio::test]
async fn a_write_that_arrives_after_another_one_overwrites_nothing() {
    let world = in_use().await;
    let writes = |digest: &str, cpu: &str| {
        let limits = json!([{ "type": "Container", "default": { "cpu": cpu } }]);
        let annotations = json!({ "business.tkestack.io/template-digest": digest });
        world.server.edit(
            LIMITS,
            &json!({ "metadata": { "annotations": annotations }, "spec": { "limits": limits } }),
        )
    };
    writes("drifted", "2");
    world.watches();
    let theirs = writes("newer", "3");
    let late = world.pass().await;
    assert!(matches!(late, Err(Error::Member(CallFailure::Conflict(_)))), "{late:?}");
    assert_eq!(world.stored(LIMITS), theirs);
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(world.stored(LIMITS)["spec"]["limits"][0]["default"]["cpu"], "1", "the next pass repairs it");
    // Nor does it create again what is gone.
    writes("drifted", "2");
    world.watches();
    world.server.remove(LIMITS);
    assert!(matches!(world.pass().await, Err(Error::Member(CallFailure::Conflict(_)))));
    assert_eq!(world.server.find(LIMITS), None);
}

/// A namespace that existed before, and is being released.
async fn released_world() -> World {
    let world = World::new();
    put_template(&world, &full());
    let consent = json!({ "business.tkestack.io/adopt": "p/n" });
    let metadata =
        json!({ "name": "web", "uid": "theirs", "annotations": consent, "labels": { "theirs": "stays" } });
    world.server.put(NAMESPACE, &json!({ "metadata": metadata }));
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.pass().await.unwrap();
    world.enforces("1");
    world.pass().await.unwrap();
    assert!(world.server.find(LIMITS).is_some());
    world.holds(&world.seen().ending());
    world
}

#[tokio::test]
async fn what_is_released_loses_all_of_it() {
    let world = released_world().await;
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    for gone in [LIMITS, POLICY, BINDING] {
        assert!(world.server.find(gone).is_none(), "{gone}");
    }
    let metadata = world.stored(NAMESPACE)["metadata"].clone();
    assert_eq!(metadata["labels"]["pod-security.kubernetes.io/enforce"], Value::Null);
    assert_eq!(metadata["annotations"]["business.tkestack.io/template-keys"], Value::Null);
    assert_eq!(metadata["labels"]["theirs"], "stays");
}

#[tokio::test]
async fn what_cannot_be_released_because_a_list_fails_says_so() {
    let world = released_world().await;
    let terminating = || find(&world.seen().status.conditions, TERMINATING).map(|told| told.message.clone());
    let (templates, pulls) = (&world.member.observed.templates, &world.member.observed.pulls);
    let failure = ListFailure { text: "500 etcd does not answer".to_owned(), is_forbidden: false };
    templates.reset();
    for kind in TemplateObjectKind::ALL {
        templates.of(kind).list_failed(&failure);
    }
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(terminating(), None, "it may pass by itself");
    world.server.clock.advance(31_000_000);
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    let told = terminating().unwrap();
    assert!(told.ends_with("the cluster does not list limitranges: 500 etcd does not answer"), "{told}");
    world.watches();
    pulls.reset();
    pulls.secrets.list_failed(&failure);
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    let told = terminating().unwrap();
    assert!(told.contains("the Secrets named business-registry: 500 etcd does not answer"), "{told}");
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.server.find(OBJECT), None);
}

/// A finalizer of somebody else keeps it.
#[tokio::test]
async fn a_binding_that_stays_in_what_is_released_names_nobody() {
    let world = released_world().await;
    assert_ne!(world.stored(BINDING)["subjects"], json!([]));
    world.server.refuse(&format!("DELETE {BINDING}"));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.stored(BINDING)["subjects"], json!([]));
}

/// Nobody reconciles the namespace later.
#[tokio::test]
async fn what_is_not_seen_yet_is_waited_for_before_it_is_released() {
    let world = released_world().await;
    let templates = &world.member.observed.templates;
    templates.reset();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    let failure = |is_forbidden| ListFailure { text: "why".to_owned(), is_forbidden };
    for kind in TemplateObjectKind::ALL {
        templates.of(kind).list_failed(&failure(false));
    }
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)), "it may be there");
    assert!(world.server.find(BINDING).is_some() && world.server.find(OBJECT).is_some());
    // We have never created objects that we may not see; objects of the other kinds are removed.
    world.watches();
    templates.reset();
    templates.of(TemplateObjectKind::LimitRange).list_failed(&failure(true));
    templates.of(TemplateObjectKind::NetworkPolicy).end_list();
    templates.of(TemplateObjectKind::RoleBinding).end_list();
    let binding = TemplateObject::of(
        TemplateObjectKind::RoleBinding,
        serde_json::from_value(world.stored(BINDING)).unwrap(),
    );
    templates.upsert("web", binding.unwrap(), UpdateSource::Watch);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!((world.server.find(BINDING), world.server.find(OBJECT)), (None, None));
}

/// A namespace in use whose template has a newer state, with a label, and a rollout that is paused.
async fn paused() -> World {
    let world = in_use().await;
    let mut spec = full();
    spec["labels"]["team"] = json!("a");
    spec["rollout"] = json!({ "paused": true });
    put_template(&world, &spec);
    world.pass().await.unwrap();
    world
}

#[tokio::test]
async fn what_is_made_anew_while_a_rollout_is_paused_has_all_that_is_new() {
    let world = paused().await;
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"]["team"], Value::Null, "it waits");
    world.server.remove(NAMESPACE);
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"]["team"], "a");
    world.pass().await.unwrap();
    for made in [LIMITS, POLICY, BINDING] {
        assert!(world.server.find(made).is_some(), "{made}");
    }
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").0, "True");
}

#[tokio::test]
async fn what_its_cluster_refuses_for_a_while_waits_for_its_wave_all_the_same() {
    let world = paused().await;
    world.holds(&world.seen().asks(&[("pods", "5")]));
    world.server.refuse("/api/v1/namespaces/web/resourcequotas");
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Failed");
    world.server.forget_faults();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").1, "WaitingForWave");
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"]["team"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_wave_that_one_process_publishes_is_taken_up_by_another() {
    let world = in_use().await;
    // This replica holds the fleet's share, and the other one the cluster's.
    let other = World::at(&world.server);
    other.knows_project(&world.project());
    other.catches_up();
    other.watches();
    other.knows_cluster(&world.stored(CLUSTER));
    sync_template(&other);
    let mut spec = full();
    spec["labels"]["team"] = json!("a");
    put_template(&world, &spec);
    sync_template(&other);
    other.pass().await.unwrap();
    assert_eq!(condition(&world, OBJECT, "TemplateApplied").1, "WaitingForWave");
    world.catches_up();
    template_pass(&world).await;
    queued_kinds(&other).await;
    sync_template(&other);
    assert_eq!(queued_kinds(&other).await, ["Namespace", "NamespaceTemplate"], "whose turn it is");
    other.catches_up();
    other.pass().await.unwrap();
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"]["team"], "a");
    world.catches_up();
    template_pass(&world).await;
    assert_eq!(condition(&world, TEMPLATE, "RolledOut").0, "True");
    assert_eq!(world.stored(TEMPLATE)["status"].get("wave"), None::<&Value>);
}
