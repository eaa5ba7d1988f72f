use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// Answers by key. Each is kept for a while, and at most a bounded number: the oldest goes first. A caller who asks
/// for something that another one is already fetching waits for that answer.
#[derive(Debug)]
pub(crate) struct AnswerCache<K, V> {
    capacity: usize,
    inner: Mutex<CacheInner<K, V>>,
}

#[derive(Debug)]
struct CacheInner<K, V> {
    slots: HashMap<K, Slot<V>>,
    order: VecDeque<(K, u64)>,
    next: u64,
}

#[derive(Debug)]
struct Slot<V> {
    number: u64,
    cell: Arc<OnceCell<CachedAnswer<V>>>,
}

#[derive(Debug)]
struct CachedAnswer<V> {
    value: V,
    until: Instant,
}

impl<K: Eq + Hash + Clone, V: Clone> AnswerCache<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        let inner = CacheInner { slots: HashMap::new(), order: VecDeque::new(), next: 0 };
        Self { capacity, inner: Mutex::new(inner) }
    }

    /// The answer for a key; `fetch` gives it and how long it holds.
    pub(crate) async fn get_or_fetch<F>(&self, key: &K, fetch: impl FnOnce() -> F) -> V
    where
        F: Future<Output = (V, Duration)>,
    {
        let cell = self.cell(key);
        if let Some(answer) = cell.get() {
            return answer.value.clone();
        }
        // Boxed: it is seldom needed, and much larger than the room that every request should have for it.
        let fetched = Box::pin(cell.get_or_init(|| async {
            let (value, ttl) = fetch().await;
            CachedAnswer { value, until: Instant::now() + ttl }
        }));
        fetched.await.value.clone()
    }

    /// The slot's cell: filled and fresh, being filled, or new.
    fn cell(&self, key: &K) -> Arc<OnceCell<CachedAnswer<V>>> {
        let now = Instant::now();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = inner.slots.get(key)
            && slot.cell.get().is_none_or(|answer| answer.until > now)
        {
            return Arc::clone(&slot.cell);
        }
        let number = inner.next;
        inner.next += 1;
        let cell = Arc::new(OnceCell::new());
        inner.slots.insert(key.clone(), Slot { number, cell: Arc::clone(&cell) });
        inner.order.push_back((key.clone(), number));
        while inner.order.len() > self.capacity {
            if let Some((oldest, number)) = inner.order.pop_front()
                && inner.slots.get(&oldest).is_some_and(|slot| slot.number == number)
            {
                inner.slots.remove(&oldest);
            }
        }
        cell
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.inner.lock().unwrap().slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn an_answer_is_fetched_once_until_it_is_old() {
        let cache = AnswerCache::new(8);
        let fetched = AtomicUsize::new(0);
        let fetch = async |ttl| {
            tokio::task::yield_now().await;
            (fetched.fetch_add(1, Ordering::Relaxed), ttl)
        };
        let long = || fetch(Duration::from_mins(1));
        let (a, b) = tokio::join!(cache.get_or_fetch(&"k", long), cache.get_or_fetch(&"k", long));
        assert_eq!((a, b, cache.get_or_fetch(&"k", long).await), (0, 0, 0));
        assert_eq!(cache.get_or_fetch(&"old", || fetch(Duration::ZERO)).await, 1);
        assert_eq!(cache.get_or_fetch(&"old", long).await, 2);
    }

    #[tokio::test]
    async fn the_oldest_answer_makes_room() {
        let cache = AnswerCache::new(4);
        for key in 0..100 {
            cache.get_or_fetch(&key, || async move { (key, Duration::from_mins(1)) }).await;
        }
        assert_eq!(cache.len(), 4);
        assert_eq!(cache.get_or_fetch(&99, || async { (0, Duration::ZERO) }).await, 99);
    }

    #[tokio::test]
    async fn a_fetch_that_is_given_up_is_taken_over() {
        let cache = Arc::new(AnswerCache::new(4));
        let stuck = cache.get_or_fetch(&1, std::future::pending);
        assert!(tokio::time::timeout(Duration::from_millis(1), stuck).await.is_err());
        assert_eq!(cache.get_or_fetch(&1, || async { (7, Duration::from_secs(1)) }).await, 7);
    }
}
