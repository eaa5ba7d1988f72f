//! Our Leases: read, acquired, renewed and released, always conditional on the version that was read.

use super::Share;
use crate::error::{self, CallFailure, not_found_as_none};
use crate::fence::LeaseTimes;
use crate::seal::key_manager::SECRET;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Label of all our Leases: what each is for.
pub const LEASE_LABEL: &str = "business.tkestack.io/lease";
/// Annotation: how many shares of clusters there are.
pub const SHARDS_ANNOTATION: &str = "business.tkestack.io/shards";
/// The duration in a released Lease. No holder's is as short.
const FREE_SECONDS: i32 = 1;
/// Prefix of their names.
const PREFIX: &str = "business-controller";

/// What a Lease is for, as its label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    Share,
    Replica,
}

impl LeaseKind {
    const fn label(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Replica => "replica",
        }
    }

    pub fn of(lease: &Lease) -> Option<Self> {
        let label = label(lease)?;
        [Self::Share, Self::Replica].into_iter().find(|kind| kind.label() == label)
    }
}

/// The name of a share's Lease.
pub fn share_lease_name(share: Share) -> String {
    format!("{PREFIX}-{share}")
}

/// The name of a replica's Lease.
pub fn replica_lease_name(identity: &str) -> String {
    format!("{PREFIX}-replica-{identity}")
}

/// The Leases of an installation, for one replica.
#[derive(Clone, Debug)]
pub struct Leases {
    leases: Api<Lease>,
    secrets: Api<Secret>,
    pub identity: String,
    pub times: LeaseTimes,
    pub shards: u8,
}

impl Leases {
    /// In this namespace, with this identity, which no other process may have.
    pub fn new(client: Client, namespace: &str, identity: String, times: LeaseTimes, shards: u8) -> Self {
        let (leases, secrets) =
            (Api::namespaced(client.clone(), namespace), Api::namespaced(client, namespace));
        Self { leases, secrets, identity, times, shards }
    }

    /// Lists all of them.
    pub async fn list(&self) -> Result<Vec<Lease>, CallFailure> {
        let params = ListParams::default().labels(LEASE_LABEL);
        let listed = self.bounded(self.leases.list(&params)).await?.items;
        Ok(listed.into_iter().filter(|lease| label(lease).is_some()).collect())
    }

    pub async fn get(&self, name: &str) -> Result<Option<Lease>, CallFailure> {
        not_found_as_none(self.bounded(self.leases.get(name)).await)
    }

    /// Creates a Lease that we hold.
    pub async fn create(&self, name: &str, kind: LeaseKind) -> Result<Lease, CallFailure> {
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds(self.times.lease_duration)),
            acquire_time: Some(now()),
            renew_time: Some(now()),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        self.make(name, kind, spec).await
    }

    /// Creates the Lease of a share that nobody has held, as a released one.
    pub async fn create_free(&self, share: Share) -> Result<(), CallFailure> {
        let spec = LeaseSpec {
            lease_duration_seconds: Some(FREE_SECONDS),
            renew_time: Some(now()),
            ..LeaseSpec::default()
        };
        self.make(&share_lease_name(share), LeaseKind::Share, spec).await.map(drop)
    }

    async fn make(&self, name: &str, kind: LeaseKind, spec: LeaseSpec) -> Result<Lease, CallFailure> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(LEASE_LABEL.to_owned(), kind.label().to_owned())])),
            annotations: Some(BTreeMap::from([(SHARDS_ANNOTATION.to_owned(), self.shards.to_string())])),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, spec: Some(spec) };
        self.bounded(self.leases.create(&PostParams::default(), &lease)).await
    }

    /// Acquires or renews exactly this version.
    pub async fn take(&self, mut lease: Lease) -> Result<Lease, CallFailure> {
        let changes_hands = !self.is_ours(&lease);
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(seconds(self.times.lease_duration));
        spec.renew_time = Some(now());
        if changes_hands || spec.acquire_time.is_none() {
            spec.acquire_time = Some(now());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default().saturating_add(1));
        }
        self.replace(lease).await
    }

    /// Releases exactly this version: the next holder may rely on it that none of our writes can arrive any more.
    pub async fn release(&self, mut lease: Lease) -> Result<Lease, CallFailure> {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(FREE_SECONDS);
        spec.renew_time = Some(now());
        self.replace(lease).await
    }

    /// Deletes exactly this version.
    pub async fn delete(&self, lease: &Lease) -> Result<(), CallFailure> {
        let Some(name) = &lease.metadata.name else { return Ok(()) };
        let (uid, resource_version) = (lease.metadata.uid.clone(), lease.metadata.resource_version.clone());
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version }),
            ..DeleteParams::default()
        };
        self.bounded(self.leases.delete(name, &params)).await.map(drop)
    }

    /// Whether no controller has ever worked here: each reads the keys of seals before it writes to a cluster, and the
    /// first one creates them.
    pub async fn is_new_installation(&self) -> bool {
        let record = self.bounded(self.secrets.get_metadata(SECRET)).await;
        matches!(not_found_as_none(record), Ok(None))
    }

    pub fn is_ours(&self, lease: &Lease) -> bool {
        holder(lease) == self.identity
    }

    async fn replace(&self, lease: Lease) -> Result<Lease, CallFailure> {
        let name = lease.metadata.name.clone().unwrap_or_default();
        let params = PostParams::default();
        self.bounded(self.leases.replace(&name, &params, &lease)).await
    }

    /// A call with a deadline: by then the next one is due.
    async fn bounded<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallFailure> {
        error::bounded(self.times.retry_period, call).await
    }
}

/// The holder; empty if there is none.
pub fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// Whether its holder has released it, or it has had none. One that somebody has emptied by hand says nothing about its
/// holder's writes.
pub fn was_released(lease: &Lease) -> bool {
    let duration = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    holder(lease).is_empty() && duration == Some(FREE_SECONDS)
}

/// The value of its label.
fn label(lease: &Lease) -> Option<&str> {
    lease.metadata.labels.as_ref()?.get(LEASE_LABEL).map(String::as_str)
}

/// The number of shares in its annotation.
pub fn shards(lease: &Lease) -> Option<&str> {
    lease.metadata.annotations.as_ref()?.get(SHARDS_ANNOTATION).map(String::as_str)
}

/// A state of a Lease, and when this replica has first observed it: clocks of machines are not compared.
#[derive(Clone, Debug)]
pub struct ObservedLease {
    pub lease: Option<Lease>,
    pub observed_at: Instant,
}

impl ObservedLease {
    /// The state that is observed now, after the one before.
    pub fn observe(before: Option<&Self>, lease: Option<Lease>) -> Self {
        let spec =
            |lease: Option<&Lease>| lease.map(|lease| (lease.metadata.uid.clone(), lease.spec.clone()));
        let same = before.filter(|before| spec(before.lease.as_ref()) == spec(lease.as_ref()));
        Self { observed_at: same.map_or_else(Instant::now, |before| before.observed_at), lease }
    }

    pub fn holder(&self) -> &str {
        self.lease.as_ref().map(holder).unwrap_or_default()
    }

    /// Since when it may be acquired: it was released, or was not renewed for as long as it says.
    pub fn free_since(&self) -> Instant {
        if self.holder().is_empty() {
            return self.observed_at;
        }
        let spec = self.lease.as_ref().and_then(|lease| lease.spec.as_ref());
        let stated = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        let stated = Duration::from_secs(u64::try_from(stated).unwrap_or_default());
        self.observed_at + stated.max(Duration::from_secs(1))
    }

    pub fn is_free(&self) -> bool {
        self.holder().is_empty() || Instant::now() > self.free_since()
    }

    /// Whether its holder has let it expire.
    pub fn has_run_out(&self) -> bool {
        !self.holder().is_empty() && self.is_free()
    }
}

fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}

/// A Lease has whole seconds; rounded up, so that others respect it for as long as its holder relies on it.
fn seconds(duration: Duration) -> i32 {
    let whole = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i32::try_from(whole).unwrap_or(i32::MAX)
}
