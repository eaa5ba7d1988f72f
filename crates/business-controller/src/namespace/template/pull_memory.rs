//! What a process knows of pull secrets by having written them.

use crate::business::password::IssuedPassword;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a password is for, and how long it is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullOrder {
    /// `None`: whichever it was.
    pub(super) template: Option<String>,
    pub(super) names: Vec<String>,
    pub(super) valid_days: Option<i64>,
}

/// What a process knows of pull secrets by having written them, by the uid of the object.
#[derive(Debug, Default)]
pub struct PullMemories(Mutex<HashMap<String, PullMemory>>);

#[derive(Clone, Debug, Default)]
struct PullMemory {
    /// A password that is not in the cluster yet.
    unwritten: Option<IssuedPassword>,
    /// What the Secret was made for when it was right.
    right: Option<PullOrder>,
}

impl PullMemories {
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    pub(super) fn unwritten(&self, uid: &str) -> Option<IssuedPassword> {
        self.lock().get(uid)?.unwritten.clone()
    }

    pub(super) fn issued(&self, uid: &str, password: &IssuedPassword) {
        self.lock().entry(uid.to_owned()).or_default().unwritten = Some(password.clone());
    }

    pub(super) fn is_right(&self, uid: &str, order: &PullOrder) {
        let memory = PullMemory { unwritten: None, right: Some(order.clone()) };
        self.lock().insert(uid.to_owned(), memory);
    }

    pub(super) fn was_right(&self, uid: &str, order: &PullOrder) -> bool {
        self.lock().get(uid).is_some_and(|memory| memory.right.as_ref() == Some(order))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PullMemory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
