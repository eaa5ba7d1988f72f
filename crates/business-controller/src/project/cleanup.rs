//! The end of a project: deletes its children first.

use super::kind::{BusinessProject, ProjectView};
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::events::Topic;
use crate::kinds::{Kind, ObjectKey as _, View, without_finalizer};
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::outcome::PassOutcome;
use crate::registry::kind::{BusinessChartGroup, BusinessImageNamespace};
use business_types::{HeldAmount, Orphan, ProjectStatus, names};
use futures_util::{StreamExt as _, stream};
use std::sync::Arc;
use std::time::Duration;

/// Calls under way at a time.
const PARALLEL: usize = 16;
/// Children that one pass deletes. Passes over projects, tenants, templates and clusters share their places: one that
/// deletes ten thousand would keep those of others waiting.
const DELETED_MAX: usize = if cfg!(test) { 4 } else { 1_000 };
/// The requeue while more children are to be deleted, or appear.
const SOON: Duration = Duration::from_secs(1);
/// Safety requeue for children that should cause events.
const RECHECK: Duration = Duration::from_secs(30);
/// How many children of each kind the final list reads.
const LIST_LIMIT: u32 = 100;

const DELETED: Topic = Topic::normal("Deleted", "Delete");

/// The direct children of a project.
#[derive(Clone, Debug, Default)]
pub struct Children {
    pub namespaces: Vec<Arc<NamespaceView>>,
    pub image_namespaces: Vec<Arc<View<BusinessImageNamespace>>>,
    pub chart_groups: Vec<Arc<View<BusinessChartGroup>>>,
    pub projects: Vec<Arc<ProjectView>>,
}

impl Children {
    pub fn count(&self) -> usize {
        let Self { namespaces, image_namespaces, chart_groups, projects } = self;
        [namespaces.len(), image_namespaces.len(), chart_groups.len(), projects.len()].iter().sum()
    }

    /// Deletes as many as one pass may. Returns when to look at them again.
    async fn delete(&self, cx: &Context) -> Result<Duration, CallFailure> {
        let room = delete_some(cx, &self.namespaces, DELETED_MAX).await?;
        let room = delete_some(cx, &self.image_namespaces, room).await?;
        let room = delete_some(cx, &self.chart_groups, room).await?;
        let room = delete_some(cx, &self.projects, room).await?;
        Ok(if room == 0 { SOON } else { RECHECK })
    }
}

/// Deletes all children, and finalizes the project when none is left.
pub async fn run(cx: &Context, object: &ProjectView, children: &Children) -> Result<PassOutcome, Error> {
    let Some(tokens) = without_finalizer(&object.spec.finalizers, names::PROJECT_FINALIZER) else {
        return Ok(PassOutcome::Skipped);
    };
    cx.fleet().permit()?;
    if children.count() > 0 {
        return Ok(PassOutcome::WaitingFor(children.delete(cx).await?));
    }
    // The caches may be behind, so the API is asked last.
    let left = list_children(cx, object.key.name()).await?;
    if left.count() > 0 {
        let _look_again = left.delete(cx).await?;
        return Ok(PassOutcome::WaitingFor(SOON));
    }
    if finalize_blocker(&object.status).is_some() {
        return Ok(PassOutcome::WaitingFor(RECHECK));
    }
    cx.business.finalize(object, &tokens).await?;
    cx.events.report(object, DELETED, "the project and its children are gone".to_owned());
    Ok(PassOutcome::Applied)
}

/// What keeps a project without children from being finalized: without it, nobody would know whose that is.
pub fn finalize_blocker(status: &ProjectStatus) -> Option<String> {
    if let Some(held) = status.ledger.held.first() {
        let HeldAmount { uid, state, cluster_name, namespace, .. } = held;
        let more = match status.ledger.held.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(", with {more} more"),
        };
        return Some(format!(
            "{namespace} of cluster {cluster_name} still counts ({state}){more}: it goes when it is unused there, or by \
             business-api audit --write-off {uid}"
        ));
    }
    let orphan = status.orphans.first()?;
    let Orphan { cluster_name, namespace, uid, .. } = orphan;
    Some(format!(
        "{namespace} of cluster {cluster_name} still bears our quota and marks; if the cluster is gone for good: \
         business-api audit --write-off {uid}"
    ))
}

async fn list_children(cx: &Context, project: &str) -> Result<Children, CallFailure> {
    let namespaces = cx.business.list_in_project::<BusinessNamespace>(project, LIST_LIMIT).await?;
    let image_namespaces = cx.business.list_in_project::<BusinessImageNamespace>(project, LIST_LIMIT).await?;
    let chart_groups = cx.business.list_in_project::<BusinessChartGroup>(project, LIST_LIMIT).await?;
    let of_parent = format!("spec.parentProjectName={project}");
    let projects = cx.business.list_by_field::<BusinessProject>(&of_parent, LIST_LIMIT).await?;
    Ok(Children {
        namespaces: namespaces.into_iter().map(Arc::new).collect(),
        image_namespaces: image_namespaces.into_iter().map(Arc::new).collect(),
        chart_groups: chart_groups.into_iter().map(Arc::new).collect(),
        projects: projects.into_iter().map(Arc::new).collect(),
    })
}

/// Deletes as many as there is room for. Returns the room that is left.
async fn delete_some<K: Kind>(
    cx: &Context,
    objects: &[Arc<View<K>>],
    room: usize,
) -> Result<usize, CallFailure> {
    let mut calls = Vec::new();
    for object in objects.iter().filter(|object| !object.is_deleting()).take(room) {
        let object = Arc::clone(object);
        calls.push(async move { cx.business.delete(&*object).await });
    }
    let left = room.saturating_sub(calls.len());
    let mut ended = stream::iter(calls).buffer_unordered(PARALLEL);
    let mut result = Ok(left);
    while let Some(call) = ended.next().await {
        result = call.and(result);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Controller as _;
    use crate::fixtures::PROJECT_UID;
    use crate::fixtures::world::World;
    use crate::kinds::RootKey;
    use serde_json::json;

    #[tokio::test]
    async fn of_many_children_a_pass_deletes_some() {
        let world = World::new();
        let metadata =
            json!({ "name": "p", "uid": PROJECT_UID, "deletionTimestamp": "2026-01-01T00:00:00Z" });
        world.knows_project(
            &json!({ "metadata": metadata, "spec": { "finalizers": ["project"] }, "status": {} }),
        );
        let children: Vec<String> = (0..DELETED_MAX + 2).map(|number| format!("child-{number}")).collect();
        for name in &children {
            let spec = json!({ "parentProjectName": "p" });
            world.knows_project(
                &json!({ "metadata": { "name": name, "uid": name }, "spec": spec, "status": {} }),
            );
        }
        let projects = &world.cx.objects.projects;
        for (deleted, wait) in [(DELETED_MAX, SOON), (2, RECHECK)] {
            world.calls();
            let outcome = BusinessProject::reconcile(&world.cx, &RootKey::new(None, "p")).await.unwrap();
            assert_eq!(outcome, PassOutcome::WaitingFor(wait));
            let calls = world.calls();
            let gone: Vec<&str> = calls.iter().filter_map(|call| call.strip_prefix("DELETE ")).collect();
            assert_eq!(gone.len(), deleted, "{calls:?}");
            for name in gone.iter().filter_map(|path| path.rsplit('/').next()) {
                let child = projects.get(&RootKey::new(None, name)).unwrap();
                projects.remove(&child).unwrap();
            }
        }
    }
}
