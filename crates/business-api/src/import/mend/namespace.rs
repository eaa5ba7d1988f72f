use crate::import::candidate::{Candidate, MendRules};
use crate::import::finding::{ImportFinding, Rule};
use business_types::validation;
use business_types::{
    ClusterNamespaceRecord, NamespacePhase, NamespaceSpec, NamespaceStatus, charge, resources,
};
use meta::field::Path;
use meta::quantity::ResourceList;
use serde_json::json;

/// Changes a namespace into what it can be here. Returns what is still wrong.
pub fn mend(candidate: &mut Candidate, rules: &MendRules, findings: &mut Vec<ImportFinding>) -> Vec<String> {
    super::common(candidate, findings);
    super::phase(candidate, &NamespacePhase::NAMES, "Pending", findings);
    let Candidate { named, object, .. } = candidate;
    let (spec, status) = match (NamespaceSpec::of(object), NamespaceStatus::of(object)) {
        (Ok(spec), Ok(status)) => (spec, status),
        (Err(error), _) | (_, Err(error)) => return vec![error.to_string()],
    };
    for (field, list) in [("used", &status.used), ("cachedSpecHard", &charged(&status))] {
        let wrong: Vec<&str> = list.keys().filter(|key| !is_fine(list, key)).map(String::as_str).collect();
        if !wrong.is_empty() {
            let why = format!("status.{field} is dropped for {}: no amount that can be", wrong.join(", "));
            findings.push(ImportFinding::new(Rule::Status, named, why));
        }
    }
    if object.get(&["status", "used"]).is_some() {
        object.set(&["status", "used"], json!(fine(&status.used)));
    }
    // The cluster may enforce either amount: the charge covers both. If it enforces more, the rest is held when the
    // cluster is first compared.
    let mark = charge::raise(&fine(&charged(&status)), &spec.hard);
    if mark != spec.hard {
        let why = "TKE has last accounted more than spec.hard; the more of both is charged until the cluster is \
                   seen to enforce less";
        findings.push(ImportFinding::new(Rule::Charge, named, why));
    }
    object.set(&["status", "cachedSpecHard"], json!(mark));
    object.set(&["status", "clusterNamespace"], json!(ClusterNamespaceRecord::imported()));
    validation::namespace(&spec, &rules.forbidden).iter().map(ToString::to_string).collect()
}

fn charged(status: &NamespaceStatus) -> ResourceList {
    status.cached_spec_hard.clone().unwrap_or_default()
}

fn fine(list: &ResourceList) -> ResourceList {
    let fine = list.iter().filter(|(key, _)| is_fine(list, key));
    fine.map(|(key, amount)| (key.clone(), *amount)).collect()
}

fn is_fine(list: &ResourceList, key: &str) -> bool {
    let path = Path::new("status");
    list.get(key).is_some_and(|amount| {
        resources::check_name(key, &path).is_empty()
            && resources::check_amount(key, *amount, &path).is_empty()
    })
}
