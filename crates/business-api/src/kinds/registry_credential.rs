use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, StoredRow, StrategyDependencies};
use crate::kind_ids;
use crate::rights::{READ_WRITE, Right, Role, UPDATE_FINALIZERS};
use crate::strategy::registry_credential::{self, RegistryCredentialStrategy, TokenHandler};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind, Subresource, Verb};
use business_types::account::{self, FreeOfTenant};
use business_types::names::{GROUP, REGISTRY_CREDENTIALS};
use business_types::registry_credential::{gvk, schema};
use serde::Deserialize;
use std::sync::Arc;
use store::{Attributes, Kind};

/// Credentials for the registry.
pub const ROW: KindRow =
    KindRow { plural: REGISTRY_CREDENTIALS, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: kind_ids::REGISTRY_CREDENTIAL,
    kind: || Arc::new(RegistryCredentialKind),
    account: QuotaAccount::Free(account::of_stored::<FreeOfTenant>),
    role_source: None,
};

/// Verbs of members. They see all credentials of the project; the strategy lets them create and delete only their own.
const OWN: &[&str] = &["create", "delete", "get", "list", "watch"];
/// The verb that has a password issued.
const ISSUE: &[&str] = &["create"];

const RIGHTS: &[Right] = &[
    Right::object(Role::Admin, READ_WRITE),
    Right::subresource(Role::Admin, "finalizers", UPDATE_FINALIZERS),
    Right::subresource(Role::Admin, "token", ISSUE),
    Right::object(Role::View, OWN),
    Right::subresource(Role::View, "token", ISSUE),
];

fn resource(dependencies: &StrategyDependencies) -> Resource {
    let StrategyDependencies { roles, credential_days_max: days_max, .. } = dependencies.clone();
    let token = Subresource::handled("token", &[Verb::Create], TokenHandler::new(roles.clone(), days_max));
    Resource {
        gvk: gvk(),
        plural: REGISTRY_CREDENTIALS,
        singular: "registrycredential",
        short_names: &["regcred"],
        categories: &[],
        namespaced: true,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: registry_credential::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: vec![Subresource::STATUS, token],
            server_fields: &[],
            strategy: Arc::new(RegistryCredentialStrategy::new(roles, days_max)),
        })),
    }
}

/// Credentials, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct RegistryCredentialKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SelectableRegistryCredentialSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    user: Box<str>,
}

impl Kind for RegistryCredentialKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        REGISTRY_CREDENTIALS
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID", "spec.user"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let mut selectable = Selectable::<SelectableRegistryCredentialSpec>::read(body);
        let SelectableRegistryCredentialSpec { tenant_id, user } = std::mem::take(&mut selectable.spec);
        selectable.attributes(tenant_id.clone(), [tenant_id, user])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_out_of_a_body() {
        let read = RegistryCredentialKind.attributes(br#"{"spec":{"tenantID":"t","user":"alice"}}"#);
        assert_eq!(read.tenant.as_deref(), Some("t"));
        assert_eq!(read.fields, ["t".into(), "alice".into()].into());
    }
}
