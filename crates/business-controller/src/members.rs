//! The member clusters that the directory has accepted.

use crate::context::Context;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::member::Member;
use business_types::ClusterIdentity;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Notify;

/// The member clusters by name.
#[derive(Debug, Default)]
pub struct Members {
    accepted: RwLock<AcceptedCluster>,
    /// One has not answered: where there are other credentials of it, they are tried now.
    pub doubted: Notify,
}

#[derive(Debug, Default)]
struct AcceptedCluster {
    loaded: bool,
    members: BTreeMap<String, Arc<Member>>,
    absent: BTreeMap<String, String>,
}

/// What the directory says of a name.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The directory was not read yet.
    NotLoaded,
    /// It is not listed, or not accepted.
    Unknown,
    Found(Arc<Member>),
}

/// By which names a cluster knows people, as its object says.
pub fn identity_of(cx: &Context, cluster: &str) -> ClusterIdentity {
    let object = cx.objects.member_clusters.get(&RootKey::new(None, cluster));
    object.map(|object| object.spec.identity).unwrap_or_default()
}

impl Members {
    pub fn find(&self, name: &str) -> Lookup {
        let accepted = self.read();
        match accepted.members.get(name) {
            Some(member) => Lookup::Found(Arc::clone(member)),
            None if accepted.loaded => Lookup::Unknown,
            None => Lookup::NotLoaded,
        }
    }

    pub fn all(&self) -> Vec<Arc<Member>> {
        self.read().members.values().cloned().collect()
    }

    /// Adds or replaces one.
    pub fn insert(&self, member: Arc<Member>) {
        self.write().members.insert(member.name.clone(), member);
    }

    pub fn remove(&self, name: &str) {
        self.write().members.remove(name);
    }

    /// Names that stand for a cluster and are not among the members, and why.
    pub fn absent(&self) -> BTreeMap<String, String> {
        self.read().absent.clone()
    }

    pub fn set_absent(&self, absent: BTreeMap<String, String>) {
        self.write().absent = absent;
    }

    /// Whether the directory was read, and what it says published.
    pub fn is_loaded(&self) -> bool {
        self.read().loaded
    }

    /// The directory was read; `true` the first time.
    pub fn set_loaded(&self) -> bool {
        !std::mem::replace(&mut self.write().loaded, true)
    }

    fn read(&self) -> RwLockReadGuard<'_, AcceptedCluster> {
        self.accepted.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, AcceptedCluster> {
        self.accepted.write().unwrap_or_else(PoisonError::into_inner)
    }
}
