//! Finds the resource of a request, with the 404 and 405 of a Go API server.

use crate::computed::{Computed, Singleton};
use crate::part::Part;
use crate::request::{ResourceRequest, Verb};
use crate::resource::{Resource, ResourceSource, StoredKind};
use crate::subresource::{SubresourceHandler, SubresourceKind};
use meta::status::Status;
use std::sync::Arc;

/// A resource, or a subresource of it.
pub(crate) struct Endpoint {
    pub(crate) resource: Arc<Resource>,
    pub(crate) serves: Serves,
}

/// What is behind an endpoint.
pub(crate) enum Serves {
    /// Objects of the store, whole or a part of them.
    Objects { stored: Arc<StoredKind>, part: Part },
    /// An action on one of them.
    Handler { stored: Arc<StoredKind>, part: Part, handler: Arc<dyn SubresourceHandler> },
    /// Objects that are made when they are read.
    Computed(Arc<dyn Computed>),
    /// The one object that a caller has, made when he reads it.
    Singleton(Arc<dyn Singleton>),
}

impl Endpoint {
    /// The endpoint of a request, if it is served and has the request's verb.
    pub(crate) fn find(resources: &[Arc<Resource>], asked: &ResourceRequest) -> Result<Self, Status> {
        let resource = resources
            .iter()
            .find(|r| {
                r.gvk.group == asked.group && r.gvk.version == asked.version && r.plural == asked.resource
            })
            .ok_or_else(Status::no_such_path)?;
        let everywhere = resource.namespaced && asked.namespace.is_empty();
        let scope_fits = if asked.namespace.is_empty() {
            !everywhere || asked.name.is_empty()
        } else {
            resource.namespaced
        };
        if !scope_fits {
            return Err(Status::no_such_path());
        }
        let resource = Arc::clone(resource);
        if !asked.subresource.is_empty() {
            return Self::below(resource, asked);
        }
        let collection = asked.name.is_empty();
        if !collection && resource.is_singleton() {
            return Err(Status::no_such_path());
        }
        let is_here = match asked.verb {
            Verb::List | Verb::Watch => collection,
            Verb::Create => collection && (!everywhere || are_created_together(&resource)),
            Verb::DeleteCollection => collection && !everywhere,
            Verb::Get | Verb::Update | Verb::Patch | Verb::Delete => !collection,
            Verb::Other(_) => false,
        };
        if asked.verb == Verb::Watch && !resource.verbs.contains(&Verb::Watch) {
            return Err(Status::watch_not_supported(&resource.group_resource()));
        }
        if !is_here || !resource.verbs.contains(&asked.verb) {
            return Err(Status::method_not_allowed());
        }
        let serves = match &resource.source {
            ResourceSource::Stored(stored) => {
                Serves::Objects { stored: Arc::clone(stored), part: Part::Main }
            }
            ResourceSource::Computed(computed) => Serves::Computed(Arc::clone(computed)),
            ResourceSource::Singleton(singleton) => Serves::Singleton(Arc::clone(singleton)),
        };
        Ok(Self { resource, serves })
    }

    fn below(resource: Arc<Resource>, asked: &ResourceRequest) -> Result<Self, Status> {
        let stored = resource.stored().ok_or_else(Status::no_such_path)?;
        let found = stored.subresources.iter().find(|subresource| subresource.name == asked.subresource);
        let subresource = found.ok_or_else(Status::no_such_path)?;
        if !subresource.verbs.contains(&asked.verb) {
            return Err(Status::method_not_allowed());
        }
        let (stored, part) = (Arc::clone(stored), subresource.part());
        let serves = match &subresource.kind {
            SubresourceKind::Writes(_) => Serves::Objects { stored, part },
            SubresourceKind::Handler(handler) => {
                Serves::Handler { stored, part, handler: Arc::clone(handler) }
            }
        };
        Ok(Self { resource, serves })
    }
}

/// Whether a list can be posted without a namespace.
fn are_created_together(resource: &Resource) -> bool {
    resource.stored().is_some_and(|stored| stored.strategy.are_created_together())
}

impl Serves {
    /// The endpoint, as strategies see it.
    pub(crate) fn part(&self) -> Part {
        match self {
            Self::Objects { part, .. } | Self::Handler { part, .. } => *part,
            Self::Computed(_) | Self::Singleton(_) => Part::Main,
        }
    }
}

#[cfg(test)]
mod tests;
