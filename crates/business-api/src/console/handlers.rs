use super::gate::LoginCookie;
use super::messages::{self, Language, LocalizedText};
use super::provider::{Provider, ProviderError, ProviderTokens};
use super::session::{PendingLogin, Session};
use super::settings::{ConsoleIssuer, Origin, request_origin};
use super::{CALLBACK, Console, cookies, html};
use apiserver::authn::Authenticator;
use apiserver::request::query;
use apiserver::response::status_response;
use apiserver::routes::RouteHandler;
use apiserver::{Caller, RequestContext};
use axum::body::Body;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use meta::status::Status;
use meta::time;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// How long a login may take, in seconds.
const LOGIN_SECONDS: i64 = 600;
/// The page after a login that has requested no other.
const HOME: &str = "/console/";
/// The longest address of a page to which a login returns.
const RETURN_PAGE_BYTES_MAX: usize = 1024;
const RETRY_AFTER_SECONDS: u32 = 2;

/// The handler of one of the console's own paths.
pub(super) struct ConsoleHandler {
    pub(super) console: Arc<Console>,
    pub(super) endpoint: Endpoint,
}

/// The console's own paths.
#[derive(Clone, Copy, Debug)]
pub(super) enum Endpoint {
    Files,
    Config,
    Login,
    Callback,
    Session,
    Refresh,
    Logout,
}

/// A failed login, which is answered with a page.
struct LoginFailure {
    code: StatusCode,
    why: LocalizedText,
    /// Details, in the words of the programs involved.
    detail: String,
    /// The page to which the login was to return.
    page: String,
}

impl LoginFailure {
    fn of(code: StatusCode, why: LocalizedText) -> Self {
        Self { code, why, detail: String::new(), page: HOME.to_owned() }
    }

    fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    fn returning_to(self, page: &str) -> Self {
        Self { page: page.to_owned(), ..self }
    }
}

impl From<ProviderError> for LoginFailure {
    fn from(error: ProviderError) -> Self {
        tracing::warn!(%error, "a login to the console");
        let (code, why, detail) = match error {
            ProviderError::Refused(detail) => (StatusCode::FORBIDDEN, messages::REFUSED, detail),
            ProviderError::Unreachable(detail) => (StatusCode::BAD_GATEWAY, messages::UNREACHABLE, detail),
            ProviderError::Settings(detail) => (StatusCode::BAD_GATEWAY, messages::MISCONFIGURED, detail),
        };
        Self::of(code, why).with_detail(detail)
    }
}

impl From<anyhow::Error> for LoginFailure {
    fn from(error: anyhow::Error) -> Self {
        tracing::warn!("a login to the console: {error:#}");
        Self::of(StatusCode::BAD_REQUEST, messages::UNFINISHED).with_detail(format!("{error:#}"))
    }
}

impl RouteHandler for ConsoleHandler {
    fn answer<'a>(
        &'a self,
        cx: &'a mut RequestContext,
        request: Request<Body>,
    ) -> BoxFuture<'a, Response<Body>> {
        let console = &*self.console;
        let (request, _nobody_reads_it) = request.into_parts();
        Box::pin(async move {
            match self.endpoint {
                Endpoint::Files => console.files.answer(&request).await,
                Endpoint::Config => json_response(&console.config()),
                Endpoint::Login => login_response(console.log_in(cx, &request).await, &request),
                Endpoint::Callback => {
                    clear_login_cookie(login_response(console.callback(cx, &request).await, &request))
                }
                Endpoint::Session => or_status(session(cx, &request), &request),
                Endpoint::Refresh => or_status(console.refresh(cx, &request).await, &request),
                Endpoint::Logout => or_status(console.log_out(cx, &request).await, &request),
            }
        })
    }
}

impl Console {
    fn config(&self) -> Value {
        let issuers = self.issuers.iter().map(|issuer| {
            let ConsoleIssuer { name, display_name, .. } = issuer;
            json!({"name": name, "displayName": display_name})
        });
        json!({
            "issuers": issuers.collect::<Vec<_>>(),
            "version": concat!("v", env!("CARGO_PKG_VERSION")),
        })
    }

    /// Begins a login: redirects the browser to the provider.
    async fn log_in(&self, cx: &RequestContext, request: &Parts) -> Result<Response<Body>, LoginFailure> {
        let page = return_page(&query_parameter(request, "return").unwrap_or_default());
        self.redirect_to_provider(cx, request, &page).await.map_err(|failure| failure.returning_to(&page))
    }

    async fn redirect_to_provider(
        &self,
        cx: &RequestContext,
        request: &Parts,
        page: &str,
    ) -> Result<Response<Body>, LoginFailure> {
        let name = query_parameter(request, "issuer").unwrap_or_default();
        let unknown =
            || LoginFailure::of(StatusCode::NOT_FOUND, messages::NO_SUCH_ISSUER).with_detail(&*name);
        let issuer = self.issuer(&name).ok_or_else(unknown)?;
        let provider = self.provider(cx, issuer).await?;
        let redirect = self.origin(request)?.url(&callback_path(&issuer.name, self.has_one_issuer()));
        let authorization = provider.authorization_request(&redirect)?;
        let login = PendingLogin {
            issuer: issuer.name.clone(),
            state: authorization.state,
            nonce: authorization.nonce,
            verifier: authorization.verifier,
            redirect,
            page: page.to_owned(),
            ends: self.clock.unix_seconds() + LOGIN_SECONDS,
        };
        let location = HeaderValue::try_from(authorization.url).map_err(anyhow::Error::from)?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::FOUND;
        let headers = response.headers_mut();
        headers.insert(header::LOCATION, location);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        cookies::set_login(headers, &login.seal(&self.keys)?, LOGIN_SECONDS)?;
        Ok(response)
    }

    /// The callback from the provider. A request without a login that this browser has begun, or with the answer to
    /// another login, was forged by another site.
    async fn callback(&self, cx: &RequestContext, request: &Parts) -> Result<Response<Body>, LoginFailure> {
        let sealed = request.extensions.get::<LoginCookie>();
        let login =
            sealed.and_then(|LoginCookie(it)| PendingLogin::open(&self.keys, it, self.clock.unix_seconds()));
        let login = login.ok_or_else(|| bad_request(messages::NO_LOGIN))?;
        self.complete_login(cx, request, &login).await.map_err(|failure| failure.returning_to(&login.page))
    }

    async fn complete_login(
        &self,
        cx: &RequestContext,
        request: &Parts,
        login: &PendingLogin,
    ) -> Result<Response<Body>, LoginFailure> {
        let query_parameter = |key: &'static str| query_parameter(request, key);
        if query_parameter("state").as_deref() != Some(login.state.as_str()) {
            return Err(bad_request(messages::ANOTHER_LOGIN));
        }
        let issuer = self.issuer(&login.issuer).ok_or_else(|| bad_request(messages::ISSUER_GONE))?;
        let iss = query_parameter("iss");
        let is_own_path = is_callback_path(cx.info.path(), &issuer.name, self.has_one_issuer());
        if !is_own_path || iss.as_deref().is_some_and(|iss| iss != issuer.issuer) {
            return Err(bad_request(messages::ANOTHER_PROVIDER));
        }
        let provider = self.provider(cx, issuer).await?;
        if iss.is_none() && provider.sends_issuer() {
            return Err(bad_request(messages::NAMELESS));
        }
        if let Some(error) = query_parameter("error") {
            let why = query_parameter("error_description").unwrap_or_default();
            return Err(ProviderError::Refused(format!("{error}: {why}")).into());
        }
        let code = query_parameter("code").ok_or_else(|| bad_request(messages::NO_CODE))?;
        let tokens = provider.redeem(login, &code).await?;
        let caller = self.caller_of_token(cx, &tokens.token).await.map_err(|why| {
            tracing::warn!(issuer = issuer.issuer, why, "a token of the provider is not believed");
            LoginFailure::of(StatusCode::FORBIDDEN, messages::NOT_ACCEPTED)
        })?;
        tracing::info!(audit = true, user = caller.name, issuer = issuer.issuer, "logged in to the console");
        let lifetime = i64::try_from(self.lifetime.as_secs()).unwrap_or(i64::MAX);
        let ends = self.clock.unix_seconds().saturating_add(lifetime);
        let session = new_session(&issuer.name, tokens, ends);
        let mut response = html::redirect_page(&login.page, Language::of(&request.headers));
        self.set_session_cookies(response.headers_mut(), &session)?;
        Ok(response)
    }

    async fn refresh(&self, cx: &RequestContext, request: &Parts) -> Result<Response<Body>, Status> {
        let session = request.extensions.get::<Session>().ok_or_else(Status::unauthorized)?;
        let issuer = self.issuer(&session.issuer).ok_or_else(Status::unauthorized)?;
        let tokens = async { self.provider(cx, issuer).await?.refresh(session).await };
        let tokens = tokens.await.map_err(|error| {
            tracing::info!(%error, issuer = issuer.issuer, "a session of the console is not refreshed");
            match error {
                ProviderError::Refused(_) => Status::unauthorized(),
                other => Status::unavailable(other.to_string(), RETRY_AFTER_SECONDS),
            }
        })?;
        let caller = self.caller_of_token(cx, &tokens.token).await.map_err(|why| {
            tracing::warn!(issuer = issuer.issuer, why, "a token of the provider is not believed");
            Status::unauthorized()
        })?;
        let session = new_session(&issuer.name, tokens, session.ends);
        let mut response = json_response(&session_json(&caller, &session));
        self.set_session_cookies(response.headers_mut(), &session)
            .map_err(|error| Status::internal(format!("{error:#}")))?;
        Ok(response)
    }

    /// Ends the session here, whatever the provider answers.
    async fn log_out(&self, cx: &RequestContext, request: &Parts) -> Result<Response<Body>, Status> {
        let mut location = None;
        if let Some(session) = request.extensions.get::<Session>()
            && let Some(issuer) = self.issuer(&session.issuer)
        {
            location =
                self.end_provider_session(cx, request, issuer, session).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, issuer = issuer.issuer, "the provider was not told of a logout");
                    None
                });
        }
        let mut response = json_response(&json!({"location": location.as_deref().unwrap_or(HOME)}));
        cookies::remove_session(response.headers_mut())
            .map_err(|error| Status::internal(format!("{error:#}")))?;
        Ok(response)
    }

    async fn end_provider_session(
        &self,
        cx: &RequestContext,
        request: &Parts,
        issuer: &ConsoleIssuer,
        session: &Session,
    ) -> Result<Option<String>, ProviderError> {
        let provider = self.provider(cx, issuer).await?;
        if let Err(error) = provider.revoke(session).await {
            tracing::warn!(%error, issuer = issuer.issuer, "a refresh token was not revoked");
        }
        let origin =
            self.origin(request).map_err(|failure| ProviderError::Settings(failure.why.en.to_owned()))?;
        Ok(provider.logout_url(session, &origin.url(HOME)))
    }

    fn issuer(&self, name: &str) -> Option<&ConsoleIssuer> {
        self.issuers.iter().find(|issuer| issuer.name == name)
    }

    fn has_one_issuer(&self) -> bool {
        self.issuers.len() == 1
    }

    fn origin(&self, request: &Parts) -> Result<&Origin, LoginFailure> {
        request_origin(&self.origins, &request.headers, &request.uri)
            .ok_or_else(|| bad_request(messages::NO_ORIGIN))
    }

    async fn provider<'a>(
        &self,
        cx: &RequestContext,
        issuer: &'a ConsoleIssuer,
    ) -> Result<Provider<'a>, ProviderError> {
        let source = authenticator(cx).and_then(|known| known.key_source(&issuer.issuer));
        let gone = || ProviderError::Settings(format!("{} is not believed here any more", issuer.issuer));
        let last = self.discovery_caches.get(&issuer.name).ok_or_else(gone)?;
        Provider::discover(issuer, source.ok_or_else(gone)?, last).await
    }

    /// The caller that the API's authenticator makes of a token.
    async fn caller_of_token(&self, cx: &RequestContext, token: &str) -> Result<Arc<Caller>, String> {
        authenticator(cx).ok_or("nobody is told apart here")?.judge(token).await
    }

    fn set_session_cookies(&self, headers: &mut HeaderMap, session: &Session) -> anyhow::Result<()> {
        let left = session.ends - self.clock.unix_seconds();
        cookies::set_session(headers, &session.seal(&self.keys)?, left)
    }
}

fn authenticator(cx: &RequestContext) -> Option<&Authenticator> {
    cx.authenticator.as_deref()
}

fn new_session(issuer: &str, tokens: ProviderTokens, ends: i64) -> Session {
    let ProviderTokens { token, refresh, subject } = tokens;
    Session { issuer: issuer.to_owned(), token, refresh, subject, ends }
}

/// Who is logged in. The authenticator has checked the token before.
fn session(cx: &RequestContext, request: &Parts) -> Result<Response<Body>, Status> {
    let session = request.extensions.get::<Session>().ok_or_else(Status::unauthorized)?;
    Ok(json_response(&session_json(&cx.caller, session)))
}

fn session_json(caller: &Caller, session: &Session) -> Value {
    let expires = caller.expires.unwrap_or(session.ends);
    // Without a refresh token the session ends with its ID token.
    let ends = if session.refresh.is_some() { session.ends } else { session.ends.min(expires) };
    json!({
        "username": caller.name,
        "groups": caller.groups,
        "issuer": session.issuer,
        "expires": time::rfc3339(expires),
        "ends": time::rfc3339(ends),
    })
}

/// The callback path of an issuer. Each of several issuers has its own. So a malicious provider cannot forward a login
/// to another provider and get that one's code redeemed at its own token endpoint (mix-up attack).
fn callback_path(issuer: &str, is_alone: bool) -> String {
    if is_alone { CALLBACK.to_owned() } else { format!("{CALLBACK}/{issuer}") }
}

/// Whether a path is the callback path of this issuer.
fn is_callback_path(path: &str, issuer: &str, is_alone: bool) -> bool {
    match path.trim_end_matches('/').strip_prefix(CALLBACK) {
        Some("") => is_alone,
        Some(below) => below.strip_prefix('/') == Some(issuer),
        None => false,
    }
}

/// A parameter of the query.
fn query_parameter<'a>(request: &'a Parts, key: &'static str) -> Option<Cow<'a, str>> {
    query::first(request.uri.query().unwrap_or_default(), key)
}

/// The requested page of the console; any other address becomes the home page.
fn return_page(asked: &str) -> String {
    let is_ours = asked.starts_with(HOME) && asked.len() <= RETURN_PAGE_BYTES_MAX && !asked.contains('\\');
    let is_page = is_ours && !asked.contains("//") && asked.parse::<Uri>().is_ok();
    if is_page { asked.to_owned() } else { HOME.to_owned() }
}

fn bad_request(why: LocalizedText) -> LoginFailure {
    LoginFailure::of(StatusCode::BAD_REQUEST, why)
}

fn login_response(outcome: Result<Response<Body>, LoginFailure>, request: &Parts) -> Response<Body> {
    outcome.unwrap_or_else(|LoginFailure { code, why, detail, page }| {
        html::failure_page(code, why, &detail, &page, Language::of(&request.headers))
    })
}

/// Removes the cookie of the pending login: it is used once, whether the login succeeded or not.
fn clear_login_cookie(mut response: Response<Body>) -> Response<Body> {
    if let Err(error) = cookies::set_login(response.headers_mut(), "", 0) {
        tracing::error!("forget a login: {error:#}");
    }
    response
}

fn or_status(outcome: Result<Response<Body>, Status>, request: &Parts) -> Response<Body> {
    outcome.unwrap_or_else(|status| status_response(&status, &request.headers, &request.uri))
}

fn json_response(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_at_its_own_issuers_path_alone() {
        assert_eq!(callback_path("corp", true), "/console/callback");
        assert_eq!(callback_path("corp", false), "/console/callback/corp");
        for (path, is_alone, taken) in [
            ("/console/callback", true, true),
            ("/console/callback/", true, true),
            ("/console/callback/corp", true, true),
            ("/console/callback/corp", false, true),
            ("/console/callback", false, false),
            ("/console/callback/", false, false),
            ("/console/callback/other", true, false),
            ("/console/callback/other", false, false),
            ("/console/callback/corp/other", false, false),
            ("/console/callback/other/corp", false, false),
            ("/console/callback//corp", false, false),
            ("/console/callbackcorp", false, false),
            ("/corp", false, false),
        ] {
            assert_eq!(is_callback_path(path, "corp", is_alone), taken, "{path} {is_alone}");
        }
    }

    #[test]
    fn only_pages_of_our_own_are_gone_back_to() {
        for ours in ["/console/", "/console/projects/web?tab=events", "/console/p/%E4%B8%AD"] {
            assert_eq!(return_page(ours), ours);
        }
        let long = format!("/console/{}", "a".repeat(RETURN_PAGE_BYTES_MAX));
        for other in [
            "",
            "//evil.test/",
            "https://evil.test/console/",
            "/console//evil.test",
            "/console/\\evil",
            "/consolex",
            "/apis",
            "/console/a b",
            "javascript:alert(1)",
            &long,
        ] {
            assert_eq!(return_page(other), HOME, "{other}");
        }
    }
}
