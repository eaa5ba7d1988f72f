//! The kinds that a store was opened with, and their numbers.

use crate::model::{Kind, KindId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kinds that a store keeps, by number.
#[derive(Clone, Default)]
pub struct Kinds(Arc<BTreeMap<KindId, Arc<dyn Kind>>>);

impl Kinds {
    /// A kind by its number.
    pub fn get(&self, id: KindId) -> Option<&Arc<dyn Kind>> {
        self.0.get(&id)
    }

    /// All kinds in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &Arc<dyn Kind>)> {
        self.0.iter().map(|(id, kind)| (*id, kind))
    }
}

impl FromIterator<(KindId, Arc<dyn Kind>)> for Kinds {
    fn from_iter<I: IntoIterator<Item = (KindId, Arc<dyn Kind>)>>(kinds: I) -> Self {
        Self(Arc::new(kinds.into_iter().collect()))
    }
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|(id, kind)| (id, kind.resource()))).finish()
    }
}

/// The group and resource of a kind. Its number is its position, from 1, in the list that the store was opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindName {
    pub(crate) group: String,
    pub(crate) resource: String,
}

impl KindName {
    pub(crate) fn of(kind: &Arc<dyn Kind>) -> Self {
        Self { group: kind.group().to_owned(), resource: kind.resource().to_owned() }
    }
}

/// The number of the kind at this index, counted from 0.
pub(crate) fn id_at(index: usize) -> Option<KindId> {
    i16::try_from(index.checked_add(1)?).ok().map(KindId)
}
