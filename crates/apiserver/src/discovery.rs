//! Discovery documents, legacy and aggregated, and the other paths that describe the server.

mod documents;

pub use documents::Documents;

use crate::response::{self, Style, bytes_response, clauses, rendered};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use documents::Document;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use meta::status::Status;

const DISCOVERY_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const DISCOVERY_V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
/// As kubectl and client-go ask for OpenAPI v2; the first name is no media type by the letter of the standard.
const OPENAPI_V2_PROTOBUF_ASKED: [&str; 2] =
    ["com.github.proto-openapi.spec.v2@v1.0+protobuf", "com.github.proto-openapi.spec.v2.v1.0+protobuf"];
const OPENAPI_V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// A moment far enough away for a document whose URL changes with its content.
const FAR_AWAY: &str = "Fri, 31 Dec 2100 23:59:59 GMT";

/// Answers a path that is no resource's.
pub(crate) fn answer(documents: &Documents, path: &str, request: &Request<Body>) -> Response<Body> {
    let headers = request.headers();
    let errors = Style::of_error(headers, request.uri());
    let style = Style::of_document(headers, request.uri());
    let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return response::failure(&Status::method_not_allowed(), &errors);
    }
    let query = request.uri().query();
    let answer = match path {
        "/apis" => group_list(documents, headers, &style),
        "/openapi/v2" if wants_protobuf(headers) => {
            Ok(with_etag(&documents.openapi_v2_protobuf, OPENAPI_V2_PROTOBUF, headers))
        }
        "/openapi/v2" => described(&documents.openapi_v2, headers, None),
        "/openapi/v3" => described(&documents.openapi_v3, headers, None),
        "/" | "" => Ok(rendered(StatusCode::OK, BytesMut::from(&*documents.paths), &style)),
        _ => match (documents.legacy(path), documents.openapi_v3_of(path)) {
            (Some(json), _) => legacy(json, headers, &style),
            (None, Some(document)) => described(document, headers, query),
            (None, None) => Ok(rendered(StatusCode::NOT_FOUND, BytesMut::from(&*documents.paths), &style)),
        },
    };
    answer.unwrap_or_else(|status| response::failure(&status, &errors))
}

fn legacy(json: &Bytes, headers: &HeaderMap, style: &Style) -> Result<Response<Body>, Status> {
    // There is no other form of them, such as a table.
    let acceptable = headers.get(ACCEPT).is_none_or(HeaderValue::is_empty)
        || clauses(headers).iter().any(|clause| {
            clause.parameter("as").is_none() && (clause.covers("json") || clause.covers("yaml"))
        });
    if !acceptable {
        return Err(Status::not_acceptable(&["application/json", "application/yaml"]));
    }
    Ok(rendered(StatusCode::OK, BytesMut::from(&**json), style))
}

/// `/apis`: aggregated for who asks for it, legacy for all others.
fn group_list(documents: &Documents, headers: &HeaderMap, style: &Style) -> Result<Response<Body>, Status> {
    if headers.get(ACCEPT).is_none_or(HeaderValue::is_empty) {
        return legacy(&documents.groups, headers, style);
    }
    for clause in clauses(headers) {
        let is_json = clause.covers("json");
        if !is_json && !clause.covers("yaml") {
            continue;
        }
        let wanted = (clause.parameter("g"), clause.parameter("v"), clause.parameter("as"));
        match wanted {
            (_, _, None) => return legacy(&documents.groups, headers, style),
            (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")) if is_json => {
                return Ok(aggregated(&documents.aggregated_v2, DISCOVERY_V2, headers));
            }
            (Some("apidiscovery.k8s.io"), Some("v2beta1"), Some("APIGroupDiscoveryList")) if is_json => {
                return Ok(aggregated(&documents.aggregated_v2beta1, DISCOVERY_V2BETA1, headers));
            }
            _ => {}
        }
    }
    Err(Status::not_acceptable(&["application/json", "application/yaml", DISCOVERY_V2, DISCOVERY_V2BETA1]))
}

fn aggregated(document: &Document, content_type: &'static str, headers: &HeaderMap) -> Response<Body> {
    let mut response = with_etag(document, content_type, headers);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// Whether protobuf is asked for, and before JSON.
fn wants_protobuf(headers: &HeaderMap) -> bool {
    let clauses = clauses(headers);
    let wanted = clauses
        .iter()
        .find(|c| c.covers("json") || OPENAPI_V2_PROTOBUF_ASKED.iter().any(|subtype| c.covers(subtype)));
    wanted.is_some_and(|clause| !clause.covers("json"))
}

/// An OpenAPI document. A stale hash in the URL gets the new document, not a redirect, which the aggregator refuses.
fn described(
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
    let hash = crate::verbs::query::Query::parse(query);
    if hash.get("hash") == Some(document.hash.as_str()) {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        response.headers_mut().insert(EXPIRES, HeaderValue::from_static(FAR_AWAY));
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
