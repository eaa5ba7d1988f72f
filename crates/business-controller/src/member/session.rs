//! Whether a member cluster answers, and its watches: for namespaces, quotas and bindings.

use super::news::{are_gone, changed, ended, synced, unreachable};
use super::observed::Concern;
use super::others::OtherBinding;
use super::progress::{ListProgress, Obstacle, Progress};
use super::{
    ClusterBinding, ClusterNamespace, ClusterQuota, Member, Reach, pages, pull_watches, template_watches,
    weighing,
};
use crate::acquisition::AcquisitionSnapshot;
use crate::context::Context;
use crate::dispatch;
use crate::error::{ListFailure, of_watch};
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
/// Bindings of a project with many people are large.
const BINDINGS_PAGE: u32 = 50;

const UNWATCHED: Topic = Topic::warning("WatchFails", "Watch");

/// Why a cluster is listed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anew {
    /// It was not seen to answer: what was seen of it before counts no more.
    Lost,
    /// It is reached by other credentials. What is seen of it holds until it was listed, as it does below.
    Switched,
    /// Its revisions went back: it was restored, and its watches wait for what comes after a past that is no more.
    WentBack,
    /// It cannot be watched.
    Unwatched,
    /// More is seen of all clusters than is kept, and this one has to go.
    TooLarge,
}

/// Follows one member cluster for as long as it is in the directory and in one of our shares.
pub async fn run(cx: Arc<Context>, member: Arc<Member>) {
    let _weighed = weighing::Weighed::new(&cx, &member);
    tokio::select! {
        () = follow(&cx, &member) => {}
        () = async { load_acquisition_snapshot(&cx, &member).await; std::future::pending::<()>().await } => {}
    }
}

/// Reads which namespaces it has now: what we see of them may be older than the beginning of our tenure.
pub(crate) async fn load_acquisition_snapshot(cx: &Context, member: &Member) {
    cx.objects.synced().await;
    let selector = format!("spec.clusterName={}", member.name);
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    loop {
        match cx.business.generation_snapshot::<BusinessNamespace>(&selector).await {
            Ok(snapshot) => {
                member.set_acquisition_snapshot(AcquisitionSnapshot::new(
                    snapshot,
                    cx.objects.namespaces.progress(),
                ));
                // One that has stopped answering meanwhile is listed anew first.
                if member.reach() == Reach::Connecting {
                    synced(cx, member);
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
    let mut anew = Anew::Lost;
    let (mut patience, mut listed_since) = (LIST_PATIENCE, None);
    loop {
        if anew == Anew::TooLarge {
            weighing::set_aside(cx, member).await;
        }
        match anew {
            // Another cluster may answer by now in the place of one that was left alone.
            Anew::Lost | Anew::TooLarge => {
                tokio::select! {
                    () = connect(cx, member) => {}
                    // What was seen of it is kept for as long as it does not answer.
                    () = weighing::exceeded(cx, member) => {
                        anew = Anew::TooLarge;
                        continue;
                    }
                }
                member.api.begin_era();
                member.observed.reset();
                listed_since = None;
            }
            Anew::WentBack => member.api.begin_era(),
            // The one has begun an era, and the other has the history that it had.
            Anew::Switched | Anew::Unwatched => {}
        }
        let progress = Progress::new();
        anew = tokio::select! {
            () = watch_namespaces(cx, member, &progress) => Anew::Lost,
            () = watch_quotas(cx, member, &progress) => Anew::Lost,
            () = watch_bindings(cx, member, &progress) => Anew::Lost,
            () = template_watches::follow(cx, member, &progress) => Anew::Lost,
            () = pull_watches::follow(cx, member, &progress) => Anew::Lost,
            why = keep_probing(cx, member, &progress, patience) => why,
            () = member.switched.notified() => Anew::Switched,
            () = weighing::exceeded_by_lists(cx, member, &mut listed_since) => Anew::TooLarge,
        };
        let longer = (patience * 2).min(LIST_PATIENCE_MAX);
        let is_followed = member.observed.is_synced() && anew != Anew::Unwatched;
        patience = if is_followed { LIST_PATIENCE } else { longer };
    }
}

/// Asks until the cluster answers.
async fn connect(cx: &Context, member: &Member) {
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    let mut failures = 0_u32;
    while let Err(failure) = member.probe().await {
        failures = failures.saturating_add(1);
        if failures >= FAILURES {
            unreachable(cx, member, &failure.to_string());
        }
        tokio::select! {
            () = backoff.wait() => {}
            () = member.switched.notified() => {}
        }
    }
}

/// Asks again and again; returns when the cluster has not answered a few times, when its history went back, or when its lists or
/// watches have not got on for so long.
async fn keep_probing(cx: &Context, member: &Member, progress: &Progress, patience: Duration) -> Anew {
    let (mut failures, mut told) = (0_u32, 0);
    loop {
        tokio::select! {
            () = member.suspect.notified() => {}
            () = tokio::time::sleep(if failures == 0 { PROBE_PERIOD } else { RETRY_FLOOR }) => {}
        }
        // In one history no answer is older than what was known before the question was sent.
        let known = member.observed.highest_of_namespaces().max(told);
        match member.probe().await {
            Ok(revision) if revision > 0 && revision < known => {
                tracing::warn!(
                    cluster = member.name,
                    revision,
                    known,
                    "the history of a member cluster went back: it is listed anew"
                );
                return Anew::WentBack;
            }
            Ok(revision) => {
                (failures, told) = (0, told.max(revision));
                // It may have been listed before its share was taken over.
                synced(cx, member);
                // Who has left meanwhile stays in until somebody looks.
                if member.observed.bindings_became_late() {
                    dispatch::cluster_changed(cx, &member.name);
                }
            }
            Err(failure) => {
                failures = failures.saturating_add(1);
                cx.members.doubted.notify_one();
                if failures >= FAILURES {
                    unreachable(cx, member, &failure.to_string());
                    return Anew::Lost;
                }
            }
        }
        if let Some(anew) = hindered(cx, member, progress, patience) {
            return anew;
        }
    }
}

/// Whether its lists or watches have not got on for so long, although it answers.
fn hindered(cx: &Context, member: &Member, progress: &Progress, patience: Duration) -> Option<Anew> {
    if !member.observed.is_synced() {
        if progress.silence() <= patience {
            return None;
        }
        let nothing = || format!("nothing more was heard for {} s", patience.as_secs());
        let reason = progress.last_error().unwrap_or_else(nothing);
        unreachable(cx, member, &format!("it cannot be listed: {reason}"));
        return Some(Anew::Lost);
    }
    match progress.obstacle(patience)? {
        Obstacle::Unlisted(reason) => {
            unreachable(cx, member, &format!("it cannot be listed: {reason}"));
            Some(Anew::Lost)
        }
        // What is listed again and again is seen late, which is more than not at all.
        Obstacle::Unwatched(reason) => {
            tracing::warn!(
                cluster = member.name,
                error = reason,
                "a member cluster cannot be watched: it is listed anew"
            );
            let note = format!("it cannot be watched, and is listed again and again: {reason}");
            cx.events.report_cluster(&member.name, UNWATCHED, note);
            Some(Anew::Unwatched)
        }
    }
}

fn selection() -> watcher::Config {
    watcher::Config::default().labels(names::NAMESPACE_LABEL)
}

async fn watch_namespaces(cx: &Context, member: &Member, progress: &Progress) {
    let api: Api<Namespace> = Api::all(member.api.client());
    let mut listed = ListProgress::new(progress);
    let mut stream = pages::follow(&member.name, api, selection(), PAGE);
    while let Some(event) = stream.next().await {
        listed.hear(&event);
        progress.hear("namespaces", &event);
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
    let mut stream = pages::follow(&member.name, api, selection(), PAGE);
    while let Some(event) = stream.next().await {
        listed.hear(&event);
        progress.hear("resourcequotas", &event);
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
async fn watch_bindings(cx: &Context, member: &Member, progress: &Progress) {
    let api: Api<RoleBinding> = Api::all(member.api.client());
    // With those that have no mark of ours: somebody may have a role by them.
    let mut stream = pages::follow(&member.name, api, watcher::Config::default(), BINDINGS_PAGE);
    while let Some(event) = stream.next().await {
        progress.hear("all rolebindings", &event);
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
                let failure = ListFailure::from(&failure);
                tracing::warn!(
                    cluster = member.name,
                    error = failure.text,
                    "watch of a member cluster's bindings failed"
                );
                if member.observed.bindings_failed(&failure) {
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

fn failed(member: &Member, progress: &Progress, failure: &watcher::Error) {
    let text = of_watch(failure);
    tracing::warn!(cluster = member.name, error = text, "watch of a member cluster failed");
    progress.failed(text);
    member.suspect.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::world::{SEEN_MAX, World};
    use crate::fixtures::{CLUSTER_UID, pending};
    use crate::member::counting::RECOUNT;
    use crate::member::progress::{LIST_MAX, NEEDED};
    use crate::shares::Share;
    use futures_util::pin_mut;
    use kube::core::Status;
    use tokio::time::{advance, timeout};

    fn member(world: &World) -> Arc<Member> {
        let share = world.cx.shares.post(Share::Clusters(0));
        Member::new("c1", CLUSTER_UID, world.server.client(), share, RECOUNT)
    }

    /// One that was listed, and answers.
    fn listed(world: &World) -> Arc<Member> {
        let member = member(world);
        member.observed.namespaces_end();
        member.observed.quotas_end();
        member.set_reach(Reach::Reachable);
        member
    }

    fn forbidden() -> kube::Error {
        kube::Error::Api(Status::failure("not allowed", "Forbidden").with_code(403).boxed())
    }

    fn no_watch() -> watcher::Result<Event<Namespace>> {
        Err(watcher::Error::WatchStartFailed(forbidden()))
    }

    fn page(list: &mut ListProgress<'_>) {
        for _ in 0..PAGE {
            list.hear(&Ok(Event::InitApply(Namespace::default())));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_gets_on_is_waited_for_however_long_it_is() {
        let world = World::new();
        let member = member(&world);
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

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_first_list_of_bindings_is_woken_when_it_takes_long() {
        let world = World::new();
        world.holds(&pending(&[("pods", "3")]));
        let (member, progress) = (listed(&world), Progress::new());
        member.observed.bindings_begin();
        world.woken();
        let probing = keep_probing(&world.cx, &member, &progress, LIST_PATIENCE);
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
        let progress = Progress::new();
        let list = &mut ListProgress::new(&progress);
        let probing = keep_probing(&world.cx, &member, &progress, LIST_PATIENCE);
        pin_mut!(probing);
        while list.now <= LIST_MAX {
            page(list);
        }
        for _ in 0..2 {
            assert!(timeout(LIST_PATIENCE / 2, &mut probing).await.is_err(), "it may end");
            page(list);
        }
        assert_eq!(timeout(LIST_PATIENCE / 2, probing).await, Ok(Anew::Lost));
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
        member.observed.namespace(large, true);
        world.server.is_cluster("another");
        assert!(timeout(Duration::from_mins(2), &mut following).await.is_err());
        let Reach::Unreachable { reason, .. } = member.reach() else { panic!("{:?}", member.reach()) };
        assert!(member.is_set_aside() && reason.contains("another cluster answers"), "{reason}");
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
        member.observed.namespace(large, true);
        assert!(timeout(PROBE_PERIOD, Box::pin(follow(&world.cx, &member))).await.is_err());
        assert!(member.is_set_aside());
        assert_eq!(member.observed.weight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_history_that_went_back_is_noticed_although_every_probe_is_good() {
        let world = World::new();
        let (member, progress) = (listed(&world), Progress::new());
        world.server.comes_to(5000);
        let probing = keep_probing(&world.cx, &member, &progress, LIST_PATIENCE);
        pin_mut!(probing);
        assert!(timeout(PROBE_PERIOD * 3, &mut probing).await.is_err(), "it goes on");
        world.server.comes_to(900);
        assert_eq!(timeout(PROBE_PERIOD * 2, probing).await, Ok(Anew::WentBack));
        assert_eq!(member.reach(), Reach::Reachable, "it answers");
        // It went back before anybody asked: what was seen says so.
        let seen = ClusterNamespace { resource_version: "5000".into(), ..ClusterNamespace::default() };
        member.observed.namespace(seen, true);
        let probing = keep_probing(&world.cx, &member, &progress, LIST_PATIENCE);
        assert_eq!(timeout(PROBE_PERIOD * 2, probing).await, Ok(Anew::WentBack));
        member.observed.namespaces_begin();
        let probing = keep_probing(&world.cx, &member, &progress, LIST_PATIENCE);
        assert!(timeout(PROBE_PERIOD * 2, probing).await.is_err(), "it is listed anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_cannot_be_watched_is_listed_anew_and_stays_reachable() {
        let world = World::new();
        let (member, progress) = (listed(&world), Progress::new());
        let probing = keep_probing(&world.cx, &member, &progress, LIST_PATIENCE);
        pin_mut!(probing);
        for _ in 0..3 {
            progress.hear("namespaces", &no_watch());
            assert!(timeout(LIST_PATIENCE / 2, &mut probing).await.is_err(), "it may be over soon");
            progress.hear("resourcequotas", &Ok(Event::Apply(ResourceQuota::default())));
            progress.hear("namespaces", &Ok(Event::Apply(Namespace::default())));
        }
        for _ in 0..3 {
            progress.hear("namespaces", &no_watch());
            advance(LIST_PATIENCE).await;
            // Others say nothing of this one.
            progress.hear("resourcequotas", &Ok(Event::Apply(ResourceQuota::default())));
        }
        assert_eq!(timeout(PROBE_PERIOD * 2, probing).await, Ok(Anew::Unwatched));
        assert_eq!(member.reach(), Reach::Reachable);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_was_listed_and_cannot_be_any_more_is_unreachable() {
        let world = World::new();
        let (member, progress) = (listed(&world), Progress::new());
        let no_list = || Err::<Event<Namespace>, _>(watcher::Error::InitialListFailed(forbidden()));
        for what in ["all rolebindings", "resourcequotas"] {
            for _ in 0..3 {
                progress.hear::<Namespace>(what, &Ok(Event::Init));
                progress.hear(what, &no_list());
                advance(LIST_PATIENCE).await;
            }
            let ended = timeout(PROBE_PERIOD * 2, keep_probing(&world.cx, &member, &progress, LIST_PATIENCE));
            let expected = NEEDED.contains(&what).then_some(Anew::Lost);
            assert_eq!(ended.await.ok(), expected, "{what}");
        }
        assert!(matches!(member.reach(), Reach::Unreachable { .. }));
    }
}
