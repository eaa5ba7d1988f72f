use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, RoleSource, StoredRow, StrategyDependencies};
use crate::kind_ids;
use crate::rights::{READ, READ_UPDATE, Right, Role};
use crate::role_bindings::ObjectBindings;
use crate::strategy::{PlatformStrategy, platform};
use crate::subjects;
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind};
use business_types::account;
use business_types::names::{GROUP, PLATFORMS};
use business_types::platform::{ChargedPlatform, gvk, schema};
use serde::Deserialize;
use std::sync::Arc;
use store::{Attributes, Kind};

/// Platforms.
pub const ROW: KindRow = KindRow { plural: PLATFORMS, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: kind_ids::PLATFORM,
    kind: || Arc::new(PlatformKind),
    account: QuotaAccount::Charged(account::of_stored::<ChargedPlatform>),
    role_source: Some(RoleSource::Administrators(roles_given_by)),
};

const RIGHTS: &[Right] = &[Right::object(Role::Administrator, READ_UPDATE), Right::object(Role::View, READ)];

fn resource(dependencies: &StrategyDependencies) -> Resource {
    Resource {
        gvk: gvk(),
        plural: PLATFORMS,
        singular: "platform",
        short_names: &["plf"],
        categories: &[],
        namespaced: false,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: platform::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: Vec::new(),
            server_fields: &[],
            strategy: Arc::new(PlatformStrategy::new(dependencies.roles.clone())),
        })),
    }
}

/// Platforms, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct PlatformKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectablePlatformSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    administrators: Box<[Box<str>]>,
}

/// The administrator roles that a platform grants. They count only for credentials that name its tenant.
pub(crate) fn roles_given_by(_name: &str, body: &[u8]) -> ObjectBindings {
    let SelectablePlatformSpec { tenant_id, administrators } = Selectable::read(body).spec;
    let mut bindings = ObjectBindings { tenant: tenant_id, ..ObjectBindings::default() };
    for user in &administrators {
        bindings.bind(subjects::tenant_user(user), Role::Administrator);
    }
    bindings
}

impl Kind for PlatformKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        PLATFORMS
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID"]
    }

    /// All callers of a tenant may know its administrators.
    fn attributes(&self, body: &[u8]) -> Attributes {
        let mut selectable = Selectable::<SelectablePlatformSpec>::read(body);
        let tenant = std::mem::take(&mut selectable.spec.tenant_id);
        Attributes { tenant_wide: true, ..selectable.attributes(tenant.clone(), [tenant]) }
    }
}
