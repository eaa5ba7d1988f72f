//! The changes that the registry reports: `notifications.endpoints` of its configuration. The controller's regular
//! measurement finds a change that was not reported, except manifests without a tag, which no list of the registry
//! shows. A manifest that is pushed has no tag, or may have lost it to the next push by then. So each manifest is
//! stored before the registry is answered; if that fails, the registry reports it again.

use super::registry_token::refusal;
use crate::freshness;
use crate::token_server::accounts::{Duty, RegistryAccount};
use crate::token_server::heard::{Heard, Marker};
use crate::token_server::prefixes::Prefixes;
use crate::token_server::scope::Prefix;
use apiserver::RequestContext;
use apiserver::authz::Admits;
use apiserver::dialect::{Basic, Dialect, Judgement};
use apiserver::flow::Class;
use apiserver::routes::{Reach, Route, RouteHandler};
use axum::body::Body;
use axum::response::IntoResponse;
use business_types::registry::ManifestName;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use meta::status::Status;
use prometheus_client::metrics::counter::Counter;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use store::{Error, Key};
use tokio::sync::Mutex;
use tokio::time::timeout;

const PATH: &str = "/registry/events";
/// An event contains a header of the push, with six bytes for one. For a request that the registry accepts that is at
/// most some 6.5 MB, unless the registry is told to add what a manifest refers to.
const BODY_BYTES_MAX: usize = 16 << 20;
/// What distribution calls a blob.
const BLOB: &str = "application/octet-stream";
/// The registry sends a body at once. Other requests wait no longer than this for a slow one.
const READ_MAX: Duration = Duration::from_secs(10);
/// The registry waits 5 s for an answer.
const CATCH_UP_MAX: Duration = Duration::from_secs(3);

/// What the page is made of.
#[derive(Debug)]
pub struct EventsPage {
    /// The registry's own account.
    pub account: RegistryAccount,
    /// Whose the repositories are, by kind.
    pub prefixes: Vec<Prefixes>,
    /// Objects that are to be measured are told here.
    pub heard: Heard,
    /// Stores manifests that nothing else leads to.
    pub marker: Marker,
    /// Bodies that could not be read.
    pub unread: Counter,
    /// Held while a body is read: bodies may be large, and only one is in memory at a time.
    pub reading: Mutex<()>,
}

/// `application/vnd.docker.distribution.events.v2+json`, as far as it is read.
#[derive(Debug, Deserialize)]
struct Envelope {
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(default)]
    action: String,
    #[serde(default)]
    target: EventTarget,
}

#[derive(Debug, Default, Deserialize)]
struct EventTarget {
    #[serde(default)]
    repository: String,
    #[serde(default)]
    digest: String,
    #[serde(default, rename = "mediaType")]
    media_type: String,
}

impl Event {
    fn pushed(&self) -> Option<ManifestName> {
        let EventTarget { repository, digest, media_type } = &self.target;
        (self.action == "push" && media_type != BLOB).then(|| ManifestName::new(repository, digest))?
    }
}

impl EventsPage {
    /// The route.
    pub fn route(self) -> Route {
        let page = Arc::new(self);
        Route {
            path: PATH.to_owned(),
            reach: Reach::Path,
            methods: &[Method::POST],
            admits: Admits::Everybody,
            sees: false,
            class: Class::Read,
            dialect: Some(Arc::<Self>::clone(&page)),
            listed: Vec::new(),
            handler: page,
        }
    }

    async fn take(&self, cx: &RequestContext, body: Body) -> Result<(), Status> {
        if !Duty::Events.is_of(&cx.caller) {
            return Err(Status::unauthorized());
        }
        let Some(envelope) = self.read(body).await? else { return Ok(()) };
        if !self.prefixes.iter().all(Prefixes::is_complete) {
            return Err(Status::unavailable("it is not known yet whose the repositories are", 1));
        }
        freshness::check_roles(&self.marker.store)?;
        let events: Vec<&Event> = envelope.events.iter().filter(|event| event.action != "pull").collect();
        let is_nobodys = |event: &&Event| {
            Prefix::of(&event.target.repository).is_some_and(|prefix| self.owners(prefix).next().is_none())
        };
        let are_nobodys = events.iter().any(is_nobodys);
        if are_nobodys {
            self.catch_up().await?;
        }
        let mut pushed: HashMap<Prefix<'_>, BTreeSet<ManifestName>> = HashMap::new();
        let mut changed: HashSet<Prefix<'_>> = HashSet::new();
        for event in events {
            let Some(prefix) = Prefix::of(&event.target.repository) else { continue };
            match event.pushed() {
                Some(manifest) => drop(pushed.entry(prefix).or_default().insert(manifest)),
                None => drop(changed.insert(prefix)),
            }
        }
        for (prefix, manifests) in &pushed {
            for owner in self.owners(*prefix) {
                // Repeated pushes of the same manifests do not each cause a write that others wait for.
                if self.marker.keeps(&owner, manifests).await && self.heard.tell(&owner, manifests) {
                    continue;
                }
                let stored = self.marker.pushed(&owner, manifests).await;
                stored.map_err(|error| Status::unavailable(error.to_string(), 1))?;
            }
        }
        for owner in changed.into_iter().flat_map(|prefix| self.owners(prefix)) {
            // If there is no room, the next regular measurement sees the change.
            self.heard.tell(&owner, &BTreeSet::new());
        }
        Ok(())
    }

    /// What the registry reports. `None` if it cannot be read: after an error the registry would send it again for
    /// ever, and nothing else.
    async fn read(&self, body: Body) -> Result<Option<Envelope>, Status> {
        let _turn = self.reading.lock().await;
        let why = match timeout(READ_MAX, whole(body)).await {
            Ok(Ok(Some(bytes))) => match serde_json::from_slice(&bytes) {
                Ok(envelope) => return Ok(Some(envelope)),
                Err(error) => error.to_string(),
            },
            Ok(Ok(None)) => format!("more than {BODY_BYTES_MAX} bytes"),
            Ok(Err(error)) => return Err(Status::bad_request(error.to_string())),
            Err(_elapsed) => return Err(Status::unavailable("the events have not come within 10 s", 1)),
        };
        tracing::error!(%why, "what the registry tells cannot be read: changes of its content are seen late, or not at all");
        self.unread.inc();
        Ok(None)
    }

    /// Waits until the newest state of the store is known here: another replica may just have made the object.
    async fn catch_up(&self) -> Result<(), Status> {
        let known = async {
            let revision = self.marker.store.current_revision().await?;
            for prefixes in &self.prefixes {
                prefixes.reach(revision).await;
            }
            Ok::<(), Error>(())
        };
        match timeout(CATCH_UP_MAX, known).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Status::unavailable(error.to_string(), 1)),
            Err(_elapsed) => Err(Status::unavailable("it is not known yet whose the repositories are", 1)),
        }
    }

    fn owners<'a>(&'a self, prefix: Prefix<'a>) -> impl Iterator<Item = Key> + 'a {
        self.prefixes.iter().filter_map(move |prefixes| prefixes.owner(prefix))
    }
}

/// A body; `None` for one that is too long. That is read to its end, too: a client that cannot send it all does not
/// hear the answer.
async fn whole(mut body: Body) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut kept = Some(Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        kept = kept.filter(|bytes: &Vec<u8>| bytes.len().saturating_add(data.len()) <= BODY_BYTES_MAX);
        if let Some(bytes) = &mut kept {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(kept)
}

impl RouteHandler for EventsPage {
    fn answer<'a>(
        &'a self,
        cx: &'a mut RequestContext,
        request: Request<Body>,
    ) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            match self.take(cx, request.into_body()).await {
                Ok(()) => StatusCode::OK.into_response(),
                Err(status) => refusal(&status),
            }
        })
    }
}

impl Dialect for EventsPage {
    fn judge<'a>(&'a self, basic: &'a Basic) -> BoxFuture<'a, Judgement> {
        let caller = self.account.caller(basic).map(Box::new);
        std::future::ready(caller.map_or(Judgement::Wrong("not the registry's"), Judgement::Known)).boxed()
    }

    fn refusal(&self, status: &Status) -> Response<Body> {
        refusal(status)
    }
}
