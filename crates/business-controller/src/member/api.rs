//! Calls to a member cluster. Every write has a deadline, which the server is told, so that the writes of a former
//! holder have ended before the next holder relies on what it reads.

use super::binding::{self, ClusterBinding, Grantee, RBAC};
use super::marks::UID_MAX;
use super::namespace::ClusterNamespace;
use super::pages::PagedList;
use super::pull_objects::{PullAccount, PullSecret};
use super::quota::ClusterQuota;
use super::template_objects::{TemplateObject, TemplateObjectKind};
use crate::error::{CallFailure, Error, is_unauthorized, not_found_as_none};
use crate::fence::{Fence, InFlightWrites};
use crate::field_managers::{FIELD_MANAGER, TEMPLATE_MANAGER};
use crate::kinds::revision;
use business_types::access::AccessRole;
use business_types::names::PULL_SECRET;
use http::{Method, Request};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Client;
use kube::api::DynamicObject;
use kube::core::{ObjectList, PartialObjectMeta};
use meta::field::shortened;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// A read that takes longer has failed.
const READ_DEADLINE: Duration = Duration::from_secs(5);
/// The same for a page of a list, which may be large.
const PAGE_DEADLINE: Duration = Duration::from_secs(30);
/// The server gives up this much earlier than we do.
const SERVER_MARGIN: Duration = Duration::from_secs(1);
/// Bytes of the version that are kept: it is copied into each namespace of the cluster.
const VERSION_MAX: usize = 64;
/// The error of a write that was answered after the connection epoch had ended.
const RECONNECTED: &str = "the cluster was connected to anew meanwhile";

const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";
/// The same as a list of one object, which also has the newest revision of the cluster.
const KUBE_SYSTEM_LISTED: &str = "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system";
/// Only metadata is requested, since it is read every few seconds.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LISTED: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Calls to one member cluster.
pub struct MemberApi {
    client: RwLock<Client>,
    /// Changes whenever the cluster is connected to again.
    connection_epoch: AtomicU64,
    fence: Arc<Fence>,
    writes: Arc<InFlightWrites>,
}

impl std::fmt::Debug for MemberApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberApi").finish_non_exhaustive()
    }
}

impl MemberApi {
    /// Calls through this client; writes are subject to the fence. `uid` is the cluster's: in-flight writes are counted
    /// by it, whatever the client.
    pub fn new(client: Client, uid: &str, fence: &Arc<Fence>) -> Self {
        Self { writes: fence.writes_to(uid), ..Self::for_unidentified_cluster(client, fence) }
    }

    /// Calls to a cluster whose uid is not known yet.
    pub fn for_unidentified_cluster(client: Client, fence: &Arc<Fence>) -> Self {
        Self {
            client: RwLock::new(client),
            connection_epoch: AtomicU64::default(),
            fence: Arc::clone(fence),
            writes: Arc::default(),
        }
    }

    /// The client, for watches.
    pub fn client(&self) -> Client {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the client for calls that begin from now on. It must lead to the same cluster: in-flight writes stay
    /// counted.
    pub fn set_client(&self, client: Client) {
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
        // After the client was set, so that every call of the new epoch uses it.
        self.begin_connection_epoch();
    }

    /// The cluster is connected to again, and its history may be another one: an answer to an earlier write says
    /// nothing about it.
    pub fn begin_connection_epoch(&self) {
        self.connection_epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether neither a write of a former holder nor an unanswered write of ours can still be executed in this
    /// cluster. The error is the time to wait.
    pub fn may_confirm(&self) -> Result<(), Duration> {
        self.fence.may_confirm(&self.writes)
    }

    /// The same for one namespace, to which no write may be in flight either. The error is the time to wait.
    pub fn may_confirm_at(&self, namespace: &str) -> Result<(), Duration> {
        self.fence.may_confirm_at(&self.writes, namespace)
    }

    /// Whether no former holder's write can arrive any more.
    pub fn former_holders_writes_ended(&self) -> bool {
        self.fence.former_holders_writes_ended().is_ok()
    }

    /// The identity of the cluster: the uid of its `kube-system`.
    pub async fn cluster_uid(&self) -> Result<String, CallFailure> {
        let namespace: Identified = self.read_as(KUBE_SYSTEM, METADATA).await?;
        valid_uid(namespace.metadata.uid)
    }

    /// The same, and the newest revision there: a list without a resourceVersion is read from the storage.
    pub async fn identity(&self) -> Result<Identity, CallFailure> {
        let list: IdentifiedList = self.read_as(KUBE_SYSTEM_LISTED, METADATA_LISTED).await?;
        let revision = revision(&list.metadata.resource_version.unwrap_or_default());
        let uid = list.items.into_iter().next().and_then(|namespace| namespace.metadata.uid);
        Ok(Identity { uid: valid_uid(uid)?, revision })
    }

    /// Whether the cluster answers our credentials with 401. No answer is no refusal.
    pub async fn has_refused_credentials(&self) -> bool {
        let Ok(request) = Request::get(KUBE_SYSTEM).body(Vec::new()) else { return false };
        let asked = tokio::time::timeout(READ_DEADLINE, self.client().request::<IgnoredAny>(request)).await;
        matches!(asked, Ok(Err(error)) if is_unauthorized(&error))
    }

    /// Its Kubernetes version, such as `v1.36.3`.
    pub async fn version(&self) -> Result<String, CallFailure> {
        let info: VersionInfo = self.read("/version").await?;
        Ok(shortened(&info.git_version.unwrap_or_default(), VERSION_MAX))
    }

    /// The next page of a list with these selectors; `None` if it is too large and smaller pages are to be requested.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        pages: &mut PagedList,
        path: &str,
        select: &str,
    ) -> Result<Option<T>, CallFailure> {
        let request = Request::get(format!("{path}?{}{select}", pages.query())).body(Vec::new());
        let (client, request) = (self.client(), request.map_err(kube::Error::HttpError)?);
        pages.read(PAGE_DEADLINE, client.request(request)).await
    }

    /// A namespace as it is now.
    pub async fn namespace(&self, name: &str) -> Result<Option<ClusterNamespace>, CallFailure> {
        optional(self.read::<Namespace>(&format!("/api/v1/namespaces/{name}")).await)
    }

    /// The quota of a namespace as it is now.
    pub async fn quota(&self, name: &str) -> Result<Option<ClusterQuota>, CallFailure> {
        optional(self.read::<ResourceQuota>(&quota_path(name)).await)
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str, body: &Value) -> Result<ClusterNamespace, Error> {
        self.write::<Namespace>(name, Method::POST, "/api/v1/namespaces", body).await.map(Into::into)
    }

    /// Creates the quota of a namespace.
    pub async fn create_quota(&self, namespace: &str, body: &Value) -> Result<ClusterQuota, Error> {
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas");
        self.write::<ResourceQuota>(namespace, Method::POST, &path, body).await.map(Into::into)
    }

    /// Changes a namespace. The body carries the resourceVersion that was read.
    pub async fn patch_namespace(&self, name: &str, body: &Value) -> Result<ClusterNamespace, Error> {
        let path = format!("/api/v1/namespaces/{name}");
        self.write::<Namespace>(name, Method::PATCH, &path, body).await.map(Into::into)
    }

    /// Changes the quota of a namespace. The body carries the resourceVersion that was read.
    pub async fn patch_quota(&self, name: &str, body: &Value) -> Result<ClusterQuota, Error> {
        self.write::<ResourceQuota>(name, Method::PATCH, &quota_path(name), body).await.map(Into::into)
    }

    /// Begins the deletion of exactly this namespace.
    pub async fn delete_namespace(&self, name: &str, uid: &str) -> Result<(), Error> {
        let path = format!("/api/v1/namespaces/{name}");
        self.write::<IgnoredAny>(name, Method::DELETE, &path, &delete_options(uid)).await.map(|_deleted| ())
    }

    /// Deletes exactly this quota, as it was read. One that is gone is no error.
    pub async fn delete_quota(&self, name: &str, quota: &ClusterQuota) -> Result<(), Error> {
        let read = json!({ "uid": quota.uid, "resourceVersion": quota.resource_version });
        let options = json!({ "preconditions": read, "propagationPolicy": "Background" });
        ignore_not_found(self.write::<IgnoredAny>(name, Method::DELETE, &quota_path(name), &options).await)
    }

    /// The binding of a role in a namespace as it is now.
    pub async fn binding(
        &self,
        namespace: &str,
        role: AccessRole,
    ) -> Result<Option<ClusterBinding>, CallFailure> {
        let read = self.read::<RoleBinding>(&binding_path(namespace, role)).await;
        Ok(not_found_as_none(read)?.and_then(ClusterBinding::of))
    }

    /// Whom the binding of a role names, if it is still at the resourceVersion that was read.
    pub async fn grantees(
        &self,
        namespace: &str,
        role: AccessRole,
        resource_version: &str,
    ) -> Result<BTreeSet<Grantee>, CallFailure> {
        let binding = self.read::<RoleBinding>(&binding_path(namespace, role)).await?;
        if binding.metadata.resource_version.as_deref() == Some(resource_version) {
            Ok(binding::grantees(binding.subjects))
        } else {
            Err(CallFailure::Conflict("the binding was changed".to_owned()))
        }
    }

    /// Creates a binding in a namespace.
    pub async fn create_binding(
        &self,
        namespace: &str,
        body: &Value,
    ) -> Result<Option<ClusterBinding>, Error> {
        self.write::<RoleBinding>(namespace, Method::POST, &bindings_path(namespace), body)
            .await
            .map(ClusterBinding::of)
    }

    /// Changes a binding. The body carries the resourceVersion that was read.
    pub async fn patch_binding(
        &self,
        namespace: &str,
        role: AccessRole,
        body: &Value,
    ) -> Result<Option<ClusterBinding>, Error> {
        let path = binding_path(namespace, role);
        self.write::<RoleBinding>(namespace, Method::PATCH, &path, body).await.map(ClusterBinding::of)
    }

    /// Deletes exactly this binding. One that is gone is no error.
    pub async fn delete_binding(&self, namespace: &str, role: AccessRole, uid: &str) -> Result<(), Error> {
        let path = binding_path(namespace, role);
        ignore_not_found(
            self.write::<IgnoredAny>(namespace, Method::DELETE, &path, &delete_options(uid)).await,
        )
    }

    /// Deletes exactly this binding, whatever its name. Its subjects are removed before: a finalizer could keep the
    /// binding, and with it everybody's roles. A binding that is gone is no error.
    pub async fn empty_and_delete_binding(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Error> {
        let path = format!("{}/{name}", bindings_path(namespace));
        let nobody = json!({ "metadata": { "uid": uid }, "subjects": [] });
        let emptied = match self.write::<IgnoredAny>(namespace, Method::PATCH, &path, &nobody).await {
            // A cluster that refuses this may accept the deletion.
            Ok(_) | Err(Error::Member(CallFailure::Refused { .. })) => Ok(()),
            // So may a cluster that fails here. Whether subjects are left is seen in the next pass.
            Err(error @ Error::Member(CallFailure::Unavailable(_))) => Err(error),
            Err(Error::Member(CallFailure::NotFound)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let deleted = self.write::<IgnoredAny>(namespace, Method::DELETE, &path, &delete_options(uid)).await;
        ignore_not_found(deleted).and(emptied)
    }

    /// Applies an object of a template by server-side apply; fields that others have added stay. The body carries uid
    /// and resourceVersion of the object that was seen there, if any.
    pub async fn apply_template_object(
        &self,
        kind: TemplateObjectKind,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<Option<TemplateObject>, Error> {
        let path = kind.path(namespace, name);
        let options =
            WriteOptions { type_: "application/apply-patch+yaml", manager: TEMPLATE_MANAGER, forced: true };
        let object = self.send::<DynamicObject>(namespace, Method::PATCH, &path, body, options).await?;
        Ok(TemplateObject::of(kind, object))
    }

    /// Deletes exactly this object of a template. One that is gone is no error.
    pub async fn delete_template_object(
        &self,
        namespace: &str,
        object: &TemplateObject,
    ) -> Result<(), Error> {
        let path = object.kind.path(namespace, &object.name);
        ignore_not_found(
            self.write::<IgnoredAny>(namespace, Method::DELETE, &path, &delete_options(&object.uid)).await,
        )
    }

    /// Applies the pull secret of a namespace by server-side apply. Its content is not read back. The body carries uid
    /// and resourceVersion of the Secret that was seen there, if any.
    pub async fn apply_pull_secret(
        &self,
        namespace: &str,
        body: &Value,
    ) -> Result<Option<PullSecret>, Error> {
        let options =
            WriteOptions { type_: "application/apply-patch+yaml", manager: TEMPLATE_MANAGER, forced: true };
        let path = pull_secret_path(namespace);
        let there =
            self.send::<PartialObjectMeta<Secret>>(namespace, Method::PATCH, &path, body, options).await?;
        Ok(PullSecret::of(there.metadata))
    }

    /// Deletes exactly this pull secret. One that is gone is no error.
    pub async fn delete_pull_secret(&self, namespace: &str, uid: &str) -> Result<(), Error> {
        let path = pull_secret_path(namespace);
        ignore_not_found(
            self.write::<IgnoredAny>(namespace, Method::DELETE, &path, &delete_options(uid)).await,
        )
    }

    /// A service account as it is now. Our right is to list them: a list of one name is read from the storage.
    pub async fn service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ServiceAccount>, CallFailure> {
        let all = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let list: ObjectList<ServiceAccount> =
            self.read(&format!("{all}?fieldSelector=metadata.name%3D{name}")).await?;
        Ok(list.items.into_iter().find(|account| account.metadata.name.as_deref() == Some(name)))
    }

    /// Changes a service account. The body carries the resourceVersion that was read.
    pub async fn patch_service_account(
        &self,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<PullAccount, Error> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}");
        self.write::<ServiceAccount>(namespace, Method::PATCH, &path, body).await.map(Into::into)
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallFailure> {
        self.read_as(path, "application/json").await
    }

    async fn read_as<T: DeserializeOwned>(&self, path: &str, accept: &str) -> Result<T, CallFailure> {
        let request = Request::get(path).header(http::header::ACCEPT, accept);
        let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
        match tokio::time::timeout(READ_DEADLINE, self.client().request(request)).await {
            Ok(result) => result.map_err(CallFailure::from),
            Err(_elapsed) => Err(CallFailure::deadline(READ_DEADLINE)),
        }
    }

    async fn write<T: DeserializeOwned>(
        &self,
        namespace: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<T, Error> {
        let type_ = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let options = WriteOptions { type_, manager: FIELD_MANAGER, forced: false };
        self.send(namespace, method, path, body, options).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        namespace: &str,
        method: Method,
        path: &str,
        body: &Value,
        options: WriteOptions,
    ) -> Result<T, Error> {
        let WriteOptions { type_, manager, forced } = options;
        let deadline = self.fence.write_deadline();
        let server = deadline.saturating_sub(SERVER_MARGIN).max(Duration::from_secs(1)).as_secs();
        let force = if forced { "&force=true" } else { "" };
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?timeout={server}s&fieldManager={manager}{force}"))
            .header(http::header::CONTENT_TYPE, type_)
            .body(body.to_string().into_bytes())
            .map_err(|error| Error::Member(kube::Error::HttpError(error).into()))?;
        // From here on the write counts as in flight, even if this future is dropped.
        let open = self.fence.begin_write(&self.writes)?.to(namespace);
        let connection_epoch = self.connection_epoch.load(Ordering::SeqCst);
        let result = match tokio::time::timeout(deadline, self.client().request(request)).await {
            Ok(result) => result.map_err(CallFailure::from),
            Err(_elapsed) => Err(CallFailure::deadline(deadline)),
        };
        let is_same_epoch = self.connection_epoch.load(Ordering::SeqCst) == connection_epoch;
        let result =
            if is_same_epoch { result } else { Err(CallFailure::Unavailable(RECONNECTED.to_owned())) };
        if !matches!(result, Err(CallFailure::Unavailable(_))) {
            open.answered();
        }
        result.map_err(Error::Member)
    }
}

/// The identity of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The uid of `kube-system`.
    pub uid: String,
    /// The newest revision; 0 if the answer lacks it.
    pub revision: u64,
}

/// The only fields that are read of the answer: the owner of the cluster may put anything beside them.
#[derive(Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: IdentifiedMeta,
}

/// The same as a list.
#[derive(Deserialize)]
struct IdentifiedList {
    #[serde(default)]
    metadata: IdentifiedMeta,
    items: Vec<Identified>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IdentifiedMeta {
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo {
    git_version: Option<String>,
}

/// The uid, if it is one that Kubernetes may have made: it is stored and shown.
fn valid_uid(uid: Option<String>) -> Result<String, CallFailure> {
    let valid_uid = uid.filter(|uid| uid.len() <= UID_MAX);
    valid_uid.ok_or_else(|| CallFailure::Unavailable("kube-system has no uid of Kubernetes".to_owned()))
}

/// How a write is sent.
#[derive(Clone, Copy, Debug)]
struct WriteOptions {
    type_: &'static str,
    manager: &'static str,
    /// Takes over fields of other managers.
    forced: bool,
}

fn quota_path(name: &str) -> String {
    format!("/api/v1/namespaces/{name}/resourcequotas/{name}")
}

fn pull_secret_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{PULL_SECRET}")
}

fn bindings_path(namespace: &str) -> String {
    format!("/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings")
}

fn binding_path(namespace: &str, role: AccessRole) -> String {
    format!("{}/{}", bindings_path(namespace), role.name())
}

/// Makes an apply conditional on this version of the object.
pub fn set_preconditions(body: &mut Value, uid: &str, resource_version: &str) {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), json!(uid));
        metadata.insert("resourceVersion".to_owned(), json!(resource_version));
    }
}

fn delete_options(uid: &str) -> Value {
    json!({ "preconditions": { "uid": uid }, "propagationPolicy": "Background" })
}

fn optional<T, V: From<T>>(result: Result<T, CallFailure>) -> Result<Option<V>, CallFailure> {
    Ok(not_found_as_none(result)?.map(V::from))
}

fn ignore_not_found(result: Result<IgnoredAny, Error>) -> Result<(), Error> {
    match result {
        Ok(_) | Err(Error::Member(CallFailure::NotFound)) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::CLUSTER_UID;
    use crate::fixtures::server::{Link, Passage};
    use crate::fixtures::world::{NAMESPACE, World, times};
    use crate::member::Member;
    use crate::member::recount::RECOUNT;
    use crate::shares::Share;
    use tokio::time::{advance, sleep};

    #[tokio::test]
    async fn of_a_version_the_beginning_is_kept() {
        let world = World::new();
        for (said, kept) in [("v1.36.3".to_owned(), 7), ("v".repeat(100_000), VERSION_MAX + "…".len())] {
            world.server.put("/version", &json!({ "gitVersion": said }));
            assert_eq!(world.member.api.version().await.unwrap().len(), kept);
        }
    }

    #[tokio::test]
    async fn of_what_tells_clusters_apart_nothing_else_is_read() {
        let world = World::new();
        let others =
            json!({ "uid": CLUSTER_UID, "labels": 7, "managedFields": [{ "fieldsV1": [[0], [0]] }] });
        world.server.put(KUBE_SYSTEM, &json!({ "metadata": others, "spec": 7 }));
        assert_eq!(world.member.api.cluster_uid().await.unwrap(), CLUSTER_UID);
        assert_eq!(world.member.api.identity().await.unwrap().uid, CLUSTER_UID);
        world.server.put(KUBE_SYSTEM, &json!({ "metadata": {} }));
        let failure = world.member.api.identity().await.unwrap_err();
        assert!(matches!(failure, CallFailure::Unavailable(_)), "{failure}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_what_was_sent_before_the_cluster_was_connected_to_anew_is_none() {
        let (world, link, second) = (World::new(), Link::default(), Duration::from_secs(1));
        link.is(Passage::Slow(second));
        let share = world.cx.shares.state(Share::Clusters(0));
        let member = Member::new("c1", CLUSTER_UID, world.server.client_over(&link), share, RECOUNT);
        let body = json!({ "metadata": { "name": "web" } });
        let (made, ()) = tokio::join!(member.api.create_namespace("web", &body), async {
            sleep(second).await;
            member.set_client(world.server.client());
        });
        assert!(matches!(made, Err(Error::Member(CallFailure::Unavailable(_)))), "{made:?}");
        assert!(world.server.find(NAMESPACE).is_some(), "it is there, and a list tells");
        assert!(member.api.may_confirm_at("web").is_err(), "it counts as given up");
        advance(times().write_deadline).await;
        assert_eq!(member.api.may_confirm_at("web"), Ok(()));
        let made = member.api.create_namespace("db", &json!({ "metadata": { "name": "db" } })).await;
        assert!(made.is_ok(), "{made:?}");
    }
}
