use crate::import::candidate::{Candidate, MendRules};
use crate::import::finding::{ImportFinding, Rule};
use business_types::config_map;
use business_types::names::TENANT_LABEL;

/// Changes a config map into what it can be here. Returns what is still wrong.
pub fn mend(candidate: &mut Candidate, _rules: &MendRules, findings: &mut Vec<ImportFinding>) -> Vec<String> {
    super::common(candidate, findings);
    let why = match candidate.tenant() {
        "" => format!(
            "it is the platform's own here, which operators alone see; in TKE every tenant could read and change it by its \
             name. The label {TENANT_LABEL} gives it to a tenant"
        ),
        tenant => format!("label {TENANT_LABEL} makes it tenant {tenant}'s"),
    };
    findings.push(ImportFinding::new(Rule::Owner, &candidate.named, why));
    config_map::config_map(&candidate.object).iter().map(ToString::to_string).collect()
}
