//! What the rows of the registry's kinds have in common.

use super::attributes::Selected;
use super::{Directories, Meaning, SUBRESOURCES, StoredRow};
use crate::rights::{GET_UPDATE, READ, READ_WRITE, Right, Role, UPDATE_FINALIZERS};
use crate::strategy::operator_act::Act;
use crate::strategy::registry::{COLUMNS, RegistryStrategy, SERVER_FIELDS};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind};
use business_types::account;
use business_types::names::GROUP;
use business_types::registry::{ChargedRegistryObject, RegistryKind};
use serde::Deserialize;
use std::marker::PhantomData;
use std::sync::Arc;
use store::{Attributes, Kind, KindId};

/// What callers with a tenant may do with either kind. What they may do with the repositories is decided where tokens for
/// the registry are made.
pub const RIGHTS: &[Right] = &[
    Right::object(Role::Admin, READ_WRITE),
    Right::subresource(Role::Admin, "finalize", GET_UPDATE),
    Right::subresource(Role::Admin, "finalizers", UPDATE_FINALIZERS),
    Right::object(Role::View, READ),
];

/// How a kind of this number is stored.
pub const fn stored<K: RegistryKind>(id: KindId) -> StoredRow {
    StoredRow {
        id,
        kind: || Arc::new(RegistryStored::<K>(PhantomData)),
        account: Meaning::Charged(account::of_stored::<ChargedRegistryObject<K>>),
        gives: None,
    }
}

/// How a kind is served.
pub fn resource<K: RegistryKind>(row: &StoredRow, directories: &Directories) -> Resource {
    let Directories { allocations, finalizers, .. } = directories.clone();
    Resource {
        gvk: K::gvk(),
        plural: K::PLURAL,
        singular: K::SINGULAR,
        short_names: K::SHORT_NAMES,
        categories: &[],
        namespaced: true,
        verbs: ALL_VERBS,
        schema: Arc::new(K::schema()),
        columns: COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: row.id,
            kind: (row.kind)(),
            subresources: SUBRESOURCES
                .into_iter()
                .chain([Act::Lock, Act::Unlock].map(Act::subresource))
                .collect(),
            server_fields: SERVER_FIELDS,
            strategy: Arc::new(RegistryStrategy::<K>::new(allocations, finalizers)),
        })),
    }
}

/// A kind of the registry, as the store sees it.
#[derive(Clone, Copy, Debug)]
struct RegistryStored<K>(PhantomData<K>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectedRegistrySpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    name: Box<str>,
}

impl<K: RegistryKind> Kind for RegistryStored<K> {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        K::PLURAL
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID", "spec.name", "status.phase"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let mut selected = Selected::<SelectedRegistrySpec>::read(body);
        let SelectedRegistrySpec { tenant_id, name } = std::mem::take(&mut selected.spec);
        let fields = [tenant_id.clone(), name, std::mem::take(&mut selected.status.phase)];
        selected.attributes(tenant_id, fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use business_types::ImageNamespace;

    #[test]
    fn attributes_are_read_out_of_a_body() {
        let body = br#"{"metadata":{"name":"web"},"spec":{"tenantID":"t","name":"web"},"status":{"phase":"Locked"}}"#;
        let read = RegistryStored::<ImageNamespace>(PhantomData).attributes(body);
        assert_eq!(read.tenant.as_deref(), Some("t"));
        assert_eq!(read.fields, ["t".into(), "web".into(), "Locked".into()].into());
    }
}
