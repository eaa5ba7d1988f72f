use super::attributes::Selected;
use super::{Directories, Gives, KindRow, Meaning, StoredRow};
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
    account: Meaning::Charged(account::of_stored::<ChargedPlatform>),
    gives: Some(Gives::Administrators(giving)),
};

const RIGHTS: &[Right] = &[Right::object(Role::Administrator, READ_UPDATE), Right::object(Role::View, READ)];

fn resource(directories: &Directories) -> Resource {
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
            strategy: Arc::new(PlatformStrategy::new(directories.roles.clone())),
        })),
    }
}

/// Platforms, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct PlatformKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectedPlatformSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    administrators: Box<[Box<str>]>,
}

/// The users that a platform makes administrators of its tenant: their credential has to name that tenant.
pub(crate) fn giving(_name: &str, body: &[u8]) -> ObjectBindings {
    let SelectedPlatformSpec { tenant_id, administrators } = Selected::read(body).spec;
    let mut giving = ObjectBindings { tenant: tenant_id, ..ObjectBindings::default() };
    for user in &administrators {
        giving.bind(subjects::tenant_user(user), Role::Administrator);
    }
    giving
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

    /// All callers of a tenant may know who rules it.
    fn attributes(&self, body: &[u8]) -> Attributes {
        let mut selected = Selected::<SelectedPlatformSpec>::read(body);
        let tenant = std::mem::take(&mut selected.spec.tenant_id);
        Attributes { tenant_wide: true, ..selected.attributes(tenant.clone(), [tenant]) }
    }
}
