use super::cookies::Cookies;
use super::seal::SealingKeys;
use super::session::Session;
use super::settings::Origin;
use super::{CALLBACK, LOGOUT, REFRESH, ROOT, SESSION};
use apiserver::request::query::percent_decode;
use apiserver::response::status_response;
use apiserver::server::RequestFilter;
use axum::body::Body;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use meta::status::Status;
use runtime::Clock;

/// A header that a page of another origin cannot send.
const CONSOLE_HEADER: HeaderName = HeaderName::from_static("x-business-console");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The prefix of a subprotocol of a WebSocket that has a token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
/// The paths of the API that are served at this socket.
const API_PATHS: [&str; 4] = ["/api", "/apis", "/openapi", "/version"];
const PERMISSIONS_POLICY: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), \
                           magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()";

/// The sealed cookie of a pending login, for the handler of the callback.
#[derive(Clone, Debug)]
pub(super) struct LoginCookie(pub(super) String);

/// Replaces the session in a browser's cookies by its bearer token, for requests of our own pages.
#[derive(Debug)]
pub(super) struct ConsoleGate {
    origins: Vec<Origin>,
    keys: SealingKeys,
    clock: Clock,
    policy: HeaderValue,
}

/// Which cookies a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CookieUse {
    /// A session is required.
    RequiredSession,
    /// A session is used if there is one.
    OptionalSession,
    /// The cookie of a pending login is used.
    Login,
    /// No cookies are used: the answer is the same for everybody.
    NoCookies,
}

impl CookieUse {
    /// The use at a path; `None` where nothing is served.
    fn at(path: &str) -> Option<Self> {
        let below =
            |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match path.trim_end_matches('/') {
            SESSION | REFRESH => Some(Self::RequiredSession),
            LOGOUT => Some(Self::OptionalSession),
            _ if below(CALLBACK) => Some(Self::Login),
            _ if below(ROOT) => Some(Self::NoCookies),
            _ if API_PATHS.into_iter().any(below) => Some(Self::RequiredSession),
            _ => None,
        }
    }
}

impl ConsoleGate {
    pub(super) fn new(origins: Vec<Origin>, keys: SealingKeys, clock: Clock) -> anyhow::Result<Self> {
        let policy = HeaderValue::try_from(content_security_policy(&origins))?;
        Ok(Self { origins, keys, clock, policy })
    }

    fn check(&self, request: &mut Request<Body>) -> Result<(), Status> {
        // The path is decoded, as the handler will see it.
        let path = percent_decode(request.uri().path(), false);
        let used = path.as_deref().and_then(CookieUse::at).ok_or_else(Status::no_such_path)?;
        let cookies = Cookies::take(request.headers_mut());
        if used == CookieUse::Login {
            if let Some(login) = cookies.login {
                request.extensions_mut().insert(LoginCookie(login));
            }
            return Ok(());
        }
        if used == CookieUse::NoCookies {
            return Ok(());
        }
        self.check_origin(request, cookies.has_session())?;
        request.headers_mut().remove(header::AUTHORIZATION);
        let sealed = cookies.session();
        let session = sealed.and_then(|sealed| Session::open(&self.keys, &sealed, self.clock.unix_seconds()));
        match session {
            Some(session) => {
                let bearer = HeaderValue::try_from(format!("Bearer {}", session.token));
                let mut bearer = bearer.map_err(|_no_header| Status::unauthorized())?;
                bearer.set_sensitive(true);
                request.headers_mut().insert(header::AUTHORIZATION, bearer);
                request.extensions_mut().insert(session);
                Ok(())
            }
            None if used == CookieUse::OptionalSession => Ok(()),
            None => Err(Status::unauthorized()),
        }
    }

    /// Refuses requests that are not from our own pages (CSRF): a browser sends cookies with requests of any page.
    fn check_origin(&self, request: &Request<Body>, has_session: bool) -> Result<(), Status> {
        let headers = request.headers();
        if has_session && has_credentials(headers) {
            let text = "a request has a session or credentials of its own, not both";
            return Err(Status::bad_request(text));
        }
        let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_marked = headers.get(&CONSOLE_HEADER).is_some_and(|value| value == "1");
        let is_socket = headers.contains_key(header::UPGRADE);
        match headers.get(header::ORIGIN) {
            Some(origin) if self.origins.iter().any(|ours| ours.is(origin)) => {}
            Some(_) => return Err(forbidden("this is no request of the console's own pages: wrong Origin")),
            None if !is_safe || is_socket => {
                return Err(forbidden("this is no request of the console's own pages: no Origin"));
            }
            // Browsers omit Origin when a page reads from its own origin. Old ones do not send Sec-Fetch-Site either;
            // then only our own header shows it.
            None => match headers.get(&SEC_FETCH_SITE) {
                Some(site) if site == "same-origin" => {}
                None if is_marked => {}
                _ => {
                    return Err(forbidden(
                        "this is no request of the console's own pages: neither Origin nor Sec-Fetch-Site says so",
                    ));
                }
            },
        }
        if !is_safe && !is_marked {
            return Err(forbidden("the header X-Business-Console: 1 is missing"));
        }
        Ok(())
    }
}

impl RequestFilter for ConsoleGate {
    fn filter_request(&self, request: &mut Request<Body>) -> Result<(), Response<Body>> {
        if request.uri().path() == "/" {
            return Err(redirect_to_console());
        }
        self.check(request).map_err(|status| status_response(&status, request.headers(), request.uri()))
    }

    fn filter_response(&self, headers: &mut HeaderMap) {
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in [
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("permissions-policy"), PERMISSIONS_POLICY),
            (header::STRICT_TRANSPORT_SECURITY, "max-age=31536000"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        // The API's own `no-cache` would let a browser store answers on its disk and revalidate them.
        if headers.get(header::CACHE_CONTROL).is_some_and(|value| value == "no-cache, private") {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
    }
}

/// The policy of all answers. `'self'` covers `WebSockets` only in current browsers; older ones need their URLs.
fn content_security_policy(origins: &[Origin]) -> String {
    let sockets: Vec<String> = origins.iter().map(Origin::socket).collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self' {}; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        sockets.join(" ")
    )
}

fn has_credentials(headers: &HeaderMap) -> bool {
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut protocols = protocols.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    headers.contains_key(header::AUTHORIZATION)
        || protocols.any(|protocol| protocol.trim_ascii().starts_with(TOKEN_PROTOCOL.as_bytes()))
}

fn forbidden(why: &str) -> Status {
    Status::failure(403, "Forbidden", format!("forbidden: {why}"))
}

fn redirect_to_console() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/console/"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_back_from_a_provider_may_use_the_login_under_way_and_nothing_else_may() {
        for path in [CALLBACK, "/console/callback/", "/console/callback/corp", "/console/callback/corp/"] {
            assert_eq!(CookieUse::at(path), Some(CookieUse::Login), "{path}");
        }
        for (path, used) in [
            ("/console/callbacks", Some(CookieUse::NoCookies)),
            ("/console/login", Some(CookieUse::NoCookies)),
            ("/console/session", Some(CookieUse::RequiredSession)),
            ("/console/logout", Some(CookieUse::OptionalSession)),
            ("/apis/callback", Some(CookieUse::RequiredSession)),
            ("/callback/corp", None),
        ] {
            assert_eq!(CookieUse::at(path), used, "{path}");
        }
    }
}
