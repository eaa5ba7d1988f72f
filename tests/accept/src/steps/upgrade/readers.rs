//! Watches and lists during an upgrade, through all endpoints at once: each watch gets every write once and in order,
//! and each list has all writes acknowledged before it.

use super::load::{Acknowledged, RETRIABLE};
use anyhow::{Context, Result, bail, ensure};
use http::{Method, StatusCode};
use instance::wait;
use kit::{Endpoint, Lines};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Until a watch that has ended is opened again, and a page that was not answered is asked for again.
const RETRY: Duration = Duration::from_millis(100);
/// How long an answer may take to begin.
const BEGUN: Duration = Duration::from_secs(20);
/// Until a watch must have been told everything.
const LATE: Duration = Duration::from_mins(2);
/// Between two lists.
const PAUSE: Duration = Duration::from_secs(1);
/// Objects on a page.
const PAGE: usize = 40;
/// How often a page is asked for.
const TRIES: usize = 300;
/// Examples of what is wrong.
const EXAMPLES: usize = 5;

/// What a watch was told of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    revision: u64,
    kind: String,
    name: String,
}

/// The events of one watch, and how often it was opened.
#[derive(Clone, Debug, Default)]
struct WatchLog(Arc<Mutex<(Vec<Event>, usize)>>);

impl WatchLog {
    fn lock(&self) -> MutexGuard<'_, (Vec<Event>, usize)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) {
        self.lock().1 += 1;
    }

    fn add(&self, event: Event) {
        self.lock().0.push(event);
    }

    fn events(&self) -> Vec<Event> {
        self.lock().0.clone()
    }

    fn has_come_to(&self, revision: u64) -> bool {
        self.lock().0.last().is_some_and(|event| event.revision >= revision)
    }
}

/// Readers at work, until [`Readers::end`].
pub(super) struct Readers {
    end: Arc<AtomicBool>,
    running: Option<JoinHandle<Result<usize>>>,
    /// The log of each watch, by the name of its endpoint.
    watches: Vec<(String, WatchLog)>,
    from: u64,
}

/// What the readers must have seen in the end.
pub(super) struct Expected {
    /// Revisions of writes that were acknowledged.
    pub(super) revisions: BTreeSet<u64>,
    /// The objects that are there, and their revisions.
    pub(super) there: BTreeMap<String, u64>,
    /// When that was.
    pub(super) at: u64,
    /// A write after that, when nobody wrote any more.
    pub(super) last: u64,
}

impl Readers {
    /// Begins, after this revision of a collection.
    pub(super) fn begin(
        ways: &[(String, Endpoint)],
        path: &str,
        from: u64,
        acknowledged: Acknowledged,
    ) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let watches: Vec<(String, WatchLog)> =
            ways.iter().map(|(name, _)| (name.clone(), WatchLog::default())).collect();
        let endpoints: Vec<Endpoint> = ways.iter().map(|(_, way)| way.clone()).collect();
        let (path, told, of_thread) = (path.to_owned(), watches.clone(), Arc::clone(&end));
        let running = std::thread::spawn(move || -> Result<usize> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async move {
                let mut running = JoinSet::new();
                for (way, (name, told)) in endpoints.iter().zip(told) {
                    let end = Arc::clone(&of_thread);
                    let watch = Watch { way: way.clone(), path: path.clone(), from, told, end };
                    running.spawn(async move { watch.run().await.context(name).map(|()| 0) });
                }
                running.spawn(list(endpoints, path, acknowledged, of_thread));
                let mut lists = 0;
                while let Some(done) = running.join_next().await {
                    lists += done??;
                }
                anyhow::Ok(lists)
            })
        });
        Self { end, running: Some(running), watches, from }
    }

    /// Waits until each was told everything, ends them, and compares; gives a line for a person.
    pub(super) fn end(mut self, expected: &Expected) -> Result<String> {
        let running = self.running.take().context("they were ended before")?;
        let begun = Instant::now();
        let waits = || self.watches.iter().any(|(_, told)| !told.has_come_to(expected.last));
        while waits() && !running.is_finished() && begun.elapsed() < LATE && !wait::interrupted() {
            std::thread::sleep(RETRY);
        }
        self.end.store(true, Ordering::Relaxed);
        let Ok(lists) = running.join() else { bail!("the readers died") };
        let lists = lists?;
        let told: Vec<(String, Vec<Event>)> =
            self.watches.iter().map(|(name, told)| (name.clone(), told.events())).collect();
        let wrong = judge(&told, self.from, expected);
        ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        ensure!(lists > 0, "nothing was listed");
        let opened: usize = self.watches.iter().map(|(_, told)| told.lock().1).sum();
        let events = told.first().map_or(0, |(_, events)| events.len());
        Ok(format!("{events} events by each of {} watches, opened {opened} times; {lists} lists", told.len()))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// What the watches were told wrongly.
fn judge(told: &[(String, Vec<Event>)], from: u64, expected: &Expected) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, events) in told {
        for (before, next) in events.iter().zip(events.iter().skip(1)) {
            if next.revision <= before.revision {
                wrong.push(format!("{name}: revision {} after {}", next.revision, before.revision));
            }
        }
        let seen: BTreeSet<u64> = events.iter().map(|event| event.revision).collect();
        let mut due = expected.revisions.clone();
        due.insert(expected.last);
        let missed: Vec<&u64> = due.difference(&seen).take(EXAMPLES).collect();
        if !missed.is_empty() {
            wrong.push(format!("{name}: was not told of the revisions {missed:?}"));
        }
        let there: BTreeMap<&str, u64> = expected
            .there
            .iter()
            .filter(|(_, revision)| **revision > from)
            .map(|(name, revision)| (name.as_str(), *revision))
            .collect();
        let added_up = add_up(events, expected.at);
        let names: BTreeSet<&str> = there.keys().chain(added_up.keys()).copied().collect();
        let different = names.iter().filter(|name| there.get(**name) != added_up.get(**name));
        let different: Vec<&&str> = different.take(EXAMPLES).collect();
        if !different.is_empty() {
            wrong.push(format!("{name}: its events do not add up to the list: {different:?}"));
        }
    }
    // What nobody has acknowledged, such as a status, is known by the others.
    let Some(((first, events), others)) = told.split_first() else { return wrong };
    let events = until(events, expected.last);
    for (name, other) in others {
        let other = until(other, expected.last);
        let at = events.iter().zip(&other).position(|(one, two)| one != two);
        let at = at.or_else(|| (events.len() != other.len()).then(|| events.len().min(other.len())));
        if let Some(at) = at {
            wrong.push(format!(
                "{first} and {name} were not told the same: {:?} and {:?}",
                events.get(at),
                other.get(at)
            ));
        }
    }
    wrong
}

fn until(events: &[Event], last: u64) -> Vec<Event> {
    events.iter().filter(|event| event.revision <= last).cloned().collect()
}

/// The objects that are there after these events, as of a revision.
fn add_up(events: &[Event], at: u64) -> BTreeMap<&str, u64> {
    let mut there = BTreeMap::new();
    for event in events.iter().filter(|event| event.revision <= at) {
        if event.kind == "DELETED" {
            there.remove(event.name.as_str());
        } else {
            there.insert(event.name.as_str(), event.revision);
        }
    }
    there
}

/// A watch that resumes from its last resource version whenever it ends.
struct Watch {
    way: Endpoint,
    path: String,
    from: u64,
    told: WatchLog,
    end: Arc<AtomicBool>,
}

impl Watch {
    /// The error is what no server may say to it.
    async fn run(mut self) -> Result<()> {
        while !self.end.load(Ordering::Relaxed) {
            // Whoever cannot be reached, or breaks off, is asked again.
            if let Some(mut connected) = self.open().await? {
                self.told.opened();
                while !self.end.load(Ordering::Relaxed) {
                    match tokio::time::timeout(RETRY, connected.lines.line()).await {
                        Ok(Ok(Some(line))) if !self.hear(&line)? => break,
                        Ok(Ok(None) | Err(_)) => break,
                        Ok(Ok(Some(_))) | Err(_) => {}
                    }
                }
            }
            tokio::time::sleep(RETRY).await;
        }
        Ok(())
    }

    /// `None` where it is to be tried again.
    async fn open(&self) -> Result<Option<WatchConnection>> {
        let from = self.from;
        let path = format!("{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}", self.path);
        let opening = async {
            let mut connection = self.way.connect().await?;
            let response = connection.open(Method::GET, &path, String::new().into()).await?;
            anyhow::Ok((connection, response))
        };
        let Ok(Ok((connection, response))) = tokio::time::timeout(BEGUN, opening).await else {
            return Ok(None);
        };
        match response.status() {
            StatusCode::OK => {
                Ok(Some(WatchConnection { lines: Lines::of(response), _connection: connection }))
            }
            status if is_retriable(status) => Ok(None),
            status => bail!("a watch from {from} is answered {status}"),
        }
    }

    /// Whether it goes on.
    fn hear(&mut self, line: &[u8]) -> Result<bool> {
        let shown = || String::from_utf8_lossy(line).into_owned();
        let event: Value = serde_json::from_slice(line).with_context(shown)?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/type");
        if !["ADDED", "MODIFIED", "DELETED", "BOOKMARK"].contains(&kind) {
            ensure!(event.pointer("/object/code") != Some(&Value::from(410)), "{}", shown());
            return Ok(false);
        }
        self.from = text("/object/metadata/resourceVersion").parse::<u64>().with_context(shown)?;
        if kind != "BOOKMARK" {
            let name = text("/object/metadata/name").to_owned();
            self.told.add(Event { revision: self.from, kind: kind.to_owned(), name });
        }
        Ok(true)
    }
}

struct WatchConnection {
    lines: Lines,
    /// It lives as long as the answer.
    _connection: kit::Connection,
}

fn is_retriable(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || RETRIABLE.contains(&status)
}

/// Lists again and again, each page by another way than the one before; gives how often.
async fn list(
    ways: Vec<Endpoint>,
    path: String,
    acknowledged: Acknowledged,
    end: Arc<AtomicBool>,
) -> Result<usize> {
    let (mut lists, mut newest) = (0, 0);
    while !end.load(Ordering::Relaxed) {
        tokio::time::sleep(PAUSE).await;
        let due = acknowledged.there();
        let (revision, names) = whole(&ways, lists, &path).await.context("a list")?;
        ensure!(revision >= newest, "a list of {revision} after one of {newest}");
        newest = revision;
        let lost: Vec<&String> = due.difference(&names).take(EXAMPLES).collect();
        ensure!(lost.is_empty(), "acknowledged and not in the list of {revision}: {lost:?}");
        lists += 1;
    }
    Ok(lists)
}

/// A list, page by page: its revision, and the names of the clusters' namespaces.
async fn whole(ways: &[Endpoint], first: usize, path: &str) -> Result<(u64, BTreeSet<String>)> {
    let (mut names, mut revision, mut token) = (BTreeSet::new(), None, String::new());
    for page in first.. {
        let continued = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let list = page_of(ways, page, &format!("{path}?limit={PAGE}{continued}")).await?;
        let text = |pointer: &str| list.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let of_page = text("/metadata/resourceVersion").parse::<u64>().context("the revision of a list")?;
        ensure!(*revision.get_or_insert(of_page) == of_page, "pages of {revision:?} and {of_page}");
        for item in list.pointer("/items").and_then(Value::as_array).context("no list")? {
            let name = item.pointer("/spec/namespace").and_then(Value::as_str).context("no name")?;
            ensure!(names.insert(name.to_owned()), "{name} is listed twice");
        }
        text("/metadata/continue").clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    Ok((revision.context("no page")?, names))
}

/// A page, by whichever way answers.
async fn page_of(ways: &[Endpoint], turn: usize, path: &str) -> Result<Value> {
    let mut last = String::new();
    for attempt in turn..turn + TRIES {
        let way = ways.get(attempt % ways.len().max(1)).context("no way")?;
        let asking = async { way.connect().await?.call(Method::GET, path, String::new().into()).await };
        match tokio::time::timeout(BEGUN, asking).await {
            Ok(Ok((StatusCode::OK, answer))) => return Ok(serde_json::from_slice(&answer)?),
            Ok(Ok((status, answer))) => {
                last = format!("{status}: {}", String::from_utf8_lossy(&answer));
                ensure!(is_retriable(status), "{path}: {last}");
            }
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_) => "no answer".clone_into(&mut last),
        }
        tokio::time::sleep(RETRY).await;
    }
    bail!("{path}: {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64, kind: &str, name: &str) -> Event {
        Event { revision, kind: kind.to_owned(), name: name.to_owned() }
    }

    fn expected() -> Expected {
        Expected {
            revisions: BTreeSet::from([11, 13]),
            // The first was there before.
            there: BTreeMap::from([("old".to_owned(), 9), ("b".to_owned(), 15)]),
            at: 16,
            last: 17,
        }
    }

    fn told() -> Vec<Event> {
        vec![
            event(11, "ADDED", "a"),
            event(13, "ADDED", "b"),
            event(14, "DELETED", "a"),
            event(15, "MODIFIED", "b"),
            event(17, "ADDED", "end"),
        ]
    }

    fn wrong(other: Vec<Event>) -> Vec<String> {
        judge(&[("one".to_owned(), told()), ("two".to_owned(), other)], 10, &expected())
    }

    #[test]
    fn a_watch_that_was_told_everything_is_good_whatever_comes_afterwards() {
        let mut more = told();
        more.push(event(18, "MODIFIED", "end"));
        assert_eq!(wrong(more), Vec::<String>::new());
    }

    #[test]
    fn what_a_watch_has_missed_heard_twice_or_out_of_order_is_found() {
        let without = |revision: u64| -> Vec<Event> {
            told().into_iter().filter(|event| event.revision != revision).collect()
        };
        let missed = wrong(without(11));
        assert!(missed.iter().any(|what| what == "two: was not told of the revisions [11]"), "{missed:?}");
        let unfinished = wrong(without(17));
        assert!(unfinished.iter().any(|what| what.contains("[17]")), "{unfinished:?}");
        let kept = wrong(without(14));
        assert!(kept.iter().any(|what| what.contains("do not add up to the list: [\"a\"]")), "{kept:?}");
        let mut twice = told();
        twice.insert(1, event(11, "ADDED", "a"));
        let twice = wrong(twice);
        assert!(twice.iter().any(|what| what == "two: revision 11 after 11"), "{twice:?}");
        let mut status = told();
        status.insert(1, event(12, "MODIFIED", "a"));
        let status = wrong(status);
        assert!(status.iter().any(|what| what.contains("were not told the same")), "{status:?}");
    }
}
