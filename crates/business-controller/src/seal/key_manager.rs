//! Keeps the keys of seals in a Secret in the controller's namespace.
//!
//! The holder of the fleet's share creates the Secret; every replica reads it. An operator requests a rotation by the
//! annotation `business.tkestack.io/rotate-key`: a new key becomes the active one, seals with the old key are renewed
//! in passes that have nothing else to do, and the old key is removed when every registered cluster was compared by a
//! replica that already sealed with the new key, and no seal with the old one was found.

use super::Keyring;
use crate::context::Context;
use crate::error::{self, CallFailure, Error, not_found_as_none};
use crate::member_cluster::kind::{BusinessMemberCluster, MemberClusterView};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Name of the Secret.
pub const SECRET: &str = "business-controller-seal";
/// Annotation of the Secret: the id of the active key, which new seals are made with.
const ACTIVE_ANNOTATION: &str = "business.tkestack.io/active-key";
/// Annotation of the Secret, set by an operator: requests a rotation.
const ROTATE_ANNOTATION: &str = "business.tkestack.io/rotate-key";
/// How often the Secret is read.
const PERIOD: Duration = Duration::from_secs(15);
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often the Secret is read while it does not exist, or somebody waits for a read.
const SHORT_PERIOD: Duration = Duration::from_millis(200);
const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 6;

/// Keeps the keys.
#[derive(Debug)]
pub struct KeyManager {
    api: Api<Secret>,
    cx: Arc<Context>,
}

/// The content of the Secret.
#[derive(Debug)]
struct StoredKeys {
    resource_version: Option<String>,
    keys: BTreeMap<String, Vec<u8>>,
    active: String,
    shall_rotate: bool,
}

impl KeyManager {
    pub fn new(api: Api<Secret>, cx: Arc<Context>) -> Self {
        Self { api, cx }
    }

    /// Reads the Secret for ever.
    pub async fn run(self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(error = error.text(), "the keys of seals cannot be kept");
            }
            let is_awaited = self.cx.seals.keyring().is_none() || self.cx.seals.has_waiters();
            let period = if is_awaited { SHORT_PERIOD } else { PERIOD };
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = self.cx.seals.read_requested() => {}
            }
        }
    }

    /// Reads the keys, and creates, rotates or retires them if that is due.
    pub(crate) async fn look(&self) -> Result<(), Error> {
        let sent = Instant::now();
        let holds_fleet_share = self.cx.fleet().permit().is_ok();
        let stored = match self.get().await? {
            Some(secret) => StoredKeys::read(secret)?,
            None if holds_fleet_share => self.create().await?,
            None => return Ok(()),
        };
        let stored =
            if stored.shall_rotate && holds_fleet_share { self.rotate(stored).await? } else { stored };
        let keyring = Keyring::new(&stored.keys, &stored.active)
            .ok_or_else(|| Error::Config(format!("Secret {SECRET} has no key {:?}", stored.active)))?;
        self.cx.seals.set(keyring, sent);
        if holds_fleet_share { self.retire(&stored).await } else { Ok(()) }
    }

    async fn get(&self) -> Result<Option<Secret>, Error> {
        Ok(not_found_as_none(bounded(self.api.get(SECRET)).await)?)
    }

    async fn create(&self) -> Result<StoredKeys, Error> {
        let (id, key) = (random_id()?, random(KEY_BYTES)?);
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(SECRET.to_owned()),
                annotations: Some(BTreeMap::from([(ACTIVE_ANNOTATION.to_owned(), id.clone())])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(id.clone(), ByteString(key))])),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        self.cx.fleet().permit()?;
        let made = bounded(self.api.create(&PostParams::default(), &secret)).await?;
        tracing::warn!(key = id, "a key of seals was made: there was none");
        StoredKeys::read(made)
    }

    /// Makes a new key the active one.
    async fn rotate(&self, stored: StoredKeys) -> Result<StoredKeys, Error> {
        let (id, key) = (random_id()?, random(KEY_BYTES)?);
        let body = json!({
            "metadata": {
                "resourceVersion": stored.resource_version,
                "annotations": { (ACTIVE_ANNOTATION): id, (ROTATE_ANNOTATION): null },
            },
            "data": { (id.as_str()): ByteString(key) },
        });
        let rotated = StoredKeys::read(self.patch(body).await?)?;
        tracing::warn!(former = stored.active, key = id, "seals are made with a new key");
        Ok(rotated)
    }

    /// Removes former keys that no seal bears any more.
    async fn retire(&self, stored: &StoredKeys) -> Result<(), Error> {
        let mut unused: BTreeSet<&String> = stored.keys.keys().filter(|id| **id != stored.active).collect();
        if unused.is_empty() {
            return Ok(());
        }
        let keep = |cluster: MemberClusterView| {
            let status = cluster.status;
            // We have never written to a cluster without a recorded uid.
            if status.uid.is_empty() {
                return;
            }
            let comparison = status.comparison.unwrap_or_default();
            let is_since = comparison.missing.is_empty() && comparison.active_key == stored.active;
            unused.retain(|id| is_since && !comparison.keys.contains(*id));
        };
        self.cx.business.for_each::<BusinessMemberCluster>(keep).await.map_err(Error::Api)?;
        if unused.is_empty() {
            return Ok(());
        }
        let data: BTreeMap<&String, Value> = unused.iter().map(|id| (*id, Value::Null)).collect();
        let metadata = json!({ "resourceVersion": stored.resource_version });
        self.patch(json!({ "metadata": metadata, "data": data })).await?;
        tracing::warn!(keys = ?unused, "keys of seals were retired: no seal bears them");
        Ok(())
    }

    async fn patch(&self, body: Value) -> Result<Secret, Error> {
        let params = PatchParams::default();
        self.cx.fleet().permit()?;
        Ok(bounded(self.api.patch(SECRET, &params, &Patch::Merge(body))).await?)
    }
}

impl StoredKeys {
    fn read(secret: Secret) -> Result<Self, Error> {
        let annotations = secret.metadata.annotations.unwrap_or_default();
        let active = annotations.get(ACTIVE_ANNOTATION).cloned().ok_or_else(|| {
            Error::Config(format!(
                "Secret {SECRET} does not say in {ACTIVE_ANNOTATION} which key is the active one"
            ))
        })?;
        let keys: BTreeMap<String, Vec<u8>> =
            secret.data.unwrap_or_default().into_iter().map(|(id, bytes)| (id, bytes.0)).collect();
        if let Some((id, _)) = keys.iter().find(|(_, bytes)| bytes.len() < KEY_BYTES) {
            return Err(Error::Config(format!(
                "key {id} of Secret {SECRET} has less than {KEY_BYTES} bytes"
            )));
        }
        let shall_rotate = annotations.contains_key(ROTATE_ANNOTATION);
        Ok(Self { resource_version: secret.metadata.resource_version, keys, active, shall_rotate })
    }
}

fn random_id() -> Result<String, Error> {
    Ok(URL_SAFE_NO_PAD.encode(random(ID_BYTES)?))
}

fn random(bytes: usize) -> Result<Vec<u8>, Error> {
    let mut key = vec![0; bytes];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_unspecified| Error::Config("this machine has no random numbers".to_owned()))?;
    Ok(key)
}

async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallFailure> {
    error::bounded(DEADLINE, call).await
}
