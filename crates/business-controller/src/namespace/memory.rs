//! What this process knows of namespaces because it has written for them.

use super::grants::cache::GrantsCache;
use super::template::fingerprint::TemplateFingerprint;
use super::template::pull_secret_memory::PullSecretMemory;
use crate::kinds::ProjectKey;
use crate::shares::Term;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Repairs that are not delayed. Somebody who makes a mistake, or tries something, causes no more than these.
const REPAIRS_AT_ONCE: u32 = 2;
/// The delay of the first repair after those. It doubles with each one, up to the maximum.
const REPAIR_PAUSE: Duration = Duration::from_secs(1);
const REPAIR_PAUSE_MAX: Duration = Duration::from_secs(30);
/// After this time without a repair, counting starts again.
const REPAIR_RESET: Duration = Duration::from_mins(1);

/// What is remembered of all namespaces.
#[derive(Debug, Default)]
pub struct NamespaceMemory {
    /// Objects for which nothing can have been created yet: they were made while this process held the share of their
    /// cluster, after every write of a former holder had ended, and each write of ours for them was refused. If the
    /// process ends, this knowledge is lost.
    pub never_created: NeverCreated,
    /// The bindings that were last right.
    pub bindings: LastApplied<BindingsFingerprint>,
    /// What templates had put into namespaces when it was last right.
    pub templates: LastApplied<TemplateFingerprint>,
    /// Pull secrets that were issued or written.
    pub pull_secrets: PullSecretMemory,
    /// Backoff of repairs.
    pub repair_backoff: RepairBackoff,
    /// Objects over which a pass is running.
    pub running: RunningPasses,
    /// Cached grants of projects with many people.
    pub grants: GrantsCache,
}

impl NamespaceMemory {
    /// The object is gone, or another replica works on it from now on.
    pub fn forget(&self, uid: &str) {
        // A running pass goes on until it ends. Grants do not belong to one object.
        let Self { never_created, bindings, templates, pull_secrets, repair_backoff, running: _, grants: _ } =
            self;
        never_created.forget(uid);
        bindings.forget(uid);
        templates.forget(uid);
        pull_secrets.forget(uid);
        repair_backoff.forget(uid);
    }
}

/// Delays repairs of what somebody else has changed, by the uid of the object. If somebody, for example another
/// controller, changes it back each time, both would otherwise write as fast as they can, for ever.
#[derive(Debug, Default)]
pub struct RepairBackoff(Mutex<HashMap<String, RecentRepairs>>);

/// Consecutive repairs of an object.
#[derive(Clone, Copy, Debug)]
struct RecentRepairs {
    count: u32,
    last: Instant,
}

impl RecentRepairs {
    fn is_reset(&self) -> bool {
        self.last.elapsed() >= REPAIR_RESET
    }

    /// How long the next repair still has to wait.
    fn wait(&self) -> Duration {
        let Some(more) = self.count.checked_sub(REPAIRS_AT_ONCE) else { return Duration::ZERO };
        let pause = REPAIR_PAUSE.saturating_mul(2_u32.saturating_pow(more)).min(REPAIR_PAUSE_MAX);
        pause.saturating_sub(self.last.elapsed())
    }
}

impl RepairBackoff {
    /// How long the next repair of an object has to wait; `None` if it need not.
    pub fn wait(&self, uid: &str) -> Option<Duration> {
        self.lock().get(uid).map(RecentRepairs::wait).filter(|wait| !wait.is_zero())
    }

    /// Records a repair.
    pub fn record(&self, uid: &str) {
        let mut all = self.lock();
        let before =
            all.get(uid).filter(|repaired| !repaired.is_reset()).map_or(0, |repaired| repaired.count);
        all.insert(uid.to_owned(), RecentRepairs { count: before.saturating_add(1), last: Instant::now() });
    }

    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, RecentRepairs>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was last applied for each object, by its uid, as far as it distinguishes drift from a change. If the process
/// ends, it is lost, and the first pass reports no drift.
#[derive(Debug)]
pub struct LastApplied<T>(Mutex<HashMap<String, T>>);

impl<T> Default for LastApplied<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: PartialEq> LastApplied<T> {
    /// Whether exactly this was last applied for the object.
    pub fn matches(&self, uid: &str, value: &T) -> bool {
        self.lock().get(uid) == Some(value)
    }

    pub fn remember(&self, uid: &str, value: T) {
        self.lock().insert(uid.to_owned(), value);
    }

    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Identifies the bindings of a namespace: by the object's key, and by the fingerprint of the grants, which may name
/// thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingsFingerprint {
    pub key: ProjectKey,
    pub grants: u64,
}

/// Uids of objects, with the term in which this was recorded.
#[derive(Debug, Default)]
pub struct NeverCreated(Mutex<HashMap<String, Term>>);

impl NeverCreated {
    pub fn remember(&self, uid: &str, term: Term) {
        self.lock().insert(uid.to_owned(), term);
    }

    /// Removes an object. Returns the term in which it was recorded.
    pub fn forget(&self, uid: &str) -> Option<Term> {
        self.lock().remove(uid)
    }

    /// Whether the object was recorded in this term. In another term, somebody else may have written for it.
    pub fn has(&self, uid: &str, term: Option<Term>) -> bool {
        term.is_some_and(|term| self.lock().get(uid) == Some(&term))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Term>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Uids of objects over which a pass is running. An object has one pass at a time, under whichever key.
#[derive(Debug, Default)]
pub struct RunningPasses(Mutex<HashSet<String>>);

impl RunningPasses {
    /// Starts a pass over an object, until the guard is dropped; `None` while another pass runs.
    pub fn try_start(&self, uid: &str) -> Option<PassGuard<'_>> {
        self.lock().insert(uid.to_owned()).then(|| PassGuard { running: self, uid: uid.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks that a pass runs over an object.
#[derive(Debug)]
pub struct PassGuard<'a> {
    running: &'a RunningPasses,
    uid: String,
}

impl Drop for PassGuard<'_> {
    fn drop(&mut self) {
        self.running.lock().remove(&self.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn each_repair_after_the_second_waits_twice_as_long_as_the_one_before() {
        let repair_backoff = RepairBackoff::default();
        let mut waited = Vec::new();
        for _ in 0..10 {
            let wait = repair_backoff.wait("u").unwrap_or_default();
            waited.push(wait.as_secs());
            advance(wait).await;
            assert_eq!(repair_backoff.wait("u"), None);
            repair_backoff.record("u");
        }
        assert_eq!(waited, [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(repair_backoff.wait("other"), None);
        advance(REPAIR_RESET).await;
        repair_backoff.record("u");
        assert_eq!(repair_backoff.wait("u"), None, "they are counted anew");
    }
}
