//! Every watch on our own kinds, and whom a change wakes.
//!
//! | what changes | who looks again |
//! |---|---|
//! | a project | the project; its parent, and the one before, when what they are charged changes |
//! | a namespace | the namespace; its project, when what it is charged changes |
//! | a namespace or quota of a member cluster | the namespace that it belongs to (`member::session`) |
//! | a member cluster answers again, or no more | all namespaces in it |

use crate::context::Context;
use crate::objects::{Change, Kind, NamespaceView, ProjectView, View};
use crate::queue::Lane;
use futures_util::{StreamExt as _, pin_mut};
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// Objects a page of a list.
const PAGE: u32 = 500;

/// Follows the projects.
pub async fn projects(cx: Arc<Context>) {
    follow(cx.business.projects(), &cx, project_changed).await;
}

/// Follows the namespaces.
pub async fn namespaces(cx: Arc<Context>) {
    follow(cx.business.all_namespaces(), &cx, namespace_changed).await;
}

async fn follow<S, T>(api: Api<DynamicObject>, cx: &Context, changed: fn(&Context, &Change<View<S, T>>))
where
    S: DeserializeOwned + Default + Send + Sync + 'static,
    T: DeserializeOwned + Default + Send + Sync + 'static,
    View<S, T>: Kind,
{
    let config = Config::default().page_size(PAGE);
    let stream = watcher(api, config).default_backoff();
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => View::<S, T>::list_begins(&cx.objects),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let Some(object) = decoded::<S, T>(object) else { continue };
                if let Some(change) = View::seen(&cx.objects, object, true) {
                    changed(cx, &change);
                }
            }
            Ok(Event::Delete(object)) => {
                let Some(object) = decoded::<S, T>(object) else { continue };
                if let Some(change) = View::gone(&cx.objects, &object) {
                    changed(cx, &change);
                }
            }
            Ok(Event::InitDone) => {
                for change in View::<S, T>::list_ends(&cx.objects) {
                    changed(cx, &change);
                }
                cx.relisted.notify_one();
            }
            Err(error) => tracing::warn!(error = crate::error::of_watch(&error), "watch of our kinds failed"),
        }
    }
}

/// An object that is not what its schema says is passed over: it awaits a change.
fn decoded<S, T>(object: DynamicObject) -> Option<View<S, T>>
where
    S: DeserializeOwned + Default,
    T: DeserializeOwned + Default,
{
    let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone());
    match View::decode(object) {
        Ok(view) => Some(view),
        Err(error) => {
            let error = crate::error::chain(&error);
            tracing::error!(object.namespace = namespace, object.name = name, error, "cannot read an object");
            None
        }
    }
}

/// A project is another one than before.
pub fn project_changed(cx: &Context, change: &Change<ProjectView>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if let Some(view) = new.or(old) {
        cx.wake_project(&view.name, Lane::Urgent);
    }
    let charge = |view: &ProjectView| (view.spec.parent_project_name.clone(), view.spec.clusters.clone());
    if old.map(charge) != new.map(charge) {
        for view in [old, new].into_iter().flatten() {
            cx.wake_project(&view.spec.parent_project_name, Lane::Urgent);
        }
    }
}

/// A namespace is another one than before.
pub fn namespace_changed(cx: &Context, change: &Change<NamespaceView>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if let Some(new) = new {
        cx.wake_namespace(new, Lane::Urgent, Duration::ZERO);
    }
    let charge = |view: &NamespaceView| (view.uid.clone(), view.status.cached_spec_hard.clone());
    if old.map(charge) != new.map(charge)
        && let Some(view) = new.or(old)
    {
        cx.wake_project(&view.namespace, Lane::Later);
    }
}
