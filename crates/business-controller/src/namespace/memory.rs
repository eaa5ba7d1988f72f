//! What a process knows of its objects by having written for them.

use super::template::pull_secret::PullMemories;
use super::template::state::Kept;
use crate::kinds::ProjectKey;
use crate::shares::Share;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known of all objects.
#[derive(Debug, Default)]
pub struct NamespaceMemory {
    /// Objects for which nothing can have been made yet: born while their cluster was looked after here, after every write of a
    /// former holder of its share had ended, and each own write for them was refused. Lost with the process, and then nothing is known.
    pub untried: Untried,
    /// What their bindings were when they were right.
    pub bound: Bound,
    /// What their templates had put there when it was right.
    pub kept: Kept,
    /// What they pull by.
    pub pulls: PullMemories,
    /// Objects that are at work.
    pub turns: Turns,
}

impl NamespaceMemory {
    /// The object is gone, or somebody else looks after it from now on.
    pub fn forget(&self, uid: &str) {
        // Whoever is at work stays so, until he has ended.
        let Self { untried, bound, kept, pulls, turns: _ } = self;
        untried.forget(uid);
        bound.forget(uid);
        kept.forget(uid);
        pulls.forget(uid);
    }
}

/// Bindings that were right, by the uid of their object. It is lost with the process: then the first look tells no drift.
#[derive(Debug, Default)]
pub struct Bound(Mutex<HashMap<String, Binding>>);

/// What bindings follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub key: ProjectKey,
    /// Of the grants: they may name thousands.
    pub fingerprint: u64,
}

impl Bound {
    /// Whether the object's bindings were right and followed from the same.
    pub fn was(&self, uid: &str, binding: &Binding) -> bool {
        self.lock().get(uid) == Some(binding)
    }

    pub fn remember(&self, uid: &str, binding: Binding) {
        self.lock().insert(uid.to_owned(), binding);
    }

    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Binding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Objects by uid, with the share, and the tenure of it, in which that was known.
#[derive(Debug, Default)]
pub struct Untried(Mutex<HashMap<String, (Share, u64)>>);

impl Untried {
    pub fn remember(&self, uid: &str, held: (Share, u64)) {
        self.lock().insert(uid.to_owned(), held);
    }

    /// In which tenure it was remembered.
    pub fn forget(&self, uid: &str) -> Option<(Share, u64)> {
        self.lock().remove(uid)
    }

    /// Whether it is remembered from this tenure: in any other somebody else may have written.
    pub fn has(&self, uid: &str, held: Option<(Share, u64)>) -> bool {
        held.is_some_and(|held| self.lock().get(uid) == Some(&held))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Share, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Objects that are at work, by uid: one pass each, under whichever key.
#[derive(Debug, Default)]
pub struct Turns(Mutex<HashSet<String>>);

impl Turns {
    /// Leave to work on an object until it is dropped; `None` while somebody else does.
    pub fn take(&self, uid: &str) -> Option<Turn<'_>> {
        self.lock().insert(uid.to_owned()).then(|| Turn { turns: self, uid: uid.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object is at work.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    uid: String,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.uid);
    }
}
