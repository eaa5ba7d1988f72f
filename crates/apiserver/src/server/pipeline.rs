use super::body::{Kept, Streams};
use super::door::Door;
use super::trail::Trail;
use super::websocket::{self, Afterwards, Upgrade};
use super::{Handler, ServerShared};
use crate::audit::{self, AUDIT_ID};
use crate::authn::Authenticated;
use crate::authn::impersonation::Impersonation;
use crate::authn::outcome::AuthnError;
use crate::authz::{Attributes, AuthorizationRequest, RouteAccess};
use crate::caller::{Caller, Via};
use crate::context::RequestContext;
use crate::dialect::Dialect;
use crate::flow::{Class, InFlightPermit};
use crate::request::{RequestInfo, query};
use crate::response::status_response;
use crate::stream_authorization::{AuthorizationInputs, StreamAuthorization};
use crate::tls::Peer;
use axum::body::Body;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use meta::status::Status;
use runtime::trace::{self, Root};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument;

/// The longest time of a request that is not a watch; `?timeout=` can only shorten it.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Seconds after which a caller who found no room may come back.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
/// Whoever could judge a credential does not answer.
const UNJUDGED: &str = "nobody can say now whether this credential holds";

/// A connection, by which requests come.
pub(super) struct Connected {
    pub(super) door: Arc<Door>,
    pub(super) peer: Arc<Peer>,
    pub(super) afterwards: Afterwards,
    pub(super) streams: Streams,
}

/// An answer before the handler's turn.
type Refused = Response<Body>;

/// Answers a request, in the order of `DefaultBuildHandlerChain`: request id, panic guard, RequestInfo, deadline,
/// authentication, impersonation (within the room of who was authenticated), room, authorization, handler; then metrics
/// and the audit log.
pub(super) async fn serve<H: Handler>(
    shared: Arc<ServerShared<H>>,
    connected: Arc<Connected>,
    request: Request<Incoming>,
) -> Response<Body> {
    let Connected { door, peer, .. } = &*connected;
    let (audit_id, audit_header) = audit::id(request.headers());
    let http1 = request.version() < Version::HTTP_2;
    let uri = request.uri().clone();
    let mut trail = Trail::begin(&request, audit_id, peer.address, &shared.metrics, &shared.settings.tracer);
    let at = trail.trace.as_ref().map(Root::at);
    let span = match &trail.trace {
        None => tracing::info_span!("request", audit_id = &*trail.audit_id),
        Some(trace) => {
            tracing::info_span!("request", audit_id = &*trail.audit_id, trace_id = trace.trace_id())
        }
    };
    let outcome = {
        let request = request.map(Body::new);
        let answered = answer(&shared, &connected, request, &mut trail).instrument(span);
        let answered = pin!(AssertUnwindSafe(answered).catch_unwind());
        match at {
            None => answered.await,
            Some(at) => at.run(answered).await,
        }
    };
    let mut response = match outcome {
        Ok(Ok(response) | Err(response)) => response,
        Err(_panic) => {
            shared.metrics.panics.inc();
            shared.metrics.record_termination("panic");
            tracing::error!(audit_id = &*trail.audit_id, path = uri.path(), "a request panicked");
            let text = "This request caused apiserver to panic. Look in the logs for details.";
            status_response(&Status::internal(text), &HeaderMap::new(), &uri)
        }
    };
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_header);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    door.leave(headers);
    if http1 && shared.stopping.load(Ordering::Relaxed) && !headers.contains_key(header::UPGRADE) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    trail.answered(&response);
    response
}

async fn answer<H: Handler>(
    shared: &Arc<ServerShared<H>>,
    connected: &Connected,
    mut request: Request<Body>,
    trail: &mut Trail,
) -> Result<Response<Body>, Refused> {
    let Connected { door, peer, .. } = connected;
    let parsed = RequestInfo::parse(request.method(), request.uri());
    let deadline = trail.started + timeout(&request)?;
    door.enter(&mut request)?;

    let dialect = parsed.as_ref().ok().and_then(|info| door.routes.dialect(info));
    let dialect = dialect.as_deref();
    let refused = |status: &Status, to: &Request<Body>| refusal(dialect, status, to.headers(), to.uri());
    let uri = request.uri().clone();
    let is_unasked = parsed.as_ref().is_ok_and(|info| door.is_unasked(info));
    let authenticated = authenticate(shared, peer, &mut request, dialect, is_unasked);
    let authenticated = match trace::span("authentication", authenticated).await {
        Ok(authenticated) => authenticated,
        Err(error) => return Err(refused(&unauthenticated(&error, peer), &request)),
    };
    trail.authenticated(&authenticated.caller);
    if authenticated.caller.is_known() {
        peer.set_caller(&authenticated.caller);
    }
    let info = parsed.map_err(|status| failure(&status, &request))?;
    let entrance = Entrance::of(shared, door, &info);
    trail.asked(&info, entrance.class);
    let wanted = Impersonation::take(request.headers_mut()).map_err(|status| failure(&status, &request))?;
    let mut acting = Acting { caller: Arc::clone(&authenticated.caller), rights: Vec::new() };
    if let Some(wanted) = wanted {
        // The reviews of the impersonation take room of the caller himself, whatever he then does as somebody else.
        let _asking = enter(shared, asking(entrance.class), &authenticated.caller)?;
        let assumed = trace::span("impersonation", impersonate(shared, &authenticated.caller, wanted));
        let assumed = Box::pin(within(shared, deadline, assumed)).await;
        acting = assumed.map_err(|status| failure(&status, &request))?;
        trail.impersonated = Some(Arc::clone(&acting.caller));
    }
    let place = enter(shared, entrance.class, &acting.caller)?;

    let is_stream = entrance.class == Class::Stream;
    let changes = if is_stream { shared.authorization.changes(&acting.caller) } else { None };
    let attributes = Attributes { caller: acting.caller, info };
    let authorization_request =
        AuthorizationRequest { attributes, access: entrance.access, reads_store: entrance.reads_store };
    let asked = trace::span("authorization", shared.authorization.admit(&authorization_request));
    let access = within(shared, deadline, asked).await.map_err(|status| refused(&status, &request))?;
    trail.authorized();

    let stream_authorization = is_stream.then(|| {
        Box::new(StreamAuthorization {
            authenticator: Arc::clone(&shared.authenticator),
            authorization: Arc::clone(&shared.authorization),
            peer: Arc::clone(peer),
            inputs: shared.authorization_inputs.share(AuthorizationInputs {
                authenticated,
                impersonation: acting.rights,
                request: authorization_request.clone(),
            }),
            visibility: access.visibility().clone(),
            every: shared.settings.recheck_every,
            changes,
        })
    });
    let Attributes { caller, info } = authorization_request.attributes;
    let mut context = RequestContext {
        authorization: Some(Arc::clone(&shared.authorization)),
        authenticator: Some(Arc::clone(&shared.authenticator)),
        audit_id: Arc::clone(&trail.audit_id),
        stream_authorization,
        ..RequestContext::new(info, caller, access, deadline)
    };
    let upgrade = upgrade(&mut request, &context, is_stream)?;
    let handled = handle(shared, door, &mut context, request);
    let handled = if is_stream { Ok(handled.await) } else { within(shared, deadline, handled.map(Ok)).await };
    trail.outcome = context.outcome.take();
    let response = handled.map_err(|status| refusal(dialect, &status, &HeaderMap::new(), &uri))?;
    let response = keep_place(shared, connected, &context.info, place, response, is_stream);
    Ok(handed_over(shared, connected, &context.caller, upgrade, response))
}

/// A watch that was answered goes on over its WebSocket, which is its caller's alone.
fn handed_over<H>(
    shared: &ServerShared<H>,
    Connected { peer, afterwards, .. }: &Connected,
    caller: &Caller,
    upgrade: Option<Box<Upgrade>>,
    response: Response<Body>,
) -> Response<Body> {
    match upgrade {
        Some(upgrade) if response.status() == StatusCode::OK => {
            peer.note_upgrade(caller);
            upgrade.accept(response, afterwards, shared.draining.clone())
        }
        _ => response,
    }
}

/// The caller; without a look at credentials if the path is open to all.
async fn authenticate<H>(
    shared: &ServerShared<H>,
    peer: &Peer,
    request: &mut Request<Body>,
    dialect: Option<&dyn Dialect>,
    is_unasked: bool,
) -> Result<Authenticated, AuthnError> {
    if is_unasked {
        return Ok(shared.authenticator.anonymous());
    }
    let uri = request.uri().clone();
    shared.authenticator.authenticate(peer, request.headers_mut(), uri.path(), dialect).await
}

/// A stream keeps its place as long as it lasts; an answer in one piece gives it up at once.
fn keep_place<H>(
    shared: &ServerShared<H>,
    connected: &Connected,
    info: &RequestInfo,
    place: Option<InFlightPermit>,
    response: Response<Body>,
    is_stream: bool,
) -> Response<Body> {
    match place {
        Some(place) if http_body::Body::size_hint(response.body()).exact().is_none() => {
            let kept = Kept {
                place,
                ends: !is_stream,
                events: shared.metrics.watch_events(info),
                metrics: Arc::clone(&shared.metrics),
            };
            response.map(|body| connected.streams.wrap(body, kept))
        }
        _ => response,
    }
}

/// How a request gets in.
struct Entrance {
    class: Class,
    access: RouteAccess,
    reads_store: bool,
}

impl Entrance {
    fn of<H>(shared: &ServerShared<H>, door: &Door, info: &RequestInfo) -> Self {
        match info {
            RequestInfo::Resource(asked) => {
                let class = if shared.acting_reads.has(asked) { Class::Write } else { asked.class() };
                Self { class, access: RouteAccess::Authorized, reads_store: true }
            }
            RequestInfo::Path(asked) => {
                let access = door.routes.access(&asked.path);
                match door.routes.find(&asked.path) {
                    Some(route) => Self { class: route.class, access, reads_store: route.reads_store },
                    // It takes a place, for each path that somebody makes up costs a review.
                    None if access == RouteAccess::Authorized => {
                        Self { class: Class::Read, access, reads_store: false }
                    }
                    None => Self { class: Class::Exempt, access, reads_store: false },
                }
            }
        }
    }
}

/// The caller as whom a request acts.
struct Acting {
    caller: Arc<Caller>,
    /// The rights by which the authenticated caller acts as this one; none if he is this one.
    rights: Vec<RequestInfo>,
}

async fn handle<H: Handler>(
    shared: &Arc<ServerShared<H>>,
    door: &Door,
    context: &mut RequestContext,
    request: Request<Body>,
) -> Response<Body> {
    match &context.info {
        RequestInfo::Resource(_) => shared.handler.handle(context, request).await,
        RequestInfo::Path(_) => door.routes.answer(context, request).await,
    }
}

/// The request to go on over a WebSocket, if there is one.
fn upgrade(
    request: &mut Request<Body>,
    context: &RequestContext,
    is_stream: bool,
) -> Result<Option<Box<Upgrade>>, Refused> {
    let is_watch = is_stream && context.info.resource().is_some();
    if !is_watch {
        return Ok(None);
    }
    Upgrade::asked(request, &context.caller).map_err(|status| {
        let mut refused = failure(&status, request);
        refused.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, websocket::VERSION);
        refused
    })
}

/// The result of a step, or that the time is over. Not an `async fn`, which would have room for the step twice.
fn within<H, T>(
    shared: &ServerShared<H>,
    deadline: Instant,
    step: impl Future<Output = Result<T, Status>>,
) -> impl Future<Output = Result<T, Status>> {
    tokio::time::timeout_at(deadline, step).map(|outcome| {
        outcome.unwrap_or_else(|_elapsed| {
            shared.metrics.record_termination("timeout");
            Err(Status::timeout("request did not complete within the allotted timeout", 0))
        })
    })
}

/// The time that a request is given.
fn timeout(request: &Request<Body>) -> Result<Duration, Refused> {
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("timeout") {
        return Ok(REQUEST_TIMEOUT);
    }
    match query::first(query, "timeout") {
        None => Ok(REQUEST_TIMEOUT),
        Some(text) if text.is_empty() => Ok(REQUEST_TIMEOUT),
        Some(text) => match query::go_duration(&text) {
            Some(Duration::ZERO) => Ok(REQUEST_TIMEOUT),
            Some(asked) => Ok(asked.min(REQUEST_TIMEOUT)),
            None => {
                let status = Status::bad_request("invalid timeout specified in the request URL");
                Err(failure(&status, request))
            }
        },
    }
}

/// The caller as whom a caller acts, if he may. kube-apiserver does this before it forwards, and removes the headers.
/// A front proxy that sends them has not checked anything: the caller that it names remains the one who asks.
async fn impersonate<H>(
    shared: &ServerShared<H>,
    caller: &Arc<Caller>,
    wanted: Impersonation,
) -> Result<Acting, Status> {
    if caller.via == Via::FrontProxy {
        let text = "impersonation is not served behind a front proxy: ask it, not us";
        return Err(Status::failure(403, "Forbidden", format!("forbidden: {text}")));
    }
    let rights: Vec<RequestInfo> = wanted.rights().into_iter().map(RequestInfo::from).collect();
    for right in &rights {
        let attributes = Attributes { caller: Arc::clone(caller), info: right.clone() };
        shared.authorization.may_impersonate(&attributes).await?;
    }
    let assumed = shared.authenticator.impersonated_caller(wanted).map_err(Status::bad_request)?;
    tracing::debug!(user = caller.name, impersonated = assumed.name, "acting as somebody else");
    Ok(Acting { caller: assumed, rights })
}

/// The class in which the question counts whether somebody may act as another one. It is not a stream, and never
/// exempt.
fn asking(class: Class) -> Class {
    match class {
        Class::Write => Class::Write,
        Class::Exempt | Class::Read | Class::Stream => Class::Read,
    }
}

/// A place among the requests under way; an exempt request needs none.
fn enter<H>(
    shared: &ServerShared<H>,
    class: Class,
    caller: &Caller,
) -> Result<Option<InFlightPermit>, Refused> {
    let (limiter, what) = match class {
        Class::Exempt => return Ok(None),
        Class::Read => (&shared.reads, "reads"),
        Class::Write => (&shared.writes, "writes"),
        Class::Stream => (&shared.watches, "watches"),
    };
    if let Some(place) = limiter.try_acquire(caller, shared.authorization.priority_level(caller)) {
        return Ok(Some(place));
    }
    limiter.log_rejection(caller, what);
    Err(too_many(shared))
}

fn too_many<H>(shared: &ServerShared<H>) -> Response<Body> {
    shared.metrics.record_termination("too many");
    let mut response = Response::new(Body::from("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

fn unauthenticated(error: &AuthnError, peer: &Peer) -> Status {
    tracing::debug!(peer = %peer.address, %error, "authentication failed");
    match error {
        AuthnError::TooManyReviews => Status::too_many_requests(1),
        AuthnError::TrustNotLoaded => Status::unavailable(format!("the server is starting: {error}"), 1),
        // Another login would not help.
        AuthnError::Unavailable(_) => Status::unavailable(UNJUDGED, 1),
        AuthnError::Invalid(_) => Status::unauthorized(),
    }
}

/// A refusal in the words of the route's protocol.
fn refusal(dialect: Option<&dyn Dialect>, status: &Status, headers: &HeaderMap, uri: &Uri) -> Response<Body> {
    match dialect {
        Some(dialect) => dialect.refusal(status),
        None => status_response(status, headers, uri),
    }
}

/// A failure before the handler's turn, in the form that the request asks for.
fn failure(status: &Status, request: &Request<Body>) -> Response<Body> {
    status_response(status, request.headers(), request.uri())
}
