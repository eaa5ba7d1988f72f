//! Watches of pull secrets and service accounts in a member cluster. Our right to Secrets is limited to those of our
//! name, so the watch selects by that name; and it requests metadata only, so passwords stay in the cluster.

use super::pull_objects::{PullAccount, PullSecret};
use super::shared_store::SharedStore;
use super::watch_health::WatchHealth;
use super::watch_store::{UpdateSource, Versioned};
use super::{Member, notify, pages};
use crate::context::Context;
use crate::dispatch;
use crate::error::ListFailure;
use crate::queue::Lane;
use business_types::names::PULL_SECRET;
use futures_util::{Stream, StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Config, Event};
use std::time::Duration;

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Watches both for ever, if there is a registry.
pub(super) async fn follow(cx: &Context, member: &Member, health: &WatchHealth) {
    if cx.registry.pull_host.is_none() {
        return std::future::pending().await;
    }
    let named = Config::default().fields(&format!("metadata.name={PULL_SECRET}"));
    let metadata: Api<PartialObjectMeta<Secret>> = Api::all(member.api.client());
    let secrets = pages::watch(&member.name, metadata, named, PAGE);
    let all = Api::<ServiceAccount>::all(member.api.client());
    let accounts = pages::watch(&member.name, all, Config::default(), PAGE);
    let pulls = &member.observed.pulls;
    tokio::join!(
        Watch { cx, member, health, seen: &pulls.secrets, what: "secrets", read: read_secret }.run(secrets),
        Watch { cx, member, health, seen: &pulls.accounts, what: "serviceaccounts", read: read_account }
            .run(accounts),
    );
}

/// An object with its namespace and name.
struct NamespacedObject<V> {
    namespace: String,
    name: String,
    object: V,
}

fn read_secret(object: PartialObjectMeta<Secret>) -> Option<NamespacedObject<PullSecret>> {
    let (namespace, name) = (object.metadata.namespace.clone()?, object.metadata.name.clone()?);
    Some(NamespacedObject { namespace, name, object: PullSecret::of(object.metadata)? })
}

fn read_account(account: ServiceAccount) -> Option<NamespacedObject<PullAccount>> {
    let (namespace, name) = (account.metadata.namespace.clone()?, account.metadata.name.clone()?);
    Some(NamespacedObject { namespace, name, object: account.into() })
}

/// One watch, and the store that it fills.
struct Watch<'a, K, V> {
    cx: &'a Context,
    member: &'a Member,
    health: &'a WatchHealth,
    seen: &'a SharedStore<V>,
    what: &'static str,
    read: fn(K) -> Option<NamespacedObject<V>>,
}

impl<K, V: Versioned> Watch<'_, K, V> {
    async fn run(self, stream: impl Stream<Item = watcher::Result<Event<K>>>) {
        pin_mut!(stream);
        while let Some(event) = stream.next().await {
            self.health.observe(self.what, &event);
            match event {
                Ok(event) => self.take(event),
                Err(failure) => self.failed(&ListFailure::from(&failure)),
            }
        }
    }

    fn take(&self, event: Event<K>) {
        match event {
            Event::Init => self.seen.begin_list(),
            Event::InitDone => notify::list_ended(self.cx, self.member, self.seen.end_list()),
            Event::InitApply(object) | Event::Apply(object) => {
                let Some(NamespacedObject { namespace, name, object }) = (self.read)(object) else { return };
                if self.seen.upsert(&namespace, &name, object, UpdateSource::Watch) {
                    self.changed(&namespace);
                }
            }
            Event::Delete(object) => {
                let Some(NamespacedObject { namespace, name, object }) = (self.read)(object) else { return };
                self.seen.remove(&namespace, &name, &object);
                self.changed(&namespace);
            }
        }
    }

    fn changed(&self, namespace: &str) {
        notify::wake_namespace(self.cx, self.member, namespace, Lane::Urgent, Duration::ZERO);
    }

    fn failed(&self, failure: &ListFailure) {
        let error = &failure.text;
        tracing::warn!(cluster = self.member.name, what = self.what, error, "watch for pull secrets failed");
        if self.seen.list_failed(failure) {
            dispatch::cluster_changed(self.cx, &self.member.name);
        }
    }
}
