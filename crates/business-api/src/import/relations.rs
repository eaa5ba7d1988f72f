//! Rules between objects: parents, projects, claims, and moves between projects. Pure.

use super::candidate::{Candidate, PARENT, TENANT};
use super::draft::Draft;
use super::finding::{ImportFinding, Rule};
use super::record::{ObjectRef, SourceRecord};
use business_types::NsEmigrationSpec;
use business_types::names::{
    ADOPT_ANNOTATION, CHART_GROUPS, IMAGE_NAMESPACES, NAMESPACES, NS_EMIGRATIONS, PLATFORMS, PROJECTS,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use store::hold::Hold;
use store::quota::Claim;
use uuid::Uuid;

const PHASE: &[&str] = &["status", "phase"];

/// Moves between projects that TKE has not finished: their phases, by the namespace that is moved.
#[derive(Debug, Default)]
pub struct UnfinishedEmigrations(BTreeMap<ObjectRef, String>);

impl UnfinishedEmigrations {
    /// Notes a record if it is an unfinished emigration.
    pub fn record(&mut self, record: &SourceRecord) {
        if record.object_ref.resource != "nsemigrations" {
            return;
        }
        let text = |pointer: &str| record.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let moved = ObjectRef {
            resource: NAMESPACES.to_owned(),
            project: record.object_ref.project.clone(),
            name: text("/spec/namespace").to_owned(),
        };
        let phase = text("/status/phase");
        if phase != "Finished" {
            self.0.insert(moved, if phase.is_empty() { "Pending" } else { phase }.to_owned());
        }
    }
}

/// Makes projects with an invalid parent root projects, and locks them, because nobody has granted their budget.
pub fn detach_invalid_parents(draft: &mut Draft) {
    let projects = draft.projects();
    let mut cut = Vec::new();
    for (name, at) in &projects {
        let Some(project) = draft.candidates.get(*at) else { continue };
        let parent = project.object.text(PARENT);
        let above = projects.get(parent).and_then(|at| draft.candidates.get(*at));
        let why = match above {
            _ if parent.is_empty() => continue,
            None => format!("its parent {parent:?} does not come"),
            Some(above) if above.tenant() != project.tenant() => {
                format!("its parent {parent:?} is another tenant's")
            }
            Some(_) if is_below_itself(draft, &projects, name) => {
                format!("its parent {parent:?} lies below it")
            }
            Some(_) => continue,
        };
        cut.push((*at, why));
    }
    for (at, why) in cut {
        let Some(project) = draft.candidates.get_mut(at) else { continue };
        project.object.remove(PARENT);
        project.object.set(&["status", "locked"], json!(true));
        let why = format!(
            "{why}: it becomes a root and is locked, so that it takes nothing new until somebody answers for its budget"
        );
        draft.findings.push(ImportFinding::new(Rule::Parent, &project.object_ref, why));
    }
}

fn is_below_itself(draft: &Draft, projects: &BTreeMap<String, usize>, name: &str) -> bool {
    let above = |name: &str| {
        let parent = draft.candidates.get(*projects.get(name)?)?.object.text(PARENT);
        (!parent.is_empty()).then_some(parent)
    };
    std::iter::successors(above(name), |parent| above(parent))
        .take(projects.len())
        .any(|parent| parent == name)
}

/// Excludes objects whose project is not imported, and gives the others the tenant of their project.
pub fn align_with_projects(draft: &mut Draft) {
    let tenants: BTreeMap<String, String> = draft
        .candidates
        .iter()
        .filter(|candidate| candidate.is(PROJECTS))
        .map(|project| (project.object_ref.name.clone(), project.tenant().to_owned()))
        .collect();
    draft.exclude(Rule::ProjectGone, |candidate| {
        let project = &candidate.object_ref.project;
        (!project.is_empty() && !tenants.contains_key(project)).then(|| {
            let what = if candidate.is(NAMESPACES) {
                ", so nobody is charged for it. What it has in its cluster stays as it is; take it over with \
                 business-controller discover and adopt"
            } else if is_of_registry(candidate) {
                ", so nobody is charged for it. What it has in the registry stays as it is"
            } else {
                ""
            };
            format!("project {project:?} does not come{what}")
        })
    });
    // A prefix of the registry begins with the tenant's name, so the content belongs to the other tenant.
    draft.exclude(Rule::OtherTenant, |candidate| {
        let tenant = tenants.get(&candidate.object_ref.project).filter(|_| is_of_registry(candidate))?;
        (candidate.tenant() != tenant).then(|| {
            format!(
                "it is tenant {:?}'s in a project of tenant {tenant:?}; what it has in the registry stays as it is",
                candidate.tenant()
            )
        })
    });
    for candidate in &mut draft.candidates {
        let Some(tenant) = tenants.get(&candidate.object_ref.project) else { continue };
        if candidate.tenant() != tenant {
            let why = format!("spec.tenantID {:?} becomes its project's, {tenant:?}", candidate.tenant());
            candidate.object.set(TENANT, json!(tenant));
            draft.findings.push(ImportFinding::new(Rule::Tenant, &candidate.object_ref, why));
        }
    }
}

fn is_of_registry(candidate: &Candidate) -> bool {
    candidate.is(IMAGE_NAMESPACES) || candidate.is(CHART_GROUPS)
}

/// Keeps one of several objects with the same claim. `taken` are the claims of objects in the database, `holds` what
/// counts there without an object.
pub fn resolve_claim_conflicts(draft: &mut Draft, taken: &BTreeMap<Claim, Uuid>, holds: &[Hold]) {
    let held: BTreeMap<&Claim, &Hold> =
        holds.iter().filter_map(|hold| Some((hold.claim.as_ref()?, hold))).collect();
    let mut by_place: BTreeMap<Claim, Vec<usize>> = BTreeMap::new();
    for (at, candidate) in draft.candidates.iter().enumerate() {
        for claim in candidate.claims() {
            by_place.entry(claim).or_default().push(at);
        }
    }
    let (mut out, mut ended) = (BTreeMap::new(), Vec::new());
    for (claim, mut rivals) in by_place {
        let holder = taken.get(&claim);
        rivals.sort_by_key(|at| draft.candidates.get(*at).map(|rival| rank(rival, holder)));
        let [first, others @ ..] = rivals.as_slice() else { continue };
        let Some(winner) = draft.candidates.get(*first) else { continue };
        let place = describe_claim(winner, &claim);
        let why_taken = match (holder, held.get(&claim)) {
            (Some(uid), _) if *uid != winner.uid => {
                Some(format!("{place} is another object's in this database"))
            }
            (None, Some(hold)) => Some(format!("{place} is {}", describe_hold(hold))),
            _ => None,
        };
        if let Some(why) = why_taken {
            out.extend(rivals.iter().map(|at| (*at, why.clone())));
            continue;
        }
        if winner.is(NAMESPACES) && others.iter().any(|at| phase_of(draft, *at) == "Locked") {
            ended.push(*first);
        }
        let why = format!(
            "{place} is that of {}, too, which comes: two objects never share one",
            winner.object_ref
        );
        out.extend(others.iter().map(|at| (*at, why.clone())));
    }
    for at in ended {
        let why = "a move into this project is taken as ended: TKE may have taken the labels off the cluster's namespace, \
                   so it is taken over by consent, and stays at the object's end";
        add_adoption_consent(draft, at, why);
    }
    let mut at = 0;
    draft.exclude(Rule::PlaceTaken, |_candidate| {
        at += 1;
        out.remove(&(at - 1))
    });
}

/// What is held, whose it is, and how it ends, in words for people.
pub fn describe_hold(hold: &Hold) -> String {
    let Hold { uid, scope, reason, .. } = hold;
    format!(
        "held for project {} in this database: {reason}. When it is gone, or shall come after all, business-api audit \
         --write-off {uid} ends that",
        scope.name
    )
}

/// A claim, in words for people.
fn describe_claim(candidate: &Candidate, claim: &Claim) -> String {
    let Claim { domain, place } = claim;
    if candidate.is(NAMESPACES) {
        format!("namespace {place} of cluster {domain}")
    } else if candidate.is(PLATFORMS) {
        format!("the one platform of tenant {place}")
    } else {
        format!("prefix {place} of the registry")
    }
}

fn phase_of(draft: &Draft, at: usize) -> &str {
    draft.candidates.get(at).map(|candidate| candidate.object.text(PHASE)).unwrap_or_default()
}

/// The order of objects with the same claim, the best first: one that the database has already, then one that is in
/// use, then the older one.
fn rank(rival: &Candidate, holder: Option<&Uuid>) -> impl Ord + use<> {
    // A locked namespace is being moved away, while a locked object of the registry is in use.
    let phases = if is_of_registry(rival) {
        ["Available", "Locked", "Pending", "Failed", "Terminating"]
    } else {
        ["Available", "Pending", "Locked", "Failed", "Terminating"]
    };
    let phase = phases.iter().position(|phase| *phase == rival.object.text(PHASE)).unwrap_or(phases.len());
    let created = rival.object.text(&["metadata", "creationTimestamp"]).to_owned();
    (holder != Some(&rival.uid), phase, created, rival.object_ref.clone())
}

/// Unlocks namespaces that are locked for an unfinished move. Other locks stay, as their reason is unknown.
pub fn undo_unfinished_emigrations(draft: &mut Draft, emigrations: &UnfinishedEmigrations) {
    let is_locked =
        |candidate: &&Candidate| candidate.is(NAMESPACES) && candidate.object.text(PHASE) == "Locked";
    let unknown: Vec<ObjectRef> = draft
        .candidates
        .iter()
        .filter(is_locked)
        .map(|candidate| candidate.object_ref.clone())
        .filter(|object_ref| !emigrations.0.contains_key(object_ref))
        .collect();
    for object_ref in unknown {
        let why = format!(
            "it is Locked, and no move of it is on record: it stays so until an operator sets its status.phase. TKE may have \
             taken the labels off the cluster's namespace; then it waits for {ADOPT_ANNOTATION}=true"
        );
        draft.add_finding(Rule::Status, &object_ref, why);
    }
    let moving: Vec<(usize, String)> = draft
        .candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.object.text(PHASE) == "Locked")
        .filter_map(|(at, candidate)| Some((at, emigrations.0.get(&candidate.object_ref)?.clone())))
        .collect();
    for (at, phase) in moving {
        if let Some(candidate) = draft.candidates.get_mut(at) {
            candidate.object.set(PHASE, json!("Pending"));
            for field in ["reason", "message"] {
                candidate.object.remove(&["status", field]);
            }
        }
        let why = format!(
            "its move to another project stopped at {phase}: it stays where it is and is unlocked. TKE may have taken the \
             labels off the cluster's namespace; then it is taken over by consent, and stays at the object's end"
        );
        add_adoption_consent(draft, at, &why);
    }
}

/// Ends all emigrations: the namespace has arrived, and the emigration is excluded; or it stays, and the emigration
/// fails.
pub fn finish_emigrations(draft: &mut Draft) {
    let namespaces: BTreeSet<ObjectRef> = draft
        .candidates
        .iter()
        .filter(|found| found.is(NAMESPACES))
        .map(|found| found.object_ref.clone())
        .collect();
    draft.exclude(Rule::Ended, |candidate| {
        if !candidate.is(NS_EMIGRATIONS) {
            return None;
        }
        let spec = NsEmigrationSpec::of(&candidate.object).ok()?;
        let is_in = |project: &str| {
            let (resource, project) = (NAMESPACES.to_owned(), project.to_owned());
            namespaces.contains(&ObjectRef { resource, project, name: spec.namespace.clone() })
        };
        match candidate.object.text(PHASE) {
            "Failed" => None,
            "Finished" => {
                Some("it does not come: it has finished, and TKE was about to delete it".to_owned())
            }
            phase if is_in(&spec.destination) && !is_in(&candidate.object_ref.project) => Some(format!(
                "it does not come: it had got to {phase}, and its namespace is in project {}",
                spec.destination
            )),
            _ => None,
        }
    });
    for emigration in draft.candidates.iter_mut().filter(|found| found.is(NS_EMIGRATIONS)) {
        let phase = emigration.object.text(PHASE).to_owned();
        if phase == "Failed" {
            continue;
        }
        let why =
            format!("it had got to {phase} and has failed: its namespace stays where it is. Make it again");
        emigration.object.set(PHASE, json!("Failed"));
        emigration.object.set(&["status", "reason"], json!("Imported"));
        emigration.object.set(&["status", "message"], json!(why));
        draft.findings.push(ImportFinding::new(Rule::Emigration, &emigration.object_ref, why));
    }
}

/// Records an operator's consent to adopt the cluster's namespace without labels. He gives it by applying the plan that
/// has this finding.
fn add_adoption_consent(draft: &mut Draft, at: usize, why: &str) {
    if let Some(candidate) = draft.candidates.get_mut(at) {
        candidate.object.set(&["metadata", "annotations", ADOPT_ANNOTATION], json!("true"));
        draft.findings.push(ImportFinding::new(Rule::Emigration, &candidate.object_ref, why));
    }
}

/// The names of all clusters and tenants that the candidates refer to.
pub fn clusters_and_tenants(draft: &Draft) -> (BTreeSet<String>, BTreeSet<String>) {
    let clusters = draft.candidates.iter().flat_map(|candidate| candidate.keys().into_keys()).collect();
    // Only a project may have no tenant; any other object without one belongs to the platform.
    let owned = |candidate: &&Candidate| candidate.is(PROJECTS) || !candidate.tenant().is_empty();
    let tenants =
        draft.candidates.iter().filter(owned).map(|candidate| candidate.tenant().to_owned()).collect();
    (clusters, tenants)
}
