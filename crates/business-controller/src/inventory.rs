//! What there was when a share came to us. Our view may be older: somebody else may have let an object go that is seen here
//! yet, or that will be seen before its end is. Nothing is decided from such an object.

use crate::kinds::{Kind, View, revision};
use std::collections::HashMap;

/// All objects of a kind at one revision.
#[derive(Clone, Debug, Default)]
pub struct Roll {
    pub revision: u64,
    /// By uid.
    pub generations: HashMap<String, i64>,
}

/// How much of what happened a view has heard.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViewAge {
    /// Highest revision of an event: whatever was written before it was heard.
    pub followed: u64,
    /// Lists that have begun.
    pub lists: u64,
    /// How many of them had begun when the last one to end did.
    pub listed: u64,
}

/// Objects of a kind at a moment after their share has become ours.
#[derive(Debug, Default)]
pub struct Inventory {
    roll: Roll,
    /// Of our view by then.
    age: ViewAge,
}

impl Inventory {
    /// `age` is what our view has after the roll was read.
    pub fn new(roll: Roll, age: ViewAge) -> Self {
        Self { roll, age }
    }

    /// Whether an object was made after that moment.
    pub fn is_before(&self, made_at: u64) -> bool {
        made_at > self.roll.revision
    }

    /// Whether an object of our view, which has this age now, is as it was at that moment, or newer. Another one is about to
    /// change, or to go.
    pub fn has_no_newer<K: Kind>(&self, object: &View<K>, age: ViewAge) -> bool {
        let as_new = |newest: &i64| *newest <= object.generation;
        revision(&object.resource_version) > self.roll.revision
            || self.roll.generations.get(&object.uid).is_some_and(as_new)
            || age.followed > self.roll.revision
            || age.listed > self.age.lists
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::fixtures::pending;
    use crate::kinds::Heard;
    use crate::namespace::kind::{BusinessNamespace, NamespaceView};

    fn at(revision: u64, generation: i64) -> NamespaceView {
        NamespaceView { resource_version: revision.to_string(), generation, ..pending(&[]) }
    }

    /// At revision 10.
    fn inventory(view: &Cache<BusinessNamespace>, generations: &[(&str, i64)]) -> Inventory {
        let generations = generations.iter().map(|(uid, generation)| ((*uid).to_owned(), *generation));
        Inventory::new(Roll { revision: 10, generations: generations.collect() }, view.age())
    }

    fn counts(inventory: &Inventory, object: &NamespaceView, view: &Cache<BusinessNamespace>) -> bool {
        inventory.has_no_newer::<BusinessNamespace>(object, view.age())
    }

    #[test]
    fn what_was_there_then_or_came_later_counts() {
        let view = Cache::default();
        let inventory = inventory(&view, &[("u", 2)]);
        assert!(counts(&inventory, &at(7, 2), &view));
        assert!(!counts(&inventory, &at(7, 1), &view), "it was changed before");
        assert!(counts(&inventory, &at(11, 3), &view));
        let gone = NamespaceView { uid: "gone".to_owned(), ..at(7, 1) };
        assert!(!counts(&inventory, &gone, &view));
    }

    #[test]
    fn what_is_left_counts_when_our_view_is_newer_than_that() {
        let view = Cache::default();
        let (inventory, old) = (inventory(&view, &[]), at(7, 1));
        let other = |revision| NamespaceView { uid: "other".to_owned(), ..at(revision, 1) };
        view.seen(other(10), Heard::ByEvent);
        assert!(!counts(&inventory, &old, &view), "its end may be told by the next event");
        view.seen(other(11), Heard::FromOwnWrite);
        assert!(!counts(&inventory, &old, &view), "an answer says nothing of events");
        view.seen(other(12), Heard::ByEvent);
        assert!(counts(&inventory, &old, &view));
    }

    #[test]
    fn a_list_that_had_begun_says_nothing_and_a_later_one_everything() {
        let view = Cache::default();
        view.list_begins();
        let (inventory, old) = (inventory(&view, &[]), at(7, 1));
        view.seen(at(12, 1), Heard::InList);
        assert!(!counts(&inventory, &old, &view), "the rest of the list is still to come");
        view.list_ends();
        assert!(!counts(&inventory, &old, &view), "it may be older");
        // History may have gone back: no event of a later revision has to come.
        view.list_begins();
        assert!(!counts(&inventory, &old, &view));
        view.list_ends();
        assert!(counts(&inventory, &old, &view));
    }
}
