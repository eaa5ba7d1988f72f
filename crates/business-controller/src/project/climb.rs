//! The way up from a project, as far as it is known, and asked for from there on.

use super::kind::{BusinessProject, ProjectView};
use super::lineage::{Climb, Lineage, LineageEnd};
use crate::context::Context;
use crate::error::CallFailure;
use crate::kinds::{ObjectKey as _, RootKey};
use std::sync::Arc;

/// The way up from a project. A parent that was not seen yet is asked for.
pub async fn lineage_of(cx: &Context, project: Arc<ProjectView>) -> Result<Lineage, CallFailure> {
    let mut way = Lineage { projects: vec![project], end: LineageEnd::Root };
    loop {
        let step = cx.objects.projects.with_index(|views, _| way.climb(|key| views.get(key).cloned()));
        match step {
            Climb::Ended(end) => {
                way.end = end;
                return Ok(way);
            }
            Climb::Unknown(parent) => {
                let key = RootKey::new(None, &parent);
                match cx.business.get::<BusinessProject>(&key).await? {
                    Some(found) if found.spec.tenant_id == way.tenant() => way.projects.push(Arc::new(found)),
                    _ => {
                        way.end = LineageEnd::Missing(parent);
                        return Ok(way);
                    }
                }
            }
        }
    }
}
