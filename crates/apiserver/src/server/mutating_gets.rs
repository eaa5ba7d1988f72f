use crate::request::{ResourceRequest, Verb};
use crate::resource::Resource;
use crate::subresource::SubresourceKind;
use std::sync::Arc;

/// The subresources whose GET changes something; see `SubresourceHandler::acts_on_get`.
#[derive(Clone, Debug, Default)]
pub(crate) struct MutatingGets(Vec<MutatingGet>);

#[derive(Clone, Debug)]
struct MutatingGet {
    resource: Arc<Resource>,
    name: &'static str,
}

impl MutatingGets {
    pub(crate) fn of(resources: &[Arc<Resource>]) -> Self {
        let mut mutating = Vec::new();
        for resource in resources {
            for subresource in resource.subresources() {
                if let SubresourceKind::Handler(handler) = &subresource.kind
                    && handler.acts_on_get()
                {
                    mutating.push(MutatingGet { resource: Arc::clone(resource), name: subresource.name });
                }
            }
        }
        Self(mutating)
    }

    /// Whether a request is a GET of such a subresource.
    pub(crate) fn contains(&self, request: &ResourceRequest) -> bool {
        request.verb == Verb::Get
            && !request.subresource.is_empty()
            && self.0.iter().any(|mutating| {
                let gvk = &mutating.resource.gvk;
                mutating.name == request.subresource
                    && mutating.resource.plural == request.resource
                    && gvk.group == request.group
                    && gvk.version == request.version
            })
    }
}
