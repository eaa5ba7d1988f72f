//! What is done when a share becomes ours, and when it is not ours any more.

use crate::context::Context;
use crate::dispatch;
use crate::kinds::ObjectKey as _;
use crate::outcome::ShareLabels;
use crate::shares::elector::ShareCallbacks;
use crate::shares::{Share, ShareState};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

impl ShareCallbacks for Context {
    /// Neither waits for a share: every replica follows our kinds, and reads the directory.
    fn ready(&self) -> BoxFuture<'_, ()> {
        async move {
            self.objects.synced().await;
            self.members.wait_until_read().await;
        }
        .boxed()
    }

    /// The keys are read by a call that is sent after the share has become ours, and its lease is renewed by one that is sent
    /// after that. So whatever a former holder has sealed can be opened, and a later one that has made the lease anew cannot
    /// miss that somebody has worked here.
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

    /// The directory follows its clusters from now on.
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
    /// Shows of every share that it is not ours, so that one that nobody has is seen.
    pub fn show_shares(&self) {
        for state in self.shares.states() {
            self.leading(state.share).set(0);
        }
    }

    fn leading(&self, share: Share) -> prometheus_client::metrics::gauge::Gauge {
        self.metrics.leading.get_or_create(&ShareLabels { share: share.to_string() }).clone()
    }
}
