//! Brings the status of every project to what was found in the member clusters.

use super::judge::Judgement;
use super::survey::Survey;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::events::Topic;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::project::kind::{BusinessProject, ProjectView};
use business_types::{ClusterComparison, Comparison, Orphan, OrphanState, Stranger};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How often a status is written whose project somebody else changes at the same time.
const TRIES_MAX: usize = 5;
/// Orphans that one project's status holds.
const ORPHANS_MAX: usize = 500;
/// Strangers that the comparison of a cluster names.
const STRANGERS_MAX: usize = 50;
/// Of what was found, what is named in logs and events.
const NAMED_MAX: usize = 20;

const ORPHAN: Topic = Topic::warning("Orphan", "Audit");
const STRANGER: Topic = Topic::warning("Stranger", "Audit");

/// What was found, sorted by who is told.
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
            Judgement::Homeless(orphan) => self.homeless.push(orphan),
            Judgement::Stranger(stranger) => self.strangers.push(stranger),
        }
    }

    /// What was found in a cluster that was not compared in the end says nothing.
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

/// Tells projects and operators. What is left to tell is the comparison of each cluster.
pub async fn tell(
    cx: &Context,
    survey: &Survey,
    findings: Findings,
    comparison: &Comparison,
) -> Result<BTreeMap<String, ClusterComparison>, Error> {
    let Findings { orphans: mut wanted, homeless, mut strangers } = findings;
    let mut parts = Parts::of(comparison);
    for orphan in homeless.iter().take(NAMED_MAX) {
        report_homeless(cx, orphan);
    }
    for stranger in strangers.iter().take(NAMED_MAX) {
        report_stranger(cx, stranger);
    }
    for orphan in &homeless {
        parts.unreported(orphan);
        let part = parts.of_cluster(&orphan.cluster_name);
        part.homeless = part.homeless.saturating_add(1);
    }
    for (name, told) in survey.telling() {
        // What was found in a cluster that does not answer now may still be there.
        let kept = told.iter().filter(|orphan| !comparison.clusters.contains_key(&orphan.cluster_name));
        wanted.entry(name.to_owned()).or_default().extend(kept.cloned());
    }
    for (name, mut orphans) in wanted {
        orphans.sort_unstable();
        let told_before = survey.told(&name);
        for orphan in orphans.drain(ORPHANS_MAX.min(orphans.len())..) {
            parts.unreported(&orphan);
        }
        if told_before == orphans {
            continue;
        }
        if !show(cx, &name, &orphans).await? {
            for orphan in &orphans {
                parts.unreported(orphan);
            }
        }
    }
    strangers.sort_unstable();
    for stranger in strangers {
        let part = parts.of_cluster(&stranger.cluster_name);
        part.strange = part.strange.saturating_add(1);
        if part.strangers.len() < STRANGERS_MAX {
            part.strangers.push(stranger);
        }
    }
    Ok(parts.0)
}

/// The comparison of each cluster.
struct Parts(BTreeMap<String, ClusterComparison>);

impl Parts {
    fn of(comparison: &Comparison) -> Self {
        let compared = comparison.clusters.iter().map(|(cluster, at)| {
            (cluster.clone(), ClusterComparison { revision: *at, ..ClusterComparison::default() })
        });
        let missing = comparison.missing.iter().map(|(cluster, why)| {
            (cluster.clone(), ClusterComparison { missing: why.clone(), ..ClusterComparison::default() })
        });
        Self(compared.chain(missing).collect())
    }

    fn of_cluster(&mut self, cluster: &str) -> &mut ClusterComparison {
        self.0.entry(cluster.to_owned()).or_default()
    }

    fn unreported(&mut self, orphan: &Orphan) {
        let part = self.of_cluster(&orphan.cluster_name);
        part.unreported = part.unreported.saturating_add(1);
    }
}

/// Writes the orphans of a project into its status. Whether there still is such a project.
async fn show(cx: &Context, name: &str, orphans: &[Orphan]) -> Result<bool, Error> {
    let Some(project) = write(cx, name, orphans).await? else { return Ok(false) };
    for orphan in orphans.iter().filter(|orphan| !project.status.orphans.contains(orphan)).take(NAMED_MAX) {
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
        tracing::warn!(project = name, cluster, object.name = namespace, state = ?orphan.state, "an orphan");
        cx.events.report(&project, ORPHAN, note);
    }
    Ok(true)
}

/// The project as it was before; `None` when there is none.
async fn write(cx: &Context, name: &str, orphans: &[Orphan]) -> Result<Option<ProjectView>, Error> {
    let told = if orphans.is_empty() { Value::Null } else { json!(orphans) };
    let mut tries = 0;
    let key = RootKey::new(None, name);
    loop {
        let Some(project) = cx.business.get::<BusinessProject>(&key).await.map_err(Error::Api)? else {
            return Ok(None);
        };
        cx.fence.permit()?;
        tries += 1;
        match cx.business.patch_status(&project, json!({ "orphans": told })).await {
            Ok(_written) => return Ok(Some(project)),
            Err(CallFailure::NotFound) => return Ok(None),
            Err(CallFailure::Conflict(_)) if tries < TRIES_MAX => {}
            Err(failure) => return Err(Error::Api(failure)),
        }
    }
}

fn report_homeless(cx: &Context, orphan: &Orphan) {
    let Orphan { cluster_name: cluster, namespace, uid, .. } = orphan;
    tracing::warn!(cluster, object.name = namespace, object.uid = uid, "an orphan without a project");
    let note = format!(
        "namespace {namespace} of cluster {cluster} (uid {uid}) was granted by us and belongs to no object and no project"
    );
    cx.events.report_cluster(cluster, ORPHAN, note);
}

fn report_stranger(cx: &Context, stranger: &Stranger) {
    let Stranger { cluster_name: cluster, namespace, uid, .. } = stranger;
    tracing::warn!(cluster, object.name = namespace, object.uid = uid, "our marks without our seal");
    let note = format!(
        "namespace {namespace} of cluster {cluster} (uid {uid}) carries our marks without our seal; it is charged to nobody"
    );
    cx.events.report_cluster(cluster, STRANGER, note);
}
