//! The fields of an object that each endpoint owns: only these are changed by a write through it, and get its field
//! manager.

use crate::object_endpoint::ObjectEndpoint;
use crate::resource::{Resource, StoredKind};
use crate::subresource::{FieldPath, Subresource, SubresourceKind, Writes};
use crate::verbs::Call;
use meta::managed::{FieldManager, Writer};
use meta::object::Object;
use meta::schema::{Schema, Type};
use serde_json::{Map, Value};
use std::borrow::Cow;

const MANAGED_FIELDS: &[&str] = &["metadata", "managedFields"];
/// The fields of an object that are not part of its specification.
const BESIDE_SPEC: [&[&str]; 4] = [&["apiVersion"], &["kind"], &["metadata"], &["status"]];

/// The state that a request wants the object to have.
pub(crate) struct DesiredState {
    /// The whole object as the client wants it.
    pub(crate) object: Object,
    /// Whether `managedFields` still has to be set.
    pub(crate) track: bool,
    /// Whether the request has a `resourceVersion` as its precondition.
    pub(crate) versioned: bool,
    pub(crate) warnings: Vec<String>,
}

fn subresource(stored: &StoredKind, endpoint: ObjectEndpoint) -> Option<&Subresource> {
    stored.subresources.iter().find(|subresource| subresource.endpoint() == endpoint)
}

/// Whether a write through an endpoint replaces the whole object, as at the main endpoint and in handlers.
pub(crate) fn is_whole_object(stored: &StoredKind, endpoint: ObjectEndpoint) -> bool {
    !subresource(stored, endpoint).is_some_and(|sub| matches!(sub.kind, SubresourceKind::Writes(_)))
}

/// Takes the fields that this endpoint owns from the written object, and all others from the live one.
pub(crate) fn keep_owned_fields(
    stored: &StoredKind,
    endpoint: ObjectEndpoint,
    live: &Object,
    desired: DesiredState,
) -> Object {
    let DesiredState { object: mut new, track, .. } = desired;
    match subresource(stored, endpoint) {
        Some(Subresource { kind: SubresourceKind::Writes(writes), .. }) => {
            let mut kept = live.clone();
            for path in writes.paths {
                kept.take_from(&mut new, path);
            }
            for path in nested(stored, writes) {
                kept.copy_from(live, path);
            }
            if !track {
                kept.take_from(&mut new, MANAGED_FIELDS);
            }
            kept
        }
        handler => {
            let others = stored.subresources.iter().filter(|_| handler.is_none());
            for path in others.flat_map(Subresource::paths).chain(stored.server_fields) {
                new.copy_from(live, path);
            }
            new
        }
    }
}

/// Removes from a new object the fields that only its subresources or the server may set.
pub(crate) fn reset_at_create(stored: &StoredKind, object: &mut Object) {
    for subresource in &stored.subresources {
        if let SubresourceKind::Writes(writes) = &subresource.kind
            && !writes.kept_at_create
        {
            for path in writes.paths {
                object.remove(path);
            }
        }
    }
    for path in stored.server_fields {
        object.remove(path);
    }
}

/// The reset fields of an endpoint: it does not write them, so no manager becomes their owner through it.
pub(crate) struct ResetFields(Vec<Cow<'static, [&'static str]>>);

impl ResetFields {
    pub(crate) fn of(resource: &Resource, stored: &StoredKind, endpoint: ObjectEndpoint) -> Self {
        let server = stored.server_fields.iter().copied();
        let others = stored.subresources.iter().flat_map(|sub| sub.paths().iter().copied());
        Self(match subresource(stored, endpoint) {
            None => others.chain(server).map(Cow::Borrowed).collect(),
            Some(Subresource { kind: SubresourceKind::Handler(_), .. }) => {
                server.map(Cow::Borrowed).collect()
            }
            Some(Subresource { kind: SubresourceKind::Writes(writes), .. }) => {
                let mut reset_fields = Vec::new();
                fields_except(&resource.schema, writes.paths, &mut Vec::new(), &mut reset_fields);
                reset_fields.extend(nested(stored, writes).map(Cow::Borrowed));
                reset_fields
            }
        })
    }

    /// Calls a function with the [`FieldManager`] of this endpoint.
    pub(crate) fn track<T>(&self, resource: &Resource, with: impl FnOnce(FieldManager<'_>) -> T) -> T {
        let reset: Vec<&[&str]> = self.0.iter().map(|path| &**path).collect();
        with(FieldManager { schema: &resource.schema, kind: &resource.gvk, reset: &reset })
    }
}

/// The paths of other subresources that lie below the paths of this one.
fn nested(stored: &StoredKind, writes: &Writes) -> impl Iterator<Item = FieldPath> {
    let is_below =
        |path: &FieldPath| writes.paths.iter().any(|own| path.len() > own.len() && path.starts_with(own));
    stored.subresources.iter().flat_map(|sub| sub.paths().iter().copied()).filter(is_below)
}

/// Whether a write through an endpoint may raise what the object costs or grants.
pub(crate) fn may_grow(stored: &StoredKind, endpoint: ObjectEndpoint) -> bool {
    endpoint == ObjectEndpoint::Main || subresource(stored, endpoint).is_some_and(Subresource::may_grow)
}

/// Collects the paths of all fields of a schema except those at `paths`.
fn fields_except(
    schema: &Schema,
    paths: &[&'static [&'static str]],
    at: &mut Vec<&'static str>,
    found: &mut Vec<Cow<'static, [&'static str]>>,
) {
    let Type::Struct { fields, .. } = &schema.ty else { return };
    for (name, field) in fields {
        let below: Vec<&[&str]> = paths
            .iter()
            .filter_map(|path| path.split_first())
            .filter(|(first, _)| *first == name)
            .map(|(_, rest)| rest)
            .collect();
        at.push(name);
        if below.is_empty() {
            found.push(Cow::Owned(at.clone()));
        } else if below.iter().all(|rest| !rest.is_empty()) {
            fields_except(&field.schema, &below, at, found);
        }
        at.pop();
    }
}

/// Who writes, for the [`FieldManager`].
pub(crate) fn field_writer<'a>(call: &Call<'_>, manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { manager, subresource: call.endpoint.name(), now }
}

/// Whether two states have the same specification, apart from the server's fields.
pub(crate) fn has_same_spec(stored: &StoredKind, live: &Object, new: &Object) -> bool {
    let except: Vec<&[&str]> = BESIDE_SPEC.iter().chain(stored.server_fields).copied().collect();
    equal_except(live.as_map(), new.as_map(), &except)
}

/// Whether two states of an object are equal, apart from the revision and the times in `managedFields`.
pub(crate) fn is_unchanged(live: &Object, new: &Object) -> bool {
    let but_these: [&[&str]; 2] = [&["metadata", "resourceVersion"], MANAGED_FIELDS];
    equal_except(live.as_map(), new.as_map(), &but_these)
        && have_same_managers(live.get(MANAGED_FIELDS), new.get(MANAGED_FIELDS))
}

/// Whether two maps are equal apart from the values at these paths.
fn equal_except(left: &Map<String, Value>, right: &Map<String, Value>, except: &[&[&str]]) -> bool {
    let is_left_out = |key: &str| except.iter().any(|path| matches!(path, [last] if *last == key));
    let same = |(key, value): (&String, &Value)| match (value, right.get(key)) {
        _ if is_left_out(key) => true,
        (Value::Object(a), Some(Value::Object(b))) => {
            let firsts = except.iter().filter_map(|path| path.split_first());
            let below: Vec<&[&str]> =
                firsts.filter(|(first, _)| *first == key).map(|(_, rest)| rest).collect();
            equal_except(a, b, &below)
        }
        (value, other) => other == Some(value),
    };
    left.iter().all(same) && right.keys().all(|key| left.contains_key(key) || is_left_out(key))
}

fn have_same_managers(left: Option<&Value>, right: Option<&Value>) -> bool {
    fn entries(value: Option<&Value>) -> &[Value] {
        value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    let (left, right) = (entries(left), entries(right));
    left.len() == right.len()
        && left.iter().zip(right).all(|(a, b)| match (a, b) {
            (Value::Object(a), Value::Object(b)) => equal_except(a, b, &[&["time"]]),
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
        let mut more = live.clone();
        more.set(&["status"], json!({}));
        assert!(!is_unchanged(&live, &more) && !is_unchanged(&more, &live));
    }

    #[test]
    fn what_lies_at_excepted_paths_does_not_count() {
        let except: [&[&str]; 2] = [&["a", "b"], &["c"]];
        let same =
            |left: Value, right: Value| equal_except(object(left).as_map(), object(right).as_map(), &except);
        assert!(same(json!({"a": {"b": 1, "x": 1}}), json!({"a": {"x": 1}, "c": 3})));
        assert!(!same(json!({"a": {"b": 1, "x": 1}}), json!({"a": {"b": 1, "x": 2}})));
        assert!(!same(json!({"a": {"x": 1}}), json!({"a": {"x": 1, "y": 1}})));
        assert!(!same(json!({}), json!({"a": {"b": 1}})));
    }

    #[test]
    fn nobody_comes_to_own_through_an_endpoint_what_it_does_not_write() {
        let schema = Schema::object(
            "",
            None,
            [
                ("metadata", Schema::object("", None, []).optional()),
                (
                    "spec",
                    Schema::object(
                        "",
                        None,
                        [
                            ("finalizers", Schema::string("").optional()),
                            ("size", Schema::integer("").optional()),
                        ],
                    )
                    .optional(),
                ),
                ("status", Schema::object("", None, []).optional()),
            ],
        );
        let of = |paths: &[&'static [&'static str]]| {
            let mut found = Vec::new();
            fields_except(&schema, paths, &mut Vec::new(), &mut found);
            found.iter().map(|path| path.join(".")).collect::<Vec<_>>()
        };
        assert_eq!(of(&[&["status"]]), ["metadata", "spec"]);
        assert_eq!(of(&[&["spec", "finalizers"]]), ["metadata", "spec.size", "status"]);
        assert_eq!(of(&[&["spec"], &["spec", "size"]]), ["metadata", "status"]);
    }
}
