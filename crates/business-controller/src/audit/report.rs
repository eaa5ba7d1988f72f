//! Reports the findings of an audit: orphans in the status of their project, the rest in events and in the comparison
//! of each cluster. What other auditors have reported of other clusters stays.

use super::judge::Judgement;
use super::survey::ProjectSurvey;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::events::Topic;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::project::kind::{BusinessProject, ProjectView};
use crate::shares::ShareGuard;
use business_types::{ClusterComparison, Comparison, Orphan, OrphanState, Stranger};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How often writing a status is tried if somebody else changes the project at the same time.
const TRIES_MAX: usize = 5;
/// The most orphans in the status of a project, and their bytes: an object has 2 MiB at most, and the holds for them
/// are in the same status.
const ORPHANS_MAX: usize = 500;
const ORPHAN_BYTES_MAX: usize = 512 * 1024;
/// The most strangers in the comparison of a cluster.
const STRANGERS_MAX: usize = 50;
/// The most findings that are named in logs and events.
const NAMED_MAX: usize = 20;

const ORPHAN: Topic = Topic::warning("Orphan", "Audit");
const STRANGER: Topic = Topic::warning("Stranger", "Audit");

/// The findings, by whom they are reported to.
#[derive(Debug, Default)]
pub struct Findings {
    orphans: BTreeMap<String, Vec<Orphan>>,
    homeless: Vec<Orphan>,
    strangers: Vec<Stranger>,
}

impl Findings {
    pub fn take(&mut self, judgement: Judgement) {
        match judgement {
            Judgement::Nothing => {}
            Judgement::Orphan { project, orphan } => self.orphans.entry(project).or_default().push(orphan),
            Judgement::OrphanWithoutProject(orphan) => self.homeless.push(orphan),
            Judgement::Stranger(stranger) => self.strangers.push(stranger),
        }
    }

    /// Drops findings in clusters that were not compared in the end.
    pub fn keep_compared(&mut self, comparison: &Comparison) {
        let is_compared = |cluster: &str| comparison.clusters.contains_key(cluster);
        for orphans in self.orphans.values_mut() {
            orphans.retain(|orphan| is_compared(&orphan.cluster_name));
        }
        self.homeless.retain(|orphan| is_compared(&orphan.cluster_name));
        self.strangers.retain(|stranger| is_compared(&stranger.cluster_name));
    }

    pub fn orphans(&self) -> usize {
        self.orphans.values().map(Vec::len).sum::<usize>().saturating_add(self.homeless.len())
    }

    pub fn strangers(&self) -> usize {
        self.strangers.len()
    }
}

/// Reports what one audit has found.
#[derive(Clone, Copy, Debug)]
pub struct Reporter<'a> {
    pub cx: &'a Context,
    pub guards: &'a [ShareGuard],
    pub survey: &'a ProjectSurvey,
    /// Which clusters were compared.
    pub comparison: &'a Comparison,
}

impl Reporter<'_> {
    /// Reports orphans to projects, and the rest to operators. Returns the comparison of each cluster, which is left to
    /// publish.
    pub async fn report(self, findings: Findings) -> Result<BTreeMap<String, ClusterComparison>, Error> {
        let Findings { mut orphans, mut homeless, mut strangers } = findings;
        let mut comparisons = ClusterComparisons::of(self.comparison, &self.cx.now());
        // Sorted, so that always the same ones are named.
        homeless.sort_unstable();
        strangers.sort_unstable();
        for orphan in homeless.iter().take(NAMED_MAX) {
            report_homeless(self.cx, orphan);
        }
        for stranger in strangers.iter().take(NAMED_MAX) {
            report_stranger(self.cx, stranger);
        }
        for orphan in &homeless {
            comparisons.count_unreported(orphan);
            let part = comparisons.of_cluster(&orphan.cluster_name);
            part.homeless = part.homeless.saturating_add(1);
        }
        // Projects with reported orphans that were not found again.
        for (project, reported) in self.survey.projects_with_orphans() {
            if reported.iter().any(|orphan| self.is_compared(orphan)) {
                orphans.entry(project.to_owned()).or_default();
            }
        }
        for (project, orphans) in orphans {
            for orphan in self.report_to_project(&project, orphans).await? {
                comparisons.count_unreported(&orphan);
            }
        }
        for stranger in strangers {
            let part = comparisons.of_cluster(&stranger.cluster_name);
            part.strange = part.strange.saturating_add(1);
            if part.strangers.len() < STRANGERS_MAX {
                part.strangers.push(stranger);
            }
        }
        Ok(comparisons.0)
    }

    /// Whether an orphan is in a cluster that was compared now.
    fn is_compared(&self, orphan: &Orphan) -> bool {
        self.comparison.clusters.contains_key(&orphan.cluster_name)
    }

    /// Reports its orphans to a project, unless they are reported already. Returns those that could not be reported.
    async fn report_to_project(&self, project: &str, mut orphans: Vec<Orphan>) -> Result<Vec<Orphan>, Error> {
        orphans.sort_unstable();
        let reported_before = self.survey.reported_orphans(project).iter();
        if reported_before.filter(|orphan| self.is_compared(orphan)).eq(&orphans) {
            return Ok(Vec::new());
        }
        match self.write(project, &orphans).await {
            // One project does not prevent the report to others: growth waits for what is not reported.
            Err(Error::Api(failure)) => {
                self.guards.iter().try_for_each(ShareGuard::permit)?;
                tracing::warn!(project, %failure, "a project could not be told of its orphans");
                Ok(orphans)
            }
            written => written,
        }
    }

    /// Writes what was found into the status of the project. Returns what did not fit.
    async fn write(&self, project: &str, found: &[Orphan]) -> Result<Vec<Orphan>, Error> {
        let mut tries = 0;
        let key = RootKey::new(None, project);
        loop {
            let Some(project) = self.cx.business.get::<BusinessProject>(&key).await.map_err(Error::Api)?
            else {
                return Ok(found.to_vec());
            };
            let Merged { reported, unreported } =
                merged(&project.status.orphans, |orphan| self.is_compared(orphan), found);
            if reported == project.status.orphans {
                return Ok(unreported);
            }
            self.guards.iter().try_for_each(ShareGuard::permit)?;
            let orphans = if reported.is_empty() { Value::Null } else { json!(reported) };
            tries += 1;
            match self.cx.business.patch_status(&project, json!({ "orphans": orphans })).await {
                Ok(_written) => {
                    self.record_events(&project, &reported);
                    return Ok(unreported);
                }
                Err(CallFailure::NotFound) => return Ok(found.to_vec()),
                Err(CallFailure::Conflict(_)) if tries < TRIES_MAX => {}
                Err(failure) => return Err(Error::Api(failure)),
            }
        }
    }

    fn record_events(&self, project: &ProjectView, reported: &[Orphan]) {
        let is_new = |orphan: &&Orphan| !project.status.orphans.contains(orphan);
        for orphan in reported.iter().filter(is_new).take(NAMED_MAX) {
            let (namespace, cluster) = (&orphan.namespace, &orphan.cluster_name);
            let note = match orphan.state {
                OrphanState::Lost => format!(
                    "namespace {namespace} of cluster {cluster} was granted out of this project and belongs to no object; what \
                     it may take is held"
                ),
                OrphanState::Ahead => format!(
                    "namespace {namespace} of cluster {cluster} may take more than its object is charged; the excess is held"
                ),
                OrphanState::Released => {
                    format!("namespace {namespace} of cluster {cluster} was released and is in use")
                }
                OrphanState::Unused => format!(
                    "namespace {namespace} of cluster {cluster} was released and is unused; what is held for it is written off"
                ),
            };
            let name = project.key.name();
            tracing::warn!(project = name, cluster, object.name = namespace, state = ?orphan.state, "an orphan");
            self.cx.events.report(project, ORPHAN, note);
        }
    }
}

/// The comparison of each cluster.
struct ClusterComparisons(BTreeMap<String, ClusterComparison>);

impl ClusterComparisons {
    /// `now` is RFC 3339.
    fn of(comparison: &Comparison, now: &str) -> Self {
        let found = || ClusterComparison { time: now.to_owned(), ..ClusterComparison::default() };
        let compared = comparison
            .clusters
            .iter()
            .map(|(cluster, at)| (cluster.clone(), ClusterComparison { revision: *at, ..found() }));
        let missing = comparison
            .missing
            .iter()
            .map(|(cluster, why)| (cluster.clone(), ClusterComparison { missing: why.clone(), ..found() }));
        Self(compared.chain(missing).collect())
    }

    fn of_cluster(&mut self, cluster: &str) -> &mut ClusterComparison {
        self.0.entry(cluster.to_owned()).or_default()
    }

    fn count_unreported(&mut self, orphan: &Orphan) {
        let part = self.of_cluster(&orphan.cluster_name);
        part.unreported = part.unreported.saturating_add(1);
    }
}

/// The next orphans in a project's status, and those that do not fit.
#[derive(Debug, PartialEq, Eq)]
struct Merged {
    reported: Vec<Orphan>,
    unreported: Vec<Orphan>,
}

/// Replaces the reported orphans of the clusters that were compared by what was found. Those of other clusters stay,
/// and are never cut.
fn merged(reported: &[Orphan], is_compared: impl Fn(&Orphan) -> bool, found: &[Orphan]) -> Merged {
    let mut kept: Vec<Orphan> = reported.iter().filter(|orphan| !is_compared(orphan)).cloned().collect();
    let mut bytes = kept.iter().map(size).fold(0, usize::saturating_add);
    let mut unreported = Vec::new();
    for orphan in found {
        let with_it = bytes.saturating_add(size(orphan));
        if kept.len() < ORPHANS_MAX && with_it <= ORPHAN_BYTES_MAX {
            bytes = with_it;
            kept.push(orphan.clone());
        } else {
            unreported.push(orphan.clone());
        }
    }
    kept.sort_unstable();
    Merged { reported: kept, unreported }
}

/// Its bytes in a status. Whoever controls the cluster chooses how many resources its quota has.
fn size(orphan: &Orphan) -> usize {
    json!(orphan).to_string().len()
}

fn report_homeless(cx: &Context, orphan: &Orphan) {
    let Orphan { cluster_name: cluster, namespace, uid, .. } = orphan;
    tracing::warn!(cluster, object.name = namespace, object.uid = uid, "an orphan without a project");
    let note = format!(
        "namespace {namespace} of cluster {cluster} (uid {uid}) was granted by us and belongs to no object and no project"
    );
    cx.report_cluster(cluster, ORPHAN, note);
}

fn report_stranger(cx: &Context, stranger: &Stranger) {
    let Stranger { cluster_name: cluster, namespace, uid, .. } = stranger;
    tracing::warn!(cluster, object.name = namespace, object.uid = uid, "our marks without our seal");
    let note = format!(
        "namespace {namespace} of cluster {cluster} (uid {uid}) carries our marks without our seal; it is charged to nobody"
    );
    cx.report_cluster(cluster, STRANGER, note);
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::quantity::Quantity;

    fn orphan(cluster: &str, number: usize) -> Orphan {
        let namespace = format!("n{number:04}");
        Orphan { cluster_name: cluster.to_owned(), namespace, ..Orphan::default() }
    }

    fn of(cluster: &str, numbers: std::ops::Range<usize>) -> Vec<Orphan> {
        numbers.map(|number| orphan(cluster, number)).collect()
    }

    #[test]
    fn each_of_two_auditors_replaces_what_it_has_compared_and_nothing_else() {
        let is_of = |cluster: &'static str| move |orphan: &Orphan| orphan.cluster_name == cluster;
        let first = merged(&[], is_of("a"), &of("a", 0..2)).reported;
        let both = merged(&first, is_of("b"), &of("b", 0..3)).reported;
        assert_eq!(both, [of("a", 0..2), of("b", 0..3)].concat());
        let less = merged(&both, is_of("a"), &of("a", 1..2)).reported;
        assert_eq!(less, [of("a", 1..2), of("b", 0..3)].concat());
        assert_eq!(merged(&less, is_of("b"), &[]).reported, of("a", 1..2));
    }

    #[test]
    fn what_another_auditor_has_told_is_not_cut() {
        let reported = of("a", 0..ORPHANS_MAX - 1);
        let merged = merged(&reported, |orphan| orphan.cluster_name == "b", &of("b", 0..3));
        assert_eq!(merged.reported.len(), ORPHANS_MAX);
        assert_eq!((merged.unreported, &merged.reported[..reported.len()]), (of("b", 1..3), &reported[..]));
    }

    #[test]
    fn what_is_too_long_for_a_status_keeps_nothing_else_out_of_it() {
        let resource = |number: usize| (format!("count/{}.{number}", "r".repeat(240)), Quantity::ZERO);
        let long = Orphan { hard: (0..2_500).map(resource).collect(), ..orphan("a", 1) };
        let all = [of("a", 0..1), vec![long.clone()], of("a", 2..4)].concat();
        let merged = merged(&[], |_| true, &all);
        assert_eq!(
            (merged.reported, merged.unreported),
            ([of("a", 0..1), of("a", 2..4)].concat(), vec![long])
        );
    }
}
