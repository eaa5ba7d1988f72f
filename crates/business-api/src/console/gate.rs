use super::cookies::Cookies;
use super::seal::SealingKeys;
use super::session::Session;
use super::settings::Origin;
use super::{CALLBACK, LOGOUT, REFRESH, ROOT, SESSION};
use apiserver::request::query::percent_decode;
use apiserver::response::status_response;
use apiserver::server::Gate;
use axum::body::Body;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use meta::status::Status;
use runtime::Clock;

/// A header that a page of another origin cannot send.
const OURS: HeaderName = HeaderName::from_static("x-business-console");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// A token among the subprotocols of a WebSocket begins with this.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
/// The paths of the API that are served here.
const API: [&str; 4] = ["/api", "/apis", "/openapi", "/version"];
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), \
                           magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()";

/// The sealed cookie of a login under way, for the page that it comes back to.
#[derive(Clone, Debug)]
pub(super) struct LoginCookie(pub(super) String);

/// Turns the session in a browser's cookies into the bearer token that it holds, for requests that a page of ours made.
#[derive(Debug)]
pub(super) struct ConsoleGate {
    origins: Vec<Origin>,
    keys: SealingKeys,
    clock: Clock,
    policy: HeaderValue,
}

/// Which cookies a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// A session has to be there.
    Session,
    /// It need not.
    AnySession,
    /// A login under way.
    Login,
    /// The same for everybody.
    Nothing,
}

impl Use {
    /// `None` where nothing is served.
    fn at(path: &str) -> Option<Self> {
        let below =
            |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match path.trim_end_matches('/') {
            SESSION | REFRESH => Some(Self::Session),
            LOGOUT => Some(Self::AnySession),
            _ if below(CALLBACK) => Some(Self::Login),
            _ if below(ROOT) => Some(Self::Nothing),
            _ if API.into_iter().any(below) => Some(Self::Session),
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
        // Decoded, as the handler will see it.
        let path = percent_decode(request.uri().path(), false);
        let used = path.as_deref().and_then(Use::at).ok_or_else(Status::no_such_path)?;
        let cookies = Cookies::take(request.headers_mut());
        if used == Use::Login {
            if let Some(login) = cookies.login {
                request.extensions_mut().insert(LoginCookie(login));
            }
            return Ok(());
        }
        if used == Use::Nothing {
            return Ok(());
        }
        self.check_sender(request, cookies.has_session())?;
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
            None if used == Use::AnySession => Ok(()),
            None => Err(Status::unauthorized()),
        }
    }

    /// Whether one of our pages has made this request. A browser sends cookies for any page.
    fn check_sender(&self, request: &Request<Body>, has_session: bool) -> Result<(), Status> {
        let headers = request.headers();
        if has_session && brings_credentials(headers) {
            let text = "a request has a session or credentials of its own, not both";
            return Err(Status::bad_request(text));
        }
        let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_marked = headers.get(&OURS).is_some_and(|value| value == "1");
        let is_socket = headers.contains_key(header::UPGRADE);
        match headers.get(header::ORIGIN) {
            Some(origin) if self.origins.iter().any(|ours| ours.is(origin)) => {}
            Some(_) => return Err(forbidden("this is no request of the console's own pages: wrong Origin")),
            None if !is_safe || is_socket => {
                return Err(forbidden("this is no request of the console's own pages: no Origin"));
            }
            // Browsers omit Origin when a page reads from its own origin. Old ones do not tell that otherwise; then
            // only our own header does.
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

impl Gate for ConsoleGate {
    fn enter(&self, request: &mut Request<Body>) -> Result<(), Response<Body>> {
        if request.uri().path() == "/" {
            return Err(to_console());
        }
        self.check(request).map_err(|status| status_response(&status, request.headers(), request.uri()))
    }

    fn leave(&self, headers: &mut HeaderMap) {
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in [
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("permissions-policy"), PERMISSIONS),
            (header::STRICT_TRANSPORT_SECURITY, "max-age=31536000"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        // The API's own header lets a browser keep an answer on its disk, and ask before it shows the answer again.
        if headers.get(header::CACHE_CONTROL).is_some_and(|value| value == "no-cache, private") {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
    }
}

/// `'self'` covers sockets in today's browsers alone: older ones are told their URL.
fn content_security_policy(origins: &[Origin]) -> String {
    let sockets: Vec<String> = origins.iter().map(Origin::socket).collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self' {}; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        sockets.join(" ")
    )
}

fn brings_credentials(headers: &HeaderMap) -> bool {
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut protocols = protocols.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    headers.contains_key(header::AUTHORIZATION)
        || protocols.any(|protocol| protocol.trim_ascii().starts_with(TOKEN_PROTOCOL.as_bytes()))
}

fn forbidden(why: &str) -> Status {
    Status::failure(403, "Forbidden", format!("forbidden: {why}"))
}

fn to_console() -> Response<Body> {
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
            assert_eq!(Use::at(path), Some(Use::Login), "{path}");
        }
        for (path, used) in [
            ("/console/callbacks", Some(Use::Nothing)),
            ("/console/login", Some(Use::Nothing)),
            ("/console/session", Some(Use::Session)),
            ("/console/logout", Some(Use::AnySession)),
            ("/apis/callback", Some(Use::Session)),
            ("/callback/corp", None),
        ] {
            assert_eq!(Use::at(path), used, "{path}");
        }
    }
}
