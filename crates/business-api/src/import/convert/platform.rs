use crate::import::candidate::{Candidate, ConvertSettings};
use crate::import::finding::{ImportFinding, Rule};
use business_types::{PlatformSpec, platform};

const ADMINISTRATORS: &[&str] = &["spec", "administrators"];

/// Converts a platform. Returns the remaining errors.
pub fn convert(
    candidate: &mut Candidate,
    _settings: &ConvertSettings,
    findings: &mut Vec<ImportFinding>,
) -> Vec<String> {
    super::convert_metadata(candidate, findings);
    super::drop_unusable_names(candidate, ADMINISTRATORS, findings);
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
        findings.push(ImportFinding::new(Rule::Administrators, &candidate.object_ref, why));
    }
    platform::platform(&spec).iter().map(ToString::to_string).collect()
}
