//! Notes changes of a member cluster, and wakes the objects that depend on it.

use super::watch_store::ListEnd;
use super::{Member, Reach};
use crate::context::Context;
use crate::controller::MemberNamespaceChange;
use crate::dispatch;
use crate::queue::Lane;
use std::time::Duration;

pub(super) fn mark_unreachable(cx: &Context, member: &Member, reason: &str) {
    let since = match member.reach() {
        // The cluster stays unreachable. Only an evicted cluster gets a new reason.
        Reach::Unreachable { reason: before, .. } if before == reason || !member.is_evicted() => return,
        Reach::Unreachable { since, .. } => since,
        Reach::Connecting | Reach::Reachable => meta::time::rfc3339(cx.clock.unix_seconds()),
    };
    member.set_reach(Reach::Unreachable { since, reason: reason.to_owned() });
    tracing::warn!(cluster = member.name, reason, "member cluster unreachable");
    dispatch::cluster_changed(cx, &member.name);
}

/// Marks the cluster reachable if its namespaces and quotas were listed, it is not evicted, and the snapshot of the
/// share's acquisition is there.
pub(super) fn mark_reachable_if_synced(cx: &Context, member: &Member) {
    let may_be = member.observed.is_synced() && member.has_acquisition_snapshot() && !member.is_evicted();
    if may_be && member.set_reach(Reach::Reachable) {
        tracing::info!(cluster = member.name, "member cluster reachable");
        dispatch::cluster_changed(cx, &member.name);
    }
}

/// A list of optional objects has ended: the first one wakes all objects of the cluster, later ones those whose objects
/// were removed.
pub(super) fn list_ended(cx: &Context, member: &Member, end: ListEnd) {
    if end.is_first {
        dispatch::cluster_changed(cx, &member.name);
    } else {
        wake_namespaces_of_deleted(cx, member, end);
    }
}

pub(super) fn wake_namespaces_of_deleted(cx: &Context, member: &Member, end: ListEnd) {
    for gone in end.gone {
        wake_namespace(cx, member, &gone, Lane::Urgent, Duration::ZERO);
    }
}

pub(super) fn wake_namespace(cx: &Context, member: &Member, namespace: &str, lane: Lane, delay: Duration) {
    dispatch::member_namespace_changed(
        cx,
        &MemberNamespaceChange { cluster: &member.name, namespace, lane, delay },
    );
}
