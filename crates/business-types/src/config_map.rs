use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use quota::Account;
use serde::Deserialize;
use std::collections::BTreeMap;

mod schema;
mod validation;

pub use schema::schema;
pub use validation::{DATA_BYTES_MAX, config_map};

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::CONFIG_MAP_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::CONFIG_MAPS)
}

/// The part of a ConfigMap from which its account is computed: a label names its tenant.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChargedConfigMap {
    metadata: LabelledMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LabelledMeta {
    labels: BTreeMap<String, String>,
}

impl crate::account::Charged for ChargedConfigMap {
    fn account(mut self) -> Account {
        let tenant = self.metadata.labels.remove(crate::names::TENANT_LABEL).unwrap_or_default();
        Account { tenant, ..Account::default() }
    }
}

/// The tenant that owns a ConfigMap; empty if it is the platform's own.
pub fn tenant_of(object: &Object) -> &str {
    object.text(&["metadata", "labels", crate::names::TENANT_LABEL])
}
