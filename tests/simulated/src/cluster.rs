use crate::kinds::Kind;
use crate::request::{Query, Target};
use crate::state::{Change, ClusterState, Key};
use bytes::Bytes;
use meta::managed::{FieldManager, Writer};
use meta::object::Object;
use meta::patch::merge_patch;
use meta::status::{Status, StatusDetails};
use runtime::Clock;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use uuid::Uuid;

/// A simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    pub name: String,
    state: Mutex<ClusterState>,
    newest: watch::Sender<u64>,
    clock: Clock,
}

/// What is to be done to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Merge,
    Apply,
    Delete,
}

/// Code and body of an answer.
pub type Answer = Result<(u16, Value), Status>;

impl Cluster {
    /// With the namespaces that every cluster has, of which `kube-system` tells it from others.
    pub fn new(name: &str) -> Self {
        let cluster = Self {
            name: name.to_owned(),
            state: Mutex::default(),
            newest: watch::Sender::default(),
            clock: Clock::system(),
        };
        for namespace in ["default", "kube-system"] {
            let body = json!({"metadata": {"name": namespace}});
            let target =
                Target { kind: Kind::Namespace, namespace: String::new(), name: namespace.to_owned() };
            drop(cluster.create(&mut cluster.state(), &target, body, ""));
        }
        cluster.run_controllers();
        cluster
    }

    fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever waits for changes is woken.
    fn notify(&self, revision: u64) {
        self.newest.send_if_modified(|newest| std::mem::replace(newest, revision) != revision);
    }

    /// The newest revision, now and later.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// One object.
    pub fn get(&self, target: &Target) -> Result<Arc<Object>, Status> {
        self.state().get(&target.key()).cloned().ok_or_else(|| target.missing())
    }

    /// Objects and the revision they are seen at.
    pub fn list(&self, target: &Target, query: &Query) -> (u64, Vec<Arc<Object>>) {
        let state = self.state();
        let all = state.list(target.kind, &target.namespace).filter(|object| selects(query, object));
        (state.revision(), all.cloned().collect())
    }

    /// Changes after a revision, and the revision that has been reached; none when they are not known any more.
    pub fn since(&self, revision: u64, target: &Target) -> Option<(u64, Vec<Change>)> {
        let state = self.state();
        let concerned = |change: &&Change| {
            change.key.kind == target.kind
                && (target.namespace.is_empty() || change.key.namespace == target.namespace)
        };
        Some((state.revision(), state.since(revision)?.filter(concerned).cloned().collect()))
    }

    /// Changes what a request asks for.
    pub fn write(&self, target: &Target, operation: &Operation, query: &Query, body: &Bytes) -> Answer {
        let mut state = self.state();
        let answer = match operation {
            Operation::Create => json_of(body).and_then(|body| {
                let object = self.create(&mut state, target, body, &query.manager)?;
                Ok((201, Object::clone(&object).into_value()))
            }),
            Operation::Merge => self.merge(&mut state, target, query, body),
            Operation::Apply => json_of(body).and_then(|body| self.apply(&mut state, target, query, &body)),
            Operation::Delete => self.delete(&mut state, target, body),
        };
        let revision = state.revision();
        drop(state);
        self.notify(revision);
        answer
    }

    fn create(
        &self,
        state: &mut ClusterState,
        target: &Target,
        body: Value,
        manager: &str,
    ) -> Result<Arc<Object>, Status> {
        let Ok(mut object) = Object::new(body) else { return Err(Status::bad_request("no object")) };
        let name = object.name().to_owned();
        if name.is_empty() {
            return Err(Status::failure(422, "Invalid", "metadata.name: Required value"));
        }
        let target = Target { name, ..target.clone() };
        may_hold(state, &target)?;
        if state.get(&target.key()).is_some() {
            return Err(Status::already_exists(&target.kind.resource(), &target.name));
        }
        object.remove(&["status"]);
        self.set_system_fields(&target, &mut object);
        let object = tracker(&target, |tracker| tracker.update(None, object, self.writing(manager).write()));
        Ok(state.put(target.key(), object))
    }

    /// What the server sets of something new.
    fn set_system_fields(&self, target: &Target, object: &mut Object) {
        object.set(&["apiVersion"], target.kind.gvk().api_version().into());
        object.set(&["kind"], target.kind.name().into());
        object.set(&["metadata", "uid"], Uuid::new_v4().to_string().into());
        object.set(&["metadata", "creationTimestamp"], self.now().into());
        if target.kind.is_namespaced() {
            object.set(&["metadata", "namespace"], target.namespace.clone().into());
        }
        if target.kind == Kind::Namespace {
            object.set(&["metadata", "labels", "kubernetes.io/metadata.name"], target.name.clone().into());
            object.set(&["spec", "finalizers"], json!(["kubernetes"]));
            object.set(&["status", "phase"], "Active".into());
        }
    }

    fn merge(&self, state: &mut ClusterState, target: &Target, query: &Query, patch: &Bytes) -> Answer {
        let live = Arc::clone(state.get(&target.key()).ok_or_else(|| target.missing())?);
        let document = Object::clone(&live).into_value();
        let patched = merge_patch(document, patch).map_err(|error| error.status())?.document;
        let Ok(mut new) = Object::new(patched) else { return Err(Status::bad_request("no object")) };
        if live.resource_version() != new.resource_version() || live.uid() != new.uid() {
            return Err(target.conflict());
        }
        for path in [
            &["metadata", "name"][..],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "managedFields"],
            &["status"],
        ] {
            new.copy_from(&live, path);
        }
        let writing = self.writing(&query.manager);
        let new = tracker(target, |tracker| tracker.update(Some(&live), new, writing.write()));
        let kept = if new == *live { live } else { state.put(target.key(), new) };
        Ok((200, Object::clone(&kept).into_value()))
    }

    fn apply(&self, state: &mut ClusterState, target: &Target, query: &Query, body: &Value) -> Answer {
        let live = state.get(&target.key()).cloned();
        let writing = self.writing(&query.manager);
        let applied =
            tracker(target, |tracker| tracker.apply(live.as_deref(), body, query.force, writing.write()));
        let mut new = applied.map_err(|error| error.status())?;
        let Some(live) = live else {
            may_hold(state, target)?;
            self.set_system_fields(target, &mut new);
            let made = state.put(target.key(), new);
            return Ok((201, Object::clone(&made).into_value()));
        };
        let kept = if new == *live { live } else { state.put(target.key(), new) };
        Ok((200, Object::clone(&kept).into_value()))
    }

    fn delete(&self, state: &mut ClusterState, target: &Target, options: &Bytes) -> Answer {
        let live = Arc::clone(state.get(&target.key()).ok_or_else(|| target.missing())?);
        let options = if options.is_empty() { Value::Null } else { json_of(options)? };
        let wanted = |name: &str| options.pointer(&format!("/preconditions/{name}")).and_then(Value::as_str);
        let differs = |wanted: Option<&str>, found: &str| wanted.is_some_and(|wanted| wanted != found);
        if differs(wanted("uid"), live.uid()) || differs(wanted("resourceVersion"), live.resource_version()) {
            return Err(target.conflict());
        }
        if target.kind == Kind::Namespace {
            let mut going = Object::clone(&live);
            if !going.is_deleting() {
                going.set(&["metadata", "deletionTimestamp"], self.now().into());
                going.set(&["status", "phase"], "Terminating".into());
                state.put(target.key(), going.clone());
            }
            return Ok((200, going.into_value()));
        }
        state.remove(&target.key());
        let details = StatusDetails {
            name: target.name.clone(),
            group: target.kind.group().to_owned(),
            kind: target.kind.plural().to_owned(),
            uid: live.uid().to_owned(),
            ..StatusDetails::default()
        };
        let told = serde_json::to_value(Status::success(details));
        Ok((200, told.map_err(|error| Status::internal(error.to_string()))?))
    }

    /// What the controllers of a cluster do: quotas come into force, namespaces that are to go go with what is in them,
    /// and those that are there get their service account.
    pub fn run_controllers(&self) {
        let mut state = self.state();
        for key in state.take_dirty() {
            let Some(object) = state.get(&key).cloned() else { continue };
            match key.kind {
                Kind::ResourceQuota => put_quota_in_force(&mut state, key, &object),
                Kind::Namespace if object.is_deleting() => {
                    for inside in state.within(&key.name) {
                        state.remove(&inside);
                    }
                    state.remove(&key);
                }
                Kind::Namespace => self.create_service_account(&mut state, &key.name),
                _ => {}
            }
        }
        let revision = state.revision();
        drop(state);
        self.notify(revision);
    }

    fn create_service_account(&self, state: &mut ClusterState, namespace: &str) {
        let target = Target {
            kind: Kind::ServiceAccount,
            namespace: namespace.to_owned(),
            name: "default".to_owned(),
        };
        if state.get(&target.key()).is_none() {
            let made = self.create(state, &target, json!({"metadata": {"name": "default"}}), "");
            drop(made);
        }
    }

    fn now(&self) -> String {
        meta::time::rfc3339(self.clock.unix_seconds())
    }

    fn writing<'a>(&self, manager: &'a str) -> WriteContext<'a> {
        WriteContext { manager, now: self.now() }
    }
}

/// Who writes, and when.
struct WriteContext<'a> {
    manager: &'a str,
    now: String,
}

impl WriteContext<'_> {
    fn write(&self) -> Writer<'_> {
        Writer { manager: self.manager, subresource: "", now: &self.now }
    }
}

impl Target {
    pub fn key(&self) -> Key {
        Key::new(self.kind, &self.namespace, &self.name)
    }

    fn missing(&self) -> Status {
        Status::not_found(&self.kind.resource(), &self.name)
    }

    fn conflict(&self) -> Status {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(&self.kind.resource(), &self.name, why)
    }
}

/// Whether a query selects an object.
pub fn selects(query: &Query, object: &Object) -> bool {
    let field = |path: &str| {
        let path: Vec<&str> = path.split('.').collect();
        object.get(&path).and_then(Value::as_str)
    };
    query.labels.matches_object(object) && query.fields.matches(field)
}

/// Whether something may be made there.
fn may_hold(state: &ClusterState, target: &Target) -> Result<(), Status> {
    if !target.kind.is_namespaced() {
        return Ok(());
    }
    let namespace = Kind::Namespace.resource();
    match state.get(&Key::new(Kind::Namespace, "", &target.namespace)) {
        None => Err(Status::not_found(&namespace, &target.namespace)),
        Some(found) if found.is_deleting() => {
            let why = format!(
                "unable to create new content in namespace {} because it is being terminated",
                target.namespace
            );
            Err(Status::forbidden(&target.kind.resource(), &target.name, &why))
        }
        Some(_) => Ok(()),
    }
}

fn put_quota_in_force(state: &mut ClusterState, key: Key, quota: &Object) {
    let hard = quota.get(&["spec", "hard"]).and_then(Value::as_object).cloned().unwrap_or_default();
    if quota.get(&["status", "hard"]).and_then(Value::as_object) == Some(&hard) {
        return;
    }
    let none: Map<String, Value> = hard.keys().map(|name| (name.clone(), "0".into())).collect();
    let mut counted = quota.clone();
    counted.set(&["status"], json!(BTreeMap::from([("hard", hard), ("used", none)])));
    state.put(key, counted);
}

fn tracker<T>(target: &Target, track: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let kind = target.kind.gvk();
    track(&FieldManager { schema: target.kind.schema(), kind: &kind, reset: &[&["status"]] })
}

fn json_of(body: &Bytes) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        Cluster::new("one")
    }

    fn call(cluster: &Cluster, operation: &Operation, path: &str, query: &str, body: &Value) -> Answer {
        let query = Query::of(&format!("/x?{query}").parse().unwrap()).unwrap();
        cluster.write(&Target::of(path).unwrap(), operation, &query, &Bytes::from(body.to_string()))
    }

    fn namespace(cluster: &Cluster, name: &str) -> Value {
        let body = json!({"metadata": {"name": name, "labels": {"ours": "yes"}}});
        call(cluster, &Operation::Create, "/api/v1/namespaces", "", &body).unwrap().1
    }

    const QUOTAS: &str = "/api/v1/namespaces/a/resourcequotas";

    fn quota(cluster: &Cluster) -> Value {
        let body = json!({"metadata": {"name": "a"}, "spec": {"hard": {"pods": "3"}}});
        call(cluster, &Operation::Create, QUOTAS, "", &body).unwrap().1
    }

    fn read(cluster: &Cluster, path: &str) -> Value {
        Object::clone(&cluster.get(&Target::of(path).unwrap()).unwrap()).into_value()
    }

    #[test]
    fn a_quota_comes_into_force_and_a_change_needs_the_version_that_was_read() {
        let cluster = cluster();
        namespace(&cluster, "a");
        let made = quota(&cluster);
        assert!(made.get("status").is_none());
        cluster.run_controllers();
        let path = format!("{QUOTAS}/a");
        let counted = read(&cluster, &path);
        assert_eq!(counted["status"], json!({"hard": {"pods": "3"}, "used": {"pods": "0"}}));
        let raise = |version: &Value| json!({"metadata": {"resourceVersion": version}, "spec": {"hard": {"pods": "5"}}});
        let stale =
            call(&cluster, &Operation::Merge, &path, "", &raise(&made["metadata"]["resourceVersion"]))
                .unwrap_err();
        assert_eq!((stale.code, stale.reason.as_str()), (409, "Conflict"));
        let fresh = raise(&counted["metadata"]["resourceVersion"]);
        let raised = call(&cluster, &Operation::Merge, &path, "", &fresh).unwrap().1;
        assert_eq!(
            (&raised["spec"]["hard"]["pods"], &raised["status"]["hard"]["pods"]),
            (&json!("5"), &json!("3"))
        );
        cluster.run_controllers();
        assert_eq!(read(&cluster, &path)["status"]["hard"]["pods"], "5");
        assert_eq!(quota_again(&cluster).code, 409);
    }

    fn quota_again(cluster: &Cluster) -> Status {
        let body = json!({"metadata": {"name": "a"}});
        call(cluster, &Operation::Create, QUOTAS, "", &body).unwrap_err()
    }

    #[test]
    fn a_namespace_goes_with_what_is_in_it_and_only_the_one_that_is_meant() {
        let cluster = cluster();
        let made = namespace(&cluster, "a");
        quota(&cluster);
        let path = "/api/v1/namespaces/a";
        let other = json!({"preconditions": {"uid": "another"}});
        assert_eq!(call(&cluster, &Operation::Delete, path, "", &other).unwrap_err().code, 409);
        let this = json!({"preconditions": {"uid": made["metadata"]["uid"]}});
        let going = call(&cluster, &Operation::Delete, path, "", &this).unwrap().1;
        assert_eq!(going["status"]["phase"], "Terminating");
        let late = json!({"metadata": {"name": "b"}});
        assert_eq!(call(&cluster, &Operation::Create, QUOTAS, "", &late).unwrap_err().code, 403);
        cluster.run_controllers();
        assert_eq!(cluster.get(&Target::of(path).unwrap()).unwrap_err().code, 404);
        assert_eq!(call(&cluster, &Operation::Create, QUOTAS, "", &late).unwrap_err().code, 404);
    }

    #[test]
    fn an_apply_makes_what_is_missing_and_changes_nothing_twice() {
        let cluster = cluster();
        namespace(&cluster, "a");
        let path = "/api/v1/namespaces/a/limitranges/l";
        let body = |cpu: &str| json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [{"cpu": cpu}]}});
        let apply = |cpu: &str| {
            call(&cluster, &Operation::Apply, path, "fieldManager=business-template&force=true", &body(cpu))
                .unwrap()
        };
        let (code, first) = apply("1");
        assert_eq!(
            (code, &first["metadata"]["managedFields"][0]["manager"]),
            (201, &json!("business-template"))
        );
        let (code, same) = apply("1");
        assert_eq!((code, &same), (200, &first));
        let (_, other) = apply("2");
        assert_ne!(other["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        assert_eq!(other["metadata"]["uid"], first["metadata"]["uid"]);
    }

    #[test]
    fn every_namespace_gets_its_account_and_lists_select() {
        let cluster = cluster();
        namespace(&cluster, "a");
        cluster.run_controllers();
        read(&cluster, "/api/v1/namespaces/a/serviceaccounts/default");
        let query = |text: &str| Query::of(&format!("/x?{text}").parse().unwrap()).unwrap();
        let all = Target::of("/api/v1/namespaces").unwrap();
        assert_eq!(cluster.list(&all, &query("")).1.len(), 3);
        assert_eq!(cluster.list(&all, &query("labelSelector=ours")).1.len(), 1);
        assert_eq!(cluster.list(&all, &query("fieldSelector=metadata.name%3Dkube-system")).1.len(), 1);
    }
}
