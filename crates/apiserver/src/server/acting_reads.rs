use crate::request::{ResourceRequest, Verb};
use crate::resource::Resource;
use crate::subresource::SubresourceKind;
use std::sync::Arc;

/// Subresources whose GET does something, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActingReads(Vec<ActingSubresource>);

#[derive(Clone, Debug)]
struct ActingSubresource {
    resource: Arc<Resource>,
    name: &'static str,
}

impl ActingReads {
    pub(crate) fn of(resources: &[Arc<Resource>]) -> Self {
        let mut acting = Vec::new();
        for resource in resources {
            for subresource in resource.subresources() {
                if let SubresourceKind::Handler(handler) = &subresource.kind
                    && handler.acts_on_get()
                {
                    acting.push(ActingSubresource { resource: Arc::clone(resource), name: subresource.name });
                }
            }
        }
        Self(acting)
    }

    /// Whether a request is one of these reads.
    pub(crate) fn has(&self, asked: &ResourceRequest) -> bool {
        asked.verb == Verb::Get
            && !asked.subresource.is_empty()
            && self.0.iter().any(|acting| {
                let gvk = &acting.resource.gvk;
                acting.name == asked.subresource
                    && acting.resource.plural == asked.resource
                    && gvk.group == asked.group
                    && gvk.version == asked.version
            })
    }
}
