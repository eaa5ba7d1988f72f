use super::body::{StreamResources, Streams};
use super::entry_point::EntryPoint;
use super::request_body::{RequestBody, UnreadBodies};
use super::request_record::RequestRecord;
use super::websocket::{self, Upgrade, UpgradedSession};
use super::{Handler, ServerShared};
use crate::audit::{self, AUDIT_ID};
use crate::authn::Authenticated;
use crate::authn::impersonation::Impersonation;
use crate::authn::outcome::AuthnError;
use crate::authz::{AuthorizationAttributes, AuthorizationRequest, RouteAccess};
use crate::caller::{Caller, Via};
use crate::context::RequestContext;
use crate::dialect::Dialect;
use crate::flow::{Class, InFlightPermit, stream_permits};
use crate::request::{RequestInfo, query};
use crate::response::status_response;
use crate::stream_authorization::{AuthorizationInputs, StreamAuthorization};
use crate::tls::Peer;
use axum::body::Body;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use meta::status::Status;
use runtime::telemetry::{RequestIds, in_request};
use runtime::trace::{self, RootSpan};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::Visibility;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a request may take that is not a stream. `?timeout=` can only shorten it.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Seconds after which a client may retry that was rejected by an in-flight limit.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
/// The message when a credential could not be checked.
const CREDENTIAL_NOT_CHECKED: &str = "nobody can say now whether this credential holds";

/// What the requests of a connection share.
pub(super) struct ConnectionContext {
    pub(super) entry_point: Arc<EntryPoint>,
    pub(super) peer: Arc<Peer>,
    pub(super) upgraded_session: UpgradedSession,
    pub(super) streams: Streams,
    pub(super) unread_bodies: Arc<UnreadBodies>,
}

/// A response from a step before the handler.
type EarlyResponse = Response<Body>;

/// Answers a request, in the order of `DefaultBuildHandlerChain`: request id, panic guard, RequestInfo, deadline,
/// authentication, impersonation (with a permit of the authenticated caller), in-flight limit, authorization, handler;
/// then metrics and the audit log.
pub(super) async fn serve<H: Handler>(
    shared: Arc<ServerShared<H>>,
    connection: Arc<ConnectionContext>,
    request: Request<Incoming>,
) -> Response<Body> {
    let ConnectionContext { entry_point, peer, .. } = &*connection;
    let (audit_id, audit_header) = audit::id(request.headers());
    let http1 = request.version() < Version::HTTP_2;
    let uri = request.uri().clone();
    let mut record =
        RequestRecord::start(&request, audit_id, peer.address, &shared.metrics, &shared.settings.tracer);
    let scope = record.trace.as_ref().map(RootSpan::scope);
    let ids = RequestIds {
        audit_id: Arc::clone(&record.audit_id),
        trace_id: record.trace.as_ref().map(RootSpan::trace_id),
    };
    let outcome = {
        let request = request.map(|body| {
            if http1 { Body::new(body) } else { Body::new(RequestBody::new(body, &connection.unread_bodies)) }
        });
        let answered = in_request(ids, answer(&shared, &connection, request, &mut record));
        let answered = pin!(AssertUnwindSafe(answered).catch_unwind());
        match scope {
            None => answered.await,
            Some(scope) => scope.run(answered).await,
        }
    };
    let mut response = match outcome {
        Ok(Ok(response) | Err(response)) => response,
        Err(_panic) => {
            shared.metrics.panics.inc();
            shared.metrics.record_termination("panic");
            tracing::error!(audit_id = &*record.audit_id, path = uri.path(), "a request panicked");
            let text = "This request caused apiserver to panic. Look in the logs for details.";
            status_response(&Status::internal(text), &HeaderMap::new(), &uri)
        }
    };
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_header);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    entry_point.filter_response(headers);
    if http1 && shared.stopping.load(Ordering::Relaxed) && !headers.contains_key(header::UPGRADE) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    record.finish(&response);
    response
}

async fn answer<H: Handler>(
    shared: &Arc<ServerShared<H>>,
    connection: &ConnectionContext,
    mut request: Request<Body>,
    record: &mut RequestRecord,
) -> Result<Response<Body>, EarlyResponse> {
    let ConnectionContext { entry_point, peer, .. } = connection;
    let parsed = RequestInfo::parse(request.method(), request.uri());
    let deadline = record.started + timeout(&request)?;
    entry_point.filter_request(&mut request)?;

    let dialect = parsed.as_ref().ok().and_then(|info| entry_point.routes.dialect(info));
    let dialect = dialect.as_deref();
    let refused = |status: &Status, to: &Request<Body>| refusal(dialect, status, to.headers(), to.uri());
    let uri = request.uri().clone();
    let ignores_credentials = parsed.as_ref().is_ok_and(|info| entry_point.ignores_credentials(info));
    let authenticated = authenticate(shared, peer, &mut request, dialect, ignores_credentials);
    let authenticated = trace::span("authentication", authenticated).await;
    let authenticated = authenticated.map_err(|error| refused(&unauthenticated(&error, peer), &request))?;
    record.set_caller(&authenticated.caller);
    if authenticated.caller.is_known() {
        peer.set_caller(&authenticated.caller);
    }
    let info = parsed.map_err(|status| failure(&status, &request))?;
    let Requirements { class, access, reads_store } = Requirements::of(shared, entry_point, &info);
    record.set_request(&info, class);
    let impersonation = Impersonation::take(request.headers_mut());
    let impersonation = impersonation.map_err(|status| failure(&status, &request))?;
    let mut effective = EffectiveCaller { caller: Arc::clone(&authenticated.caller), rights: Vec::new() };
    if let Some(impersonation) = impersonation {
        // The reviews of an impersonation count against the limit of the authenticated caller.
        let _permit = acquire_permit(shared, impersonation_class(class), &authenticated.caller)?;
        let pending = impersonate(shared, &authenticated.caller, impersonation);
        let pending = with_deadline(shared, deadline, trace::span("impersonation", pending));
        let impersonated = Box::pin(pending).await;
        effective = impersonated.map_err(|status| failure(&status, &request))?;
        record.impersonated = Some(Arc::clone(&effective.caller));
    }
    let permit = acquire_permit(shared, class, &effective.caller)?;

    let is_stream = class == Class::Stream;
    let changes = if is_stream { shared.authorization.changes(&effective.caller) } else { None };
    let attributes = AuthorizationAttributes { caller: effective.caller, info };
    let authorization_request = AuthorizationRequest { attributes, access, reads_store };
    let admitted = trace::span("authorization", shared.authorization.admit(&authorization_request));
    let proof =
        with_deadline(shared, deadline, admitted).await.map_err(|status| refused(&status, &request))?;
    record.set_authorized();

    let stream_authorization = is_stream.then(|| {
        let (impersonation, request) = (effective.rights, authorization_request.clone());
        let inputs = AuthorizationInputs { authenticated, impersonation, request };
        let visibility = proof.visibility().clone();
        Box::new(stream_authorization(shared, peer, inputs, visibility, changes))
    });
    let AuthorizationAttributes { caller, info } = authorization_request.attributes;
    let mut context = RequestContext {
        authorization: Some(Arc::clone(&shared.authorization)),
        authenticator: Some(Arc::clone(&shared.authenticator)),
        audit_id: Arc::clone(&record.audit_id),
        stream_authorization,
        ..RequestContext::new(info, caller, proof, deadline)
    };
    let upgrade = upgrade(&mut request, &context, is_stream)?;
    let reply = handle(shared, entry_point, &mut context, request).map(Ok);
    let reply = if is_stream { reply.await } else { with_deadline(shared, deadline, reply).await };
    record.outcome = context.outcome.take();
    let response = reply.map_err(|status| refusal(dialect, &status, &HeaderMap::new(), &uri))?;
    let response = hold_permit(shared, connection, &context.info, permit, response, is_stream);
    Ok(complete_upgrade(shared, connection, &context.caller, upgrade, response))
}

fn stream_authorization<H>(
    shared: &ServerShared<H>,
    peer: &Arc<Peer>,
    inputs: AuthorizationInputs,
    visibility: Visibility,
    changes: Option<watch::Receiver<u64>>,
) -> StreamAuthorization {
    StreamAuthorization {
        authenticator: Arc::clone(&shared.authenticator),
        authorization: Arc::clone(&shared.authorization),
        peer: Arc::clone(peer),
        inputs: shared.authorization_inputs.share(inputs),
        visibility,
        every: shared.settings.recheck_every,
        changes,
    }
}

/// Upgrades the connection if the client has requested it and the watch has started. Afterwards the connection serves
/// this caller alone.
fn complete_upgrade<H>(
    shared: &ServerShared<H>,
    ConnectionContext { peer, upgraded_session, .. }: &ConnectionContext,
    caller: &Caller,
    upgrade: Option<Box<Upgrade>>,
    response: Response<Body>,
) -> Response<Body> {
    match upgrade {
        Some(upgrade) if response.status() == StatusCode::OK => {
            peer.note_upgrade(caller);
            upgrade.accept(response, upgraded_session, shared.draining.clone())
        }
        _ => response,
    }
}

/// Authenticates the caller, unless the route ignores credentials.
async fn authenticate<H>(
    shared: &ServerShared<H>,
    peer: &Peer,
    request: &mut Request<Body>,
    dialect: Option<&dyn Dialect>,
    ignores_credentials: bool,
) -> Result<Authenticated, AuthnError> {
    if ignores_credentials {
        return Ok(shared.authenticator.anonymous());
    }
    let uri = request.uri().clone();
    shared.authenticator.authenticate(peer, request.headers_mut(), uri.path(), dialect).await
}

/// Holds the permit until a streamed response ends. For a response in one piece the permit is released at once.
fn hold_permit<H>(
    shared: &ServerShared<H>,
    connection: &ConnectionContext,
    info: &RequestInfo,
    permit: Option<InFlightPermit>,
    response: Response<Body>,
    is_stream: bool,
) -> Response<Body> {
    match permit {
        Some(permit) if http_body::Body::size_hint(response.body()).exact().is_none() => {
            let resources = StreamResources {
                permit,
                is_finite: !is_stream,
                events: shared.metrics.watch_events(info),
                metrics: Arc::clone(&shared.metrics),
            };
            response.map(|body| connection.streams.wrap(body, resources))
        }
        _ => response,
    }
}

/// How a request is limited and authorized.
struct Requirements {
    class: Class,
    access: RouteAccess,
    reads_store: bool,
}

impl Requirements {
    fn of<H>(shared: &ServerShared<H>, entry_point: &EntryPoint, info: &RequestInfo) -> Self {
        match info {
            RequestInfo::Resource(request) => {
                let class =
                    if shared.mutating_gets.contains(request) { Class::Write } else { request.class() };
                Self { class, access: RouteAccess::Authorized, reads_store: true }
            }
            RequestInfo::Path(request) => {
                let access = entry_point.routes.access(&request.path);
                match entry_point.routes.find(&request.path) {
                    Some(route) => Self { class: route.class, access, reads_store: route.reads_store },
                    // It counts as a read, because each path that a client makes up may cost a review.
                    None if access == RouteAccess::Authorized => {
                        Self { class: Class::Read, access, reads_store: false }
                    }
                    None => Self { class: Class::Exempt, access, reads_store: false },
                }
            }
        }
    }
}

/// The caller in whose name a request is made.
struct EffectiveCaller {
    caller: Arc<Caller>,
    /// The rights by which the authenticated caller impersonates this one; empty if he is this one himself.
    rights: Vec<RequestInfo>,
}

async fn handle<H: Handler>(
    shared: &Arc<ServerShared<H>>,
    entry_point: &EntryPoint,
    context: &mut RequestContext,
    request: Request<Body>,
) -> Response<Body> {
    match &context.info {
        RequestInfo::Resource(_) => shared.handler.handle(context, request).await,
        RequestInfo::Path(_) => entry_point.routes.answer(context, request).await,
    }
}

/// The request for an upgrade to a WebSocket, if there is one.
fn upgrade(
    request: &mut Request<Body>,
    context: &RequestContext,
    is_stream: bool,
) -> Result<Option<Box<Upgrade>>, EarlyResponse> {
    let is_watch = is_stream && context.info.resource().is_some();
    if !is_watch {
        return Ok(None);
    }
    Upgrade::from_request(request, &context.caller).map_err(|status| {
        let mut refused = failure(&status, request);
        refused.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, websocket::VERSION);
        refused
    })
}

/// The result of a step, or a timeout. Not an `async fn`, whose future would contain that of the step twice.
fn with_deadline<H, T>(
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

/// The timeout of a request.
fn timeout(request: &Request<Body>) -> Result<Duration, EarlyResponse> {
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("timeout") {
        return Ok(REQUEST_TIMEOUT);
    }
    match query::first(query, "timeout") {
        None => Ok(REQUEST_TIMEOUT),
        Some(text) if text.is_empty() => Ok(REQUEST_TIMEOUT),
        Some(text) => match query::go_duration(&text) {
            Some(Duration::ZERO) => Ok(REQUEST_TIMEOUT),
            Some(requested) => Ok(requested.min(REQUEST_TIMEOUT)),
            None => {
                let status = Status::bad_request("invalid timeout specified in the request URL");
                Err(failure(&status, request))
            }
        },
    }
}

/// Authorizes an impersonation, and returns the impersonated caller. Behind kube-apiserver, impersonation was done
/// before: it removes the headers. A front proxy that sends them has not checked them, so they are refused.
async fn impersonate<H>(
    shared: &ServerShared<H>,
    caller: &Arc<Caller>,
    impersonation: Impersonation,
) -> Result<EffectiveCaller, Status> {
    if caller.via == Via::FrontProxy {
        let text = "impersonation is not served behind a front proxy: ask it, not us";
        return Err(Status::failure(403, "Forbidden", format!("forbidden: {text}")));
    }
    let rights: Vec<RequestInfo> = impersonation.rights().into_iter().map(RequestInfo::from).collect();
    for right in &rights {
        let attributes = AuthorizationAttributes { caller: Arc::clone(caller), info: right.clone() };
        shared.authorization.may_impersonate(&attributes).await?;
    }
    let impersonated =
        shared.authenticator.impersonated_caller(impersonation).map_err(Status::bad_request)?;
    tracing::debug!(user = caller.name, impersonated = impersonated.name, "acting as somebody else");
    Ok(EffectiveCaller { caller: impersonated, rights })
}

/// The class in which the reviews of an impersonation count. They are no stream, and never exempt.
fn impersonation_class(class: Class) -> Class {
    match class {
        Class::Write => Class::Write,
        Class::Exempt | Class::Read | Class::Stream => Class::Read,
    }
}

/// A permit for a request; `None` for an exempt one, which needs none.
fn acquire_permit<H>(
    shared: &ServerShared<H>,
    class: Class,
    caller: &Caller,
) -> Result<Option<InFlightPermit>, EarlyResponse> {
    let (limiter, what, permits) = match class {
        Class::Exempt => return Ok(None),
        Class::Read => (&shared.reads, "reads", 1),
        Class::Write => (&shared.writes, "writes", 1),
        Class::Stream => (&shared.watches, "watches", stream_permits(caller)),
    };
    let priority = shared.authorization.priority_level(caller);
    if let Some(permit) = limiter.try_acquire_many(caller, priority, permits) {
        return Ok(Some(permit));
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
        // Not a 401: logging in again would not help.
        AuthnError::Unavailable(_) => Status::unavailable(CREDENTIAL_NOT_CHECKED, 1),
        AuthnError::Invalid(_) => Status::unauthorized(),
    }
}

/// A refusal in the protocol of the route.
fn refusal(dialect: Option<&dyn Dialect>, status: &Status, headers: &HeaderMap, uri: &Uri) -> Response<Body> {
    match dialect {
        Some(dialect) => dialect.refusal(status),
        None => status_response(status, headers, uri),
    }
}

/// A failure before the handler, in the media type that the request accepts.
fn failure(status: &Status, request: &Request<Body>) -> Response<Body> {
    status_response(status, request.headers(), request.uri())
}
