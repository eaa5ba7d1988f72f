use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// A cache of answers by key, limited in age, number and weight. The oldest answer is evicted first. A caller who asks
/// for something that another one is already fetching waits for that answer.
#[derive(Debug)]
pub(crate) struct AnswerCache<K, V> {
    capacity: usize,
    /// The bytes of memory that all answers together may take.
    weight: usize,
    /// The bytes of memory that one answer takes.
    weight_of: fn(&K, &V) -> usize,
    inner: Mutex<CacheInner<K, V>>,
}

#[derive(Debug)]
struct CacheInner<K, V> {
    slots: HashMap<K, Slot<V>>,
    order: VecDeque<(K, u64)>,
    next: u64,
    weight: usize,
}

#[derive(Debug)]
struct Slot<V> {
    number: u64,
    /// 0 until the answer has been fetched.
    weight: usize,
    cell: Arc<OnceCell<CachedAnswer<V>>>,
}

#[derive(Debug)]
struct CachedAnswer<V> {
    value: V,
    until: Instant,
}

impl<V> Slot<V> {
    /// Whether its answer has not expired, or is being fetched.
    fn is_valid(&self, now: Instant) -> bool {
        self.cell.get().is_none_or(|answer| answer.until > now)
    }
}

impl<K: Eq + Hash + Clone, V> CacheInner<K, V> {
    /// Whether the oldest answer has expired or was replaced.
    fn is_oldest_stale(&self, now: Instant) -> bool {
        self.order.front().is_some_and(|(oldest, number)| {
            self.slots.get(oldest).is_none_or(|slot| slot.number != *number || !slot.is_valid(now))
        })
    }

    /// Removes the oldest answer. Returns whether there was one.
    fn evict_oldest(&mut self) -> bool {
        let Some((oldest, number)) = self.order.pop_front() else { return false };
        if self.slots.get(&oldest).is_some_and(|slot| slot.number == number)
            && let Some(slot) = self.slots.remove(&oldest)
        {
            self.weight = self.weight.saturating_sub(slot.weight);
        }
        true
    }
}

impl<K: Eq + Hash + Clone, V: Clone> AnswerCache<K, V> {
    pub(crate) fn new(capacity: usize, weight: usize, weight_of: fn(&K, &V) -> usize) -> Self {
        let inner = CacheInner { slots: HashMap::new(), order: VecDeque::new(), next: 0, weight: 0 };
        Self { capacity, weight, weight_of, inner: Mutex::new(inner) }
    }

    /// The answer for a key, if it is there already.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let now = Instant::now();
        let inner = self.lock();
        let answer = inner.slots.get(key)?.cell.get().filter(|answer| answer.until > now)?;
        Some(answer.value.clone())
    }

    /// The answer for a key. `fetch` returns an answer and how long it is valid.
    pub(crate) async fn get_or_fetch<F>(&self, key: &K, fetch: impl FnOnce() -> F) -> V
    where
        F: Future<Output = (V, Duration)>,
    {
        let (cell, number) = self.cell(key);
        if let Some(answer) = cell.get() {
            return answer.value.clone();
        }
        // Boxed: the future is large and seldom needed, and would otherwise enlarge the future of every request.
        let fetched = Box::pin(cell.get_or_init(|| async {
            let (value, ttl) = fetch().await;
            if ttl.is_zero() {
                self.remove(key, number);
            } else {
                self.set_weight(key, number, (self.weight_of)(key, &value));
            }
            CachedAnswer { value, until: Instant::now() + ttl }
        }));
        fetched.await.value.clone()
    }

    /// The cell of the key's slot, and the slot's number. The cell is filled and valid, being filled, or new.
    fn cell(&self, key: &K) -> (Arc<OnceCell<CachedAnswer<V>>>, u64) {
        let now = Instant::now();
        let mut inner = self.lock();
        if let Some(slot) = inner.slots.get(key).filter(|slot| slot.is_valid(now)) {
            return (Arc::clone(&slot.cell), slot.number);
        }
        while inner.is_oldest_stale(now) {
            inner.evict_oldest();
        }
        let number = inner.next;
        inner.next += 1;
        let cell = Arc::new(OnceCell::new());
        let slot = Slot { number, weight: 0, cell: Arc::clone(&cell) };
        if let Some(former) = inner.slots.insert(key.clone(), slot) {
            inner.weight = inner.weight.saturating_sub(former.weight);
        }
        inner.order.push_back((key.clone(), number));
        self.evict_excess(&mut inner);
        (cell, number)
    }

    /// Records the weight of a fetched answer, if its slot has not been evicted.
    fn set_weight(&self, key: &K, number: u64, weight: usize) {
        let mut inner = self.lock();
        if let Some(slot) = inner.slots.get_mut(key).filter(|slot| slot.number == number) {
            slot.weight = weight;
            inner.weight = inner.weight.saturating_add(weight);
        }
        self.evict_excess(&mut inner);
    }

    /// Removes a slot, if it has not been evicted, whose answer is for nobody but those who wait for it: it evicts none
    /// that is valid.
    fn remove(&self, key: &K, number: u64) {
        let mut inner = self.lock();
        if inner.slots.get(key).is_some_and(|slot| slot.number == number) {
            inner.slots.remove(key);
        }
    }

    fn evict_excess(&self, inner: &mut CacheInner<K, V>) {
        while inner.slots.len() > self.capacity || inner.weight > self.weight {
            if !inner.evict_oldest() {
                return;
            }
        }
        // Slots that were removed or replaced have left their places in the order.
        if inner.order.len() > self.capacity.saturating_mul(2) {
            let CacheInner { slots, order, .. } = inner;
            order.retain(|(key, number)| slots.get(key).is_some_and(|slot| slot.number == *number));
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheInner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Answers that weigh nothing.
    fn cache<K: Eq + Hash + Clone, V: Clone>(capacity: usize) -> AnswerCache<K, V> {
        AnswerCache::new(capacity, 0, |_key, _value| 0)
    }

    #[tokio::test]
    async fn an_answer_is_fetched_once_until_it_is_old() {
        let cache = cache(8);
        let fetched = AtomicUsize::new(0);
        let fetch = async |ttl| {
            tokio::task::yield_now().await;
            (fetched.fetch_add(1, Ordering::Relaxed), ttl)
        };
        let long = || fetch(Duration::from_mins(1));
        let (a, b) = tokio::join!(cache.get_or_fetch(&"k", long), cache.get_or_fetch(&"k", long));
        assert_eq!((a, b, cache.get_or_fetch(&"k", long).await), (0, 0, 0));
        assert_eq!(cache.get_or_fetch(&"old", || fetch(Duration::ZERO)).await, 1);
        assert_eq!((cache.get(&"k"), cache.get(&"old"), cache.get(&"none")), (Some(0), None, None));
        assert_eq!(cache.get_or_fetch(&"old", long).await, 2);
    }

    #[tokio::test]
    async fn the_oldest_answer_makes_room() {
        let cache = cache(4);
        for key in 0..100 {
            cache.get_or_fetch(&key, || async move { (key, Duration::from_mins(1)) }).await;
        }
        assert_eq!(cache.len(), 4);
        assert_eq!(cache.get_or_fetch(&99, || async { (0, Duration::ZERO) }).await, 99);
    }

    #[tokio::test]
    async fn answers_that_are_not_kept_push_out_none_that_are() {
        let cache = cache(4);
        cache.get_or_fetch(&0, || async { (7, Duration::from_mins(1)) }).await;
        for key in 1..100 {
            cache.get_or_fetch(&key, || async { (0, Duration::ZERO) }).await;
            assert!(cache.lock().order.len() <= 8);
        }
        assert_eq!((cache.get(&0), cache.get(&99), cache.len()), (Some(7), None, 1));
    }

    #[tokio::test]
    async fn the_oldest_answers_make_room_for_heavy_ones() {
        let cache = AnswerCache::new(100, 1_000, |_key, value: &usize| *value);
        let long = Duration::from_mins(1);
        for key in 0..10 {
            cache.get_or_fetch(&key, || async { (100, long) }).await;
        }
        assert_eq!(cache.len(), 10);
        cache.get_or_fetch(&10, || async { (250, long) }).await;
        assert_eq!(cache.len(), 8, "three have gone");
        assert_eq!(cache.get_or_fetch(&11, || async { (2_000, long) }).await, 2_000);
        assert_eq!(cache.len(), 0, "it is too heavy to be kept");
        assert_eq!(cache.lock().weight, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn old_answers_go_when_another_one_comes() {
        let cache = AnswerCache::new(100, 1_000, |_key, value: &usize| *value);
        for key in 0..8 {
            cache.get_or_fetch(&key, || async { (100, Duration::from_secs(1)) }).await;
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        cache.get_or_fetch(&3, || async { (50, Duration::from_mins(1)) }).await;
        cache.get_or_fetch(&9, || async { (50, Duration::from_mins(1)) }).await;
        assert_eq!((cache.len(), cache.lock().weight), (2, 100));
    }

    #[tokio::test]
    async fn a_fetch_that_is_given_up_is_taken_over() {
        let cache = Arc::new(cache(4));
        let stuck = cache.get_or_fetch(&1, std::future::pending);
        assert!(tokio::time::timeout(Duration::from_millis(1), stuck).await.is_err());
        assert_eq!(cache.get_or_fetch(&1, || async { (7, Duration::from_secs(1)) }).await, 7);
    }
}
