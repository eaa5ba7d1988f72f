use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Connections of which nobody is known yet. There are never more than a number of them: who comes when all places are
/// taken takes that of the longest there. So they cannot keep out those who have credentials.
#[derive(Debug)]
pub(crate) struct Strangers {
    limit: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// In the order in which they came.
    displaced: BTreeMap<u64, CancellationToken>,
    next: u64,
}

impl Strangers {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, waiting: Mutex::default() })
    }

    /// A place for a new connection.
    pub(crate) fn enter(self: &Arc<Self>) -> Stranger {
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        let displaced = CancellationToken::new();
        waiting.displaced.insert(number, displaced.clone());
        if waiting.displaced.len() > self.limit.max(1)
            && let Some((_, oldest)) = waiting.displaced.pop_first()
        {
            oldest.cancel();
        }
        Stranger { strangers: Arc::clone(self), number, displaced }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place among those of which nobody is known, until it is dropped.
#[derive(Debug)]
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
    displaced: CancellationToken,
}

impl Stranger {
    /// Cancelled when somebody else has the place.
    pub(crate) fn displaced(&self) -> CancellationToken {
        self.displaced.clone()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.lock().displaced.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_there_makes_room_and_who_is_known_is_not_counted() {
        let strangers = Strangers::new(2);
        let [first, known, third] = std::array::from_fn(|_| strangers.enter());
        assert!(first.displaced().is_cancelled(), "he came first");
        let kept = known.displaced();
        drop(known);
        let fourth = strangers.enter();
        assert!([&third, &fourth].iter().all(|place| !place.displaced().is_cancelled()));
        assert!(!kept.is_cancelled());
        drop((first, third, fourth));
        assert!(strangers.lock().displaced.is_empty());
    }
}
