//! Content negotiation, tables, `PartialObjectMetadata`, and errors.

mod list;
mod negotiate;
mod protobuf;
mod raw_metadata;
mod render;
mod warning;
mod yaml;

pub(crate) use list::list_response;
pub(crate) use negotiate::{AcceptedFormat, Form, Media, PROTOBUF, PROTOBUF_STREAM, ResponseKind, clauses};
pub(crate) use protobuf::{event_frame, status_body};
pub(crate) use render::{IncludeObject, Renderer};
pub(crate) use warning::add_warnings;

use crate::request::Query;
use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode, Uri};
use meta::status::Status;
use serde_json::Value;

/// The negotiated form of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    pub(crate) accepted: AcceptedFormat,
    pub(crate) pretty: bool,
    pub(crate) gzip: bool,
}

impl Style {
    /// Negotiates it; 406 if the client accepts nothing that is offered.
    pub(crate) fn of(
        headers: &HeaderMap,
        query: &Query,
        response_kind: ResponseKind,
    ) -> Result<Self, Status> {
        let accepted = negotiate::negotiate(headers, response_kind)?;
        let pretty = match query.text("pretty") {
            "" => is_for_a_person(headers),
            text => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        } || accepted.pretty;
        Ok(Self { accepted, pretty, gzip: accepts_gzip(headers) })
    }

    /// The style of an error: JSON if the client accepts nothing that is offered.
    pub(crate) fn of_error(headers: &HeaderMap, uri: &Uri) -> Self {
        Self::of_failure(headers, &Query::parse(uri.query()))
    }

    /// The same, for a query that is parsed already.
    pub(crate) fn of_failure(headers: &HeaderMap, query: &Query) -> Self {
        Self::of(headers, query, ResponseKind::Failure).unwrap_or_default()
    }

    /// The style of a document about the server. Its route checks the clauses of `Accept` itself.
    pub(crate) fn of_document(headers: &HeaderMap, uri: &Uri) -> Self {
        Self::of(headers, &Query::parse(uri.query()), ResponseKind::Document).unwrap_or_default()
    }

    /// Whether the rendered bytes need not be converted.
    fn is_plain(&self) -> bool {
        match self.accepted.media {
            Media::Json => !self.pretty,
            Media::Yaml => false,
            Media::Protobuf => true,
        }
    }
}

fn is_for_a_person(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

/// The answer to a request that failed, in the media type that it accepts.
pub fn status_response(status: &Status, headers: &HeaderMap, uri: &Uri) -> Response<Body> {
    error_response(status, &Style::of_error(headers, uri))
}

pub(crate) fn error_response(status: &Status, style: &Style) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = render_status(code, status, style);
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if code == StatusCode::FORBIDDEN {
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

/// Renders a Status, which can be in any media type.
pub(crate) fn render_status(code: StatusCode, status: &Status, style: &Style) -> Response<Body> {
    let mut out = BytesMut::new();
    if style.accepted.media == Media::Protobuf {
        status_body(status, &mut out);
    } else if let Err(error) = serde_json::to_writer((&mut out).writer(), status) {
        tracing::error!(%error, "serialise an answer");
        return bytes_response(StatusCode::INTERNAL_SERVER_ERROR, "application/json", Bytes::new());
    }
    rendered_response(code, out, style)
}

/// Renders a document, which cannot be a table or metadata alone.
pub(crate) fn document_response(code: StatusCode, value: &Value, style: &Style) -> Response<Body> {
    rendered_response(code, BytesMut::from(value.to_string().as_str()), style)
}

/// An answer that is rendered as JSON already. It is converted for YAML, and indented for people.
pub(crate) fn rendered_response(code: StatusCode, bytes: BytesMut, style: &Style) -> Response<Body> {
    bytes_response(code, style.accepted.media.content_type(), finish(bytes, style))
}

/// The bytes of the body. JSON ends with a newline.
fn finish(mut bytes: BytesMut, style: &Style) -> Bytes {
    if !style.is_plain()
        && let Ok(value) = serde_json::from_slice::<Value>(&bytes)
    {
        if style.accepted.media == Media::Yaml {
            return meta::yaml::to_string(&value).map_or_else(|_| bytes.freeze(), Bytes::from);
        }
        if let Ok(text) = serde_json::to_string_pretty(&value) {
            bytes = BytesMut::from(text.as_str());
        }
    }
    bytes.put_slice(style.accepted.media.end());
    bytes.freeze()
}

pub(crate) fn bytes_response(code: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    body_response(code, content_type, Body::from(bytes))
}

pub(crate) fn body_response(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use meta::gvk::GroupResource;

    async fn text(response: Response<Body>) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (k.parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    #[tokio::test]
    async fn a_failure_is_a_status_whatever_was_asked_for() {
        let status = Status::not_found(&GroupResource::new("g", "as"), "x").retry_after(2);
        let table = headers(&[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")]);
        let response = status_response(&status, &table, &Uri::from_static("/x"));
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()["retry-after"], "2");
        assert_eq!(response.headers()["content-type"], "application/json");
        let body = text(response).await;
        assert_eq!(
            body,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"as.g \
             \\\"x\\\" not found\",\"reason\":\"NotFound\",\"details\":{\"name\":\"x\",\"group\":\"g\",\"kind\":\"as\",\
             \"retryAfterSeconds\":2},\"code\":404}\n"
        );
        let nothing = headers(&[("accept", "text/html")]);
        assert!(text(status_response(&status, &nothing, &Uri::from_static("/x"))).await.starts_with('{'));
        let yaml = headers(&[("accept", "application/yaml")]);
        assert!(
            text(status_response(&status, &yaml, &Uri::from_static("/x")))
                .await
                .contains("reason: NotFound\n")
        );
    }

    #[tokio::test]
    async fn a_failure_is_told_in_protobuf_to_who_takes_it() {
        let status = Status::not_found(&GroupResource::new("g", "as"), "x");
        let plain = headers(&[("accept", "application/vnd.kubernetes.protobuf, application/json")]);
        let response = status_response(&status, &plain, &Uri::from_static("/x"));
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()["content-type"], PROTOBUF);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let told = meta::protobuf::decode(&bytes, "").unwrap();
        assert_eq!(told["message"], "as.g \"x\" not found");
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let partial = status_response(&status, &headers(&[("accept", partial)]), &Uri::from_static("/x"));
        assert_eq!(partial.headers()["content-type"], "application/json");
    }

    #[test]
    fn people_get_indented_answers() {
        let of = |pairs: &[_], query| {
            Style::of(&headers(pairs), &Query::parse(Some(query)), ResponseKind::Objects).unwrap()
        };
        assert!(of(&[], "pretty=1").pretty);
        assert!(of(&[("user-agent", "curl/8")], "").pretty);
        assert!(!of(&[("user-agent", "curl/8")], "pretty=0").pretty);
        assert!(!of(&[("user-agent", "kubectl/v1")], "").pretty);
        assert!(of(&[("accept-encoding", "deflate, gzip;q=0.5")], "").gzip);
        assert!(!of(&[("accept-encoding", "gzip;q=0")], "").gzip);
    }
}
