//! `PATCH`: JSON patch, merge patch, strategic merge patch; server-side apply is `super::apply`.

use crate::openapi::PATCH_TYPES;
use crate::resource::{Resource, StoredKind};
use crate::verbs::apply::apply;
use crate::verbs::change::change;
use crate::verbs::options::{WriteKind, WriteOptions};
use crate::verbs::owned::OwnedRights;
use crate::verbs::update::check_identity;
use crate::verbs::{Call, body, nul};
use axum::body::Body;
use http::{HeaderMap, Response, StatusCode};
use meta::decode::{self, FieldValidation};
use meta::field::{FieldError, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::patch::{json_patch, merge_patch, strategic_merge_patch};
use meta::status::Status;
use serde_json::Value;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Status> {
        match body::content_type(headers).as_str() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(Status::unsupported_media_type(PATCH_TYPES)),
        }
    }
}

pub(crate) async fn patch(
    call: &mut Call<'_>,
    stored: &StoredKind,
    kind: PatchType,
    body: Body,
) -> Result<Response<Body>, Status> {
    let bytes = body::read(body).await?;
    if kind == PatchType::Apply {
        return apply(call, stored, &bytes).await;
    }
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Patch)?;
    let resource = Arc::clone(&call.resource);
    let (name, namespace) = (call.asked.name.clone(), call.asked.namespace.clone());
    let versioned = names_revision(kind, &bytes);
    let entry = change(call, stored, &options, |live| {
        let document = Value::Object(live.as_map().clone());
        let patched = match kind {
            PatchType::Json => json_patch(document, &bytes),
            PatchType::Strategic => strategic_merge_patch(document, &bytes, &resource.schema),
            PatchType::Merge | PatchType::Apply => merge_patch(document, &bytes),
        };
        let patched = patched.map_err(|error| {
            tracing::debug!(?error, "patch does not fit");
            error.status()
        })?;
        let (mut object, warnings) =
            reread(&resource, patched.document, patched.strict_errors, options.validation, &bytes)?;
        check_identity(&resource, &name, &namespace, &mut object)?;
        Ok(OwnedRights { object, track: true, versioned, warnings })
    });
    let entry = entry.await?;
    call.respond(StatusCode::OK, &entry)
}

/// Whether the patch pins the revision it was made from.
fn names_revision(kind: PatchType, patch: &[u8]) -> bool {
    let Ok(patch) = serde_json::from_slice::<Value>(patch) else { return false };
    let is_text = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if kind == PatchType::Json {
        return patch.as_array().into_iter().flatten().any(|operation| {
            operation.get("path").and_then(Value::as_str) == Some("/metadata/resourceVersion")
                && is_text(operation.get("value"))
        });
    }
    is_text(patch.get("metadata").and_then(|metadata| metadata.get("resourceVersion")))
}

/// Reads the patched document as the kind again.
fn reread(
    resource: &Resource,
    mut document: Value,
    mut dropped: Vec<String>,
    validation: FieldValidation,
    patch: &[u8],
) -> Result<(Object, Vec<String>), Status> {
    nul::check(patch, &document)?;
    body::check_kind(&document, &resource.gvk)?;
    let unknown = decode::prune_and_check(&mut document, &resource.schema);
    dropped.extend(unknown.map_err(|error| invalid_patch(patch, &error.to_string()))?);
    if validation == FieldValidation::Strict && !dropped.is_empty() {
        return Err(invalid_patch(patch, &decode::DecodeError::Strict(dropped).to_string()));
    }
    if validation == FieldValidation::Ignore {
        dropped.clear();
    }
    let mut object = Object::new(document)
        .map_err(|other| invalid_patch(patch, &format!("the result is no object: {other}")))?;
    body::set_kind(&mut object, &resource.gvk);
    decode::apply_defaults(&mut object, &resource.schema);
    Ok((object, dropped))
}

fn invalid_patch(patch: &[u8], why: &str) -> Status {
    let shown = Value::from(String::from_utf8_lossy(patch));
    let error = FieldError::invalid(&Path::new("patch"), &shown, why);
    Status::invalid(&GroupVersionKind::new("", "", ""), "", &vec![error])
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;

    #[test]
    fn the_type_of_a_patch_is_told_by_its_content_type_alone() {
        let of =
            |text| PatchType::of(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(text))]));
        assert_eq!(of("application/merge-patch+json; charset=utf-8").unwrap(), PatchType::Merge);
        assert_eq!(of("application/strategic-merge-patch+json").unwrap(), PatchType::Strategic);
        for text in ["application/json", "application/apply-patch+cbor"] {
            let status = of(text).unwrap_err();
            assert_eq!((status.code, status.reason.as_str()), (415, "UnsupportedMediaType"));
            assert!(status.message.ends_with(
                "media types include: application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json, application/apply-patch+yaml"
            ));
        }
    }

    #[test]
    fn a_document_that_no_longer_fits_shows_the_patch() {
        assert_eq!(
            invalid_patch(b"{}", "why").message,
            " \"\" is invalid: patch: Invalid value: \"{}\": why"
        );
    }
}
