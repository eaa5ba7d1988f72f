//! Calls to a registry by the standard token flow: the registry answers 401 with a challenge, which names the token
//! server and the scope.

use crate::error::{CallFailure, Error};
use crate::registry::backend::TOO_MUCH;
use crate::registry::writes::RegistryWrites;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use kube::config::Kubeconfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Parallel calls for one prefix.
pub(super) const PARALLEL: usize = 8;
/// Calls that are prepared at a time: each takes several thousand bytes.
pub(super) const CALLS_CHUNK: usize = if cfg!(test) { 3 } else { 200 };
/// The deadline of a call.
const DEADLINE: Duration = Duration::from_secs(10);
/// Manifests that are read at a time for all prefixes. Their authors decide how large they are.
const MANIFESTS_READ_MAX: usize = 16;
/// The maximal size of an answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The lifetime of a token that does not state one.
const TOKEN_LIFETIME_MIN: Duration = Duration::from_mins(1);
/// A token is not used in its last seconds.
const TOKEN_MARGIN: Duration = Duration::from_secs(10);
/// How many tokens are cached.
const TOKENS_MAX: usize = 1_000;
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.docker.distribution.manifest.v2+json, application/json;q=0.5";

/// The address of a registry, and the credentials for it.
#[derive(Clone, Debug, Default)]
pub struct RegistryEndpoint {
    pub url: String,
    /// CA certificates in PEM; without them, the system's.
    pub authority: Option<PathBuf>,
    /// A file with `user:password`. It is read again for each token.
    pub credentials: Option<PathBuf>,
}

/// A client of a registry.
pub struct RegistryClient {
    endpoint: RegistryEndpoint,
    client: Client,
    /// By scope.
    tokens: Mutex<HashMap<String, Token>>,
    /// Clients of the token servers that the registry has named, by origin.
    token_servers: Mutex<HashMap<String, Client>>,
    /// Clients of the servers that the registry keeps blobs on, by origin.
    storages: Mutex<HashMap<String, Client>>,
    manifests: Semaphore,
}

impl std::fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryClient").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    until: Instant,
}

/// A call to the registry.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The scope of the token, such as `repository:NAME:pull`.
    pub scope: String,
}

/// An answer of the registry.
#[derive(Debug)]
pub struct RegistryResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A page of a list.
#[derive(Debug, Default)]
pub(super) struct Page<T> {
    pub content: T,
    /// The path of the next page.
    pub next: Option<String>,
}

/// The challenge of a 401.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Challenge {
    realm: String,
    service: String,
    scope: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenResponse {
    token: String,
    access_token: String,
    expires_in: Option<u64>,
}

impl RegistryClient {
    /// A client of the registry at this endpoint.
    pub async fn new(endpoint: RegistryEndpoint) -> Result<Self, Error> {
        let client = client(&endpoint.url, &endpoint).await?;
        let (token_servers, storages) = (Mutex::default(), Mutex::default());
        let manifests = Semaphore::new(MANIFESTS_READ_MAX);
        Ok(Self { endpoint, client, tokens: Mutex::default(), token_servers, storages, manifests })
    }

    /// Waits for the room to read a manifest. It is kept until what is returned is dropped.
    pub async fn manifest_room(&self) -> Option<SemaphorePermit<'_>> {
        self.manifests.acquire().await.ok()
    }

    /// Sends a call. Any status is an answer.
    pub async fn call(&self, call: &Call) -> Result<RegistryResponse, Error> {
        self.exchange(call, None).await
    }

    /// Reads a page of a list; `None` if the registry says that there is no such list.
    pub(super) async fn page<T: DeserializeOwned>(
        &self,
        path: String,
        scope: &str,
    ) -> Result<Option<Page<T>>, Error> {
        let answer = self.call(&Call { method: Method::GET, path, scope: scope.to_owned() }).await?;
        match answer.status {
            StatusCode::OK => {
                let content = serde_json::from_slice(&answer.body)
                    .map_err(|error| unusable(&format!("a list of the registry cannot be read: {error}")))?;
                Ok(Some(Page { content, next: answer.next_page()? }))
            }
            _ if answer.is_not_found() => Ok(None),
            _ => Err(answer.failure()),
        }
    }

    /// Sends a HEAD; `None` if the registry says that there is nothing. The 404 of a HEAD has no body that would show
    /// who answers, so a GET has to confirm it.
    pub async fn head(&self, path: String, scope: String) -> Result<Option<RegistryResponse>, Error> {
        match self.head_or_redirect(path, scope).await? {
            Some(answer) if answer.status != StatusCode::OK => Err(answer.failure()),
            answer => Ok(answer),
        }
    }

    /// The size of a blob in bytes; `None` if the registry does not have it. A registry that keeps blobs in an object
    /// store redirects there.
    pub async fn blob_size(&self, path: String, scope: String) -> Result<Option<u64>, Error> {
        let Some(answer) = self.head_or_redirect(path, scope).await? else { return Ok(None) };
        if answer.status == StatusCode::OK {
            let length = answer.header(header::CONTENT_LENGTH.as_str()).and_then(|text| text.parse().ok());
            return length.map(Some).ok_or_else(|| unusable("the registry does not say how large a blob is"));
        }
        let target = answer.header(header::LOCATION.as_str()).unwrap_or_default();
        Ok(Some(self.blob_size_in_storage(target).await?))
    }

    /// The answer to a HEAD, which may be a redirect.
    async fn head_or_redirect(&self, path: String, scope: String) -> Result<Option<RegistryResponse>, Error> {
        let call = Call { method: Method::HEAD, path, scope };
        let answer = self.call(&call).await?;
        match answer.status {
            StatusCode::OK
            | StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => return Ok(Some(answer)),
            StatusCode::NOT_FOUND => {}
            _ => return Err(answer.failure()),
        }
        let said = self.call(&Call { method: Method::GET, ..call }).await?;
        if said.is_not_found() { Ok(None) } else { Err(said.failure()) }
    }

    /// The size of a blob at an address that the registry has given. The address is pre-signed, so no credentials are
    /// sent. It may be valid for one method only.
    async fn blob_size_in_storage(&self, target: &str) -> Result<u64, Error> {
        let unknown = |why: &str| {
            let message = format!(
                "the registry sends the controller to its storage, which does not tell how large a blob is ({why}): \
                 storage.redirect.disable: true has the registry tell it itself"
            );
            Error::Registry(CallFailure::Unavailable(message))
        };
        let (origin, path) = self.address(target).ok_or_else(|| unknown("an address that cannot be used"))?;
        let storage = self.server(&self.storages, &origin).await?;
        let mut said = StatusCode::OK;
        for method in [Method::HEAD, Method::GET] {
            let (status, headers) =
                probe(&storage, method, &path).await.map_err(|error| unknown(&error.text()))?;
            if let Some(bytes) = total_length(status, &headers) {
                return Ok(bytes);
            }
            said = status;
        }
        Err(unknown(&said.to_string()))
    }

    /// Origin and path of an address that the registry has given. A relative one is the registry's own.
    fn address(&self, target: &str) -> Option<(String, String)> {
        let uri: Uri = target.parse().ok()?;
        let path = uri.path_and_query()?.to_string();
        let own: Uri = self.endpoint.url.parse().ok()?;
        let server = if uri.authority().is_some() { &uri } else { &own };
        let (scheme, authority) = (server.scheme_str()?, server.authority()?);
        matches!(scheme, "https" | "http").then(|| (format!("{scheme}://{authority}"), path))
    }

    /// Sends a call that changes something. Each attempt needs its own permit, because fetching a token may take long.
    pub async fn write(&self, call: &Call, writes: &RegistryWrites) -> Result<RegistryResponse, Error> {
        self.exchange(call, Some(writes)).await
    }

    async fn exchange(
        &self,
        call: &Call,
        writes: Option<&RegistryWrites>,
    ) -> Result<RegistryResponse, Error> {
        let answer = self.send(call, self.token(&call.scope), writes).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let asked = answer.header(header::WWW_AUTHENTICATE.as_str()).unwrap_or_default();
        let credentials = if let Some(challenge) = Challenge::bearer(asked, call) {
            let token = self.fetch_token(&challenge).await?;
            let header = token.header.clone();
            self.cache_token(&call.scope, token);
            header
        } else if asked.to_ascii_lowercase().starts_with("basic") {
            self.basic()?.ok_or_else(|| answer.failure())?
        } else {
            return Err(answer.failure());
        };
        let answer = self.send(call, Some(credentials), writes).await?;
        if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.lock().remove(&call.scope);
            let Call { method, path, scope } = call;
            let message =
                format!("the registry denies the controller {method} {path} ({scope}): {}", answer.text());
            return Err(Error::Registry(CallFailure::Refused { code: answer.status.as_u16(), message }));
        }
        Ok(answer)
    }

    async fn send(
        &self,
        call: &Call,
        credentials: Option<HeaderValue>,
        writes: Option<&RegistryWrites>,
    ) -> Result<RegistryResponse, Error> {
        let sent = send(&self.client, call, credentials);
        let Some(writes) = writes else { return sent.await };
        let answered = async {
            let answer = sent.await?;
            // A server error may come from a proxy, so the outcome is unknown.
            if answer.status.is_server_error() { Err(answer.failure()) } else { Ok(answer) }
        };
        writes.send(answered).await
    }

    fn token(&self, scope: &str) -> Option<HeaderValue> {
        self.lock().get(scope).filter(|token| token.until > Instant::now()).map(|token| token.header.clone())
    }

    fn cache_token(&self, scope: &str, token: Token) {
        let mut tokens = self.lock();
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(scope.to_owned(), token);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Token>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The header `Basic …`, if there are credentials.
    fn basic(&self) -> Result<Option<HeaderValue>, Error> {
        let Some(path) = &self.endpoint.credentials else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.display().to_string(), source })?;
        let encoded = format!("Basic {}", BASE64_STANDARD.encode(text.trim()));
        let header = HeaderValue::from_str(&encoded).map_err(|error| Error::Config(error.to_string()))?;
        Ok(Some(header))
    }

    async fn fetch_token(&self, challenge: &Challenge) -> Result<Token, Error> {
        let realm: Uri = challenge.realm.parse().ok().ok_or_else(|| challenge.unusable())?;
        let (Some(scheme), Some(authority)) = (realm.scheme_str(), realm.authority()) else {
            return Err(challenge.unusable());
        };
        // The password must not travel less protected than our calls.
        if self.endpoint.url.starts_with("https:") && scheme != "https" {
            return Err(challenge.unusable());
        }
        let server = self.server(&self.token_servers, &format!("{scheme}://{authority}")).await?;
        let joint = if realm.query().is_some() { '&' } else { '?' };
        let path = realm.path_and_query().map_or("/", |path| path.as_str());
        let Challenge { service, scope, .. } = challenge;
        let path = format!("{path}{joint}service={}&scope={}", escaped(service), escaped(scope));
        let call = Call { method: Method::GET, path, scope: String::new() };
        let answer = send(&server, &call, self.basic()?).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.failure());
        }
        let said: TokenResponse = serde_json::from_slice(&answer.body)
            .map_err(|error| CallFailure::Unavailable(format!("a token cannot be read: {error}")))
            .map_err(Error::Registry)?;
        let token = if said.token.is_empty() { &said.access_token } else { &said.token };
        let header = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|error| Error::Registry(CallFailure::Unavailable(error.to_string())))?;
        let life =
            said.expires_in.map_or(TOKEN_LIFETIME_MIN, Duration::from_secs).min(Duration::from_hours(1));
        Ok(Token { header, until: Instant::now() + life.saturating_sub(TOKEN_MARGIN) })
    }

    /// A client of a server that the registry has named.
    async fn server(&self, kept: &Mutex<HashMap<String, Client>>, origin: &str) -> Result<Client, Error> {
        let known = kept.lock().unwrap_or_else(PoisonError::into_inner).get(origin).cloned();
        if let Some(client) = known {
            return Ok(client);
        }
        let client = client(origin, &self.endpoint).await?;
        let mut servers = kept.lock().unwrap_or_else(PoisonError::into_inner);
        // The registry names one server at a time, and another one after a move.
        servers.clear();
        servers.insert(origin.to_owned(), client.clone());
        Ok(client)
    }
}

/// A client with the connections and the trust settings of a Kubernetes client.
async fn client(url: &str, endpoint: &RegistryEndpoint) -> Result<Client, Error> {
    let server = json!({ "server": url, "certificate-authority": endpoint.authority });
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "registry", "cluster": server }],
        "users": [{ "name": "nobody", "user": {} }],
        "contexts": [{ "name": "registry", "context": { "cluster": "registry", "user": "nobody" } }],
        "current-context": "registry",
    });
    let file: Kubeconfig = serde_json::from_value(file).map_err(|error| Error::Config(error.to_string()))?;
    let mut config = kubeconfig::config(&file, None).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

async fn send(
    client: &Client,
    call: &Call,
    credentials: Option<HeaderValue>,
) -> Result<RegistryResponse, Error> {
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(&call.path)
        .header(header::ACCEPT, MANIFESTS)
        .body(Body::empty())
        .map_err(|error| Error::Config(error.to_string()))?;
    if let Some(credentials) = credentials {
        request.headers_mut().insert(header::AUTHORIZATION, credentials);
    }
    let answered = async {
        let response = client.send(request).await.map_err(|error| Error::Registry(error.into()))?;
        let (parts, body) = response.into_parts();
        let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body =
            read.map_err(|error| Error::Registry(CallFailure::Unavailable(error.to_string())))?.to_bytes();
        Ok(RegistryResponse { status: parts.status, headers: parts.headers, body })
    };
    match tokio::time::timeout(DEADLINE, answered).await {
        Ok(answer) => answer,
        Err(_elapsed) => Err(Error::Registry(CallFailure::deadline(DEADLINE))),
    }
}

/// Asks a storage for a path. One byte of the content is requested.
async fn probe(client: &Client, method: Method, path: &str) -> Result<(StatusCode, HeaderMap), Error> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::RANGE, "bytes=0-0")
        .body(Body::empty())
        .map_err(|error| Error::Config(error.to_string()))?;
    match tokio::time::timeout(DEADLINE, client.send(request)).await {
        Ok(Ok(response)) => {
            let (parts, _unread) = response.into_parts();
            Ok((parts.status, parts.headers))
        }
        Ok(Err(error)) => Err(Error::Registry(error.into())),
        Err(_elapsed) => Err(Error::Registry(CallFailure::deadline(DEADLINE))),
    }
}

/// The total size in an answer with a range: `Content-Range: bytes 0-0/1234`, or `*/0` if there is no content. Some
/// servers answer with the whole.
fn total_length(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match status {
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            text(header::CONTENT_RANGE)?.rsplit_once('/')?.1.parse().ok()
        }
        StatusCode::OK => text(header::CONTENT_LENGTH)?.parse().ok(),
        _ => None,
    }
}

impl RegistryResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The beginning of the body.
    fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.body).trim().to_owned();
        text.truncate(text.floor_char_boundary(300));
        text
    }

    /// Whether the registry says that there is nothing, in the words of the distribution specification. The page of a
    /// proxy does not count.
    pub fn is_not_found(&self) -> bool {
        let has_code = |said: Value| said.pointer("/errors/0/code").is_some_and(Value::is_string);
        self.status == StatusCode::NOT_FOUND && serde_json::from_slice(&self.body).is_ok_and(has_code)
    }

    /// The failure that an unexpected answer means.
    pub fn failure(&self) -> Error {
        let (code, message) = (self.status.as_u16(), self.text());
        Error::Registry(match code {
            404 if self.is_not_found() => CallFailure::NotFound,
            404 => CallFailure::Unavailable(format!("404, and not from the registry: {message}")),
            400..=499 if code != 408 && code != 429 => CallFailure::Refused { code, message },
            _ => CallFailure::Unavailable(format!("{code} {message}")),
        })
    }

    /// The path of a list's next page: `Link: </v2/…>; rel="next"`. A link that cannot be parsed is an error, and not
    /// the end of the list.
    pub fn next_page(&self) -> Result<Option<String>, Error> {
        let Some(link) = self.headers.get(header::LINK) else { return Ok(None) };
        let parts = || {
            let (target, rest) = link.to_str().ok()?.strip_prefix('<')?.split_once('>')?;
            let target: Uri = target.parse().ok()?;
            Some((target.path_and_query()?.to_string(), rest.contains("next")))
        };
        let (path, is_next) =
            parts().ok_or_else(|| unusable(&format!("a list of the registry goes on at {link:?}")))?;
        Ok(is_next.then_some(path))
    }
}

/// The failure for an answer that cannot be used.
pub fn unusable(what: &str) -> Error {
    Error::Registry(CallFailure::Unavailable(what.to_owned()))
}

/// The failure for content that is too large to be measured.
pub(super) fn too_large(message: &str) -> Error {
    Error::Registry(CallFailure::Refused { code: TOO_MUCH, message: message.to_owned() })
}

/// Whether there is too much content.
pub(super) fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::Registry(CallFailure::Refused { code: TOO_MUCH, .. }))
}

impl Challenge {
    /// Parses `Bearer realm="…",service="…",scope="…"`. A missing scope is that of the call.
    fn bearer(text: &str, call: &Call) -> Option<Self> {
        let (scheme, mut rest) = text.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut challenge = Self { scope: call.scope.clone(), ..Self::default() };
        while let Some((name, after)) = rest.split_once("=\"") {
            let (value, after) = after.split_once('"')?;
            match name.trim_start_matches([',', ' ']).trim() {
                "realm" => value.clone_into(&mut challenge.realm),
                "service" => value.clone_into(&mut challenge.service),
                "scope" => value.clone_into(&mut challenge.scope),
                _ => {}
            }
            rest = after;
        }
        (!challenge.realm.is_empty()).then_some(challenge)
    }

    fn unusable(&self) -> Error {
        let message = format!("the registry names a token server that cannot be used: {:?}", self.realm);
        Error::Registry(CallFailure::Refused { code: 401, message })
    }
}

/// Escapes a value for a query.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b',' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(text: &str) -> Option<Challenge> {
        let call = Call { method: Method::GET, path: "/v2/".to_owned(), scope: "ours".to_owned() };
        Challenge::bearer(text, &call)
    }

    #[test]
    fn a_challenge_says_where_and_for_what() {
        let full = r#"Bearer realm="https://a.test/registry/token",service="reg",scope="repository:t/n/a:pull,push",error="x""#;
        let read = challenge(full).unwrap();
        assert_eq!(
            (read.realm.as_str(), read.service.as_str(), read.scope.as_str()),
            ("https://a.test/registry/token", "reg", "repository:t/n/a:pull,push")
        );
        assert_eq!(challenge(r#"bearer realm="https://a.test/token""#).unwrap().scope, "ours");
        for other in ["", "Basic realm=\"x\"", "Bearer", "Bearer service=\"x\"", "Bearer realm=\"x"] {
            assert_eq!(challenge(other), None, "{other}");
        }
    }

    #[test]
    fn the_next_page_is_at_the_same_server() {
        let answer = |link: &'static str| RegistryResponse {
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([(header::LINK, HeaderValue::from_static(link))]),
            body: Bytes::new(),
        };
        let next = |link| answer(link).next_page().unwrap();
        let relative = next("</v2/_catalog?last=a%2Fb&n=2>; rel=\"next\"");
        assert_eq!(relative.as_deref(), Some("/v2/_catalog?last=a%2Fb&n=2"));
        let absolute = next("<https://evil.test/v2/_catalog?n=2>; rel=\"next\"");
        assert_eq!(absolute.as_deref(), Some("/v2/_catalog?n=2"));
        assert_eq!(next("</v2/_catalog>; rel=\"prev\""), None);
        for odd in [
            "",
            "nonsense",
            "/v2/_catalog?n=2; rel=\"next\"",
            "</v2/_catalog; rel=\"next\"",
            "< >; rel=\"next\"",
        ] {
            let said = answer(odd).next_page();
            assert!(matches!(said, Err(Error::Registry(CallFailure::Unavailable(_)))), "{odd}: {said:?}");
        }
        let alone =
            RegistryResponse { status: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::new() };
        assert_eq!(alone.next_page().unwrap(), None);
    }

    #[test]
    fn only_a_registry_says_that_something_is_not_there() {
        let answer = |status, body: &'static str| RegistryResponse {
            status,
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
        };
        let words = r#"{"errors":[{"code":"NAME_UNKNOWN","message":"not known to registry"}]}"#;
        let said = answer(StatusCode::NOT_FOUND, words);
        assert!(said.is_not_found() && matches!(said.failure(), Error::Registry(CallFailure::NotFound)));
        assert!(!answer(StatusCode::OK, words).is_not_found());
        for page in ["", "default backend - 404", "<html></html>", "{}", r#"{"errors":[]}"#] {
            let said = answer(StatusCode::NOT_FOUND, page);
            assert!(!said.is_not_found(), "{page}");
            assert!(matches!(said.failure(), Error::Registry(CallFailure::Unavailable(_))), "{page}");
        }
    }

    #[test]
    fn a_part_says_how_large_the_whole_is() {
        let length = |status, name, text: &'static str| {
            total_length(status, &HeaderMap::from_iter([(name, HeaderValue::from_static(text))]))
        };
        let (part, none) = (StatusCode::PARTIAL_CONTENT, StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(length(part, header::CONTENT_RANGE, "bytes 0-0/1234"), Some(1234));
        assert_eq!(length(none, header::CONTENT_RANGE, "bytes */0"), Some(0));
        assert_eq!(length(StatusCode::OK, header::CONTENT_LENGTH, "7"), Some(7));
        assert_eq!(length(part, header::CONTENT_LENGTH, "1"), None, "that is the part's");
        assert_eq!(length(part, header::CONTENT_RANGE, "bytes 0-0/*"), None);
        assert_eq!(length(StatusCode::FORBIDDEN, header::CONTENT_LENGTH, "7"), None);
    }

    #[test]
    fn a_query_holds_what_scopes_are_made_of() {
        assert_eq!(escaped("repository:t/n:pull,push"), "repository:t/n:pull,push");
        assert_eq!(escaped("registry:catalog:*&x=1"), "registry:catalog:%2A%26x%3D1");
    }
}
