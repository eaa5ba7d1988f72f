//! Measures the cache of a member cluster while it is followed, and evicts the cluster for a while if the memory budget
//! is exceeded.

use super::memory_budget::ClusterWeight;
use super::{Member, Reach, notify};
use crate::context::Context;
use crate::metrics::ClusterLabels;
use std::time::Duration;
use tokio::time::Instant;

/// How often the cache is measured.
const WEIGH_PERIOD: Duration = Duration::from_millis(250);
/// How long an evicted cluster is left alone before it is listed again.
const EVICTED_PAUSE: Duration = Duration::from_mins(1);
/// An evicted cluster is readmitted after this time even if some lists fail.
const PROBATION_MAX: Duration = Duration::from_mins(5);
/// How the reason of an evicted cluster begins.
const REASON_PREFIX: &str = "what it has of ours, its bindings and service accounts take ";

/// Takes the cluster out of the budget and its metric away when it is dropped.
#[derive(Debug)]
pub(super) struct BudgetGuard<'a> {
    cx: &'a Context,
    cluster: &'a str,
}

impl<'a> BudgetGuard<'a> {
    pub(super) fn new(cx: &'a Context, member: &'a Member) -> Self {
        Self { cx, cluster: &member.name }
    }
}

impl Drop for BudgetGuard<'_> {
    fn drop(&mut self) {
        self.cx.members.memory_budget.forget(self.cluster);
        self.cx.metrics.seen.remove(&ClusterLabels { cluster: self.cluster.to_owned() });
    }
}

/// Returns when this cluster must be evicted.
pub(super) async fn wait_over_budget(cx: &Context, member: &Member) {
    while !is_over_budget(cx, member) {
        tokio::time::sleep(WEIGH_PERIOD).await;
    }
}

/// The same while the cluster is listed and watched. An evicted cluster is readmitted when all of it fits. `since` is
/// when its namespaces and quotas were listed.
pub(super) async fn wait_over_budget_while_watching(
    cx: &Context,
    member: &Member,
    since: &mut Option<Instant>,
) {
    while !is_over_budget(cx, member) {
        if member.is_evicted() && may_readmit(cx, member, since) {
            member.set_evicted(false);
            notify::mark_reachable_if_synced(cx, member);
        }
        tokio::time::sleep(WEIGH_PERIOD).await;
    }
}

fn is_over_budget(cx: &Context, member: &Member) -> bool {
    let bytes = member.observed.weight();
    set_metric(cx, member, bytes);
    let weight = ClusterWeight { bytes, on_probation: member.is_evicted() };
    cx.members.memory_budget.must_evict(&member.name, weight)
}

fn set_metric(cx: &Context, member: &Member, bytes: usize) {
    let labels = ClusterLabels { cluster: member.name.clone() };
    cx.metrics.seen.get_or_create(&labels).set(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Whether an evicted cluster can be readmitted: all its lists have ended, since any of them may be the large one, or
/// those that fail were waited for long enough.
fn may_readmit(cx: &Context, member: &Member, since: &mut Option<Instant>) -> bool {
    if !member.observed.is_synced() {
        *since = None;
        return false;
    }
    let since = *since.get_or_insert_with(Instant::now);
    since.elapsed() >= PROBATION_MAX || member.observed.is_fully_listed(cx.registry.pull_host.is_some())
}

/// Clears the cache of a cluster that exceeds the budget, and leaves the cluster alone for a while.
pub(super) async fn evict(cx: &Context, member: &Member) {
    member.set_evicted(true);
    // A later try may be interrupted earlier, so its size says less.
    let is_told =
        matches!(member.reach(), Reach::Unreachable { reason, .. } if reason.starts_with(REASON_PREFIX));
    if !is_told {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let (takes, most) = (mib(member.observed.weight()), mib(cx.members.memory_budget.max_bytes()));
        let why = format!("{REASON_PREFIX}{takes} MiB, and all clusters together may take {most} MiB");
        notify::mark_unreachable(cx, member, &why);
    }
    member.observed.reset();
    set_metric(cx, member, 0);
    tokio::time::sleep(EVICTED_PAUSE).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquisition::{AcquisitionSnapshot, GenerationSnapshot};
    use crate::error::ListFailure;
    use crate::fixtures::CLUSTER_UID;
    use crate::fixtures::world::{SEEN_MAX, World};
    use crate::member::ClusterNamespace;
    use crate::member::recount::RECOUNT;
    use crate::member::template_objects::TemplateObjectKind;
    use crate::member::watch_store::UpdateSource;
    use crate::shares::Share;
    use futures_util::pin_mut;
    use std::sync::Arc;
    use tokio::time::timeout;

    /// One that was listed, and answers.
    fn listed(world: &World, name: &str) -> Arc<Member> {
        let share = world.cx.shares.state(Share::Clusters(0));
        let member = Member::new(name, CLUSTER_UID, world.server.client(), share, RECOUNT);
        member.observed.end_namespace_list();
        member.observed.end_quota_list();
        member.set_reach(Reach::Reachable);
        member
    }

    /// A namespace that takes about so many bytes is seen there.
    fn sees(member: &Member, name: &str, bytes: usize) {
        let remaining = vec!["x".repeat(bytes)];
        let namespace = ClusterNamespace { name: name.into(), remaining, ..ClusterNamespace::default() };
        member.observed.upsert_namespace(namespace, UpdateSource::Watch);
    }

    fn reason(member: &Member) -> String {
        match member.reach() {
            Reach::Unreachable { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_clusters_that_fit_each_by_itself_do_not_fit_together() {
        let world = World::new();
        let (one, other) = (listed(&world, "one"), listed(&world, "other"));
        let of_one = wait_over_budget(&world.cx, &one);
        let of_other = wait_over_budget(&world.cx, &other);
        pin_mut!(of_one, of_other);
        sees(&one, "a", SEEN_MAX / 5 * 2);
        sees(&other, "a", SEEN_MAX / 5 * 2);
        assert!(timeout(WEIGH_PERIOD * 2, &mut of_one).await.is_err());
        assert!(timeout(WEIGH_PERIOD * 2, &mut of_other).await.is_err());
        sees(&other, "b", SEEN_MAX / 5);
        assert!(timeout(WEIGH_PERIOD * 2, &mut of_other).await.is_ok());
        assert!(timeout(WEIGH_PERIOD * 2, &mut of_one).await.is_err(), "one goes, and not both");
        evict(&world.cx, &other).await;
        assert_eq!((one.reach(), other.observed.weight()), (Reach::Reachable, 0));
        assert!(reason(&other).ends_with("take 1 MiB, and all clusters together may take 1 MiB"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_has_to_go_is_forgotten_and_left_alone_until_it_was_seen_whole() {
        let world = World::new();
        let (member, mut since) = (listed(&world, "c1"), None);
        sees(&member, "a", SEEN_MAX);
        assert!(
            timeout(WEIGH_PERIOD, wait_over_budget_while_watching(&world.cx, &member, &mut since))
                .await
                .is_ok()
        );
        let begun = Instant::now();
        evict(&world.cx, &member).await;
        assert_eq!(begun.elapsed(), EVICTED_PAUSE);
        assert_eq!((member.observed.weight(), member.observed.is_synced()), (0, false));
        let told = reason(&member);
        assert!(told.starts_with(REASON_PREFIX), "{told}");
        // How far it comes when it is listed again changes nothing of what is told.
        sees(&member, "a", SEEN_MAX * 3);
        assert!(
            timeout(WEIGH_PERIOD, wait_over_budget_while_watching(&world.cx, &member, &mut since))
                .await
                .is_ok()
        );
        evict(&world.cx, &member).await;
        assert_eq!(reason(&member), told);
        // What was too much may be in the list that comes last.
        member.set_acquisition_snapshot(AcquisitionSnapshot::new(
            GenerationSnapshot::default(),
            world.cx.objects.namespaces.progress(),
        ));
        member.observed.end_namespace_list();
        member.observed.end_quota_list();
        notify::mark_reachable_if_synced(&world.cx, &member);
        let watching = wait_over_budget_while_watching(&world.cx, &member, &mut since);
        pin_mut!(watching);
        assert!(timeout(WEIGH_PERIOD * 2, &mut watching).await.is_err());
        assert_eq!(reason(&member), told, "bindings are not listed yet");
        member.observed.end_binding_list();
        member.observed.templates.of(TemplateObjectKind::LimitRange).end_list();
        member.observed.templates.of(TemplateObjectKind::RoleBinding).end_list();
        member.observed.pulls.secrets.end_list();
        member.observed.pulls.accounts.end_list();
        let failure = |is_forbidden| ListFailure { text: "why".to_owned(), is_forbidden };
        let policies = member.observed.templates.of(TemplateObjectKind::NetworkPolicy);
        policies.list_failed(&failure(false));
        assert!(timeout(WEIGH_PERIOD * 2, &mut watching).await.is_err());
        assert_eq!(reason(&member), told, "they may come with the next try");
        policies.list_failed(&failure(true));
        assert!(timeout(WEIGH_PERIOD * 2, &mut watching).await.is_err());
        assert_eq!(member.reach(), Reach::Reachable, "what may not be listed takes nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_all_the_time_keeps_no_cluster_out() {
        let world = World::new();
        let (member, mut since) = (listed(&world, "c1"), None);
        member.set_acquisition_snapshot(AcquisitionSnapshot::new(
            GenerationSnapshot::default(),
            world.cx.objects.namespaces.progress(),
        ));
        evict(&world.cx, &member).await;
        member.observed.end_namespace_list();
        member.observed.end_quota_list();
        let unlisted = ListFailure { text: "500".to_owned(), is_forbidden: false };
        member.observed.binding_list_failed(&unlisted);
        for _ in 0..2 {
            // Its watches begin anew meanwhile.
            let watching = wait_over_budget_while_watching(&world.cx, &member, &mut since);
            assert!(timeout(PROBATION_MAX / 3, watching).await.is_err());
            assert!(matches!(member.reach(), Reach::Unreachable { .. }));
        }
        assert!(
            timeout(PROBATION_MAX / 2, wait_over_budget_while_watching(&world.cx, &member, &mut since))
                .await
                .is_err()
        );
        assert_eq!((member.reach(), member.is_evicted()), (Reach::Reachable, false));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_of_a_cluster_is_shown_while_it_is_followed() {
        let world = World::new();
        let member = listed(&world, "c1");
        let labels = ClusterLabels { cluster: "c1".to_owned() };
        sees(&member, "a", 5000);
        {
            let _guard = BudgetGuard::new(&world.cx, &member);
            assert!(timeout(WEIGH_PERIOD, wait_over_budget(&world.cx, &member)).await.is_err());
            let shown = world.cx.metrics.seen.get_or_create(&labels).get();
            assert_eq!(usize::try_from(shown), Ok(member.observed.weight()));
        }
        assert!(!world.cx.metrics.seen.remove(&labels), "it is shown no more");
        assert!(world.cx.members.memory_budget.is_empty());
    }
}
