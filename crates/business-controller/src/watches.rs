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
use crate::error::watch_error_text;
use crate::kinds::{ChangeSource, View};
use crate::member::watch_health::WatchHealth;
use futures_util::StreamExt as _;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Objects in one page of a list.
const PAGE: u32 = 500;
/// Objects that could not be watched for so long are listed again: a change is seen late, which is better than not at
/// all. By then the API server has forgotten what a watch would go on from.
const WATCH_PATIENCE: Duration = Duration::from_mins(6);

/// Watches the objects of one kind for ever.
pub async fn follow<C: Controller>(cx: Arc<Context>) {
    follow_api::<C>(&cx, cx.business.api_all::<C>()).await;
}

async fn follow_api<C: Controller>(cx: &Context, api: Api<DynamicObject>) {
    let (cache, health) = (C::cache(&cx.objects), WatchHealth::new());
    let config = Config::default().page_size(PAGE);
    let begin = move || watcher(api.clone(), config.clone()).default_backoff().boxed();
    let mut stream = begin();
    while let Some(event) = stream.next().await {
        health.observe("ours", &event);
        match event {
            Ok(Event::Init) => cache.begin_list(),
            Ok(Event::InitApply(object)) => upsert::<C>(cx, object, ChangeSource::List),
            Ok(Event::Apply(object)) => upsert::<C>(cx, object, ChangeSource::WatchEvent),
            Ok(Event::Delete(object)) => {
                let Some(object) = deleted::<C>(object) else { continue };
                if let Some(change) = cache.remove(&object) {
                    C::changed(cx, &change);
                }
            }
            Ok(Event::InitDone) => {
                for change in cache.end_list() {
                    C::changed(cx, &change);
                }
                cx.audit_wanted.notify_one();
            }
            Err(error) => {
                let text = watch_error_text(&error);
                tracing::warn!(object.kind = C::KIND, error = text, "watch of our kinds failed");
                let is_unwatched = matches!(error, Error::WatchStartFailed(_));
                if is_unwatched && health.lasting_failure(WATCH_PATIENCE).is_some() {
                    tracing::error!(
                        object.kind = C::KIND,
                        "our objects cannot be watched: they are listed again"
                    );
                    stream = begin();
                }
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

/// A deleted object. Only its metadata counts: a newer API server may have written the rest in a way that is not known
/// here.
fn deleted<C: Controller>(object: DynamicObject) -> Option<View<C>> {
    decoded(DynamicObject { data: Value::Null, ..object })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::ResponseLimits;
    use crate::fixtures::world::World;
    use crate::kinds::{Kind as _, ObjectKey as _, RootKey};
    use crate::tenant::kind::BusinessTenant;
    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::body::Bytes;
    use kube::Client;
    use kube::client::{Body, ClientBuilder};
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::timeout;

    #[test]
    fn an_object_goes_although_it_was_written_in_a_way_that_is_not_known() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "Tenant",
            "metadata": { "name": "t", "uid": "u", "resourceVersion": "7" }, "spec": "text", "status": [],
        }))
        .unwrap();
        assert_eq!(decoded::<BusinessTenant>(object.clone()), None);
        let gone = deleted::<BusinessTenant>(object).unwrap();
        assert_eq!((gone.key.name(), &*gone.uid, &*gone.resource_version), ("t", "u", "7"));
    }

    /// An API that refuses watches. Each of its lists has one more object.
    fn unwatched() -> Client {
        let lists = Arc::new(AtomicUsize::default());
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
            let (code, answer): (u16, _) = if is_watch {
                let refused = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                    "reason": "Forbidden", "message": "watches are not allowed" });
                (403, refused)
            } else {
                let tenant =
                    |number| json!({ "metadata": { "name": format!("t{number}"), "resourceVersion": "7" } });
                let items: Vec<_> = (0..=lists.fetch_add(1, Ordering::SeqCst)).map(tenant).collect();
                let metadata = json!({ "resourceVersion": "7" });
                (200, json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items }))
            };
            let answer = Full::new(Bytes::from(answer.to_string()));
            std::future::ready(Response::builder().status(code).body(answer))
        });
        ClientBuilder::new(service, "default").with_layer(&ResponseLimits::default()).build()
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_watched_is_listed_again() {
        let world = World::new();
        let api = Api::all_with(unwatched(), &BusinessTenant::resource());
        let following = follow_api::<BusinessTenant>(&world.cx, api);
        assert!(timeout(WATCH_PATIENCE * 4, following).await.is_err());
        for name in ["t0", "t1"] {
            assert!(world.cx.objects.tenants.get(&RootKey::new(None, name)).is_some(), "{name}");
        }
    }
}
