//! Subresources with handlers.

use crate::request::Verb;
use crate::resource::StoredKind;
use crate::response::{Offer, Style, bytes_response, document};
use crate::store_status::status_of;
use crate::subresource::{Action, SubresourceHandler, Text};
use crate::verbs::change::{ChangeOutcome, Proposal, Written, settle};
use crate::verbs::commit::{Live, Warnings, always_conflicts, context};
use crate::verbs::options::{WriteKind, WriteOptions};
use crate::verbs::owned::Wanted;
use crate::verbs::tries::Tries;
use crate::verbs::{Call, body};
use axum::body::Body;
use http::{Response, StatusCode};
use meta::object::Object;
use meta::status::Status;
use store::read::At;
use store::{Entry, Error};

pub(crate) async fn handled(
    call: &mut Call<'_>,
    stored: &StoredKind,
    handler: &dyn SubresourceHandler,
    body: Body,
) -> Result<Response<Body>, Status> {
    // The answers have no other form, such as a table.
    call.style = Style::of(&call.headers, &call.query, Offer::Document)?;
    let (code, kind) = match call.asked.verb {
        Verb::Get => return show(call, stored, handler).await,
        Verb::Create => (StatusCode::CREATED, WriteKind::Create),
        _ => (StatusCode::OK, WriteKind::Update),
    };
    let bytes = body::take(call, body).await?;
    let options = WriteOptions::parse(&call.query, &call.headers, kind)?;
    let given = match handler.body() {
        None => None,
        Some(shape) => {
            let media = body::media(&call.headers)?;
            let decoded = body::decode(&bytes, media, &shape.kind, &shape.schema, options.validation)?;
            call.warnings.extend(decoded.warnings);
            Some(decoded.object)
        }
    };
    let deed = Deed { stored, handler, given: given.as_ref(), options: &options };
    let answer = act(call, &deed).await?;
    Ok(answered(call, handler, code, answer))
}

/// The action that a request asks for.
struct Deed<'a> {
    stored: &'a StoredKind,
    handler: &'a dyn SubresourceHandler,
    given: Option<&'a Object>,
    options: &'a WriteOptions,
}

async fn show(
    call: &mut Call<'_>,
    stored: &StoredKind,
    handler: &dyn SubresourceHandler,
) -> Result<Response<Body>, Status> {
    let live = Live::read(call, &call.key(stored), At::Latest).await?;
    let now = call.now();
    let mut cx = context(call, false, false, &now);
    let action = Action { verb: Verb::Get, object: &live.object, body: None, query: &call.query };
    let handled = handler.handle(&mut cx, call.view(At::Latest), action).await?;
    let warnings = std::mem::take(&mut cx.warnings);
    call.warnings.extend(warnings);
    Ok(answered(call, handler, StatusCode::OK, handled.answer))
}

/// Asks the handler what becomes of the object, and stores that; again if another write was faster.
async fn act(call: &mut Call<'_>, deed: &Deed<'_>) -> Result<Object, Status> {
    let mut tries = Tries::new(deed.options.dry_run);
    loop {
        let mut told = Warnings::default();
        let done = attempt(call, deed, tries.at(), &mut told).await;
        let is_decided =
            matches!(done, Ok(Done { outcome: ChangeOutcome::Written(_) | ChangeOutcome::Refused(_), .. }));
        if !is_decided && tries.look_again() {
            continue;
        }
        let refused = match done {
            Ok(Done { outcome: ChangeOutcome::Conflict, .. }) if tries.again().await => continue,
            Ok(Done { outcome: ChangeOutcome::Conflict, .. }) => {
                always_conflicts(&call.resource, &call.asked.name)
            }
            Ok(Done { outcome: ChangeOutcome::Written(Written { old, entry, note }), answer }) => {
                let answer = if deed.handler.moves() { stored_object(call, &entry)? } else { answer };
                call.warnings.extend(told.of_accepted());
                call.audit(Some(old), &entry, deed.options.dry_run, note);
                return Ok(answer);
            }
            Ok(Done { outcome: ChangeOutcome::Same(_), answer }) => {
                call.warnings.extend(told.of_accepted());
                return Ok(answer);
            }
            Ok(Done { outcome: ChangeOutcome::Refused(status), .. }) | Err(status) => status,
        };
        call.warnings.extend(told.always);
        return Err(refused);
    }
}

/// The result of one try.
struct Done {
    answer: Object,
    outcome: ChangeOutcome,
}

async fn attempt(call: &Call<'_>, deed: &Deed<'_>, at: At, told: &mut Warnings) -> Result<Done, Status> {
    let Deed { stored, handler, given, options } = *deed;
    let live = Live::read(call, &call.key(stored), at).await?;
    let now = call.now();
    let mut cx = context(call, options.dry_run, false, &now);
    let action = Action { verb: call.asked.verb, object: &live.object, body: given, query: &call.query };
    let handled = handler.handle(&mut cx, call.view(at), action).await?;
    told.accepted.append(&mut cx.warnings);
    let Some(object) = handled.object else {
        return Ok(Done { answer: handled.answer, outcome: ChangeOutcome::Same(live.unchanged()) });
    };
    let note = handler.note(action);
    let wanted = Wanted { object, track: true, versioned: false, warnings: Vec::new() };
    let proposal = Proposal { live, wanted, may_grow: handler.may_grow(), moves: handler.moves(), note };
    let outcome = settle(call, stored, options, proposal, told).await?;
    Ok(Done { answer: handled.answer, outcome })
}

fn stored_object(call: &Call<'_>, entry: &Entry) -> Result<Object, Status> {
    Object::from_stored(&entry.body, entry.revision.0).map_err(|error| {
        let about = call.resource.group_resource();
        status_of(&Error::Corrupt(error.to_string()), &about, &entry.key.name)
    })
}

fn answered(
    call: &Call<'_>,
    handler: &dyn SubresourceHandler,
    code: StatusCode,
    mut answer: Object,
) -> Response<Body> {
    if let Some(Text { content_type, body }) = handler.text(&call.query, &answer) {
        return bytes_response(code, content_type, body.into());
    }
    body::set_kind(&mut answer, &handler.answer().kind);
    document(code, &answer.into_value(), &call.style)
}
