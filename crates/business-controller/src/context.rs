//! What every pass over an object is given.

use crate::business::Business;
use crate::events::Recorder;
use crate::fence::Fence;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::members::{Lookup, Members};
use crate::objects::{ObjectRef, Objects};
use crate::outcome::ControllerMetrics;
use crate::queue::{FlowKey, Lane, Queue};
use crate::registry::backend::Registry;
use crate::seal::SealKeys;
use crate::shares::{Share, Shares};
use business_types::ClusterIdentity;
use runtime::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Objects of one group, a member cluster or the projects, that may be at work at a time.
pub const GROUP_RUNNING_MAX: usize = 16;

/// What every pass over an object is given.
#[derive(Debug)]
pub struct Context {
    /// Calls to our API.
    pub business: Business,
    pub objects: Objects,
    pub members: Members,
    /// Objects to look at.
    pub queue: Queue<ObjectRef>,
    /// What of the work is done here, and what may be written for it.
    pub shares: Arc<Shares>,
    pub events: Recorder,
    pub metrics: ControllerMetrics,
    /// The registry of image namespaces and chart groups.
    pub registry: Registry,
    /// The keys that what we write into member clusters is sealed with.
    pub seals: SealKeys,
    pub clock: Clock,
    /// Names in member clusters that are never ours.
    pub forbidden: Vec<String>,
    /// An audit is wanted soon: our objects had to be listed anew, so what is known of them may have been another
    /// history's; or a pass waits for one.
    pub audit_wanted: Notify,
}

impl Context {
    /// Now, RFC 3339 in whole seconds.
    pub fn now(&self) -> String {
        meta::time::rfc3339(self.clock.unix_seconds())
    }

    /// The share of the cluster that a name stands for. As long as it stands for none, whatever has that name is the fleet's.
    pub fn share_of(&self, cluster: &str) -> Share {
        let uid = self.recorded(cluster).or_else(|| self.members.uid(cluster));
        uid.map_or(Share::Fleet, |uid| self.shares.of_uid(&uid))
    }

    /// What a name stands for, as it was last seen on record.
    fn recorded(&self, cluster: &str) -> Option<String> {
        let object = self.objects.member_clusters.get(&RootKey::new(None, cluster))?;
        Some(object.status.uid.clone()).filter(|uid| !uid.is_empty())
    }

    /// By which names a cluster knows people, as its object says.
    pub fn identity_of(&self, cluster: &str) -> ClusterIdentity {
        let object = self.objects.member_clusters.get(&RootKey::new(None, cluster));
        object.map(|object| object.spec.identity).unwrap_or_default()
    }

    /// The share of an object; `None` for a namespace that is not there.
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

    /// What may be written for the fleet.
    pub fn fleet(&self) -> &Arc<Fence> {
        &self.shares.state(Share::Fleet).fence
    }

    /// What may be written for the objects of a cluster.
    pub fn fence_of(&self, cluster: &str) -> &Arc<Fence> {
        &self.shares.state(self.share_of(cluster)).fence
    }

    /// The share of a cluster and its tenure, while it is worked on here.
    pub fn term_of(&self, cluster: &str) -> Option<(Share, u64)> {
        let share = self.share_of(cluster);
        self.shares.holds(share).then(|| (share, self.shares.state(share).term()))
    }

    /// What the directory says of a cluster.
    pub fn member(&self, cluster: &str) -> Lookup {
        let share = self.share_of(cluster);
        match self.members.find(cluster, share, self.shares.state(share).term()) {
            // The name stands for another cluster since a moment, or for none: its record was made anew.
            Lookup::Found(member) if self.recorded(cluster).as_ref() != Some(&member.uid) => {
                Lookup::NotLoaded
            }
            found => found,
        }
    }

    /// Has an object looked at, if that is done here.
    pub fn wake<'a>(&self, key: &ObjectRef, flow: impl Into<FlowKey<'a>>, lane: Lane, delay: Duration) {
        if self.share_of_object(key).is_some_and(|share| self.shares.holds(share)) {
            self.queue.add_after(key, flow, lane, delay);
        }
    }
}
