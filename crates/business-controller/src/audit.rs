//! A slow full pass over the member clusters, which finds what no watch tells of: namespaces with our mark and no
//! object, whatever their labels. They are shown in the status of the project that they are labelled with, and the
//! API server holds what they may take against it until they are gone. The pass also tells the API server how far
//! everything was compared, which growth waits for after the database's history has diverged.

/// What the projects say.
pub mod survey;
/// Which namespaces belong to no object.
mod orphans;

use crate::context::Context;
use crate::dispatch;
use crate::error::{Error, Failure};
use crate::events::Topic;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::member::{Member, Reach};
use crate::namespace::kind::BusinessNamespace;
use crate::project::kind::{BusinessProject, ProjectView};
use business_types::names::{CLUSTERS_CONFIG_MAP, COMPARED_ANNOTATION};
use business_types::{Comparison, Orphan};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use orphans::{Found, Sighting};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;
use survey::Survey;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Until the first pass, so that everything else has begun; not longer than between two.
const FIRST_AFTER: Duration = Duration::from_secs(30);
/// Until a pass that is wanted at once, so that what goes together is seen by one.
const SOON: Duration = Duration::from_secs(2);
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often a status is written whose project somebody else changes at the same time.
const TRIES_MAX: usize = 5;
/// Orphans that one project's status holds.
const ORPHANS_MAX: usize = 500;
/// Orphans of one cluster that are named in logs and events.
const NAMED_MAX: usize = 20;

const ORPHAN: Topic = Topic::warning("Orphan", "Audit");

/// Audits again and again.
#[derive(Debug)]
pub struct Audit {
    pub cx: Arc<Context>,
    /// Where it is told how far everything was compared.
    pub maps: Api<ConfigMap>,
    pub period: Duration,
}

impl Audit {
    /// Once in a period, and soon after all our objects had to be listed anew.
    pub async fn run(self, end: CancellationToken) {
        let Self { cx, maps, period } = self;
        let mut due = Instant::now() + FIRST_AFTER.min(period);
        let mut first = true;
        while !end.is_cancelled() {
            if first || timeout(due.duration_since(Instant::now()), cx.relisted.notified()).await.is_err() {
                sleep_until(due).await;
            } else {
                tokio::time::sleep(SOON).await;
            }
            first = false;
            due = Instant::now() + period;
            match pass(&cx).await {
                Ok(comparison) => publish(&maps, &comparison).await,
                Err(error) => {
                    tracing::warn!(error = crate::error::chain(&error), "the audit could not be made");
                }
            }
        }
    }
}

/// One pass over everything.
pub async fn pass(cx: &Context) -> Result<Comparison, Error> {
    // Taken first: whatever is found later is compared with at least these.
    let survey = Survey::make(&cx.business).await.map_err(Error::Api)?;
    let mut comparison = Comparison::default();
    let mut sightings = Vec::new();
    for member in cx.members.all() {
        match look(&member, &survey).await {
            Ok(seen) => {
                comparison.clusters.insert(member.name.clone(), survey.revision);
                sightings.extend(seen);
            }
            Err(why) => {
                tracing::warn!(cluster = member.name, error = why, "cannot audit a member cluster");
                comparison.missing.insert(member.name.clone(), why);
            }
        }
    }
    let alive = cx.business.uids::<BusinessNamespace>().await.map_err(Error::Api)?;
    let found = find(sightings, &alive, &mut comparison).await;
    cx.metrics.orphans.set(i64::try_from(found.len()).unwrap_or(i64::MAX));
    let audited: BTreeSet<String> = comparison.clusters.keys().cloned().collect();
    (comparison.unreported, comparison.homeless) = tell(cx, &survey, &audited, found).await?;
    // Every object is looked at once more; one that is as it should be costs no call.
    dispatch::look_at_all(cx);
    if comparison.missing.is_empty() {
        cx.metrics.audited.set(cx.clock.unix_seconds());
    }
    Ok(comparison)
}

/// What in a member cluster carries our mark, or is at a place that something is held for.
async fn look(member: &Arc<Member>, survey: &Survey) -> Result<Vec<Sighting>, String> {
    if let Reach::Reachable = member.reach() {
        let held: HashSet<&str> = survey.held_in(&member.name).collect();
        return orphans::look(member, &held).await;
    }
    Err("it does not answer".to_owned())
}

/// Of what was seen, what belongs to no object. It is looked at again, now that the objects were; a cluster that does
/// not answer then is not compared.
async fn find(seen: Vec<Sighting>, alive: &HashSet<String>, comparison: &mut Comparison) -> Vec<Found> {
    let mut found = Vec::new();
    for sighting in seen.into_iter().filter(|sighting| !sighting.belongs_to(alive)) {
        let cluster = sighting.cluster();
        if comparison.missing.contains_key(cluster) {
            continue;
        }
        let failed = match timeout(DEADLINE, sighting.verify()).await {
            Ok(Ok(orphan)) => {
                found.extend(orphan);
                continue;
            }
            Ok(Err(failure)) => failure.to_string(),
            Err(_elapsed) => "no answer in time".to_owned(),
        };
        tracing::warn!(cluster, error = failed, "cannot audit a member cluster");
        comparison.clusters.remove(cluster);
        comparison.missing.insert(cluster.to_owned(), failed);
    }
    found.retain(|found: &Found| comparison.clusters.contains_key(&found.orphan.cluster_name));
    found
}

/// Brings the status of every project to what was found; tells how many orphans stand in none, and how many of these
/// because there is no such project.
async fn tell(
    cx: &Context,
    survey: &Survey,
    audited: &BTreeSet<String>,
    found: Vec<Found>,
) -> Result<(u64, u64), Error> {
    let mut wanted: BTreeMap<&str, Vec<Orphan>> = BTreeMap::new();
    let mut homeless = Vec::new();
    for Found { project, orphan } in found {
        let holder = survey.holder(&orphan.cluster_name, &orphan.namespace);
        match holder.or_else(|| survey.name_of(project.as_deref().unwrap_or_default())) {
            Some(project) => wanted.entry(project).or_default().push(orphan),
            None => homeless.push(orphan),
        }
    }
    for orphan in homeless.iter().take(NAMED_MAX) {
        report_homeless(cx, orphan);
    }
    let homeless = homeless.len();
    let mut unreported = homeless;
    for (name, told) in survey.telling() {
        // What was found in a cluster that does not answer now may still be there.
        let kept = told.iter().filter(|orphan| !audited.contains(&orphan.cluster_name));
        wanted.entry(name).or_default().extend(kept.cloned());
    }
    for (name, mut orphans) in wanted {
        orphans.sort_unstable();
        unreported = unreported.saturating_add(orphans.len().saturating_sub(ORPHANS_MAX));
        orphans.truncate(ORPHANS_MAX);
        if survey.told(name) == orphans {
            continue;
        }
        if !show(cx, name, &orphans).await? {
            unreported = unreported.saturating_add(orphans.len());
        }
    }
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Ok((count(unreported), count(homeless)))
}

/// Writes the orphans of a project into its status. Whether there still is such a project.
async fn show(cx: &Context, name: &str, orphans: &[Orphan]) -> Result<bool, Error> {
    let Some(project) = write(cx, name, orphans).await? else { return Ok(false) };
    for orphan in orphans.iter().filter(|orphan| !project.status.orphans.contains(orphan)).take(NAMED_MAX) {
        let note = format!(
            "namespace {} of cluster {} is marked as this project's and belongs to no object; what it may take is held",
            orphan.namespace, orphan.cluster_name
        );
        tracing::warn!(
            project = name,
            cluster = orphan.cluster_name,
            object.name = orphan.namespace,
            "an orphan"
        );
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
            Err(Failure::NotFound) => return Ok(None),
            Err(Failure::Conflict(_)) if tries < TRIES_MAX => {}
            Err(failure) => return Err(Error::Api(failure)),
        }
    }
}

fn report_homeless(cx: &Context, orphan: &Orphan) {
    let Orphan { cluster_name, namespace: name, uid, .. } = orphan;
    tracing::warn!(
        cluster = cluster_name,
        object.name = name,
        object.uid = uid,
        "an orphan without a project"
    );
    let note = format!(
        "namespace {name} of cluster {cluster_name} (uid {uid}) is marked as ours and belongs to no object and no project"
    );
    cx.events.report_directory(ORPHAN, note);
}

/// Tells the API server how far everything was compared.
async fn publish(maps: &Api<ConfigMap>, comparison: &Comparison) {
    let text = json!(comparison).to_string();
    let body = json!({ "metadata": { "annotations": { (COMPARED_ANNOTATION): text } } });
    let params = PatchParams::default();
    let patch = Patch::Merge(body);
    let call = maps.patch_metadata(CLUSTERS_CONFIG_MAP, &params, &patch);
    match timeout(DEADLINE, call).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(error = crate::error::chain(&error), "cannot publish what was compared");
        }
        Err(_elapsed) => tracing::warn!("what was compared was not taken in time"),
    }
}
