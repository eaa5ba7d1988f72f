use crate::import::candidate::{Candidate, MendRules};
use crate::import::finding::{ImportFinding, Rule};
use business_types::{RegistryPhase, RegistrySpec, registry};
use serde_json::json;

const NAME: &[&str] = &["spec", "name"];
const PHASE: &[&str] = &["status", "phase"];

/// Changes an image namespace or chart group into what it can be here. Returns what is still wrong.
pub fn mend(candidate: &mut Candidate, _rules: &MendRules, findings: &mut Vec<ImportFinding>) -> Vec<String> {
    super::common(candidate, findings);
    super::phase(candidate, &RegistryPhase::NAMES, "Pending", findings);
    let Candidate { named, object, .. } = candidate;
    let was_named = object.text(NAME).to_owned();
    if !was_named.is_empty() && was_named != named.name {
        object.set(NAME, json!(named.name));
        if !object.is_deleting() {
            object.set(PHASE, json!("Pending"));
        }
        let why = format!(
            "spec.name was changed to {was_named:?} after the create and becomes {:?} again, where its repositories lie. What \
             the registry has there is taken over only with an operator's consent",
            named.name
        );
        findings.push(ImportFinding::new(Rule::Mended, named, why));
    }
    if object.text(PHASE) == "Failed" {
        let why = "it is Failed in TKE, for ever; here it is tried again. What the registry has there is taken over only \
                   with an operator's consent";
        findings.push(ImportFinding::new(Rule::Retried, named, why));
    }
    match RegistrySpec::of(object) {
        Ok(spec) => registry::object(&spec).iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}
