//! The ancestor chain of a project, from the cache and the API.

use super::ancestors::{AncestorChain, ChainEnd, ChainStep};
use super::kind::{BusinessProject, ProjectView};
use crate::context::Context;
use crate::error::CallFailure;
use crate::kinds::{ObjectKey as _, RootKey};
use std::sync::Arc;

/// The ancestor chain of a project. Parents that are not in the cache are read from the API.
pub async fn ancestor_chain(cx: &Context, project: Arc<ProjectView>) -> Result<AncestorChain, CallFailure> {
    let mut chain = AncestorChain { projects: vec![project], end: ChainEnd::Root };
    loop {
        let step = cx.objects.projects.with_index(|views, _| chain.extend(|key| views.get(key).cloned()));
        match step {
            ChainStep::Complete(end) => {
                chain.end = end;
                return Ok(chain);
            }
            ChainStep::NotCached(parent) => {
                let key = RootKey::new(None, &parent);
                match cx.business.get::<BusinessProject>(&key).await? {
                    Some(found) if found.spec.tenant_id == chain.tenant() => {
                        chain.projects.push(Arc::new(found));
                    }
                    _ => {
                        chain.end = ChainEnd::Missing(parent);
                        return Ok(chain);
                    }
                }
            }
        }
    }
}
