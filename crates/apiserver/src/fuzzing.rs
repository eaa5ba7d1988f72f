//! The parsers of this crate, for fuzzing. Not part of the library's interface.

use crate::authn::config::validate::TenantKeyPolicy;
use crate::authn::{expression, issuers, jwks, jwt};
use crate::caller::Caller;
use crate::request::Query;
use crate::response::{ResponseKind, Style};
use crate::verbs::options::{DeleteOptions, ListOptions, WriteKind, WriteOptions, resource_version};
use http::HeaderMap;
use meta::status::Status;
use serde_json::Value;

/// The negotiated form of an answer, as text.
pub fn style(headers: &HeaderMap, query: &str, watch: bool) -> Result<String, Status> {
    let response_kind = if watch { ResponseKind::Events } else { ResponseKind::Objects };
    let style = Style::of(headers, &Query::parse(Some(query)), response_kind)?;
    Ok(format!("{style:?}"))
}

/// Options of lists and watches.
pub fn list_options(query: &str, watch: bool) -> Result<String, Status> {
    let options = ListOptions::parse(&Query::parse(Some(query)), watch)?;
    resource_version(&options.resource_version)?;
    Ok(format!("{options:?}"))
}

/// Options of create, update, patch and apply.
pub fn write_options(query: &str, headers: &HeaderMap) -> Result<String, Status> {
    let query = Query::parse(Some(query));
    [WriteKind::Create, WriteKind::Update, WriteKind::Patch, WriteKind::Apply]
        .into_iter()
        .map(|kind| WriteOptions::parse(&query, headers, kind).map(|options| format!("{options:?}")))
        .collect()
}

/// Options of a delete from the query.
pub fn delete_options_of_query(query: &str) -> Result<String, Status> {
    DeleteOptions::from_query(&Query::parse(Some(query))).map(|options| format!("{options:?}"))
}

/// Options of a delete from a body.
pub fn delete_options(body: Value) -> Result<String, Status> {
    DeleteOptions::from_body(body, "example.com/v1").map(|options| format!("{options:?}"))
}

/// The issuer that a token names.
pub fn issuer_of(token: &str) -> Option<String> {
    jwt::issuer_of(token)
}

/// The callers that the claims of tokens are mapped to by the first issuer of a file, or what is wrong with the file.
pub fn claims(
    file: &[u8],
    tokens: &[serde_json::Map<String, Value>],
) -> Result<Vec<Result<Caller, String>>, String> {
    let no_tenants = TenantKeyPolicy { keys: &[], issuers: &[] };
    let (_, validated) = issuers::parse_and_validate(file, no_tenants)?;
    let Some(first) = validated.first() else { return Ok(Vec::new()) };
    expression::with_deep_stack(|| {
        tokens.iter().map(|claims| first.rules.caller(claims, &first.allowed_names)).collect()
    })
}

/// How many keys for signatures a JSON web key set has.
pub fn key_set(document: &[u8]) -> Result<usize, String> {
    jwks::count(document)
}
