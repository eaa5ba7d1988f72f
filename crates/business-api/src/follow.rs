//! What is kept from the store's own watch.

use meta::selector::{FieldSelector, LabelSelector};
use std::time::Duration;
use store::read::{At, Op, Selection, WatchFrom, WatchItem, WatchQuery};
use store::{Access, Entry, KindId, Store};

const RETRY: Duration = Duration::from_millis(200);

/// Something that is kept from the objects of one kind.
pub trait Follower {
    /// Forgets everything: what there is comes anew.
    fn clear(&self);

    /// An object in its present state, or its last one when it is gone.
    fn take(&self, entry: &Entry, exists: bool);
}

/// All objects of a kind.
pub fn all(kind: KindId) -> Selection {
    let (labels, fields) = (LabelSelector::default(), FieldSelector::default());
    Selection { kind, namespace: None, labels, fields }
}

/// Follows the objects of a kind for ever. `who` is told to the store.
#[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
pub async fn follow(store: Store, kind: KindId, who: &'static str, follower: impl Follower) {
    let access = Access::internal(who);
    let query = WatchQuery { selection: all(kind), from: WatchFrom::State(At::Any) };
    loop {
        match store.watch(&access, &query).await {
            Ok(mut watch) => {
                follower.clear();
                while let Ok(item) = watch.next().await {
                    if let WatchItem::Event { op, entry, .. } = item {
                        follower.take(&entry, op != Op::Deleted);
                    }
                }
            }
            Err(error) => tracing::debug!(who, %error, "follow the objects of a kind"),
        }
        tokio::time::sleep(RETRY).await;
    }
}
