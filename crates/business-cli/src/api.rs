//! Calls of the public API. The server's words are kept: a refusal is its Status, and warnings are shown at once.

use crate::failure::{Failure, error_chain};
use crate::paths::{self, escape_segment};
use crate::plugin;
use crate::screen::{self, sanitize};
use http::{HeaderMap, Method, Request, StatusCode, header};
use kube::client::Body;
use kube::{Client, Config};
use meta::status::{ListMeta, Status};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::time::{Duration, Instant};

/// Objects of one page of a list.
const PAGE_SIZE: usize = 2000;
/// Limit of the pages of a list, in case a server always returns a continue token.
const PAGES_MAX: usize = 500;
/// How often a list is started, if its continue token expires (410).
const LIST_ATTEMPTS_MAX: usize = 3;
/// How often a request is sent, if the server asks to retry it.
const ATTEMPTS_MAX: u32 = 10;
/// Value of the `User-Agent` header.
const USER_AGENT_NAME: &str = concat!("kubectl-business/", env!("CARGO_PKG_VERSION"));
/// The field manager of server-side apply.
pub(crate) const FIELD_MANAGER: &str = "kubectl-business";

/// A client of one API server, with one user's credentials.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    /// Address and credentials of the server.
    pub(crate) config: Config,
    /// The project of namespaces for which the command line names none.
    pub(crate) project: String,
    timeout: Option<Duration>,
    /// Whether the server's `Warning` headers are printed.
    warns: bool,
    /// Whether it is a member cluster, where the platform's roles have no effect.
    is_member: bool,
    /// Whether no project was named, so that `project` is kubectl's default namespace.
    lacks_project: bool,
}

/// Advice if a member cluster refuses a request.
const MEMBER_RIGHTS: &str = "it is the member cluster that refuses: the kubeconfig that was given for it (--kubeconfig, \
                             --member-context) has no rights for this there; take one of somebody who rules that cluster";
const MEMBER_NOBODY: &str = "it is the member cluster that refuses: the kubeconfig that was given for it (--kubeconfig, \
                             --member-context) has no credentials there, or none that are good any more; take a fresh one";
/// Advice if no project was named.
const NO_PROJECT: &str = "no project was named: -n PROJECT names it for this call, `kubectl config set-context --current \
                          --namespace=PROJECT` for all; `kubectl business tree` shows which there are";

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

/// Reads the metadata of a list and stops there.
struct ListMetaVisitor<'a>(&'a mut Option<ListMeta>);

impl<'de> Visitor<'de> for ListMetaVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(field) = list.next_key::<String>()? {
            if field == "metadata" {
                *self.0 = Some(list.next_value()?);
                break;
            }
            list.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// The media type of a request body.
#[derive(Clone, Copy, Debug)]
enum BodyType {
    Json,
    MergePatch,
    Apply,
}

impl Api {
    /// Without a terminal, `timeout` is also how long the kubeconfig's credential plugin may take.
    pub(crate) async fn new(mut config: Config, project: String, timeout: Duration) -> Result<Self, Failure> {
        // kube would repeat calls for minutes, without a word, and even a write that may have been done.
        config.default_retry = false;
        let timeout = (!timeout.is_zero()).then_some(timeout);
        let client = plugin::client(&mut config, timeout).await?;
        Ok(Self { client, config, project, timeout, warns: true, is_member: false, lacks_project: false })
    }

    /// The same client, marked as one of a member cluster.
    pub(crate) fn for_member(self) -> Self {
        Self { is_member: true, ..self }
    }

    /// The same client, marked as one for which no project was named.
    pub(crate) fn without_project(self) -> Self {
        Self { lacks_project: true, ..self }
    }

    /// A copy that does not print the server's warnings.
    pub(crate) fn without_warnings(&self) -> Self {
        Self { warns: false, ..self.clone() }
    }

    /// The project that was named; an error if none was. For output that no server checks.
    pub(crate) fn named_project(&self) -> Result<&str, Failure> {
        if self.lacks_project { Err(Failure::Usage(NO_PROJECT.to_owned())) } else { Ok(&self.project) }
    }

    /// The server's address.
    pub(crate) fn server(&self) -> String {
        paths::server_of(&self.config)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        parse(path, &self.call(Method::GET, path, None).await?)
    }

    /// Gets an object; `None` if the server answers 404.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub(crate) async fn get_text(&self, path: &str) -> Result<String, Failure> {
        let bytes = self.call(Method::GET, path, None).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Lists a collection, page by page.
    pub(crate) async fn list<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
    ) -> Result<Vec<T>, Failure> {
        let mut attempts = 1;
        loop {
            match self.list_pages(path).await {
                Err(Failure::Refused(status)) if status.code == 410 && attempts < LIST_ATTEMPTS_MAX => {
                    attempts += 1;
                }
                other => return other,
            }
        }
    }

    /// Parses each page on a blocking thread while the next page is fetched.
    async fn list_pages<T: DeserializeOwned + Send + 'static>(&self, path: &str) -> Result<Vec<T>, Failure> {
        let unreadable = |error| Failure::Unreadable(path.to_owned(), error);
        let separator = if path.contains('?') { '&' } else { '?' };
        let (mut reading, mut token) = (Vec::new(), String::new());
        loop {
            if reading.len() >= PAGES_MAX {
                let server = self.server();
                return Err(Failure::Other(format!(
                    "{server}: the list of {path} does not end within {PAGES_MAX} pages"
                )));
            }
            let mut page = format!("{path}{separator}limit={PAGE_SIZE}");
            if !token.is_empty() {
                page = format!("{page}&continue={}", escape_segment(&token));
            }
            let bytes = self.call(Method::GET, &page, None).await?;
            token = list_meta(&bytes).map_err(unreadable)?.continue_token;
            reading.push(tokio::task::spawn_blocking(move || serde_json::from_slice::<Page<T>>(&bytes)));
            if token.is_empty() {
                break;
            }
        }
        let mut items = Vec::new();
        for page in reading {
            let page = page.await.map_err(|error| Failure::Other(error.to_string()))?;
            items.extend(page.map_err(unreadable)?.items);
        }
        Ok(items)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.write(Method::POST, path, BodyType::Json, body).await
    }

    pub(crate) async fn merge_patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.write(Method::PATCH, path, BodyType::MergePatch, body).await
    }

    /// Server-side apply.
    pub(crate) async fn apply(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        self.write(Method::PATCH, &path, BodyType::Apply, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Failure> {
        parse(path, &self.call(Method::DELETE, path, None).await?)
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content: BodyType,
        body: &Value,
    ) -> Result<Value, Failure> {
        let bytes = body.to_string().into_bytes();
        parse(path, &self.call(method, path, Some((content, bytes))).await?)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<(BodyType, Vec<u8>)>,
    ) -> Result<Vec<u8>, Failure> {
        self.send_with_retries(method, path, body).await.map_err(|failure| self.with_advice(path, failure))
    }

    /// Adds advice to a refusal, where this program knows more than the server.
    fn with_advice(&self, path: &str, failure: Failure) -> Failure {
        if self.is_member && failure.is_unauthenticated() {
            return failure.with_advice(MEMBER_NOBODY);
        }
        if self.is_member {
            return failure.with_advice_on(403, MEMBER_RIGHTS);
        }
        if !self.lacks_project || !path.starts_with(&paths::project_prefix(&self.project)) {
            return failure;
        }
        let failure = failure.with_advice_on(404, NO_PROJECT);
        // A refusal by a project that exists has nothing to do with its name.
        if failure.has_causes() { failure } else { failure.with_advice_on(403, NO_PROJECT) }
    }

    /// Sends a request, and retries it as long as the server asks for that.
    async fn send_with_retries(
        &self,
        method: Method,
        path: &str,
        body: Option<(BodyType, Vec<u8>)>,
    ) -> Result<Vec<u8>, Failure> {
        let begun = Instant::now();
        let mut attempts = 1;
        loop {
            let response = self.send_once(request(&method, path, body.as_ref())?);
            let ended = match self.timeout {
                None => response.await,
                Some(after) => tokio::time::timeout(after.saturating_sub(begun.elapsed()), response)
                    .await
                    .map_err(|_elapsed| Failure::NoAnswer { server: self.server(), after })?,
            };
            let failure = match ended {
                Err(failure) if attempts < ATTEMPTS_MAX => failure,
                other => return other,
            };
            let Some(pause) = failure.retry_after() else { return Err(failure) };
            if self.timeout.is_some_and(|after| begun.elapsed() + pause >= after) {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            attempts += 1;
        }
    }

    async fn send_once(&self, request: Request<Body>) -> Result<Vec<u8>, Failure> {
        let unreachable = |error: kube::Error| {
            let unreachable = || Failure::Unreachable { server: self.server(), why: error_chain(&error) };
            plugin::failure(&self.config, &error).unwrap_or_else(unreachable)
        };
        let response = self.client.send(request).await.map_err(unreachable)?;
        let code = response.status();
        if self.warns {
            warnings(response.headers()).for_each(|text| screen::warn(&text));
        }
        let retry_after: Option<u32> = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let bytes = response.into_body().collect_bytes().await.map_err(unreachable)?;
        if code.is_success() {
            return Ok(bytes.into());
        }
        let status = serde_json::from_slice::<Status>(&bytes);
        Err(Failure::Refused(Box::new(status.unwrap_or_else(|_not_ours| {
            let status = http_error_status(code, &bytes);
            match retry_after {
                Some(seconds) => status.retry_after(seconds),
                None => status,
            }
        }))))
    }
}

/// The Status for an error response that is not a Status. HTML of a proxy and other JSON are not shown.
fn http_error_status(code: StatusCode, answer: &[u8]) -> Status {
    let text = String::from_utf8_lossy(answer);
    let text: String = text.trim().chars().take(300).collect();
    let has_no_text = text.is_empty() || text.starts_with(['<', '{', '[']);
    let text = if has_no_text { format!("the server answered {code}") } else { text };
    Status::failure(code.as_u16(), code.canonical_reason().unwrap_or_default(), text)
}

impl BodyType {
    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MergePatch => "application/merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

fn request(
    method: &Method,
    path: &str,
    body: Option<&(BodyType, Vec<u8>)>,
) -> Result<Request<Body>, Failure> {
    let mut request = Request::builder().method(method.clone()).uri(path);
    request = request.header(header::ACCEPT, "application/json, */*");
    // managedFields name the writer by it.
    request = request.header(header::USER_AGENT, USER_AGENT_NAME);
    if let Some((content, _)) = body {
        request = request.header(header::CONTENT_TYPE, content.media_type());
    }
    let bytes = body.map(|(_, bytes)| bytes.clone()).unwrap_or_default();
    request.body(Body::from(bytes)).map_err(|error| Failure::Usage(format!("{path}: {error}")))
}

fn parse<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| Failure::Unreadable(path.to_owned(), error))
}

/// The metadata of a list, which servers write before its items.
fn list_meta(list: &[u8]) -> Result<ListMeta, serde_json::Error> {
    let mut found = None;
    let read = serde_json::Deserializer::from_slice(list).deserialize_map(ListMetaVisitor(&mut found));
    // The visitor stops early: what it leaves unread is no error.
    found.map_or_else(|| read.map(|()| ListMeta::default()), Ok)
}

/// The server's warnings. They may contain UTF-8 beyond ASCII.
fn warnings(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(header::WARNING).iter();
    values.map(|value| sanitize(&warning(&String::from_utf8_lossy(value.as_bytes()))))
}

/// The text of `299 - "text"`.
fn warning(value: &str) -> String {
    let quoted = value.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"'));
    quoted.map_or(value, |(text, _)| text).replace("\\\"", "\"").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_proxy_is_not_told() {
        for (answer, expected) in [
            ("", "the server answered 502 Bad Gateway"),
            ("\n<html><body>nginx</body></html>", "the server answered 502 Bad Gateway"),
            ("{\"paths\":[\"/apis\"]}", "the server answered 502 Bad Gateway"),
            ("no upstream\n", "no upstream"),
        ] {
            assert_eq!(http_error_status(StatusCode::BAD_GATEWAY, answer.as_bytes()).message, expected);
        }
    }

    #[test]
    fn the_metadata_of_a_list_is_found_wherever_it_stands() {
        let token = |list: &str| list_meta(list.as_bytes()).map(|meta| meta.continue_token);
        assert_eq!(token(r#"{"kind": "L", "metadata": {"continue": "t"}, "items": [{}]}"#).unwrap(), "t");
        assert_eq!(
            token(r#"{"items": [{"metadata": {"continue": "no"}}], "metadata": {"continue": "t"}}"#).unwrap(),
            "t"
        );
        assert_eq!(token(r#"{"items": []}"#).unwrap(), "");
        for wrong in ["[]", "{\"items\": [", "{\"metadata\": 1}", ""] {
            assert!(token(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_text_of_a_warning_is_told() {
        assert_eq!(warning("299 - \"80% of \\\"pods\\\"\""), "80% of \"pods\"");
        assert_eq!(warning("odd"), "odd");
    }

    #[test]
    fn a_warning_has_any_letters_and_does_not_act_on_the_terminal() {
        let mut headers = HeaderMap::new();
        for value in ["299 - \"café\"".as_bytes(), b"299 - \"a\tb\"", b"299 - \"caf\xe9\""] {
            headers.append(header::WARNING, http::HeaderValue::from_bytes(value).unwrap());
        }
        let texts: Vec<String> = warnings(&headers).collect();
        assert_eq!(texts, ["café", "a\u{fffd}b", "caf\u{fffd}"]);
    }
}
