use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, StoredRow, StrategyDependencies};
use crate::kind_ids;
use crate::rights::{READ, READ_WRITE, Right, Role};
use crate::strategy::{NsEmigrationStrategy, nsemigration};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind, Subresource};
use business_types::account::{self, FreeOfTenant};
use business_types::names::{GROUP, NS_EMIGRATIONS};
use business_types::nsemigration::{gvk, schema};
use serde::Deserialize;
use std::sync::Arc;
use store::{Attributes, Kind};

/// Emigrations of namespaces.
pub const ROW: KindRow = KindRow { plural: NS_EMIGRATIONS, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: kind_ids::NS_EMIGRATION,
    kind: || Arc::new(NsEmigrationKind),
    account: QuotaAccount::Free(account::of_stored::<FreeOfTenant>),
    role_source: None,
};

const RIGHTS: &[Right] = &[Right::object(Role::View, READ), Right::object(Role::Admin, READ_WRITE)];

fn resource(dependencies: &StrategyDependencies) -> Resource {
    Resource {
        gvk: gvk(),
        plural: NS_EMIGRATIONS,
        singular: "nsemigration",
        short_names: &["nse"],
        categories: &[],
        namespaced: true,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: nsemigration::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: vec![Subresource::STATUS],
            server_fields: &[],
            strategy: Arc::new(NsEmigrationStrategy::new(
                dependencies.allocations.clone(),
                dependencies.roles.clone(),
            )),
        })),
    }
}

/// Emigrations, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct NsEmigrationKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectableNsEmigrationSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    namespace: Box<str>,
}

impl Kind for NsEmigrationKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        NS_EMIGRATIONS
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID", "spec.namespace", "status.phase"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let mut selectable = Selectable::<SelectableNsEmigrationSpec>::read(body);
        let SelectableNsEmigrationSpec { tenant_id, namespace } = std::mem::take(&mut selectable.spec);
        let fields = [tenant_id.clone(), namespace, std::mem::take(&mut selectable.status.phase)];
        selectable.attributes(tenant_id, fields)
    }
}
