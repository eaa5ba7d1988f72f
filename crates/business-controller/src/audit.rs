//! A slow full pass over the member clusters of our shares, which finds what no watch tells of: namespaces that may take what no
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
/// Who loses his roles.
pub mod lost;
/// What a pass may take.
mod bounds;

use crate::context::Context;
use crate::dispatch;
use crate::error::Error;
use crate::inventory::Roll;
use crate::kinds::ObjectKey as _;
use crate::member::Member;
use crate::member_cluster::wake_cluster;
use crate::members::Lookup;
use crate::namespace::kind::BusinessNamespace;
use crate::namespace::problem::NamespaceProblem;
use crate::outcome::StateLabels;
use crate::queue::Lane;
use crate::seal::Keyring;
use crate::shares::{Share, Stay};
use bounds::{CLUSTER_MAX, PARALLEL, SILENT};
use business_types::{ClusterComparison, Comparison};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use judge::{Evidence, Judged};
use look::{ROOM_PART, Room, Sighting, Sights};
use lost::Lost;
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
/// Audits again and again.
#[derive(Debug)]
pub struct Audit {
    pub cx: Arc<Context>,
    pub period: Duration,
}

impl Audit {
    /// Once in a period, soon after it is wanted, and a while after a share has become ours. A share that is to be left is not
    /// waited for.
    pub async fn run(self, end: CancellationToken) {
        let Self { cx, period } = self;
        let mut changes = cx.shares.changes();
        let mut due = Instant::now() + FIRST_AFTER.min(period);
        let mut held = cx.shares.held();
        let mut is_told = false;
        while !end.is_cancelled() {
            tokio::select! {
                () = sleep_until(due) => {}
                () = cx.audit_wanted.notified() => {
                    due = due.min(Instant::now() + SOON);
                    continue;
                }
                // The sender lives as long as the context.
                _ = changes.changed() => {
                    let before = std::mem::replace(&mut held, cx.shares.held());
                    if held.iter().any(|(share, tenure)| before.get(share) != Some(tenure)) {
                        due = due.min(Instant::now() + FIRST_AFTER.min(period));
                    }
                    continue;
                }
            }
            due = Instant::now() + period;
            if cx.seals.keyring().is_none() && !std::mem::replace(&mut is_told, true) {
                tracing::warn!("member clusters are not audited before the keys of seals are read");
            }
            tokio::select! {
                made = pass(&cx) => match made {
                    Ok(comparison) => {
                        if let Some(wait) = until_written(&cx, &comparison) {
                            due = due.min(Instant::now() + wait + SOON);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(error = crate::error::chain(&error), "the audit could not be made");
                    }
                },
                () = cx.shares.any_is_to_end() => due = Instant::now() + SOON,
            }
        }
    }
}

/// How long writes may still be under way to clusters that were not compared. After a controller has ended, its writes are
/// waited for in all of its clusters.
fn until_written(cx: &Context, comparison: &Comparison) -> Option<Duration> {
    let members = cx.members.all().into_iter().filter(|member| comparison.missing.contains_key(&member.name));
    members.filter_map(|member| member.api.may_confirm().err()).max()
}

/// What one pass is over.
struct Scope<'a> {
    cx: &'a Context,
    /// The shares that are ours, which are not left before it has ended.
    stays: Vec<Stay>,
}

impl Scope<'_> {
    fn has(&self, share: Share) -> bool {
        self.stays.iter().any(|stay| stay.share() == share)
    }

    fn has_cluster(&self, cluster: &str) -> bool {
        self.has(self.cx.share_of(cluster))
    }

    fn members(&self) -> Vec<Arc<Member>> {
        let names = self.cx.members.all().into_iter().map(|member| member.name.clone());
        let followed = |name: String| match self.cx.member(&name) {
            Lookup::Found(member) if self.has_cluster(&name) => Some(member),
            _ => None,
        };
        names.filter_map(followed).collect()
    }
}

/// One pass over everything in our shares.
pub async fn pass(cx: &Context) -> Result<Comparison, Error> {
    let scope = Scope { cx, stays: cx.shares.enter_all() };
    if scope.stays.is_empty() {
        // What was found here is told by whoever has those shares now.
        cx.metrics.orphans.set(0);
        cx.metrics.strangers.set(0);
        count_troubles(&scope);
        return Ok(Comparison::default());
    }
    let Some(keyring) = cx.seals.keyring() else { return Ok(Comparison::default()) };
    // Taken first: whatever is found later is compared with at least these.
    let survey = Survey::make(&cx.business).await.map_err(Error::Api)?;
    let roll = roll(cx).await?;
    let mut comparison = Comparison::default();
    let mut sightings = Vec::new();
    let mut keys = BTreeMap::new();
    let members = scope.members();
    let room = Room::new(cx.members.bound.most() / ROOM_PART, members.len());
    let looks: Vec<_> = members.iter().map(|member| look_at(cx, member, &survey, &keyring, &room)).collect();
    let looked: Vec<_> = stream::iter(looks).buffer_unordered(PARALLEL).collect().await;
    for (member, looked) in looked {
        match looked {
            Ok(sights) => {
                comparison.clusters.insert(member.name.clone(), survey.revision);
                sightings.extend(sights.sightings);
                keys.insert(member.name.clone(), sights.keys);
            }
            Err(why) => missing(&mut comparison, &member.name, why),
        }
    }
    not_looked_at(&scope, &survey, &mut comparison);
    let evidence = Evidence { survey: &survey, keyring: &keyring, roll: &roll };
    let (mut findings, mut lost) = judge_all(cx, evidence, sightings, &mut comparison).await;
    still_themselves(&members, &mut comparison).await;
    findings.keep_compared(&comparison);
    lost.retain(|one| comparison.clusters.contains_key(one.cluster()));
    let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    cx.metrics.orphans.set(gauge(findings.orphans()));
    cx.metrics.strangers.set(gauge(findings.strangers()));
    let mut parts = tell::tell(cx, &scope.stays, &survey, findings, &comparison).await?;
    tell_keys(&mut parts, &keyring, keys);
    let comparison = Comparison::of(&parts);
    show(&scope, parts);
    // One that is as it should be costs no call.
    dispatch::look_at_all(cx);
    count_troubles(&scope);
    if comparison.missing.is_empty() {
        cx.metrics.audited.set(cx.clock.unix_seconds());
    }
    // Last: a cluster may let it take long, and nobody waits for it to be told.
    lost::withdraw_all(cx, lost).await;
    Ok(comparison)
}

/// Counts the namespaces of our shares that somebody has to look at. Whoever has another share counts its.
fn count_troubles(scope: &Scope<'_>) {
    let (cx, now) = (scope.cx, scope.cx.clock.unix_seconds());
    let objects = cx.objects.namespaces.all();
    let ours = objects.iter().filter(|object| scope.has_cluster(&object.spec.cluster_name));
    let found: Vec<NamespaceProblem> = ours.filter_map(|object| NamespaceProblem::of(object, now)).collect();
    for trouble in NamespaceProblem::ALL {
        let count = found.iter().filter(|found| **found == trouble).count();
        let gauge = cx.metrics.namespaces.get_or_create(&StateLabels { state: trouble.label() });
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Which keys the seals of each cluster bear. Those of passes that had begun with a former key are among them.
fn tell_keys(
    parts: &mut BTreeMap<String, ClusterComparison>,
    keyring: &Keyring,
    keys: BTreeMap<String, BTreeSet<String>>,
) {
    for (cluster, keys) in keys {
        if let Some(part) = parts.get_mut(&cluster).filter(|part| part.missing.is_empty()) {
            keyring.active().clone_into(&mut part.active_key);
            part.keys = keys.into_iter().collect();
        }
    }
}

/// All our objects, as soon as passes decide from none that is not among them.
async fn roll(cx: &Context) -> Result<Roll, Error> {
    let roll = cx.business.roll::<BusinessNamespace>("").await.map_err(Error::Api)?;
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
fn not_looked_at(scope: &Scope<'_>, survey: &Survey, comparison: &mut Comparison) {
    let cx = scope.cx;
    let absent = cx.members.absent();
    let mut in_use: BTreeSet<String> = cx.objects.namespaces.clusters().into_iter().collect();
    in_use.extend(survey.clusters());
    in_use.extend(absent.keys().cloned());
    for cluster in in_use.into_iter().filter(|cluster| scope.has_cluster(cluster)) {
        if !comparison.clusters.contains_key(&cluster) && !comparison.missing.contains_key(&cluster) {
            let unknown = match cx.member(&cluster) {
                Lookup::NotLoaded => "it is not connected to yet",
                Lookup::Unknown | Lookup::Found(_) => "it is not in the directory",
            };
            let why = absent.get(&cluster).map_or(unknown, String::as_str);
            missing(comparison, &cluster, why.to_owned());
        }
    }
}

fn missing(comparison: &mut Comparison, cluster: &str, why: String) {
    tracing::warn!(cluster, error = why, "cannot audit a member cluster");
    comparison.clusters.remove(cluster);
    comparison.missing.insert(cluster.to_owned(), why);
}

/// What there is in a cluster, or why it could not be looked at.
async fn look_at<'a>(
    cx: &Context,
    member: &'a Arc<Member>,
    survey: &Survey,
    keyring: &Keyring,
    room: &Room,
) -> (&'a Arc<Member>, Result<Sights, String>) {
    let looked = async {
        look::ready(cx, member).await?;
        look::look(cx, member, survey, keyring, room).await
    };
    (member, timeout(CLUSTER_MAX, looked).await.unwrap_or_else(|_elapsed| Err(SILENT.to_owned())))
}

/// Judges what was seen; a cluster that does not answer then is not compared.
async fn judge_all(
    cx: &Context,
    evidence: Evidence<'_>,
    sightings: Vec<Sighting>,
    comparison: &mut Comparison,
) -> (Findings, Vec<Lost>) {
    let mut clusters: BTreeMap<String, Vec<Sighting>> = BTreeMap::new();
    for sighting in sightings.into_iter().filter(|sighting| !evidence.clears(cx, sighting)) {
        clusters.entry(sighting.member.name.clone()).or_default().push(sighting);
    }
    let of_each: Vec<_> =
        clusters.iter().map(|(cluster, sightings)| judge_in(cx, evidence, cluster, sightings)).collect();
    let judged: Vec<_> = stream::iter(of_each).buffer_unordered(PARALLEL).collect().await;
    let (mut findings, mut all_lost) = (Findings::default(), Vec::new());
    for (cluster, judgements) in judged {
        match judgements {
            Ok(judgements) => {
                for Judged { judgement, lost } in judgements {
                    findings.take(judgement);
                    all_lost.extend(lost);
                }
            }
            Err(why) => missing(comparison, cluster, why),
        }
    }
    (findings, all_lost)
}

/// What the sightings in a cluster come to, or why that cannot be told.
async fn judge_in<'a>(
    cx: &Context,
    evidence: Evidence<'_>,
    cluster: &'a str,
    sightings: &[Sighting],
) -> (&'a str, Result<Vec<Judged>, String>) {
    let judgements: Vec<_> = sightings.iter().map(|sighting| evidence.judge(cx, sighting)).collect();
    let all = stream::iter(judgements).buffer_unordered(PARALLEL).try_collect::<Vec<_>>();
    let judged = match timeout(CLUSTER_MAX, all).await {
        Ok(judged) => judged.map_err(|error: Error| error.text()),
        Err(_elapsed) => Err(SILENT.to_owned()),
    };
    (cluster, judged)
}

/// Of a cluster in whose place another one answers by now nothing was seen.
async fn still_themselves(members: &[Arc<Member>], comparison: &mut Comparison) {
    let compared = members.iter().filter(|member| comparison.clusters.contains_key(&member.name));
    let asked: Vec<_> = compared.map(|member| async move { (member, member.is_the_one().await) }).collect();
    let answers: Vec<_> = stream::iter(asked).buffer_unordered(PARALLEL).collect().await;
    for (member, is_the_one) in answers {
        if let Err(failure) = is_the_one {
            missing(comparison, &member.name, failure.to_string());
        }
    }
}

/// Shows in each cluster's object how far it was compared; in one of which nothing is to be compared any more that it was not.
fn show(scope: &Scope<'_>, mut parts: BTreeMap<String, ClusterComparison>) {
    let cx = scope.cx;
    let objects = cx.objects.member_clusters.all();
    let known = objects.iter().map(|object| object.key.name().to_owned());
    let names: BTreeSet<String> =
        known.chain(parts.keys().cloned()).filter(|name| scope.has_cluster(name)).collect();
    let shown = names.iter().map(|name| (name.clone(), parts.remove(name)));
    cx.objects.member_clusters.memory.set_comparisons(shown.collect());
    for name in names {
        wake_cluster(cx, &name, Lane::Urgent);
    }
}
