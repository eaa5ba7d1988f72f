//! Checks one record: whether its object can be imported, without regard to others. Pure.

use super::candidate::{Candidate, ConvertSettings, ImportKind};
use super::convert;
use super::draft::Draft;
use super::finding::Rule;
use super::record::{ObjectRef, SourceRecord};
use super::rows::import_kinds;
use crate::kinds::KindTable;
use meta::decode::{apply_defaults, prune_and_check};
use meta::object::Object;
use meta::schema::Schema;
use meta::validation::{NameRule, object_meta};
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The kinds that TKE has.
const OF_TKE: [&str; 7] =
    ["projects", "namespaces", "platforms", "configmaps", "nsemigrations", "imagenamespaces", "chartgroups"];
/// The config map by which TKE's controllers elect a leader.
const LEADER_LOCK: &str = "tke-business-controller";

/// Checks records one by one.
#[derive(Debug)]
pub struct Checker<'a> {
    kinds: BTreeMap<&'static str, (ImportKind, Schema)>,
    settings: &'a ConvertSettings,
}

impl<'a> Checker<'a> {
    /// A checker for the import into a program with these kinds.
    pub fn new(kinds: KindTable, settings: &'a ConvertSettings) -> Self {
        let kinds = import_kinds(kinds).into_iter().map(|found| (found.0.row.plural, found)).collect();
        Self { kinds, settings }
    }

    /// Adds the record's object to the draft, or the finding why it is left out.
    pub fn check(&self, record: SourceRecord, draft: &mut Draft) {
        let SourceRecord { object_ref, value } = record;
        let Some((kind, schema)) = self.kinds.get(object_ref.resource.as_str()) else {
            draft.add_finding(Rule::NotServed, &object_ref, not_served(&object_ref));
            return;
        };
        if object_ref.resource == "configmaps" && object_ref.name == LEADER_LOCK {
            let why = "it does not come: it is the lock of TKE's controllers, which do not run any more";
            draft.add_finding(Rule::Ended, &object_ref, why);
            return;
        }
        let mut findings = Vec::new();
        match to_candidate(*kind, schema, &object_ref, value, self.settings, &mut findings) {
            Ok(candidate) => {
                draft.findings.append(&mut findings);
                draft.candidates.push(candidate);
            }
            Err((rule, why)) => draft.add_finding(rule, &object_ref, why),
        }
    }
}

fn not_served(object_ref: &ObjectRef) -> String {
    if OF_TKE.contains(&object_ref.resource.as_str()) {
        format!("this release does not take {} over", object_ref.resource)
    } else {
        format!("TKE has no kind {:?}", object_ref.resource)
    }
}

fn to_candidate(
    kind: ImportKind,
    schema: &Schema,
    object_ref: &ObjectRef,
    mut value: Value,
    settings: &ConvertSettings,
    findings: &mut Vec<super::finding::ImportFinding>,
) -> Result<Candidate, (Rule, String)> {
    let unreadable = |why: String| (Rule::Unreadable, why);
    let gvk = (kind.row.gvk)();
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("apiVersion") != gvk.api_version() || text("kind") != gvk.kind {
        return Err(unreadable(format!(
            "it is a {} of {}, not a {} of {}",
            text("kind"),
            text("apiVersion"),
            gvk.kind,
            gvk.api_version()
        )));
    }
    if has_nul(&value) {
        return Err(unreadable("a text holds the character U+0000".to_owned()));
    }
    let computed = convert::take_computed(&mut value, kind.row.computed);
    prune_and_check(&mut value, schema).map_err(|error| unreadable(error.to_string()))?;
    let mut object = Object::new(value).map_err(|_other| unreadable("it is no object".to_owned()))?;
    apply_defaults(&mut object, schema).map_err(|error| unreadable(error.to_string()))?;
    let invalid = |why: String| (Rule::Invalid, why);
    if object.name() != object_ref.name || object.namespace() != object_ref.project {
        return Err(invalid(format!(
            "its key names another object than its metadata, {:?} in {:?}",
            object.name(),
            object.namespace()
        )));
    }
    let uid = Uuid::parse_str(object.uid())
        .map_err(|_error| invalid(format!("metadata.uid {:?} is no uid", object.uid())))?;
    let mut candidate =
        Candidate { object_ref: object_ref.clone(), kind, uid, object, computed, is_present: false };
    let mut wrong = (kind.row.convert)(&mut candidate, settings, findings);
    let meta = object_meta(&candidate.object, kind.row.namespaced, NameRule::Label);
    wrong.extend(meta.iter().map(ToString::to_string));
    if wrong.is_empty() { Ok(candidate) } else { Err(invalid(wrong.join("; "))) }
}

/// PostgreSQL cannot store text with U+0000.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
