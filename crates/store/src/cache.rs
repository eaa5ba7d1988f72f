//! The watch cache: every object in memory, in bytes, with the last changes to undo.
//!
//! One tail fills it. A reader that needs fresh data makes the tail poll the database once more. A poll answers only
//! the readers that asked before it began.

/// How the cache follows the database.
mod config;
/// The state that the cache, its tail and its readers share.
pub(crate) mod inner;
/// Selections compiled for matching.
pub(crate) mod filter;
/// Connections that stay open between uses.
pub(crate) mod connection;
/// Gauges and counters.
pub(crate) mod metrics;
/// Objects of one kind with their indexes.
pub(crate) mod objects;
/// The last changes.
pub(crate) mod ring;
/// All objects at one revision.
pub(crate) mod state;

use crate::access::Access;
use crate::compact;
use crate::error::Error;
use crate::history;
use crate::history::segments::SegmentCache;
pub use crate::kinds::Kinds;
use crate::model::{Entry, Key, KindId, Revision};
use crate::read::At;
use crate::tail;
use crate::tail::handover::Handover;
use crate::watch::subscriptions::Subscriptions;
pub use config::{CacheConfig, Listen};
pub use inner::READ_WAIT;

use inner::CacheInner;
use metrics::CacheMetrics;
use objects::Path;
use runtime::{Metrics, Tasks};
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use state::CacheState;
use std::str::FromStr as _;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::sync::watch;

/// The `application_name` of the cache's connections.
const APPLICATION: &str = "store-read";

/// All objects in memory, following the database. Clones share one cache.
#[derive(Clone, Debug)]
pub struct Cache(pub(crate) Arc<CacheInner>);

/// The size and progress of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// The cache's revision.
    pub revision: Revision,
    /// Revisions that the database has and the cache has not.
    pub lag: u64,
    /// History up to this revision may be compacted.
    pub compacted: Revision,
    /// Objects by kind.
    pub objects: Vec<(KindId, usize)>,
    /// Changes in the ring.
    pub ring_changes: usize,
    /// Bytes that the ring keeps in memory.
    pub ring_bytes: usize,
    /// Open watches.
    pub watches: usize,
}

impl Cache {
    /// An empty cache of the database at `url`, `postgres://…`. With [`CacheConfig::primary`], `url` is a standby. The
    /// cache fills once it is started.
    pub fn open(url: &str, kinds: Kinds, config: CacheConfig) -> Result<Self, Error> {
        let prepared = config.prepared;
        let options = |url: &str| -> Result<PgConnectOptions, Error> {
            let options =
                PgConnectOptions::from_str(url).map_err(|error| Error::Unavailable(error.to_string()))?;
            let options =
                options.application_name(APPLICATION).extra_float_digits(None).disable_statement_logging();
            Ok(if prepared { options } else { options.statement_cache_capacity(0) })
        };
        let reading = options(url)?;
        let primary = config.primary.as_deref().map(options).transpose()?;
        let listening = match &config.listen {
            Listen::Same => Some(primary.as_ref().unwrap_or(&reading).clone()),
            Listen::At(url) => Some(options(url)?),
            Listen::Off => None,
        };
        let state = RwLock::new(CacheState::empty(config.ring_limits()));
        let metrics = CacheMetrics::default();
        let subscriptions = Subscriptions::new(config.watches, &metrics);
        let changed = kinds.iter().map(|(kind, _)| (kind, AtomicU64::new(0))).collect();
        Ok(Self(Arc::new(CacheInner {
            reading,
            primary,
            listening,
            kinds,
            config,
            state,
            subscriptions,
            changed,
            progress: watch::Sender::default(),
            fresh_as_of: Mutex::default(),
            tickets: AtomicU64::new(0),
            event_bytes: AtomicU64::new(0),
            handover: Arc::new(Handover::new()),
            history: SegmentCache::default(),
            metrics,
        })))
    }

    /// Starts the tail, the listener, the reader of older events and the compaction.
    pub fn start(&self, tasks: &Tasks) {
        tasks.spawn("store-tail", tail::run(Arc::clone(&self.0)));
        if let Some(options) = &self.0.listening {
            tasks.spawn("store-listen", tail::listen::run(Arc::clone(&self.0), options.clone()));
        }
        tasks.spawn("store-past", history::run(Arc::clone(&self.0)));
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

    /// How old the cache may be: a commit may be missing in it for this long. `None` before the cache was filled.
    pub fn age(&self) -> Option<Duration> {
        self.0.age()
    }

    /// Waits until [`Self::synced`] is true.
    pub async fn until_synced(&self) {
        let mut progress = self.0.progress.subscribe();
        // The sender lives in self: this cannot fail.
        let _seen = progress.wait_for(|progress| progress.synced).await;
    }

    /// Waits until the cache has the state of this revision or of a later one.
    pub async fn until_filled(&self, revision: Revision) {
        let mut progress = self.0.progress.subscribe();
        // The sender lives in self: this cannot fail.
        let _seen = progress.wait_for(|progress| progress.ready && progress.revision >= revision).await;
    }

    /// Why the database does not answer, if it does not.
    #[cfg(feature = "testing")]
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

    /// The newest revision that this replica knows of: of its own acknowledged writes, or of other replicas' writes
    /// that it has read.
    pub fn seen(&self) -> Revision {
        let progress = self.0.progress.borrow();
        progress.seen.max(progress.revision)
    }

    /// The newest change of a kind that a list or a watch may have shown.
    pub fn changed(&self, kind: KindId) -> Revision {
        self.0.changed(kind)
    }

    /// The newest revision of the database. The cache has it when this returns.
    pub async fn current_revision(&self) -> Result<Revision, Error> {
        self.0.wait_until_fresh(At::Latest).await?;
        Ok(self.revision())
    }

    /// Notes the revision of an acknowledged write. A database that is behind it has lost the write.
    pub fn note_acknowledged(&self, revision: Revision) {
        self.0.progress.send_if_modified(|progress| {
            progress.seen = progress.seen.max(revision);
            progress.committed = progress.committed.max(revision);
            false
        });
    }

    /// The cache's size and progress.
    pub fn status(&self) -> CacheStatus {
        let progress = self.0.progress.borrow().clone();
        let watches = self.0.subscriptions.open_count();
        let state = self.0.read();
        CacheStatus {
            revision: state.revision,
            lag: progress.seen.max(progress.committed).0.saturating_sub(state.revision.0),
            compacted: progress.compacted,
            objects: state.kinds.iter().map(|(kind, objects)| (*kind, objects.len())).collect(),
            ring_changes: state.ring.len(),
            ring_bytes: state.ring.bytes(),
            watches,
        }
    }

    /// One object. [`Error::NotFound`] if there is none that the caller sees.
    pub async fn get(&self, access: &Access, key: &Key, at: At) -> Result<Arc<Entry>, Error> {
        self.0.wait_until_fresh(at).await?;
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
