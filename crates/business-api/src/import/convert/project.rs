use crate::import::candidate::{Candidate, ConvertSettings};
use crate::import::finding::{ImportFinding, Rule};
use business_types::{ProjectPhase, ProjectSpec, validation};
use serde_json::json;

const LOCKED: &[&str] = &["status", "locked"];
const MEMBERS: &[&str] = &["spec", "members"];

/// Converts a project. Returns the remaining errors.
pub fn convert(
    candidate: &mut Candidate,
    _settings: &ConvertSettings,
    findings: &mut Vec<ImportFinding>,
) -> Vec<String> {
    super::convert_metadata(candidate, findings);
    super::convert_phase(candidate, &ProjectPhase::NAMES, "Pending", findings);
    let Candidate { object_ref, object, .. } = candidate;
    // TKE itself locks a project from its creation until its controller has seen it.
    let is_locked = object.get(LOCKED).and_then(serde_json::Value::as_bool).unwrap_or_default();
    if is_locked && object.text(&["status", "phase"]) != "Active" {
        object.remove(LOCKED);
        let why = "status.locked is dropped: TKE had not ended the creation, which here takes no lock";
        findings.push(ImportFinding::new(Rule::Status, object_ref, why));
    }
    if object.text(&["spec", "displayName"]).is_empty() {
        object.set(&["spec", "displayName"], json!(object_ref.name));
        findings.push(ImportFinding::new(
            Rule::Mended,
            object_ref,
            "spec.displayName was empty and becomes the name",
        ));
    }
    super::drop_unusable_names(candidate, MEMBERS, findings);
    match ProjectSpec::of(&candidate.object) {
        Ok(mut spec) => {
            // Its parent is checked later, when all objects are known.
            spec.parent_project_name.clear();
            validation::project(&candidate.object_ref.name, &spec).iter().map(ToString::to_string).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}
