//! A seal contains what we have written into a member cluster, with an HMAC that only the controller can make.
//!
//! The owner of a cluster may write anything there, so nothing there is believed without a seal. It counts only if our
//! own record may be missing: an answer was lost, or the database was restored.
//!
//! The annotation is `v1 KEY CODE VALUES`: the id of the key, the HMAC-SHA256 of everything else in base64url, and the
//! sealed values as JSON.

/// Keeps the keys in a Secret.
pub mod key_manager;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use meta::quantity::ResourceList;
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

const VERSION: &str = "v1";

/// The sealed values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sealed {
    /// The member cluster: the uid of its `kube-system`.
    pub cluster: String,
    /// The namespace there.
    pub namespace: String,
    /// Its uid. It is not known before the namespace is created: a seal without it says only that we wanted to create
    /// this namespace for this object, and could be copied to a later one of the same name.
    #[serde(rename = "namespaceUID", skip_serializing_if = "Option::is_none")]
    pub namespace_uid: Option<String>,
    /// In a seal without the uid: the uid that was on record when the seal was made. While it still is, the namespace
    /// with this seal was created after it; a copy of a former namespace's seal names another uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Uid of the business namespace.
    pub object: String,
    pub tenant: String,
    pub project: String,
    #[serde(rename = "projectUID")]
    pub project_uid: String,
    /// The generation of the business namespace that it was made from.
    pub generation: i64,
    pub origin: Origin,
    pub hard: ResourceList,
}

impl Sealed {
    /// Whether it was made for this namespace of this cluster.
    pub fn is_of(&self, cluster: &str, namespace: &str, uid: &str) -> bool {
        let same_uid = self.namespace_uid.as_deref().is_none_or(|sealed| sealed == uid);
        same_uid && self.cluster == cluster && self.namespace == namespace
    }
}

/// How the sealed namespace came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// We have created it.
    Made,
    /// It existed, and was adopted with consent.
    Adopted,
    /// Its object is deleted, and the namespace stays.
    Released,
    /// Somebody has created it in place of ours.
    Replaced,
}

impl Origin {
    /// Whether the namespace is marked as adopted: the policies of the cluster allow us only this mark on what we have
    /// not created, and do not let us delete it. The mark does not say whose it is.
    pub fn is_adopted(self) -> bool {
        matches!(self, Self::Adopted | Self::Released | Self::Replaced)
    }
}

/// A seal whose HMAC is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSeal {
    pub sealed: Sealed,
    /// Whether it was made with the active key.
    pub is_current: bool,
}

/// The keys of seals by id.
#[derive(Clone, Debug)]
pub struct Keyring {
    keys: BTreeMap<String, hmac::Key>,
    /// The id of the key that new seals are made with.
    active: String,
    signing: hmac::Key,
}

impl Keyring {
    /// `None` if the active key is not among them.
    pub fn new(keys: &BTreeMap<String, Vec<u8>>, active: &str) -> Option<Self> {
        let key = |bytes: &Vec<u8>| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let signing = key(keys.get(active)?);
        let keys = keys.iter().map(|(id, bytes)| (id.clone(), key(bytes))).collect();
        Some(Self { keys, active: active.to_owned(), signing })
    }

    /// The id of the key that new seals are made with.
    pub fn active(&self) -> &str {
        &self.active
    }

    pub fn seal(&self, values: &Sealed) -> String {
        let values = json!(values).to_string();
        let code = hmac::sign(&self.signing, message(&self.active, &values).as_bytes());
        format!("{VERSION} {} {} {values}", self.active, URL_SAFE_NO_PAD.encode(code))
    }

    /// Verifies a seal. `None` if it is not valid.
    pub fn open(&self, text: &str) -> Option<VerifiedSeal> {
        let SealParts { id, code, values } = parts(text)?;
        let key = self.keys.get(id)?;
        hmac::verify(key, message(id, values).as_bytes(), &URL_SAFE_NO_PAD.decode(code).ok()?).ok()?;
        Some(VerifiedSeal { sealed: serde_json::from_str(values).ok()?, is_current: id == self.active })
    }
}

struct SealParts<'a> {
    id: &'a str,
    code: &'a str,
    values: &'a str,
}

fn parts(text: &str) -> Option<SealParts<'_>> {
    let rest = text.strip_prefix(VERSION)?.strip_prefix(' ')?;
    let (id, rest) = rest.split_once(' ')?;
    let (code, values) = rest.split_once(' ')?;
    Some(SealParts { id, code, values })
}

/// The id of the key in a seal, not verified.
pub fn key_id(text: &str) -> Option<&str> {
    parts(text).map(|parts| parts.id)
}

fn message(id: &str, values: &str) -> String {
    format!("{VERSION} {id} {values}")
}

/// The keys as they were last read.
#[derive(Debug, Default)]
pub struct SealKeys {
    keyring: watch::Sender<Option<Arc<Keyring>>>,
    /// When the last successful read was sent.
    read: watch::Sender<Option<Instant>>,
    read_request: Notify,
}

impl SealKeys {
    /// `None` before the first read.
    pub fn keyring(&self) -> Option<Arc<Keyring>> {
        self.keyring.borrow().clone()
    }

    /// Waits for a read that is sent after this call: whoever has sealed anything before has stored its key before.
    pub async fn wait_for_read(&self) {
        let begun = Instant::now();
        let mut read = self.read.subscribe();
        self.read_request.notify_one();
        // The sender lives as long as this.
        drop(read.wait_for(|sent| sent.is_some_and(|sent| sent >= begun)).await);
    }

    /// Waits until somebody asks for a read.
    pub(crate) async fn read_requested(&self) {
        self.read_request.notified().await;
    }

    /// Whether somebody waits for a read.
    pub(crate) fn has_waiters(&self) -> bool {
        self.read.receiver_count() > 0
    }

    /// Sets the keys that were read by a call that was sent at `sent`.
    pub fn set(&self, keyring: Keyring, sent: Instant) {
        self.keyring.send_replace(Some(Arc::new(keyring)));
        self.read.send_replace(Some(sent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{amounts, keyring};

    fn values() -> Sealed {
        Sealed {
            cluster: "c".into(),
            namespace: "web".into(),
            namespace_uid: Some("n".into()),
            after: None,
            object: "o".into(),
            tenant: "t".into(),
            project: "p".into(),
            project_uid: "pu".into(),
            generation: 3,
            origin: Origin::Made,
            hard: amounts(&[("pods", "3"), ("requests.cpu", "1500m")]),
        }
    }

    #[test]
    fn a_seal_is_read_back_and_holds() {
        let seal = keyring().seal(&values());
        assert_eq!(keyring().open(&seal), Some(VerifiedSeal { sealed: values(), is_current: true }));
        assert_eq!(key_id(&seal), Some("k1"));
        assert!(seal.contains(r#""project":"p""#), "a person can read it: {seal}");
        let anew = Sealed { namespace_uid: None, after: Some("n".into()), ..values() };
        let opened = keyring().open(&keyring().seal(&anew));
        assert_eq!(opened.map(|opened| opened.sealed), Some(anew));
    }

    #[test]
    fn nothing_of_a_seal_can_be_changed() {
        let seal = keyring().seal(&values());
        for at in 0..seal.len() {
            let mut bytes = seal.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert_eq!(keyring().open(&changed), None, "{changed}");
        }
        for text in [
            "",
            "v1",
            "v1 k1",
            "v1 k1 00",
            "v1 k1 0 {}",
            "v1 k1 zz {}",
            "v2 k1 00 {}",
            "v1 k1 \u{fc}\u{fc} {}",
        ] {
            assert_eq!(keyring().open(text), None, "{text}");
        }
    }

    #[test]
    fn an_older_key_opens_its_seals_and_makes_no_more() {
        let old = keyring();
        let keys = BTreeMap::from([("k1".to_owned(), vec![1; 32]), ("k2".to_owned(), vec![2; 32])]);
        let new = Keyring::new(&keys, "k2").unwrap();
        let opened = new.open(&old.seal(&values())).unwrap();
        assert_eq!((opened.sealed, opened.is_current), (values(), false));
        assert_eq!(key_id(&new.seal(&values())), Some("k2"));
        assert_eq!(old.open(&new.seal(&values())), None);
        let other = Keyring::new(&BTreeMap::from([("k1".to_owned(), vec![9; 32])]), "k1").unwrap();
        assert_eq!(other.open(&old.seal(&values())), None, "the same id is not the same key");
        assert!(Keyring::new(&keys, "k3").is_none());
    }
}
