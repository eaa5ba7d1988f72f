//! The watches of our own kinds.
//!
//! | what changes | who looks again |
//! |---|---|
//! | a project | the project; its parent, and the one before, when what they are charged changes; the namespaces in it and below it, when who has a role changes |
//! | a namespace | the namespace; its project, when what it is charged changes |
//! | an emigration | the emigration |
//! | a tenant | the tenant; the clusters on which its ceilings change; its namespaces, when its administrators do |
//! | a member cluster | itself; its namespaces, when it knows people by other names |
//! | an image namespace or chart group | itself; its project, when what it is charged changes |
//! | a namespace, quota or binding of a member cluster | the namespace that it belongs to (`member::session`) |
//! | a member cluster answers again, or no more | all namespaces in it, and its object |

use crate::context::Context;
use crate::controller::Controller;
use crate::kinds::{ChangeSource, View};
use futures_util::{StreamExt as _, pin_mut};
use kube::api::DynamicObject;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt as _, watcher};
use std::sync::Arc;

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Watches the objects of one kind for ever.
pub async fn follow<C: Controller>(cx: Arc<Context>) {
    let cache = C::cache(&cx.objects);
    let config = Config::default().page_size(PAGE);
    let stream = watcher(cx.business.api_all::<C>(), config).default_backoff();
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => cache.begin_list(),
            Ok(Event::InitApply(object)) => upsert::<C>(&cx, object, ChangeSource::List),
            Ok(Event::Apply(object)) => upsert::<C>(&cx, object, ChangeSource::WatchEvent),
            Ok(Event::Delete(object)) => {
                let Some(object) = decoded::<C>(object) else { continue };
                if let Some(change) = cache.remove(&object) {
                    C::changed(&cx, &change);
                }
            }
            Ok(Event::InitDone) => {
                for change in cache.end_list() {
                    C::changed(&cx, &change);
                }
                cx.audit_wanted.notify_one();
            }
            Err(error) => {
                tracing::warn!(error = crate::error::watch_error_text(&error), "watch of our kinds failed");
            }
        }
    }
}

fn upsert<C: Controller>(cx: &Context, object: DynamicObject, source: ChangeSource) {
    if let Some(object) = decoded::<C>(object)
        && let Some(change) = C::cache(&cx.objects).upsert(object, source)
    {
        C::changed(cx, &change);
    }
}

/// An object that does not match its schema is skipped until it changes.
fn decoded<C: Controller>(object: DynamicObject) -> Option<View<C>> {
    let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone());
    match View::decode(object) {
        Ok(view) => Some(view),
        Err(error) => {
            let error = crate::error::chain(&error);
            tracing::error!(
                object.kind = C::KIND,
                object.namespace = namespace,
                object.name = name,
                error,
                "cannot read an object"
            );
            None
        }
    }
}
