//! The part of a stored body that selectors can use.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use store::Attributes;

/// The part of a body that selectors can use; `S` is the part of its spec.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>"))]
pub struct Selectable<S> {
    metadata: SelectableMeta,
    /// The part of the spec.
    pub spec: S,
    /// The part of the status.
    pub status: SelectableStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectableMeta {
    labels: BTreeMap<Box<str>, Box<str>>,
}

/// The part of a status that selectors can use.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SelectableStatus {
    /// The phase of the object.
    pub phase: Box<str>,
}

impl<S: Default + DeserializeOwned> Selectable<S> {
    /// Reads a stored body. The result is empty if the body does not decode as its kind.
    pub fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_else(|error| {
            tracing::error!(%error, "a stored body does not read as its kind");
            Self::default()
        })
    }
}

impl<S> Selectable<S> {
    /// A label; empty where it is absent.
    pub fn label(&self, key: &str) -> &str {
        self.metadata.labels.get(key).map(|value| &**value).unwrap_or_default()
    }

    /// The attributes of an object that is visible like most objects of its tenant: neither tenant-wide nor public.
    pub fn attributes(self, tenant: Box<str>, fields: impl IntoIterator<Item = Box<str>>) -> Attributes {
        Attributes {
            tenant: (!tenant.is_empty()).then_some(tenant),
            tenant_wide: false,
            public: false,
            labels: self.metadata.labels.into_iter().collect(),
            fields: fields.into_iter().collect(),
        }
    }
}
