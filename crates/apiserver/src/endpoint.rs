//! Finds the resource of a request, with the 404 and 405 of a Go API server.

use crate::computed::{Computed, Singleton};
use crate::object_endpoint::ObjectEndpoint;
use crate::request::{ResourceRequest, Verb};
use crate::resource::{Resource, ResourceSource, StoredKind};
use crate::subresource::{SubresourceHandler, SubresourceKind};
use meta::status::Status;
use std::sync::Arc;

/// A resource, or a subresource of it.
pub(crate) struct Endpoint {
    pub(crate) resource: Arc<Resource>,
    pub(crate) kind: EndpointKind,
}

/// What is behind an endpoint.
pub(crate) enum EndpointKind {
    /// Stored objects, or the fields of them that a subresource owns.
    Objects { stored: Arc<StoredKind>, endpoint: ObjectEndpoint },
    /// An action on a stored object.
    Handler { stored: Arc<StoredKind>, endpoint: ObjectEndpoint, handler: Arc<dyn SubresourceHandler> },
    /// Objects that are computed when they are read.
    Computed(Arc<dyn Computed>),
    /// The one object of a caller, computed when he reads it.
    Singleton(Arc<dyn Singleton>),
}

impl Endpoint {
    /// The endpoint of a request. An error if it is not served or does not have the verb.
    pub(crate) fn find(resources: &[Arc<Resource>], request: &ResourceRequest) -> Result<Self, Status> {
        let resource = resources
            .iter()
            .find(|r| {
                r.gvk.group == request.group
                    && r.gvk.version == request.version
                    && r.plural == request.resource
            })
            .ok_or_else(Status::no_such_path)?;
        let everywhere = resource.namespaced && request.namespace.is_empty();
        let scope_fits = if request.namespace.is_empty() {
            !everywhere || request.name.is_empty()
        } else {
            resource.namespaced
        };
        if !scope_fits {
            return Err(Status::no_such_path());
        }
        let resource = Arc::clone(resource);
        if !request.subresource.is_empty() {
            return Self::find_subresource(resource, request);
        }
        let collection = request.name.is_empty();
        if !collection && resource.is_singleton() {
            return Err(Status::no_such_path());
        }
        let is_here = match request.verb {
            Verb::List | Verb::Watch => collection,
            Verb::Create => collection && (!everywhere || allows_list_create(&resource)),
            Verb::DeleteCollection => collection && !everywhere,
            Verb::Get | Verb::Update | Verb::Patch | Verb::Delete => !collection,
            Verb::Other(_) => false,
        };
        if request.verb == Verb::Watch && !resource.verbs.contains(&Verb::Watch) {
            return Err(Status::watch_not_supported(&resource.group_resource()));
        }
        if !is_here || !resource.verbs.contains(&request.verb) {
            return Err(Status::method_not_allowed());
        }
        let kind = match &resource.source {
            ResourceSource::Stored(stored) => {
                EndpointKind::Objects { stored: Arc::clone(stored), endpoint: ObjectEndpoint::Main }
            }
            ResourceSource::Computed(computed) => EndpointKind::Computed(Arc::clone(computed)),
            ResourceSource::Singleton(singleton) => EndpointKind::Singleton(Arc::clone(singleton)),
        };
        Ok(Self { resource, kind })
    }

    fn find_subresource(resource: Arc<Resource>, request: &ResourceRequest) -> Result<Self, Status> {
        let stored = resource.stored().ok_or_else(Status::no_such_path)?;
        let found = stored.subresources.iter().find(|subresource| subresource.name == request.subresource);
        let subresource = found.ok_or_else(Status::no_such_path)?;
        if !subresource.verbs.contains(&request.verb) {
            return Err(Status::method_not_allowed());
        }
        let (stored, endpoint) = (Arc::clone(stored), subresource.endpoint());
        let kind = match &subresource.kind {
            SubresourceKind::Writes(_) => EndpointKind::Objects { stored, endpoint },
            SubresourceKind::Handler(handler) => {
                EndpointKind::Handler { stored, endpoint, handler: Arc::clone(handler) }
            }
        };
        Ok(Self { resource, kind })
    }
}

/// Whether a list of objects can be created at the collection of all namespaces.
fn allows_list_create(resource: &Resource) -> bool {
    resource.stored().is_some_and(|stored| stored.strategy.allows_list_create())
}

impl EndpointKind {
    /// The endpoint, as strategies see it.
    pub(crate) fn endpoint(&self) -> ObjectEndpoint {
        match self {
            Self::Objects { endpoint, .. } | Self::Handler { endpoint, .. } => *endpoint,
            Self::Computed(_) | Self::Singleton(_) => ObjectEndpoint::Main,
        }
    }
}

#[cfg(test)]
mod tests;
