//! Calls to the API of our kinds, through kube-apiserver.

use crate::error::Failure;
use crate::objects::{NamespaceView, ProjectView, View, revision};
use business_types::{Orphan, ProjectStatus, names};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions,
    PropagationPolicy,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// A call that takes longer has failed.
const CALL_DEADLINE: Duration = Duration::from_secs(20);
/// Objects a page of a list.
const PAGE: u32 = 500;
/// Who is named in `managedFields`.
pub const FIELD_MANAGER: &str = "business-controller";

/// Our kinds, as the controller uses them.
#[derive(Clone)]
pub struct Business {
    client: Client,
    projects: ApiResource,
    namespaces: ApiResource,
}

impl std::fmt::Debug for Business {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Business").finish_non_exhaustive()
    }
}

/// All projects at one revision, as far as the audit needs them.
#[derive(Debug, Default)]
pub struct Survey {
    /// The revision.
    pub revision: u64,
    projects: BTreeMap<String, Said>,
}

#[derive(Debug)]
struct Said {
    orphans: Vec<Orphan>,
    /// Places that something is held for: cluster and namespace.
    places: Vec<(String, String)>,
}

impl Said {
    fn of(status: ProjectStatus) -> Self {
        let places = status.ledger.held.into_iter().map(|held| (held.cluster_name, held.namespace));
        Self { orphans: status.orphans, places: places.collect() }
    }
}

impl Survey {
    /// The name of a project, if there is one of that name.
    pub fn name_of(&self, project: &str) -> Option<&str> {
        self.projects.get_key_value(project).map(|(name, _)| name.as_str())
    }

    /// Namespaces of a member cluster that something is held for.
    pub fn held_in<'a>(&'a self, cluster: &'a str) -> impl Iterator<Item = &'a str> {
        let places = self.projects.values().flat_map(|said| &said.places);
        places.filter(move |(name, _)| name == cluster).map(|(_, namespace)| namespace.as_str())
    }

    /// The project that something at a place is held against.
    pub fn holder(&self, cluster: &str, namespace: &str) -> Option<&str> {
        let at = |said: &Said| said.places.iter().any(|(c, n)| c == cluster && n == namespace);
        self.projects.iter().find(|(_, said)| at(said)).map(|(name, _)| name.as_str())
    }

    /// Projects whose status names orphans.
    pub fn telling(&self) -> impl Iterator<Item = (&str, &[Orphan])> {
        let telling = self.projects.iter().filter(|(_, said)| !said.orphans.is_empty());
        telling.map(|(name, said)| (name.as_str(), said.orphans.as_slice()))
    }

    /// The orphans that a project's status names.
    pub fn told(&self, project: &str) -> &[Orphan] {
        self.projects.get(project).map(|said| said.orphans.as_slice()).unwrap_or_default()
    }
}

/// What a subresource was written to, and from.
pub type Written<S, T> = Result<View<S, T>, Failure>;

impl Business {
    /// Through this client.
    pub fn new(client: Client) -> Self {
        let resource = |plural: &str, kind: &str| ApiResource {
            group: names::GROUP.to_owned(),
            version: names::VERSION.to_owned(),
            api_version: names::API_VERSION.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self {
            client,
            projects: resource(names::PROJECTS, names::PROJECT_KIND),
            namespaces: resource(names::NAMESPACES, names::NAMESPACE_KIND),
        }
    }

    /// All projects.
    pub fn projects(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &self.projects)
    }

    /// The namespaces of all projects.
    pub fn all_namespaces(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &self.namespaces)
    }

    fn namespaces(&self, project: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), project, &self.namespaces)
    }

    /// Where an object lives.
    fn api_of<S, T>(&self, object: &View<S, T>) -> Api<DynamicObject> {
        if object.namespace.is_empty() { self.projects() } else { self.namespaces(&object.namespace) }
    }

    /// The project as it is now, not as it was last seen.
    pub async fn project(&self, name: &str) -> Result<Option<ProjectView>, Failure> {
        let api = self.projects();
        let object = bounded(api.get_opt(name)).await?;
        object.map(decode).transpose()
    }

    /// All projects at one revision: their names, and what their status says of the audits.
    pub async fn survey(&self) -> Result<Survey, Failure> {
        let api = self.projects();
        let mut survey = Survey::default();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = bounded(api.list(&params)).await?;
            if params.continue_token.is_none() {
                survey.revision = revision(page.metadata.resource_version.as_deref().unwrap_or_default());
            }
            for object in page.items {
                let project: ProjectView = decode(object)?;
                survey.projects.insert(project.name, Said::of(project.status));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(survey),
            }
        }
    }

    /// The uids of all namespaces as they are now.
    pub async fn namespace_uids(&self) -> Result<HashSet<String>, Failure> {
        let api = self.all_namespaces();
        let mut uids = HashSet::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = bounded(api.list_metadata(&params)).await?;
            uids.extend(page.items.into_iter().filter_map(|object| object.metadata.uid));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(uids),
            }
        }
    }

    /// The namespace as it is now, not as it was last seen.
    pub async fn namespace(&self, project: &str, name: &str) -> Result<Option<NamespaceView>, Failure> {
        let api = self.namespaces(project);
        let object = bounded(api.get_opt(name)).await?;
        object.map(decode).transpose()
    }

    /// Changes the status of exactly the version that was read.
    pub async fn patch_status<S, T>(&self, object: &View<S, T>, status: Value) -> Written<S, T>
    where
        S: DeserializeOwned + Default,
        T: DeserializeOwned + Default,
    {
        let body = with_preconditions(object, "status", status);
        let api = self.api_of(object);
        let params = params();
        decode(bounded(api.patch_status(&object.name, &params, &Patch::Merge(body))).await?)
    }

    /// Takes our token out of `spec.finalizers` of exactly the version that was read. The object goes with its
    /// last token.
    pub async fn finalize<S, T>(&self, object: &View<S, T>, left: &[String]) -> Result<(), Failure> {
        let body = with_preconditions(object, "spec", json!({ "finalizers": left }));
        let api = self.api_of(object);
        let params = params();
        let patch = Patch::Merge(body);
        let call = api.patch_subresource("finalize", &object.name, &params, &patch);
        match bounded(call).await {
            Ok(_) | Err(Failure::NotFound) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Begins the deletion of exactly this object.
    pub async fn delete<S, T>(&self, object: &View<S, T>) -> Result<(), Failure> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: Some(object.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        let api = self.api_of(object);
        match bounded(api.delete(&object.name, &params)).await {
            // A conflict is an object that is being deleted already, or another one of the same name.
            Ok(_) | Err(Failure::NotFound | Failure::Conflict(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Some namespaces of a project, as they are now.
    pub async fn some_namespaces(&self, project: &str, limit: u32) -> Result<Vec<NamespaceView>, Failure> {
        let api = self.namespaces(project);
        let params = ListParams::default().limit(limit);
        let list = bounded(api.list(&params)).await?;
        list.items.into_iter().map(decode).collect()
    }

    /// Some child projects of a project, as they are now.
    pub async fn some_children(&self, project: &str, limit: u32) -> Result<Vec<ProjectView>, Failure> {
        let api = self.projects();
        let params = ListParams::default().fields(&format!("spec.parentProjectName={project}")).limit(limit);
        let list = bounded(api.list(&params)).await?;
        list.items.into_iter().map(decode).collect()
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn with_preconditions<S, T>(object: &View<S, T>, field: &str, value: Value) -> Value {
    let metadata = json!({ "resourceVersion": object.resource_version, "uid": object.uid });
    let mut body = Map::new();
    body.insert("metadata".to_owned(), metadata);
    body.insert(field.to_owned(), value);
    Value::Object(body)
}

fn decode<S, T>(object: DynamicObject) -> Written<S, T>
where
    S: DeserializeOwned + Default,
    T: DeserializeOwned + Default,
{
    View::decode(object).map_err(|error| Failure::Unavailable(crate::error::chain(&error)))
}

async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(CALL_DEADLINE, call).await {
        Ok(result) => result.map_err(Failure::from),
        Err(_elapsed) => Err(Failure::deadline(CALL_DEADLINE)),
    }
}

/// The merge patch that makes `new` out of `old`; `None` when they are equal.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in new {
                match old.get(key) {
                    Some(before) => {
                        if let Some(inner) = difference(before, value) {
                            patch.insert(key.clone(), inner);
                        }
                    }
                    None => drop(patch.insert(key.clone(), value.clone())),
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) => (old != new).then(|| new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn merged(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let Value::Object(map) = target else { return };
        for (key, value) in patch {
            if value.is_null() {
                map.remove(key);
            } else {
                merged(map.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }

    fn status() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), "[a-c]{0,2}".prop_map(Value::from)];
        let tree = leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| json!(map)),
            ]
        });
        prop::collection::btree_map("[a-d]", tree, 0..4).prop_map(|map| json!(map))
    }

    proptest! {
        #[test]
        fn the_difference_makes_the_new_out_of_the_old(old in status(), new in status()) {
            let mut got = old.clone();
            if let Some(patch) = difference(&old, &new) {
                merged(&mut got, &patch);
            }
            prop_assert_eq!(got, new);
        }
    }
}
