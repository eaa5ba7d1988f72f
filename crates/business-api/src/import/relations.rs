//! What objects are to each other: parents, projects, places in clusters, moves between projects. Pure.

use super::draft::{Candidate, Draft, PARENT, TENANT};
use super::finding::{Finding, Rule};
use super::record::{Named, Record};
use business_types::names::{ADOPT_ANNOTATION, NAMESPACES, PROJECTS};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const PHASE: &[&str] = &["status", "phase"];

/// Moves between projects that TKE has not ended, by the namespace that is moved.
#[derive(Debug, Default)]
pub struct Emigrations(BTreeMap<Named, String>);

impl Emigrations {
    /// Looks at a record; only those of moves say anything.
    pub fn note(&mut self, record: &Record) {
        if record.named.resource != "nsemigrations" {
            return;
        }
        let text = |pointer: &str| record.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let moved = Named {
            resource: NAMESPACES.to_owned(),
            project: record.named.project.clone(),
            name: text("/spec/namespace").to_owned(),
        };
        let phase = text("/status/phase");
        if phase != "Finished" {
            self.0.insert(moved, if phase.is_empty() { "Pending" } else { phase }.to_owned());
        }
    }
}

/// A project whose parent cannot be its parent becomes a root, and is locked: nobody has granted its budget.
pub fn cut_parents(draft: &mut Draft) {
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
        draft.findings.push(Finding::new(Rule::Parent, &project.named, why));
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

/// What lies in a project that does not come is left out; what lies in one is its tenant's.
pub fn settle_projects(draft: &mut Draft) {
    let tenants: BTreeMap<String, String> = draft
        .candidates
        .iter()
        .filter(|candidate| candidate.is(PROJECTS))
        .map(|project| (project.named.name.clone(), project.tenant().to_owned()))
        .collect();
    draft.leave_out(Rule::ProjectGone, |candidate| {
        let project = &candidate.named.project;
        (!project.is_empty() && !tenants.contains_key(project)).then(|| {
            format!(
                "project {project:?} does not come, so nobody is charged for it. What it has in its cluster stays as it is; \
                 take it over with business-controller discover and adopt"
            )
        })
    });
    for candidate in &mut draft.candidates {
        let Some(tenant) = tenants.get(&candidate.named.project) else { continue };
        if candidate.tenant() != tenant {
            let why = format!("spec.tenantID {:?} becomes its project's, {tenant:?}", candidate.tenant());
            candidate.object.set(TENANT, json!(tenant));
            draft.findings.push(Finding::new(Rule::Tenant, &candidate.named, why));
        }
    }
}

/// A place in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The member cluster.
    pub cluster: String,
    /// The namespace's name there.
    pub namespace: String,
}

impl Place {
    fn of(candidate: &Candidate) -> Option<Self> {
        let text = |field: &str| candidate.object.text(&["spec", field]).to_owned();
        candidate.is(NAMESPACES).then(|| Self { cluster: text("clusterName"), namespace: text("namespace") })
    }
}

/// Of several objects on one namespace of a cluster one comes; `taken` are the places that are somebody else's already.
pub fn share_places(draft: &mut Draft, taken: &BTreeMap<Place, Uuid>) {
    let mut by_place: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for (at, candidate) in draft.candidates.iter().enumerate() {
        if let Some(place) = Place::of(candidate) {
            by_place.entry(place).or_default().push(at);
        }
    }
    let (mut out, mut ended) = (BTreeMap::new(), Vec::new());
    for (place, mut rivals) in by_place {
        let Place { cluster, namespace } = &place;
        let holder = taken.get(&place);
        let is_holder = |uid: &Uuid| {
            rivals.iter().any(|at| draft.candidates.get(*at).is_some_and(|rival| rival.uid == *uid))
        };
        if holder.is_some_and(|uid| !is_holder(uid)) {
            let why =
                format!("namespace {namespace} of cluster {cluster} is another object's in this database");
            out.extend(rivals.into_iter().map(|at| (at, why.clone())));
            continue;
        }
        rivals.sort_by_key(|at| draft.candidates.get(*at).map(|rival| rank(rival, holder)));
        let [first, others @ ..] = rivals.as_slice() else { continue };
        if others.iter().any(|at| phase_of(draft, *at) == "Locked") {
            ended.push(*first);
        }
        let winner = draft.candidates.get(*first).map(|winner| winner.named.to_string()).unwrap_or_default();
        let why = format!(
            "namespace {namespace} of cluster {cluster} is that of {winner}, too, which comes: two objects never share one"
        );
        out.extend(others.iter().map(|at| (*at, why.clone())));
    }
    for at in ended {
        let why = "a move into this project is taken as ended: TKE may have taken the labels off the cluster's namespace, \
                   so it is taken over by consent, and stays at the object's end";
        consent(draft, at, why);
    }
    let mut at = 0;
    draft.leave_out(Rule::PlaceTaken, |_candidate| {
        at += 1;
        out.remove(&(at - 1))
    });
}

fn phase_of(draft: &Draft, at: usize) -> &str {
    draft.candidates.get(at).map(|candidate| candidate.object.text(PHASE)).unwrap_or_default()
}

/// What comes first has the better claim: what the database has already, then what is in use, then what is older.
fn rank(rival: &Candidate, holder: Option<&Uuid>) -> impl Ord + use<> {
    let phases = ["Available", "Pending", "Locked", "Failed", "Terminating"];
    let phase = phases.iter().position(|phase| *phase == rival.object.text(PHASE)).unwrap_or(phases.len());
    let created = rival.object.text(&["metadata", "creationTimestamp"]).to_owned();
    (holder != Some(&rival.uid), phase, created, rival.named.clone())
}

/// A namespace that is locked for a move that did not end is unlocked.
pub fn undo_emigrations(draft: &mut Draft, emigrations: &Emigrations) {
    let moving: Vec<(usize, String)> = draft
        .candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.object.text(PHASE) == "Locked")
        .filter_map(|(at, candidate)| Some((at, emigrations.0.get(&candidate.named)?.clone())))
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
        consent(draft, at, &why);
    }
}

/// An operator's consent to the adoption of what stands at the place without labels: he applies the plan that says so.
fn consent(draft: &mut Draft, at: usize, why: &str) {
    if let Some(candidate) = draft.candidates.get_mut(at) {
        candidate.object.set(&["metadata", "annotations", ADOPT_ANNOTATION], json!("true"));
        draft.findings.push(Finding::new(Rule::Emigration, &candidate.named, why));
    }
}

/// Names of clusters and tenants that objects speak of.
pub fn spoken_of(draft: &Draft) -> (BTreeSet<String>, BTreeSet<String>) {
    let clusters = draft.candidates.iter().flat_map(|candidate| candidate.keys().into_keys()).collect();
    let tenants = draft.candidates.iter().map(|candidate| candidate.tenant().to_owned()).collect();
    (clusters, tenants)
}
