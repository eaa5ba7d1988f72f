//! What the rows of the registry's kinds have in common.

use super::attributes::Selectable;
use super::{QuotaAccount, SUBRESOURCES, StoredRow, StrategyDependencies};
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

/// What callers with a tenant may do with either kind. The token server decides what they may do with repositories.
pub const RIGHTS: &[Right] = &[
    Right::object(Role::Admin, READ_WRITE),
    Right::subresource(Role::Admin, "finalize", GET_UPDATE),
    Right::subresource(Role::Admin, "finalizers", UPDATE_FINALIZERS),
    Right::object(Role::View, READ),
];

/// The stored row of a kind with this number.
pub const fn stored_row<K: RegistryKind>(id: KindId) -> StoredRow {
    StoredRow {
        id,
        kind: || Arc::new(StoredRegistryKind::<K>(PhantomData)),
        account: QuotaAccount::Charged(account::of_stored::<ChargedRegistryObject<K>>),
        role_source: None,
    }
}

/// How a kind is served.
pub fn resource<K: RegistryKind>(row: &StoredRow, dependencies: &StrategyDependencies) -> Resource {
    let StrategyDependencies { allocations, finalizers, .. } = dependencies.clone();
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
struct StoredRegistryKind<K>(PhantomData<K>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectableRegistrySpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    name: Box<str>,
}

impl<K: RegistryKind> Kind for StoredRegistryKind<K> {
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
        let mut selectable = Selectable::<SelectableRegistrySpec>::read(body);
        let SelectableRegistrySpec { tenant_id, name } = std::mem::take(&mut selectable.spec);
        let fields = [tenant_id.clone(), name, std::mem::take(&mut selectable.status.phase)];
        selectable.attributes(tenant_id, fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use business_types::ImageNamespace;

    #[test]
    fn attributes_are_read_out_of_a_body() {
        let body = br#"{"metadata":{"name":"web"},"spec":{"tenantID":"t","name":"web"},"status":{"phase":"Locked"}}"#;
        let read = StoredRegistryKind::<ImageNamespace>(PhantomData).attributes(body);
        assert_eq!(read.tenant.as_deref(), Some("t"));
        assert_eq!(read.fields, ["t".into(), "web".into(), "Locked".into()].into());
    }
}
