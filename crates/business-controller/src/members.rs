//! The member clusters that are followed here.

use crate::member::Member;
use crate::member::memory_budget::MemoryBudget;
use crate::shares::Share;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tokio::sync::{Notify, SetOnce};

/// The member clusters by name, and what applies to all of them.
#[derive(Debug)]
pub struct Members {
    state: RwLock<MembersState>,
    /// Set when the directory was read for the first time.
    read: SetOnce<()>,
    /// A probe has failed: new credentials of clusters are to be tried now.
    pub probe_failed: Notify,
    /// The memory budget of all of them together.
    pub memory_budget: MemoryBudget,
    /// Within this time every cluster has recounted its quotas.
    pub recount: Duration,
}

#[derive(Debug, Default)]
struct MembersState {
    /// The shares of which all members are known, each with the term that this holds for.
    complete_shares: BTreeMap<Share, u64>,
    members: BTreeMap<String, Arc<Member>>,
    absent: BTreeMap<String, String>,
}

/// The result of looking up a member cluster by name.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The directory was not read since this replica holds the share.
    NotLoaded,
    /// The directory does not list it, or it was refused.
    Unknown,
    Found(Arc<Member>),
}

impl Members {
    /// No members yet.
    pub fn new(memory_budget: MemoryBudget, recount: Duration) -> Self {
        Self {
            state: RwLock::default(),
            read: SetOnce::new(),
            probe_failed: Notify::new(),
            memory_budget,
            recount,
        }
    }

    /// Finds a member. `share` is the one that its name belongs to, and `term` the current term of it.
    pub fn find(&self, name: &str, share: Share, term: u64) -> Lookup {
        let state = self.read();
        match state.members.get(name).filter(|member| member.term == term) {
            Some(member) => Lookup::Found(Arc::clone(member)),
            None if state.complete_shares.get(&share) == Some(&term) => Lookup::Unknown,
            None => Lookup::NotLoaded,
        }
    }

    /// Whether all members of a share are known in this term.
    pub fn is_complete(&self, share: Share, term: u64) -> bool {
        self.read().complete_shares.get(&share) == Some(&term)
    }

    /// The uid of the cluster that a name stands for, if it is followed.
    pub fn uid(&self, name: &str) -> Option<String> {
        self.read().members.get(name).map(|member| member.uid.clone())
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

    /// Names of clusters in use that are not followed, and why.
    pub fn absent(&self) -> BTreeMap<String, String> {
        self.read().absent.clone()
    }

    pub fn set_absent(&self, absent: BTreeMap<String, String>) {
        self.write().absent = absent;
    }

    /// Whether the directory was ever read.
    pub fn is_read(&self) -> bool {
        self.read.initialized()
    }

    /// Waits until the directory was read.
    pub async fn wait_until_read(&self) {
        self.read.wait().await;
    }

    /// Records that all members of these shares are known. Returns the shares for which that is new.
    pub fn set_complete_shares(&self, held: BTreeMap<Share, u64>) -> Vec<Share> {
        let mut state = self.write();
        let is_new = |(share, term): &(&Share, &u64)| state.complete_shares.get(*share) != Some(*term);
        let new = held.iter().filter(is_new).map(|(share, _)| *share).collect();
        state.complete_shares = held;
        let _known_already = self.read.set(());
        new
    }

    fn read(&self) -> RwLockReadGuard<'_, MembersState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, MembersState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}
