//! Whether a member cluster answers, and its watches: for namespaces, quotas and bindings.

use super::observed::{Concern, ListEnd};
use super::others::OtherBinding;
use super::{ClusterBinding, ClusterNamespace, ClusterQuota, Member, Reach, pull_watches, template_watches};
use crate::context::Context;
use crate::controller::PlaceChange;
use crate::dispatch;
use crate::inventory::Inventory;
use crate::namespace::kind::BusinessNamespace;
use crate::queue::Lane;
use business_types::names;
use futures_util::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use runtime::Backoff;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often a cluster that answers is asked.
const PROBE_PERIOD: Duration = Duration::from_secs(5);
/// First wait after a failed probe.
const RETRY_FLOOR: Duration = Duration::from_millis(500);
/// Longest wait after a failed probe: what a cluster that is back may have to wait.
const RETRY_CEILING: Duration = Duration::from_secs(5);
/// Probes that must fail in a row until a cluster counts as unreachable.
const FAILURES: u32 = 3;
/// A cluster that answers but cannot be listed for this long counts as unreachable, and its watches begin anew.
const LIST_PATIENCE: Duration = Duration::from_secs(15);
/// The same, after it could not be listed again and again: a long list needs its time.
const LIST_PATIENCE_MAX: Duration = Duration::from_mins(4);
/// Figures of use are copied at most this often.
const FIGURES_PERIOD: Duration = Duration::from_secs(1);
/// Objects a page of a list.
const PAGE: u32 = 500;

/// The last error of a watch.
type LastError = Mutex<Option<String>>;

/// Follows one member cluster for as long as it is in the directory and in one of our shares.
pub async fn run(cx: Arc<Context>, member: Arc<Member>) {
    tokio::select! {
        () = follow(&cx, &member) => {}
        () = async { take_over(&cx, &member).await; std::future::pending::<()>().await } => {}
    }
}

/// Reads which namespaces it has now: what we see of them may be older than the beginning of our tenure.
pub(crate) async fn take_over(cx: &Context, member: &Member) {
    cx.objects.synced().await;
    let selector = format!("spec.clusterName={}", member.name);
    loop {
        match cx.business.roll::<BusinessNamespace>(&selector).await {
            Ok(roll) => {
                member.take_over(Inventory::new(roll, cx.objects.namespaces.age()));
                // One that has stopped answering meanwhile is listed anew first.
                if member.reach() == Reach::Connecting {
                    synced(cx, member);
                }
                return;
            }
            Err(failure) => {
                tracing::warn!(cluster = member.name, error = %failure, "cannot list the namespaces of a cluster");
                tokio::time::sleep(RETRY_FLOOR).await;
            }
        }
    }
}

async fn follow(cx: &Context, member: &Member) {
    let mut switched = false;
    let mut patience = LIST_PATIENCE;
    loop {
        // With other credentials it is listed anew, and what is seen of it holds meanwhile.
        if !switched {
            connect(cx, member).await;
            member.observed.reset();
        }
        let error = LastError::default();
        switched = tokio::select! {
            () = watch_namespaces(cx, member, &error) => false,
            () = watch_quotas(cx, member, &error) => false,
            () = watch_bindings(cx, member) => false,
            () = template_watches::follow(cx, member) => false,
            () = pull_watches::follow(cx, member) => false,
            () = keep_probing(cx, member, &error, patience) => false,
            () = member.switched.notified() => true,
        };
        let longer = (patience * 2).min(LIST_PATIENCE_MAX);
        patience = if member.observed.is_synced() { LIST_PATIENCE } else { longer };
    }
}

/// Asks until the cluster answers.
async fn connect(cx: &Context, member: &Member) {
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    let mut failures = 0_u32;
    while let Err(reason) = probe(member).await {
        failures = failures.saturating_add(1);
        if failures >= FAILURES {
            unreachable(cx, member, &reason);
        }
        tokio::select! {
            () = backoff.wait() => {}
            () = member.switched.notified() => {}
        }
    }
}

/// Asks again and again; returns when the cluster has not answered a few times, or was not listed for so long.
async fn keep_probing(cx: &Context, member: &Member, error: &LastError, patience: Duration) {
    let begun = Instant::now();
    let mut failures = 0_u32;
    loop {
        tokio::select! {
            () = member.suspect.notified() => {}
            () = tokio::time::sleep(if failures == 0 { PROBE_PERIOD } else { RETRY_FLOOR }) => {}
        }
        match probe(member).await {
            Ok(()) => failures = 0,
            Err(reason) => {
                failures = failures.saturating_add(1);
                cx.members.doubted.notify_one();
                if failures >= FAILURES {
                    unreachable(cx, member, &reason);
                    return;
                }
            }
        }
        if !member.observed.is_synced() && begun.elapsed() > patience {
            let last = error.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let reason = last.unwrap_or_else(|| format!("no end within {} s", patience.as_secs()));
            unreachable(cx, member, &format!("it cannot be listed: {reason}"));
            return;
        }
    }
}

async fn probe(member: &Member) -> Result<(), String> {
    member.is_the_one().await.map_err(|failure| failure.to_string())
}

fn unreachable(cx: &Context, member: &Member, reason: &str) {
    if matches!(member.reach(), Reach::Unreachable { .. }) {
        return;
    }
    let since = meta::time::rfc3339(cx.clock.unix_seconds());
    member.set_reach(Reach::Unreachable { since, reason: reason.to_owned() });
    tracing::warn!(cluster = member.name, reason, "member cluster unreachable");
    dispatch::cluster_changed(cx, &member.name);
}

/// Everything was listed: what is seen of the cluster can be acted on.
fn synced(cx: &Context, member: &Member) {
    if member.observed.is_synced() && member.is_taken_over() && member.set_reach(Reach::Reachable) {
        tracing::info!(cluster = member.name, "member cluster reachable");
        dispatch::cluster_changed(cx, &member.name);
    }
}

fn selection() -> watcher::Config {
    watcher::Config::default().labels(names::NAMESPACE_LABEL).page_size(PAGE)
}

async fn watch_namespaces(cx: &Context, member: &Member, error: &LastError) {
    let api: Api<Namespace> = Api::all(member.api.client());
    let stream = watch(api, selection()).default_backoff();
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => member.observed.namespaces_begin(),
            Ok(Event::InitDone) => {
                are_gone(cx, member, member.observed.namespaces_end());
                synced(cx, member);
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let object = ClusterNamespace::from(object);
                let name = object.name.clone();
                if member.observed.namespace(object, true) {
                    changed(cx, member, &name, Lane::Urgent, Duration::ZERO);
                }
            }
            Ok(Event::Delete(object)) => {
                let object = ClusterNamespace::from(object);
                member.observed.namespace_gone(&object);
                changed(cx, member, &object.name, Lane::Urgent, Duration::ZERO);
            }
            Err(failure) => failed(member, error, &failure),
        }
    }
}

async fn watch_quotas(cx: &Context, member: &Member, error: &LastError) {
    let api: Api<ResourceQuota> = Api::all(member.api.client());
    let stream = watch(api, selection()).default_backoff();
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => member.observed.quotas_begin(),
            Ok(Event::InitDone) => {
                are_gone(cx, member, member.observed.quotas_end());
                synced(cx, member);
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let Some(namespace) = place(&object) else { continue };
                let concern = member.observed.quota(&namespace, ClusterQuota::from(object), true);
                match concern {
                    Concern::Nothing => {}
                    Concern::Figures => changed(cx, member, &namespace, Lane::Later, FIGURES_PERIOD),
                    Concern::State => changed(cx, member, &namespace, Lane::Later, Duration::ZERO),
                }
            }
            Ok(Event::Delete(object)) => {
                let Some(namespace) = place(&object) else { continue };
                member.observed.quota_gone(&namespace, &ClusterQuota::from(object));
                changed(cx, member, &namespace, Lane::Urgent, Duration::ZERO);
            }
            Err(failure) => failed(member, error, &failure),
        }
    }
}

/// Whether they can be listed says nothing of the cluster: the right to see them came later than the others.
async fn watch_bindings(cx: &Context, member: &Member) {
    let api: Api<RoleBinding> = Api::all(member.api.client());
    // With those that have no mark of ours: somebody may have a role by them.
    let stream = watch(api, watcher::Config::default().page_size(PAGE)).default_backoff();
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => member.observed.bindings_begin(),
            Ok(Event::InitDone) => ended(cx, member, member.observed.bindings_end()),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let Some(namespace) = object.metadata.namespace.clone() else { continue };
                other_binding(cx, member, &namespace, &object, OtherBinding::of(&object));
                let Some(binding) = ClusterBinding::of(object) else { continue };
                if member.observed.binding(&namespace, binding, true) {
                    changed(cx, member, &namespace, Lane::Urgent, Duration::ZERO);
                }
            }
            Ok(Event::Delete(object)) => {
                let Some(namespace) = object.metadata.namespace.clone() else { continue };
                other_binding(cx, member, &namespace, &object, None);
                let Some(binding) = ClusterBinding::of(object) else { continue };
                member.observed.binding_gone(&namespace, &binding);
                changed(cx, member, &namespace, Lane::Urgent, Duration::ZERO);
            }
            Err(failure) => {
                let text = crate::error::of_watch(&failure);
                tracing::warn!(
                    cluster = member.name,
                    error = text,
                    "watch of a member cluster's bindings failed"
                );
                if member.observed.bindings_failed(&text) {
                    dispatch::cluster_changed(cx, &member.name);
                }
            }
        }
    }
}

fn other_binding(
    cx: &Context,
    member: &Member,
    namespace: &str,
    object: &RoleBinding,
    binding: Option<OtherBinding>,
) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    if member.observed.other_binding(namespace, name, binding) {
        changed(cx, member, namespace, Lane::Later, FIGURES_PERIOD);
    }
}

/// The namespace of a quota of ours: one that is named like it.
fn place(quota: &ResourceQuota) -> Option<String> {
    let metadata = &quota.metadata;
    metadata.namespace.clone().filter(|namespace| metadata.name.as_ref() == Some(namespace))
}

/// A list has ended of what nothing has waited for: the first one says what is there, and of later ones what is gone is news.
pub(super) fn ended(cx: &Context, member: &Member, end: ListEnd) {
    if end.is_first {
        dispatch::cluster_changed(cx, &member.name);
    } else {
        are_gone(cx, member, end);
    }
}

fn are_gone(cx: &Context, member: &Member, end: ListEnd) {
    for gone in end.gone {
        changed(cx, member, &gone, Lane::Urgent, Duration::ZERO);
    }
}

fn changed(cx: &Context, member: &Member, namespace: &str, lane: Lane, delay: Duration) {
    dispatch::place_changed(cx, &PlaceChange { cluster: &member.name, namespace, lane, delay });
}

fn failed(member: &Member, error: &LastError, failure: &watcher::Error) {
    let text = crate::error::of_watch(failure);
    tracing::warn!(cluster = member.name, error = text, "watch of a member cluster failed");
    *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    member.suspect.notify_one();
}
