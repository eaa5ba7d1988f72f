//! The lineage of a project: the project and all projects above it.

use crate::strategy::{internal_decode_error, project_key};
use apiserver::View;
use business_types::ProjectSpec;
use business_types::project::LEVELS_MAX;
use meta::status::Status;
use std::collections::HashSet;

/// The specs of a project and of those above it, the nearest first; at most [`LEVELS_MAX`].
pub async fn of(view: View<'_>, project: &str) -> Result<Vec<ProjectSpec>, Status> {
    // Read the newest state: somebody who was removed a moment ago must get nothing.
    let view = view.unfiltered().latest();
    let mut lineage: Vec<ProjectSpec> = Vec::new();
    let mut visited = HashSet::new();
    let mut next = project.to_owned();
    while let Some(key) = project_key(&next).filter(|_| lineage.len() < LEVELS_MAX) {
        if !visited.insert(std::mem::take(&mut next)) {
            break;
        }
        let Some(found) = view.object(&key).await? else { break };
        let spec = ProjectSpec::of(&found).map_err(internal_decode_error)?;
        if lineage.first().is_some_and(|first| first.tenant_id != spec.tenant_id) {
            break;
        }
        next.clone_from(&spec.parent_project_name);
        lineage.push(spec);
    }
    Ok(lineage)
}
