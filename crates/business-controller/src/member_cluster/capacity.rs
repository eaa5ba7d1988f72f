//! Keeps what may be granted of member clusters as their nodes have it, where operators want it derived from them.

use super::kind::MemberClusterView;
use super::nodes;
use super::wake_cluster;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::kinds::{ChangeSource, ObjectKey as _};
use crate::member::{Member, Reach};
use crate::members::Lookup;
use crate::merge::difference;
use crate::namespace::kind::NamespaceView;
use crate::queue::Lane;
use business_types::Provenance;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use meta::quantity::{Quantity, ResourceList};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Between two looks, which is about the time between two writes for a cluster.
const PERIOD: Duration = Duration::from_secs(30);
/// Clusters that are read at once.
const AT_ONCE: usize = 4;
/// One that takes longer goes on beside those: it keeps no other waiting.
const PATIENCE: Duration = Duration::from_secs(5);
/// Reading one takes no longer.
const DEADLINE: Duration = Duration::from_mins(2);
/// After a look a cluster is left alone for so many times as long as it took, if that is more than until the next.
const RESTS: u32 = 2;
/// A rise by less than one part of so many is not worth a write. Every fall is.
const RISE_PARTS: i128 = 100;

/// Looks again and again.
#[derive(Debug)]
pub struct Capacities {
    pub cx: Arc<Context>,
}

impl Capacities {
    /// Looks for as long as this process lives. A cluster that is still being read, or rests, is not read once more.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn run(self) {
        // Until our namespaces are known, their pods are not told from others.
        self.cx.objects.synced().await;
        let mut readings = Readings::new(&self.cx);
        loop {
            readings.begin();
            let next = Instant::now() + PERIOD;
            let _all_ended = timeout_at(next, readings.end()).await;
            sleep_until(next).await;
        }
    }
}

/// Looks at every cluster of which something is derived.
#[cfg(test)]
pub(crate) async fn look(cx: &Context) {
    let mut readings = Readings::new(cx);
    readings.begin();
    readings.end().await;
}

/// Clusters that are being read.
struct Readings<'a> {
    cx: &'a Context,
    slots: Arc<Semaphore>,
    names: BTreeSet<String>,
    under_way: FuturesUnordered<BoxFuture<'a, (String, Duration)>>,
    /// Until when.
    rests: BTreeMap<String, Instant>,
}

impl<'a> Readings<'a> {
    fn new(cx: &'a Context) -> Self {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let (names, rests) = (BTreeSet::new(), BTreeMap::new());
        Self { cx, slots, names, under_way: FuturesUnordered::new(), rests }
    }

    /// Begins with every cluster that is not being read, and does not rest.
    fn begin(&mut self) {
        let now = Instant::now();
        self.rests.retain(|_, until| *until > now);
        for object in self.cx.objects.member_clusters.all() {
            let name = object.key.name();
            if !self.rests.contains_key(name) && self.names.insert(name.to_owned()) {
                self.under_way.push(read(self.cx, Arc::clone(&self.slots), object).boxed());
            }
        }
    }

    /// Goes on until all have ended.
    async fn end(&mut self) {
        while let Some((name, took)) = self.under_way.next().await {
            self.names.remove(&name);
            self.rests.insert(name, Instant::now() + took.saturating_mul(RESTS));
        }
    }
}

/// Reads a cluster as soon as there is a slot, and says which one it was, and how long it took.
async fn read(cx: &Context, slots: Arc<Semaphore>, object: Arc<MemberClusterView>) -> (String, Duration) {
    let name = object.key.name().to_owned();
    let slot = slots.acquire_owned().await;
    let begun = Instant::now();
    // Somebody else looks at those of other shares.
    let mut looked = std::pin::pin!(cx.shares.run_in(cx.share_of(&name), look_at(cx, object)));
    if timeout(PATIENCE, &mut looked).await.is_err() {
        drop(slot);
        let _looked = looked.await;
    }
    (name, begun.elapsed())
}

async fn look_at(cx: &Context, object: Arc<MemberClusterView>) {
    let (name, memory) = (object.key.name(), &cx.objects.member_clusters.memory);
    if object.is_deleting() {
        return;
    }
    let seen = if object.spec.derived.is_empty() {
        None
    } else {
        let seen = timeout(DEADLINE, derive(cx, &object)).await;
        let seen = seen.unwrap_or_else(|_elapsed| Err(Error::Member(CallFailure::deadline(DEADLINE))));
        if let Err(error) = &seen {
            tracing::warn!(
                cluster = name,
                error = error.text(),
                "what may be granted of the cluster cannot be derived"
            );
        }
        Some(seen.map_err(|error| error.text()))
    };
    if memory.set_nodes(name, seen.as_ref()) {
        wake_cluster(cx, name, Lane::Later);
    }
}

/// Reads the nodes and writes what follows from them; what nodes have for pods.
async fn derive(cx: &Context, object: &MemberClusterView) -> Result<ResourceList, Error> {
    let member = match cx.member(object.key.name()) {
        Lookup::Found(member) if member.reach() == Reach::Reachable => member,
        _ => return Err(Error::Member(CallFailure::Unavailable("the cluster does not answer".to_owned()))),
    };
    let ours = namespaces(cx, &member);
    let nodes = nodes::read(&member.api, &ours).await.map_err(Error::Member)?;
    // The status may have been written meanwhile.
    let Some(newest) = cx.objects.member_clusters.get(&object.key) else { return Ok(nodes.allocatable) };
    let capacity = newest.spec.derived.of(&nodes.available);
    if newest.uid == object.uid && matters(&newest.status.capacity, &capacity) {
        let patch = difference(&json!(newest.status.capacity), &json!(capacity)).unwrap_or_else(|| json!({}));
        cx.fence_of(object.key.name()).permit()?;
        match cx.business.patch_capacity(&newest, patch).await {
            Ok(written) => {
                cx.objects.member_clusters.upsert(written, ChangeSource::OwnWrite);
            }
            // Somebody was faster: at the next look.
            Err(CallFailure::NotFound | CallFailure::Conflict(_)) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(nodes.allocatable)
}

/// The namespaces of the cluster that stand on record as an object's, which pays for their pods. Anybody may have an
/// object for any other.
fn namespaces(cx: &Context, member: &Member) -> BTreeSet<String> {
    let is_on_record = |view: &NamespaceView| {
        let Some(record) = &view.status.cluster_namespace else { return false };
        let (there, _) = member.observed.at(&view.spec.namespace);
        matches!(record.provenance, Provenance::Made | Provenance::Adopted)
            && there.is_some_and(|there| there.uid == record.uid)
    };
    let objects = cx.objects.namespaces.in_cluster(&member.name);
    objects.iter().filter(|view| is_on_record(view)).map(|view| view.spec.namespace.clone()).collect()
}

/// Whether a write is due: other resources, less of one, or noticeably more.
fn matters(old: &ResourceList, new: &ResourceList) -> bool {
    let differs = |(key, amount): (&String, &Quantity)| match old.get(key) {
        None => true,
        Some(was) => {
            amount < was
                || amount > was && amount.nanos().saturating_sub(was.nanos()) >= was.nanos() / RISE_PARTS
        }
    };
    old.len() != new.len() || new.iter().any(differs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fall_is_written_and_a_small_rise_waits() {
        let of = |amount: &str| ResourceList::from([("requests.cpu".to_owned(), amount.parse().unwrap())]);
        assert!(matters(&ResourceList::new(), &of("0")) && matters(&of("1"), &ResourceList::new()));
        assert!(matters(&of("100"), &of("99999m")) && matters(&of("100"), &of("101")));
        assert!(matters(&of("0"), &of("1m")));
        assert!(!matters(&of("100"), &of("100")) && !matters(&of("100"), &of("100500m")));
    }
}
