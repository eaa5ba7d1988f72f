use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The table drops values that are gone when it has grown to twice its size, but not below this size.
const ROOM: usize = 64;

/// Keeps equal values in one place, as long as somebody has them.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    hasher: RandomState,
    held: Mutex<InternerTable<T>>,
}

#[derive(Debug)]
struct InternerTable<T> {
    by_hash: HashMap<u64, Weak<T>>,
    /// How large the table may become before values that are gone are dropped.
    room: usize,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        let held = InternerTable { by_hash: HashMap::new(), room: ROOM };
        Self { hasher: RandomState::new(), held: Mutex::new(held) }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The equal value that is there already, or this one.
    pub(crate) fn share(&self, value: T) -> Arc<T> {
        let hash = self.hasher.hash_one(&value);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two values with one hash only the newer one is shared.
        if let Some(there) = held.by_hash.get(&hash).and_then(Weak::upgrade)
            && *there == value
        {
            return there;
        }
        let value = Arc::new(value);
        held.by_hash.insert(hash, Arc::downgrade(&value));
        if held.by_hash.len() > held.room {
            held.by_hash.retain(|_, value| value.strong_count() > 0);
            held.room = ROOM.max(held.by_hash.len() * 2);
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
        for number in 0..10 * ROOM {
            interner.share(number.to_string());
        }
        assert!(interner.held.lock().unwrap().by_hash.len() <= ROOM + 1);
        assert!(Arc::ptr_eq(&first, &interner.share("a".to_owned())));
    }
}
