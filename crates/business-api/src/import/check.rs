//! One record: whether it is an object that can be imported, without regard to others. Pure.

use super::candidate::{Candidate, Importable, MendRules};
use super::draft::Draft;
use super::finding::Rule;
use super::mend;
use super::record::{Named, SourceRecord};
use super::rows::importable;
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
/// Where TKE's controllers elect a leader.
const LEADER_LOCK: &str = "tke-business-controller";

/// Takes records in, one by one.
#[derive(Debug)]
pub struct Checker<'a> {
    kinds: BTreeMap<&'static str, (Importable, Schema)>,
    rules: &'a MendRules,
}

impl<'a> Checker<'a> {
    /// A checker of what can be imported into a program of these kinds.
    pub fn new(kinds: KindTable, rules: &'a MendRules) -> Self {
        let kinds = importable(kinds).into_iter().map(|found| (found.0.row.plural, found)).collect();
        Self { kinds, rules }
    }

    /// Whether a record's kind can be imported.
    pub fn serves(&self, resource: &str) -> bool {
        self.kinds.contains_key(resource)
    }

    /// Adds an object to the draft, or says why it does not come.
    pub fn take(&self, record: SourceRecord, draft: &mut Draft) {
        let SourceRecord { named, value } = record;
        let Some((kind, schema)) = self.kinds.get(named.resource.as_str()) else {
            draft.find(Rule::NotServed, &named, not_served(&named));
            return;
        };
        if named.resource == "configmaps" && named.name == LEADER_LOCK {
            let why = "it does not come: it is the lock of TKE's controllers, which do not run any more";
            draft.find(Rule::Ended, &named, why);
            return;
        }
        let mut findings = Vec::new();
        match candidate(*kind, schema, &named, value, self.rules, &mut findings) {
            Ok(candidate) => {
                draft.findings.append(&mut findings);
                draft.candidates.push(candidate);
            }
            Err((rule, why)) => draft.find(rule, &named, why),
        }
    }
}

fn not_served(named: &Named) -> String {
    if OF_TKE.contains(&named.resource.as_str()) {
        format!("this release does not take {} over", named.resource)
    } else {
        format!("TKE has no kind {:?}", named.resource)
    }
}

fn candidate(
    kind: Importable,
    schema: &Schema,
    named: &Named,
    mut value: Value,
    rules: &MendRules,
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
    let computed = mend::take_computed(&mut value, kind.row.computed);
    prune_and_check(&mut value, schema).map_err(|error| unreadable(error.to_string()))?;
    let mut object = Object::new(value).map_err(|_other| unreadable("it is no object".to_owned()))?;
    apply_defaults(&mut object, schema);
    let invalid = |why: String| (Rule::Invalid, why);
    if object.name() != named.name || object.namespace() != named.project {
        return Err(invalid(format!(
            "its key names another object than its metadata, {:?} in {:?}",
            object.name(),
            object.namespace()
        )));
    }
    let uid = Uuid::parse_str(object.uid())
        .map_err(|_error| invalid(format!("metadata.uid {:?} is no uid", object.uid())))?;
    let mut candidate = Candidate { named: named.clone(), kind, uid, object, computed, is_present: false };
    let mut wrong = (kind.row.mend)(&mut candidate, rules, findings);
    let meta = object_meta(&candidate.object, kind.row.namespaced, NameRule::Label);
    wrong.extend(meta.iter().map(ToString::to_string));
    if wrong.is_empty() { Ok(candidate) } else { Err(invalid(wrong.join("; "))) }
}

/// PostgreSQL keeps no text with this character.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
