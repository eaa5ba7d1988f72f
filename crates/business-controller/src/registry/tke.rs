//! The backend for TKE's registry: `namespaces` and `chartgroups` of `registry.tkestack.io/v1`. It tells no sizes.

use super::backend::{
    Backend, Content, Measured, ProvideResult, RecordedState, RegistryPlace, RemovalProgress,
};
use super::writes::RegistryWrites;
use crate::error::{self, CallFailure, Error};
use crate::fence::Fence;
use crate::reloading_client::ReloadingClient;
use business_types::names::UID_ANNOTATION;
use business_types::registry::{RegistryBackend, RegistryProvenance, RegistryRecord};
use futures_util::future::{BoxFuture, FutureExt as _};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const GROUP: &str = "registry.tkestack.io";
/// The annotation of a registry namespace with the project that it was made for.
const PROJECT_ANNOTATION: &str = "projectName";
/// The deadline of a read.
const DEADLINE: Duration = Duration::from_secs(10);

/// The backend for TKE's registry.
pub struct TkeRegistry {
    client: ClientSource,
    writes: RegistryWrites,
}

/// Where the client of the registry's API comes from.
enum ClientSource {
    Kubeconfig(ReloadingClient),
    #[cfg(test)]
    Fixed(kube::Client),
}

impl std::fmt::Debug for TkeRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TkeRegistry").finish_non_exhaustive()
    }
}

impl TkeRegistry {
    pub fn new(client: ReloadingClient, fence: Arc<Fence>) -> Self {
        Self { client: ClientSource::Kubeconfig(client), writes: RegistryWrites::new(fence) }
    }

    #[cfg(test)]
    pub(crate) fn with_client(client: kube::Client, fence: Arc<Fence>) -> Self {
        Self { client: ClientSource::Fixed(client), writes: RegistryWrites::new(fence) }
    }

    async fn api(&self, content: Content) -> Result<Api<DynamicObject>, Error> {
        let (kind, plural) = match content {
            Content::Images => ("Namespace", "namespaces"),
            Content::Charts => ("ChartGroup", "chartgroups"),
        };
        let gvk = GroupVersionKind::gvk(GROUP, "v1", kind);
        let client = match &self.client {
            ClientSource::Kubeconfig(client) => {
                client.get().await.map_err(|error| Error::Registry(CallFailure::Unavailable(error.text())))?
            }
            #[cfg(test)]
            ClientSource::Fixed(client) => client.clone(),
        };
        Ok(Api::all_with(client, &ApiResource::from_gvk_with_plural(&gvk, plural)))
    }

    /// The registry's object of this tenant and name.
    async fn find(&self, place: &RegistryPlace) -> Result<Option<DynamicObject>, Error> {
        let fields = format!("spec.tenantID={},spec.name={}", place.tenant, place.name);
        let api = self.api(place.content).await?;
        let found = bounded(api.list(&ListParams::default().fields(&fields))).await?;
        // A server that does not know the field selector may return everything.
        let says = |object: &DynamicObject, field, wanted: &str| {
            object.data.pointer(field).is_some_and(|value| value == wanted)
        };
        let is_it = |object: &DynamicObject| {
            says(object, "/spec/tenantID", &place.tenant) && says(object, "/spec/name", &place.name)
        };
        Ok(found.items.into_iter().find(is_it))
    }

    /// The recorded object, if it still exists and belongs to the place.
    async fn find_recorded(
        &self,
        place: &RegistryPlace,
        record: &RegistryRecord,
    ) -> Result<Option<DynamicObject>, Error> {
        let found = self.find(place).await?;
        Ok(found.filter(|object| uid(object) == record.uid && is_listed(place, object)))
    }

    async fn write<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
        self.writes.send(async { call.await.map_err(|error| Error::Registry(error.into())) }).await
    }

    async fn make(&self, place: &RegistryPlace) -> Result<ProvideResult, Error> {
        let namespace = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Namespace",
            "metadata": { "annotations": { PROJECT_ANNOTATION: place.project, UID_ANNOTATION: place.uid } },
            "spec": { "name": place.name, "tenantID": place.tenant, "displayName": place.display_name },
        });
        let namespace: DynamicObject =
            serde_json::from_value(namespace).map_err(|error| CallFailure::Unavailable(error.to_string()))?;
        let api = self.api(Content::Images).await?;
        match self.write(api.create(&PostParams::default(), &namespace)).await {
            Ok(made) => Ok(ProvideResult::Provided(record(&made, RegistryProvenance::Made))),
            Err(Error::Registry(CallFailure::Refused { message, .. } | CallFailure::Conflict(message))) => {
                Ok(ProvideResult::Refused(format!("the registry has refused the namespace: {message}")))
            }
            Err(error) => Err(error),
        }
    }

    async fn provide(&self, place: &RegistryPlace, consent: bool) -> Result<ProvideResult, Error> {
        let Some(found) = self.find(place).await? else {
            return match place.content {
                Content::Images => self.make(place).await,
                Content::Charts => Ok(ProvideResult::Refused(
                    "no chart group exists with the specified name in the registry".to_owned(),
                )),
            };
        };
        // A chart group itself lists its projects, so no other consent is needed.
        if let Some(record) = owned(place, &found, consent || place.content == Content::Charts) {
            return Ok(ProvideResult::Provided(record));
        }
        Ok(ProvideResult::Refused(match place.content {
            Content::Images => {
                format!("the registry has a namespace {} already that is not this object's", place.prefix())
            }
            Content::Charts => {
                format!(
                    "the chart group of the registry does not list project {} in spec.projects",
                    place.project
                )
            }
        }))
    }

    async fn remove(&self, place: &RegistryPlace, record: &RegistryRecord) -> Result<RemovalProgress, Error> {
        let Some(found) = self.find_recorded(place, record).await? else { return Ok(RemovalProgress::Done) };
        let name = found.metadata.name.clone().unwrap_or_default();
        let api = self.api(place.content).await?;
        let result = match place.content {
            Content::Images => {
                let only = Preconditions { uid: Some(record.uid.clone()), resource_version: None };
                let params = DeleteParams { preconditions: Some(only), ..DeleteParams::background() };
                self.write(api.delete(&name, &params)).await.map(drop)
            }
            Content::Charts => {
                let left: Vec<&Value> =
                    projects(&found).filter(|project| **project != place.project).collect();
                let patch = json!({
                    "metadata": { "uid": record.uid, "resourceVersion": found.metadata.resource_version },
                    "spec": { "projects": left },
                });
                let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
                self.write(api.patch(&name, &params, &patch)).await.map(drop)
            }
        };
        match result {
            // A conflict means another version, or another object: the next pass will tell.
            Ok(()) | Err(Error::Registry(CallFailure::NotFound | CallFailure::Conflict(_))) => Ok(
                RemovalProgress::InProgress(format!("{} is being removed from the registry", place.prefix())),
            ),
            Err(error) => Err(error),
        }
    }
}

/// The record of a registry object that is ours: made for the object, or, with consent, made for its project by
/// somebody else.
fn owned(place: &RegistryPlace, found: &DynamicObject, consent: bool) -> Option<RegistryRecord> {
    if place.content == Content::Images && annotation(found, UID_ANNOTATION) == place.uid {
        return Some(record(found, RegistryProvenance::Made));
    }
    let is_projects = match place.content {
        Content::Images => annotation(found, PROJECT_ANNOTATION) == place.project,
        Content::Charts => is_listed(place, found),
    };
    (consent && is_projects).then(|| record(found, RegistryProvenance::Adopted))
}

fn uid(object: &DynamicObject) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}

fn annotation<'a>(object: &'a DynamicObject, key: &str) -> &'a str {
    let annotations = object.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(key)).map(String::as_str).unwrap_or_default()
}

fn projects(group: &DynamicObject) -> impl Iterator<Item = &Value> {
    group.data.pointer("/spec/projects").and_then(Value::as_array).into_iter().flatten()
}

/// Whether the place's project may use the registry object. A chart group lists its projects; a namespace lists none.
fn is_listed(place: &RegistryPlace, object: &DynamicObject) -> bool {
    place.content == Content::Images || projects(object).any(|project| *project == place.project)
}

fn record(object: &DynamicObject, provenance: RegistryProvenance) -> RegistryRecord {
    RegistryRecord { backend: RegistryBackend::Tke, provenance, uid: uid(object).to_owned() }
}

impl Backend for TkeRegistry {
    fn backend_type(&self) -> RegistryBackend {
        RegistryBackend::Tke
    }

    fn provide<'a>(
        &'a self,
        place: &'a RegistryPlace,
        consent: bool,
    ) -> BoxFuture<'a, Result<ProvideResult, Error>> {
        Self::provide(self, place, consent).boxed()
    }

    fn recover<'a>(
        &'a self,
        place: &'a RegistryPlace,
        consent: bool,
    ) -> BoxFuture<'a, Result<Option<RegistryRecord>, Error>> {
        let found = async move {
            let found = self.find(place).await?;
            Ok(found.and_then(|found| owned(place, &found, consent)))
        };
        found.boxed()
    }

    fn inspect<'a>(
        &'a self,
        place: &'a RegistryPlace,
        record: &'a RegistryRecord,
    ) -> BoxFuture<'a, Result<RecordedState, Error>> {
        let found = async move {
            Ok(match self.find_recorded(place, record).await? {
                Some(found) => {
                    let locked = found.data.pointer("/status/locked").and_then(Value::as_bool);
                    RecordedState::Present { locked: locked.unwrap_or_default() }
                }
                None => RecordedState::Lost,
            })
        };
        found.boxed()
    }

    fn measure<'a>(&'a self, _place: &'a RegistryPlace) -> BoxFuture<'a, Result<Option<Measured>, Error>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn remove<'a>(
        &'a self,
        place: &'a RegistryPlace,
        record: &'a RegistryRecord,
        _is_closed: bool,
    ) -> BoxFuture<'a, Result<RemovalProgress, Error>> {
        Self::remove(self, place, record).boxed()
    }

    fn writes_have_ended(&self) -> Result<(), Duration> {
        self.writes.have_ended()
    }

    /// TKE's registry checks its own tokens: it takes no push to what it has removed.
    fn late_push_window(&self) -> Duration {
        Duration::ZERO
    }
}

async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    error::bounded(DEADLINE, call).await.map_err(Error::Registry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::empty_server::EmptyServer;
    use crate::fixtures::world::times;
    use std::collections::BTreeSet;

    #[tokio::test]
    async fn renewed_credentials_of_the_registry_are_used_at_once() {
        let server = EmptyServer::start("registry-kubeconfig").await;
        server.write_kubeconfig("former");
        let client = ReloadingClient::open(server.kubeconfig.clone()).await.unwrap();
        let registry = TkeRegistry::new(client, Arc::new(Fence::new(times())));
        let place = RegistryPlace {
            content: Content::Images,
            uid: "u".to_owned(),
            tenant: "t".to_owned(),
            name: "web".to_owned(),
            project: "p".to_owned(),
            display_name: "Web".to_owned(),
            untagged: BTreeSet::new(),
        };
        assert_eq!(registry.recover(&place, false).await.unwrap(), None);
        server.write_kubeconfig("renewed");
        assert_eq!(registry.recover(&place, false).await.unwrap(), None);
        assert_eq!(server.callers(), ["Bearer former", "Bearer renewed"]);
        std::fs::remove_file(&server.kubeconfig).unwrap();
        let told = registry.recover(&place, false).await;
        assert!(matches!(told, Err(Error::Registry(CallFailure::Unavailable(_)))), "{told:?}");
    }
}
