//! The watch cache: every object in memory, in bytes, with the last changes to undo.
//!
//! One tail fills it. Whoever needs it fresh asks the tail for one more look at the database; a look serves
//! those who asked before it began, and nobody else.

/// Selections compiled for matching.
pub(crate) mod filter;
/// Gauges and counters.
pub(crate) mod metrics;
/// Objects of one kind with their indexes.
pub(crate) mod objects;
/// The last changes.
pub(crate) mod ring;
/// Everything at one revision.
pub(crate) mod state;

use crate::access::Access;
use crate::compact;
use crate::error::Error;
use crate::model::{Entry, Key, Kind, KindId, Revision};
use crate::read::{At, Selection};
use crate::tail;
use crate::tail::handover::Handover;
use crate::tail::sql::plan_by_index;
use crate::watch::subscriptions::Subscriptions;
use filter::Filter;
use metrics::CacheMetrics;
use objects::Path;
use ring::RingLimits;
use runtime::{Metrics, Tasks};
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use state::State;
use std::collections::BTreeMap;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tokio::sync::watch;

/// Longest wait of a read for the revision that it needs.
pub const READ_WAIT: Duration = Duration::from_secs(3);
/// The ring keeps changes at least as long as bookmarks are apart, with room to spare.
const RING_AGE_MIN: Duration = Duration::from_secs(75);
/// Connections for watches from the past and for compaction.
const CONNECTIONS: u32 = 4;
/// The name that the server shows.
const APPLICATION: &str = "store-read";

/// The kinds that a store keeps, by number.
#[derive(Clone, Default)]
pub struct Kinds(Arc<BTreeMap<KindId, Arc<dyn Kind>>>);

impl Kinds {
    /// What is known of a kind.
    pub fn get(&self, id: KindId) -> Option<&Arc<dyn Kind>> {
        self.0.get(&id)
    }

    /// All kinds in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &Arc<dyn Kind>)> {
        self.0.iter().map(|(id, kind)| (*id, kind))
    }
}

impl FromIterator<(KindId, Arc<dyn Kind>)> for Kinds {
    fn from_iter<I: IntoIterator<Item = (KindId, Arc<dyn Kind>)>>(kinds: I) -> Self {
        Self(Arc::new(kinds.into_iter().collect()))
    }
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|(id, kind)| (id, kind.resource()))).finish()
    }
}

/// Where the cache listens for NOTIFY. It has to be a direct connection: a transaction-pooling proxy forgets LISTEN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// Where it reads.
    #[default]
    Same,
    /// Elsewhere: `postgres://…`
    At(String),
    /// Nowhere: poll alone.
    Off,
}

/// How the cache follows the database.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// LISTEN only makes changes arrive sooner.
    pub listen: Listen,
    /// Whether statements may stay prepared in a session; not through a transaction-pooling proxy.
    pub prepared: bool,
    /// Longest time between two looks at the database.
    pub poll: Duration,
    /// Most changes in the ring.
    pub ring_changes: usize,
    /// Most bytes in the ring.
    pub ring_bytes: usize,
    /// How long history is kept.
    pub retention: Duration,
    /// How long what became of a batch is remembered: far longer than anybody asks.
    pub batches_kept: Duration,
    /// How often history is compacted.
    pub compact_every: Duration,
    /// Most watches at a time.
    pub watches: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            listen: Listen::Same,
            prepared: true,
            poll: Duration::from_millis(200),
            ring_changes: 100_000,
            ring_bytes: 64 << 20,
            retention: Duration::from_mins(5),
            batches_kept: Duration::from_hours(1),
            compact_every: Duration::from_mins(1),
            watches: 100_000,
        }
    }
}

impl CacheConfig {
    pub(crate) fn ring_limits(&self) -> RingLimits {
        RingLimits {
            changes: self.ring_changes,
            bytes: self.ring_bytes,
            age: RING_AGE_MIN.max(self.retention + self.compact_every),
        }
    }
}

/// All objects in memory, following the database. Clones share one cache.
#[derive(Clone, Debug)]
pub struct Cache(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    /// For watches from the past and for compaction; the tail has a connection of its own.
    pub(crate) pool: PgPool,
    listening: Option<PgConnectOptions>,
    pub(crate) kinds: Kinds,
    pub(crate) config: CacheConfig,
    state: RwLock<State>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) progress: watch::Sender<Progress>,
    /// Tickets drawn by readers who want a look that begins after them.
    asked: AtomicU64,
    /// What the tail is told: batches of our own, and wishes for a look.
    pub(crate) handover: Arc<Handover>,
    pub(crate) metrics: CacheMetrics,
}

/// How far the tail has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The cache's revision.
    pub(crate) revision: Revision,
    /// History up to here may be gone.
    pub(crate) compacted: Revision,
    /// The newest revision that the database was seen to have.
    pub(crate) seen: Revision,
    /// Tickets up to this one have what they wanted.
    pub(crate) served: u64,
    /// Tickets up to this one, if not served, get an error.
    pub(crate) failed: u64,
    /// The cache holds a state of the database's history.
    pub(crate) ready: bool,
    /// It once did.
    pub(crate) synced: bool,
    /// Why the database is not answering.
    pub(crate) trouble: Option<Arc<str>>,
}

/// What the cache tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// Its revision.
    pub revision: Revision,
    /// Revisions that the database has and the cache has not.
    pub lag: u64,
    /// History up to here may be gone.
    pub compacted: Revision,
    /// Objects by kind.
    pub objects: Vec<(KindId, usize)>,
    /// Changes in the ring.
    pub ring_changes: usize,
    /// Bytes that the ring keeps alive.
    pub ring_bytes: usize,
    /// Open watches.
    pub watches: usize,
}

impl Cache {
    /// An empty cache of a database, `postgres://…`. It fills once it is started.
    pub fn open(url: &str, kinds: Kinds, config: CacheConfig) -> Result<Self, Error> {
        let options = |url: &str| {
            let options =
                PgConnectOptions::from_str(url).map_err(|error| Error::Unavailable(error.to_string()));
            Ok(options?.application_name(APPLICATION).extra_float_digits(None).disable_statement_logging())
        };
        let reading = options(url)?;
        let listening = match &config.listen {
            Listen::Same => Some(reading.clone()),
            Listen::At(url) => Some(options(url)?),
            Listen::Off => None,
        };
        let reading = if config.prepared { reading } else { reading.statement_cache_capacity(0) };
        let prepared = config.prepared;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(READ_WAIT)
            .after_connect(move |connection, _| {
                Box::pin(async move { if prepared { plan_by_index(connection).await } else { Ok(()) } })
            })
            .connect_lazy_with(reading);
        let state = RwLock::new(State::empty(config.ring_limits()));
        let metrics = CacheMetrics::default();
        let subscriptions = Subscriptions::new(config.watches, &metrics);
        Ok(Self(Arc::new(Inner {
            pool,
            listening,
            kinds,
            config,
            state,
            subscriptions,
            progress: watch::Sender::default(),
            asked: AtomicU64::new(0),
            handover: Arc::new(Handover::new()),
            metrics,
        })))
    }

    /// Starts the tail, the listener and the compaction.
    pub fn start(&self, tasks: &Tasks) {
        tasks.spawn("store-tail", tail::run(Arc::clone(&self.0)));
        if let Some(options) = &self.0.listening {
            tasks.spawn("store-listen", tail::listen::run(Arc::clone(&self.0), options.clone()));
        }
        tasks.spawn("store-compact", compact::run(Arc::clone(&self.0)));
        let (token, cache) = (tasks.token(), Arc::clone(&self.0));
        tasks.spawn_draining("store-watches", async move {
            token.cancelled().await;
            cache.subscriptions.shut_down();
        });
    }

    /// Registers the cache's metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.0.metrics.register(metrics);
    }

    /// Whether the cache has been filled since the start.
    pub fn synced(&self) -> bool {
        self.0.progress.borrow().synced
    }

    /// Waits until [`Self::synced`].
    pub async fn until_synced(&self) {
        let mut progress = self.0.progress.subscribe();
        // The sender lives in self: this cannot fail.
        let _seen = progress.wait_for(|progress| progress.synced).await;
    }

    /// Why the database does not answer, if it does not.
    pub fn database_trouble(&self) -> Option<Arc<str>> {
        self.0.progress.borrow().trouble.clone()
    }

    /// Whether the database answered when it was last asked.
    pub fn database_ok(&self) -> bool {
        self.0.progress.borrow().trouble.is_none()
    }

    /// The cache's revision.
    pub fn revision(&self) -> Revision {
        self.0.progress.borrow().revision
    }

    /// The newest revision that is known here: that of the last write answered here, or of what others were seen to write.
    pub fn seen(&self) -> Revision {
        let progress = self.0.progress.borrow();
        progress.seen.max(progress.revision)
    }

    /// The newest revision, asked of the database; the cache has it when this returns.
    pub async fn current_revision(&self) -> Result<Revision, Error> {
        self.0.reach(At::Latest).await?;
        Ok(self.revision())
    }

    /// Notes a revision that a write was answered with: a database that is behind it has lost it.
    pub fn saw(&self, revision: Revision) {
        self.0.progress.send_if_modified(|progress| {
            progress.seen = progress.seen.max(revision);
            false
        });
    }

    /// What the cache tells of itself.
    pub fn status(&self) -> CacheStatus {
        let progress = self.0.progress.borrow().clone();
        let watches = self.0.subscriptions.open();
        let state = self.0.read();
        CacheStatus {
            revision: state.revision,
            lag: progress.seen.0.saturating_sub(state.revision.0),
            compacted: progress.compacted,
            objects: state.kinds.iter().map(|(kind, objects)| (*kind, objects.len())).collect(),
            ring_changes: state.ring.len(),
            ring_bytes: state.ring.bytes(),
            watches,
        }
    }

    /// One object.
    pub async fn get(&self, access: &Access, key: &Key, at: At) -> Result<Arc<Entry>, Error> {
        self.0.reach(at).await?;
        let state = self.0.read();
        let path = Path::of(key);
        let found = match at {
            At::Exact(revision) => {
                self.0.check_undo(&state, revision)?;
                state.get_at(key.kind, &path, revision)
            }
            At::Latest | At::Any | At::NotOlderThan(_) => {
                state.objects(key.kind).and_then(|objects| objects.get(&path)).cloned()
            }
        };
        drop(state);
        found
            .filter(|entry| access.sees(&entry.key.namespace, &entry.key.name, &entry.attributes))
            .ok_or(Error::NotFound)
    }
}

impl Inner {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn filter(&self, access: &Access, selection: &Selection) -> Filter {
        let fields = self.kinds.get(selection.kind).map(|kind| kind.fields()).unwrap_or_default();
        Filter::new(access, selection, fields)
    }

    /// Tickets drawn so far.
    pub(crate) fn tickets(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Whether history after `revision` can be had from the tables.
    pub(crate) fn is_compacted(&self, revision: Revision) -> bool {
        revision < self.progress.borrow().compacted
    }

    /// Whether the state at `revision` can be had by undoing changes.
    pub(crate) fn check_undo(&self, state: &State, revision: Revision) -> Result<(), Error> {
        let gone = revision < state.ring.undo_floor() || self.is_compacted(revision);
        if gone && revision != state.revision {
            return Err(Error::Expired { asked: revision, current: state.revision });
        }
        Ok(())
    }

    /// Waits until the cache is as fresh as asked.
    pub(crate) async fn reach(&self, at: At) -> Result<(), Error> {
        if !self.progress.borrow().ready {
            return Err(Error::Starting);
        }
        match at {
            At::Any => Ok(()),
            At::Latest => self.reach_now().await,
            At::NotOlderThan(revision) | At::Exact(revision) => self.reach_revision(revision).await,
        }
    }

    async fn reach_now(&self) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.handover.ask();
        let answered = progress.wait_for(|progress| progress.served.max(progress.failed) >= ticket);
        match tokio::time::timeout(READ_WAIT, answered).await {
            Ok(Ok(progress)) if progress.served >= ticket => Ok(()),
            Ok(Ok(progress)) => Err(unavailable(&progress)),
            Ok(Err(_)) | Err(_) => Err(Error::Unavailable("no answer in time".to_owned())),
        }
    }

    async fn reach_revision(&self, asked: Revision) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        if progress.borrow().revision >= asked {
            return Ok(());
        }
        self.handover.ask();
        let reached = progress.wait_for(|progress| progress.revision >= asked);
        if let Ok(Ok(_)) = tokio::time::timeout(READ_WAIT, reached).await {
            return Ok(());
        }
        let progress = self.progress.borrow();
        if progress.trouble.is_some() {
            return Err(unavailable(&progress));
        }
        Err(Error::TooFarAhead { asked, current: progress.revision })
    }
}

fn unavailable(progress: &Progress) -> Error {
    Error::Unavailable(progress.trouble.as_deref().unwrap_or("the connection was lost").to_owned())
}
