//! Generic validation of `metadata`, on create and on update, with the messages of Go.

use crate::field::{FIELD_ERRORS_MAX, FieldError, FieldErrors, Path, is_printable};
use crate::gvk::GroupVersionKind;
use crate::name;
use crate::object::Object;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The validation rule for names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS label, at most 63 bytes.
    Label,
    /// A DNS subdomain, at most 253 bytes.
    Subdomain,
}

/// The maximum number of bytes of all annotations of an object together.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// The maximum number of owner references of an object.
pub const OWNERS_MAX: usize = 1_000;
/// The maximum number of finalizers of an object.
pub const FINALIZERS_MAX: usize = 1_000;
/// The maximum number of bytes of a field manager's name.
pub const FIELD_MANAGER_BYTES_MAX: usize = 128;
/// The maximum number of bytes of a subresource's name in `managedFields`.
const SUBRESOURCE_BYTES_MAX: usize = 256;
const ORPHAN: &str = "orphan";
const FOREGROUND_DELETION: &str = "foregroundDeletion";
/// Fields that cannot be changed.
const IMMUTABLE: [&str; 6] =
    ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
const DUPLICATE_OWNERS: &str = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and \
     may reject such requests as early as 1.24; please fix your requests";

impl NameRule {
    /// What is wrong with a name.
    pub fn check(self, value: &str) -> Vec<String> {
        // Such a name is always a valid path segment.
        match self {
            Self::Label => name::dns1123_label(value),
            Self::Subdomain => name::dns1123_subdomain(value),
        }
    }

    /// What is wrong with a `generateName`. It may end with a dash.
    pub fn check_prefix(self, value: &str) -> Vec<String> {
        let kept = value.strip_suffix('-').filter(|kept| !kept.is_empty()).map(|kept| {
            let mut characters = kept.chars();
            characters.next_back();
            format!("{}a", characters.as_str())
        });
        self.check(kept.as_deref().unwrap_or(value))
    }
}

/// Errors of an object's `metadata`.
pub fn object_meta(object: &Object, namespaced: bool, rule: NameRule) -> FieldErrors {
    let path = Path::new("metadata");
    let mut errors = FieldErrors::new();
    let prefix = object.text(&["metadata", "generateName"]);
    if !prefix.is_empty() {
        push_invalid(&mut errors, &path.child("generateName"), prefix, rule.check_prefix(prefix));
    }
    if object.name().is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        push_invalid(&mut errors, &path.child("name"), object.name(), rule.check(object.name()));
    }
    let namespace = path.child("namespace");
    match (namespaced, object.namespace()) {
        (true, "") => errors.push(FieldError::required(&namespace, "")),
        (true, text) => push_invalid(&mut errors, &namespace, text, name::dns1123_label(text)),
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(&namespace, "not allowed on this type")),
    }
    if object.generation() < 0 {
        let value = Value::from(object.generation());
        errors.push(FieldError::invalid(
            &path.child("generation"),
            &value,
            "must be greater than or equal to 0",
        ));
    }
    labels_and_annotations(object, &path, &mut errors);
    owner_references(object, &path.child("ownerReferences"), &mut errors);
    finalizers(object, &path.child("finalizers"), &mut errors);
    managed_fields(object, &path.child("managedFields"), &mut errors);
    errors
}

/// Errors of a change of `metadata`: what may not change, and new finalizers on an object that is being deleted.
pub fn object_meta_update(new: &Object, old: &Object) -> FieldErrors {
    let path = Path::new("metadata");
    let mut errors = FieldErrors::new();
    if old.is_deleting() && new.finalizers().count() <= FINALIZERS_MAX {
        let known: BTreeSet<&str> = old.finalizers().collect();
        let added: BTreeSet<&str> = new.finalizers().filter(|text| !known.contains(text)).collect();
        if !added.is_empty() {
            let list = added.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            errors.push(FieldError::forbidden(&path.child("finalizers"), &detail));
        }
    }
    if new.resource_version().is_empty() {
        let value = Value::from("");
        errors.push(FieldError::invalid(
            &path.child("resourceVersion"),
            &value,
            "must be specified for an update",
        ));
    }
    if new.generation() < old.generation() {
        let value = Value::from(new.generation());
        errors.push(FieldError::invalid(&path.child("generation"), &value, "must not be decremented"));
    }
    for field in IMMUTABLE {
        let (given, kept) = (non_empty(new, field), non_empty(old, field));
        if given != kept {
            let given = given
                .cloned()
                .unwrap_or_else(|| if field.contains("deletion") { Value::Null } else { Value::from("") });
            errors.push(FieldError::invalid(&path.child(field), &given, "field is immutable"));
        }
    }
    labels_and_annotations(new, &path, &mut errors);
    owner_references(new, &path.child("ownerReferences"), &mut errors);
    finalizers(new, &path.child("finalizers"), &mut errors);
    managed_fields(new, &path.child("managedFields"), &mut errors);
    errors
}

/// A field of the metadata, unless it is an empty text.
fn non_empty<'a>(object: &'a Object, field: &str) -> Option<&'a Value> {
    object.get(&["metadata", field]).filter(|value| !matches!(value.as_str(), Some("")))
}

/// Removes duplicate `ownerReferences`. Returns the warning to send if there were any.
pub fn dedup_owner_references(object: &mut Object) -> Option<String> {
    let Some(Value::Array(owners)) = object.get(&["metadata", "ownerReferences"]) else { return None };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let (mut seen, mut uids) = (BTreeSet::new(), Vec::new());
    for owner in owners {
        if seen.insert(owner.to_string()) {
            kept.push(owner.clone());
        } else {
            uids.push(owner.get("uid").and_then(Value::as_str).unwrap_or_default());
        }
    }
    if uids.is_empty() {
        return None;
    }
    let warning = format!("{DUPLICATE_OWNERS}; duplicate UID(s) observed: {}", uids.join(", "));
    object.set(&["metadata", "ownerReferences"], Value::Array(kept));
    Some(warning)
}

/// Warnings for new finalizers without a domain.
pub fn finalizer_warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    let known: BTreeSet<&str> = old.into_iter().flat_map(Object::finalizers).collect();
    new.finalizers()
        .filter(|text| !known.contains(text) && !matches!(*text, ORPHAN | FOREGROUND_DELETION))
        .filter(|text| !text.contains('/'))
        .map(|text| {
            let path = if text.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {text:?}: prefer a domain-qualified finalizer name{path} to avoid accidental \
                 conflicts with other finalizer writers"
            )
        })
        .collect()
}

/// Errors of the query parameter `fieldManager`.
pub fn field_manager(manager: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    manager_name(manager, &Path::new("fieldManager"), &mut errors);
    errors
}

fn manager_name(manager: &str, path: &Path, errors: &mut FieldErrors) {
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_BYTES_MAX));
    }
    let hidden = manager.char_indices().filter(|(_, character)| !is_printable(*character));
    for (at, character) in hidden.take(FIELD_ERRORS_MAX) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        errors.push(FieldError::invalid(path, &Value::from(manager), &detail));
    }
}

/// Whether there are more errors than a Status shows.
fn is_full(errors: &FieldErrors) -> bool {
    errors.len() > FIELD_ERRORS_MAX
}

fn push_invalid(errors: &mut FieldErrors, path: &Path, value: &str, wrong: Vec<String>) {
    if wrong.is_empty() {
        return;
    }
    let value = Value::from(value);
    errors.extend(wrong.into_iter().map(|detail| FieldError::invalid(path, &value, &detail)));
}

fn labels_and_annotations(object: &Object, path: &Path, errors: &mut FieldErrors) {
    let labels = path.child("labels");
    for (key, value) in object.labels() {
        if is_full(errors) {
            return;
        }
        push_invalid(errors, &labels, key, name::qualified_name(key));
        push_invalid(errors, &labels, value, name::label_value(value));
    }
    let annotations = path.child("annotations");
    let mut bytes = 0_usize;
    for (key, value) in object.string_map(&["metadata", "annotations"]) {
        if is_full(errors) {
            return;
        }
        push_invalid(errors, &annotations, key, name::annotation_key(key));
        bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(&annotations, ANNOTATIONS_BYTES_MAX));
    }
}

fn maps<'a>(object: &'a Object, field: &str) -> impl Iterator<Item = &'a Map<String, Value>> {
    object
        .get(&["metadata", field])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn owner_references(object: &Object, path: &Path, errors: &mut FieldErrors) {
    let all = object.get(&["metadata", "ownerReferences"]);
    let count = all.and_then(Value::as_array).map_or(0, Vec::len);
    if count > OWNERS_MAX {
        errors.push(FieldError::too_many(path, count, OWNERS_MAX));
        return;
    }
    for owner in maps(object, "ownerReferences") {
        if is_full(errors) {
            return;
        }
        let api_version = text(owner, "apiVersion");
        let (group, version) = GroupVersionKind::parse_api_version(api_version);
        if version.is_empty() {
            let value = Value::from(api_version);
            errors.push(FieldError::invalid(&path.child("apiVersion"), &value, "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                errors.push(FieldError::invalid(&path.child(field), &Value::from(""), "must not be empty"));
            }
        }
        if (group, version, text(owner, "kind")) == ("", "v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, &Value::Object(owner.clone()), detail));
        }
    }
    let is_controller = |owner: &&Map<String, Value>| owner.get("controller") == Some(&Value::Bool(true));
    let mut controllers = maps(object, "ownerReferences")
        .filter(is_controller)
        .map(|owner| format!("{}/{}", text(owner, "kind"), text(owner, "name")));
    if let (Some(all), Some(first), Some(second)) = (all, controllers.next(), controllers.next()) {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.push(FieldError::invalid(path, all, &detail));
    }
}

fn finalizers(object: &Object, path: &Path, errors: &mut FieldErrors) {
    let count = object.finalizers().count();
    if count > FINALIZERS_MAX {
        errors.push(FieldError::too_many(path, count, FINALIZERS_MAX));
        return;
    }
    for finalizer in object.finalizers() {
        if is_full(errors) {
            return;
        }
        push_invalid(errors, path, finalizer, name::qualified_name(finalizer));
    }
    let has = |wanted| object.finalizers().any(|finalizer| finalizer == wanted);
    if has(ORPHAN) && has(FOREGROUND_DELETION) {
        let all = object.finalizers().map(Value::from).collect();
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND_DELETION} cannot be both set");
        errors.push(FieldError::invalid(path, &all, &detail));
    }
}

fn managed_fields(object: &Object, path: &Path, errors: &mut FieldErrors) {
    for (index, entry) in maps(object, "managedFields").enumerate() {
        if is_full(errors) {
            return;
        }
        let path = path.index(index);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let value = Value::from(operation);
            errors.push(FieldError::invalid(&path.child("operation"), &value, "must be `Apply` or `Update`"));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let value = Value::from(fields_type);
            errors.push(FieldError::invalid(&path.child("fieldsType"), &value, "must be `FieldsV1`"));
        }
        manager_name(text(entry, "manager"), &path.child("manager"), errors);
        if text(entry, "subresource").len() > SUBRESOURCE_BYTES_MAX {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_BYTES_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without references")]
    fn object(metadata: Value) -> Object {
        Object::new(json!({"metadata": metadata})).unwrap()
    }

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn on_create(metadata: Value) -> Vec<String> {
        texts(&object_meta(&object(metadata), false, NameRule::Label))
    }

    #[test]
    fn a_name_is_required_and_checked() {
        assert_eq!(on_create(json!({"name": "a", "generateName": "a-"})), Vec::<String>::new());
        assert_eq!(on_create(json!({})), ["metadata.name: Required value: name or generateName is required"]);
        assert_eq!(
            on_create(json!({"name": "a.b"})),
            ["metadata.name: Invalid value: \"a.b\": must not contain dots"]
        );
        let prefix = on_create(json!({"name": "a", "generateName": "A-"}));
        assert!(prefix.is_empty(), "the character before the dash is masked too, as upstream: {prefix:?}");
        assert!(
            on_create(json!({"name": "a", "generateName": "Ab-"}))[0]
                .starts_with("metadata.generateName: Invalid")
        );
    }

    #[test]
    fn the_namespace_follows_the_scope() {
        let namespaced = |metadata| texts(&object_meta(&object(metadata), true, NameRule::Subdomain));
        assert_eq!(namespaced(json!({"name": "a.b", "namespace": "p"})), Vec::<String>::new());
        assert_eq!(namespaced(json!({"name": "a"})), ["metadata.namespace: Required value"]);
        let refused = on_create(json!({"name": "a", "namespace": "p"}));
        assert_eq!(refused, ["metadata.namespace: Forbidden: not allowed on this type"]);
    }

    #[test]
    fn labels_annotations_owners_and_finalizers_are_checked() {
        let errors = on_create(json!({
            "name": "a",
            "labels": {"-": "", "k": "a b"},
            "annotations": {"Example.com/K": "v", "a/b/c": ""},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1", "controller": true},
                {"apiVersion": "g/", "name": "e", "uid": "1", "controller": true},
            ],
            "finalizers": ["orphan", "foregroundDeletion", "a b"],
            "managedFields": [{"operation": "X", "fieldsType": "V2", "manager": "a\u{7}"}],
        }));
        let starts = [
            "metadata.labels: Invalid value: \"-\": name part must consist of",
            "metadata.labels: Invalid value: \"a b\": a valid label must",
            "metadata.annotations: Invalid value: \"a/b/c\": a valid label key",
            "metadata.ownerReferences: Invalid value: {",
            "metadata.ownerReferences.apiVersion: Invalid value: \"g/\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences: Invalid value: [",
            "metadata.finalizers: Invalid value: \"a b\": name part",
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\",\"a b\"]: finalizer orphan and",
            "metadata.managedFields[0].operation: Invalid value: \"X\": must be `Apply` or `Update`",
            "metadata.managedFields[0].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[0].manager: Invalid value: \"a\\a\": invalid character U+0007 (at position 1)",
        ];
        assert_eq!(errors.len(), starts.len(), "{errors:#?}");
        for (error, start) in errors.iter().zip(starts) {
            assert!(error.starts_with(start), "{error} !~ {start}");
        }
    }

    #[test]
    fn annotations_have_a_size_limit() {
        let fits = json!({"name": "a", "annotations": {"k": "v".repeat(ANNOTATIONS_BYTES_MAX - 1)}});
        assert!(on_create(fits).is_empty());
        let errors = on_create(json!({"name": "a", "annotations": {"k": "v".repeat(ANNOTATIONS_BYTES_MAX)}}));
        assert_eq!(errors, ["metadata.annotations: Too long: may not be more than 262144 bytes"]);
    }

    #[test]
    fn errors_stay_short_whatever_is_wrong() {
        let owners = |count: usize| -> Vec<Value> {
            let owner =
                |n| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": n, "controller": true});
            (0..count).map(|n| owner(n.to_string())).collect()
        };
        let managed = json!({"operation": "\u{7}".repeat(5_000), "manager": "\u{7}".repeat(5_000)});
        let labels: Map<String, Value> = (0..5_000).map(|n| (format!("-{n}-"), json!("-"))).collect();
        for metadata in [
            json!({"name": "a", "ownerReferences": owners(5_000)}),
            json!({"name": "a", "ownerReferences": owners(OWNERS_MAX)}),
            json!({"name": "a", "ownerReferences": vec![json!({}); OWNERS_MAX]}),
            json!({"name": "a", "finalizers": vec![""; 100_000]}),
            json!({"name": "a", "finalizers": vec![""; FINALIZERS_MAX]}),
            json!({"name": "a", "labels": labels, "annotations": labels}),
            json!({"name": "a", "managedFields": vec![managed; 100]}),
        ] {
            let new = object(metadata);
            let old = object(json!({"name": "a", "deletionTimestamp": "t"}));
            for errors in [object_meta(&new, false, NameRule::Label), object_meta_update(&new, &old)] {
                let bytes: usize = errors.iter().map(|error| error.to_string().len()).sum();
                assert!(!errors.is_empty() && errors.len() < 2 * FIELD_ERRORS_MAX + 10, "{}", errors.len());
                assert!(bytes < 256 * 1024, "{bytes} bytes");
            }
        }
        let errors = on_create(json!({"name": "a", "ownerReferences": owners(5_000)}));
        assert_eq!(errors, ["metadata.ownerReferences: Too many: 5000: must have at most 1000 items"]);
        let errors = on_create(json!({"name": "a", "ownerReferences": owners(1_000)}));
        assert_eq!(errors.len(), 1, "{errors:?}");
    }

    #[test]
    fn identity_cannot_change() {
        let old = object(
            json!({"name": "a", "uid": "1", "generation": 2, "resourceVersion": "5", "deletionTimestamp": "t",
            "finalizers": ["x/a"]}),
        );
        assert!(object_meta_update(&old, &old).is_empty());
        let new = object(json!({"name": "a", "uid": "2", "generation": 1, "finalizers": ["x/b", "x/a"]}));
        assert_eq!(
            texts(&object_meta_update(&new, &old)),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found \
                 new finalizers []string{\"x/b\"}",
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
                "metadata.generation: Invalid value: 1: must not be decremented",
                "metadata.uid: Invalid value: \"2\": field is immutable",
                "metadata.deletionTimestamp: Invalid value: null: field is immutable",
            ]
        );
    }

    #[test]
    fn finalizers_of_a_change_are_checked_as_those_of_a_new_object() {
        let old = object(json!({"name": "a", "resourceVersion": "1"}));
        let new = object(json!({"name": "a", "resourceVersion": "1", "finalizers": ["x_y/z"]}));
        assert!(
            texts(&object_meta_update(&new, &old))[0]
                .starts_with("metadata.finalizers: Invalid value: \"x_y/z\"")
        );
    }

    #[test]
    fn repeated_owners_are_dropped_with_a_warning() {
        let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"});
        let mut once = object(json!({"ownerReferences": [owner]}));
        assert_eq!(dedup_owner_references(&mut once), None);
        let mut twice = object(json!({"ownerReferences": [owner, owner]}));
        assert!(
            dedup_owner_references(&mut twice)
                .unwrap()
                .starts_with(".metadata.ownerReferences contains duplicate")
        );
        assert_eq!(twice, once);
    }

    #[test]
    fn new_bare_finalizers_get_a_warning() {
        let old = object(json!({"finalizers": ["old"]}));
        let new = object(json!({"finalizers": ["old", "orphan", "a/b", "new"]}));
        let warnings = finalizer_warnings(&new, Some(&old));
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].starts_with("metadata.finalizers: \"new\": prefer a domain-qualified finalizer name")
        );
    }

    #[test]
    fn field_managers_are_short_and_printable() {
        assert!(field_manager("kubectl-client-side-apply ü'\"").is_empty());
        assert_eq!(
            texts(&field_manager(&"a".repeat(129))),
            ["fieldManager: Too long: may not be more than 128 bytes"]
        );
        assert_eq!(field_manager("a\u{a0}\u{200b}\n").len(), 3);
    }
}
