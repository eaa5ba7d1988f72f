//! Converts one object of TKE into one of ours, without regard to others. Pure.

/// Projects.
pub mod project;
/// Namespaces.
pub mod namespace;
/// Platforms.
pub mod platform;
/// Config maps.
pub mod config_map;
/// Image namespaces and chart groups.
pub mod registry;
/// Emigrations.
pub mod nsemigration;

use super::candidate::Candidate;
use super::finding::{ImportFinding, Rule};
use crate::finalizers::FINALIZERS;
use business_types::names::{OPERATOR_ANNOTATIONS, SERVER_ANNOTATIONS};
use business_types::validation;
use meta::object::Object;
use serde_json::{Map, Value, json};

/// Finalizers that the API server sets for a deletion propagation policy. TKE removes them with its last DELETE.
const PROPAGATION: [&str; 2] = ["orphan", "foregroundDeletion"];
const STATUS_PHASE: &[&str] = &["status", "phase"];
const TERMINATING: &str = "Terminating";

/// Converts metadata and finalizers, which all kinds have in common.
pub fn convert_metadata(candidate: &mut Candidate, findings: &mut Vec<ImportFinding>) {
    let Candidate { object_ref, kind, object, .. } = candidate;
    for field in ["managedFields", "resourceVersion", "selfLink"] {
        object.remove(&["metadata", field]);
    }
    let generation = object.generation().max(1);
    object.set(&["metadata", "generation"], json!(generation));
    for key in SERVER_ANNOTATIONS {
        object.remove(&["metadata", "annotations", key]);
    }
    for key in OPERATOR_ANNOTATIONS {
        if object.remove(&["metadata", "annotations", key]).is_some() {
            let why = format!("annotation {key} is dropped: here it would be an operator's consent");
            findings.push(ImportFinding::new(Rule::Metadata, object_ref, why));
        }
    }
    let kept: Vec<&str> = object.finalizers().filter(|token| !PROPAGATION.contains(token)).collect();
    if kept.len() != object.finalizers().count() {
        let why = "a finalizer of a way of deletion is dropped: TKE takes it off with its last DELETE";
        findings.push(ImportFinding::new(Rule::Metadata, object_ref, why));
        let kept = json!(kept);
        object.set(&["metadata", "finalizers"], kept);
    }
    let token = kind.row.finalizer;
    let mut tokens: Vec<&str> = object.strings(FINALIZERS).collect();
    if !token.is_empty() && !tokens.contains(&token) {
        tokens.push(token);
        let tokens = json!(tokens);
        object.set(FINALIZERS, tokens);
        let why = format!(
            "spec.finalizers gets {token:?} back, which a PUT of TKE's console loses: without it nothing is cleaned up when \
             the object is deleted"
        );
        findings.push(ImportFinding::new(Rule::Finalizer, object_ref, why));
    }
}

/// Sets a phase that exists here. It is `Terminating` exactly if the object is being deleted, and `first` for unknown
/// ones.
fn convert_phase(candidate: &mut Candidate, names: &[&str], first: &str, findings: &mut Vec<ImportFinding>) {
    let object = &mut candidate.object;
    let was = object.text(STATUS_PHASE).to_owned();
    let is = match was.as_str() {
        _ if object.is_deleting() => TERMINATING,
        TERMINATING => first,
        known if names.contains(&known) => known,
        _ => first,
    };
    object.set(STATUS_PHASE, json!(is));
    if was != is && !was.is_empty() {
        let why = format!("status.phase {was:?} becomes {is:?}");
        findings.push(ImportFinding::new(Rule::Status, &candidate.object_ref, why));
    }
}

/// Drops the names that no user can have here from a list of users. TKE accepts any text, and never changes
/// `spec.members` afterwards.
fn drop_unusable_names(candidate: &mut Candidate, path: &[&str], findings: &mut Vec<ImportFinding>) {
    let Candidate { object_ref, object, .. } = candidate;
    let (users, dropped): (Vec<&str>, Vec<&str>) =
        object.strings(path).partition(|user| validation::is_user_name(user));
    if !dropped.is_empty() {
        let why =
            format!("{dropped:?} in {}: dropped, since no user can be listed by such a name", path.join("."));
        let users = json!(users);
        object.set(path, users);
        findings.push(ImportFinding::new(Rule::Mended, object_ref, why));
    }
}

/// Removes the fields that TKE has computed from the status, and returns them for a comparison.
pub fn take_computed(object: &mut Value, fields: &[&str]) -> Object {
    let mut computed = Map::new();
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        for field in fields {
            if let Some(value) = status.remove(*field) {
                computed.insert((*field).to_owned(), value);
            }
        }
    }
    Object::new(Value::Object(computed)).unwrap_or_default()
}
