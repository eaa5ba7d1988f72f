//! Generated histories with steps in every order: commits, what the tail applies, what it dispatches, and when readers
//! read. Every reader is compared with a list of snapshots.

use crate::Error;
use crate::access::{Access, Authorizer, Sight, TenantSight, Visibility, authorize};
use crate::cache::ring::RingChange;
use crate::cache::state::Event;
use crate::cache::{Cache, CacheConfig, Kinds, Listen};
use crate::model::{Attributes, Entry, Key, Kind, KindId, Revision};
use crate::read::{At, ListQuery, Op, Page, Selection, WatchFrom, WatchItem, WatchQuery};
use crate::watch::Watch;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

const KIND: KindId = KindId(1);
const NAMESPACES: [&str; 3] = ["x", "x-b", "y"];
const NAMES: [&str; 3] = ["a", "b", "c"];
const APPS: [&str; 3] = ["web", "db", ""];
const COLORS: [&str; 2] = ["red", ""];
const TENANTS: [&str; 2] = ["t1", "t2"];

#[derive(Clone, Debug)]
enum SimulatedStep {
    /// A batch is committed.
    Commit(Vec<Edit>),
    /// Revisions are used up without an event.
    SkipRevisions,
    /// The tail applies at most so many events.
    Apply(usize),
    /// The tail dispatches what it has applied.
    Dispatch,
    Open {
        reader: Reader,
        from: u8,
    },
    ReadWatch {
        watch: usize,
        items: usize,
    },
    Bookmark {
        watch: usize,
    },
    PollList {
        list: usize,
    },
    List {
        reader: Reader,
        back: u8,
    },
    Page {
        reader: Reader,
        limit: usize,
    },
    NextPage {
        pager: usize,
    },
}

#[derive(Clone, Debug)]
struct Edit {
    place: (usize, usize),
    /// App, color and tenant; `None` deletes the object.
    state: Option<(usize, usize, usize)>,
    /// The object at this place moves here, if it can, and gets the new state.
    from: Option<(usize, usize)>,
}

fn path_of((namespace, name): (usize, usize)) -> String {
    format!("{}/{}", NAMESPACES[namespace], NAMES[name])
}

/// A selection and an access, by number.
#[derive(Clone, Copy, Debug)]
struct Reader {
    selection: usize,
    access: usize,
}

/// Namespace, label selector, field selector.
const SELECTIONS: [(Option<&str>, &str, &str); 9] = [
    (None, "", ""),
    (Some("x"), "", ""),
    (None, "app=web", ""),
    (None, "app!=web", ""),
    (Some("x-b"), "app in (web,db)", ""),
    (None, "", "spec.color=red"),
    (None, "", "metadata.name=a"),
    (Some("y"), "", "metadata.name=b"),
    (None, "app", "spec.color!=red"),
];
const ACCESSES: usize = 5;
/// More polls than any replay has chunks.
const REPLAY_POLLS: usize = 200;

/// An object in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ObjectState {
    revision: u64,
    state: (usize, usize, usize),
}

type Snapshot = BTreeMap<String, ObjectState>;

impl Reader {
    /// Whether the reader sees an object, decided by other code than the store's.
    fn sees(self, path: &str, (app, color, tenant): (usize, usize, usize)) -> bool {
        let (namespace, name) = path.split_once('/').unwrap();
        let (app, color) = (APPS[app], COLORS[color]);
        let selected = match self.selection {
            0 => true,
            1 => namespace == "x",
            2 => app == "web",
            3 => app != "web",
            4 => namespace == "x-b" && !app.is_empty(),
            5 => color == "red",
            6 => name == "a",
            7 => namespace == "y" && name == "b",
            _ => !app.is_empty() && color != "red",
        };
        selected
            && match self.access {
                0 => true,
                1 => tenant == 0,
                2 => tenant == 1 && namespace != "x",
                3 => tenant == 0 || namespace != "x",
                _ => false,
            }
    }

    fn selection(self) -> Selection {
        let (namespace, labels, fields) = SELECTIONS[self.selection];
        Selection {
            kind: KIND,
            namespace: namespace.map(str::to_owned),
            labels: labels.parse().unwrap(),
            fields: fields.parse().unwrap(),
        }
    }

    fn access(self) -> Access {
        struct Grant(Visibility);
        impl Authorizer for Grant {
            type Request = ();
            type Refusal = ();
            async fn decide(&self, (): &()) -> Result<(Arc<str>, Visibility), ()> {
                Ok((Arc::from("reader"), self.0.clone()))
            }
        }
        let places = || {
            let namespaces = Arc::new(BTreeSet::from(["x-b".to_owned(), "y".to_owned()]));
            TenantSight { tenant: Arc::from("t2"), sight: Sight::Namespaces(namespaces) }
        };
        let visibility = match self.access {
            0 => Visibility::Everything,
            1 => Visibility::tenant("t1"),
            2 => Visibility::tenants([places()]),
            3 => {
                Visibility::tenants([places(), TenantSight { tenant: Arc::from("t1"), sight: Sight::Whole }])
            }
            _ => Visibility::Nothing,
        };
        authorize(&Grant(visibility), &()).now_or_never().unwrap().unwrap()
    }
}

struct SampleKind;

impl Kind for SampleKind {
    fn group(&self) -> &'static str {
        "sample.io"
    }
    fn resource(&self) -> &'static str {
        "things"
    }
    fn fields(&self) -> &'static [&'static str] {
        &["spec.color"]
    }
    fn attributes(&self, _body: &[u8]) -> Attributes {
        Attributes::default()
    }
}

struct OpenWatch {
    watch: Watch,
    reader: Reader,
    /// The watch must return the changes after this revision, and the state at it if it began with one.
    start: u64,
    state: Option<BTreeMap<String, u64>>,
    items: Vec<String>,
    last: u64,
}

struct Pager {
    reader: Reader,
    query: ListQuery,
    items: Vec<String>,
    revision: u64,
    done: bool,
}

struct Simulation {
    cache: Cache,
    /// The newest committed revision.
    counter: u64,
    /// The objects after each event.
    snapshots: Vec<(u64, Snapshot)>,
    changes: Vec<(u64, String, Option<ObjectState>, Option<ObjectState>)>,
    committed: VecDeque<(u64, Option<Event>)>,
    applied: Vec<Arc<RingChange>>,
    watches: Vec<OpenWatch>,
    pagers: Vec<Pager>,
    lists: Vec<PendingList>,
}

/// A list that the tail may overtake.
struct PendingList {
    reader: Reader,
    page: BoxFuture<'static, Result<Page, Error>>,
}

impl Simulation {
    fn new() -> Self {
        let kind: Arc<dyn Kind> = Arc::new(SampleKind);
        let config = CacheConfig { listen: Listen::Off, ..CacheConfig::default() };
        let cache =
            Cache::open("postgres://nobody@127.0.0.1:1/none", Kinds::from_iter([(KIND, kind)]), config)
                .unwrap();
        cache.0.progress.send_modify(|progress| {
            progress.ready = true;
            progress.synced = true;
        });
        Self {
            cache,
            counter: 0,
            snapshots: vec![(0, Snapshot::new())],
            changes: Vec::new(),
            committed: VecDeque::new(),
            applied: Vec::new(),
            watches: Vec::new(),
            pagers: Vec::new(),
            lists: Vec::new(),
        }
    }

    fn newest(&self) -> &Snapshot {
        &self.snapshots.last().unwrap().1
    }

    fn snapshot(&self, revision: u64) -> &Snapshot {
        &self.snapshots.iter().rev().find(|(at, _)| *at <= revision).unwrap().1
    }

    fn commit(&mut self, edit: &Edit) {
        let place = path_of(edit.place);
        let old = self.newest().get(&place).copied();
        let Some(from) = edit.from.map(path_of) else {
            return self.record(&place, old, edit.state);
        };
        if let (Some(left), None, Some(state)) = (self.newest().get(&from).copied(), old, edit.state) {
            self.record(&from, Some(left), None);
            self.record(&place, None, Some(state));
        }
    }

    fn record(&mut self, path: &str, old: Option<ObjectState>, state: Option<(usize, usize, usize)>) {
        if old.is_none() && state.is_none() {
            return;
        }
        self.counter += 1;
        let revision = self.counter;
        let new = state.map(|state| ObjectState { revision, state });
        let mut snapshot = self.newest().clone();
        snapshot.remove(path);
        snapshot.extend(new.map(|new| (path.to_owned(), new)));
        let last = new.or(old.map(|old| ObjectState { revision, ..old })).unwrap();
        let (namespace, name) = path.split_once('/').unwrap();
        let event = Event {
            entry: Entry {
                key: Key::new(KIND, namespace, name),
                uid: Uuid::nil(),
                revision: Revision(revision),
                body: Bytes::from(format!("{{{:?}}}", last.state)),
                attributes: attributes(last.state),
            },
            deleted: new.is_none(),
            before: old.map(|old| attributes(old.state)),
        };
        self.committed.push_back((revision, Some(event)));
        self.snapshots.push((revision, snapshot));
        self.changes.push((revision, path.to_owned(), old, new));
    }

    fn apply(&mut self, max: usize) {
        self.dispatch();
        let inner = &self.cache.0;
        let mut state = inner.write();
        for _ in 0..max {
            let Some((revision, event)) = self.committed.pop_front() else { break };
            self.applied.extend(event.and_then(|event| state.apply(event, Instant::now())));
            state.revision = Revision(revision);
        }
        let revision = state.revision;
        drop(state);
        inner.progress.send_modify(|progress| progress.revision = revision);
    }

    fn dispatch(&mut self) {
        let applied = std::mem::take(&mut self.applied);
        let revision = self.cache.revision();
        self.cache.0.subscriptions.dispatch(&applied, revision);
    }

    fn open(&mut self, reader: Reader, from: u8) {
        let now = self.cache.revision().0;
        let from = match from {
            0..100 => WatchFrom::State(At::Any),
            back => WatchFrom::After(Revision(now.saturating_sub(u64::from(back - 100)))),
        };
        let query = WatchQuery { selection: reader.selection(), from };
        let access = reader.access();
        let watch = poll_to_end(self.cache.watch(&access, &query)).unwrap();
        let (start, state) = match from {
            WatchFrom::After(revision) => (revision.0, None),
            _ => (now, Some(BTreeMap::new())),
        };
        self.watches.push(OpenWatch { watch, reader, start, state, items: Vec::new(), last: start });
    }

    fn read_watch(&mut self, number: usize, items: usize) {
        let count = self.watches.len();
        let Some(open) = self.watches.get_mut(number % count.max(1)) else { return };
        for _ in 0..items {
            // Each chunk of a replay takes a poll of its own, and may have no change for this watch.
            let mut polls = std::iter::repeat_with(|| open.watch.next().now_or_never()).take(REPLAY_POLLS);
            let item = polls.find_map(|item| item);
            match item {
                Some(item) => open.record(&item.unwrap()),
                None => return,
            }
        }
    }

    fn list(&mut self, query: &ListQuery, reader: Reader) -> (Vec<String>, u64, Option<String>, Option<u64>) {
        let access = reader.access();
        let mut listing = Box::pin(self.cache.list(&access, query));
        let page =
            std::iter::repeat_with(|| (&mut listing).now_or_never()).flatten().next().unwrap().unwrap();
        let items = page.items.iter().map(|entry| format!("{} {}", path(entry), entry.revision)).collect();
        (items, page.revision.0, page.continue_token, page.remaining)
    }

    fn expected(&self, reader: Reader, revision: u64) -> Vec<String> {
        let snapshot = self.snapshot(revision).iter();
        snapshot
            .filter(|(path, known)| reader.sees(path, known.state))
            .map(|(path, known)| format!("{path} {}", known.revision))
            .collect()
    }

    fn next_page(&mut self, number: usize) {
        let Some(mut pager) =
            (!self.pagers.is_empty()).then(|| self.pagers.remove(number % self.pagers.len()))
        else {
            return;
        };
        if !pager.done {
            let (items, revision, token, remaining) = self.list(&pager.query.clone(), pager.reader);
            assert!(!items.is_empty() || token.is_none(), "an empty page with a token");
            if pager.query.continue_token.is_some() {
                assert_eq!(revision, pager.revision, "pages of two revisions");
            }
            pager.revision = revision;
            pager.items.extend(items);
            let expected = self.expected(pager.reader, revision);
            if let Some(remaining) = remaining {
                assert_eq!(usize::try_from(remaining).unwrap(), expected.len() - pager.items.len());
            }
            pager.done = token.is_none();
            pager.query.continue_token = token;
            if pager.done {
                assert_eq!(pager.items, expected, "pages are one snapshot");
            }
        }
        self.pagers.push(pager);
    }

    fn poll_list(&mut self, number: usize) {
        let number = number % self.lists.len().max(1);
        let Some(listing) = self.lists.get_mut(number) else { return };
        let Some(page) = (&mut listing.page).now_or_never() else { return };
        let (page, reader) = (page.unwrap(), self.lists.swap_remove(number).reader);
        let items: Vec<String> =
            page.items.iter().map(|entry| format!("{} {}", path(entry), entry.revision)).collect();
        assert_eq!(items, self.expected(reader, page.revision.0), "{reader:?}");
    }

    fn step(&mut self, step: &SimulatedStep) {
        match step {
            SimulatedStep::Commit(edits) => edits.iter().for_each(|edit| self.commit(edit)),
            SimulatedStep::SkipRevisions => {
                self.counter += 3;
                self.committed.push_back((self.counter, None));
            }
            SimulatedStep::Apply(most) => self.apply(*most),
            SimulatedStep::Dispatch => self.dispatch(),
            SimulatedStep::Open { reader, from } => self.open(*reader, *from),
            SimulatedStep::ReadWatch { watch, items } => self.read_watch(*watch, *items),
            SimulatedStep::Bookmark { watch } => {
                let count = self.watches.len();
                if let Some(open) = self.watches.get_mut(watch % count.max(1)) {
                    open.watch.bookmark();
                }
            }
            SimulatedStep::List { reader, back } => {
                let revision = self.cache.revision().0.saturating_sub(u64::from(*back));
                let at = if *back == 0 { At::Any } else { At::Exact(Revision(revision)) };
                let query =
                    ListQuery { selection: reader.selection(), at, limit: None, continue_token: None };
                let (cache, access) = (self.cache.clone(), reader.access());
                let page = async move { cache.list(&access, &query).await };
                self.lists.push(PendingList { reader: *reader, page: page.boxed() });
            }
            SimulatedStep::PollList { list } => self.poll_list(*list),
            SimulatedStep::Page { reader, limit } => {
                let query = ListQuery {
                    selection: reader.selection(),
                    at: At::Any,
                    limit: Some(*limit),
                    continue_token: None,
                };
                let pager = Pager { reader: *reader, query, items: Vec::new(), revision: 0, done: false };
                self.pagers.push(pager);
            }
            SimulatedStep::NextPage { pager } => self.next_page(*pager),
        }
    }

    /// Applies everything. Then every watch has returned every change once, in order.
    fn finish(mut self) {
        self.apply(usize::MAX);
        self.dispatch();
        let end = self.cache.revision().0;
        for number in 0..self.watches.len() {
            self.read_watch(number, usize::MAX);
            let open = &self.watches[number];
            let mut expected = Vec::new();
            if open.state.is_some() {
                let state = self.expected(open.reader, open.start);
                expected.extend(state.into_iter().map(|line| format!("ADDED {line}")));
                expected.push(format!("INITIAL {}", open.start));
            }
            for (revision, path, old, new) in self.changes.iter().filter(|change| change.0 > open.start) {
                let sees = |known: &Option<ObjectState>| {
                    known.is_some_and(|known| open.reader.sees(path, known.state))
                };
                let op = match (sees(old), sees(new)) {
                    (false, true) => "ADDED",
                    (true, true) => "MODIFIED",
                    (true, false) => "DELETED",
                    (false, false) => continue,
                };
                expected.push(format!("{op} {path} {revision}"));
            }
            assert_eq!(open.items, expected, "{:?} from {}", open.reader, open.start);
            let open = &mut self.watches[number];
            open.watch.bookmark();
            let bookmark = open.watch.next().now_or_never().unwrap().unwrap();
            assert!(matches!(bookmark, WatchItem::Bookmark(Revision(at)) if at == end.max(open.start)));
        }
        while !self.lists.is_empty() {
            self.poll_list(0);
        }
        for number in 0..self.pagers.len() * 20 {
            self.next_page(number);
        }
    }
}

impl OpenWatch {
    fn record(&mut self, item: &WatchItem) {
        match item {
            WatchItem::Event { op, entry, .. } => {
                let op = match op {
                    Op::Added => "ADDED",
                    Op::Modified => "MODIFIED",
                    Op::Deleted => "DELETED",
                };
                self.last = self.last.max(entry.revision.0);
                self.items.push(format!("{op} {} {}", path(entry), entry.revision));
            }
            WatchItem::InitialEnd(revision) => {
                self.last = revision.0;
                self.items.push(format!("INITIAL {revision}"));
            }
            WatchItem::Bookmark(revision) => {
                assert!(revision.0 >= self.last, "a bookmark goes back");
                self.last = revision.0;
            }
        }
    }
}

/// Polls a future until it is ready. Nothing else happens meanwhile.
fn poll_to_end<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    std::iter::repeat_with(|| (&mut future).now_or_never()).flatten().next().unwrap()
}

fn attributes((app, color, tenant): (usize, usize, usize)) -> Attributes {
    let labels = (!APPS[app].is_empty()).then(|| (Box::from("app"), Box::from(APPS[app])));
    Attributes {
        tenant: Some(Box::from(TENANTS[tenant])),
        tenant_wide: false,
        public: false,
        labels: labels.into_iter().collect(),
        fields: Box::new([Box::from(COLORS[color])]),
    }
}

fn path(entry: &Entry) -> String {
    format!("{}/{}", entry.key.namespace, entry.key.name)
}

fn reader() -> impl Strategy<Value = Reader> {
    (0..SELECTIONS.len(), 0..ACCESSES).prop_map(|(selection, access)| Reader { selection, access })
}

fn edit() -> impl Strategy<Value = Edit> {
    let state = prop::option::weighted(0.8, (0..APPS.len(), 0..COLORS.len(), 0..TENANTS.len()));
    let place = || (0..NAMESPACES.len(), 0..NAMES.len());
    let from = prop::option::weighted(0.2, place());
    (place(), state, from).prop_map(|(place, state, from)| Edit { place, state, from })
}

fn step() -> impl Strategy<Value = SimulatedStep> {
    prop_oneof![
        6 => prop::collection::vec(edit(), 1..4).prop_map(SimulatedStep::Commit),
        1 => Just(SimulatedStep::SkipRevisions),
        4 => (1_usize..6).prop_map(SimulatedStep::Apply),
        2 => Just(SimulatedStep::Dispatch),
        2 => (reader(), 80_u8..130).prop_map(|(reader, from)| SimulatedStep::Open { reader, from }),
        4 => (0_usize..8, 1_usize..5).prop_map(|(watch, items)| SimulatedStep::ReadWatch { watch, items }),
        1 => (0_usize..8).prop_map(|watch| SimulatedStep::Bookmark { watch }),
        2 => (reader(), 0_u8..20).prop_map(|(reader, back)| SimulatedStep::List { reader, back }),
        6 => (0_usize..8).prop_map(|list| SimulatedStep::PollList { list }),
        1 => (reader(), 1_usize..4).prop_map(|(reader, limit)| SimulatedStep::Page { reader, limit }),
        3 => (0_usize..8).prop_map(|pager| SimulatedStep::NextPage { pager }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_reader_sees_one_history(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let mut simulation = Simulation::new();
        for step in &steps {
            simulation.step(step);
        }
        simulation.finish();
    }
}
