use crate::import::candidate::{Candidate, MendRules};
use crate::import::finding::{ImportFinding, Rule};
use business_types::{ProjectPhase, ProjectSpec, validation};
use serde_json::json;

const LOCKED: &[&str] = &["status", "locked"];
const MEMBERS: &[&str] = &["spec", "members"];

/// Changes a project into what it can be here. Returns what is still wrong.
pub fn mend(candidate: &mut Candidate, _rules: &MendRules, findings: &mut Vec<ImportFinding>) -> Vec<String> {
    super::common(candidate, findings);
    super::phase(candidate, &ProjectPhase::NAMES, "Pending", findings);
    let Candidate { named, object, .. } = candidate;
    // TKE itself has locked it: it does so from the creation until its controller has seen the object.
    let is_locked = object.get(LOCKED).and_then(serde_json::Value::as_bool).unwrap_or_default();
    if is_locked && object.text(&["status", "phase"]) != "Active" {
        object.remove(LOCKED);
        let why = "status.locked is dropped: TKE had not ended the creation, which here takes no lock";
        findings.push(ImportFinding::new(Rule::Status, named, why));
    }
    if object.text(&["spec", "displayName"]).is_empty() {
        object.set(&["spec", "displayName"], json!(named.name));
        findings.push(ImportFinding::new(
            Rule::Mended,
            named,
            "spec.displayName was empty and becomes the name",
        ));
    }
    super::drop_nameless(candidate, MEMBERS, findings);
    match ProjectSpec::of(&candidate.object) {
        Ok(mut spec) => {
            // Whether its parent can be one is found out among all.
            spec.parent_project_name.clear();
            validation::project(&candidate.named.name, &spec).iter().map(ToString::to_string).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}
