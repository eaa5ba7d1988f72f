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

/// Objects that wait to be marked.
const WAITING_MAX: usize = 1024;
/// Reports of the registry within this time become one mark for each object.
const TOGETHER: Duration = Duration::from_secs(1);

/// Tells the controller what has changed in the registry, by a mark at the object: it measures what is kept below its prefix.
/// Its clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<Waiting>);

/// Objects that wait to be marked.
#[derive(Debug, Default)]
struct Waiting {
    /// The manifests that were pushed to each object.
    objects: Mutex<HashMap<Key, BTreeSet<ManifestName>>>,
    is_some: Notify,
}

/// How often a mark is tried when somebody else is faster.
const TRIES: usize = 5;

/// Writes the marks.
#[derive(Clone, Debug)]
pub struct Marker {
    /// The objects.
    pub store: Store,
    /// What they mean to the ledger.
    pub kinds: KindTable,
    /// The clock.
    pub clock: Clock,
}

impl Heard {
    /// Records that something below the object's prefix has changed, by these pushes among others. Returns whether
    /// there was room.
    pub fn tell(&self, object: &Key, pushed: &BTreeSet<ManifestName>) -> bool {
        let mut objects = self.lock();
        let (count, known) = (objects.len(), objects.get(object));
        let names = known.map_or(0, BTreeSet::len).saturating_add(pushed.len());
        if known.is_none() && count >= WAITING_MAX || names > UNTAGGED_MAX {
            tracing::debug!("too many changes of the registry wait to be told");
            return false;
        }
        objects.entry(object.clone()).or_default().extend(pushed.iter().cloned());
        drop(objects);
        self.0.is_some.notify_one();
        true
    }

    fn take(&self) -> HashMap<Key, BTreeSet<ManifestName>> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, BTreeSet<ManifestName>>> {
        self.0.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marker {
    /// Writes what is heard, for ever.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn run(self, heard: Heard) {
        loop {
            heard.0.is_some.notified().await;
            tokio::time::sleep(TOGETHER).await;
            for (object, pushed) in heard.take() {
                let Err(error) = self.pushed(&object, &pushed).await else { continue };
                tracing::debug!(name = &*object.name, %error, "a change of the registry is not told");
                // Other changes that cannot be written are found by the regular measurement.
                if !pushed.is_empty() {
                    heard.tell(&object, &pushed);
                }
            }
        }
    }

    /// Whether all of these are kept at the object until they are measured, by what is known here. A measurement that is under way
    /// may not have found them: they have to be told with the next mark.
    pub async fn keeps(&self, key: &Key, pushed: &BTreeSet<ManifestName>) -> bool {
        let access = Access::internal("events of the registry");
        let Ok(entry) = self.store.get(&access, key, At::Any).await else { return false };
        Object::from_stored(&entry.body, entry.revision.0).is_ok_and(|object| are_kept(&object, pushed))
    }

    /// Stores at the object what was pushed, before it returns: later nothing may lead to it.
    pub async fn pushed(&self, key: &Key, manifests: &BTreeSet<ManifestName>) -> Result<(), Error> {
        let access = Access::internal("events of the registry");
        for _try in 0..TRIES {
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
        let mark = mark_behind(object.annotation(REGISTRY_CHANGED_ANNOTATION), self.clock.unix_micros());
        object.set(&["metadata", "annotations", REGISTRY_CHANGED_ANNOTATION], json!(mark));
        let row = self.kinds.accounts().find(|row| row.kind == key.kind).ok_or(Error::NotFound)?;
        let account = (row.read)(&entry.body).map_err(corrupt)?;
        self.store.write(access, Write::rewrite(&entry, object.to_stored(), account)).await
    }
}

/// The mark of a change at this time. It sorts after the last one, whatever the clock of its writer said.
fn mark_behind(last: Option<&str>, unix_micros: i64) -> String {
    let last = last.and_then(|last| time::parse_micro(last).ok());
    time::rfc3339_micro(last.map_or(unix_micros, |last| unix_micros.max(last.saturating_add(1))))
}

/// The manifests that were pushed and not measured, in two generations. With pushes all the time, each measurement is followed
/// by a new mark, so a list that only goes as a whole would never go.
#[derive(Debug, Default)]
struct Pushed<'a> {
    /// Manifests that were told with `mark` or before.
    before: Vec<&'a str>,
    /// All marks have the same width: as texts they sort by time.
    mark: Option<&'a str>,
    /// Manifests that were told since then.
    since: Vec<&'a str>,
}

impl<'a> Pushed<'a> {
    /// As it stands in the annotation: `BEFORE… MARK SINCE…`, or `SINCE…` alone.
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

    /// Drops the manifests that a measurement has followed, and begins a new generation: those that are left were told with the
    /// mark `changed` or before.
    fn turns(self, changed: &'a str, measured: Option<&str>) -> Self {
        if self.mark.is_some_and(|mark| measured.is_none_or(|measured| measured < mark)) {
            return self;
        }
        Self { before: self.since, mark: Some(changed), since: Vec::new() }
    }

    /// Adds manifests that were pushed, also those that were told before: one may have been deleted, and pushed again during a
    /// measurement that has not found it. Returns whether there is room for all.
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

    fn words(&self) -> Vec<&'a str> {
        if self.before.is_empty() {
            return self.since.clone();
        }
        self.before.iter().chain(&self.mark).chain(&self.since).copied().collect()
    }
}

/// The list of manifests that were pushed and that no measurement has followed, with these added. If there are too many, it says
/// that there were more: until they are measured, nothing can be pushed.
fn unmeasured(object: &Object, pushed: &BTreeSet<ManifestName>) -> Result<String, serde_json::Error> {
    let status = RegistryStatus::of(object)?;
    let changed = object.annotation(REGISTRY_CHANGED_ANNOTATION);
    let is_measured = changed.is_some() && !status.awaits_measurement(object);
    let waiting = object.annotation(REGISTRY_PUSHED_ANNOTATION).filter(|_| !is_measured).unwrap_or_default();
    let new: Vec<String> = pushed.iter().map(ToString::to_string).collect();
    let mut all = Pushed::of(waiting);
    if let Some(changed) = changed {
        all = all.turns(changed, status.measured_change.as_deref());
    }
    if !all.extend(&new) {
        let name = object.name();
        tracing::warn!(name, "more was pushed than is remembered until it is measured");
    }
    Ok(all.words().join(" "))
}

/// Whether an object that awaits its measurement names all of these among what was told last, or says that there were more. What
/// stands before goes by a measurement that may be under way.
fn are_kept(object: &Object, pushed: &BTreeSet<ManifestName>) -> bool {
    let Ok(status) = RegistryStatus::of(object) else { return false };
    let waiting = object.annotation(REGISTRY_PUSHED_ANNOTATION).unwrap_or_default();
    let kept: HashSet<&str> = Pushed::of(waiting).since.into_iter().collect();
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
        let mark = |number: usize| mark_behind(None, i64::try_from(number).unwrap() * 1_000_000);
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
        let first = mark_behind(None, 5_000_000);
        assert_eq!(mark_behind(Some(&first), 7_000_000), mark_behind(None, 7_000_000));
        assert_eq!(mark_behind(Some(&first), 3_000_000), mark_behind(None, 5_000_001));
        assert_eq!(mark_behind(Some("nonsense"), 3_000_000), mark_behind(None, 3_000_000));
    }

    fn names(numbers: &[usize]) -> BTreeSet<ManifestName> {
        numbers.iter().map(|number| name(*number)).collect()
    }

    #[test]
    fn what_is_kept_until_it_is_measured_is_not_stored_again() {
        let kept = |object: &Object, numbers: &[usize]| are_kept(object, &names(numbers));
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
        let heard = Heard::default();
        let key = |object: &str| Key::new(KindId(1), "web", object);
        for _again in 0..10_000 {
            assert!(heard.tell(&key("shop"), &names(&[1])));
        }
        let many: Vec<usize> = (0..UNTAGGED_MAX).collect();
        assert!(!heard.tell(&key("shop"), &names(&many)), "those have to be stored at once");
        assert!(heard.tell(&key("shop"), &names(&[2])) && heard.tell(&key("other"), &names(&[])));
        let told = HashMap::from([(key("shop"), names(&[1, 2])), (key("other"), names(&[]))]);
        assert_eq!(heard.take(), told);
        assert!(heard.take().is_empty());
    }
}
