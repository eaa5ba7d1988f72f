//! What templates had put into namespaces when it was right.

use crate::member::template_metadata::TemplateMetadata;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was right, by the uid of the object. It is lost with the process: then the first look tells no drift.
#[derive(Debug, Default)]
pub struct Kept(Mutex<HashMap<String, KeptTemplate>>);

/// What was put into a namespace, as far as it tells drift from a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptTemplate {
    pub(super) dressing: TemplateMetadata,
    pub(super) digests: Vec<String>,
}

impl Kept {
    pub fn was(&self, uid: &str, kept: &KeptTemplate) -> bool {
        self.lock().get(uid) == Some(kept)
    }

    pub fn remember(&self, uid: &str, kept: KeptTemplate) {
        self.lock().insert(uid.to_owned(), kept);
    }

    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, KeptTemplate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
