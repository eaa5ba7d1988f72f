use crate::discovery::Documents;
use crate::error::Error;
use crate::flow::InFlightLimiter;
use crate::openapi::ApiInfo;
use crate::resource::Resource;
use meta::gvk::GroupResource;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;
use store::{Access, KindId};

/// Places for heavy bodies. With the quarter that is for who has none, and the one for operators, they are eight. Each
/// body takes as much memory as [`meta::decode::decode_value`] allows.
pub(crate) const HEAVY_BODIES: usize = 6;

/// What all requests share.
#[derive(Clone, Debug)]
pub struct Api {
    /// All resources, in the order of discovery.
    pub resources: Vec<Arc<Resource>>,
    /// The store of the objects.
    pub store: store::Store,
    /// The clock.
    pub clock: runtime::Clock,
    /// Cancelled when the server drains: watches then end cleanly.
    pub draining: tokio_util::sync::CancellationToken,
    /// The discovery and OpenAPI documents, computed once.
    pub documents: Arc<Documents>,
    /// The access of rules that must read more than their callers see.
    pub(crate) internal: Access,
    /// Limits the writes in flight whose bodies may take much memory.
    pub(crate) heavy_bodies: Arc<InFlightLimiter>,
}

impl Api {
    /// Computes the discovery and OpenAPI documents of these resources. An error if two have the same URL, or if a verb
    /// cannot be served.
    pub fn new(
        resources: Vec<Arc<Resource>>,
        store: store::Store,
        clock: runtime::Clock,
        draining: tokio_util::sync::CancellationToken,
        info: &ApiInfo,
    ) -> Result<Self, Error> {
        for (at, resource) in resources.iter().enumerate() {
            resource.check()?;
            let same = |other: &&Arc<Resource>| {
                (&other.gvk.group, &other.gvk.version, other.plural)
                    == (&resource.gvk.group, &resource.gvk.version, resource.plural)
            };
            if resources.iter().take(at).any(|other| same(&other)) {
                return Err(Error::Settings(format!(
                    "resource {} is there twice",
                    resource.group_resource()
                )));
            }
        }
        let documents = Arc::new(Documents::new(&resources, info));
        let internal = Access::internal("admission");
        let heavy_bodies = InFlightLimiter::new(HEAVY_BODIES, Gauge::default());
        Ok(Self { resources, store, clock, draining, documents, internal, heavy_bodies })
    }

    /// The resource of a stored kind, as error messages show it.
    pub(crate) fn resource_of(&self, kind: KindId) -> GroupResource {
        let is_kind = |resource: &&Arc<Resource>| resource.stored().is_some_and(|stored| stored.id == kind);
        match self.resources.iter().find(is_kind) {
            Some(resource) => resource.group_resource(),
            None => GroupResource::new("", ""),
        }
    }
}
