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
/// A cluster that answers, but of whose lists nothing more is heard for this long, counts as unreachable, and its watches begin
/// anew.
const LIST_PATIENCE: Duration = Duration::from_secs(15);
/// The same, after it could not be listed again and again: a long page needs its time.
const LIST_PATIENCE_MAX: Duration = Duration::from_mins(4);
/// Figures of use are copied at most this often.
const FIGURES_PERIOD: Duration = Duration::from_secs(1);
/// Objects a page of a list.
const PAGE: u32 = 500;

/// How its first lists get on.
#[derive(Debug)]
struct Progress {
    /// The last error of a watch.
    error: Mutex<Option<String>>,
    /// When more of a list was heard than ever before.
    grown: Mutex<Instant>,
}

impl Progress {
    fn new() -> Self {
        Self { error: Mutex::default(), grown: Mutex::new(Instant::now()) }
    }

    fn has_grown(&self) {
        *self.grown.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn silence(&self) -> Duration {
        self.grown.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn failed(&self, text: String) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    fn last_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How far one list has come. One that breaks off at the same place again and again does not get on.
#[derive(Debug)]
struct ListProgress<'a> {
    of: &'a Progress,
    now: usize,
    most: usize,
}

impl<'a> ListProgress<'a> {
    fn new(of: &'a Progress) -> Self {
        Self { of, now: 0, most: 0 }
    }

    fn hear<K>(&mut self, event: &Result<Event<K>, watcher::Error>) {
        match event {
            Ok(Event::Init) => self.now = 0,
            Ok(Event::InitApply(_)) => {
                self.now = self.now.saturating_add(1);
                if self.now > self.most {
                    self.most = self.now;
                    self.of.has_grown();
                }
            }
            _ => {}
        }
    }
}

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
        let progress = Progress::new();
        switched = tokio::select! {
            () = watch_namespaces(cx, member, &progress) => false,
            () = watch_quotas(cx, member, &progress) => false,
            () = watch_bindings(cx, member) => false,
            () = template_watches::follow(cx, member) => false,
            () = pull_watches::follow(cx, member) => false,
            () = keep_probing(cx, member, &progress, patience) => false,
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

/// Asks again and again; returns when the cluster has not answered a few times, or its lists have not got on for so long.
async fn keep_probing(cx: &Context, member: &Member, progress: &Progress, patience: Duration) {
    let mut failures = 0_u32;
    loop {
        tokio::select! {
            () = member.suspect.notified() => {}
            () = tokio::time::sleep(if failures == 0 { PROBE_PERIOD } else { RETRY_FLOOR }) => {}
        }
        match probe(member).await {
            Ok(()) => {
                failures = 0;
                // It may have been listed before its share was taken over.
                synced(cx, member);
            }
            Err(reason) => {
                failures = failures.saturating_add(1);
                cx.members.doubted.notify_one();
                if failures >= FAILURES {
                    unreachable(cx, member, &reason);
                    return;
                }
            }
        }
        if !member.observed.is_synced() && progress.silence() > patience {
            let nothing = || format!("nothing more was heard for {} s", patience.as_secs());
            let reason = progress.last_error().unwrap_or_else(nothing);
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

async fn watch_namespaces(cx: &Context, member: &Member, progress: &Progress) {
    let api: Api<Namespace> = Api::all(member.api.client());
    let mut listed = ListProgress::new(progress);
    let stream = watch(api, selection()).default_backoff();
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        listed.hear(&event);
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
            Err(failure) => failed(member, progress, &failure),
        }
    }
}

async fn watch_quotas(cx: &Context, member: &Member, progress: &Progress) {
    let api: Api<ResourceQuota> = Api::all(member.api.client());
    let mut listed = ListProgress::new(progress);
    let stream = watch(api, selection()).default_backoff();
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        listed.hear(&event);
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
            Err(failure) => failed(member, progress, &failure),
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

fn failed(member: &Member, progress: &Progress, failure: &watcher::Error) {
    let text = crate::error::of_watch(failure);
    tracing::warn!(cluster = member.name, error = text, "watch of a member cluster failed");
    progress.failed(text);
    member.suspect.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::CLUSTER_UID;
    use crate::fixtures::world::World;
    use crate::shares::Share;
    use tokio::time::{advance, timeout};

    fn page(list: &mut ListProgress<'_>) {
        for _ in 0..PAGE {
            list.hear(&Ok(Event::InitApply(Namespace::default())));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_gets_on_is_waited_for_however_long_it_is() {
        let world = World::new();
        let share = world.cx.shares.post(Share::Clusters(0));
        let member = Member::new("c1", CLUSTER_UID, world.server.client(), share);
        let progress = Progress::new();
        let list = &mut ListProgress::new(&progress);
        let probing = keep_probing(&world.cx, &member, &progress, LIST_PATIENCE);
        pin_mut!(probing);
        for _ in 0..100 {
            assert!(timeout(LIST_PATIENCE / 2, &mut probing).await.is_err(), "{:?}", member.reach());
            page(list);
        }
        assert_eq!(member.reach(), Reach::Connecting);
        // It breaks off, and comes as far as before again and again.
        for _ in 0..2 {
            list.hear::<Namespace>(&Ok(Event::Init));
            advance(LIST_PATIENCE / 2).await;
            page(list);
        }
        assert!(timeout(LIST_PATIENCE, probing).await.is_ok());
        assert!(matches!(member.reach(), Reach::Unreachable { .. }));
    }
}
