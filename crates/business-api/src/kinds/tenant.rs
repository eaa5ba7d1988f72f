use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, RoleSource, StoredRow, StrategyDependencies};
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
    account: QuotaAccount::Charged(account::of_stored::<ChargedTenant>),
    role_source: Some(RoleSource::Administrators(roles_given_by)),
};

const RIGHTS: &[Right] = &[Right::object(Role::View, READ)];

fn resource(dependencies: &StrategyDependencies) -> Resource {
    let StrategyDependencies { clusters, allocations, roles, .. } = dependencies.clone();
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
struct NamedBody {
    metadata: BodyMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BodyMetadata {
    name: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AdministratorsBody {
    spec: AdministratorsSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AdministratorsSpec {
    administrators: Vec<Subject>,
}

/// The administrator roles that a tenant grants.
fn roles_given_by(name: &str, body: &[u8]) -> ObjectBindings {
    let AdministratorsBody { spec } = serde_json::from_slice(body).unwrap_or_else(|error| {
        tracing::error!(%error, "a stored tenant does not say who rules it");
        AdministratorsBody::default()
    });
    let mut bindings = ObjectBindings { tenant: name.into(), ..ObjectBindings::default() };
    for subject in &spec.administrators {
        bindings.bind(subjects::key(subject), Role::Administrator);
        bindings.add_account_namespace("", subject);
    }
    bindings
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

    /// All callers of the tenant see it.
    fn attributes(&self, body: &[u8]) -> Attributes {
        let NamedBody { metadata } = serde_json::from_slice(body).unwrap_or_default();
        let selectable = Selectable::<IgnoredAny>::read(body);
        Attributes { tenant_wide: true, ..selectable.attributes(metadata.name, []) }
    }
}
