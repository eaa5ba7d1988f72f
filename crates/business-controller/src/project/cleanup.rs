//! The end of a project: its children first.

use crate::context::Context;
use crate::error::{Error, Failure};
use crate::events::Level;
use crate::objects::{NamespaceView, ProjectView, View};
use crate::outcome::Outcome;
use business_types::names;
use futures_util::{StreamExt as _, stream};
use std::sync::Arc;
use std::time::Duration;

/// Children whose deletion is begun at a time.
const PARALLEL: usize = 16;
/// Latest time to look again at children that should tell of themselves.
const RECHECK: Duration = Duration::from_secs(30);
/// Children asked for in the last look.
const LAST_LOOK: u32 = 100;

/// Begins the deletion of all children, and lets the project go when none is left.
pub async fn run(
    cx: &Context,
    object: &ProjectView,
    (namespaces, children): (&[Arc<NamespaceView>], &[Arc<ProjectView>]),
) -> Result<Outcome, Error> {
    if !object.spec.finalizers.iter().any(|token| token == names::PROJECT_FINALIZER) {
        return Ok(Outcome::Skipped);
    }
    cx.fence.permit()?;
    if !namespaces.is_empty() || !children.is_empty() {
        delete_all(cx, namespaces).await?;
        delete_all(cx, children).await?;
        return Ok(Outcome::WaitingFor(RECHECK));
    }
    // What is held in memory may be behind: the last look is at the server's own state.
    let left: Vec<_> =
        cx.business.some_namespaces(&object.name, LAST_LOOK).await?.into_iter().map(Arc::new).collect();
    let left_children: Vec<_> =
        cx.business.some_children(&object.name, LAST_LOOK).await?.into_iter().map(Arc::new).collect();
    if !left.is_empty() || !left_children.is_empty() {
        delete_all(cx, &left).await?;
        delete_all(cx, &left_children).await?;
        return Ok(Outcome::WaitingFor(Duration::from_secs(1)));
    }
    let tokens: Vec<String> =
        object.spec.finalizers.iter().filter(|token| *token != names::PROJECT_FINALIZER).cloned().collect();
    cx.business.finalize(object, &tokens).await?;
    cx.events.report(
        object,
        Level::Normal,
        ("Deleted", "Delete"),
        "the project and its children are gone".to_owned(),
    );
    Ok(Outcome::Applied)
}

async fn delete_all<S, T>(cx: &Context, objects: &[Arc<View<S, T>>]) -> Result<(), Failure>
where
    S: Send + Sync,
    T: Send + Sync,
{
    let mut calls = Vec::new();
    for object in objects.iter().filter(|object| !object.deleting) {
        let object = Arc::clone(object);
        calls.push(async move { cx.business.delete(&*object).await });
    }
    let mut ended = stream::iter(calls).buffer_unordered(PARALLEL);
    let mut result = Ok(());
    while let Some(call) = ended.next().await {
        result = result.and(call);
    }
    result
}
