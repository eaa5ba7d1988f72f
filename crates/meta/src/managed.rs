//! Field ownership (`metadata.managedFields`) and server-side apply.
//!
//! The rules are those of `sigs.k8s.io/structured-merge-diff`, over our own `Schema`: an update owns the fields
//! that it changes, an apply owns the fields that it lists. A field that an applier no longer lists and nobody else
//! owns is removed.
//!
//! `FieldManager` decodes and encodes `managedFields`. `ownership` decides who owns which field afterwards. It uses
//! `typed`, `merge` and `compare`, which walk values by the `shape` that their schema gives them.

mod compare;
mod field_set;
mod last_applied;
mod managers;
mod merge;
mod ownership;
mod path_element;
mod shape;
mod typed;

use crate::decode;
use crate::gvk::GroupVersionKind;
use crate::object::Object;
use crate::schema::Schema;
use crate::status::{Status, StatusCause};
use managers::{ManagerIdentity, Managers};
use ownership::{OwnershipError, Updater};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::LazyLock;

pub use field_set::FieldSet;
pub use path_element::PathElement;

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];
/// The manager of the fields that an object had before its first apply, if it had no `managedFields`.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Fields that no manager owns: they identify the object, or the server sets them.
const NEVER_OWNED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

static NEVER_OWNED_SET: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_names(&NEVER_OWNED));

/// The most fields of an applied configuration that can have owners: keys of maps, and items of sets and of lists with
/// keys. While it is merged, each takes about a kilobyte, in several trees and sets of fields. In a stored object it
/// takes 20 bytes or more, so hardly more of them would fit.
pub const FIELDS_MAX: usize = 100_000;

/// Keeps `managedFields` of objects up to date, for one kind and one endpoint (the main resource or a subresource).
#[derive(Clone, Copy, Debug)]
pub struct FieldManager<'a> {
    /// The kind's schema.
    pub schema: &'a Schema,
    /// The kind and version of the endpoint.
    pub kind: &'a GroupVersionKind,
    /// Subtrees that this endpoint does not write, such as `["status"]` for the main resource and `["spec"]`,
    /// `["metadata"]` for `status` (`ResetFields` in Go). A write through it makes nobody their owner.
    pub reset: &'a [&'a [&'a str]],
}

/// Who writes, where, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// Field manager; empty is `unknown`.
    pub manager: &'a str,
    /// Subresource; empty for the main resource.
    pub subresource: &'a str,
    /// RFC 3339 time in whole seconds.
    pub now: &'a str,
}

/// A field that another manager owns and an apply would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, such as `"mgr" with subresource "status" using v1`.
    pub owner: String,
    /// Path of the field, such as `.spec.clusters[name="a"].hard`.
    pub field: String,
}

/// Why an apply is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 400: the body cannot be applied.
    #[error("{0}")]
    BadRequest(String),
    /// 413: the body has too many fields.
    #[error("Request entity too large: a configuration has at most {} fields", FIELDS_MAX)]
    TooLarge,
    /// 409: the apply would change fields that others own. The conflicts are grouped by owner.
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// 500, as a Go server answers: the body or the live object does not fit the schema.
    #[error("{0}")]
    Internal(String),
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", one.owner, one.field);
    }
    let mut lines = Vec::new();
    for group in conflicts.chunk_by(|a, b| a.owner == b.owner) {
        lines.extend(group.first().map(|first| format!("conflicts with {}:", first.owner)));
        lines.extend(group.iter().map(|conflict| format!("- {}", conflict.field)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

impl ApplyError {
    /// The answer to the client.
    pub fn status(&self) -> Status {
        match self {
            Self::BadRequest(message) => Status::bad_request(message),
            Self::TooLarge => Status::too_large(self.to_string()),
            Self::Conflict(conflicts) => {
                let cause = |conflict: &Conflict| StatusCause {
                    reason: "FieldManagerConflict".to_owned(),
                    message: format!("conflict with {}", conflict.owner),
                    field: conflict.field.clone(),
                };
                Status::failure(409, "Conflict", self.to_string())
                    .with_causes(conflicts.iter().map(cause).collect())
            }
            Self::Internal(message) => Status::failure(500, "", message),
        }
    }
}

impl FieldManager<'_> {
    /// Updates `metadata.managedFields` of an object that is created (no `live`), updated or patched.
    ///
    /// `new` is the whole object as it will be stored, with its defaults. This never fails: an object whose fields
    /// cannot be tracked is returned without `managedFields`. When only times would change, the result equals `live`.
    #[must_use]
    pub fn update(&self, live: Option<&Object>, mut new: Object, writer: Writer<'_>) -> Object {
        let mut managers = managers_before(live, &new, writer.subresource);
        new.remove(&MANAGED_FIELDS);
        let is_untracked = managers.is_empty() && live.is_some_and(|live| !live.uid().is_empty());
        if is_untracked {
            return new;
        }
        let empty = Map::new();
        let before = live.map_or(&empty, Object::as_map);
        let result = self.track(before, new.as_map(), &mut managers, writer);
        if result.is_ok()
            && let Some(list) = managers.encode()
        {
            new.set(&MANAGED_FIELDS, list);
        }
        if let Some(live) = live {
            keep_times(live, &mut new);
        }
        new
    }

    /// Server-side apply: merges a configuration into the live object, or creates the object if `live` is `None`.
    /// Returns the pruned result with its `managedFields`, but without defaults.
    ///
    /// `applied` is the request's body as it was sent: unpruned, with its nulls. The caller checks its name, uid and
    /// resourceVersion. When only times would change, the result equals `live`.
    pub fn apply(
        &self,
        live: Option<&Object>,
        applied: &Value,
        force: bool,
        writer: Writer<'_>,
    ) -> Result<Object, ApplyError> {
        let config = self.check_configuration(applied)?;
        let mut managers = Managers::decode(live.and_then(|live| live.get(&MANAGED_FIELDS)))
            .map_err(|error| ApplyError::Internal(format!("failed to decode managed fields: {error}")))?;
        let empty = self.empty_object();
        let before = live.map_or(&empty, Object::as_map);
        // A new object has no fields that somebody could own already.
        if managers.is_empty() && live.is_some() {
            let first = Writer { manager: BEFORE_FIRST_APPLY, ..writer };
            self.track(&empty, before, &mut managers, first).map_err(|error| {
                ApplyError::Internal(format!("failed to create manager for existing fields: {error}"))
            })?;
        }
        let mut result = self.merge_configuration(before, &config, &mut managers, force, writer)?;
        if writer.manager == last_applied::KUBECTL {
            last_applied::refresh(&mut result, &config);
        }
        self.finish(live, result, managers)
    }

    /// An object that has nothing but `apiVersion` and `kind`.
    fn empty_object(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("apiVersion".to_owned(), Value::String(self.kind.api_version()));
        map.insert("kind".to_owned(), Value::String(self.kind.kind.clone()));
        map
    }

    fn updater<'s>(&'s self, api_version: &'s str) -> Updater<'s> {
        Updater { schema: self.schema, api_version, reset: FieldSet::of_names(self.reset) }
    }

    /// Checks a request's body and returns it with canonical values.
    fn check_configuration<'v>(&self, applied: &'v Value) -> Result<Cow<'v, Map<String, Value>>, ApplyError> {
        let Value::Object(config) = applied else {
            return Err(ApplyError::BadRequest("error decoding YAML: the body must be an object".to_owned()));
        };
        let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = GroupVersionKind::parse_api_version(text("apiVersion"));
        let given = GroupVersionKind::new(group, version, text("kind"));
        if given != *self.kind {
            return Err(ApplyError::BadRequest(format!(
                "invalid object type: {}/{}, Kind={}",
                group, version, given.kind
            )));
        }
        let metadata = |key: &str| config.get("metadata").and_then(|metadata| metadata.get(key));
        if metadata("managedFields").is_some_and(|value| !value.is_null()) {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        if typed::count_fields(config, self.schema) > FIELDS_MAX {
            return Err(ApplyError::TooLarge);
        }
        typed::validate(config, self.schema).map_err(|error| {
            let name = |key| metadata(key).and_then(Value::as_str).unwrap_or_default();
            let (namespace, name) = (name("namespace"), name("name"));
            ApplyError::Internal(format!(
                "failed to create typed patch object ({namespace}/{name}; {}): {error}",
                self.kind
            ))
        })?;
        Ok(typed::normalised(config, self.schema))
    }

    /// Makes the writer the owner of the fields that an update changes.
    fn track(
        &self,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
        managers: &mut Managers,
        writer: Writer<'_>,
    ) -> Result<(), String> {
        let api_version = self.kind.api_version();
        let mut changed = match self.updater(&api_version).update(before, after, managers) {
            Ok(fields) => fields,
            Err(OwnershipError::Invalid(error)) => return Err(error),
            Err(OwnershipError::Conflicts(_)) => return Err("an update cannot conflict".to_owned()),
        };
        changed.remove(&NEVER_OWNED_SET);
        if !changed.is_empty() {
            let identity = ManagerIdentity::updater(writer.manager, &api_version, writer.subresource);
            managers.change(&identity, &api_version, |entry| {
                entry.fields.add(changed);
                entry.time = Some(writer.now.to_owned());
            });
        }
        managers.cap();
        Ok(())
    }

    /// Merges a configuration. kubectl also takes over the fields that its client-side apply has set and nobody has
    /// changed since.
    fn merge_configuration(
        &self,
        before: &Map<String, Value>,
        config: &Map<String, Value>,
        managers: &mut Managers,
        force: bool,
        writer: Writer<'_>,
    ) -> Result<Map<String, Value>, ApplyError> {
        let api_version = self.kind.api_version();
        let updater = self.updater(&api_version);
        let applier = ManagerIdentity::applier(writer.manager, writer.subresource);
        let saved =
            if writer.manager == last_applied::KUBECTL { managers.clone() } else { Managers::default() };
        let mut outcome = updater.apply(before, config, managers, &applier, force);
        if let Err(OwnershipError::Conflicts(conflicts)) = &mut outcome
            && writer.manager == last_applied::KUBECTL
            && let Some(taken) = last_applied::still_applied(before, self.schema, &api_version)
        {
            for (_, fields) in conflicts.iter_mut() {
                *fields = fields.difference(&taken);
            }
            conflicts.retain(|(_, fields)| !fields.is_empty());
            if conflicts.is_empty() {
                *managers = saved;
                outcome = updater.apply(before, config, managers, &applier, true);
            }
        }
        let (result, changed) = outcome.map_err(apply_error)?;
        managers.change(&applier, &api_version, |entry| {
            entry.fields.remove(&NEVER_OWNED_SET);
            if changed {
                entry.time = Some(writer.now.to_owned());
            }
        });
        managers.0.retain(|entry| !entry.fields.is_empty());
        Ok(result)
    }

    /// Prunes a merged object and sets its `managedFields`.
    fn finish(
        &self,
        live: Option<&Object>,
        result: Map<String, Value>,
        managers: Managers,
    ) -> Result<Object, ApplyError> {
        let mut value = Value::Object(result);
        decode::prune_and_check(&mut value, self.schema)
            .map_err(|error| ApplyError::BadRequest(error.to_string()))?;
        let mut object = Object::new(value)
            .map_err(|other| ApplyError::Internal(format!("an apply must give an object, not {other}")))?;
        if let Some(list) = managers.encode() {
            object.set(&MANAGED_FIELDS, list);
        }
        if let Some(live) = live {
            keep_times(live, &mut object);
        }
        Ok(object)
    }
}

/// Restores the times of `managedFields` if a write would change nothing else: then there is nothing to write.
fn keep_times(live: &Object, new: &mut Object) {
    if are_equal_but_times(live, new) {
        new.copy_from(live, &MANAGED_FIELDS);
    }
}

/// Whether two objects with `managedFields` are equal apart from the times there.
fn are_equal_but_times(live: &Object, new: &Object) -> bool {
    let (Some(Value::Object(old_metadata)), Some(Value::Object(metadata))) =
        (live.get(&["metadata"]), new.get(&["metadata"]))
    else {
        return false;
    };
    let (Some(Value::Array(old_entries)), Some(Value::Array(entries))) =
        (old_metadata.get("managedFields"), metadata.get("managedFields"))
    else {
        return false;
    };
    let is_same_entry = |(old, new): (&Value, &Value)| match (old, new) {
        (Value::Object(old), Value::Object(new)) => are_equal_but("time", old, new),
        _ => false,
    };
    old_entries.len() == entries.len()
        && old_entries.iter().zip(entries).all(is_same_entry)
        && are_equal_but("managedFields", old_metadata, metadata)
        && are_equal_but("metadata", live.as_map(), new.as_map())
}

/// Whether two maps are equal apart from the value of one key.
fn are_equal_but(key: &str, one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let one = one.iter().filter(|(name, _)| *name != key);
    one.eq(other.iter().filter(|(name, _)| *name != key))
}

fn apply_error(error: OwnershipError) -> ApplyError {
    match error {
        OwnershipError::Invalid(error) => ApplyError::Internal(error),
        OwnershipError::Conflicts(mut conflicts) => {
            conflicts.sort_by(|a, b| a.0.cmp(&b.0));
            let each = |(owner, fields): (ManagerIdentity, FieldSet)| {
                let owner = owner.describe();
                let field = |path: Vec<PathElement>| Conflict {
                    owner: owner.clone(),
                    field: path.iter().map(ToString::to_string).collect(),
                };
                fields.paths().into_iter().map(field).collect::<Vec<_>>()
            };
            ApplyError::Conflict(conflicts.into_iter().flat_map(each).collect())
        }
    }
}

/// The managers before a write: those in its own body, if it has some and is not to a subresource; else the live
/// object's.
fn managers_before(live: Option<&Object>, new: &Object, subresource: &str) -> Managers {
    let live_managers =
        || Managers::decode(live.and_then(|live| live.get(&MANAGED_FIELDS))).unwrap_or_default();
    if !subresource.is_empty() {
        return live_managers();
    }
    let given = new.get(&MANAGED_FIELDS);
    if given.and_then(Value::as_array).is_some_and(|list| list.is_empty() || *list == [json!({})]) {
        return Managers::default();
    }
    match Managers::decode(given) {
        Ok(managers) if !managers.is_empty() => managers,
        _ => live_managers(),
    }
}

#[cfg(test)]
mod tests;
