use super::body::Streamed;
use super::trail::Trail;
use super::websocket::{self, Afterwards, Upgrade};
use super::{Handler, Shared, endpoints};
use crate::audit::{self, AUDIT_ID};
use crate::authn::impersonation::Wanted;
use crate::authn::{Caller, Via};
use crate::authz::{Attributes, MASTERS};
use crate::dispatch::RequestContext;
use crate::flow::Place;
use crate::request::{RequestInfo, query};
use crate::response::status_response;
use crate::tls::Peer;
use axum::body::Body;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header};
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

/// The longest a request may take that is no watch; `?timeout=` can only shorten it.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Seconds after which somebody who found no room may come back.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// An answer before the handler's turn.
type Refused = Response<Body>;

/// Answers a request, in the order of `DefaultBuildHandlerChain`: request id, panic guard, RequestInfo, deadline,
/// authentication, impersonation, room, authorization, handler; then metrics and the audit log.
pub(super) async fn serve<H: Handler>(
    shared: Arc<Shared<H>>,
    peer: Arc<Peer>,
    afterwards: Arc<Afterwards>,
    request: Request<Incoming>,
) -> Response<Body> {
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
        let answered = answer(&shared, &peer, request.map(Body::new), &mut trail).instrument(span);
        let answered = pin!(AssertUnwindSafe(answered).catch_unwind());
        match at {
            None => answered.await,
            Some(at) => at.run(answered).await,
        }
    };
    let mut response = match outcome {
        Ok(Ok(mut response)) => match response.extensions_mut().remove::<Upgrade>() {
            Some(upgrade) => upgrade.accept(response, &afterwards, shared.draining.clone()),
            None => response,
        },
        Ok(Err(refused)) => refused,
        Err(_panic) => {
            shared.metrics.panics.inc();
            shared.metrics.terminated("panic");
            tracing::error!(audit_id = &*trail.audit_id, path = uri.path(), "a request panicked");
            let text = "This request caused apiserver to panic. Look in the logs for details.";
            status_response(&Status::internal(text), &HeaderMap::new(), &uri)
        }
    };
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_header);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    if http1 && shared.stopping.load(Ordering::Relaxed) && !headers.contains_key(header::UPGRADE) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    trail.answered(&response);
    response
}

async fn answer<H: Handler>(
    shared: &Arc<Shared<H>>,
    peer: &Peer,
    mut request: Request<Body>,
    trail: &mut Trail,
) -> Result<Response<Body>, Refused> {
    let parsed = RequestInfo::parse(request.method(), request.uri());
    let deadline = trail.started + timeout(&request)?;

    let authenticated = shared.authenticator.authenticate(peer, request.headers_mut());
    let mut caller = match trace::span("authentication", authenticated).await {
        Ok(caller) => caller,
        Err(error) => {
            tracing::debug!(peer = %peer.address, %error, "authentication failed");
            return Err(failure(&Status::unauthorized(), &request));
        }
    };
    trail.authenticated(&caller);
    let info = Arc::new(parsed.map_err(|status| failure(&status, &request))?);
    trail.info = Some(Arc::clone(&info));
    let wanted = Wanted::take(request.headers_mut()).map_err(|status| failure(&status, &request))?;
    if let Some(wanted) = wanted {
        let assumed = trace::span("impersonation", impersonate(shared, &caller, wanted));
        caller = within(shared, deadline, assumed).await.map_err(|status| failure(&status, &request))?;
        trail.impersonated = Some(Arc::clone(&caller));
    }
    let place = enter(shared, &info, &caller)?;
    let attributes = Attributes { caller, info: Arc::clone(&info) };
    let asked = trace::span("authorization", shared.authorization.authorize(&attributes));
    let access = within(shared, deadline, asked).await.map_err(|status| failure(&status, &request))?;
    trail.authorized();

    let uri = request.uri().clone();
    let Attributes { caller, .. } = attributes;
    let audit_id = Arc::clone(&trail.audit_id);
    let context = RequestContext { info: Arc::clone(&info), caller, access, deadline, audit_id };
    let handled = handle(shared, context, request);
    let response = if info.is_long_running() {
        handled.await?
    } else {
        let handled = within(shared, deadline, handled.map(Ok)).await;
        handled.map_err(|status| status_response(&status, &HeaderMap::new(), &uri))??
    };
    Ok(match place {
        Some(place) if http_body::Body::size_hint(response.body()).exact().is_none() => {
            let events = shared.metrics.watch_events(&info);
            response.map(|body| Streamed::wrap(body, place, events, Arc::clone(&shared.metrics)))
        }
        _ => response,
    })
}

/// The server's own paths, and the handler.
async fn handle<H: Handler>(
    shared: &Arc<Shared<H>>,
    context: RequestContext,
    mut request: Request<Body>,
) -> Result<Response<Body>, Refused> {
    let RequestContext { info, caller, .. } = &context;
    if let Some(response) = endpoints::answer(shared, info, &request) {
        return Ok(response);
    }
    let upgrade = Upgrade::asked(&mut request, info, caller).map_err(|status| {
        let mut refused = failure(&status, &request);
        refused.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, websocket::VERSION);
        refused
    })?;
    // A write may turn out to need another right: an apply that creates, a strategy's own.
    if info.is_write() {
        request.extensions_mut().insert(Arc::clone(&shared.authorization));
    }
    let mut response = shared.handler.handle(context, request).await;
    if let Some(upgrade) = upgrade
        && response.status() == StatusCode::OK
    {
        response.extensions_mut().insert(upgrade);
    }
    Ok(response)
}

/// What a step says, or that the time is over. Not an `async fn`: that would have room for the step twice.
fn within<H, T>(
    shared: &Shared<H>,
    deadline: Instant,
    step: impl Future<Output = Result<T, Status>>,
) -> impl Future<Output = Result<T, Status>> {
    tokio::time::timeout_at(deadline, step).map(|outcome| {
        outcome.unwrap_or_else(|_elapsed| {
            shared.metrics.terminated("timeout");
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

/// The caller as whom a caller acts, if he may. kube-apiserver has done this before it forwards, and takes the
/// headers out: a front proxy that sends them has looked at nothing, and who it names stays who asks.
async fn impersonate<H>(
    shared: &Shared<H>,
    caller: &Arc<Caller>,
    wanted: Wanted,
) -> Result<Arc<Caller>, Status> {
    if caller.via == Via::FrontProxy {
        let text = "impersonation is not served behind a front proxy: ask it, not us";
        return Err(Status::failure(403, "Forbidden", format!("forbidden: {text}")));
    }
    for right in wanted.rights() {
        let attributes = Attributes { caller: Arc::clone(caller), info: Arc::new(right) };
        shared.authorization.may_impersonate(&attributes).await?;
    }
    let assumed = shared.authenticator.assume(wanted).map_err(Status::bad_request)?;
    tracing::debug!(user = caller.name, impersonated = assumed.name, "acting as somebody else");
    Ok(assumed)
}

/// A place among the requests under way; the server's own endpoints need none.
fn enter<H>(shared: &Shared<H>, info: &RequestInfo, caller: &Caller) -> Result<Option<Place>, Refused> {
    let lane = if info.is_long_running() {
        &shared.watches
    } else if info.is_write() {
        &shared.writes
    } else if info.is_resource {
        &shared.reads
    } else {
        return Ok(None);
    };
    if let Some(place) = lane.enter(&caller.name, caller.in_group(MASTERS)) {
        return Ok(Some(place));
    }
    shared.metrics.terminated("too many");
    let mut response = Response::new(Body::from("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Err(response)
}

/// A failure before the handler's turn, in the form that the request asks for.
fn failure(status: &Status, request: &Request<Body>) -> Response<Body> {
    status_response(status, request.headers(), request.uri())
}
