use super::gate::LoginCookie;
use super::provider::{Given, Provider, ProviderError};
use super::session::{Login, Session};
use super::settings::{ConsoleIssuer, Origin, origin_of};
use super::words::{self, Language, Text};
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
/// The page that somebody gets who asked for none in particular.
const HOME: &str = "/console/";
/// Longest page that is gone back to after a login.
const PAGE_BYTES_MAX: usize = 1024;
const RETRY_AFTER_SECONDS: u32 = 2;

/// One of the console's own paths.
pub(super) struct ConsolePage {
    pub(super) console: Arc<Console>,
    pub(super) page: Page,
}

/// Which one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Page {
    Files,
    Config,
    Login,
    Callback,
    Session,
    Refresh,
    Logout,
}

/// A page instead of a login.
struct Failure {
    code: StatusCode,
    why: Text,
    /// Details, in the words of the programs.
    detail: String,
    /// Where the login was to lead.
    page: String,
}

impl Failure {
    fn of(code: StatusCode, why: Text) -> Self {
        Self { code, why, detail: String::new(), page: HOME.to_owned() }
    }

    fn told(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    fn on_the_way_to(self, page: &str) -> Self {
        Self { page: page.to_owned(), ..self }
    }
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        tracing::warn!(%error, "a login to the console");
        let (code, why, detail) = match error {
            ProviderError::Refused(detail) => (StatusCode::FORBIDDEN, words::REFUSED, detail),
            ProviderError::Unreachable(detail) => (StatusCode::BAD_GATEWAY, words::UNREACHABLE, detail),
            ProviderError::Settings(detail) => (StatusCode::BAD_GATEWAY, words::MISCONFIGURED, detail),
        };
        Self::of(code, why).told(detail)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        tracing::warn!("a login to the console: {error:#}");
        Self::of(StatusCode::BAD_REQUEST, words::UNFINISHED).told(format!("{error:#}"))
    }
}

impl RouteHandler for ConsolePage {
    fn answer<'a>(
        &'a self,
        cx: &'a mut RequestContext,
        request: Request<Body>,
    ) -> BoxFuture<'a, Response<Body>> {
        let console = &*self.console;
        let (request, _nobody_reads_it) = request.into_parts();
        Box::pin(async move {
            match self.page {
                Page::Files => console.files.answer(&request).await,
                Page::Config => json_response(&console.config()),
                Page::Login => page(console.log_in(cx, &request).await, &request),
                Page::Callback => forgetting_login(page(console.come_back(cx, &request).await, &request)),
                Page::Session => or_status(session(cx, &request), &request),
                Page::Refresh => or_status(console.refresh(cx, &request).await, &request),
                Page::Logout => or_status(console.log_out(cx, &request).await, &request),
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

    /// The way to the provider.
    async fn log_in(&self, cx: &RequestContext, request: &Parts) -> Result<Response<Body>, Failure> {
        let page = page_of(&said(request, "return").unwrap_or_default());
        self.begin(cx, request, &page).await.map_err(|failure| failure.on_the_way_to(&page))
    }

    async fn begin(
        &self,
        cx: &RequestContext,
        request: &Parts,
        page: &str,
    ) -> Result<Response<Body>, Failure> {
        let name = said(request, "issuer").unwrap_or_default();
        let unknown = || Failure::of(StatusCode::NOT_FOUND, words::NO_SUCH_ISSUER).told(&*name);
        let issuer = self.issuer(&name).ok_or_else(unknown)?;
        let provider = self.provider(cx, issuer).await?;
        let redirect = self.origin(request)?.url(&way_back(&issuer.name, self.has_one_issuer()));
        let begun = provider.begin(&redirect)?;
        let login = Login {
            issuer: issuer.name.clone(),
            state: begun.state,
            nonce: begun.nonce,
            verifier: begun.verifier,
            redirect,
            page: page.to_owned(),
            ends: self.clock.unix_seconds() + LOGIN_SECONDS,
        };
        let location = HeaderValue::try_from(begun.url).map_err(anyhow::Error::from)?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::FOUND;
        let headers = response.headers_mut();
        headers.insert(header::LOCATION, location);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        cookies::set_login(headers, &login.seal(&self.keys)?, LOGIN_SECONDS)?;
        Ok(response)
    }

    /// The way back from the provider. A request without the login that this browser began, or with the answer to
    /// another login, was sent by another site.
    async fn come_back(&self, cx: &RequestContext, request: &Parts) -> Result<Response<Body>, Failure> {
        let sealed = request.extensions.get::<LoginCookie>();
        let login = sealed.and_then(|LoginCookie(it)| Login::open(&self.keys, it, self.clock.unix_seconds()));
        let login = login.ok_or_else(|| bad(words::NO_LOGIN))?;
        self.finish(cx, request, &login).await.map_err(|failure| failure.on_the_way_to(&login.page))
    }

    async fn finish(
        &self,
        cx: &RequestContext,
        request: &Parts,
        login: &Login,
    ) -> Result<Response<Body>, Failure> {
        let said = |key: &'static str| said(request, key);
        if said("state").as_deref() != Some(login.state.as_str()) {
            return Err(bad(words::ANOTHER_LOGIN));
        }
        let issuer = self.issuer(&login.issuer).ok_or_else(|| bad(words::ISSUER_GONE))?;
        let iss = said("iss");
        let is_at_home = is_way_back(cx.info.path(), &issuer.name, self.has_one_issuer());
        if !is_at_home || iss.as_deref().is_some_and(|iss| iss != issuer.issuer) {
            return Err(bad(words::ANOTHER_PROVIDER));
        }
        let provider = self.provider(cx, issuer).await?;
        if iss.is_none() && provider.names_itself() {
            return Err(bad(words::NAMELESS));
        }
        if let Some(error) = said("error") {
            let why = said("error_description").unwrap_or_default();
            return Err(ProviderError::Refused(format!("{error}: {why}")).into());
        }
        let code = said("code").ok_or_else(|| bad(words::NO_CODE))?;
        let given = provider.redeem(login, &code).await?;
        let caller = self.judge(cx, &given.token).await.map_err(|why| {
            tracing::warn!(issuer = issuer.issuer, why, "a token of the provider is not believed");
            Failure::of(StatusCode::FORBIDDEN, words::NOT_ACCEPTED)
        })?;
        tracing::info!(audit = true, user = caller.name, issuer = issuer.issuer, "logged in to the console");
        let lifetime = i64::try_from(self.lifetime.as_secs()).unwrap_or(i64::MAX);
        let ends = self.clock.unix_seconds().saturating_add(lifetime);
        let session = session_of(&issuer.name, given, ends);
        let mut response = html::going_on(&login.page, Language::of(&request.headers));
        self.set(response.headers_mut(), &session)?;
        Ok(response)
    }

    async fn refresh(&self, cx: &RequestContext, request: &Parts) -> Result<Response<Body>, Status> {
        let session = request.extensions.get::<Session>().ok_or_else(Status::unauthorized)?;
        let issuer = self.issuer(&session.issuer).ok_or_else(Status::unauthorized)?;
        let given = async { self.provider(cx, issuer).await?.refresh(session).await };
        let given = given.await.map_err(|error| {
            tracing::info!(%error, issuer = issuer.issuer, "a session of the console is not refreshed");
            match error {
                ProviderError::Refused(_) => Status::unauthorized(),
                other => Status::unavailable(other.to_string(), RETRY_AFTER_SECONDS),
            }
        })?;
        let caller = self.judge(cx, &given.token).await.map_err(|why| {
            tracing::warn!(issuer = issuer.issuer, why, "a token of the provider is not believed");
            Status::unauthorized()
        })?;
        let session = session_of(&issuer.name, given, session.ends);
        let mut response = json_response(&described(&caller, &session));
        self.set(response.headers_mut(), &session).map_err(|error| Status::internal(format!("{error:#}")))?;
        Ok(response)
    }

    /// The session ends here, whatever the provider answers.
    async fn log_out(&self, cx: &RequestContext, request: &Parts) -> Result<Response<Body>, Status> {
        let mut location = None;
        if let Some(session) = request.extensions.get::<Session>()
            && let Some(issuer) = self.issuer(&session.issuer)
        {
            location = self.end(cx, request, issuer, session).await.unwrap_or_else(|error| {
                tracing::warn!(%error, issuer = issuer.issuer, "the provider was not told of a logout");
                None
            });
        }
        let mut response = json_response(&json!({"location": location.as_deref().unwrap_or(HOME)}));
        cookies::remove_session(response.headers_mut())
            .map_err(|error| Status::internal(format!("{error:#}")))?;
        Ok(response)
    }

    async fn end(
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
        Ok(provider.end(session, &origin.url(HOME)))
    }

    fn issuer(&self, name: &str) -> Option<&ConsoleIssuer> {
        self.issuers.iter().find(|issuer| issuer.name == name)
    }

    fn has_one_issuer(&self) -> bool {
        self.issuers.len() == 1
    }

    fn origin(&self, request: &Parts) -> Result<&Origin, Failure> {
        origin_of(&self.origins, &request.headers, &request.uri).ok_or_else(|| bad(words::NO_ORIGIN))
    }

    async fn provider<'a>(
        &self,
        cx: &RequestContext,
        issuer: &'a ConsoleIssuer,
    ) -> Result<Provider<'a>, ProviderError> {
        let source = authenticator(cx).and_then(|known| known.key_source(&issuer.issuer));
        let gone = || ProviderError::Settings(format!("{} is not believed here any more", issuer.issuer));
        let last = self.discovered.get(&issuer.name).ok_or_else(gone)?;
        Provider::discover(issuer, source.ok_or_else(gone)?, last).await
    }

    /// The caller that a token makes of its bearer, as the API will see him.
    async fn judge(&self, cx: &RequestContext, token: &str) -> Result<Arc<Caller>, String> {
        authenticator(cx).ok_or("nobody is told apart here")?.judge(token).await
    }

    fn set(&self, headers: &mut HeaderMap, session: &Session) -> anyhow::Result<()> {
        let left = session.ends - self.clock.unix_seconds();
        cookies::set_session(headers, &session.seal(&self.keys)?, left)
    }
}

fn authenticator(cx: &RequestContext) -> Option<&Authenticator> {
    cx.authenticator.as_deref()
}

fn session_of(issuer: &str, given: Given, ends: i64) -> Session {
    let Given { token, refresh, subject } = given;
    Session { issuer: issuer.to_owned(), token, refresh, subject, ends }
}

/// Who is logged in. The token was checked on the way here.
fn session(cx: &RequestContext, request: &Parts) -> Result<Response<Body>, Status> {
    let session = request.extensions.get::<Session>().ok_or_else(Status::unauthorized)?;
    Ok(json_response(&described(&cx.caller, session)))
}

fn described(caller: &Caller, session: &Session) -> Value {
    let expires = caller.expires.unwrap_or(session.ends);
    // Without a refresh token no other token follows this one.
    let ends = if session.refresh.is_some() { session.ends } else { session.ends.min(expires) };
    json!({
        "username": caller.name,
        "groups": caller.groups,
        "issuer": session.issuer,
        "expires": time::rfc3339(expires),
        "ends": time::rfc3339(ends),
    })
}

/// Where an issuer sends browsers back to. Among several each has a path of its own: a provider that passes its login on to
/// another one cannot have the other's code brought here as its own, to be redeemed at its own token endpoint.
fn way_back(issuer: &str, is_alone: bool) -> String {
    if is_alone { CALLBACK.to_owned() } else { format!("{CALLBACK}/{issuer}") }
}

/// Whether what comes to this path is this issuer's answer.
fn is_way_back(path: &str, issuer: &str, is_alone: bool) -> bool {
    match path.trim_end_matches('/').strip_prefix(CALLBACK) {
        Some("") => is_alone,
        Some(below) => below.strip_prefix('/') == Some(issuer),
        None => false,
    }
}

/// A parameter of the query.
fn said<'a>(request: &'a Parts, key: &'static str) -> Option<Cow<'a, str>> {
    query::first(request.uri.query().unwrap_or_default(), key)
}

/// A page of the console; any other address becomes the first page.
fn page_of(asked: &str) -> String {
    let is_ours = asked.starts_with(HOME) && asked.len() <= PAGE_BYTES_MAX && !asked.contains('\\');
    let is_page = is_ours && !asked.contains("//") && asked.parse::<Uri>().is_ok();
    if is_page { asked.to_owned() } else { HOME.to_owned() }
}

fn bad(why: Text) -> Failure {
    Failure::of(StatusCode::BAD_REQUEST, why)
}

fn page(outcome: Result<Response<Body>, Failure>, request: &Parts) -> Response<Body> {
    outcome.unwrap_or_else(|Failure { code, why, detail, page }| {
        html::failure(code, why, &detail, &page, Language::of(&request.headers))
    })
}

/// A login is used once, whether it succeeded or not.
fn forgetting_login(mut response: Response<Body>) -> Response<Body> {
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
        assert_eq!(way_back("corp", true), "/console/callback");
        assert_eq!(way_back("corp", false), "/console/callback/corp");
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
            assert_eq!(is_way_back(path, "corp", is_alone), taken, "{path} {is_alone}");
        }
    }

    #[test]
    fn only_pages_of_our_own_are_gone_back_to() {
        for ours in ["/console/", "/console/projects/web?tab=events", "/console/p/%E4%B8%AD"] {
            assert_eq!(page_of(ours), ours);
        }
        let long = format!("/console/{}", "a".repeat(PAGE_BYTES_MAX));
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
            assert_eq!(page_of(other), HOME, "{other}");
        }
    }
}
