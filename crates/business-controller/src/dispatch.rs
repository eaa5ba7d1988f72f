//! Takes objects from the queue and gives each a pass of its kind's controller; hands on to every controller what
//! concerns all.

use crate::context::Context;
use crate::controller::{Controller as _, PlaceChange};
use crate::controllers::every_controller;
use crate::error::Error;
use crate::objects::ObjectKey;
use crate::outcome::{self, PassOutcome, StateLabels};
use crate::watches;
use runtime::Tasks;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Passes at a time, all groups together.
const RUNNING_MAX: usize = 256;
/// How often to look whether our objects were listed.
const SYNC_PERIOD: Duration = Duration::from_millis(20);
/// A pass that takes longer than this hangs: no call takes so long.
const PASS_DEADLINE: Duration = Duration::from_mins(2);

macro_rules! dispatch {
    ($($variant:ident, $field:ident, $controller:path;)*) => {
        async fn reconcile(cx: &Context, key: &ObjectKey) -> Result<PassOutcome, Error> {
            match key {
                $(ObjectKey::$variant(key) => <$controller>::reconcile(cx, key).await,)*
            }
        }

        /// Follows the objects of all kinds.
        pub fn watch(cx: &Arc<Context>, tasks: &Tasks) {
            $(tasks.spawn(
                concat!("watch-", stringify!($field)),
                watches::follow::<$controller>(Arc::clone(cx)),
            );)*
        }

        /// Looks at every object once more, without a cause.
        pub fn look_at_all(cx: &Context) {
            $(<$controller>::look_at_all(cx);)*
        }

        /// A member cluster answers again, or no more.
        pub fn cluster_changed(cx: &Context, cluster: &str) {
            $(<$controller>::cluster_changed(cx, cluster);)*
        }

        /// Something at a place in a member cluster is another one than before.
        pub fn place_changed(cx: &Context, place: &PlaceChange<'_>) {
            $(<$controller>::place_changed(cx, place);)*
        }
    };
}
every_controller!(dispatch);

/// Works until it is told to end, and then ends what it has begun.
pub async fn run(cx: Arc<Context>, end: CancellationToken) {
    while !cx.objects.is_synced() {
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(SYNC_PERIOD) => {}
        }
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
            key = cx.queue.next(), if passes.len() < RUNNING_MAX => {
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

/// A pass that panics leaves its object locked in the queue: nothing goes on half alive.
fn is_sound(ended: &Result<(), tokio::task::JoinError>) -> bool {
    if let Err(error) = ended {
        tracing::error!(%error, "a pass has broken down");
    }
    ended.is_ok()
}

async fn pass(cx: Arc<Context>, key: ObjectKey) {
    let begun = Instant::now();
    let result = match tokio::time::timeout(PASS_DEADLINE, reconcile(&cx, &key)).await {
        Ok(result) => result,
        Err(_elapsed) => Err(Error::Unsettled),
    };
    cx.metrics.count(key.kind(), &result, begun.elapsed());
    log(&key, &result);
    cx.queue.done(&key, outcome::next(&result));
    let (waiting, running) = cx.queue.sizes();
    for (state, count) in [("waiting", waiting), ("running", running)] {
        cx.metrics.queue.get_or_create(&StateLabels { state }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

fn log(key: &ObjectKey, result: &Result<PassOutcome, Error>) {
    match result {
        Ok(outcome) => tracing::debug!(object.kind = key.kind(), object.name = %key, ?outcome, "pass"),
        // Somebody else wrote in between: the next pass sees it.
        Err(error) if error.is_conflict() => {
            tracing::debug!(object.kind = key.kind(), object.name = %key, error = error.text(), "pass");
        }
        Err(error) => {
            tracing::warn!(object.kind = key.kind(), object.name = %key, error = error.text(), "pass failed");
        }
    }
}
