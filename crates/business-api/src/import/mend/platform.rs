use crate::import::candidate::{Candidate, MendRules};
use crate::import::finding::{ImportFinding, Rule};
use business_types::{PlatformSpec, platform};

const ADMINISTRATORS: &[&str] = &["spec", "administrators"];

/// Changes a platform into what it can be here. Returns what is still wrong.
pub fn mend(candidate: &mut Candidate, _rules: &MendRules, findings: &mut Vec<ImportFinding>) -> Vec<String> {
    super::common(candidate, findings);
    super::drop_nameless(candidate, ADMINISTRATORS, findings);
    let spec = match PlatformSpec::of(&candidate.object) {
        Ok(spec) => spec,
        Err(error) => return vec![error.to_string()],
    };
    if !spec.tenant_id.is_empty() && !spec.administrators.is_empty() {
        let why = format!(
            "{} will rule tenant {}: in TKE every caller of a tenant could name himself",
            spec.administrators.join(", "),
            spec.tenant_id
        );
        findings.push(ImportFinding::new(Rule::Administrators, &candidate.named, why));
    }
    platform::platform(&spec).iter().map(ToString::to_string).collect()
}
