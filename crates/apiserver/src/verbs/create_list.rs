//! `POST` of a list to the collection of all namespaces creates all of its objects or none. Each is prepared, admitted
//! and validated as if it were created alone. The store writes all of them in one transaction.

use crate::resource::StoredKind;
use crate::response::{ResponseKind, Style, document_response};
use crate::store_status::status_of;
use crate::strategy::WriteContext;
use crate::verbs::commit::{Warnings, write_context};
use crate::verbs::create::{NewObject, prepare_write};
use crate::verbs::options::{WriteKind, WriteOptions};
use crate::verbs::{Call, body, parent};
use axum::body::Body;
use http::{Response, StatusCode};
use meta::decode::Media;
use meta::object::Object;
use meta::status::{Status, StatusCause};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use store::model::Write;
use store::{Error, Key, Visibility};

/// Most items of one list.
const ITEMS_MAX: usize = 1000;
/// How many refused items the message names. The causes name all.
const NAMED_MAX: usize = 10;

pub(crate) async fn create_list(
    call: &mut Call<'_>,
    stored: &StoredKind,
    body: Body,
) -> Result<Response<Body>, Status> {
    if !matches!(call.cx.access.visibility(), Visibility::Everything) {
        let why = "only who sees everything creates objects in several namespaces together";
        return Err(Status::forbidden(&call.resource.group_resource(), "", why));
    }
    call.style = Style::of(&call.headers, &call.query, ResponseKind::Document)?;
    let media = body::media(&call.headers)?;
    let bytes = body::read_for_write(call, body).await?;
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Create)?;
    let mut batch = Batch::default();
    for (at, item) in items(call, &bytes, media)?.into_iter().enumerate() {
        match prepare_item(call, stored, &item, &options).await {
            Ok(prepared) => batch.take(prepared, at, call),
            Err(status) => batch.refused.push(RejectedItem { at, status }),
        }
    }
    let objects = decide(call, stored, batch, options.dry_run).await?;
    let list = json!({
        "apiVersion": call.resource.gvk.api_version(), "kind": call.resource.list_kind(),
        "metadata": {}, "items": objects.into_iter().map(Object::into_value).collect::<Vec<_>>(),
    });
    Ok(document_response(StatusCode::CREATED, &list, &call.style))
}

/// Decodes the items of a list of this kind.
fn items(call: &Call<'_>, bytes: &[u8], media: Media) -> Result<Vec<Value>, Status> {
    let bad = |why: String| Status::bad_request(format!("the body is no list to create: {why}"));
    let (mut list, _duplicates) =
        meta::decode::decode_value(bytes, media).map_err(|error| bad(error.to_string()))?;
    let expected = call.resource.list_kind();
    let kind = list.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind != expected {
        return Err(bad(format!("its kind is {kind:?}, not {expected:?}")));
    }
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if items.len() > ITEMS_MAX => {
            Err(Status::too_large(format!("a list has at most {ITEMS_MAX} items")))
        }
        Some(Value::Array(items)) if !items.is_empty() => Ok(items),
        _ => Err(bad("it has no items".to_owned())),
    }
}

/// An object that is ready for the store.
struct PreparedCreate {
    object: Object,
    write: Write,
    warnings: Vec<String>,
}

/// An object whose write is in the batch.
struct BatchObject {
    object: Object,
    warnings: Vec<String>,
}

struct RejectedItem {
    at: usize,
    status: Status,
}

#[derive(Default)]
struct Batch {
    writes: Vec<Write>,
    /// In the order of `writes`.
    objects: Vec<BatchObject>,
    keys: BTreeSet<Key>,
    refused: Vec<RejectedItem>,
}

impl Batch {
    fn take(&mut self, prepared: PreparedCreate, at: usize, call: &Call<'_>) {
        let PreparedCreate { object, write, warnings } = prepared;
        if self.keys.insert(write.key.clone()) {
            self.writes.push(write);
            self.objects.push(BatchObject { object, warnings });
        } else {
            let status = Status::already_exists(&call.resource.group_resource(), object.name());
            self.refused.push(RejectedItem { at, status });
        }
    }
}

async fn prepare_item(
    call: &Call<'_>,
    stored: &StoredKind,
    item: &Value,
    options: &WriteOptions,
) -> Result<PreparedCreate, Status> {
    let text = item.to_string();
    let resource = std::sync::Arc::clone(&call.resource);
    let decoded =
        body::decode(text.as_bytes(), Media::Json, &resource.gvk, &resource.schema, options.validation)?;
    parent::check(call, stored, None, &decoded.object).await?;
    let mut warnings = Warnings::default();
    let new = NewObject { object: decoded.object, track: true };
    let (object, write) = prepare_write(call, stored, new, options, &mut warnings).await?;
    let mut all_warnings = decoded.warnings;
    all_warnings.extend(warnings.into_all());
    Ok(PreparedCreate { object, write, warnings: all_warnings })
}

/// Hands all objects to the store, unless one is refused already.
async fn decide(
    call: &mut Call<'_>,
    stored: &StoredKind,
    batch: Batch,
    dry_run: bool,
) -> Result<Vec<Object>, Status> {
    let Batch { writes, objects: created, mut refused, .. } = batch;
    let of = created.len() + refused.len();
    if !refused.is_empty() {
        return Err(rejection(of, &refused));
    }
    let answers = call.api.store.write_together(&call.cx.access, writes, dry_run).await;
    let answers = answers.map_err(|error| status_of(&error, &call.resource.group_resource(), ""))?;
    let now = call.now();
    let cx = write_context(call, dry_run, &now);
    for (at, (answer, created)) in answers.iter().zip(&created).enumerate() {
        if let Err(error) = answer {
            refused.push(RejectedItem { at, status: refusal(call, stored, &cx, &created.object, error) });
        }
    }
    if !refused.is_empty() {
        return Err(rejection(of, &refused));
    }
    call.record_collection_change(of, dry_run);
    let mut objects = Vec::with_capacity(of);
    for (answer, BatchObject { mut object, warnings }) in answers.into_iter().zip(created) {
        call.warnings.extend(warnings);
        if let Ok(revision) = answer.as_ref() {
            object.set(&["metadata", "resourceVersion"], json!(revision.to_string()));
        }
        objects.push(object);
    }
    Ok(objects)
}

fn refusal(
    call: &Call<'_>,
    stored: &StoredKind,
    cx: &WriteContext<'_>,
    object: &Object,
    error: &Error,
) -> Status {
    match error {
        Error::Refused(violations) => stored.strategy.refusal(cx, object, violations),
        error => status_of(error, &call.resource.group_resource(), object.name()),
    }
}

/// One status for all refusals: with their common code, and with the causes of each under the index of its item.
fn rejection(of: usize, refused: &[RejectedItem]) -> Status {
    let first = refused.first().map(|refused| &refused.status);
    let common = first.filter(|first| refused.iter().all(|other| other.status.code == first.code));
    let (code, reason) = common.map_or((422, "Invalid"), |status| (status.code, status.reason.as_str()));
    let mut message = format!("none of {of} objects is created");
    for RejectedItem { at, status } in refused.iter().take(NAMED_MAX) {
        let _always = write!(message, "; items[{at}]: {}", status.message);
    }
    if let Some(more) = refused.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _always = write!(message, "; and {more} more");
    }
    let causes = refused.iter().flat_map(|RejectedItem { at, status }| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let mut causes: Vec<StatusCause> = causes
            .map(|cause| StatusCause { field: format!("items[{at}].{}", cause.field), ..cause.clone() })
            .collect();
        if causes.is_empty() {
            let (reason, message) = (status.reason.clone(), status.message.clone());
            causes.push(StatusCause { reason, message, field: format!("items[{at}]") });
        }
        causes
    });
    Status::failure(code, reason, message).with_causes(causes.collect())
}
