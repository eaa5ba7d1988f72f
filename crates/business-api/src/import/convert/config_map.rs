use crate::import::candidate::{Candidate, ConvertSettings};
use crate::import::finding::{ImportFinding, Rule};
use business_types::config_map;
use business_types::names::TENANT_LABEL;

/// Converts a config map. Returns the remaining errors.
pub fn convert(
    candidate: &mut Candidate,
    _settings: &ConvertSettings,
    findings: &mut Vec<ImportFinding>,
) -> Vec<String> {
    super::convert_metadata(candidate, findings);
    let why = match candidate.tenant() {
        "" => format!(
            "it is the platform's own here, which operators alone see; in TKE every tenant could read and change it by its \
             name. The label {TENANT_LABEL} gives it to a tenant"
        ),
        tenant => format!("label {TENANT_LABEL} makes it tenant {tenant}'s"),
    };
    findings.push(ImportFinding::new(Rule::Owner, &candidate.object_ref, why));
    config_map::config_map(&candidate.object).iter().map(ToString::to_string).collect()
}
