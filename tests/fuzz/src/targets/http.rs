use crate::{Outcome, ensure, outcome, shape};
use apiserver::fuzzing;
use apiserver::request::{RequestInfo, ResourceRequest, Selectors, query};
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Uri};
use meta::decode::{Media, decode_value};

fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// `METHOD PATH?QUERY`. Written anew from what was understood, it is understood alike.
pub(super) fn url(input: &[u8]) -> Result<Outcome, String> {
    let whole = text(input);
    let (method, rest) = whole.split_once(' ').unwrap_or(("GET", &whole));
    let (Ok(method), Ok(uri)) = (method.parse::<Method>(), rest.parse::<Uri>()) else { return Ok(0) };
    let info = match RequestInfo::parse(&method, &uri) {
        Ok(info) => info,
        Err(status) => return Ok(outcome((status.code, shape(&status.message)))),
    };
    let asked = match &info {
        RequestInfo::Resource(asked) => asked,
        RequestInfo::Path(asked) => return Ok(outcome(shape(&asked.verb))),
    };
    let named = [&asked.namespace, &asked.name, &asked.selectors.name];
    let stays =
        named.iter().all(|name| !matches!(name.as_str(), "." | "..") && !name.contains(['/', '%', '\0']));
    ensure(stays, || format!("a name leaves its place: {asked:?}"))?;
    let mut parts = vec!["apis", &asked.group, &asked.version];
    if !asked.namespace.is_empty() {
        parts.extend(["namespaces", &asked.namespace]);
    }
    parts.push(&asked.resource);
    if !asked.name.is_empty() {
        parts.push(&asked.name);
        parts.extend(asked.subresource.split('/').filter(|part| !part.is_empty()));
    }
    let path: String = parts.iter().flat_map(|part| ["/".to_owned(), percent(part)]).collect();
    let again = uri.query().map_or(path.clone(), |query| format!("{path}?{query}"));
    if let Ok(again) = again.parse::<Uri>()
        && let Ok(RequestInfo::Resource(second)) = RequestInfo::parse(&method, &again)
    {
        let same = ResourceRequest { path: asked.path.clone(), ..(*second).clone() } == **asked;
        ensure(same, || format!("{asked:?} is understood as {second:?}"))?;
    }
    let sizes = (asked.namespace.is_empty(), asked.name.is_empty(), asked.subresource.is_empty());
    let Selectors { name, fields, labels } = &asked.selectors;
    let selectors = (name.is_empty(), fields.is_empty(), labels.is_empty());
    Ok(outcome((asked.verb, sizes, selectors)))
}

/// Pairs; each decoded value, encoded, is decoded to itself.
pub(super) fn query(input: &[u8]) -> Result<Outcome, String> {
    let text = text(input);
    let mut pairs = 0_usize;
    for (key, value) in query::pairs(&text) {
        for part in [&key, &value] {
            let again = percent(part);
            ensure(query::percent_decode(&again, true).as_deref() == Some(part), || {
                format!("{part:?} is lost")
            })?;
        }
        pairs += 1;
    }
    let flags = ["watch", "pretty", ""].map(|key| query::flag(&text, key));
    Ok(outcome((pairs.min(9), flags, query::first(&text, "limit").map(|value| value.len().min(9)))))
}

pub(super) fn duration(input: &[u8]) -> Result<Outcome, String> {
    let found = query::go_duration(&text(input));
    Ok(outcome(found.map(|duration| (duration.as_secs().ilog2_or_zero(), duration.subsec_nanos() == 0))))
}

trait Log {
    fn ilog2_or_zero(self) -> u32;
}

impl Log for u64 {
    fn ilog2_or_zero(self) -> u32 {
        self.checked_ilog2().unwrap_or_default()
    }
}

pub(super) fn accept(input: &[u8]) -> Result<Outcome, String> {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(ACCEPT, value);
        }
    }
    let answers = [false, true].map(|watch| match fuzzing::style(&headers, "", watch) {
        Ok(style) => shape(&style),
        Err(status) => shape(&status.message),
    });
    Ok(outcome(answers))
}

fn told(result: Result<String, meta::status::Status>) -> Outcome {
    match result {
        Ok(text) => outcome((0, shape(&text))),
        Err(status) => outcome((status.code, shape(&status.message))),
    }
}

pub(super) fn list_options(input: &[u8]) -> Result<Outcome, String> {
    let text = text(input);
    Ok(outcome([false, true].map(|watch| told(fuzzing::list_options(&text, watch)))))
}

pub(super) fn write_options(input: &[u8]) -> Result<Outcome, String> {
    let (agent, query) = input.split_at(input.len().min(24));
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(agent) {
        headers.insert(http::header::USER_AGENT, value);
    }
    let query = text(query);
    Ok(outcome((
        told(fuzzing::write_options(&query, &headers)),
        told(fuzzing::write_options(&text(input), &headers)),
    )))
}

/// The query and the body of a delete.
pub(super) fn delete_options(input: &[u8]) -> Result<Outcome, String> {
    let of_query = told(fuzzing::delete_options_of_query(&text(input)));
    let of_body = decode_value(input, Media::Yaml).map(|(body, _)| told(fuzzing::delete_options(body)));
    Ok(outcome((of_query, of_body.unwrap_or_default())))
}
