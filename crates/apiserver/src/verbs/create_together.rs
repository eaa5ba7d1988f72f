//! `POST` of a list, at the collection of all namespaces: all of its objects are created, or none. Each is prepared,
//! admitted and validated as if it were created alone. The store decides them in one transaction.

use crate::resource::StoredKind;
use crate::response::{Offer, Style, document};
use crate::store_status::status_of;
use crate::verbs::commit::{Warnings, context};
use crate::verbs::create::{New, ready};
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

/// Objects of one list.
const ITEMS_MAX: usize = 1000;
/// Items that the message of a refusal names; the causes name all.
const NAMED_MAX: usize = 10;

pub(crate) async fn create_together(
    call: &mut Call<'_>,
    stored: &StoredKind,
    body: Body,
) -> Result<Response<Body>, Status> {
    if !matches!(call.cx.access.visibility(), Visibility::Everything) {
        let why = "only who sees everything creates objects in several namespaces together";
        return Err(Status::forbidden(&call.resource.group_resource(), "", why));
    }
    call.style = Style::of(&call.headers, &call.query, Offer::Document)?;
    let media = body::media(&call.headers)?;
    let bytes = body::take(call, body).await?;
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Create)?;
    let mut batch = Batch::default();
    for (at, item) in items(call, &bytes, media)?.into_iter().enumerate() {
        match one(call, stored, &item, &options).await {
            Ok(ready) => batch.take(ready, at, call),
            Err(status) => batch.refused.push(Refused { at, status }),
        }
    }
    let objects = decide(call, stored, batch, options.dry_run).await?;
    let list = json!({
        "apiVersion": call.resource.gvk.api_version(), "kind": format!("{}List", call.resource.gvk.kind),
        "metadata": {}, "items": objects.into_iter().map(Object::into_value).collect::<Vec<_>>(),
    });
    Ok(document(StatusCode::CREATED, &list, &call.style))
}

/// The items of a list of this kind.
fn items(call: &Call<'_>, bytes: &[u8], media: Media) -> Result<Vec<Value>, Status> {
    let bad = |why: String| Status::bad_request(format!("the body is no list to create: {why}"));
    let (mut list, _duplicates) =
        meta::decode::decode_value(bytes, media).map_err(|error| bad(error.to_string()))?;
    let (wanted, kind) = (
        format!("{}List", call.resource.gvk.kind),
        list.get("kind").and_then(Value::as_str).unwrap_or_default(),
    );
    if kind != wanted {
        return Err(bad(format!("its kind is {kind:?}, not {wanted:?}")));
    }
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if items.len() > ITEMS_MAX => {
            Err(Status::too_large(format!("a list has at most {ITEMS_MAX} items")))
        }
        Some(Value::Array(items)) if !items.is_empty() => Ok(items),
        _ => Err(bad("it has no items".to_owned())),
    }
}

/// An object that the store can decide.
struct Ready {
    object: Object,
    write: Write,
    warnings: Vec<String>,
}

struct Refused {
    at: usize,
    status: Status,
}

#[derive(Default)]
struct Batch {
    ready: Vec<Ready>,
    keys: BTreeSet<Key>,
    refused: Vec<Refused>,
}

impl Batch {
    fn take(&mut self, ready: Ready, at: usize, call: &Call<'_>) {
        if self.keys.insert(ready.write.key.clone()) {
            self.ready.push(ready);
        } else {
            let about = call.resource.group_resource();
            self.refused.push(Refused { at, status: Status::already_exists(&about, ready.object.name()) });
        }
    }
}

async fn one(
    call: &Call<'_>,
    stored: &StoredKind,
    item: &Value,
    options: &WriteOptions,
) -> Result<Ready, Status> {
    let text = item.to_string();
    let resource = std::sync::Arc::clone(&call.resource);
    let decoded =
        body::decode(text.as_bytes(), Media::Json, &resource.gvk, &resource.schema, options.validation)?;
    parent::check(call, stored, None, &decoded.object).await?;
    let mut told = Warnings::default();
    let new = New { object: decoded.object, track: true };
    let (object, write) = ready(call, stored, new, options, &mut told).await?;
    let mut warnings = decoded.warnings;
    warnings.extend(told.of_accepted());
    Ok(Ready { object, write, warnings })
}

/// Has the store decide all of them, unless one is refused already.
async fn decide(
    call: &mut Call<'_>,
    stored: &StoredKind,
    batch: Batch,
    dry_run: bool,
) -> Result<Vec<Object>, Status> {
    let Batch { ready, mut refused, .. } = batch;
    let of = ready.len() + refused.len();
    if !refused.is_empty() {
        return Err(none_of(of, &refused));
    }
    let writes = ready.iter().map(|ready| ready.write.clone()).collect();
    let answers = call.api.store.write_together(&call.cx.access, writes, dry_run).await;
    let answers = answers.map_err(|error| status_of(&error, &call.resource.group_resource(), ""))?;
    let now = call.now();
    for (at, (answer, ready)) in answers.iter().zip(&ready).enumerate() {
        if let Err(error) = answer {
            refused.push(Refused { at, status: refusal(call, stored, &ready.object, error, &now) });
        }
    }
    if !refused.is_empty() {
        return Err(none_of(of, &refused));
    }
    call.audit_collection(of, dry_run);
    let mut objects = Vec::with_capacity(of);
    for (answer, Ready { mut object, warnings, .. }) in answers.into_iter().zip(ready) {
        call.warnings.extend(warnings);
        if let Ok(revision) = answer.as_ref() {
            object.set(&["metadata", "resourceVersion"], json!(revision.to_string()));
        }
        objects.push(object);
    }
    Ok(objects)
}

fn refusal(call: &Call<'_>, stored: &StoredKind, object: &Object, error: &Error, now: &str) -> Status {
    match error {
        Error::Refused(violations) => {
            stored.strategy.refusal(&context(call, false, false, now), object, violations)
        }
        error => status_of(error, &call.resource.group_resource(), object.name()),
    }
}

/// One answer for all refusals: their common code, and the causes of each at its place in the list.
fn none_of(of: usize, refused: &[Refused]) -> Status {
    let first = refused.first().map(|refused| &refused.status);
    let common = first.filter(|first| refused.iter().all(|other| other.status.code == first.code));
    let (code, reason) = common.map_or((422, "Invalid"), |status| (status.code, status.reason.as_str()));
    let mut message = format!("none of {of} objects is created");
    for Refused { at, status } in refused.iter().take(NAMED_MAX) {
        let _always = write!(message, "; items[{at}]: {}", status.message);
    }
    if let Some(more) = refused.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _always = write!(message, "; and {more} more");
    }
    let causes = refused.iter().flat_map(|Refused { at, status }| {
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
