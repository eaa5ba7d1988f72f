use crate::import::candidate::{Candidate, ConvertSettings};
use crate::import::finding::{ImportFinding, Rule};
use business_types::{RegistryPhase, RegistrySpec, registry};
use serde_json::json;

const NAME: &[&str] = &["spec", "name"];
const PHASE: &[&str] = &["status", "phase"];
const OBSERVED_GENERATION: &[&str] = &["status", "observedGeneration"];

/// Converts an image namespace or chart group. Returns the remaining errors.
pub fn convert(
    candidate: &mut Candidate,
    _settings: &ConvertSettings,
    findings: &mut Vec<ImportFinding>,
) -> Vec<String> {
    super::convert_metadata(candidate, findings);
    super::convert_phase(candidate, &RegistryPhase::NAMES, "Pending", findings);
    let Candidate { object_ref, object, .. } = candidate;
    let was_named = object.text(NAME).to_owned();
    let is_renamed = !was_named.is_empty() && was_named != object_ref.name;
    if is_renamed {
        object.set(NAME, json!(object_ref.name));
        if !object.is_deleting() {
            object.set(PHASE, json!("Pending"));
        }
        let why = format!(
            "spec.name was changed to {was_named:?} after the create and becomes {:?} again, where its repositories lie. What \
             the registry has there is taken over only with an operator's consent",
            object_ref.name
        );
        findings.push(ImportFinding::new(Rule::Mended, object_ref, why));
    }
    if object.text(PHASE) == "Failed" {
        let why = "it is Failed in TKE, for ever; here it is tried again. What the registry has there is taken over only \
                   with an operator's consent";
        findings.push(ImportFinding::new(Rule::Retried, object_ref, why));
    }
    // The controller takes the content of a deleted object along if it has never looked at that object. It must not do
    // so for one that was not in use: that one counts as new.
    let was_in_use = object.is_deleting() || matches!(object.text(PHASE), "Available" | "Locked");
    if is_renamed || !was_in_use {
        object.set(OBSERVED_GENERATION, json!(0));
    }
    match RegistrySpec::of(object) {
        Ok(spec) => registry::object(&spec).iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}
