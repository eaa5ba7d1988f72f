//! Moves of an object to another namespace: the checks in addition to those of every change.

use crate::request::{ResourceRequest, Verb};
use crate::resource::ResourceSource;
use crate::verbs::{Call, owner_references};
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use store::read::At;
use store::{Entry, Key};

/// The key of the object after the move.
pub(crate) fn target_key(from: &Key, object: &Object) -> Key {
    Key::new(from.kind, object.namespace(), &from.name)
}

/// The body of the deletion event for watches of the old namespace.
pub(crate) fn last_body(entry: &Entry) -> Result<String, Status> {
    String::from_utf8(entry.body.to_vec()).map_err(|error| Status::internal(error.to_string()))
}

/// The object as if it had always been in the new namespace.
pub(crate) fn relocated(live: &Object, new: &Object) -> Object {
    let mut relocated = live.clone();
    relocated.copy_from(new, &["metadata", "namespace"]);
    relocated
}

/// Refuses a move that the caller may not make, or that would break owner references. These are resolved in the
/// object's own namespace: if an object moved without its owner or its dependents, the garbage collector would delete
/// them.
pub(crate) async fn check(call: &Call<'_>, live: &Object, new: &Object) -> Result<(), Status> {
    let about = call.resource.group_resource();
    let right = ResourceRequest {
        subresource: String::new(),
        name: String::new(),
        namespace: new.namespace().to_owned(),
        ..call.request.with_verb(Verb::Create)
    };
    call.require_right(right).await?;
    if live.is_deleting() {
        return Err(Status::conflict(&about, live.name(), "what is being deleted goes nowhere else"));
    }
    if new.namespace().is_empty() || new.namespace() == live.namespace() || new.name() != live.name() {
        return Err(Status::internal("a handler that moves has named no other namespace"));
    }
    let path = Path::new("metadata").child("ownerReferences");
    let mut errors: FieldErrors = owner_references::namespaced(call, live)
        .map(|at| {
            FieldError::forbidden(
                &path.index(at),
                "the owner stays: an object goes with none that lies in its namespace",
            )
        })
        .collect();
    if let Some(dependent) = dependent(call, live).await? {
        let detail = format!("{dependent} names it as its owner and stays");
        errors.push(FieldError::forbidden(&path, &detail));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&call.resource.gvk, live.name(), &errors)) }
}

/// A dependent of the object in its namespace, whether the caller sees it or not: nothing else would explain the
/// refusal to him.
async fn dependent(call: &Call<'_>, live: &Object) -> Result<Option<String>, Status> {
    let view = call.view(At::Latest).unfiltered();
    for resource in call.api.resources.iter().filter(|resource| resource.namespaced) {
        let ResourceSource::Stored(stored) = &resource.source else { continue };
        for entry in view.list(stored.id, Some(live.namespace())).await? {
            if owner_references::is_owned_by(&entry, live.uid()) {
                return Ok(Some(format!("{} {:?}", resource.gvk.kind, entry.key.name)));
            }
        }
    }
    Ok(None)
}
