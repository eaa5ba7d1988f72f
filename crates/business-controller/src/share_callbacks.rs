//! What the controller does when a share is acquired or released.

use crate::context::Context;
use crate::dispatch;
use crate::kinds::ObjectKey as _;
use crate::metrics::ShareLabels;
use crate::shares::elector::ShareCallbacks;
use crate::shares::{Share, ShareState};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

impl ShareCallbacks for Context {
    /// Independent of shares: every replica watches our kinds and reads the directory.
    fn ready(&self) -> BoxFuture<'_, ()> {
        async move {
            self.objects.synced().await;
            self.members.wait_until_read().await;
        }
        .boxed()
    }

    /// Reads the keys of seals after the share was acquired, and then waits for a renewal of its Lease. So every seal
    /// of a former holder can be verified, and a later holder that has to create the Lease again sees by the keys that
    /// a controller has worked here.
    fn prepare<'a>(&'a self, state: &'a ShareState) -> BoxFuture<'a, ()> {
        async move {
            self.seals.wait_for_read().await;
            state.fence.wait_for_renewal().await;
            if state.share == Share::Fleet {
                dispatch::load_acquisition_snapshots(self).await;
            }
        }
        .boxed()
    }

    /// The directory starts to follow the clusters of the share by itself.
    fn started(&self, share: Share) {
        self.leading(share).set(1);
    }

    fn stopped(&self, share: Share) {
        self.leading(share).set(0);
        for object in self.objects.namespaces.all() {
            if self.share_of(&object.spec.cluster_name) == share {
                self.objects.namespaces.memory.forget(&object.uid);
            }
        }
        for object in self.objects.member_clusters.all() {
            if self.share_of(object.key.name()) == share {
                self.objects.member_clusters.memory.forget(object.key.name());
            }
        }
    }
}

impl Context {
    /// Sets the metric of every share to 0, so that a share that nobody holds is visible.
    pub fn show_shares(&self) {
        for state in self.shares.states() {
            self.leading(state.share).set(0);
        }
    }

    fn leading(&self, share: Share) -> prometheus_client::metrics::gauge::Gauge {
        self.metrics.leading.get_or_create(&ShareLabels { share: share.to_string() }).clone()
    }
}
