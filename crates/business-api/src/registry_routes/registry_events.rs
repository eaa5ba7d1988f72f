//! Takes the registry's notifications of changes (`notifications.endpoints` of its configuration). The controller's
//! regular measurement finds changes that were not reported, except untagged manifests, which the registry does not
//! list. A pushed manifest may be untagged, or lose its tag to the next push before the measurement. So each pushed
//! manifest is stored before the registry is answered. If that fails, the registry sends the notification again.

use super::registry_token::refusal;
use crate::freshness;
use crate::token_server::accounts::{AccountPurpose, RegistryAccount};
use crate::token_server::change_marks::{Marker, PendingMarks};
use crate::token_server::prefix_index::PrefixIndex;
use crate::token_server::scope::Prefix;
use apiserver::RequestContext;
use apiserver::authz::RouteAccess;
use apiserver::dialect::{BasicCredentials, Dialect, Judgement};
use apiserver::flow::Class;
use apiserver::routes::{PathMatch, Route, RouteHandler};
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
/// The largest notification. An event contains a header of the push, escaped to up to six bytes per byte. For a request
/// that the registry accepts that is about 6.5 MB, unless the registry is configured to add a manifest's references.
const BODY_BYTES_MAX: usize = 16 << 20;
/// The media type of blobs in events of distribution.
const BLOB_MEDIA_TYPE: &str = "application/octet-stream";
/// The time limit to read a body. The registry sends it at once; a slow one must not block other requests for longer.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit to catch up with the store. The registry waits 5 s for an answer.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(3);

/// The route and what it depends on.
#[derive(Debug)]
pub struct EventsRoute {
    /// The registry's own account.
    pub account: RegistryAccount,
    /// The owners of repositories, one index per kind.
    pub prefixes: Vec<PrefixIndex>,
    /// The queue of objects to be marked.
    pub pending_marks: PendingMarks,
    /// Writes marks that must be stored before the answer.
    pub marker: Marker,
    /// Counts bodies that could not be decoded.
    pub undecodable: Counter,
    /// Held while a body is read: bodies may be large, and only one is in memory at a time.
    pub body_lock: Mutex<()>,
}

/// The part of `application/vnd.docker.distribution.events.v2+json` that is used here.
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
        (self.action == "push" && media_type != BLOB_MEDIA_TYPE)
            .then(|| ManifestName::new(repository, digest))?
    }
}

impl EventsRoute {
    /// The route.
    pub fn route(self) -> Route {
        let route = Arc::new(self);
        Route {
            path: PATH.to_owned(),
            path_match: PathMatch::Exact,
            methods: &[Method::POST],
            access: RouteAccess::Public,
            reads_store: false,
            class: Class::Read,
            dialect: Some(Arc::<Self>::clone(&route)),
            listed: Vec::new(),
            handler: route,
        }
    }

    async fn receive(&self, cx: &RequestContext, body: Body) -> Result<(), Status> {
        if !AccountPurpose::Events.is_of(&cx.caller) {
            return Err(Status::unauthorized());
        }
        let Some(envelope) = self.read(body).await? else { return Ok(()) };
        if !self.prefixes.iter().all(PrefixIndex::is_complete) {
            return Err(Status::unavailable("it is not known yet whose the repositories are", 1));
        }
        freshness::check_roles(&self.marker.store)?;
        let events: Vec<&Event> = envelope.events.iter().filter(|event| event.action != "pull").collect();
        let has_no_owner = |event: &&Event| {
            Prefix::of(&event.target.repository).is_some_and(|prefix| self.owners(prefix).next().is_none())
        };
        if events.iter().any(has_no_owner) {
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
                // So repeated pushes of the same manifests do not each wait for a write.
                if self.marker.is_recorded(&owner, manifests).await
                    && self.pending_marks.add(&owner, manifests)
                {
                    continue;
                }
                let stored = self.marker.record(&owner, manifests).await;
                stored.map_err(|error| Status::unavailable(error.to_string(), 1))?;
            }
        }
        for owner in changed.into_iter().flat_map(|prefix| self.owners(prefix)) {
            // If there is no room, the next regular measurement sees the change.
            self.pending_marks.add(&owner, &BTreeSet::new());
        }
        Ok(())
    }

    /// Reads a notification. `None` if it cannot be decoded: it is acknowledged, because after an error the registry
    /// would send it again for ever, and nothing else.
    async fn read(&self, body: Body) -> Result<Option<Envelope>, Status> {
        let _guard = self.body_lock.lock().await;
        let why = match timeout(READ_TIMEOUT, read_body(body)).await {
            Ok(Ok(Some(bytes))) => match serde_json::from_slice(&bytes) {
                Ok(envelope) => return Ok(Some(envelope)),
                Err(error) => error.to_string(),
            },
            Ok(Ok(None)) => format!("more than {BODY_BYTES_MAX} bytes"),
            Ok(Err(error)) => return Err(Status::bad_request(error.to_string())),
            Err(_elapsed) => return Err(Status::unavailable("the events have not come within 10 s", 1)),
        };
        tracing::error!(
            %why,
            "what the registry tells cannot be read: changes of its content are seen late, or not at all"
        );
        self.undecodable.inc();
        Ok(None)
    }

    /// Waits until the indices have the newest state of the store: another replica may just have created the object.
    async fn catch_up(&self) -> Result<(), Status> {
        let known = async {
            let revision = self.marker.store.current_revision().await?;
            for index in &self.prefixes {
                index.reach(revision).await;
            }
            Ok::<(), Error>(())
        };
        match timeout(CATCH_UP_TIMEOUT, known).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Status::unavailable(error.to_string(), 1)),
            Err(_elapsed) => Err(Status::unavailable("it is not known yet whose the repositories are", 1)),
        }
    }

    fn owners<'a>(&'a self, prefix: Prefix<'a>) -> impl Iterator<Item = Key> + 'a {
        self.prefixes.iter().filter_map(move |index| index.owner(prefix))
    }
}

/// Reads a body; `None` if it is too long. Such a body is read to its end, too: a client that cannot send all of it
/// would not read the answer.
async fn read_body(mut body: Body) -> Result<Option<Vec<u8>>, axum::Error> {
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

impl RouteHandler for EventsRoute {
    fn answer<'a>(
        &'a self,
        cx: &'a mut RequestContext,
        request: Request<Body>,
    ) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            match self.receive(cx, request.into_body()).await {
                Ok(()) => StatusCode::OK.into_response(),
                Err(status) => refusal(&status),
            }
        })
    }
}

impl Dialect for EventsRoute {
    fn judge<'a>(&'a self, basic: &'a BasicCredentials) -> BoxFuture<'a, Judgement> {
        let caller = self.account.caller(basic).map(Box::new);
        std::future::ready(caller.map_or(Judgement::Wrong("not the registry's"), Judgement::Known)).boxed()
    }

    fn refusal(&self, status: &Status) -> Response<Body> {
        refusal(status)
    }
}
