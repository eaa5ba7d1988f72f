use crate::import::candidate::{Candidate, ConvertSettings};
use crate::import::finding::{ImportFinding, Rule};
use business_types::validation;
use business_types::{
    ClusterNamespaceRecord, NamespacePhase, NamespaceSpec, NamespaceStatus, charge, resources,
};
use meta::field::Path;
use meta::quantity::ResourceList;
use serde_json::json;

/// Converts a namespace. Returns the remaining errors.
pub fn convert(
    candidate: &mut Candidate,
    settings: &ConvertSettings,
    findings: &mut Vec<ImportFinding>,
) -> Vec<String> {
    super::convert_metadata(candidate, findings);
    super::convert_phase(candidate, &NamespacePhase::NAMES, "Pending", findings);
    let Candidate { object_ref, object, .. } = candidate;
    let (spec, status) = match (NamespaceSpec::of(object), NamespaceStatus::of(object)) {
        (Ok(spec), Ok(status)) => (spec, status),
        (Err(error), _) | (_, Err(error)) => return vec![error.to_string()],
    };
    for (field, list) in [("used", &status.used), ("cachedSpecHard", &charged(&status))] {
        let wrong: Vec<&str> =
            list.keys().filter(|key| !is_valid_amount(list, key)).map(String::as_str).collect();
        if !wrong.is_empty() {
            let why = format!("status.{field} is dropped for {}: no amount that can be", wrong.join(", "));
            findings.push(ImportFinding::new(Rule::Status, object_ref, why));
        }
    }
    if object.get(&["status", "used"]).is_some() {
        object.set(&["status", "used"], json!(valid_amounts(&status.used)));
    }
    // The cluster may enforce either amount, so the charge covers both. If it enforces more, the audit holds the rest
    // when the cluster is first compared.
    let mark = charge::raise(&valid_amounts(&charged(&status)), &spec.hard);
    if mark != spec.hard {
        let why = "TKE has last accounted more than spec.hard; the more of both is charged until the cluster is \
                   seen to enforce less";
        findings.push(ImportFinding::new(Rule::Charge, object_ref, why));
    }
    object.set(&["status", "cachedSpecHard"], json!(mark));
    object.set(&["status", "clusterNamespace"], json!(ClusterNamespaceRecord::imported()));
    validation::namespace(&spec, &settings.forbidden).iter().map(ToString::to_string).collect()
}

fn charged(status: &NamespaceStatus) -> ResourceList {
    status.cached_spec_hard.clone().unwrap_or_default()
}

fn valid_amounts(list: &ResourceList) -> ResourceList {
    let valid = list.iter().filter(|(key, _)| is_valid_amount(list, key));
    valid.map(|(key, amount)| (key.clone(), *amount)).collect()
}

fn is_valid_amount(list: &ResourceList, key: &str) -> bool {
    let path = Path::new("status");
    list.get(key).is_some_and(|amount| {
        resources::check_name(key, &path).is_empty()
            && resources::check_amount(key, *amount, &path).is_empty()
    })
}
