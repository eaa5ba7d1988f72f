//! The kinds that a store was opened with, and their numbers.

use crate::model::{Kind, KindId};
use std::sync::Arc;

/// A kind by its names; its number is its place in the list that the store was opened with, from 1.
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

pub(crate) fn number(index: usize) -> Option<KindId> {
    i16::try_from(index.checked_add(1)?).ok().map(KindId)
}
