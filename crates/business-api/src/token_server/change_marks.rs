//! Marks at objects whose content in the registry has changed. A mark wakes the controller, which then measures what
//! the registry keeps below the object's prefix.

use crate::kinds::KindTable;
use business_types::names::{REGISTRY_CHANGED_ANNOTATION, REGISTRY_PUSHED_ANNOTATION};
use business_types::registry::{AND_MORE, ManifestName, RegistryStatus, UNTAGGED_MAX};
use meta::object::Object;
use meta::time;
use runtime::Clock;
use serde_json::json;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::model::Write;
use store::read::At;
use store::{Access, Error, Key, Revision, Store};
use tokio::sync::Notify;

/// The most objects that wait for a mark.
const PENDING_MAX: usize = 1024;
/// Notifications of the registry within this time become one mark per object.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// The queue of objects to be marked. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PendingMarks(Arc<PendingObjects>);

/// The objects that wait for a mark.
#[derive(Debug, Default)]
struct PendingObjects {
    /// The manifests that were pushed to each object.
    objects: Mutex<HashMap<Key, BTreeSet<ManifestName>>>,
    is_not_empty: Notify,
}

/// How often a write of a mark is tried when it conflicts with others.
const ATTEMPTS_MAX: usize = 5;

/// Writes marks to objects.
#[derive(Clone, Debug)]
pub struct Marker {
    /// The store of the objects.
    pub store: Store,
    /// Their kinds, which read the accounts.
    pub kinds: KindTable,
    /// The clock.
    pub clock: Clock,
}

impl PendingMarks {
    /// Queues a mark for an object whose content has changed, with the manifests that were pushed. Returns false if
    /// there is no room.
    pub fn add(&self, object: &Key, pushed: &BTreeSet<ManifestName>) -> bool {
        let mut objects = self.lock();
        let (count, known) = (objects.len(), objects.get(object));
        let names = known.map_or(0, BTreeSet::len).saturating_add(pushed.len());
        if known.is_none() && count >= PENDING_MAX || names > UNTAGGED_MAX {
            tracing::debug!("too many changes of the registry wait to be told");
            return false;
        }
        objects.entry(object.clone()).or_default().extend(pushed.iter().cloned());
        drop(objects);
        self.0.is_not_empty.notify_one();
        true
    }

    fn drain(&self) -> HashMap<Key, BTreeSet<ManifestName>> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, BTreeSet<ManifestName>>> {
        self.0.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marker {
    /// Writes the queued marks. Never returns.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn run(self, pending: PendingMarks) {
        loop {
            pending.0.is_not_empty.notified().await;
            tokio::time::sleep(BATCH_DELAY).await;
            for (object, pushed) in pending.drain() {
                let Err(error) = self.record(&object, &pushed).await else { continue };
                tracing::debug!(name = &*object.name, %error, "a change of the registry is not told");
                // The regular measurement finds other changes.
                if !pushed.is_empty() {
                    pending.add(&object, &pushed);
                }
            }
        }
    }

    /// Whether the object names all of these manifests until they are measured, by the cache. They need another mark
    /// all the same: a measurement that is under way may not have found them.
    pub async fn is_recorded(&self, key: &Key, pushed: &BTreeSet<ManifestName>) -> bool {
        let access = Access::internal("events of the registry");
        let Ok(entry) = self.store.get(&access, key, At::Any).await else { return false };
        Object::from_stored(&entry.body, entry.revision.0).is_ok_and(|object| are_recorded(&object, pushed))
    }

    /// Writes a mark with these manifests to the object before it returns: later, nothing may lead to an untagged
    /// manifest.
    pub async fn record(&self, key: &Key, manifests: &BTreeSet<ManifestName>) -> Result<(), Error> {
        let access = Access::internal("events of the registry");
        for _try in 0..ATTEMPTS_MAX {
            match self.mark(&access, key, manifests).await {
                Ok(_) | Err(Error::NotFound) => return Ok(()),
                Err(Error::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict)
    }

    async fn mark(
        &self,
        access: &Access,
        key: &Key,
        pushed: &BTreeSet<ManifestName>,
    ) -> Result<Revision, Error> {
        let corrupt = |error: serde_json::Error| Error::Corrupt(error.to_string());
        let entry = self.store.get(access, key, At::Latest).await?;
        let mut object = Object::from_stored(&entry.body, entry.revision.0).map_err(corrupt)?;
        let waiting = unmeasured(&object, pushed).map_err(corrupt)?;
        let list = ["metadata", "annotations", REGISTRY_PUSHED_ANNOTATION];
        if waiting.is_empty() {
            object.remove(&list);
        } else {
            object.set(&list, json!(waiting));
        }
        let mark = next_mark(object.annotation(REGISTRY_CHANGED_ANNOTATION), self.clock.unix_micros());
        object.set(&["metadata", "annotations", REGISTRY_CHANGED_ANNOTATION], json!(mark));
        let row = self.kinds.accounts().find(|row| row.kind == key.kind).ok_or(Error::NotFound)?;
        let account = (row.read)(&entry.body).map_err(corrupt)?;
        self.store.write(access, Write::rewrite(&entry, object.to_stored(), account)).await
    }
}

/// A mark for a change at this time. It sorts after the last mark, even if the clock of its writer was ahead.
fn next_mark(last: Option<&str>, unix_micros: i64) -> String {
    let last = last.and_then(|last| time::parse_micro(last).ok());
    time::rfc3339_micro(last.map_or(unix_micros, |last| unix_micros.max(last.saturating_add(1))))
}

/// The manifests that were pushed and not measured yet, in two generations. Under constant pushes each measurement ends
/// after a newer mark, so a single list would never be cleared.
#[derive(Debug, Default)]
struct PushedManifests<'a> {
    /// The older generation: manifests recorded with `mark` or before.
    before: Vec<&'a str>,
    /// The mark between the generations. All marks have the same width, so as texts they sort by time.
    mark: Option<&'a str>,
    /// The newer generation: manifests recorded after `mark`.
    since: Vec<&'a str>,
}

impl<'a> PushedManifests<'a> {
    /// Parses the annotation: `BEFORE… MARK SINCE…`, or `SINCE…` alone.
    fn of(list: &'a str) -> Self {
        let mut pushed = Self::default();
        for word in list.split_whitespace() {
            if word == AND_MORE || word.contains('@') {
                pushed.since.push(word);
            } else {
                pushed.before.append(&mut pushed.since);
                pushed.mark = Some(word);
            }
        }
        pushed
    }

    /// If a measurement has covered the older generation, drops it and makes the newer one the older: its manifests
    /// were recorded with the mark `changed` or before.
    fn rotate(self, changed: &'a str, measured: Option<&str>) -> Self {
        if self.mark.is_some_and(|mark| measured.is_none_or(|measured| measured < mark)) {
            return self;
        }
        Self { before: self.since, mark: Some(changed), since: Vec::new() }
    }

    /// Adds pushed manifests to the newer generation, also those of the older one: a manifest may have been deleted,
    /// and pushed again during a measurement that has not found it. Returns whether there was room for all.
    fn extend(&mut self, new: &'a [String]) -> bool {
        let since = &self.since;
        let new: Vec<&str> = new.iter().map(String::as_str).filter(|name| !since.contains(name)).collect();
        self.since.extend(new);
        let since = &self.since;
        self.before.retain(|name| !since.contains(name));
        let held = self.before.iter().filter(|word| **word != AND_MORE).count();
        let room = UNTAGGED_MAX.saturating_sub(held);
        let was_more = self.since.contains(&AND_MORE);
        self.since.retain(|word| *word != AND_MORE);
        let are_all = self.since.len() <= room;
        if was_more || !are_all {
            self.since.truncate(room);
            self.since.push(AND_MORE);
        }
        are_all
    }

    /// The words of the annotation.
    fn words(&self) -> Vec<&'a str> {
        if self.before.is_empty() {
            return self.since.clone();
        }
        self.before.iter().chain(&self.mark).chain(&self.since).copied().collect()
    }
}

/// The annotation with the manifests that were pushed and not measured yet, with these added. If there are too many, it
/// says so: then nothing can be pushed until they are measured.
fn unmeasured(object: &Object, pushed: &BTreeSet<ManifestName>) -> Result<String, serde_json::Error> {
    let status = RegistryStatus::of(object)?;
    let changed = object.annotation(REGISTRY_CHANGED_ANNOTATION);
    let is_measured = changed.is_some() && !status.awaits_measurement(object);
    let waiting = object.annotation(REGISTRY_PUSHED_ANNOTATION).filter(|_| !is_measured).unwrap_or_default();
    let new: Vec<String> = pushed.iter().map(ToString::to_string).collect();
    let mut all = PushedManifests::of(waiting);
    if let Some(changed) = changed {
        all = all.rotate(changed, status.measured_change.as_deref());
    }
    if !all.extend(&new) {
        let name = object.name();
        tracing::warn!(name, "more was pushed than is remembered until it is measured");
    }
    Ok(all.words().join(" "))
}

/// Whether the object awaits a measurement and its newer generation has all of these manifests, or says that there were
/// more. The older generation does not count: a measurement that is under way may clear it.
fn are_recorded(object: &Object, pushed: &BTreeSet<ManifestName>) -> bool {
    let Ok(status) = RegistryStatus::of(object) else { return false };
    let waiting = object.annotation(REGISTRY_PUSHED_ANNOTATION).unwrap_or_default();
    let kept: HashSet<&str> = PushedManifests::of(waiting).since.into_iter().collect();
    let are_named = || pushed.iter().all(|name| kept.contains(&*name.to_string()));
    status.awaits_measurement(object) && (kept.contains(AND_MORE) || are_named())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use store::KindId;

    fn name(number: usize) -> ManifestName {
        ManifestName::new("acme/shop", &format!("sha256:{number:064x}")).unwrap()
    }

    fn list(numbers: &[usize]) -> String {
        numbers.iter().map(|number| name(*number).to_string()).collect::<Vec<_>>().join(" ")
    }

    fn object(changed: &str, waiting: &[usize], status: &Value) -> Object {
        let annotations =
            json!({REGISTRY_CHANGED_ANNOTATION: changed, REGISTRY_PUSHED_ANNOTATION: list(waiting)});
        Object::new(json!({"metadata": {"annotations": annotations}, "status": status})).unwrap()
    }

    #[test]
    fn what_waits_to_be_measured_is_kept_and_the_rest_is_let_go() {
        let kept = |object: &Object, pushed: &[usize]| {
            unmeasured(object, &pushed.iter().map(|number| name(*number)).collect()).unwrap()
        };
        let new = Object::new(json!({"metadata": {}})).unwrap();
        assert_eq!(kept(&new, &[]), "");
        assert_eq!(kept(&new, &[2, 1]), list(&[1, 2]));
        let waits = object("t2", &[1], &json!({"measuredChange": "t1", "untagged": [list(&[7])]}));
        assert_eq!(
            kept(&waits, &[1, 3, 7]),
            list(&[1, 3, 7]),
            "who measures may not find what was measured before"
        );
        assert_eq!(kept(&waits, &[3]), format!("{} t2 {}", list(&[1]), list(&[3])));
        let measured = object("t2", &[1], &json!({"measuredChange": "t2"}));
        assert_eq!(kept(&measured, &[3]), list(&[3]));
        assert_eq!(kept(&measured, &[]), "");
        let many: Vec<usize> = (0..UNTAGGED_MAX).collect();
        let full = object("t2", &many, &json!({}));
        let others: Vec<usize> = many.iter().copied().filter(|number| *number != 7).collect();
        assert_eq!(kept(&full, &[7]), format!("{} t2 {}", list(&others), list(&[7])), "there it is");
        assert_eq!(kept(&full, &[999]), format!("{} t2 more", list(&many)));
        let more = format!("{} more", list(&many));
        let mut over = full;
        over.set(&["metadata", "annotations", REGISTRY_PUSHED_ANNOTATION], json!(more));
        assert_eq!(kept(&over, &[]), format!("{more} t2"), "it is not forgotten that there was more");
        assert_eq!(kept(&over, &[999]), format!("{more} t2 more"));
        over.set(&["status", "measuredChange"], json!("t2"));
        assert_eq!(kept(&over, &[3]), list(&[3]));
    }

    /// The object after this mark, which tells of a push.
    fn is_marked(object: &mut Object, mark: &str, number: usize) {
        let waiting = unmeasured(object, &names(&[number])).unwrap();
        object.set(&["metadata", "annotations", REGISTRY_PUSHED_ANNOTATION], json!(waiting));
        object.set(&["metadata", "annotations", REGISTRY_CHANGED_ANNOTATION], json!(mark));
    }

    #[test]
    fn who_pushes_during_each_measurement_is_rid_of_what_was_measured() {
        let mut object = Object::new(json!({"metadata": {}})).unwrap();
        let mark = |number: usize| next_mark(None, i64::try_from(number).unwrap() * 1_000_000);
        let mut begun = None;
        for number in 1..2 * UNTAGGED_MAX {
            is_marked(&mut object, &mark(number), number);
            // A look ends here, and the next one begins at once.
            if number.is_multiple_of(50)
                && let Some(begun) = begun.replace(number)
            {
                object.set(&["status", "measuredChange"], json!(mark(begun)));
            }
            let waiting = object.annotation(REGISTRY_PUSHED_ANNOTATION).unwrap();
            assert!(!waiting.contains(AND_MORE), "{number}");
            let measured = RegistryStatus::of(&object).unwrap().measured_change.unwrap_or_default();
            let mut waits = (1..=number).filter(|number| mark(*number) > measured);
            assert!(waits.all(|number| waiting.contains(&list(&[number]))), "{number}");
        }
    }

    #[test]
    fn a_mark_sorts_behind_the_last_one_whatever_the_clock_says() {
        let first = next_mark(None, 5_000_000);
        assert_eq!(next_mark(Some(&first), 7_000_000), next_mark(None, 7_000_000));
        assert_eq!(next_mark(Some(&first), 3_000_000), next_mark(None, 5_000_001));
        assert_eq!(next_mark(Some("nonsense"), 3_000_000), next_mark(None, 3_000_000));
    }

    fn names(numbers: &[usize]) -> BTreeSet<ManifestName> {
        numbers.iter().map(|number| name(*number)).collect()
    }

    #[test]
    fn what_is_kept_until_it_is_measured_is_not_stored_again() {
        let kept = |object: &Object, numbers: &[usize]| are_recorded(object, &names(numbers));
        let waits = object("t2", &[1, 2], &json!({"measuredChange": "t1", "untagged": [list(&[7])]}));
        assert!(kept(&waits, &[1, 2]) && !kept(&waits, &[1, 3]) && !kept(&waits, &[1, 7]));
        let mut turned = waits.clone();
        let waiting = format!("{} t1 {}", list(&[1]), list(&[2]));
        turned.set(&["metadata", "annotations", REGISTRY_PUSHED_ANNOTATION], json!(waiting));
        assert!(kept(&turned, &[2]) && !kept(&turned, &[1]), "the next mark may let it go");
        let mut over = waits;
        over.set(&["metadata", "annotations", REGISTRY_PUSHED_ANNOTATION], json!("more"));
        assert!(kept(&over, &[3]), "nothing is pushed there until all is measured");
        let measured = object("t2", &[1], &json!({"measuredChange": "t2", "untagged": [list(&[7])]}));
        assert!(!kept(&measured, &[1]) && !kept(&measured, &[7]), "the next mark lets it go");
    }

    #[test]
    fn of_what_waits_to_be_marked_each_is_there_once() {
        let pending = PendingMarks::default();
        let key = |object: &str| Key::new(KindId(1), "web", object);
        for _again in 0..10_000 {
            assert!(pending.add(&key("shop"), &names(&[1])));
        }
        let many: Vec<usize> = (0..UNTAGGED_MAX).collect();
        assert!(!pending.add(&key("shop"), &names(&many)), "those have to be stored at once");
        assert!(pending.add(&key("shop"), &names(&[2])) && pending.add(&key("other"), &names(&[])));
        let told = HashMap::from([(key("shop"), names(&[1, 2])), (key("other"), names(&[]))]);
        assert_eq!(pending.drain(), told);
        assert!(pending.drain().is_empty());
    }
}
