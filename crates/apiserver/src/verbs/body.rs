//! Request bodies: the limits of their size and memory, their media type, and their decoding.

use crate::caller::Caller;
use crate::flow::{InFlightLimiter, InFlightPermit, PriorityLevel};
use crate::resource::Resource;
use crate::response::PROTOBUF;
use crate::transfer_rate;
use crate::verbs::{Call, nul};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use meta::decode::{self, DecodeError, FieldValidation, Media};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use meta::status::Status;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Generated Go clients may send objects in protobuf unless they are configured otherwise.
const PROTOBUF_REFUSED: &str = "the body of the request is in protobuf, and objects of this group are sent and \
     received as JSON or YAML: set the content type application/json (in a client of client-go: \
     rest.Config.ContentType, with AcceptContentTypes empty or the same)";
/// Most bytes of a request body.
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How long a body may take in addition to the time that its bytes need at the minimum rate. The request holds its
/// in-flight permit meanwhile.
const BODY_BASE_TIMEOUT: Duration = Duration::from_secs(10);
/// A body that may need more bytes of memory than this when it is decoded is heavy, and needs a permit.
const HEAVY_BODY_THRESHOLD: usize = 1024 * 1024;

/// Reads the body of a write. A heavy body needs a permit, which it holds until the write is answered; 429 if there is
/// none. The permit is acquired after the whole body has arrived: a client that sends slowly takes none away from
/// others.
pub(crate) async fn read_for_write(call: &mut Call<'_>, body: Body) -> Result<Bytes, Status> {
    let bytes = read(body).await?;
    call.heavy_permit = heavy_body_permit(call, &bytes)?;
    Ok(bytes)
}

/// The permit for a body, if it is heavy.
pub(crate) fn heavy_body_permit(call: &Call<'_>, body: &[u8]) -> Result<Option<InFlightPermit>, Status> {
    // Patches have their own media types, which are JSON except for that of an apply.
    let media = if content_type(&call.headers).ends_with("yaml") { Media::Yaml } else { Media::Json };
    let caller = &call.cx.caller;
    let authorization = call.cx.authorization.as_ref();
    let priority = || {
        authorization.map_or(PriorityLevel::Ordinary, |authorization| authorization.priority_level(caller))
    };
    let limiter = &call.api.heavy_bodies;
    try_acquire(limiter, caller, priority, body, media).inspect_err(|_no_room| {
        limiter.log_rejection(caller, "heavy bodies");
        if let Some(authorization) = authorization {
            authorization.record_too_many_requests();
        }
    })
}

fn try_acquire(
    limiter: &Arc<InFlightLimiter>,
    caller: &Caller,
    priority: impl FnOnce() -> PriorityLevel,
    body: &[u8],
    media: Media,
) -> Result<Option<InFlightPermit>, Status> {
    if decode::memory_bytes_max(body, media).is_some_and(|bytes| bytes <= HEAVY_BODY_THRESHOLD) {
        return Ok(None);
    }
    limiter.try_acquire(caller, priority()).map(Some).ok_or_else(|| Status::too_many_requests(1))
}

/// Reads the body; 413 if it is too large, 504 if it does not arrive in time.
pub(crate) async fn read(body: Body) -> Result<Bytes, Status> {
    let started = Instant::now();
    let mut body = Limited::new(body, BODY_BYTES_MAX);
    let (mut whole, mut length) = (BytesMut::new(), 0_u64);
    loop {
        let until = started + transfer_rate::timeout_for(length, BODY_BASE_TIMEOUT);
        match timeout_at(until, body.frame()).await {
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    whole.extend_from_slice(data);
                    length = u64::try_from(whole.len()).unwrap_or(u64::MAX);
                }
            }
            Ok(Some(Err(error))) if error.is::<LengthLimitError>() => {
                let text = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
                return Err(Status::too_large(text));
            }
            Ok(Some(Err(error))) => {
                return Err(Status::bad_request(format!("read the request's body: {error}")));
            }
            Err(_elapsed) => return Err(Status::timeout("the body of the request did not come in time", 0)),
        }
    }
}

/// The media type without its parameters; empty if none is given.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The media type of the body; 415 if it is not supported. A body without a type is JSON.
pub(crate) fn media(headers: &HeaderMap) -> Result<Media, Status> {
    match content_type(headers).as_str() {
        "" | "application/json" => Ok(Media::Json),
        "application/yaml" => Ok(Media::Yaml),
        PROTOBUF => Err(Status::failure(415, "UnsupportedMediaType", PROTOBUF_REFUSED)),
        _ => Err(Status::unsupported_media_type(&["application/json", "application/yaml"])),
    }
}

/// An object that was decoded from a body, with its defaults.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Object,
    /// Fields that were dropped.
    pub(crate) warnings: Vec<String>,
}

/// Decodes a body as an object of a kind.
pub(crate) fn decode(
    body: &[u8],
    media: Media,
    gvk: &GroupVersionKind,
    schema: &Schema,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let (mut value, mut warnings) =
        decode::decode_value(body, media).map_err(|error| unreadable(gvk, &error))?;
    nul::check(body, &value)?;
    check_kind(&value, gvk)?;
    warnings.extend(decode::prune_and_check(&mut value, schema).map_err(|error| refused(gvk, &error))?);
    if validation == FieldValidation::Strict && !warnings.is_empty() {
        return Err(refused(gvk, &DecodeError::Strict(warnings)));
    }
    let mut object =
        Object::new(value).map_err(|other| Status::bad_request(format!("the body is no object: {other}")))?;
    set_kind(&mut object, gvk);
    decode::apply_defaults(&mut object, schema).map_err(|error| refused(gvk, &error))?;
    if validation == FieldValidation::Ignore {
        warnings.clear();
    }
    Ok(Decoded { object, warnings })
}

/// Sets `apiVersion` and `kind`, which a body may omit.
pub(crate) fn set_kind(object: &mut Object, kind: &GroupVersionKind) {
    object.set(&["apiVersion"], Value::from(kind.api_version()));
    object.set(&["kind"], Value::from(kind.kind.as_str()));
}

/// Sets the namespace of the URL, which a body may omit. A cluster-scoped object has none.
pub(crate) fn set_namespace(
    resource: &Resource,
    url_namespace: &str,
    object: &mut Object,
) -> Result<(), Status> {
    let path = ["metadata", "namespace"];
    if !resource.namespaced {
        object.remove(&path);
        return Ok(());
    }
    let given = object.namespace();
    if !given.is_empty() && given != url_namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object.set(&path, Value::from(url_namespace));
    Ok(())
}

fn unreadable(gvk: &GroupVersionKind, error: &DecodeError) -> Status {
    let kind = &gvk.kind;
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {error}"
    ))
}

/// The answer to a body whose values do not fit its kind.
pub(crate) fn refused(gvk: &GroupVersionKind, error: &DecodeError) -> Status {
    let GroupVersionKind { kind, version, .. } = gvk;
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
}

/// Refuses a body whose `apiVersion` or `kind`, if present, does not match the resource of the URL.
pub(crate) fn check_kind(body: &Value, wanted: &GroupVersionKind) -> Result<(), Status> {
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, expected) = (text("apiVersion"), wanted.api_version());
    if !api_version.is_empty() && api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    let kind = text("kind");
    if !kind.is_empty() && kind != wanted.kind {
        let (want, version) = (&wanted.kind, &wanted.version);
        return Err(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {want}: converting ({kind}) to ({want}): unknown conversion"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::HEAVY_BODIES;
    use futures_util::{StreamExt, stream};
    use http::HeaderValue;
    use prometheus_client::metrics::gauge::Gauge;
    use serde_json::json;
    use std::convert::Infallible;

    #[test]
    fn only_json_and_yaml_bodies_are_read() {
        let of = |text| media(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(text))]));
        assert_eq!(media(&HeaderMap::new()).unwrap(), Media::Json);
        assert_eq!(of("application/json; charset=utf-8").unwrap(), Media::Json);
        assert_eq!(of("application/yaml").unwrap(), Media::Yaml);
        assert_eq!(of("application/vnd.kubernetes.protobuf").unwrap_err().code, 415);
    }

    #[test]
    fn heavy_bodies_have_few_places_and_nobody_has_all_of_them() {
        let limiter = InFlightLimiter::new(HEAVY_BODIES, Gauge::default());
        let user = |name: &str| Caller { name: name.to_owned(), ..Caller::default() };
        let acquire = |name: &str, priority: PriorityLevel, body: &str, media| {
            try_acquire(&limiter, &user(name), || priority, body.as_bytes(), media)
        };
        let maps = format!(r#"{{"x":[{}]}}"#, vec![r#"{"":0}"#; 2_000].join(","));
        let of = |name: &str| acquire(name, PriorityLevel::Ordinary, &maps, Media::Json);
        let greedy: Vec<_> = (0..8).filter_map(|_| of("greedy").ok()).collect();
        assert_eq!(greedy.len(), HEAVY_BODIES / 2);
        let others: Vec<_> =
            ["a", "b", "c", "d", "e", "f", "g"].into_iter().filter_map(|name| of(name).ok()).collect();
        assert_eq!(greedy.len() + others.len(), HEAVY_BODIES + HEAVY_BODIES / 4);
        let status = of("late").unwrap_err();
        assert_eq!(status.code, 429);
        assert!(status.details.is_some_and(|details| details.retry_after_seconds > 0));
        let operator = acquire("operator", PriorityLevel::Operator, &maps, Media::Json);
        assert!(operator.unwrap().is_some());
        let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(500_000));
        for (light, media) in [("{}", Media::Json), (text.as_str(), Media::Json), ("a: b", Media::Yaml)] {
            assert!(
                acquire("late", PriorityLevel::Ordinary, light, media).unwrap().is_none(),
                "it needs no place"
            );
        }
        let aliases = "a: &a {}\nb: *a\n";
        assert_eq!(acquire("late", PriorityLevel::Ordinary, aliases, Media::Yaml).unwrap_err().code, 429);
        drop((greedy, others));
        assert!(of("late").unwrap().is_some());
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        let fits = read(Body::from(vec![b'x'; BODY_BYTES_MAX])).await.unwrap();
        assert_eq!(fits.len(), BODY_BYTES_MAX);
        let status = read(Body::from(vec![b'x'; BODY_BYTES_MAX + 1])).await.unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (413, "Request entity too large: limit is 3145728")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for_and_one_that_comes_slowly_is() {
        let piece = |bytes: usize| async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok::<_, Infallible>(vec![b'x'; bytes])
        };
        let pieces = |bytes: usize| stream::iter(0..6).then(move |_| piece(bytes));
        let slow = read(Body::from_stream(pieces(BODY_BYTES_MAX / 6))).await.unwrap();
        assert_eq!(slow.len(), BODY_BYTES_MAX);
        let started = Instant::now();
        let never = stream::pending::<Result<Bytes, Infallible>>();
        for body in [Body::from_stream(pieces(1)), Body::from_stream(never)] {
            let status = read(body).await.unwrap_err();
            assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
        }
        assert!(started.elapsed() < BODY_BASE_TIMEOUT * 2 + Duration::from_secs(1));
    }

    #[test]
    fn a_body_of_another_kind_or_version_is_refused() {
        let kind = GroupVersionKind::new("g", "v1", "A");
        assert!(check_kind(&json!({}), &kind).is_ok());
        assert!(check_kind(&json!({"apiVersion": "g/v1", "kind": "A"}), &kind).is_ok());
        let message = check_kind(&json!({"apiVersion": "g/v2"}), &kind).unwrap_err().message;
        assert_eq!(
            message,
            "the API version in the data (g/v2) does not match the expected API version (g/v1)"
        );
        assert!(
            check_kind(&json!({"kind": "B"}), &kind)
                .unwrap_err()
                .message
                .starts_with("B in version \"v1\" cannot")
        );
    }
}
