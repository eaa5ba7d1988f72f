//! Which resource a request is for, with the 404 and 405 of a Go API server.

use crate::request::{ResourceRequest, Verb};
use crate::resource::{Resource, Subresource};
use meta::status::Status;
use std::sync::Arc;

/// A resource, or a subresource of it.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) resource: Arc<Resource>,
    pub(crate) subresource: Option<Subresource>,
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
        let subresource = match asked.subresource.as_str() {
            "" => None,
            name => Some(*resource.subresource(name).ok_or_else(Status::no_such_path)?),
        };
        let collection = asked.name.is_empty();
        let served = match asked.verb {
            Verb::List | Verb::Watch => collection,
            Verb::Create | Verb::DeleteCollection => collection && !everywhere,
            Verb::Get | Verb::Update | Verb::Patch => !collection,
            Verb::Delete => !collection && subresource.is_none(),
            Verb::Other(_) => false,
        };
        if !served {
            return Err(Status::method_not_allowed());
        }
        Ok(Self { resource: Arc::clone(resource), subresource })
    }
}

#[cfg(test)]
pub(crate) mod tests;
