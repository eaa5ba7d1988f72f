//! Takes objects from the queue and calls the reconciler of their kind; passes events that concern all kinds on to
//! every controller.

use crate::context::Context;
use crate::controller::{Controller as _, MemberNamespaceChange};
use crate::controllers::every_controller;
use crate::error::Error;
use crate::kinds::ObjectKey as _;
use crate::metrics::StateLabels;
use crate::objects::ObjectRef;
use crate::objects::RegisteredKind;
use crate::outcome::{self, PassOutcome};
use crate::queue::Requeue;
use crate::shares::Share;
use crate::watches;
use business_types::names;
use runtime::Tasks;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// When to try an object again whose cached version is too old.
const SOON: Duration = Duration::from_secs(1);
/// Between two tries to list our objects.
const RETRY_PERIOD: Duration = Duration::from_millis(500);
/// A pass that takes longer hangs: no call takes so long.
const PASS_DEADLINE: Duration = Duration::from_mins(2);

macro_rules! dispatch {
    ($($variant:ident, $field:ident, $controller:path;)*) => {
        async fn reconcile(cx: &Context, key: &ObjectRef) -> Result<PassOutcome, Error> {
            match key {
                $(ObjectRef::$variant(key) => {
                    if !<$controller>::cache(&cx.objects).is_up_to_date(key) {
                        return Ok(PassOutcome::NotBegun(SOON));
                    }
                    <$controller>::reconcile(cx, key).await
                })*
            }
        }

        /// Starts the watches of all kinds.
        pub fn watch(cx: &Arc<Context>, tasks: &Tasks) {
            $(tasks.spawn(
                concat!("watch-", stringify!($field)),
                watches::follow::<$controller>(Arc::clone(cx)),
            );)*
        }

        /// Enqueues every object of every kind.
        pub fn resync(cx: &Context) {
            $(<$controller>::resync(cx);)*
        }

        /// A member cluster has become reachable or unreachable, or its share has changed hands.
        pub fn cluster_changed(cx: &Context, cluster: &str) {
            $(<$controller>::cluster_changed(cx, cluster);)*
        }

        /// Lists the objects of all kinds that belong to the fleet, when its share is acquired.
        pub async fn load_acquisition_snapshots(cx: &Context) {
            $(load_acquisition_snapshot::<$controller>(cx).await;)*
        }

        /// Something in a namespace of a member cluster has changed.
        pub fn member_namespace_changed(cx: &Context, place: &MemberNamespaceChange<'_>) {
            $(<$controller>::member_namespace_changed(cx, place);)*
        }
    };
}
every_controller!(dispatch);

/// Enqueues every object of a share that was just acquired.
pub fn share_changed(cx: &Context, share: Share) {
    if share == Share::Fleet {
        resync(cx);
        return;
    }
    let objects = cx.objects.member_clusters.all();
    let mut clusters: BTreeSet<String> = objects.iter().map(|object| object.key.name().to_owned()).collect();
    clusters.extend(cx.objects.namespaces.clusters());
    for cluster in clusters.iter().filter(|cluster| cx.share_of(cluster) == share) {
        cluster_changed(cx, cluster);
    }
}

/// Lists the objects of a kind, to detect cached objects that a former holder has already finished. Namespaces are
/// listed for each cluster separately.
async fn load_acquisition_snapshot<C: RegisteredKind>(cx: &Context) {
    if C::KIND == names::NAMESPACE_KIND {
        return;
    }
    loop {
        match cx.business.generation_snapshot::<C>(None).await {
            Ok(snapshot) => return C::cache(&cx.objects).set_acquisition_snapshot(snapshot),
            Err(failure) => {
                tracing::warn!(object.kind = C::KIND, error = %failure, "cannot list our objects");
                tokio::time::sleep(RETRY_PERIOD).await;
            }
        }
    }
}

/// Reconciles until it is cancelled, and then waits for the passes that have begun.
pub async fn run(cx: Arc<Context>, end: CancellationToken) {
    tokio::select! {
        () = end.cancelled() => return,
        () = cx.objects.synced() => {}
    }
    tracing::info!("our objects were listed: reconciling");
    let mut passes = JoinSet::new();
    loop {
        tokio::select! {
            () = end.cancelled() => break,
            Some(ended) = passes.join_next() => {
                if !is_sound(&ended) {
                    return;
                }
            }
            key = cx.queue.next() => {
                passes.spawn(pass(Arc::clone(&cx), key));
            }
        }
    }
    while let Some(ended) = passes.join_next().await {
        if !is_sound(&ended) {
            return;
        }
    }
}

/// Whether a pass has ended without a panic. After a panic its object stays locked in the queue, so the program ends.
fn is_sound(ended: &Result<(), tokio::task::JoinError>) -> bool {
    if let Err(error) = ended {
        tracing::error!(%error, "a pass has broken down");
    }
    ended.is_ok()
}

async fn pass(cx: Arc<Context>, key: ObjectRef) {
    // Another replica has its share.
    let Some(guard) = cx.share_of_object(&key).and_then(|share| cx.shares.enter(share)) else {
        cx.queue.done(&key, Requeue::Never);
        show_queue(&cx);
        return;
    };
    let begun = Instant::now();
    // When the share is drained, a write that is in flight has time to be answered; the rest of the pass is dropped.
    let wait_for_drain = async {
        guard.wait_for_drain().await;
        tokio::time::sleep(cx.fleet().write_deadline()).await;
    };
    let result = tokio::select! {
        ended = tokio::time::timeout(PASS_DEADLINE, reconcile(&cx, &key)) => {
            ended.unwrap_or(Err(Error::Unsettled))
        }
        () = wait_for_drain => Err(Error::NotLeading),
    };
    cx.metrics.count(key.kind(), &result, begun.elapsed());
    log(&key, &result);
    cx.queue.done(&key, outcome::requeue(&result));
    show_queue(&cx);
}

fn show_queue(cx: &Context) {
    let (waiting, running) = cx.queue.sizes();
    for (state, count) in [("waiting", waiting), ("running", running)] {
        cx.metrics.queue.get_or_create(&StateLabels { state }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

fn log(key: &ObjectRef, result: &Result<PassOutcome, Error>) {
    match result {
        Ok(outcome) => tracing::debug!(object.kind = key.kind(), object.name = %key, ?outcome, "pass"),
        // Somebody else has changed the object: the next pass sees it.
        Err(error) if error.is_conflict() => {
            tracing::debug!(object.kind = key.kind(), object.name = %key, error = error.text(), "pass");
        }
        Err(error) => {
            tracing::warn!(object.kind = key.kind(), object.name = %key, error = error.text(), "pass failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pending;
    use crate::fixtures::server::{Link, Passage};
    use crate::fixtures::world::{NAMESPACE, QUOTA, World, times};
    use crate::kinds::ProjectKey;

    #[tokio::test(start_paused = true)]
    async fn a_pass_does_not_keep_its_share_for_longer_than_a_write_takes() {
        let (world, link, deadline) = (World::new(), Link::default(), times().write_deadline);
        world.lists_all();
        world.holds(&pending(&[("pods", "3")]));
        // Each call takes four seconds, and a pass makes several.
        link.is(Passage::Slow(Duration::from_secs(2)));
        world.member.set_client(world.server.client_over(&link));
        let state = Arc::clone(world.cx.shares.state(Share::Clusters(0)));
        let key = ObjectRef::Namespace(ProjectKey::new(Some("p"), "n"));
        let at_work = tokio::spawn(pass(Arc::clone(&world.cx), key));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!state.is_idle());
        state.begin_drain();
        let told = Instant::now();
        at_work.await.unwrap();
        assert!(told.elapsed() <= deadline + Duration::from_millis(10), "{:?}", told.elapsed());
        assert!(world.server.find(NAMESPACE).is_some(), "what was being written was waited for");
        assert!(state.is_idle() && !state.fence.may_release(), "the quota may be written still");
        tokio::time::sleep(deadline).await;
        assert!(world.server.find(QUOTA).is_some() && state.fence.may_release());
    }
}
