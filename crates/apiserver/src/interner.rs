use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The table is never swept while it has fewer entries.
const MIN_CAPACITY: usize = 64;

/// Shares equal values: as long as somebody holds a value, equal ones are the same `Arc`.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    hasher: RandomState,
    table: Mutex<InternerTable<T>>,
}

#[derive(Debug)]
struct InternerTable<T> {
    by_hash: HashMap<u64, Weak<T>>,
    /// Entries of dropped values are removed when the table is larger than this, which is twice its size after the last
    /// sweep.
    sweep_above: usize,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        let table = InternerTable { by_hash: HashMap::new(), sweep_above: MIN_CAPACITY };
        Self { hasher: RandomState::new(), table: Mutex::new(table) }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The equal value that is shared already, or this one.
    pub(crate) fn share(&self, value: T) -> Arc<T> {
        let hash = self.hasher.hash_one(&value);
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two values with one hash only the newer one is shared.
        if let Some(there) = table.by_hash.get(&hash).and_then(Weak::upgrade)
            && *there == value
        {
            return there;
        }
        let value = Arc::new(value);
        table.by_hash.insert(hash, Arc::downgrade(&value));
        if table.by_hash.len() > table.sweep_above {
            table.by_hash.retain(|_, value| value.strong_count() > 0);
            table.sweep_above = MIN_CAPACITY.max(table.by_hash.len() * 2);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_while_somebody_has_them() {
        let interner = Interner::default();
        let first = interner.share("a".to_owned());
        assert!(Arc::ptr_eq(&first, &interner.share("a".to_owned())));
        assert!(!Arc::ptr_eq(&first, &interner.share("b".to_owned())));
        for number in 0..10 * MIN_CAPACITY {
            interner.share(number.to_string());
        }
        assert!(interner.table.lock().unwrap().by_hash.len() <= MIN_CAPACITY + 1);
        assert!(Arc::ptr_eq(&first, &interner.share("a".to_owned())));
    }
}
