//! A project and those above it, as the store has them.

use crate::strategy::{project_key, unreadable};
use apiserver::View;
use business_types::ProjectSpec;
use business_types::project::LEVELS_MAX;
use meta::status::Status;
use std::collections::HashSet;

/// The specs of a project and of those above it, the nearest first; at most [`LEVELS_MAX`].
pub async fn of(view: View<'_>, project: &str) -> Result<Vec<ProjectSpec>, Status> {
    // The newest state: somebody who was removed a moment ago gets nothing any more.
    let view = view.unfiltered().latest();
    let mut line: Vec<ProjectSpec> = Vec::new();
    let mut passed = HashSet::new();
    let mut next = project.to_owned();
    while let Some(key) = project_key(&next).filter(|_| line.len() < LEVELS_MAX) {
        if !passed.insert(std::mem::take(&mut next)) {
            break;
        }
        let Some(found) = view.object(&key).await? else { break };
        let spec = ProjectSpec::of(&found).map_err(unreadable)?;
        if line.first().is_some_and(|first| first.tenant_id != spec.tenant_id) {
            break;
        }
        next.clone_from(&spec.parent_project_name);
        line.push(spec);
    }
    Ok(line)
}
