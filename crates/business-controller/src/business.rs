//! Calls to the API of our kinds, through kube-apiserver.

/// Passwords for pulling images.
pub mod password;

use crate::acquisition::GenerationSnapshot;
use crate::error::{self, CallFailure, not_found_as_none};
use crate::field_managers::FIELD_MANAGER;
use crate::kinds::{Kind, ObjectKey as _, View, revision};
use crate::member_cluster::kind::{BusinessMemberCluster, MemberClusterView};
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use business_types::{PullCredentialRequest, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use password::IssuedPassword;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A call that takes longer has failed.
const CALL_DEADLINE: Duration = Duration::from_secs(20);
/// Objects in one page of a list.
const PAGE: u32 = 500;

/// A client of our kinds.
#[derive(Clone)]
pub struct Business {
    client: Client,
}

impl std::fmt::Debug for Business {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Business").finish_non_exhaustive()
    }
}

#[derive(Clone, Deserialize)]
struct Issued {
    status: IssuedPassword,
}

impl Business {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The API of a kind, across all projects.
    pub fn api_all<K: Kind>(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &K::resource())
    }

    fn api_of<K: Kind>(&self, key: &K::Key) -> Api<DynamicObject> {
        key.api(self.client.clone(), &K::resource())
    }

    /// Reads an object from the API, not from the cache.
    pub async fn get<K: Kind>(&self, key: &K::Key) -> Result<Option<View<K>>, CallFailure> {
        let api = self.api_of::<K>(key);
        not_found_as_none(bounded(api.get(key.name())).await)?.map(decode).transpose()
    }

    /// Calls `take` with every object of a kind at one revision, which is returned.
    pub async fn for_each<K: Kind>(&self, mut take: impl FnMut(View<K>)) -> Result<u64, CallFailure> {
        let api = self.api_all::<K>();
        let mut pages = Pages::of(ListParams::default());
        loop {
            let page = bounded(api.list(&pages.params)).await?;
            for object in page.items {
                take(decode(object)?);
            }
            if !pages.advance(page.metadata) {
                return Ok(pages.revision);
            }
        }
    }

    /// The generations of all objects of a kind that match a field selector, or of all, at one revision.
    pub async fn generation_snapshot<K: Kind>(
        &self,
        selector: Option<&str>,
    ) -> Result<GenerationSnapshot, CallFailure> {
        let api = self.api_all::<K>();
        let mut snapshot = GenerationSnapshot::default();
        let field_selector = selector.map(str::to_owned);
        let mut pages = Pages::of(ListParams { field_selector, ..ListParams::default() });
        loop {
            let page = bounded(api.list_metadata(&pages.params)).await?;
            let of = |metadata: ObjectMeta| Some((metadata.uid?, metadata.generation.unwrap_or_default()));
            snapshot.generations.extend(page.items.into_iter().filter_map(|object| of(object.metadata)));
            if !pages.advance(page.metadata) {
                snapshot.revision = pages.revision;
                return Ok(snapshot);
            }
        }
    }

    /// Lists at most `limit` objects of a project.
    pub async fn list_in_project<K: Kind>(
        &self,
        project: &str,
        limit: u32,
    ) -> Result<Vec<View<K>>, CallFailure> {
        let api = Api::namespaced_with(self.client.clone(), project, &K::resource());
        list_limited(api, ListParams::default().limit(limit)).await
    }

    /// Lists at most `limit` objects that match a field selector.
    pub async fn list_by_field<K: Kind>(
        &self,
        selector: &str,
        limit: u32,
    ) -> Result<Vec<View<K>>, CallFailure> {
        list_limited(self.api_all::<K>(), ListParams::default().fields(selector).limit(limit)).await
    }

    /// Creates an object with this key.
    pub async fn create<K: Kind>(&self, key: &K::Key, body: Value) -> Result<View<K>, CallFailure> {
        let mut body = body;
        if let Value::Object(fields) = &mut body {
            fields.insert("apiVersion".to_owned(), json!(names::API_VERSION));
            fields.insert("kind".to_owned(), json!(K::KIND));
        }
        let undecodable = |error: serde_json::Error| CallFailure::Unavailable(error.to_string());
        let mut object: DynamicObject = serde_json::from_value(body).map_err(undecodable)?;
        object.metadata.name = Some(key.name().to_owned());
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        decode(bounded(self.api_of::<K>(key).create(&params, &object)).await?)
    }

    /// Sends a merge patch, a JSON object, for exactly the version that was read.
    pub async fn merge_patch<K: Kind>(&self, object: &View<K>, patch: Value) -> Result<View<K>, CallFailure> {
        let mut body = patch;
        let version = [("resourceVersion", &object.resource_version), ("uid", &object.uid)];
        let fields = body.as_object_mut().map(|body| body.entry("metadata").or_insert_with(|| json!({})));
        if let Some(metadata) = fields.and_then(Value::as_object_mut) {
            metadata.extend(version.map(|(field, value)| (field.to_owned(), json!(value))));
        }
        let api = self.api_of::<K>(&object.key);
        decode(bounded(api.patch(object.key.name(), &params(), &Patch::Merge(body))).await?)
    }

    /// Patches the status of exactly the version that was read.
    pub async fn patch_status<K: Kind>(
        &self,
        object: &View<K>,
        status: Value,
    ) -> Result<View<K>, CallFailure> {
        let body = with_preconditions(object, "status", status);
        let api = self.api_of::<K>(&object.key);
        let params = params();
        decode(bounded(api.patch_status(object.key.name(), &params, &Patch::Merge(body))).await?)
    }

    /// Writes the capacity that was derived from the nodes of a member cluster.
    pub async fn patch_capacity(
        &self,
        object: &MemberClusterView,
        capacity: Value,
    ) -> Result<MemberClusterView, CallFailure> {
        let body = with_preconditions(object, "status", json!({ "capacity": capacity }));
        let api = self.api_of::<BusinessMemberCluster>(&object.key);
        let (params, patch) = (params(), Patch::Merge(body));
        decode(bounded(api.patch_subresource("capacity", object.key.name(), &params, &patch)).await?)
    }

    /// Removes our token from `spec.finalizers` of exactly the version that was read. The object is deleted with its
    /// last token.
    pub async fn finalize<K: Kind>(&self, object: &View<K>, left: &[String]) -> Result<(), CallFailure> {
        let body = with_preconditions(object, "spec", json!({ "finalizers": left }));
        let api = self.api_of::<K>(&object.key);
        let params = params();
        let patch = Patch::Merge(body);
        let call = api.patch_subresource("finalize", object.key.name(), &params, &patch);
        match bounded(call).await {
            Ok(_) | Err(CallFailure::NotFound) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Posts to a subresource of an object, or only validates the call with `dry_run`.
    pub async fn call_subresource<K: Kind>(
        &self,
        key: &K::Key,
        subresource: &str,
        body: &impl Serialize,
        dry_run: bool,
    ) -> Result<(), CallFailure> {
        let api = self.api_of::<K>(key);
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        bounded(api.create_subresource::<_, Value>(subresource, key.name(), &params, body)).await.map(drop)
    }

    /// Requests a password by which the pods of a namespace pull from the registry. Only the answer contains it.
    pub async fn issue_pull_password(
        &self,
        object: &NamespaceView,
        request: &PullCredentialRequest,
    ) -> Result<IssuedPassword, CallFailure> {
        let api = self.api_of::<BusinessNamespace>(&object.key);
        let params = PostParams { dry_run: false, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let call =
            api.create_subresource::<_, Issued>(names::PULL_CREDENTIAL, object.key.name(), &params, request);
        bounded(call).await.map(|issued| issued.status)
    }

    /// Begins the deletion of exactly this object.
    pub async fn delete<K: Kind>(&self, object: &View<K>) -> Result<(), CallFailure> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: Some(object.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        let api = self.api_of::<K>(&object.key);
        match bounded(api.delete(object.key.name(), &params)).await {
            // A conflict is an object that is being deleted already, or another one of the same name.
            Ok(_) | Err(CallFailure::NotFound | CallFailure::Conflict(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

/// A list that is read page by page.
struct Pages {
    /// The parameters of the next page.
    params: ListParams,
    /// The revision of the list, which its first page tells.
    revision: u64,
}

impl Pages {
    fn of(params: ListParams) -> Self {
        Self { params: params.limit(PAGE), revision: 0 }
    }

    /// Goes on behind this page. Returns whether another one follows.
    fn advance(&mut self, page: ListMeta) -> bool {
        if self.params.continue_token.is_none() {
            self.revision = revision(page.resource_version.as_deref().unwrap_or_default());
        }
        self.params.continue_token = page.continue_.filter(|token| !token.is_empty());
        self.params.continue_token.is_some()
    }
}

async fn list_limited<K: Kind>(
    api: Api<DynamicObject>,
    params: ListParams,
) -> Result<Vec<View<K>>, CallFailure> {
    bounded(api.list(&params)).await?.items.into_iter().map(decode).collect()
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn with_preconditions<K: Kind>(object: &View<K>, field: &str, value: Value) -> Value {
    let metadata = json!({ "resourceVersion": object.resource_version, "uid": object.uid });
    let mut body = Map::new();
    body.insert("metadata".to_owned(), metadata);
    body.insert(field.to_owned(), value);
    Value::Object(body)
}

fn decode<K: Kind>(object: DynamicObject) -> Result<View<K>, CallFailure> {
    View::decode(object).map_err(|error| CallFailure::Unavailable(error::chain(&error)))
}

async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallFailure> {
    error::bounded(CALL_DEADLINE, call).await
}
