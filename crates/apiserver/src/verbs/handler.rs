//! Subresources with handlers.

use crate::request::Verb;
use crate::resource::StoredKind;
use crate::response::{ResponseKind, Style, bytes_response, document_response};
use crate::store_status::status_of;
use crate::subresource::{Action, SubresourceHandler, TextAnswer};
use crate::verbs::change::{ChangeOutcome, ProposedChange, StoredChange, store_change};
use crate::verbs::commit::{LiveObject, Warnings, retries_exhausted, write_context};
use crate::verbs::options::{WriteKind, WriteOptions};
use crate::verbs::owned_fields::DesiredState;
use crate::verbs::retry::Retries;
use crate::verbs::{Call, body};
use axum::body::Body;
use http::{Response, StatusCode};
use meta::object::Object;
use meta::status::Status;
use store::read::At;
use store::{Entry, Error};

pub(crate) async fn run_handler(
    call: &mut Call<'_>,
    stored: &StoredKind,
    handler: &dyn SubresourceHandler,
    body: Body,
) -> Result<Response<Body>, Status> {
    // These answers cannot be a table or metadata alone.
    call.style = Style::of(&call.headers, &call.query, ResponseKind::Document)?;
    let (code, kind) = match call.request.verb {
        Verb::Get => return handle_get(call, stored, handler).await,
        Verb::Create => (StatusCode::CREATED, WriteKind::Create),
        _ => (StatusCode::OK, WriteKind::Update),
    };
    let bytes = body::read_for_write(call, body).await?;
    let options = WriteOptions::parse(&call.query, &call.headers, kind)?;
    let body_object = match handler.body() {
        None => None,
        Some(schema) => {
            let media = body::media(&call.headers)?;
            let decoded = body::decode(&bytes, media, &schema.kind, &schema.schema, options.validation)?;
            call.warnings.extend(decoded.warnings);
            Some(decoded.object)
        }
    };
    let handler_call = HandlerCall { stored, handler, body_object: body_object.as_ref(), options: &options };
    let answer = handle_write(call, &handler_call).await?;
    Ok(respond(call, handler, code, answer))
}

/// What the handler is called for.
struct HandlerCall<'a> {
    stored: &'a StoredKind,
    handler: &'a dyn SubresourceHandler,
    body_object: Option<&'a Object>,
    options: &'a WriteOptions,
}

async fn handle_get(
    call: &mut Call<'_>,
    stored: &StoredKind,
    handler: &dyn SubresourceHandler,
) -> Result<Response<Body>, Status> {
    let live = LiveObject::read(call, &call.key(stored), At::Latest).await?;
    let now = call.now();
    let mut cx = write_context(call, false, &now);
    let action = Action { verb: Verb::Get, object: &live.object, body: None, query: &call.query };
    let output = handler.handle(&mut cx, call.view(At::Latest), action).await?;
    let warnings = std::mem::take(&mut cx.warnings);
    call.warnings.extend(warnings);
    Ok(respond(call, handler, StatusCode::OK, output.answer))
}

/// Has the handler compute the object's new state, and stores it. Retries after a conflict.
async fn handle_write(call: &mut Call<'_>, handler_call: &HandlerCall<'_>) -> Result<Object, Status> {
    let mut retries = Retries::new(handler_call.options.dry_run);
    loop {
        let mut warnings = Warnings::default();
        let attempted = attempt(call, handler_call, retries.at(), &mut warnings).await;
        let is_decided = matches!(
            attempted,
            Ok(HandlerAttempt { outcome: ChangeOutcome::Stored(_) | ChangeOutcome::Refused(_), .. })
        );
        if !is_decided && retries.retry_with_latest() {
            continue;
        }
        let refused = match attempted {
            Ok(HandlerAttempt { outcome: ChangeOutcome::Conflict, .. }) if retries.wait().await => continue,
            Ok(HandlerAttempt { outcome: ChangeOutcome::Conflict, .. }) => {
                retries_exhausted(&call.resource, &call.request.name)
            }
            Ok(HandlerAttempt {
                outcome: ChangeOutcome::Stored(StoredChange { old, entry, note }),
                answer,
            }) => {
                let answer = if handler_call.handler.moves() { stored_object(call, &entry)? } else { answer };
                call.warnings.extend(warnings.into_all());
                call.record_change(Some(old), &entry, handler_call.options.dry_run, note);
                return Ok(answer);
            }
            Ok(HandlerAttempt { outcome: ChangeOutcome::Unchanged(_), answer }) => {
                call.warnings.extend(warnings.into_all());
                return Ok(answer);
            }
            Ok(HandlerAttempt { outcome: ChangeOutcome::Refused(status), .. }) | Err(status) => status,
        };
        call.warnings.extend(warnings.always);
        return Err(refused);
    }
}

/// The result of one attempt.
struct HandlerAttempt {
    answer: Object,
    outcome: ChangeOutcome,
}

async fn attempt(
    call: &Call<'_>,
    handler_call: &HandlerCall<'_>,
    at: At,
    warnings: &mut Warnings,
) -> Result<HandlerAttempt, Status> {
    let HandlerCall { stored, handler, body_object, options } = *handler_call;
    let live = LiveObject::read(call, &call.key(stored), at).await?;
    let now = call.now();
    let mut cx = write_context(call, options.dry_run, &now);
    let action =
        Action { verb: call.request.verb, object: &live.object, body: body_object, query: &call.query };
    let output = handler.handle(&mut cx, call.view(at), action).await?;
    warnings.accepted.append(&mut cx.warnings);
    let Some(object) = output.object else {
        return Ok(HandlerAttempt {
            answer: output.answer,
            outcome: ChangeOutcome::Unchanged(live.unchanged()),
        });
    };
    let note = handler.note(action);
    let desired = DesiredState { object, track: true, versioned: false, warnings: Vec::new() };
    let proposal =
        ProposedChange { live, desired, may_grow: handler.may_grow(), moves: handler.moves(), note };
    let outcome = store_change(call, stored, options, proposal, warnings).await?;
    Ok(HandlerAttempt { answer: output.answer, outcome })
}

fn stored_object(call: &Call<'_>, entry: &Entry) -> Result<Object, Status> {
    Object::from_stored(&entry.body, entry.revision.0).map_err(|error| {
        let about = call.resource.group_resource();
        status_of(&Error::Corrupt(error.to_string()), &about, &entry.key.name)
    })
}

fn respond(
    call: &Call<'_>,
    handler: &dyn SubresourceHandler,
    code: StatusCode,
    mut answer: Object,
) -> Response<Body> {
    if let Some(TextAnswer { content_type, body }) = handler.text(&call.query, &answer) {
        return bytes_response(code, content_type, body.into());
    }
    body::set_kind(&mut answer, &handler.answer().kind);
    document_response(code, &answer.into_value(), &call.style)
}
