//! One replica: a store with its own writers and watchers. It runs until it is killed.

use crate::log::Log;
use crate::world::TestKind;
use crate::{watchers, writers};
use anyhow::Result;
use runtime::{Metrics, Tasks};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use store::Store;

/// How a replica is started.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplicaSettings {
    /// The database.
    #[arg(long)]
    database_url: String,
    /// The log.
    #[arg(long)]
    log: PathBuf,
    /// Writers.
    #[arg(long)]
    writers: usize,
    /// Watchers of each kind.
    #[arg(long)]
    watchers: usize,
    /// Seed of what the writers do.
    #[arg(long)]
    seed: u64,
    /// Projects at the end of the tree.
    #[arg(long)]
    leaves: usize,
    /// A file whose appearance tells the writers to stop and the watchers to finish.
    #[arg(long)]
    stop: PathBuf,
    /// How long events are kept, in seconds.
    #[arg(long)]
    retention: u64,
}

/// What all tasks of a replica share.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) store: Store,
    pub(crate) log: Arc<Log>,
    pub(crate) leaves: usize,
    pub(crate) stop: PathBuf,
}

impl Replica {
    /// Whether the parent wants an end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.exists()
    }
}

/// Batches that look first after one that was wrong about a row: few, as so many writes here are to be refused.
const WARY_BATCHES: u32 = 2;

/// Opens the store with the test's kinds.
pub(crate) fn open(url: &str, retention: Duration, tasks: &Tasks) -> Result<Store> {
    let mut config = store::Config::new(url);
    config.checked_batches = WARY_BATCHES;
    config.cache.retention = retention;
    config.cache.compact_every = Duration::from_secs(1);
    let kinds = TestKind::ALL.map(|kind| Arc::new(kind) as Arc<dyn store::Kind>);
    Ok(Store::open(config, kinds.to_vec(), tasks, &Metrics::new())?)
}

/// Runs until told to stop.
pub(crate) async fn run(settings: ReplicaSettings) -> Result<()> {
    let tasks = Tasks::new();
    let store = open(&settings.database_url, Duration::from_secs(settings.retention), &tasks)?;
    let replica = Replica {
        log: Arc::new(Log::open(&settings.log)?),
        leaves: settings.leaves,
        stop: settings.stop,
        store,
    };
    let mut work = tokio::task::JoinSet::new();
    for writer in 0..settings.writers {
        let seed = settings.seed.wrapping_mul(1_000).wrapping_add(u64::try_from(writer)?);
        work.spawn(writers::run(replica.clone(), seed));
    }
    for _ in 0..settings.watchers {
        for kind in TestKind::ALL {
            work.spawn(watchers::run(replica.clone(), kind));
        }
    }
    while let Some(done) = work.join_next().await {
        done??;
    }
    tasks.cancel();
    tasks.join(Duration::from_secs(5)).await?;
    Ok(())
}
