//! What a process knows of its objects by having written for them.

use super::grants::known::KnownGrants;
use super::template::kept::Kept;
use super::template::pull_memory::PullMemories;
use crate::kinds::ProjectKey;
use crate::shares::Share;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Repairs that do not wait. A person who has made a mistake, or tries what happens, makes no more.
const REPAIRS_AT_ONCE: u32 = 2;
/// How long each one after them waits since the last: the first, twice as long each time, and at the most.
const REPAIR_PAUSE: Duration = Duration::from_secs(1);
const REPAIR_PAUSE_MAX: Duration = Duration::from_secs(30);
/// After such a time without a repair they are counted anew.
const REPAIR_CALM: Duration = Duration::from_mins(1);

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
    /// How often they were repaired lately.
    pub repairs: Repairs,
    /// Objects that are at work.
    pub turns: Turns,
    /// Whom the bindings of projects with many people name.
    pub grants: KnownGrants,
}

impl NamespaceMemory {
    /// The object is gone, or somebody else looks after it from now on.
    pub fn forget(&self, uid: &str) {
        // Whoever is at work stays so, until he has ended; grants are of no object.
        let Self { untried, bound, kept, pulls, repairs, turns: _, grants: _ } = self;
        untried.forget(uid);
        bound.forget(uid);
        kept.forget(uid);
        pulls.forget(uid);
        repairs.forget(uid);
    }
}

/// Repairs of what somebody else has changed, by the uid of the object. Where he changes it back each time, another controller say,
/// both would write as fast as they can, for ever.
#[derive(Debug, Default)]
pub struct Repairs(Mutex<HashMap<String, Repaired>>);

/// Repairs of an object, each within a while of the one before.
#[derive(Clone, Copy, Debug)]
struct Repaired {
    count: u32,
    last: Instant,
}

impl Repaired {
    fn is_over(&self) -> bool {
        self.last.elapsed() >= REPAIR_CALM
    }

    /// How long the next one has to wait yet.
    fn wait(&self) -> Duration {
        let Some(more) = self.count.checked_sub(REPAIRS_AT_ONCE) else { return Duration::ZERO };
        let pause = REPAIR_PAUSE.saturating_mul(2_u32.saturating_pow(more)).min(REPAIR_PAUSE_MAX);
        pause.saturating_sub(self.last.elapsed())
    }
}

impl Repairs {
    /// How long the next repair of an object has to wait, if it has to.
    pub fn wait(&self, uid: &str) -> Option<Duration> {
        self.lock().get(uid).map(Repaired::wait).filter(|wait| !wait.is_zero())
    }

    /// It was repaired.
    pub fn count(&self, uid: &str) {
        let mut all = self.lock();
        let before = all.get(uid).filter(|repaired| !repaired.is_over()).map_or(0, |repaired| repaired.count);
        all.insert(uid.to_owned(), Repaired { count: before.saturating_add(1), last: Instant::now() });
    }

    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Repaired>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn each_repair_after_the_second_waits_twice_as_long_as_the_one_before() {
        let repairs = Repairs::default();
        let mut waited = Vec::new();
        for _ in 0..10 {
            let wait = repairs.wait("u").unwrap_or_default();
            waited.push(wait.as_secs());
            advance(wait).await;
            assert_eq!(repairs.wait("u"), None);
            repairs.count("u");
        }
        assert_eq!(waited, [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(repairs.wait("other"), None);
        advance(REPAIR_CALM).await;
        repairs.count("u");
        assert_eq!(repairs.wait("u"), None, "they are counted anew");
    }
}
