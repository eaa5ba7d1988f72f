use crate::watch::Stream;
use anyhow::{Result, ensure};
use http::Method;
use kit::Endpoint;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shortest and longest life of a watch, in seconds, as client-go asks for it, a fifth of it.
const LIFE: [u64; 2] = [60, 120];
/// After a watch that could not be opened.
const PAUSE: Duration = Duration::from_secs(1);

/// Counters of the watches.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchCounters(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    events: AtomicU64,
    opened: AtomicU64,
    expired: AtomicU64,
    refused: AtomicU64,
}

impl WatchCounters {
    pub(super) fn events(&self) -> u64 {
        self.0.events.load(Ordering::Relaxed)
    }

    pub(super) fn opened(&self) -> u64 {
        self.0.opened.load(Ordering::Relaxed)
    }

    /// Watches whose revision was too old.
    pub(super) fn expired(&self) -> u64 {
        self.0.expired.load(Ordering::Relaxed)
    }

    /// Watches that could not be opened.
    pub(super) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

/// Watches a collection as a reflector does: from a list, and on from the last revision when the server ends it.
pub(super) async fn watch(
    endpoint: Endpoint,
    path: String,
    number: usize,
    end: Instant,
    seen: WatchCounters,
) -> Result<()> {
    let mut revision: Option<String> = None;
    let [shortest, longest] = LIFE;
    let mut turn = u64::try_from(number)?;
    while Instant::now() < end {
        turn = turn.wrapping_mul(31).wrapping_add(7);
        let life = shortest + turn % (longest - shortest);
        let life = life.min(end.saturating_duration_since(Instant::now()).as_secs().max(1));
        if let Ok(last) = follow(&endpoint, &path, revision.clone(), life, &seen).await {
            revision = last;
        } else {
            seen.0.refused.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// One watch until it ends; the last revision, none when it was too old.
async fn follow(
    endpoint: &Endpoint,
    path: &str,
    revision: Option<String>,
    life: u64,
    seen: &WatchCounters,
) -> Result<Option<String>> {
    let mut revision = if let Some(revision) = revision {
        revision
    } else {
        let list = endpoint.connect().await?.json(Method::GET, path, &Value::Null).await?;
        text(&list, "/metadata/resourceVersion")
    };
    ensure!(!revision.is_empty(), "a list without a revision");
    let query =
        format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds={life}&resourceVersion={revision}");
    let mut stream = Stream::open(endpoint, &query).await?;
    seen.0.opened.fetch_add(1, Ordering::Relaxed);
    while let Ok(event) = stream.next().await {
        if event["type"] == "ERROR" {
            seen.0.expired.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        if event["type"] != "BOOKMARK" {
            seen.0.events.fetch_add(1, Ordering::Relaxed);
        }
        revision = text(&event, "/object/metadata/resourceVersion");
    }
    Ok(Some(revision))
}

fn text(value: &Value, at: &str) -> String {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
}
