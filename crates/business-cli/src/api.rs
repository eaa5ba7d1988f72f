//! Calls of the public API. The server's words are kept: a refusal is its Status, and warnings are shown at once.

use crate::failure::{Failure, whole};
use crate::paths::{self, segment};
use crate::plugin;
use crate::screen::{self, harmless};
use http::{HeaderMap, Method, Request, StatusCode, header};
use kube::client::Body;
use kube::{Client, Config};
use meta::status::{ListMeta, Status};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::time::{Duration, Instant};

/// Objects of a page.
const PAGE: usize = 2000;
/// The most pages of a list: a server that always promises one more would be read for ever.
const PAGES_MAX: usize = 500;
/// How often a list that expires while it is read is begun anew.
const LISTS_MAX: usize = 3;
/// How often a call is made if the server asks to repeat it.
const TRIES_MAX: u32 = 10;
/// As it names itself to servers.
const AGENT: &str = concat!("kubectl-business/", env!("CARGO_PKG_VERSION"));
/// The field manager of what this program applies.
pub(crate) const FIELD_MANAGER: &str = "kubectl-business";

/// One server, as one caller.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    /// Where it is.
    pub(crate) config: Config,
    /// The project of namespaces for which none is named.
    pub(crate) project: String,
    timeout: Option<Duration>,
    /// Whether what the server warns of is told.
    warns: bool,
    /// Whether it is a member cluster, where the platform's roles do not count.
    is_member: bool,
    /// Whether no project was named, and `project` is what kubectl takes then.
    lacks_project: bool,
}

/// What to do where a member cluster refuses.
const MEMBER_RIGHTS: &str = "it is the member cluster that refuses: the kubeconfig that was given for it (--kubeconfig, \
                             --member-context) has no rights for this there; take one of somebody who rules that cluster";
const MEMBER_NOBODY: &str = "it is the member cluster that refuses: the kubeconfig that was given for it (--kubeconfig, \
                             --member-context) has no credentials there, or none that are good any more; take a fresh one";
/// What to do where no project was named.
const NO_PROJECT: &str = "no project was named: -n PROJECT names it for this call, `kubectl config set-context --current \
                          --namespace=PROJECT` for all; `kubectl business tree` shows which there are";

/// The objects of a page of a list.
#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

/// Finds the metadata of a list, and reads no further.
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

/// The kind of a body.
#[derive(Clone, Copy, Debug)]
enum Content {
    Json,
    MergePatch,
    Apply,
}

impl Api {
    pub(crate) fn new(mut config: Config, project: String, timeout: Duration) -> Result<Self, Failure> {
        // kube would repeat calls for minutes, without a word, and even a write that may have been done.
        config.default_retry = false;
        let client = Client::try_from(config.clone()).map_err(|error| {
            plugin::failure(&config, &error).unwrap_or_else(|| Failure::Kubeconfig(whole(&error)))
        })?;
        let timeout = (!timeout.is_zero()).then_some(timeout);
        Ok(Self { client, config, project, timeout, warns: true, is_member: false, lacks_project: false })
    }

    /// The same of a member cluster.
    pub(crate) fn of_member(self) -> Self {
        Self { is_member: true, ..self }
    }

    /// The same, where no project was named.
    pub(crate) fn lacking_project(self) -> Self {
        Self { lacks_project: true, ..self }
    }

    /// The same, for calls whose warnings are not shown.
    pub(crate) fn silent(&self) -> Self {
        Self { warns: false, ..self.clone() }
    }

    /// The project that was named, for output that no server checks.
    pub(crate) fn named_project(&self) -> Result<&str, Failure> {
        if self.lacks_project { Err(Failure::Usage(NO_PROJECT.to_owned())) } else { Ok(&self.project) }
    }

    /// The server's address.
    pub(crate) fn server(&self) -> String {
        self.config.cluster_url.to_string().trim_end_matches('/').to_owned()
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(path, &self.call(Method::GET, path, None).await?)
    }

    /// The same; `None` where there is none for the caller.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub(crate) async fn text(&self, path: &str) -> Result<String, Failure> {
        let bytes = self.call(Method::GET, path, None).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// All objects of a collection, page by page.
    pub(crate) async fn list<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
    ) -> Result<Vec<T>, Failure> {
        let mut tries = 1;
        loop {
            match self.pages(path).await {
                Err(Failure::Refused(status)) if status.code == 410 && tries < LISTS_MAX => tries += 1,
                other => return other,
            }
        }
    }

    /// A page is read on a thread beside while the next one is fetched.
    async fn pages<T: DeserializeOwned + Send + 'static>(&self, path: &str) -> Result<Vec<T>, Failure> {
        let unreadable = |error| Failure::Unreadable(path.to_owned(), error);
        let joint = if path.contains('?') { '&' } else { '?' };
        let (mut reading, mut token) = (Vec::new(), String::new());
        loop {
            if reading.len() >= PAGES_MAX {
                let server = self.server();
                return Err(Failure::Stopped(format!(
                    "{server}: the list of {path} does not end within {PAGES_MAX} pages"
                )));
            }
            let mut page = format!("{path}{joint}limit={PAGE}");
            if !token.is_empty() {
                page = format!("{page}&continue={}", segment(&token));
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
            let page = page.await.map_err(|error| Failure::Stopped(error.to_string()))?;
            items.extend(page.map_err(unreadable)?.items);
        }
        Ok(items)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.write(Method::POST, path, Content::Json, body).await
    }

    pub(crate) async fn merge_patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.write(Method::PATCH, path, Content::MergePatch, body).await
    }

    /// Server-side apply.
    pub(crate) async fn apply(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        self.write(Method::PATCH, &path, Content::Apply, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Failure> {
        read(path, &self.call(Method::DELETE, path, None).await?)
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: &Value,
    ) -> Result<Value, Failure> {
        let bytes = body.to_string().into_bytes();
        read(path, &self.call(method, path, Some((content, bytes))).await?)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<(Content, Vec<u8>)>,
    ) -> Result<Vec<u8>, Failure> {
        self.repeated(method, path, body).await.map_err(|failure| self.advised(path, failure))
    }

    /// A refusal, with advice where this program knows better than the server that has refused.
    fn advised(&self, path: &str, failure: Failure) -> Failure {
        if self.is_member && failure.is_anonymous() {
            return failure.with_next(MEMBER_NOBODY);
        }
        if self.is_member {
            return failure.advised(403, MEMBER_RIGHTS);
        }
        if !self.lacks_project || !path.starts_with(&paths::in_project(&self.project)) {
            return failure;
        }
        let failure = failure.advised(404, NO_PROJECT);
        // A refusal by a project that exists has nothing to do with its name.
        if failure.has_causes() { failure } else { failure.advised(403, NO_PROJECT) }
    }

    /// Repeats a call when the server asks to.
    async fn repeated(
        &self,
        method: Method,
        path: &str,
        body: Option<(Content, Vec<u8>)>,
    ) -> Result<Vec<u8>, Failure> {
        let begun = Instant::now();
        let mut tries = 1;
        loop {
            let answered = self.answered(request(&method, path, body.as_ref())?);
            let ended = match self.timeout {
                None => answered.await,
                Some(after) => tokio::time::timeout(after.saturating_sub(begun.elapsed()), answered)
                    .await
                    .map_err(|_elapsed| Failure::NoAnswer { server: self.server(), after })?,
            };
            let failure = match ended {
                Err(failure) if tries < TRIES_MAX => failure,
                other => return other,
            };
            let Some(pause) = failure.patience() else { return Err(failure) };
            if self.timeout.is_some_and(|after| begun.elapsed() + pause >= after) {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            tries += 1;
        }
    }

    async fn answered(&self, request: Request<Body>) -> Result<Vec<u8>, Failure> {
        let unreachable = |error: kube::Error| {
            let unreachable = || Failure::Unreachable { server: self.server(), why: whole(&error) };
            plugin::failure(&self.config, &error).unwrap_or_else(unreachable)
        };
        let response = self.client.send(request).await.map_err(unreachable)?;
        let code = response.status();
        if self.warns {
            warnings(response.headers()).for_each(|text| screen::warn(&text));
        }
        let patience: Option<u32> = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let bytes = response.into_body().collect_bytes().await.map_err(unreachable)?;
        if code.is_success() {
            return Ok(bytes.into());
        }
        let told = serde_json::from_slice::<Status>(&bytes);
        Err(Failure::Refused(Box::new(told.unwrap_or_else(|_not_ours| {
            let bare = bare(code, &bytes);
            match patience {
                Some(seconds) => bare.retry_after(seconds),
                None => bare,
            }
        }))))
    }
}

/// An answer that is no Status. The page of a proxy is for browsers, and JSON for programs.
fn bare(code: StatusCode, answer: &[u8]) -> Status {
    let text = String::from_utf8_lossy(answer);
    let text: String = text.trim().chars().take(300).collect();
    let says_nothing = text.is_empty() || text.starts_with(['<', '{', '[']);
    let text = if says_nothing { format!("the server answered {code}") } else { text };
    Status::failure(code.as_u16(), code.canonical_reason().unwrap_or_default(), text)
}

impl Content {
    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MergePatch => "application/merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

fn request(method: &Method, path: &str, body: Option<&(Content, Vec<u8>)>) -> Result<Request<Body>, Failure> {
    let mut request = Request::builder().method(method.clone()).uri(path);
    request = request.header(header::ACCEPT, "application/json, */*");
    // What it writes is kept under this name in managedFields.
    request = request.header(header::USER_AGENT, AGENT);
    if let Some((content, _)) = body {
        request = request.header(header::CONTENT_TYPE, content.media_type());
    }
    let bytes = body.map(|(_, bytes)| bytes.clone()).unwrap_or_default();
    request.body(Body::from(bytes)).map_err(|error| Failure::Usage(format!("{path}: {error}")))
}

fn read<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| Failure::Unreadable(path.to_owned(), error))
}

/// The metadata of a list, which servers write before its items.
fn list_meta(list: &[u8]) -> Result<ListMeta, serde_json::Error> {
    let mut found = None;
    let read = serde_json::Deserializer::from_slice(list).deserialize_map(ListMetaVisitor(&mut found));
    // If it was found, the rest of the list after it is no error.
    found.map_or_else(|| read.map(|()| ListMeta::default()), Ok)
}

/// The server's warnings. They may name things in any letters, as UTF-8.
fn warnings(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(header::WARNING).iter();
    values.map(|value| harmless(&warning(&String::from_utf8_lossy(value.as_bytes()))))
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
        for (answer, told) in [
            ("", "the server answered 502 Bad Gateway"),
            ("\n<html><body>nginx</body></html>", "the server answered 502 Bad Gateway"),
            ("{\"paths\":[\"/apis\"]}", "the server answered 502 Bad Gateway"),
            ("no upstream\n", "no upstream"),
        ] {
            assert_eq!(bare(StatusCode::BAD_GATEWAY, answer.as_bytes()).message, told);
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
        let told: Vec<String> = warnings(&headers).collect();
        assert_eq!(told, ["café", "a\u{fffd}b", "caf\u{fffd}"]);
    }
}
