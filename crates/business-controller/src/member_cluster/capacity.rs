//! Derives the capacity of member clusters from their nodes, where an operator wants that.

use super::enqueue_cluster;
use super::kind::MemberClusterView;
use super::nodes;
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

/// Time between two readings, and so about the time between two writes for a cluster.
const PERIOD: Duration = Duration::from_secs(30);
/// How many clusters are read at a time.
const AT_ONCE: usize = 4;
/// A cluster that takes longer no longer counts as one of these: it does not delay others.
const PATIENCE: Duration = Duration::from_secs(5);
/// Deadline of reading one cluster.
const DEADLINE: Duration = Duration::from_mins(2);
/// After a reading, a cluster is left alone for so many times as long as it took, if that is longer than the period.
const RESTS: u32 = 2;
/// A rise by less than one part in so many is not written. Every fall is.
const RISE_PARTS: i128 = 100;

/// Reads the nodes of clusters periodically.
#[derive(Debug)]
pub struct Capacities {
    pub cx: Arc<Context>,
}

impl Capacities {
    /// Reads for ever. A cluster that is still being read, or left alone, is not read again.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn run(self) {
        // Pods of our namespaces can be told from others only when our namespaces are known.
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

/// Reads every cluster once.
#[cfg(test)]
pub(crate) async fn look(cx: &Context) {
    let mut readings = Readings::new(cx);
    readings.begin();
    readings.end().await;
}

/// The clusters that are being read.
struct Readings<'a> {
    cx: &'a Context,
    slots: Arc<Semaphore>,
    names: BTreeSet<String>,
    under_way: FuturesUnordered<BoxFuture<'a, (String, Duration)>>,
    /// Until when clusters are left alone.
    rests: BTreeMap<String, Instant>,
}

impl<'a> Readings<'a> {
    fn new(cx: &'a Context) -> Self {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let (names, rests) = (BTreeSet::new(), BTreeMap::new());
        Self { cx, slots, names, under_way: FuturesUnordered::new(), rests }
    }

    /// Starts reading every cluster that is not being read or left alone.
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

    /// Waits until all readings have ended.
    async fn end(&mut self) {
        while let Some((name, took)) = self.under_way.next().await {
            self.names.remove(&name);
            self.rests.insert(name, Instant::now() + took.saturating_mul(RESTS));
        }
    }
}

/// Reads a cluster as soon as there is a slot. Returns its name and how long it took.
async fn read(cx: &Context, slots: Arc<Semaphore>, object: Arc<MemberClusterView>) -> (String, Duration) {
    let name = object.key.name().to_owned();
    let slot = slots.acquire_owned().await;
    let begun = Instant::now();
    // Clusters of other shares are read by their replicas.
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
        enqueue_cluster(cx, name, Lane::Later);
    }
}

/// Reads the nodes, and writes the capacity that follows from them. Returns the nodes' allocatable resources.
async fn derive(cx: &Context, object: &MemberClusterView) -> Result<ResourceList, Error> {
    let member = match cx.member(object.key.name()) {
        Lookup::Found(member) if member.reach() == Reach::Reachable => member,
        _ => return Err(Error::Member(CallFailure::Unavailable("the cluster does not answer".to_owned()))),
    };
    let ours = namespaces(cx, &member);
    let nodes = nodes::read(&member.api, &ours).await.map_err(Error::Member)?;
    // The status may have been written since.
    let Some(newest) = cx.objects.member_clusters.get(&object.key) else { return Ok(nodes.allocatable) };
    let capacity = newest.spec.derived.of(&nodes.available);
    if newest.uid == object.uid && matters(&newest.status.capacity, &capacity) {
        let patch = difference(&json!(newest.status.capacity), &json!(capacity)).unwrap_or_else(|| json!({}));
        cx.fence_of(object.key.name()).permit()?;
        match cx.business.patch_capacity(&newest, patch).await {
            Ok(written) => {
                cx.objects.member_clusters.upsert(written, ChangeSource::OwnWrite);
            }
            // Somebody else was faster. It is tried again after the next reading.
            Err(CallFailure::NotFound | CallFailure::Conflict(_)) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(nodes.allocatable)
}

/// The namespaces of the cluster that are recorded as an object's, which is charged for their pods. Anybody may create
/// an object that names any other namespace.
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

/// Whether a write is due: other resources, a fall, or a noticeable rise.
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
