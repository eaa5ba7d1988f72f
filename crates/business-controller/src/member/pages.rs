//! Lists and watches of a member cluster. Whoever may write into one namespace chooses how large his objects are there: what is too
//! large together is read in smaller pages, so that nobody keeps all others' objects from being seen.

use crate::error::is_too_much;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

/// Between an event that was too large and the list that tells of it: somebody may cause one event after the other.
const PAUSE: Duration = Duration::from_secs(10);

/// Before smaller pages are asked for.
const HALVED_PAUSE: Duration = Duration::from_secs(1);

/// Follows the objects of a kind in a cluster for ever, at first by pages of so many. A page that is too large is not told as
/// a failure unless it holds one object. After an event that is too large everything is listed anew: the watch would come to the
/// same event again and again.
pub(super) fn follow<K>(
    cluster: &str,
    api: Api<K>,
    config: Config,
    page: u32,
) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let cluster = cluster.to_owned();
    let url = api.resource_url().to_owned();
    let begin = move |page| watcher(api.clone(), config.clone().page_size(page)).default_backoff().boxed();
    let first = (begin(page), page);
    let step = move |(mut events, mut page): (BoxStream<'static, _>, u32)| {
        let (cluster, url, begin) = (cluster.clone(), url.clone(), begin.clone());
        async move {
            loop {
                let event = events.next().await?;
                match &event {
                    Err(failure @ watcher::Error::InitialListFailed(_))
                        if page > 1 && is_too_much(failure) =>
                    {
                        page /= 2;
                        tracing::info!(cluster, url, page, "a page of a list is too large: smaller ones");
                        // What was too much together with pages of others has ended by then.
                        tokio::time::sleep(HALVED_PAUSE).await;
                        events = begin(page);
                    }
                    Err(failure @ watcher::Error::WatchFailed(_)) if is_too_much(failure) => {
                        let listed = begin(page);
                        events = tokio::time::sleep(PAUSE).map(move |()| listed).flatten_stream().boxed();
                        return Some((event, (events, page)));
                    }
                    _ => return Some((event, (events, page))),
                }
            }
        }
    };
    stream::unfold(first, step).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::Bounds;
    use http::{Request, Response, Uri};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use k8s_openapi::api::rbac::v1::RoleBinding;
    use kube::Client;
    use kube::client::{Body, ClientBuilder};
    use serde_json::{Value, json};
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    const MIB: usize = 1 << 20;

    /// What it was asked for: limits of lists, and 0 for watches.
    type Asked = Arc<Mutex<Vec<usize>>>;

    fn binding(name: usize, size: usize) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {
                "name": format!("b{name}"), "namespace": "n", "resourceVersion": "7",
                "annotations": { "a": "{".repeat(size) },
            },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        })
    }

    fn number(uri: &Uri, name: &str) -> Option<usize> {
        let mut pairs = uri.query().unwrap_or_default().split('&');
        pairs.find_map(|pair| pair.strip_prefix(name)?.parse().ok())
    }

    fn page(uri: &Uri, sizes: &[usize]) -> Value {
        let from = number(uri, "continue=").unwrap_or_default();
        let until = (from + number(uri, "limit=").unwrap()).min(sizes.len());
        let items: Vec<Value> = (from..until).map(|name| binding(name, sizes[name])).collect();
        let next = if until < sizes.len() { until.to_string() } else { String::new() };
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBindingList",
            "metadata": { "resourceVersion": "7", "continue": next }, "items": items,
        })
    }

    /// A cluster with bindings of such sizes, and the one that its first watch tells of.
    fn cluster(sizes: &'static [usize], event: usize) -> (Client, Asked) {
        let asked = Asked::default();
        let seen = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
            let mut asked = seen.lock().unwrap();
            let is_first = !asked.contains(&0);
            asked.push(if is_watch { 0 } else { number(request.uri(), "limit=").unwrap() });
            let said = if !is_watch {
                page(request.uri(), sizes).to_string()
            } else if is_first && event > 0 {
                json!({ "type": "ADDED", "object": binding(9, event) }).to_string()
            } else {
                String::new()
            };
            let said = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(said)))]);
            let said = if is_watch { said.chain(stream::pending()).boxed() } else { said.boxed() };
            std::future::ready(Response::builder().body(StreamBody::new(said)))
        });
        (ClientBuilder::new(service, "default").with_layer(&Bounds::default()).build(), asked)
    }

    /// What is told, until nothing more comes.
    async fn told(client: Client, page: u32) -> Vec<&'static str> {
        let mut events = follow("c1", Api::<RoleBinding>::all(client), Config::default(), page);
        let mut told = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(PAUSE * 2, events.next()).await {
            told.push(match event {
                Ok(Event::Init) => "begin",
                Ok(Event::InitApply(_)) => "listed",
                Ok(Event::InitDone) => "end",
                Ok(_) => "event",
                Err(_) => "failure",
            });
        }
        told
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_large_together_is_listed_in_smaller_pages() {
        let (client, asked) = cluster(&[12 * MIB; 3], 0);
        assert_eq!(told(client, 8).await, ["begin", "begin", "begin", "listed", "listed", "listed", "end"]);
        // Eight and four of them would be all three.
        assert_eq!(*asked.lock().unwrap(), [8, 4, 2, 2, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_too_large_is_listed() {
        let (client, asked) = cluster(&[13 * MIB], 13 * MIB);
        assert_eq!(told(client, 2).await, ["begin", "listed", "end", "failure", "begin", "listed", "end"]);
        assert_eq!(*asked.lock().unwrap(), [2, 0, 2, 0]);
    }
}
