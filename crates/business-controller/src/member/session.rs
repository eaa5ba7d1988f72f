//! Probes a member cluster, and watches its namespaces, quotas and role bindings.

use super::notify::{
    list_ended, mark_reachable_if_synced, mark_unreachable, wake_namespace, wake_namespaces_of_deleted,
};
use super::observed::QuotaChange;
use super::others::OtherBinding;
use super::watch_health::{ListHealth, WatchFailure, WatchHealth};
use super::watch_store::UpdateSource;
use super::{
    ClusterBinding, ClusterNamespace, ClusterQuota, Member, Reach, eviction, pages, pull_watches,
    template_watches,
};
use crate::acquisition::AcquisitionSnapshot;
use crate::context::Context;
use crate::dispatch;
use crate::error::{ListFailure, watch_error_text};
use crate::events::Topic;
use crate::namespace::kind::BusinessNamespace;
use crate::queue::Lane;
use business_types::names;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use runtime::Backoff;
use std::sync::Arc;
use std::time::Duration;

/// How often a cluster that answers is probed.
const PROBE_PERIOD: Duration = Duration::from_secs(5);
/// First wait after a failed probe.
const RETRY_FLOOR: Duration = Duration::from_millis(500);
/// Longest wait after a failed probe, and so the longest that a cluster waits that answers again.
const RETRY_CEILING: Duration = Duration::from_secs(5);
/// Probes that must fail in a row until a cluster counts as unreachable.
const FAILURES: u32 = 3;
/// A cluster that answers counts as unreachable, and its watches are restarted, if its first lists make no progress for
/// this long.
const LIST_PATIENCE: Duration = Duration::from_secs(15);
/// The same after the lists have failed several times: a large page takes long.
const LIST_PATIENCE_MAX: Duration = Duration::from_mins(4);
/// Usage figures are copied at most this often.
const FIGURES_PERIOD: Duration = Duration::from_secs(1);
/// Objects in one page of a list.
const PAGE: u32 = 500;
/// The same for role bindings, which are large in a project with many people.
const BINDINGS_PAGE: u32 = 50;

const UNWATCHED: Topic = Topic::warning("WatchFails", "Watch");

/// Why the watches of a cluster are restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestartReason {
    /// The cluster did not answer, or does not make progress. The cache is cleared.
    Lost,
    /// The client was replaced. The cache stays valid until the cluster was listed.
    CredentialsChanged,
    /// Its revisions went back: it was restored, and its watches wait for revisions of a lost history. The cache stays
    /// until the cluster was listed.
    HistoryWentBack,
    /// It can be listed but not watched. The cache stays.
    CannotWatch,
    /// The memory budget is exceeded, and this cluster is evicted.
    OverBudget,
}

/// Follows one member cluster while it is in the directory and in a share of this replica.
pub async fn run(cx: Arc<Context>, member: Arc<Member>) {
    let _guard = eviction::BudgetGuard::new(&cx, &member);
    tokio::select! {
        () = follow(&cx, &member) => {}
        () = async { load_acquisition_snapshot(&cx, &member).await; std::future::pending::<()>().await } => {}
    }
}

/// Lists our namespaces in the cluster: the watch cache may be older than the acquisition of the share.
pub(crate) async fn load_acquisition_snapshot(cx: &Context, member: &Member) {
    cx.objects.synced().await;
    let selector = format!("spec.clusterName={}", member.name);
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    loop {
        match cx.business.generation_snapshot::<BusinessNamespace>(Some(&selector)).await {
            Ok(snapshot) => {
                member.set_acquisition_snapshot(AcquisitionSnapshot::new(
                    snapshot,
                    cx.objects.namespaces.progress(),
                ));
                // A cluster that has become unreachable meanwhile is listed again first.
                if member.reach() == Reach::Connecting {
                    mark_reachable_if_synced(cx, member);
                }
                return;
            }
            Err(failure) => {
                tracing::warn!(cluster = member.name, error = %failure, "cannot list the namespaces of a cluster");
                backoff.wait().await;
            }
        }
    }
}

async fn follow(cx: &Context, member: &Member) {
    let mut reason = RestartReason::Lost;
    let (mut patience, mut listed_since) = (LIST_PATIENCE, None);
    loop {
        if reason == RestartReason::OverBudget {
            eviction::evict(cx, member).await;
        }
        match reason {
            // After an eviction, too, another cluster may answer by now.
            RestartReason::Lost | RestartReason::OverBudget => {
                tokio::select! {
                    () = connect(cx, member) => {}
                    // The cache stays while the cluster does not answer, so it still counts.
                    () = eviction::wait_over_budget(cx, member) => {
                        reason = RestartReason::OverBudget;
                        continue;
                    }
                }
                member.api.begin_connection_epoch();
                member.observed.reset();
                listed_since = None;
            }
            RestartReason::HistoryWentBack => member.api.begin_connection_epoch(),
            // `set_client` has begun an epoch already, and where a watch fails history is the same.
            RestartReason::CredentialsChanged | RestartReason::CannotWatch => {}
        }
        let health = WatchHealth::new();
        reason = tokio::select! {
            () = watch_namespaces(cx, member, &health) => RestartReason::Lost,
            () = watch_quotas(cx, member, &health) => RestartReason::Lost,
            () = watch_bindings(cx, member, &health) => RestartReason::Lost,
            () = template_watches::follow(cx, member, &health) => RestartReason::Lost,
            () = pull_watches::follow(cx, member, &health) => RestartReason::Lost,
            why = keep_probing(cx, member, &health, patience) => why,
            () = member.credentials_changed.notified() => RestartReason::CredentialsChanged,
            () = eviction::wait_over_budget_while_watching(cx, member, &mut listed_since) => RestartReason::OverBudget,
        };
        let longer = (patience * 2).min(LIST_PATIENCE_MAX);
        let is_followed = member.observed.is_synced() && reason != RestartReason::CannotWatch;
        patience = if is_followed { LIST_PATIENCE } else { longer };
    }
}

/// Probes until the cluster answers.
async fn connect(cx: &Context, member: &Member) {
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    let mut failures = 0_u32;
    while let Err(failure) = member.probe().await {
        failures = failures.saturating_add(1);
        if failures >= FAILURES {
            mark_unreachable(cx, member, &failure.to_string());
        }
        tokio::select! {
            () = backoff.wait() => {}
            () = member.credentials_changed.notified() => {}
        }
    }
}

/// Probes for ever. Returns when the cluster has not answered several times, when its history went back, or when its
/// lists or watches have made no progress for so long.
async fn keep_probing(
    cx: &Context,
    member: &Member,
    health: &WatchHealth,
    patience: Duration,
) -> RestartReason {
    let (mut failures, mut told) = (0_u32, 0);
    loop {
        tokio::select! {
            () = member.probe_request.notified() => {}
            () = tokio::time::sleep(if failures == 0 { PROBE_PERIOD } else { RETRY_FLOOR }) => {}
        }
        // In one history, the answer is not older than any revision that was known before the probe was sent.
        let known = member.observed.highest_namespace_revision().max(told);
        match member.probe().await {
            Ok(revision) if revision > 0 && revision < known => {
                tracing::warn!(
                    cluster = member.name,
                    revision,
                    known,
                    "the history of a member cluster went back: it is listed anew"
                );
                return RestartReason::HistoryWentBack;
            }
            Ok(revision) => {
                (failures, told) = (0, told.max(revision));
                // The lists may have ended before the snapshot of the share's acquisition was there.
                mark_reachable_if_synced(cx, member);
                // Until the objects are reconciled, people who have left keep their roles.
                if member.observed.binding_list_became_overdue() {
                    dispatch::cluster_changed(cx, &member.name);
                }
            }
            Err(failure) => {
                failures = failures.saturating_add(1);
                cx.members.probe_failed.notify_one();
                if failures >= FAILURES {
                    mark_unreachable(cx, member, &failure.to_string());
                    return RestartReason::Lost;
                }
            }
        }
        if let Some(reason) = check_health(cx, member, health, patience) {
            return reason;
        }
    }
}

/// Whether its lists or watches have made no progress for so long, although it answers.
fn check_health(
    cx: &Context,
    member: &Member,
    health: &WatchHealth,
    patience: Duration,
) -> Option<RestartReason> {
    if !member.observed.is_synced() {
        if health.since_progress() <= patience {
            return None;
        }
        let nothing = || format!("nothing more was heard for {} s", patience.as_secs());
        let reason = health.last_error().unwrap_or_else(nothing);
        mark_unreachable(cx, member, &format!("it cannot be listed: {reason}"));
        return Some(RestartReason::Lost);
    }
    match health.lasting_failure(patience)? {
        WatchFailure::CannotList(reason) => {
            mark_unreachable(cx, member, &format!("it cannot be listed: {reason}"));
            Some(RestartReason::Lost)
        }
        // A cluster that is only listed is seen late, which is better than not at all.
        WatchFailure::CannotWatch(reason) => {
            tracing::warn!(
                cluster = member.name,
                error = reason,
                "a member cluster cannot be watched: it is listed anew"
            );
            let note = format!("it cannot be watched, and is listed again and again: {reason}");
            cx.report_cluster(&member.name, UNWATCHED, note);
            Some(RestartReason::CannotWatch)
        }
    }
}

fn labelled() -> watcher::Config {
    watcher::Config::default().labels(names::NAMESPACE_LABEL)
}

async fn watch_namespaces(cx: &Context, member: &Member, health: &WatchHealth) {
    let api: Api<Namespace> = Api::all(member.api.client());
    let mut listed = ListHealth::new(health);
    let mut stream = pages::watch(&member.name, api, labelled(), PAGE);
    while let Some(event) = stream.next().await {
        listed.observe(&event);
        health.observe("namespaces", &event);
        match event {
            Ok(Event::Init) => member.observed.begin_namespace_list(),
            Ok(Event::InitDone) => {
                wake_namespaces_of_deleted(cx, member, member.observed.end_namespace_list());
                mark_reachable_if_synced(cx, member);
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let object = ClusterNamespace::from(object);
                let name = object.name.clone();
                if member.observed.upsert_namespace(object, UpdateSource::Watch) {
                    wake_namespace(cx, member, &name, Lane::Urgent, Duration::ZERO);
                }
            }
            Ok(Event::Delete(object)) => {
                let object = ClusterNamespace::from(object);
                member.observed.remove_namespace(&object);
                wake_namespace(cx, member, &object.name, Lane::Urgent, Duration::ZERO);
            }
            Err(failure) => watch_failed(member, health, &failure),
        }
    }
}

async fn watch_quotas(cx: &Context, member: &Member, health: &WatchHealth) {
    let api: Api<ResourceQuota> = Api::all(member.api.client());
    let mut listed = ListHealth::new(health);
    let mut stream = pages::watch(&member.name, api, labelled(), PAGE);
    while let Some(event) = stream.next().await {
        listed.observe(&event);
        health.observe("resourcequotas", &event);
        match event {
            Ok(Event::Init) => member.observed.begin_quota_list(),
            Ok(Event::InitDone) => {
                wake_namespaces_of_deleted(cx, member, member.observed.end_quota_list());
                mark_reachable_if_synced(cx, member);
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let Some(namespace) = quota_namespace(&object) else { continue };
                let change =
                    member.observed.upsert_quota(&namespace, ClusterQuota::from(object), UpdateSource::Watch);
                match change {
                    QuotaChange::None => {}
                    QuotaChange::UsageOnly => {
                        wake_namespace(cx, member, &namespace, Lane::Later, FIGURES_PERIOD);
                    }
                    QuotaChange::State => wake_namespace(cx, member, &namespace, Lane::Later, Duration::ZERO),
                }
            }
            Ok(Event::Delete(object)) => {
                let Some(namespace) = quota_namespace(&object) else { continue };
                member.observed.remove_quota(&namespace, &ClusterQuota::from(object));
                wake_namespace(cx, member, &namespace, Lane::Urgent, Duration::ZERO);
            }
            Err(failure) => watch_failed(member, health, &failure),
        }
    }
}

/// That they cannot be listed does not make the cluster unreachable: the right to list them was added in a later
/// release.
async fn watch_bindings(cx: &Context, member: &Member, health: &WatchHealth) {
    let api: Api<RoleBinding> = Api::all(member.api.client());
    // All of them, also without our marks: people may have roles by them.
    let mut stream = pages::watch(&member.name, api, watcher::Config::default(), BINDINGS_PAGE);
    while let Some(event) = stream.next().await {
        health.observe("all rolebindings", &event);
        match event {
            Ok(Event::Init) => member.observed.begin_binding_list(),
            Ok(Event::InitDone) => list_ended(cx, member, member.observed.end_binding_list()),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let Some(namespace) = object.metadata.namespace.clone() else { continue };
                observe_other_binding(cx, member, &namespace, &object, OtherBinding::of(&object));
                let Some(binding) = ClusterBinding::of(object) else { continue };
                if member.observed.upsert_binding(&namespace, binding, UpdateSource::Watch) {
                    wake_namespace(cx, member, &namespace, Lane::Urgent, Duration::ZERO);
                }
            }
            Ok(Event::Delete(object)) => {
                let Some(namespace) = object.metadata.namespace.clone() else { continue };
                observe_other_binding(cx, member, &namespace, &object, None);
                let Some(binding) = ClusterBinding::of(object) else { continue };
                member.observed.remove_binding(&namespace, &binding);
                wake_namespace(cx, member, &namespace, Lane::Urgent, Duration::ZERO);
            }
            Err(failure) => {
                let failure = ListFailure::from(&failure);
                tracing::warn!(
                    cluster = member.name,
                    error = failure.text,
                    "watch of a member cluster's bindings failed"
                );
                if member.observed.binding_list_failed(&failure) {
                    dispatch::cluster_changed(cx, &member.name);
                }
            }
        }
    }
}

fn observe_other_binding(
    cx: &Context,
    member: &Member,
    namespace: &str,
    object: &RoleBinding,
    binding: Option<OtherBinding>,
) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    if member.observed.upsert_other_binding(namespace, name, binding) {
        wake_namespace(cx, member, namespace, Lane::Later, FIGURES_PERIOD);
    }
}

/// The namespace of a quota that is ours: one with the same name.
fn quota_namespace(quota: &ResourceQuota) -> Option<String> {
    let metadata = &quota.metadata;
    metadata.namespace.clone().filter(|namespace| metadata.name.as_ref() == Some(namespace))
}

fn watch_failed(member: &Member, health: &WatchHealth, failure: &watcher::Error) {
    let text = watch_error_text(failure);
    tracing::warn!(cluster = member.name, error = text, "watch of a member cluster failed");
    health.set_last_error(text);
    member.probe_request.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::world::{SEEN_MAX, World};
    use crate::fixtures::{CLUSTER_UID, pending};
    use crate::member::recount::RECOUNT;
    use crate::member::watch_health::{LIST_MAX, REQUIRED};
    use crate::shares::Share;
    use futures_util::pin_mut;
    use kube::core::Status;
    use tokio::time::{advance, timeout};

    fn member(world: &World) -> Arc<Member> {
        let share = world.cx.shares.state(Share::Clusters(0));
        Member::new("c1", CLUSTER_UID, world.server.client(), share, RECOUNT)
    }

    /// One that was listed, and answers.
    fn listed(world: &World) -> Arc<Member> {
        let member = member(world);
        member.observed.end_namespace_list();
        member.observed.end_quota_list();
        member.set_reach(Reach::Reachable);
        member
    }

    fn forbidden() -> kube::Error {
        kube::Error::Api(Status::failure("not allowed", "Forbidden").with_code(403).boxed())
    }

    fn no_watch() -> watcher::Result<Event<Namespace>> {
        Err(watcher::Error::WatchStartFailed(forbidden()))
    }

    fn page(list: &mut ListHealth<'_>) {
        for _ in 0..PAGE {
            list.observe(&Ok(Event::InitApply(Namespace::default())));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_gets_on_is_waited_for_however_long_it_is() {
        let world = World::new();
        let member = member(&world);
        let health = WatchHealth::new();
        let list = &mut ListHealth::new(&health);
        let probing = keep_probing(&world.cx, &member, &health, LIST_PATIENCE);
        pin_mut!(probing);
        for _ in 0..100 {
            assert!(timeout(LIST_PATIENCE / 2, &mut probing).await.is_err(), "{:?}", member.reach());
            page(list);
        }
        assert_eq!(member.reach(), Reach::Connecting);
        // It breaks off, and comes as far as before again and again.
        for _ in 0..2 {
            list.observe::<Namespace>(&Ok(Event::Init));
            advance(LIST_PATIENCE / 2).await;
            page(list);
        }
        assert!(timeout(LIST_PATIENCE, probing).await.is_ok());
        assert!(matches!(member.reach(), Reach::Unreachable { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_first_list_of_bindings_is_woken_when_it_takes_long() {
        let world = World::new();
        world.holds(&pending(&[("pods", "3")]));
        let (member, health) = (listed(&world), WatchHealth::new());
        member.observed.begin_binding_list();
        world.woken();
        let probing = keep_probing(&world.cx, &member, &health, LIST_PATIENCE);
        pin_mut!(probing);
        let half = Duration::from_secs(18);
        for is_woken in [false, true, false] {
            assert!(timeout(half, &mut probing).await.is_err());
            assert_eq!(world.woken().contains(&"p/n".to_owned()), is_woken);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_without_end_is_not_waited_for() {
        let world = World::new();
        let member = member(&world);
        let health = WatchHealth::new();
        let list = &mut ListHealth::new(&health);
        let probing = keep_probing(&world.cx, &member, &health, LIST_PATIENCE);
        pin_mut!(probing);
        while list.now <= LIST_MAX {
            page(list);
        }
        for _ in 0..2 {
            assert!(timeout(LIST_PATIENCE / 2, &mut probing).await.is_err(), "it may end");
            page(list);
        }
        assert_eq!(timeout(LIST_PATIENCE / 2, probing).await, Ok(RestartReason::Lost));
        let reach = member.reach();
        assert!(
            matches!(&reach, Reach::Unreachable { reason, .. } if reason.contains("no end")),
            "{reach:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_had_to_go_is_asked_who_it_is_before_it_is_listed_again() {
        let world = World::new();
        let member = member(&world);
        let following = follow(&world.cx, &member);
        pin_mut!(following);
        assert!(timeout(PROBE_PERIOD, &mut following).await.is_err());
        assert!(member.observed.is_synced());
        let remaining = vec!["x".repeat(SEEN_MAX)];
        let large = ClusterNamespace { name: "a".into(), remaining, ..ClusterNamespace::default() };
        member.observed.upsert_namespace(large, UpdateSource::Watch);
        world.server.is_cluster("another");
        assert!(timeout(Duration::from_mins(2), &mut following).await.is_err());
        let Reach::Unreachable { reason, .. } = member.reach() else { panic!("{:?}", member.reach()) };
        assert!(member.is_evicted() && reason.contains("another cluster answers"), "{reason}");
        assert!(!member.observed.is_synced(), "nothing is listed of another one");
        world.server.is_cluster(CLUSTER_UID);
        assert!(timeout(PROBE_PERIOD * 2, &mut following).await.is_err());
        assert!(member.observed.is_synced());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_of_a_cluster_that_does_not_answer_has_to_go_as_well() {
        let world = World::new();
        world.server.is_cluster("another");
        let member = listed(&world);
        let remaining = vec!["x".repeat(SEEN_MAX)];
        let large = ClusterNamespace { name: "a".into(), remaining, ..ClusterNamespace::default() };
        member.observed.upsert_namespace(large, UpdateSource::Watch);
        assert!(timeout(PROBE_PERIOD, Box::pin(follow(&world.cx, &member))).await.is_err());
        assert!(member.is_evicted());
        assert_eq!(member.observed.weight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_history_that_went_back_is_noticed_although_every_probe_is_good() {
        let world = World::new();
        let (member, health) = (listed(&world), WatchHealth::new());
        world.server.comes_to(5000);
        let probing = keep_probing(&world.cx, &member, &health, LIST_PATIENCE);
        pin_mut!(probing);
        assert!(timeout(PROBE_PERIOD * 3, &mut probing).await.is_err(), "it goes on");
        world.server.comes_to(900);
        assert_eq!(timeout(PROBE_PERIOD * 2, probing).await, Ok(RestartReason::HistoryWentBack));
        assert_eq!(member.reach(), Reach::Reachable, "it answers");
        // It went back before anybody asked: what was seen says so.
        let seen = ClusterNamespace { resource_version: "5000".into(), ..ClusterNamespace::default() };
        member.observed.upsert_namespace(seen, UpdateSource::Watch);
        let probing = keep_probing(&world.cx, &member, &health, LIST_PATIENCE);
        assert_eq!(timeout(PROBE_PERIOD * 2, probing).await, Ok(RestartReason::HistoryWentBack));
        member.observed.begin_namespace_list();
        let probing = keep_probing(&world.cx, &member, &health, LIST_PATIENCE);
        assert!(timeout(PROBE_PERIOD * 2, probing).await.is_err(), "it is listed anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_cannot_be_watched_is_listed_anew_and_stays_reachable() {
        let world = World::new();
        let (member, health) = (listed(&world), WatchHealth::new());
        let probing = keep_probing(&world.cx, &member, &health, LIST_PATIENCE);
        pin_mut!(probing);
        for _ in 0..3 {
            health.observe("namespaces", &no_watch());
            assert!(timeout(LIST_PATIENCE / 2, &mut probing).await.is_err(), "it may be over soon");
            health.observe("resourcequotas", &Ok(Event::Apply(ResourceQuota::default())));
            health.observe("namespaces", &Ok(Event::Apply(Namespace::default())));
        }
        for _ in 0..3 {
            health.observe("namespaces", &no_watch());
            advance(LIST_PATIENCE).await;
            // Others say nothing of this one.
            health.observe("resourcequotas", &Ok(Event::Apply(ResourceQuota::default())));
        }
        assert_eq!(timeout(PROBE_PERIOD * 2, probing).await, Ok(RestartReason::CannotWatch));
        assert_eq!(member.reach(), Reach::Reachable);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_was_listed_and_cannot_be_any_more_is_unreachable() {
        let world = World::new();
        let (member, health) = (listed(&world), WatchHealth::new());
        let no_list = || Err::<Event<Namespace>, _>(watcher::Error::InitialListFailed(forbidden()));
        for what in ["all rolebindings", "resourcequotas"] {
            for _ in 0..3 {
                health.observe::<Namespace>(what, &Ok(Event::Init));
                health.observe(what, &no_list());
                advance(LIST_PATIENCE).await;
            }
            let ended = timeout(PROBE_PERIOD * 2, keep_probing(&world.cx, &member, &health, LIST_PATIENCE));
            let expected = REQUIRED.contains(&what).then_some(RestartReason::Lost);
            assert_eq!(ended.await.ok(), expected, "{what}");
        }
        assert!(matches!(member.reach(), Reach::Unreachable { .. }));
    }
}
