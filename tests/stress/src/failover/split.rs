//! A client that still reaches a primary cut off from all others: it must acknowledge no write.

use super::fault::cluster;
use anyhow::Result;
use instance::Instance;
use instance::patroni::PatroniNode;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Where the probe writes.
pub(crate) const TABLE: &str = "CREATE TABLE split (number bigserial PRIMARY KEY)";
/// A commit that waits for its standby waits for ever.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes to one node, past its network.
#[derive(Debug)]
pub(crate) struct Probe {
    task: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicU64>,
}

impl Probe {
    /// Begins to write.
    pub(crate) fn start(instance: &Instance, node: &PatroniNode) -> Result<Self> {
        let url = cluster(instance)?.url_of(node);
        let (stop, accepted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&accepted));
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let written = tokio::time::timeout(PATIENCE, write(&url)).await;
                counted.fetch_add(u64::from(matches!(written, Ok(Ok(())))), Ordering::Relaxed);
                tokio::time::sleep(PATIENCE / 10).await;
            }
        });
        Ok(Self { task, stop, accepted })
    }

    /// How many writes the node has acknowledged.
    pub(crate) async fn finish(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await?;
        Ok(self.accepted.load(Ordering::Relaxed))
    }
}

async fn write(url: &str) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::query("INSERT INTO split DEFAULT VALUES").execute(&mut connection).await?;
    Ok(())
}
