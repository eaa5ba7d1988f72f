//! Reads all projects before the member clusters are scanned.

use crate::business::Business;
use crate::error::CallFailure;
use crate::kinds::ObjectKey as _;
use crate::project::kind::{BusinessProject, ProjectView};
use business_types::{HeldAmount, Orphan, OrphanState};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// `state` of an amount whose object is gone and whose namespace stays.
const RELEASED: &str = "released";

/// All projects at one revision, as far as the audit needs them.
#[derive(Debug, Default)]
pub struct ProjectSurvey {
    pub revision: u64,
    projects: BTreeMap<String, SurveyedProject>,
    /// The uids of namespaces that were reported as `Ahead`.
    ahead: HashSet<String>,
}

#[derive(Debug)]
struct SurveyedProject {
    uid: String,
    orphans: Vec<Orphan>,
    held: Vec<HeldAmount>,
    written_off: Vec<String>,
}

/// The project that an amount for a place is held against.
#[derive(Clone, Copy, Debug)]
pub struct HoldingProject<'a> {
    pub project: &'a str,
    /// The uid of the object that is gone; empty if there was none.
    pub uid: &'a str,
    pub is_released: bool,
}

impl ProjectSurvey {
    pub async fn read(business: &Business) -> Result<Self, CallFailure> {
        let (mut projects, mut ahead) = (BTreeMap::new(), HashSet::new());
        let take = |project: ProjectView| {
            let name = project.key.name().to_owned();
            let status = project.status;
            let is_ahead = |orphan: &&Orphan| orphan.state == OrphanState::Ahead;
            ahead.extend(status.orphans.iter().filter(is_ahead).map(|orphan| orphan.uid.clone()));
            let surveyed = SurveyedProject {
                uid: project.uid,
                orphans: status.orphans,
                held: status.ledger.held,
                written_off: status.ledger.written_off,
            };
            projects.insert(name, surveyed);
        };
        let revision = business.for_each::<BusinessProject>(take).await?;
        Ok(Self { revision, projects, ahead })
    }

    /// Whether this very project exists.
    pub fn has(&self, project: &str, uid: &str) -> bool {
        self.projects.get(project).is_some_and(|surveyed| surveyed.uid == uid)
    }

    /// The member clusters with holds or reported orphans.
    pub fn clusters(&self) -> BTreeSet<String> {
        let held = self.projects.values().flat_map(|surveyed| &surveyed.held).map(|held| &held.cluster_name);
        let reported =
            self.projects.values().flat_map(|surveyed| &surveyed.orphans).map(|orphan| &orphan.cluster_name);
        held.chain(reported).filter(|name| !name.is_empty()).cloned().collect()
    }

    /// Namespaces of a member cluster with holds or reported orphans.
    pub fn places_in(&self, cluster: &str) -> HashSet<&str> {
        let all = self.projects.values();
        let held =
            all.clone().flat_map(|surveyed| &surveyed.held).filter(|held| held.cluster_name == cluster);
        let reported =
            all.flat_map(|surveyed| &surveyed.orphans).filter(|orphan| orphan.cluster_name == cluster);
        held.map(|held| held.namespace.as_str())
            .chain(reported.map(|orphan| orphan.namespace.as_str()))
            .collect()
    }

    /// The project with a hold for a place, whatever is there.
    pub fn holder(&self, cluster: &str, namespace: &str) -> Option<HoldingProject<'_>> {
        let at = |held: &&HeldAmount| held.cluster_name == cluster && held.namespace == namespace;
        self.projects.iter().find_map(|(project, surveyed)| {
            let held = surveyed.held.iter().find(at)?;
            Some(HoldingProject { project, uid: &held.uid, is_released: held.state == RELEASED })
        })
    }

    /// Whether the hold for a released namespace of this uid was written off.
    pub fn is_written_off(&self, project: &str, uid: &str) -> bool {
        self.projects.get(project).is_some_and(|surveyed| surveyed.written_off.iter().any(|gone| gone == uid))
    }

    /// Whether a namespace of this uid was reported as `Ahead`.
    pub fn is_ahead(&self, uid: &str) -> bool {
        self.ahead.contains(uid)
    }

    /// Projects with reported orphans.
    pub fn projects_with_orphans(&self) -> impl Iterator<Item = (&str, &[Orphan])> {
        let projects_with_orphans = self.projects.iter().filter(|(_, surveyed)| !surveyed.orphans.is_empty());
        projects_with_orphans.map(|(name, surveyed)| (name.as_str(), surveyed.orphans.as_slice()))
    }

    /// The reported orphans of a project.
    pub fn reported_orphans(&self, project: &str) -> &[Orphan] {
        self.projects.get(project).map(|surveyed| surveyed.orphans.as_slice()).unwrap_or_default()
    }
}
