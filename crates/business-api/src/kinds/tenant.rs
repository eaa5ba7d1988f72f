use super::attributes::Selected;
use super::{Directories, Gives, KindRow, Meaning, StoredRow};
use crate::kind_ids;
use crate::rights::{READ, Right, Role};
use crate::role_bindings::ObjectBindings;
use crate::strategy::{TenantStrategy, tenant};
use crate::subjects;
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind, Subresource};
use business_types::names::{GROUP, TENANTS};
use business_types::tenant::{ChargedTenant, gvk, schema};
use business_types::{Subject, account};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::sync::Arc;
use store::{Attributes, Kind, ScopeRole};

/// Tenants.
pub const ROW: KindRow = KindRow { plural: TENANTS, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: kind_ids::TENANT,
    kind: || Arc::new(TenantKind),
    account: Meaning::Charged(account::of_stored::<ChargedTenant>),
    gives: Some(Gives::Administrators(giving)),
};

const RIGHTS: &[Right] = &[Right::object(Role::View, READ)];

fn resource(directories: &Directories) -> Resource {
    let Directories { clusters, allocations, roles, .. } = directories.clone();
    Resource {
        gvk: gvk(),
        plural: TENANTS,
        singular: "tenant",
        short_names: &["tnt"],
        categories: &[],
        namespaced: false,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: tenant::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: vec![Subresource::STATUS],
            server_fields: &[],
            strategy: Arc::new(TenantStrategy::new(clusters, allocations, roles)),
        })),
    }
}

/// Tenants, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct TenantKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    metadata: Named,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GivingTenant {
    spec: GivingTenantSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GivingTenantSpec {
    administrators: Vec<Subject>,
}

/// The people whom a tenant makes its administrators.
fn giving(name: &str, body: &[u8]) -> ObjectBindings {
    let GivingTenant { spec } = serde_json::from_slice(body).unwrap_or_else(|error| {
        tracing::error!(%error, "a stored tenant does not say who rules it");
        GivingTenant::default()
    });
    let mut giving = ObjectBindings { tenant: name.into(), ..ObjectBindings::default() };
    for subject in &spec.administrators {
        giving.bind(subjects::key(subject), Role::Administrator);
        giving.add_account_namespace("", subject);
    }
    giving
}

impl Kind for TenantKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        TENANTS
    }

    fn stands_for(&self) -> Option<ScopeRole> {
        Some(ScopeRole { scope: account::TENANT, required: false })
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its own callers all see it.
    fn attributes(&self, body: &[u8]) -> Attributes {
        let Meta { metadata } = serde_json::from_slice(body).unwrap_or_default();
        let selected = Selected::<IgnoredAny>::read(body);
        Attributes { tenant_wide: true, ..selected.attributes(metadata.name, []) }
    }
}
