use super::STATUS_PHASE;
use crate::import::candidate::{Candidate, ConvertSettings};
use crate::import::finding::ImportFinding;
use business_types::{EmigrationPhase, NsEmigrationSpec};
use serde_json::json;

/// Converts an emigration. Returns the remaining errors. How it ends is decided when all objects are known.
pub fn convert(
    candidate: &mut Candidate,
    _settings: &ConvertSettings,
    findings: &mut Vec<ImportFinding>,
) -> Vec<String> {
    super::convert_metadata(candidate, findings);
    let object = &mut candidate.object;
    if !EmigrationPhase::NAMES.contains(&object.text(STATUS_PHASE)) {
        object.set(STATUS_PHASE, json!("Pending"));
    }
    match NsEmigrationSpec::of(object) {
        Ok(spec) if spec.namespace.is_empty() => vec!["spec.namespace is empty".to_owned()],
        Ok(_) => Vec::new(),
        Err(error) => vec![error.to_string()],
    }
}
