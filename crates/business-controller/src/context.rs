//! What every reconciler gets.

use crate::business::Business;
use crate::events::{Recorder, Topic};
use crate::fence::Fence;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::members::{Lookup, Members};
use crate::metrics::ControllerMetrics;
use crate::objects::{ObjectRef, Objects};
use crate::queue::{FlowKey, Lane, Queue};
use crate::registry::backend::Registry;
use crate::seal::SealKeys;
use crate::shares::{Share, Shares, Term};
use business_types::ClusterIdentity;
use runtime::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How many objects of one group may be reconciled at a time. A group is a member cluster, or one of the groups of
/// kinds that belong to no cluster.
pub const GROUP_RUNNING_MAX: usize = 16;

/// What every reconciler gets.
#[derive(Debug)]
pub struct Context {
    /// Calls to our API.
    pub business: Business,
    pub objects: Objects,
    pub members: Members,
    /// The work queue.
    pub queue: Queue<ObjectRef>,
    /// The shares that this replica holds, with their fences.
    pub shares: Arc<Shares>,
    pub events: Recorder,
    pub metrics: ControllerMetrics,
    /// The registry of image namespaces and chart groups.
    pub registry: Registry,
    /// The keys of seals.
    pub seals: SealKeys,
    pub clock: Clock,
    /// Namespaces of member clusters that are never ours.
    pub forbidden: Vec<String>,
    /// Asks for an audit soon: our objects had to be listed again, so history may have changed, or a pass waits for an
    /// audit.
    pub audit_wanted: Notify,
}

impl Context {
    /// Now, RFC 3339 in whole seconds.
    pub fn now(&self) -> String {
        meta::time::rfc3339(self.clock.unix_seconds())
    }

    /// The share of a cluster. A name that stands for no cluster yet belongs to the fleet.
    pub fn share_of(&self, cluster: &str) -> Share {
        let uid = self.recorded(cluster).or_else(|| self.members.uid(cluster));
        uid.map_or(Share::Fleet, |uid| self.shares.of_uid(&uid))
    }

    /// The uid of the cluster that a name stands for, as its cached `MemberCluster` says.
    fn recorded(&self, cluster: &str) -> Option<String> {
        let object = self.objects.member_clusters.get(&RootKey::new(None, cluster))?;
        Some(object.status.uid.clone()).filter(|uid| !uid.is_empty())
    }

    /// How users are named in a cluster, as its `MemberCluster` says.
    pub fn identity_of(&self, cluster: &str) -> ClusterIdentity {
        let object = self.objects.member_clusters.get(&RootKey::new(None, cluster));
        object.map(|object| object.spec.identity).unwrap_or_default()
    }

    /// The share of an object; `None` for a namespace that is not cached.
    pub fn share_of_object(&self, key: &ObjectRef) -> Option<Share> {
        match key {
            ObjectRef::Namespace(key) => {
                self.objects.namespaces.get(key).map(|object| self.share_of(&object.spec.cluster_name))
            }
            ObjectRef::MemberCluster(key) => Some(self.share_of(key.name())),
            ObjectRef::Project(_)
            | ObjectRef::NsEmigration(_)
            | ObjectRef::ImageNamespace(_)
            | ObjectRef::ChartGroup(_)
            | ObjectRef::Tenant(_)
            | ObjectRef::NamespaceTemplate(_) => Some(Share::Fleet),
        }
    }

    /// The fence of the fleet's share.
    pub fn fleet(&self) -> &Arc<Fence> {
        &self.shares.state(Share::Fleet).fence
    }

    /// The fence of a cluster's share.
    pub fn fence_of(&self, cluster: &str) -> &Arc<Fence> {
        &self.shares.state(self.share_of(cluster)).fence
    }

    /// The current term of a cluster's share, if this replica works on it.
    pub fn term_of(&self, cluster: &str) -> Option<Term> {
        let share = self.share_of(cluster);
        self.shares.holds(share).then(|| Term { share, number: self.shares.state(share).term() })
    }

    /// The member cluster of this name, if it is followed here.
    pub fn member(&self, cluster: &str) -> Lookup {
        let share = self.share_of(cluster);
        match self.members.find(cluster, share, self.shares.state(share).term()) {
            // The name has just come to stand for another cluster, or for none: its record was made again.
            Lookup::Found(member) if self.recorded(cluster).as_ref() != Some(&member.uid) => {
                Lookup::NotLoaded
            }
            found => found,
        }
    }

    /// Reports something about a member cluster, with the uid of its object, if there is one: `kubectl describe` shows
    /// no other events.
    pub fn report_cluster(&self, cluster: &str, topic: Topic, note: String) {
        match self.objects.member_clusters.get(&RootKey::new(None, cluster)) {
            Some(object) => self.events.report(&*object, topic, note),
            None => self.events.report_cluster(cluster, topic, note),
        }
    }

    /// Adds an object to the queue, if its share is worked on here.
    pub fn enqueue<'a>(&self, key: &ObjectRef, flow: impl Into<FlowKey<'a>>, lane: Lane, delay: Duration) {
        if self.share_of_object(key).is_some_and(|share| self.shares.holds(share)) {
            self.queue.add_after(key, flow, lane, delay);
        }
    }
}
