//! Whole passes against a server in memory: each scenario is the exact list of calls that are made.

use crate::business::Business;
use crate::context::{Context, GROUP_RUNNING_MAX};
use crate::controller::Controller as _;
use crate::error::Error;
use crate::fixtures::{amounts, pending};
use crate::kinds::{ObjectKey as _, ProjectKey};
use crate::leader::{Fence, Times};
use crate::member::{Member, MemberApi, Reach};
use crate::members::Members;
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::objects::{Heard, Objects};
use crate::outcome::{ControllerMetrics, Outcome};
use crate::queue::Queue;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body;
use runtime::{Clock, Metrics};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

const OBJECT: &str = "/apis/business.tkestack.io/v1/namespaces/p/namespaces/n";
const NAMESPACE: &str = "/api/v1/namespaces/web";
const QUOTA: &str = "/api/v1/namespaces/web/resourcequotas/web";

/// Objects by path, and the calls that were made.
#[derive(Debug, Default)]
struct Server {
    objects: BTreeMap<String, Value>,
    calls: Vec<String>,
    revision: u64,
}

impl Server {
    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn call(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        self.calls.push(format!("{method} {path}"));
        let path = path.trim_end_matches("/status").trim_end_matches("/finalize");
        match *method {
            Method::POST => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&path) {
                    return failure(409, "AlreadyExists");
                }
                let mut object = body.clone();
                object["metadata"]["uid"] = json!(format!("uid of {path}"));
                (201, self.put(&path, object))
            }
            Method::PATCH => self.patch(path, body),
            Method::DELETE => {
                self.objects.remove(path).map_or_else(|| failure(404, "NotFound"), |object| (200, object))
            }
            _ => self
                .objects
                .get(path)
                .map_or_else(|| failure(404, "NotFound"), |object| (200, object.clone())),
        }
    }

    fn patch(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let Some(mut object) = self.objects.get(path).cloned() else { return failure(404, "NotFound") };
        let asked = &body["metadata"]["resourceVersion"];
        if !asked.is_null() && *asked != object["metadata"]["resourceVersion"] {
            return failure(409, "Conflict");
        }
        merge(&mut object, body);
        (200, self.put(path, object))
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason }),
    )
}

/// A context whose API and only member cluster are the server.
struct World {
    cx: Context,
    server: Arc<Mutex<Server>>,
    member: Arc<Member>,
}

impl World {
    fn new() -> Self {
        let server = Arc::new(Mutex::new(Server::default()));
        let held = Arc::clone(&server);
        let service = tower::service_fn(move |request: Request<Body>| {
            let held = Arc::clone(&held);
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let (code, answer) = held.lock().unwrap().call(&parts.method, parts.uri.path(), &body);
                let answer = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(answer)?)
            }
        });
        let client = Client::new(service, "default");
        let seconds = Duration::from_secs;
        let times = Times {
            lease_duration: seconds(15),
            renew_deadline: seconds(10),
            retry_period: seconds(2),
            write_deadline: seconds(5),
        };
        let fence = Arc::new(Fence::new(times));
        fence.acquired(Instant::now(), true);
        let metrics = ControllerMetrics::register(&Metrics::new());
        let (events, _sender) =
            crate::events::channel(client.clone(), "tke-business", "test", metrics.events_dropped.clone());
        let member = Member::new("c1", MemberApi::new(client.clone(), Arc::clone(&fence)));
        member.set_reach(Reach::Reachable);
        let members = Members::default();
        members.insert(Arc::clone(&member));
        let cx = Context {
            business: Business::new(client),
            objects: Objects::default(),
            members,
            queue: Queue::new(GROUP_RUNNING_MAX),
            fence,
            events,
            metrics,
            clock: Clock::fixed(0),
            forbidden: Vec::new(),
            relisted: tokio::sync::Notify::new(),
        };
        Self { cx, server, member }
    }

    /// The API holds this object, and the controller has seen it.
    fn holds(&self, view: &NamespaceView) {
        let mut metadata = json!({
            "namespace": &*view.key.project, "name": &*view.key.name, "uid": view.uid, "generation": view.generation,
            "annotations": view.annotations,
        });
        if view.is_deleting() {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let body = json!({ "metadata": metadata, "spec": view.spec, "status": view.status });
        let stored = self.server.lock().unwrap().put(OBJECT, body);
        let revision = stored["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let view = NamespaceView { resource_version: revision, ..view.clone() };
        self.cx.objects.namespaces.seen(view, Heard::ByWatch);
    }

    /// The watches of the member cluster catch up.
    fn watches(&self) {
        let server = self.server.lock().unwrap();
        self.member.observed.reset();
        if let Some(object) = server.objects.get(NAMESPACE) {
            let namespace: k8s_openapi::api::core::v1::Namespace =
                serde_json::from_value(object.clone()).unwrap();
            self.member.observed.namespace(namespace.into(), true);
        }
        if let Some(object) = server.objects.get(QUOTA) {
            let quota: k8s_openapi::api::core::v1::ResourceQuota =
                serde_json::from_value(object.clone()).unwrap();
            self.member.observed.quota("web", quota.into(), true);
        }
    }

    /// The member cluster's quota controller and admission count with what is written.
    fn enforces(&self, used: &str) {
        let mut server = self.server.lock().unwrap();
        let mut quota = server.objects[QUOTA].clone();
        quota["status"] = json!({ "hard": quota["spec"]["hard"], "used": { "pods": used } });
        server.put(QUOTA, quota);
        drop(server);
        self.watches();
    }

    async fn pass(&self) -> Result<Outcome, Error> {
        BusinessNamespace::reconcile(&self.cx, &ProjectKey::new(Some("p"), "n")).await
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.server.lock().unwrap().calls)
    }

    fn stored(&self, path: &str) -> Value {
        self.server.lock().unwrap().objects[path].clone()
    }

    fn seen(&self) -> NamespaceView {
        self.cx.objects.namespaces.get(&ProjectKey::new(Some("p"), "n")).unwrap().as_ref().clone()
    }
}

#[tokio::test]
async fn a_new_namespace_costs_three_calls_and_then_none() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    let status = format!("PATCH {OBJECT}/status");
    let quotas = format!("POST {NAMESPACE}/resourcequotas");
    assert_eq!(world.calls(), ["POST /api/v1/namespaces", quotas.as_str(), status.as_str()]);
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(world.pass().await.unwrap(), Outcome::Unchanged);
    assert_eq!(world.calls(), [""; 0]);
    world.enforces("0");
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    assert_eq!(world.calls(), [status]);
    assert_eq!(world.pass().await.unwrap(), Outcome::Unchanged);
    assert_eq!(world.calls(), [""; 0]);
}

#[tokio::test]
async fn lowering_is_written_first_and_refunded_when_the_cluster_counts_with_it() {
    let world = World::new();
    world.holds(&pending(&[("pods", "9")]));
    world.pass().await.unwrap();
    world.enforces("5");
    world.pass().await.unwrap();
    world.holds(&world.seen().asks(&[("pods", "2")]));
    world.pass().await.unwrap();
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "9" }));
    world.enforces("5");
    world.pass().await.unwrap();
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "5" }), "still in use");
    world.enforces("1");
    world.pass().await.unwrap();
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "2" }));
}

#[tokio::test]
async fn a_new_leader_writes_at_once_but_refunds_nothing_yet() {
    let world = World::new();
    world.cx.fence.acquired(Instant::now(), false);
    world.holds(&pending(&[("pods", "9")]).asks(&[("pods", "2")]));
    world.pass().await.unwrap();
    world.enforces("0");
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, Outcome::WaitingFor(wait) if wait > Duration::from_secs(15)), "{outcome:?}");
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "9" }));
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
}

#[tokio::test]
async fn a_leader_that_was_paused_writes_nothing_when_it_wakes() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.cx.fence.renewed(Instant::now().checked_sub(Duration::from_secs(11)).unwrap());
    assert!(matches!(world.pass().await, Err(Error::NotLeading)));
    assert_eq!(world.calls(), [""; 0]);
}

#[tokio::test]
async fn a_leader_that_was_replaced_does_not_overwrite_the_new_ones_quota() {
    let world = World::new();
    let old = pending(&[("pods", "9")]);
    world.holds(&old);
    world.pass().await.unwrap();
    world.holds(&world.seen().asks(&[("pods", "8")]));
    world.watches();
    // Meanwhile the new leader has carried over a later generation, which lowers to 2.
    {
        let mut server = world.server.lock().unwrap();
        let mut object = server.objects[OBJECT].clone();
        object["metadata"]["generation"] = json!(3);
        object["spec"]["hard"] = json!({ "pods": "2" });
        server.put(OBJECT, object);
        let mut quota = server.objects[QUOTA].clone();
        quota["metadata"]["annotations"]["business.tkestack.io/generation"] = json!("3");
        quota["spec"]["hard"] = json!({ "pods": "2" });
        server.put(QUOTA, quota);
    }
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, Outcome::WaitingFor(_)), "it finds itself behind: {outcome:?}");
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
}

#[tokio::test]
async fn what_is_there_already_is_neither_touched_nor_deleted_without_consent() {
    let world = World::new();
    world.server.lock().unwrap().put(NAMESPACE, json!({ "metadata": { "name": "web", "uid": "theirs" } }));
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), Outcome::Refused);
    let (get, quota, status) =
        (format!("GET {NAMESPACE}"), format!("GET {QUOTA}"), format!("PATCH {OBJECT}/status"));
    assert_eq!(world.calls(), ["POST /api/v1/namespaces", get.as_str(), quota.as_str(), status.as_str()]);
    assert_eq!(world.stored(OBJECT)["status"]["reason"], "NamespaceConflict");
    world.holds(&world.seen().ending());
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    assert_eq!(world.stored(NAMESPACE)["metadata"]["uid"], "theirs");
    assert_eq!(world.stored(OBJECT)["spec"]["finalizers"], json!([]));
}

#[tokio::test]
async fn a_namespace_is_refunded_after_it_was_seen_gone() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.watches();
    world.holds(&world.seen().ending());
    world.calls();
    assert!(matches!(world.pass().await.unwrap(), Outcome::WaitingFor(_)));
    assert_eq!(world.calls(), [format!("DELETE {NAMESPACE}")]);
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
    world.watches();
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    let expected =
        [format!("GET {NAMESPACE}"), format!("PATCH {OBJECT}/status"), format!("PATCH {OBJECT}/finalize")];
    assert_eq!(world.calls(), expected);
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({}));
    assert_eq!(world.stored(OBJECT)["spec"]["finalizers"], json!([]));
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_gets_no_calls_and_keeps_the_charge() {
    let world = World::new();
    let since = "2026-01-01T00:00:00Z".to_owned();
    world.member.set_reach(Reach::Unreachable { since, reason: "no answer".into() });
    world.holds(&pending(&[("pods", "3")]).ending());
    assert_eq!(world.pass().await.unwrap(), Outcome::Waiting);
    assert_eq!(world.calls(), [format!("PATCH {OBJECT}/status")]);
    assert_eq!(world.pass().await.unwrap(), Outcome::Waiting);
    assert_eq!(world.calls(), [""; 0], "it is said once");
    assert_eq!(world.seen().status.cached_spec_hard, Some(amounts(&[("pods", "3")])));
    let mut given_up = world.seen();
    given_up.annotations.insert(business_types::names::ABANDON_ANNOTATION.into(), "cluster lost".into());
    world.holds(&given_up);
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    assert_eq!(world.calls(), [format!("PATCH {OBJECT}/finalize")]);
}

const PROJECTS: &str = "/apis/business.tkestack.io/v1/projects";
const ALL: &str = "/apis/business.tkestack.io/v1/namespaces";

impl World {
    /// What lists and reads answer: our objects by uid, and one namespace in the cluster with its quota.
    fn lists(&self, project: &Value, alive: &[&str], in_cluster: Option<&Value>) {
        let mut server = self.server.lock().unwrap();
        let list =
            |items: Vec<Value>| json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": items });
        let items =
            alive.iter().map(|uid| json!({ "metadata": { "name": "n", "namespace": "p", "uid": uid } }));
        server.put(ALL, list(items.collect()));
        server.put("/api/v1/namespaces", list(in_cluster.into_iter().cloned().collect()));
        match in_cluster {
            Some(namespace) => drop(server.put(NAMESPACE, namespace.clone())),
            None => drop(server.objects.remove(NAMESPACE)),
        }
        let quota = json!({ "metadata": { "name": "web" }, "spec": { "hard": { "pods": "3" } },
            "status": { "hard": { "pods": "3" }, "used": { "pods": "1" } } });
        server.put(QUOTA, quota);
        let stored = server.put(&format!("{PROJECTS}/p"), project.clone());
        server.put(PROJECTS, list(vec![stored]));
    }
}

#[tokio::test]
async fn an_orphan_is_told_to_its_project_and_forgotten_when_it_is_gone() {
    let world = World::new();
    let project = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": {}, "status": {} });
    let namespace = json!({ "metadata": {
        "name": "web", "uid": "w", "labels": { "tkestack.io/projectName": "p" },
        "annotations": { "business.tkestack.io/uid": "lost" },
    } });
    world.lists(&project, &["lost"], Some(&namespace));
    let comparison = crate::audit::pass(&world.cx).await.unwrap();
    assert!(comparison.is_complete_since(1) && comparison.clusters.contains_key("c1"));
    assert_eq!(world.stored(&format!("{PROJECTS}/p"))["status"], json!({}), "it belongs to an object");

    world.lists(&project, &[], Some(&namespace));
    let comparison = crate::audit::pass(&world.cx).await.unwrap();
    let told = json!([{ "clusterName": "c1", "namespace": "web", "uid": "w", "hard": { "pods": "3" } }]);
    let project = world.stored(&format!("{PROJECTS}/p"));
    assert_eq!((&project["status"]["orphans"], comparison.unreported), (&told, 0));

    // A cluster that does not answer takes nothing back.
    let since = "2026-01-01T00:00:00Z".to_owned();
    world.member.set_reach(Reach::Unreachable { since, reason: "no answer".into() });
    world.lists(&project, &[], None);
    let comparison = crate::audit::pass(&world.cx).await.unwrap();
    assert!(comparison.missing.contains_key("c1") && comparison.clusters.is_empty());
    assert_eq!(world.stored(&format!("{PROJECTS}/p"))["status"]["orphans"], told);

    world.member.set_reach(Reach::Reachable);
    world.lists(&project, &[], None);
    crate::audit::pass(&world.cx).await.unwrap();
    assert_eq!(world.stored(&format!("{PROJECTS}/p"))["status"], json!({}));
}

#[tokio::test]
async fn what_is_released_while_the_audit_looks_is_no_orphan() {
    let world = World::new();
    let project = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": {}, "status": {} });
    let mut namespace = json!({ "metadata": {
        "name": "web", "uid": "w", "labels": { "tkestack.io/projectName": "p" },
        "annotations": { "business.tkestack.io/uid": "released" },
    } });
    world.lists(&project, &[], Some(&namespace));
    namespace["metadata"]["annotations"] = json!({});
    world.server.lock().unwrap().put(NAMESPACE, namespace);
    crate::audit::pass(&world.cx).await.unwrap();
    assert_eq!(world.stored(&format!("{PROJECTS}/p"))["status"], json!({}));
}

#[tokio::test]
async fn what_is_held_for_a_place_is_looked_for_there_whatever_its_marks() {
    let world = World::new();
    let held = json!({ "uid": "u", "state": "abandoned", "clusterName": "c1", "namespace": "web", "reason": "lost" });
    let project = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": {}, "status": { "ledger": { "held": [held] } } });
    let unmarked = json!({ "metadata": { "name": "web", "uid": "w" } });
    world.lists(&project, &[], Some(&unmarked));
    crate::audit::pass(&world.cx).await.unwrap();
    assert_eq!(world.stored(&format!("{PROJECTS}/p"))["status"]["orphans"][0]["namespace"], "web");
}

#[tokio::test]
async fn an_orphan_without_a_project_keeps_the_comparison_from_being_complete() {
    let world = World::new();
    let project = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": {}, "status": {} });
    let namespace = json!({ "metadata": {
        "name": "web", "uid": "w", "labels": { "tkestack.io/projectName": "gone" },
        "annotations": { "business.tkestack.io/uid": "lost" },
    } });
    world.lists(&project, &[], Some(&namespace));
    let comparison = crate::audit::pass(&world.cx).await.unwrap();
    assert_eq!((comparison.unreported, comparison.homeless), (1, 1));
    assert!(!comparison.is_complete_since(1));
}
