//! The part of a stored body that selectors look at.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use store::Attributes;

/// What selectors look at in a body; `S` is what they look at in its spec.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>"))]
pub struct Selected<S> {
    metadata: SelectedMeta,
    /// From the spec.
    pub spec: S,
    /// From the status.
    pub status: SelectedStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectedMeta {
    labels: BTreeMap<Box<str>, Box<str>>,
}

/// What selectors look at in a status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SelectedStatus {
    /// Where in its life the object is.
    pub phase: Box<str>,
}

impl<S: Default + DeserializeOwned> Selected<S> {
    /// A body that does not read as its kind selects nothing.
    pub fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_else(|error| {
            tracing::error!(%error, "a stored body does not read as its kind");
            Self::default()
        })
    }
}

impl<S> Selected<S> {
    /// A label; empty where it is absent.
    pub fn label(&self, key: &str) -> &str {
        self.metadata.labels.get(key).map(|value| &**value).unwrap_or_default()
    }

    /// The attributes of an object that is seen like the other objects of its tenant.
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
