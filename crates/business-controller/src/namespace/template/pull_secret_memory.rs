//! What this process remembers of pull secrets that it has written.

use crate::business::password::IssuedPassword;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a password is for, and how long it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullSecretSpec {
    /// `None` means the template that it was issued for.
    pub(super) template: Option<String>,
    pub(super) names: Vec<String>,
    pub(super) valid_days: Option<i64>,
}

/// What this process remembers of pull secrets, by the uid of the object.
#[derive(Debug, Default)]
pub struct PullSecretMemory(Mutex<HashMap<String, PullSecretRecord>>);

#[derive(Clone, Debug, Default)]
struct PullSecretRecord {
    /// A password that was issued and is not in the cluster yet.
    unwritten: Option<IssuedPassword>,
    /// The spec of the Secret when it was last right.
    applied: Option<PullSecretSpec>,
}

impl PullSecretMemory {
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    pub(super) fn unwritten(&self, uid: &str) -> Option<IssuedPassword> {
        self.lock().get(uid)?.unwritten.clone()
    }

    pub(super) fn set_unwritten(&self, uid: &str, password: &IssuedPassword) {
        self.lock().entry(uid.to_owned()).or_default().unwritten = Some(password.clone());
    }

    pub(super) fn set_applied(&self, uid: &str, spec: &PullSecretSpec) {
        let memory = PullSecretRecord { unwritten: None, applied: Some(spec.clone()) };
        self.lock().insert(uid.to_owned(), memory);
    }

    pub(super) fn was_applied(&self, uid: &str, spec: &PullSecretSpec) -> bool {
        self.lock().get(uid).is_some_and(|memory| memory.applied.as_ref() == Some(spec))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PullSecretRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
