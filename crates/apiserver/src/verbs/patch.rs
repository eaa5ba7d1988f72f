//! `PATCH`: JSON patch, merge patch and strategic merge patch. Server-side apply is in `super::apply`.

use crate::openapi::PATCH_TYPES;
use crate::resource::{Resource, StoredKind};
use crate::verbs::apply::apply;
use crate::verbs::change::change;
use crate::verbs::options::{WriteKind, WriteOptions, has_no_revision};
use crate::verbs::owned_fields::DesiredState;
use crate::verbs::update::check_identity;
use crate::verbs::{Call, body, nul};
use axum::body::Body;
use http::{HeaderMap, Response, StatusCode};
use meta::decode::{self, FieldValidation};
use meta::field::{FieldError, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::patch::{Patched, json_patch, merge_patch, strategic_merge_patch};
use meta::schema::Schema;
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
    let bytes = body::read_for_write(call, body).await?;
    if kind == PatchType::Apply {
        return apply(call, stored, &bytes).await;
    }
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Patch)?;
    let resource = Arc::clone(&call.resource);
    let (name, namespace) = (call.request.name.clone(), call.request.namespace.clone());
    let entry = change(call, stored, &options, |live| {
        let Resource { gvk, schema, .. } = &*resource;
        let validation = options.validation;
        let mut desired = PatchRequest { kind, patch: &bytes, gvk, schema, validation }.apply(live)?;
        check_identity(&resource, &name, &namespace, &mut desired.object)?;
        Ok(desired)
    });
    let entry = entry.await?;
    call.respond(StatusCode::OK, &entry)
}

/// A patch of an object of one kind.
struct PatchRequest<'a> {
    kind: PatchType,
    patch: &'a [u8],
    gvk: &'a GroupVersionKind,
    schema: &'a Schema,
    validation: FieldValidation,
}

/// A patched document without its unknown fields.
struct PrunedDocument {
    document: Value,
    /// The errors about unknown fields, and about repeated keys of the patch.
    strict_errors: Vec<String>,
    /// Whether the patch names a revision.
    versioned: bool,
}

impl PatchRequest<'_> {
    /// Applies the patch to the live object.
    fn apply(&self, live: &Object) -> Result<DesiredState, Status> {
        let Self { gvk, schema, .. } = *self;
        let live_document = || Value::Object(live.as_map().clone());
        let mut patched = self.apply_to(live_document())?;
        if self.validation == FieldValidation::Ignore {
            patched.strict_errors.clear();
        }
        if !patched.strict_errors.is_empty() {
            // Fields that a later release has stored are unknown too, but do not come from the patch.
            let mut pruned_live = live_document();
            let has_unknown =
                decode::prune_and_check(&mut pruned_live, schema).is_ok_and(|unknown| !unknown.is_empty());
            if has_unknown && let Ok(again) = self.apply_to(pruned_live) {
                patched = PrunedDocument { versioned: patched.versioned, ..again };
            }
        }
        let PrunedDocument { document, strict_errors, versioned } = patched;
        if self.validation == FieldValidation::Strict && !strict_errors.is_empty() {
            return Err(self.invalid(&decode::DecodeError::Strict(strict_errors).to_string()));
        }
        let mut object = Object::new(document)
            .map_err(|other| self.invalid(&format!("the result is no object: {other}")))?;
        body::set_kind(&mut object, gvk);
        decode::apply_defaults(&mut object, schema).map_err(|error| self.invalid(&error.to_string()))?;
        Ok(DesiredState { object, track: true, versioned, warnings: strict_errors })
    }

    /// Applies the patch to a document, and checks the result against the schema.
    fn apply_to(&self, document: Value) -> Result<PrunedDocument, Status> {
        let patched = match self.kind {
            PatchType::Json => json_patch(document, self.patch),
            PatchType::Strategic => strategic_merge_patch(document, self.patch, self.schema),
            PatchType::Merge | PatchType::Apply => merge_patch(document, self.patch),
        };
        let Patched { mut document, mut strict_errors, revisions } = patched.map_err(|error| {
            tracing::debug!(?error, "patch does not fit");
            error.status()
        })?;
        nul::check(self.patch, &document)?;
        body::check_kind(&document, self.gvk)?;
        let unknown = decode::prune_and_check(&mut document, self.schema);
        strict_errors.extend(unknown.map_err(|error| self.invalid(&error.to_string()))?);
        let versioned = revisions.iter().any(|text| !has_no_revision(text));
        Ok(PrunedDocument { document, strict_errors, versioned })
    }

    fn invalid(&self, why: &str) -> Status {
        invalid_patch(self.patch, why)
    }
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
    use meta::schema::ListType;
    use serde_json::json;

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

    #[test]
    fn what_a_later_release_has_stored_is_not_the_patchs() {
        let gvk = GroupVersionKind::new("g", "v1", "A");
        let item = Schema::object("", None, [("name", Schema::string("").required())]);
        let items = Schema::list("", ListType::Atomic, item);
        let spec =
            Schema::object("", None, [("text", Schema::string("").optional()), ("items", items.optional())]);
        let schema = Schema::kind("g.v1.A", "", [("spec", spec.optional())]);
        let live = json!({"apiVersion": "g/v1", "kind": "A", "metadata": {"name": "a"},
            "spec": {"later": 1, "items": [{"name": "x", "later": 2}]}});
        let live = Object::new(live).unwrap();
        let of = |kind, patch: &Value, validation| {
            let patch = patch.to_string();
            let request =
                PatchRequest { kind, patch: patch.as_bytes(), gvk: &gvk, schema: &schema, validation };
            let done = request.apply(&live);
            done.map(|done| (done.object.get(&["spec"]).cloned().unwrap_or_default(), done.warnings))
        };
        let text = json!({"spec": {"text": "t"}});
        let before = json!([{"op": "add", "path": "/spec/items/0", "value": {"name": "w"}}]);
        for validation in [FieldValidation::Strict, FieldValidation::Warn, FieldValidation::Ignore] {
            for kind in [PatchType::Merge, PatchType::Strategic] {
                let want = json!({"text": "t", "items": [{"name": "x"}]});
                assert_eq!(
                    of(kind, &text, validation).unwrap(),
                    (want, Vec::new()),
                    "{kind:?} {validation:?}"
                );
            }
            let (spec, warnings) = of(PatchType::Json, &before, validation).unwrap();
            assert_eq!((spec, warnings), (json!({"items": [{"name": "w"}, {"name": "x"}]}), Vec::new()));
        }
        let wrong = json!({"spec": {"text": "t", "other": 1}});
        let refused = of(PatchType::Merge, &wrong, FieldValidation::Strict).unwrap_err().message;
        assert!(refused.ends_with("strict decoding error: unknown field \"spec.other\""), "{refused}");
        let (_, warnings) = of(PatchType::Merge, &wrong, FieldValidation::Warn).unwrap();
        assert_eq!(warnings, ["unknown field \"spec.other\""]);
    }
}
