//! The audit: a slow full comparison of the member clusters of our shares with our objects. It finds what no watch
//! shows: namespaces that may use what no object is charged for. They are reported in the status of the project that
//! answers for them, and the API server holds what they may use until they are gone. The audit also reports how far
//! everything was compared, which growth waits for after the database's history has diverged.

/// Reads all projects.
pub mod survey;
/// Scans member clusters.
pub mod scan;
/// Judges what was found.
pub mod judge;
/// Reports the findings.
pub mod report;
/// Withdraws roles in lost namespaces.
pub mod lost;
/// Limits of one audit.
mod bounds;

use crate::acquisition::GenerationSnapshot;
use crate::context::Context;
use crate::dispatch;
use crate::error::Error;
use crate::kinds::ObjectKey as _;
use crate::member::Member;
use crate::member_cluster::enqueue_cluster;
use crate::member_cluster::kind::AuditResult;
use crate::members::Lookup;
use crate::metrics::StateLabels;
use crate::namespace::kind::BusinessNamespace;
use crate::namespace::problem::NamespaceProblem;
use crate::queue::Lane;
use crate::seal::Keyring;
use crate::shares::{Share, ShareGuard};
use bounds::{CLUSTER_MAX, NO_ANSWER, PARALLEL};
use business_types::{ClusterComparison, Comparison};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use judge::{Evidence, Judged};
use lost::LostNamespace;
use report::{Findings, Reporter};
use scan::{ClusterScan, ClusterScanner, SCAN_BUDGET_DIVISOR, ScanBudget, ScannedNamespace};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use survey::ProjectSurvey;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Delay of the first audit, so that everything else has started; not longer than the period.
const FIRST_AFTER: Duration = Duration::from_secs(30);
/// Delay of an audit that was requested, so that one audit serves several requests.
const SOON: Duration = Duration::from_secs(2);
/// How often to check whether the watches have caught up, and for how long.
const CATCH_UP_PERIOD: Duration = Duration::from_millis(50);
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// Audits periodically.
#[derive(Debug)]
pub struct Audit {
    pub cx: Arc<Context>,
    pub period: Duration,
}

impl Audit {
    /// Audits once in a period, soon after a request, and some time after a share was acquired. A share that is to be
    /// drained is not delayed: the audit is dropped.
    pub async fn run(self, end: CancellationToken) {
        let Self { cx, period } = self;
        let mut changes = cx.shares.changes();
        let mut due = Instant::now() + FIRST_AFTER.min(period);
        let mut held = cx.shares.held();
        let mut is_logged = false;
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
                    if held.iter().any(|(share, term)| before.get(share) != Some(term)) {
                        due = due.min(Instant::now() + FIRST_AFTER.min(period));
                    }
                    continue;
                }
            }
            due = Instant::now() + period;
            if cx.seals.keyring().is_none() && !std::mem::replace(&mut is_logged, true) {
                tracing::warn!("member clusters are not audited before the keys of seals are read");
            }
            tokio::select! {
                made = pass(&cx) => match made {
                    Ok(comparison) => {
                        if let Some(wait) = longest_write_wait(&cx, &comparison) {
                            due = due.min(Instant::now() + wait + SOON);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(error = crate::error::chain(&error), "the audit could not be made");
                    }
                },
                () = cx.shares.wait_for_any_drain() => due = Instant::now() + SOON,
            }
        }
    }
}

/// The longest time for which writes may still be in flight to clusters that were not compared. After a controller has
/// ended, its writes are waited for in all of its clusters.
fn longest_write_wait(cx: &Context, comparison: &Comparison) -> Option<Duration> {
    let members = cx.members.all().into_iter().filter(|member| comparison.missing.contains_key(&member.name));
    members.filter_map(|member| member.api.may_confirm().err()).max()
}

/// The scope of one audit.
struct AuditScope<'a> {
    cx: &'a Context,
    /// The shares that this replica works on. They are not released before the audit has ended.
    guards: Vec<ShareGuard>,
}

impl AuditScope<'_> {
    fn has(&self, share: Share) -> bool {
        self.guards.iter().any(|guard| guard.share() == share)
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

/// Audits all our shares once.
pub async fn pass(cx: &Context) -> Result<Comparison, Error> {
    let scope = AuditScope { cx, guards: cx.shares.enter_all() };
    if scope.guards.is_empty() {
        // Whoever has these shares now reports what was found here.
        cx.metrics.orphans.set(0);
        cx.metrics.strangers.set(0);
        update_problem_metrics(&scope);
        return Ok(Comparison::default());
    }
    let Some(keyring) = cx.seals.keyring() else { return Ok(Comparison::default()) };
    // Read first: everything that is found later is compared with this state or a newer one.
    let survey = ProjectSurvey::read(&cx.business).await.map_err(Error::Api)?;
    let snapshot = current_snapshot(cx).await?;
    let mut comparison = Comparison::default();
    let mut namespaces = Vec::new();
    let mut keys = BTreeMap::new();
    let members = scope.members();
    let budget = ScanBudget::new(cx.members.memory_budget.max_bytes() / SCAN_BUDGET_DIVISOR, members.len());
    let scanner = ClusterScanner { cx, survey: &survey, keyring: &keyring, budget: &budget };
    let scans: Vec<_> = members.iter().map(|member| scan_with_deadline(scanner, member)).collect();
    let scanned: Vec<_> = stream::iter(scans).buffer_unordered(PARALLEL).collect().await;
    for (member, scanned) in scanned {
        match scanned {
            Ok(scanned) => {
                comparison.clusters.insert(member.name.clone(), survey.revision);
                namespaces.extend(scanned.namespaces);
                keys.insert(member.name.clone(), scanned.keys);
            }
            Err(why) => mark_missing(&mut comparison, &member.name, why),
        }
    }
    add_unscanned(&scope, &survey, &mut comparison);
    let evidence = Evidence { cx, survey: &survey, keyring: &keyring, snapshot: &snapshot };
    let (mut findings, mut lost) = judge_all(evidence, namespaces, &mut comparison).await;
    recheck_identities(&members, &mut comparison).await;
    findings.keep_compared(&comparison);
    lost.retain(|one| comparison.clusters.contains_key(one.cluster()));
    let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    cx.metrics.orphans.set(gauge(findings.orphans()));
    cx.metrics.strangers.set(gauge(findings.strangers()));
    let reporter = Reporter { cx, guards: &scope.guards, survey: &survey, comparison: &comparison };
    let mut comparisons = reporter.report(findings).await?;
    record_seal_keys(&mut comparisons, &keyring, keys);
    let comparison = Comparison::of(&comparisons);
    publish(&scope, comparisons);
    // A pass over an object that is as it should be costs no call.
    dispatch::resync(cx);
    update_problem_metrics(&scope);
    if comparison.missing.is_empty() {
        cx.metrics.audited.set(cx.clock.unix_seconds());
    }
    // Last: a cluster may delay it, and the report must not wait for that.
    lost::withdraw_roles(cx, lost).await;
    Ok(comparison)
}

/// Counts the namespaces of our shares that somebody has to look at. Other replicas count those of theirs.
fn update_problem_metrics(scope: &AuditScope<'_>) {
    let (cx, now) = (scope.cx, scope.cx.clock.unix_seconds());
    let objects = cx.objects.namespaces.all();
    let ours = objects.iter().filter(|object| scope.has_cluster(&object.spec.cluster_name));
    let found: Vec<NamespaceProblem> = ours.filter_map(|object| NamespaceProblem::of(object, now)).collect();
    for problem in NamespaceProblem::ALL {
        let count = found.iter().filter(|found| **found == problem).count();
        let gauge = cx.metrics.namespaces.get_or_create(&StateLabels { state: problem.label() });
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Records which keys the seals in each cluster bear, including those of passes that had begun with a former key.
fn record_seal_keys(
    comparisons: &mut BTreeMap<String, ClusterComparison>,
    keyring: &Keyring,
    keys: BTreeMap<String, BTreeSet<String>>,
) {
    for (cluster, keys) in keys {
        if let Some(part) = comparisons.get_mut(&cluster).filter(|part| part.missing.is_empty()) {
            keyring.active().clone_into(&mut part.active_key);
            part.keys = keys.into_iter().collect();
        }
    }
}

/// A snapshot of all our namespaces, once passes use no older state of any.
async fn current_snapshot(cx: &Context) -> Result<GenerationSnapshot, Error> {
    let snapshot = cx.business.generation_snapshot::<BusinessNamespace>(None).await.map_err(Error::Api)?;
    let caught_up = async {
        while cx.objects.namespaces.is_behind(&snapshot) {
            tokio::time::sleep(CATCH_UP_PERIOD).await;
        }
    };
    match timeout(CATCH_UP_MAX, caught_up).await {
        Ok(()) => Ok(snapshot),
        Err(_elapsed) => Err(Error::Behind),
    }
}

/// Adds clusters in use that could not be scanned: they may still contain something of ours.
fn add_unscanned(scope: &AuditScope<'_>, survey: &ProjectSurvey, comparison: &mut Comparison) {
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
            mark_missing(comparison, &cluster, why.to_owned());
        }
    }
}

fn mark_missing(comparison: &mut Comparison, cluster: &str, why: String) {
    tracing::warn!(cluster, error = why, "cannot audit a member cluster");
    comparison.clusters.remove(cluster);
    comparison.missing.insert(cluster.to_owned(), why);
}

/// Scans a cluster within its time. The error says why that was not possible.
async fn scan_with_deadline<'a>(
    scanner: ClusterScanner<'_>,
    member: &'a Arc<Member>,
) -> (&'a Arc<Member>, Result<ClusterScan, String>) {
    let scanned = async {
        scan::wait_until_ready(scanner.cx, member).await?;
        scanner.scan(member).await
    };
    (member, timeout(CLUSTER_MAX, scanned).await.unwrap_or_else(|_elapsed| Err(NO_ANSWER.to_owned())))
}

/// Judges what was found. A cluster that does not answer meanwhile counts as not compared.
async fn judge_all(
    evidence: Evidence<'_>,
    namespaces: Vec<ScannedNamespace>,
    comparison: &mut Comparison,
) -> (Findings, Vec<LostNamespace>) {
    let mut clusters: BTreeMap<String, Vec<ScannedNamespace>> = BTreeMap::new();
    for scanned in namespaces.into_iter().filter(|scanned| !evidence.is_cleared(scanned)) {
        clusters.entry(scanned.member.name.clone()).or_default().push(scanned);
    }
    let of_each: Vec<_> =
        clusters.iter().map(|(cluster, namespaces)| judge_in(evidence, cluster, namespaces)).collect();
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
            Err(why) => mark_missing(comparison, cluster, why),
        }
    }
    (findings, all_lost)
}

/// Judges the namespaces of one cluster. The error says why that was not possible.
async fn judge_in<'a>(
    evidence: Evidence<'_>,
    cluster: &'a str,
    namespaces: &[ScannedNamespace],
) -> (&'a str, Result<Vec<Judged>, String>) {
    let judgements: Vec<_> = namespaces.iter().map(|scanned| evidence.judge(scanned)).collect();
    let all = stream::iter(judgements).buffer_unordered(PARALLEL).try_collect::<Vec<_>>();
    let judged = match timeout(CLUSTER_MAX, all).await {
        Ok(judged) => judged.map_err(|error: Error| error.text()),
        Err(_elapsed) => Err(NO_ANSWER.to_owned()),
    };
    (cluster, judged)
}

/// Clusters in whose place another one answers by now were not compared.
async fn recheck_identities(members: &[Arc<Member>], comparison: &mut Comparison) {
    let compared = members.iter().filter(|member| comparison.clusters.contains_key(&member.name));
    let asked: Vec<_> =
        compared.map(|member| async move { (member, member.verify_identity().await) }).collect();
    let answers: Vec<_> = stream::iter(asked).buffer_unordered(PARALLEL).collect().await;
    for (member, verified) in answers {
        if let Err(failure) = verified {
            mark_missing(comparison, &member.name, failure.to_string());
        }
    }
}

/// Publishes the comparison of each cluster in its object.
fn publish(scope: &AuditScope<'_>, mut comparisons: BTreeMap<String, ClusterComparison>) {
    let cx = scope.cx;
    let objects = cx.objects.member_clusters.all();
    let known = objects.iter().map(|object| object.key.name().to_owned());
    let names: BTreeSet<String> =
        known.chain(comparisons.keys().cloned()).filter(|name| scope.has_cluster(name)).collect();
    let audit = |name: &String| {
        let comparison = comparisons.remove(name);
        (name.clone(), comparison.map_or(AuditResult::NothingToCompare, AuditResult::Compared))
    };
    cx.objects.member_clusters.memory.set_audits(names.iter().map(audit).collect());
    for name in names {
        enqueue_cluster(cx, &name, Lane::Urgent);
    }
}
