//! Objects for which nothing can have been made yet in their cluster.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Uids of objects that were born while this process led, after every write of a former leader had ended, and of which
/// each own write was refused. It is lost with the process, and then nothing is known.
#[derive(Debug, Default)]
pub struct Untried(Mutex<HashSet<String>>);

impl Untried {
    pub fn remember(&self, uid: &str) {
        self.lock().insert(uid.to_owned());
    }

    /// Whether it was remembered.
    pub fn forget(&self, uid: &str) -> bool {
        self.lock().remove(uid)
    }

    pub fn is_untried(&self, uid: &str) -> bool {
        self.lock().contains(uid)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
