//! A slow full pass over the member clusters, which finds what no watch tells of: namespaces that may take what no
//! object is charged for. They are shown in the status of the project that answers for them, and the API server holds
//! what they may take against it until they are gone. The pass also tells the API server how far everything was
//! compared, which growth waits for after the database's history has diverged.

/// What the projects say.
pub mod survey;
/// What there is in the clusters.
pub mod look;
/// What it comes to.
pub mod judge;
/// Who is told.
pub mod tell;

use crate::business::Roll;
use crate::context::Context;
use crate::dispatch;
use crate::error::Error;
use crate::member_cluster::wake_cluster;
use crate::namespace::kind::BusinessNamespace;
use crate::queue::Lane;
use crate::seal::Borne;
use business_types::{ClusterComparison, Comparison};
use judge::Evidence;
use look::Sighting;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use survey::Survey;
use tell::Findings;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Until the first pass, so that everything else has begun; not longer than between two.
const FIRST_AFTER: Duration = Duration::from_secs(30);
/// Until a pass that is wanted at once, so that what goes together is seen by one.
const SOON: Duration = Duration::from_secs(2);
/// How often to look whether the watches have caught up, and for how long.
const CATCH_UP_PERIOD: Duration = Duration::from_millis(50);
const CATCH_UP_MAX: Duration = Duration::from_secs(10);
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// Audits again and again.
#[derive(Debug)]
pub struct Audit {
    pub cx: Arc<Context>,
    pub period: Duration,
}

impl Audit {
    /// Once in a period, and soon after it is wanted.
    pub async fn run(self, end: CancellationToken) {
        let Self { cx, period } = self;
        let mut due = Instant::now() + FIRST_AFTER.min(period);
        let mut first = true;
        while !end.is_cancelled() {
            if first || timeout(due.duration_since(Instant::now()), cx.audit_wanted.notified()).await.is_err()
            {
                sleep_until(due).await;
            } else {
                tokio::time::sleep(SOON).await;
            }
            first = false;
            due = Instant::now() + period;
            if let Err(error) = pass(&cx).await {
                tracing::warn!(error = crate::error::chain(&error), "the audit could not be made");
            }
        }
    }
}

/// One pass over everything.
pub async fn pass(cx: &Context) -> Result<Comparison, Error> {
    let began = Instant::now();
    let Some(keyring) = cx.seals.keyring() else {
        return Err(Error::Config("the keys of seals were not read yet".to_owned()));
    };
    // Taken first: whatever is found later is compared with at least these.
    let survey = Survey::make(&cx.business).await.map_err(Error::Api)?;
    let roll = roll(cx).await?;
    let mut comparison = Comparison::default();
    let mut sightings = Vec::new();
    let mut keys = BTreeSet::new();
    for member in cx.members.all() {
        let looked = match look::ready(cx, &member).await {
            Ok(()) => look::look(cx, &member, &survey, &keyring).await,
            Err(why) => Err(why),
        };
        match looked {
            Ok(sights) => {
                comparison.clusters.insert(member.name.clone(), survey.revision);
                sightings.extend(sights.sightings);
                keys.extend(sights.keys);
            }
            Err(why) => missing(&mut comparison, &member.name, why),
        }
    }
    not_looked_at(cx, &survey, &mut comparison);
    let evidence = Evidence { survey: &survey, keyring: &keyring, roll: &roll };
    let mut findings = judge_all(cx, evidence, sightings, &mut comparison).await;
    findings.keep_compared(&comparison);
    let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    cx.metrics.orphans.set(gauge(findings.orphans()));
    cx.metrics.strangers.set(gauge(findings.strangers()));
    let parts = tell::tell(cx, &survey, findings, &comparison).await?;
    let comparison = Comparison::of(&parts);
    show(cx, parts);
    // One that is as it should be costs no call.
    dispatch::look_at_all(cx);
    if comparison.missing.is_empty() {
        cx.metrics.audited.set(cx.clock.unix_seconds());
        cx.seals.are_borne(Borne { ids: keys, since: began });
    }
    Ok(comparison)
}

/// All our objects, as soon as passes decide from none that is not among them.
async fn roll(cx: &Context) -> Result<Roll, Error> {
    let roll = cx.business.roll::<BusinessNamespace>().await.map_err(Error::Api)?;
    let caught_up = async {
        while cx.objects.namespaces.is_behind(&roll) {
            tokio::time::sleep(CATCH_UP_PERIOD).await;
        }
    };
    match timeout(CATCH_UP_MAX, caught_up).await {
        Ok(()) => Ok(roll),
        Err(_elapsed) => Err(Error::Behind),
    }
}

/// Clusters in use that nobody could look at: something of ours may lie there all the same.
fn not_looked_at(cx: &Context, survey: &Survey, comparison: &mut Comparison) {
    let absent = cx.members.absent();
    let mut in_use: BTreeSet<String> = cx.objects.namespaces.clusters().into_iter().collect();
    in_use.extend(survey.clusters());
    in_use.extend(absent.keys().cloned());
    for cluster in in_use {
        if !comparison.clusters.contains_key(&cluster) && !comparison.missing.contains_key(&cluster) {
            let why = absent.get(&cluster).map_or("it is not in the directory", String::as_str);
            missing(comparison, &cluster, why.to_owned());
        }
    }
}

fn missing(comparison: &mut Comparison, cluster: &str, why: String) {
    tracing::warn!(cluster, error = why, "cannot audit a member cluster");
    comparison.clusters.remove(cluster);
    comparison.missing.insert(cluster.to_owned(), why);
}

/// Judges what was seen; a cluster that does not answer then is not compared.
async fn judge_all(
    cx: &Context,
    evidence: Evidence<'_>,
    sightings: Vec<Sighting>,
    comparison: &mut Comparison,
) -> Findings {
    let mut findings = Findings::default();
    for sighting in sightings.into_iter().filter(|sighting| !evidence.clears(cx, sighting)) {
        let cluster = &sighting.member.name;
        if comparison.missing.contains_key(cluster) {
            continue;
        }
        match timeout(DEADLINE, evidence.judge(cx, &sighting)).await {
            Ok(Ok(judgement)) => findings.take(judgement),
            Ok(Err(error)) => missing(comparison, cluster, error.text()),
            Err(_elapsed) => missing(comparison, cluster, "no answer in time".to_owned()),
        }
    }
    findings
}

/// Shows in each cluster's object how far it was compared.
fn show(cx: &Context, parts: BTreeMap<String, ClusterComparison>) {
    let names: Vec<String> = parts.keys().cloned().collect();
    cx.objects.member_clusters.memory.set_comparisons(parts);
    for name in names {
        wake_cluster(cx, &name, Lane::Urgent);
    }
}
