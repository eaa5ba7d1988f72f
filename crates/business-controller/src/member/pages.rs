//! Lists and watches of a member cluster. Whoever may write into one namespace chooses how large the objects there are.
//! A page that is too large is read in smaller pages, so that nobody can prevent the objects of others from being seen.

use crate::error::{CallFailure, chain, is_too_large};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use kube::api::ListParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

/// The pause before a new list after an event that was too large: somebody may cause one such event after the other.
const EVENT_PAUSE: Duration = Duration::from_secs(10);

/// The pause before smaller pages are requested. Until then, pages of others that exceeded the limit together have
/// ended.
const HALVED_PAUSE: Duration = Duration::from_secs(1);

/// How many pages are read before the size that was too large is tried again: each try takes as long as a page, and
/// that pause.
const PAGES_BEFORE_RETRY: u32 = 16;

/// How many objects a page is requested with.
#[derive(Clone, Copy, Debug)]
struct PageSize {
    most: u32,
    now: u32,
}

impl PageSize {
    fn of(most: u32) -> Self {
        Self { most, now: most }
    }

    /// Halves the size if the error is that the page was too large. Returns whether the page is to be requested again.
    fn halve(&mut self, error: &(dyn std::error::Error + 'static)) -> bool {
        let helps = self.now > 1 && is_too_large(error);
        if helps {
            self.now /= 2;
        }
        helps
    }

    /// Doubles the size up to its maximum: large objects were read, or may be gone. Returns whether it has grown.
    fn double(&mut self) -> bool {
        let before = self.now;
        self.now = before.saturating_mul(2).min(self.most);
        self.now > before
    }
}

/// A list that is read once, page by page. After a page that is too large, smaller ones are requested, and after some
/// of these larger ones again: so a few large objects do not slow down the rest, and where all are large few tries
/// fail.
#[derive(Debug)]
pub(crate) struct PagedList {
    size: PageSize,
    /// The continue token of the next page.
    next: Option<String>,
    objects: usize,
    /// Half of the size that was too large last.
    too_large_half: Option<u32>,
    /// How many pages were read since then.
    read: u32,
}

impl PagedList {
    /// A list in pages of so many objects at first.
    pub(crate) fn of(size: u32) -> Self {
        Self { size: PageSize::of(size), next: None, objects: 0, too_large_half: None, read: 0 }
    }

    /// How many objects were read so far.
    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    /// The parameters of the next page.
    pub(crate) fn params(&self) -> ListParams {
        let params = ListParams::default().limit(self.size.now);
        match &self.next {
            Some(token) => params.continue_token(token),
            None => params,
        }
    }

    /// The same as a query.
    pub(crate) fn query(&self) -> String {
        let next = self.next.as_ref().map(|token| format!("&continue={token}")).unwrap_or_default();
        format!("limit={}{next}", self.size.now)
    }

    /// Waits for the call of the next page. `None` if the page is too large and is to be requested again. A single
    /// object that is too large ends the list with an error: no continue token leads behind it.
    pub(crate) async fn read<P>(
        &mut self,
        deadline: Duration,
        call: impl Future<Output = Result<P, kube::Error>>,
    ) -> Result<Option<P>, CallFailure> {
        match tokio::time::timeout(deadline, call).await {
            Ok(Ok(page)) => Ok(Some(page)),
            Ok(Err(error)) if self.size.halve(&error) => {
                (self.too_large_half, self.read) = (Some(self.size.now), 0);
                tokio::time::sleep(HALVED_PAUSE).await;
                Ok(None)
            }
            Ok(Err(error)) if is_too_large(&error) => {
                let number = self.objects.saturating_add(1);
                Err(CallFailure::Unavailable(format!("object {number} of the list: {}", chain(&error))))
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_elapsed) => Err(CallFailure::deadline(deadline)),
        }
    }

    /// Goes on to the next page after one of so many objects. Returns whether there is one.
    pub(crate) fn advance(&mut self, objects: usize, token: Option<String>) -> bool {
        self.objects = self.objects.saturating_add(objects);
        self.next = token.filter(|token| !token.is_empty());
        self.read = self.read.saturating_add(1);
        let was_too_large = self.too_large_half.is_some_and(|half| self.size.now >= half);
        if !was_too_large || self.read >= PAGES_BEFORE_RETRY {
            self.size.double();
        }
        self.next.is_some()
    }
}

/// Watches the objects of a kind in a cluster for ever, at first in pages of so many. A page that is too large is not
/// an error unless it has a single object; the list is repeated with smaller pages, and the next one uses larger pages
/// again. After an event that is too large everything is listed again: a new watch would only deliver the same event.
pub(super) fn watch<K>(
    cluster: &str,
    api: Api<K>,
    config: Config,
    page: u32,
) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let size = PageSize::of(page);
    let events = list_and_watch(&api, &config, size);
    let first = PagedWatch { cluster: cluster.to_owned(), api, config, size, events, is_listed: false };
    stream::unfold(first, PagedWatch::next).boxed()
}

/// A watch whose lists are read in pages.
struct PagedWatch<K> {
    cluster: String,
    api: Api<K>,
    config: Config,
    size: PageSize,
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    /// Whether a list in pages of this size has ended.
    is_listed: bool,
}

impl<K> PagedWatch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn next(mut self) -> Option<(watcher::Result<Event<K>>, Self)> {
        loop {
            let event = self.events.next().await?;
            match &event {
                Err(failure @ watcher::Error::InitialListFailed(_)) if self.size.halve(failure) => {
                    let (cluster, url, page) = (&self.cluster, self.api.resource_url(), self.size.now);
                    tracing::info!(cluster, url, page, "a page of a list is too large: smaller ones");
                    tokio::time::sleep(HALVED_PAUSE).await;
                    self.list_again();
                    continue;
                }
                // No page was requested yet.
                Ok(Event::Init) if self.is_listed && self.size.double() => {
                    self.list_again();
                    continue;
                }
                Ok(Event::InitDone) => self.is_listed = true,
                Err(failure @ watcher::Error::WatchFailed(_)) if is_too_large(failure) => {
                    let listed = list_and_watch(&self.api, &self.config, self.size);
                    let pause = tokio::time::sleep(EVENT_PAUSE);
                    self.events = pause.map(move |()| listed).flatten_stream().boxed();
                }
                _ => {}
            }
            return Some((event, self));
        }
    }

    /// Begins a list in pages of the current size.
    fn list_again(&mut self) {
        self.is_listed = false;
        self.events = list_and_watch(&self.api, &self.config, self.size);
    }
}

fn list_and_watch<K>(
    api: &Api<K>,
    config: &Config,
    size: PageSize,
) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(api.clone(), config.clone().page_size(size.now)).default_backoff().boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::ResponseLimits;
    use crate::error::TooLarge;
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

    /// A binding that weighs a little more than this.
    fn binding(name: usize, size: usize) -> Value {
        // Each with what follows it: four bytes of text, a list and an item.
        let lists = vec![json!([0]); size / (4 * 4 + 128 + 128)];
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {
                "name": format!("b{name}"), "namespace": "n", "resourceVersion": "7",
                "annotations": { "a": "{".repeat(1_000) },
                "managedFields": [{ "fieldsV1": lists }],
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
        (ClientBuilder::new(service, "default").with_layer(&ResponseLimits::default()).build(), asked)
    }

    /// What is told, until nothing more comes.
    async fn told(client: Client, page: u32) -> Vec<&'static str> {
        let mut events = watch("c1", Api::<RoleBinding>::all(client), Config::default(), page);
        let mut told = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(EVENT_PAUSE * 2, events.next()).await {
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
        let (client, asked) = cluster(&[36 * MIB; 3], 0);
        assert_eq!(told(client, 8).await, ["begin", "begin", "begin", "listed", "listed", "listed", "end"]);
        // Eight and four of them would be all three.
        assert_eq!(*asked.lock().unwrap(), [8, 4, 2, 2, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_large_may_have_gone_when_it_is_listed_again() {
        let (client, asked) = cluster(&[36 * MIB; 3], 80 * MIB);
        told(client, 8).await;
        assert_eq!(*asked.lock().unwrap(), [8, 4, 2, 2, 0, 4, 2, 2, 0]);
    }

    /// How many objects of a list are read, and why no more.
    async fn read(client: Client, page: u32) -> (usize, String) {
        let api = Api::<RoleBinding>::all(client);
        let mut pages = PagedList::of(page);
        loop {
            let params = pages.params();
            match pages.read(EVENT_PAUSE, api.list(&params)).await {
                Ok(Some(list)) if pages.advance(list.items.len(), list.metadata.continue_.clone()) => {}
                Ok(Some(_)) => return (pages.objects(), String::new()),
                Ok(None) => {}
                Err(failure) => return (pages.objects(), failure.to_string()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_read_once_is_read_in_smaller_pages_where_it_is_large() {
        let (client, asked) = cluster(&[36 * MIB; 4], 0);
        assert_eq!(read(client, 8).await, (4, String::new()));
        assert_eq!(*asked.lock().unwrap(), [8, 4, 2, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_large_by_itself_is_told_by_its_place() {
        let (client, asked) = cluster(&[1, 97 * MIB], 0);
        let (objects, why) = read(client, 4).await;
        assert!(objects == 1 && why.contains("object 2 of the list"), "{objects}: {why}");
        assert_eq!(*asked.lock().unwrap(), [4, 2, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_size_that_was_too_large_is_asked_for_again_after_many_pages() {
        let too_much = || kube::Error::Service(Box::new(TooLarge { what: "a page", mib: 32 }));
        let (mut pages, mut asked) = (PagedList::of(10), Vec::new());
        for _ in 0..40 {
            let size = pages.size.now;
            asked.push(size);
            let answer = if size > 4 { Err(too_much()) } else { Ok(()) };
            if pages.read(EVENT_PAUSE, std::future::ready(answer)).await.unwrap().is_some() {
                assert!(pages.advance(1, Some("next".to_owned())));
            }
        }
        assert_eq!(asked[..4], [10, 5, 2, 2]);
        let tries: Vec<usize> = (2..40).filter(|at| asked[*at] > 4).collect();
        assert_eq!(tries, [19, 36], "{asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_too_large_is_listed() {
        let (client, asked) = cluster(&[80 * MIB], 80 * MIB);
        assert_eq!(told(client, 2).await, ["begin", "listed", "end", "failure", "begin", "listed", "end"]);
        assert_eq!(*asked.lock().unwrap(), [2, 0, 2, 0]);
    }
}
