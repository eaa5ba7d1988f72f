//! Watchers that count their events and check the order.

use crate::log::Line;
use crate::replica::Replica;
use crate::world::TestKind;
use anyhow::Result;
use meta::selector::{FieldSelector, LabelSelector};
use std::time::Duration;
use store::read::{At, Selection, WatchEnd, WatchFrom, WatchItem, WatchQuery};
use store::{Access, Revision};

/// How long a watch must be silent, once the writers have stopped, to be at its end.
const QUIET: Duration = Duration::from_secs(3);

/// Watches a kind until the end of the test, again and again from where it was.
pub(crate) async fn run(replica: Replica, kind: TestKind) -> Result<()> {
    let resource = kind.resource();
    let access = Access::internal("stress");
    let mut from = WatchFrom::State(At::Latest);
    loop {
        let selection = Selection {
            kind: kind.id(),
            namespace: None,
            labels: LabelSelector::default(),
            fields: FieldSelector::default(),
        };
        let query = WatchQuery { selection, from };
        let Ok(mut watch) = replica.store.watch(&access, &query).await else {
            if replica.is_stopping() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let mut seen = match from {
            WatchFrom::After(revision) => Some(SeenRange::after(revision.0)),
            WatchFrom::State(_) | WatchFrom::Now => None,
        };
        let ended = loop {
            match tokio::time::timeout(QUIET, watch.next()).await {
                Err(_) if replica.is_stopping() => break None,
                Err(_) | Ok(Ok(WatchItem::Bookmark(_))) => {}
                Ok(Ok(WatchItem::InitialEnd(revision))) => seen = Some(SeenRange::after(revision.0)),
                Ok(Ok(WatchItem::Event { entry, .. })) => {
                    if let Some(seen) = &mut seen {
                        if entry.revision.0 <= seen.to {
                            let what = format!("{resource}: revision {} after {}", entry.revision, seen.to);
                            replica.log.line(&Line::Broken { what })?;
                        }
                        seen.add(entry.revision.0);
                        if seen.events % 500 == 0 {
                            replica.log.line(&seen.line(resource))?;
                        }
                    }
                }
                Ok(Err(end)) => break Some(end),
            }
        };
        if let Some(seen) = &seen {
            replica.log.line(&seen.line(resource))?;
        }
        from = match (ended, seen) {
            (None, _) => return Ok(()),
            (Some(WatchEnd::Slow | WatchEnd::Shutdown), Some(seen)) => WatchFrom::After(Revision(seen.to)),
            // Whoever is told that history is gone lists again.
            (Some(_), _) => WatchFrom::State(At::Latest),
        };
    }
}

struct SeenRange {
    after: u64,
    to: u64,
    events: u64,
    xor: u64,
}

impl SeenRange {
    fn after(revision: u64) -> Self {
        Self { after: revision, to: revision, events: 0, xor: 0 }
    }

    fn add(&mut self, revision: u64) {
        self.to = revision;
        self.events += 1;
        self.xor ^= revision;
    }

    fn line(&self, resource: &str) -> Line {
        let Self { after, to, events, xor } = *self;
        Line::Watched { resource: resource.to_owned(), after, to, events, xor }
    }
}
