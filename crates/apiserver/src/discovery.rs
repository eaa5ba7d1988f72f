//! The routes of the discovery documents, legacy and aggregated, and of the OpenAPI documents. Every authenticated
//! caller may read them.

mod documents;

pub use documents::Documents;

use crate::authz::RouteAccess;
use crate::request::Query;
use crate::response::{self, Style, bytes_response, clauses, rendered_response};
use crate::routes::{PathMatch, Route};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use documents::Document;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Request, Response, StatusCode};
use meta::status::Status;
use std::sync::Arc;

const DISCOVERY_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const DISCOVERY_V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
/// The subtypes with which kubectl and client-go ask for OpenAPI v2. The first one is not valid by the standard.
const OPENAPI_V2_PROTOBUF_ACCEPTED: [&str; 2] =
    ["com.github.proto-openapi.spec.v2@v1.0+protobuf", "com.github.proto-openapi.spec.v2.v1.0+protobuf"];
const OPENAPI_V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// `Expires` of a document whose URL changes with its content.
const FAR_FUTURE: &str = "Fri, 31 Dec 2100 23:59:59 GMT";

impl Documents {
    /// Where the documents are served.
    pub fn routes(self: &Arc<Self>) -> Vec<Route> {
        let of = |root: &str| {
            let documents = Arc::clone(self);
            Route::document(root, RouteAccess::Authenticated, move |cx, request| {
                let answer = answer(&documents, cx.info.path(), request);
                answer.unwrap_or_else(|status| {
                    response::error_response(&status, &Style::of_error(request.headers(), request.uri()))
                })
            })
            .with_path_match(PathMatch::Prefix)
            .with_index_paths(self.paths().filter(|path| path.starts_with(root)).map(str::to_owned))
        };
        vec![of("/apis"), of("/openapi")]
    }
}

fn answer(documents: &Documents, path: &str, request: &Request<Body>) -> Result<Response<Body>, Status> {
    let headers = request.headers();
    let style = Style::of_document(headers, request.uri());
    let query = request.uri().query();
    match path.trim_end_matches('/') {
        "/apis" => group_list(documents, headers, &style),
        "/openapi/v2" if wants_protobuf(headers) => {
            Ok(with_etag(&documents.openapi_v2_protobuf, OPENAPI_V2_PROTOBUF, headers))
        }
        "/openapi/v2" => openapi_response(&documents.openapi_v2, headers, None),
        "/openapi/v3" => openapi_response(&documents.openapi_v3, headers, None),
        path => match (documents.legacy(path), documents.openapi_v3_of(path)) {
            (Some(json), _) => legacy_response(json, headers, &style),
            (None, Some(document)) => openapi_response(document, headers, query),
            (None, None) => Err(Status::no_such_path()),
        },
    }
}

fn legacy_response(json: &Bytes, headers: &HeaderMap, style: &Style) -> Result<Response<Body>, Status> {
    // These documents have no other form, such as a table.
    let acceptable = headers.get(ACCEPT).is_none_or(HeaderValue::is_empty)
        || clauses(headers).iter().any(|clause| {
            clause.parameter("as").is_none() && (clause.covers("json") || clause.covers("yaml"))
        });
    if !acceptable {
        return Err(Status::not_acceptable(&["application/json", "application/yaml"]));
    }
    Ok(rendered_response(StatusCode::OK, BytesMut::from(&**json), style))
}

/// `/apis`: aggregated for clients that ask for it, legacy for all others.
fn group_list(documents: &Documents, headers: &HeaderMap, style: &Style) -> Result<Response<Body>, Status> {
    if headers.get(ACCEPT).is_none_or(HeaderValue::is_empty) {
        return legacy_response(&documents.groups, headers, style);
    }
    for clause in clauses(headers) {
        let is_json = clause.covers("json");
        if !is_json && !clause.covers("yaml") {
            continue;
        }
        let wanted = (clause.parameter("g"), clause.parameter("v"), clause.parameter("as"));
        match wanted {
            (_, _, None) => return legacy_response(&documents.groups, headers, style),
            (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")) if is_json => {
                return Ok(aggregated_response(&documents.aggregated_v2, DISCOVERY_V2, headers));
            }
            (Some("apidiscovery.k8s.io"), Some("v2beta1"), Some("APIGroupDiscoveryList")) if is_json => {
                return Ok(aggregated_response(&documents.aggregated_v2beta1, DISCOVERY_V2BETA1, headers));
            }
            _ => {}
        }
    }
    Err(Status::not_acceptable(&["application/json", "application/yaml", DISCOVERY_V2, DISCOVERY_V2BETA1]))
}

fn aggregated_response(
    document: &Document,
    content_type: &'static str,
    headers: &HeaderMap,
) -> Response<Body> {
    let mut response = with_etag(document, content_type, headers);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// Whether the client prefers protobuf to JSON.
fn wants_protobuf(headers: &HeaderMap) -> bool {
    let clauses = clauses(headers);
    let wanted = clauses
        .iter()
        .find(|c| c.covers("json") || OPENAPI_V2_PROTOBUF_ACCEPTED.iter().any(|subtype| c.covers(subtype)));
    wanted.is_some_and(|clause| !clause.covers("json"))
}

/// An OpenAPI document. A request with an old hash gets the new document, since the aggregator does not follow a
/// redirect.
fn openapi_response(
    document: &Document,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Response<Body>, Status> {
    let acceptable = headers.get(ACCEPT).is_none_or(HeaderValue::is_empty)
        || clauses(headers).iter().any(|clause| clause.covers("json"));
    if !acceptable {
        return Err(Status::not_acceptable(&["application/json"]));
    }
    let mut response = with_etag(document, "application/json", headers);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    let hash = Query::parse(query);
    if hash.get("hash") == Some(document.hash.as_str()) {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        response.headers_mut().insert(EXPIRES, HeaderValue::from_static(FAR_FUTURE));
    }
    Ok(response)
}

fn with_etag(document: &Document, content_type: &'static str, headers: &HeaderMap) -> Response<Body> {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|text| {
        text.split(',')
            .map(|tag| tag.trim().trim_start_matches("W/"))
            .any(|tag| tag == document.etag || tag == "*")
    });
    let mut response = if known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        bytes_response(StatusCode::OK, content_type, document.json.clone())
    };
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}
