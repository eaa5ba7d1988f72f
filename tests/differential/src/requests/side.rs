//! One side: sends requests with their symbols filled in, and gives answers with symbols again.

use super::memory::Memory;
use super::plan::Request;
use anyhow::{Context, Result};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use kit::{Connection, Endpoint};
use meta::protobuf;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long an answer may take, its end included.
const ANSWER: Duration = Duration::from_secs(20);
/// Headers that clients read.
const HEADERS: [&str; 5] = ["content-type", "cache-control", "retry-after", "allow", "location"];

/// An answer, comparable.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SideAnswer {
    pub(crate) code: u16,
    pub(crate) headers: BTreeMap<String, String>,
    /// Texts of the `Warning` headers, sorted.
    pub(crate) warnings: Vec<String>,
    /// How the body is written.
    pub(crate) form: &'static str,
    /// The body; a stream's events as a list.
    pub(crate) body: Value,
}

impl SideAnswer {
    pub(crate) fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.text("/message")
    }
}

/// One of both servers, and what was seen of it.
pub(crate) struct Side {
    endpoint: Endpoint,
    connection: Option<Connection>,
    pub(crate) memory: Memory,
}

impl Side {
    pub(crate) fn new(endpoint: Endpoint, group: &'static str) -> Self {
        Self { endpoint, connection: None, memory: Memory::new(group) }
    }

    /// Asks, and reads the whole answer.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<SideAnswer> {
        for _attempt in 0..2 {
            // A server may close a connection whose request it did not read to the end.
            match tokio::time::timeout(ANSWER, self.exchange(request)).await {
                Ok(Ok((code, headers, bytes))) => return Ok(self.read(request, code, &headers, &bytes)),
                Ok(Err(_)) => self.connection = None,
                Err(_elapsed) => {
                    self.connection = None;
                    return Ok(SideAnswer { form: "no answer", ..SideAnswer::default() });
                }
            }
        }
        Ok(SideAnswer { form: "no answer", ..SideAnswer::default() })
    }

    async fn exchange(&mut self, request: &Request) -> Result<(u16, HeaderMap, Bytes)> {
        let body = request.body.as_deref().map(|body| self.memory.fill(body)).unwrap_or_default();
        let mut builder = http::Request::builder()
            .method(request.method)
            .uri(self.uri(request))
            .header("user-agent", "differ/1.0");
        let accept = request.headers.iter().any(|(name, _)| *name == "accept");
        if !accept {
            builder = builder.header("accept", "application/json");
        }
        for (name, value) in request.headers.iter().filter(|(_, value)| !value.is_empty()) {
            builder = builder.header(*name, value);
        }
        let wire = builder.body(Full::new(Bytes::from(body)))?;
        if self.connection.is_none() {
            self.connection = Some(self.endpoint.connect().await?);
        }
        let connection = self.connection.as_mut().context("no connection")?;
        let (parts, body) = connection.send(wire).await?.into_parts();
        Ok((parts.status.as_u16(), parts.headers, body.collect().await?.to_bytes()))
    }

    fn uri(&self, request: &Request) -> String {
        let mut uri = self.memory.fill(&request.path);
        for (index, (name, value)) in request.query.iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.push_str(name);
            uri.push('=');
            for byte in self.memory.fill(value).bytes() {
                if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
                    uri.push(char::from(byte));
                } else {
                    uri.extend(["%", &format!("{byte:02X}")]);
                }
            }
        }
        uri
    }

    fn read(&mut self, request: &Request, code: u16, headers: &HeaderMap, bytes: &[u8]) -> SideAnswer {
        let all = |name: &str| -> Vec<String> {
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
        };
        let kept = HEADERS
            .iter()
            .filter(|name| headers.contains_key(**name))
            .map(|name| {
                // Behind the aggregator both servers write some of them.
                let mut values = all(name);
                values.dedup();
                ((*name).to_owned(), values.join(", "))
            })
            .collect::<BTreeMap<_, _>>();
        let content = kept.get("content-type").cloned().unwrap_or_default();
        let (form, mut body) = read_body(request, code, &content, bytes);
        if form == "events" {
            self.memory.sort_initial(request, &mut body);
        }
        self.memory.rewrite(&mut body);
        let mut warnings: Vec<String> =
            all("warning").iter().map(|text| self.memory.words(text, true)).collect();
        warnings.sort();
        SideAnswer { code, headers: kept, warnings, form, body }
    }
}

fn read_body(request: &Request, code: u16, content: &str, bytes: &[u8]) -> (&'static str, Value) {
    let text = String::from_utf8_lossy(bytes);
    if bytes.is_empty() {
        return ("nothing", Value::Null);
    }
    if content.starts_with("application/json") {
        if request.is_watch() && code == 200 && !text.starts_with("{\"kind\"") {
            let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
            return ("events", Value::Array(events));
        }
        if let Ok(value) = serde_json::from_str(&text) {
            return (if text.starts_with("{\n ") { "indented" } else { "json" }, value);
        }
    }
    if content == "application/vnd.kubernetes.protobuf"
        && let Ok(value) = protobuf::decode(bytes, "")
    {
        return ("protobuf", value);
    }
    if content == "application/vnd.kubernetes.protobuf;stream=watch"
        && let Some(events) = frames(bytes)
    {
        return ("events", Value::Array(events));
    }
    if content.starts_with("application/yaml")
        && let Ok(value) = serde_yaml_ng::from_str(&text)
    {
        return ("yaml", value);
    }
    ("text", json!(text))
}

/// The events of a stream in protobuf.
fn frames(mut bytes: &[u8]) -> Option<Vec<Value>> {
    let mut events = Vec::new();
    while let Some(length) = bytes.split_off(..size_of::<u32>()) {
        let length = u32::from_be_bytes(length.try_into().ok()?);
        let event = bytes.split_off(..usize::try_from(length).ok()?)?;
        events.push(protobuf::decode_event(event).ok()?);
    }
    bytes.is_empty().then_some(events)
}
