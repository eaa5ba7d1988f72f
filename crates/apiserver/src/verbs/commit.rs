//! What creates, changes and deletes have in common on their way into the store.

use crate::resource::{Part, Resource, Subresource};
use crate::strategy::WriteContext;
use crate::verbs::Call;
use crate::verbs::change::Computed;
use bytes::Bytes;
use meta::managed::{Tracker, Write as Writer};
use meta::object::Object;
use meta::status::Status;
use serde_json::{Map, Value};
use store::model::{Before, Change, State, Write};
use store::{Attributes, Entry, Error, Key, Revision, Visibility};
use uuid::Uuid;

/// Bytes of a stored object.
const OBJECT_BYTES_MAX: usize = 2 * 1024 * 1024;

const STATUS: &[&str] = &["status"];
/// Where a kind with a `finalize` subresource keeps its own finalizers.
const SPEC_FINALIZERS: &[&str] = &["spec", "finalizers"];
const METADATA: &[&str] = &["metadata"];
const MANAGED_FIELDS: &[&str] = &["metadata", "managedFields"];
const SPEC: &[&str] = &["spec"];

/// What a strategy may know of a write.
pub(crate) fn context<'a>(
    call: &'a Call<'_>,
    dry_run: bool,
    versioned: bool,
    now: &'a str,
) -> WriteContext<'a> {
    let tenant = match call.cx.access.visibility() {
        Visibility::Tenant(tenant) | Visibility::Member { tenant, .. } => Some(&**tenant),
        Visibility::Everything | Visibility::Nothing => None,
    };
    WriteContext {
        caller: &call.cx.caller,
        tenant,
        scope_tenant: None,
        dry_run,
        versioned,
        now,
        warnings: Vec::new(),
    }
}

/// The state that was read.
pub(crate) fn before(resource: &Resource, entry: &Entry, live: &Object) -> Result<Before, Status> {
    Ok(Before { attributes: entry.attributes.clone(), account: resource.strategy.account(live)? })
}

/// The state to store.
pub(crate) fn state(resource: &Resource, object: &mut Object) -> Result<State, Status> {
    object.remove(&["metadata", "resourceVersion"]);
    let body = serde_json::to_string(object.as_map()).map_err(|error| Status::internal(error.to_string()))?;
    if body.len() > OBJECT_BYTES_MAX {
        return Err(Status::too_large(format!("Request entity too large: limit is {OBJECT_BYTES_MAX}")));
    }
    Ok(State { body, account: resource.strategy.account(object)? })
}

/// Has the store decide a write. `Revision(0)` for a dry run.
pub(crate) async fn commit(call: &Call<'_>, write: Write, dry_run: bool) -> Result<Revision, Error> {
    if dry_run {
        return call.api.store.check(&call.cx.access, write).await.map(|()| Revision(0));
    }
    call.api.store.write(&call.cx.access, write).await
}

/// What to tell who has made an accepted write.
pub(crate) fn growth_warnings(resource: &Resource, change: &Change) -> Vec<String> {
    let (before, Some(after)) = (change.before(), change.after()) else { return Vec::new() };
    if before.is_some_and(|before| before.weighs_as(after)) {
        return Vec::new();
    }
    resource.strategy.growth_warnings(before, after)
}

/// The object as it was written, to answer with.
pub(crate) fn written(key: &Key, uid: Uuid, revision: Revision, body: Bytes) -> Entry {
    Entry { key: key.clone(), uid, revision, body, attributes: Attributes::default() }
}

/// Whether the kind has a subresource that owns a part.
pub(crate) fn owns(resource: &Resource, part: Part) -> bool {
    resource.subresources.iter().any(|subresource: &Subresource| subresource.writes == part)
}

/// Keeps of the written object only what this endpoint owns; the rest is taken from the live one.
pub(crate) fn keep_part(resource: &Resource, part: Part, live: &Object, computed: Computed) -> Object {
    let Computed { object: mut new, track, .. } = computed;
    let only = |path: &[&str], mut given: Object| {
        let mut kept = live.clone();
        kept.take_from(&mut given, path);
        if !track {
            kept.take_from(&mut given, MANAGED_FIELDS);
        }
        kept
    };
    match part {
        Part::Status => only(STATUS, new),
        Part::Finalize => only(SPEC_FINALIZERS, new),
        Part::Main => {
            if owns(resource, Part::Status) {
                new.copy_from(live, STATUS);
            }
            if owns(resource, Part::Finalize) {
                new.copy_from(live, SPEC_FINALIZERS);
            }
            new
        }
    }
}

/// The field tracker of an endpoint: what it does not write, nobody comes to own through it.
pub(crate) fn tracker(resource: &Resource, part: Part) -> Tracker<'_> {
    let reset: &'static [&'static [&'static str]] = match part {
        Part::Main if owns(resource, Part::Finalize) => &[STATUS, SPEC_FINALIZERS],
        Part::Main => &[STATUS],
        Part::Status => &[SPEC, METADATA],
        Part::Finalize => &[STATUS, METADATA],
    };
    Tracker { schema: &resource.schema, kind: &resource.gvk, reset }
}

/// Who writes, for the tracker.
pub(crate) fn writer<'a>(call: &Call<'_>, manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { manager, subresource: call.subresource(), now }
}

/// Whether two states of an object are the same but for revision and the times of field owners.
pub(crate) fn is_unchanged(live: &Object, new: &Object) -> bool {
    fn metadata(object: &Object) -> Option<&Map<String, Value>> {
        object.as_map().get("metadata").and_then(Value::as_object)
    }
    let (Some(before), Some(after)) = (metadata(live), metadata(new)) else { return false };
    same_but(live.as_map(), new.as_map(), &["metadata"])
        && same_but(before, after, &["resourceVersion", "managedFields"])
        && same_owners(before.get("managedFields"), after.get("managedFields"))
}

/// Whether two maps agree in every key but these.
pub(crate) fn same_but(left: &Map<String, Value>, right: &Map<String, Value>, except: &[&str]) -> bool {
    let covers = |a: &Map<String, Value>, b: &Map<String, Value>| {
        a.iter().all(|(key, value)| except.contains(&key.as_str()) || b.get(key) == Some(value))
    };
    covers(left, right) && covers(right, left)
}

fn same_owners(left: Option<&Value>, right: Option<&Value>) -> bool {
    fn entries(value: Option<&Value>) -> &[Value] {
        value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    let (left, right) = (entries(left), entries(right));
    left.len() == right.len()
        && left.iter().zip(right).all(|(a, b)| match (a, b) {
            (Value::Object(a), Value::Object(b)) => same_but(a, b, &["time"]),
            _ => a == b,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::new(value).unwrap()
    }

    #[test]
    fn only_revision_and_owner_times_do_not_count_as_a_change() {
        let of = |rv: &str, time: &str, label: &str, spec: i64| {
            object(json!({"metadata": {"name": "a", "labels": {"l": label}, "resourceVersion": rv,
                "managedFields": [{"manager": "m", "time": time}]}, "spec": {"n": spec}}))
        };
        let live = of("1", "t1", "x", 1);
        assert!(is_unchanged(&live, &of("2", "t2", "x", 1)));
        assert!(!is_unchanged(&live, &of("1", "t1", "y", 1)));
        assert!(!is_unchanged(&live, &of("1", "t1", "x", 2)));
        let mut unowned = live.clone();
        unowned.remove(&["metadata", "managedFields"]);
        assert!(!is_unchanged(&live, &unowned));
    }
}
