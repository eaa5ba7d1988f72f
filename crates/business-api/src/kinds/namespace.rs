use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, SUBRESOURCES, StoredRow, StrategyDependencies};
use crate::kind_ids;
use crate::rights::{CERTIFICATE, CREATE, GET_UPDATE, READ, READ_WRITE, Right, Role, UPDATE_FINALIZERS};
use crate::strategy::namespace::certificate::CertificateHandler;
use crate::strategy::namespace::pull_credential::PullCredentialHandler;
use crate::strategy::namespace::transfer::TransferHandler;
use crate::strategy::operator_act::Act;
use crate::strategy::{NamespaceStrategy, namespace};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind, Subresource, Verb};
use business_types::account;
use business_types::names::{GROUP, NAMESPACES, PULL_CREDENTIAL, TRANSFER};
use business_types::namespace::{ChargedNamespace, gvk, schema};
use serde::Deserialize;
use std::sync::Arc;
use store::{Attributes, Kind};

/// Namespaces.
pub const ROW: KindRow = KindRow { plural: NAMESPACES, stored: Some(STORED), rights: RIGHTS, resource };

const STORED: StoredRow = StoredRow {
    id: kind_ids::NAMESPACE,
    kind: || Arc::new(NamespaceKind),
    account: QuotaAccount::Charged(account::of_stored::<ChargedNamespace>),
    role_source: None,
};

const RIGHTS: &[Right] = &[
    Right::object(Role::View, READ),
    Right::object(Role::Edit, READ_WRITE),
    // The RoleBindings in the cluster decide what its bearer may do there.
    Right::subresource(Role::View, CERTIFICATE, &["get"]),
    Right::subresource(Role::Admin, "finalize", GET_UPDATE),
    Right::subresource(Role::Admin, "finalizers", UPDATE_FINALIZERS),
    // Moving a namespace takes its budget from a project.
    Right::subresource(Role::Admin, TRANSFER, CREATE),
];

fn resource(dependencies: &StrategyDependencies) -> Resource {
    let StrategyDependencies {
        clusters,
        allocations,
        roles,
        finalizers,
        forbidden,
        certificates,
        credential_days_max: days_max,
    } = dependencies.clone();
    let certificate = CertificateHandler::new(certificates, roles.clone());
    let certificate = Subresource::handled(CERTIFICATE, &[Verb::Get], certificate);
    let pull = Subresource::handled(PULL_CREDENTIAL, &[Verb::Create], PullCredentialHandler::new(days_max));
    let transfer = Subresource::handled(TRANSFER, &[Verb::Create], TransferHandler::new(roles.clone()));
    Resource {
        gvk: gvk(),
        plural: NAMESPACES,
        singular: "namespace",
        short_names: &["bns"],
        categories: &[],
        namespaced: true,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: namespace::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: SUBRESOURCES
                .into_iter()
                .chain([certificate, pull, transfer, Act::Abandon.subresource()])
                .collect(),
            server_fields: namespace::SERVER_FIELDS,
            strategy: Arc::new(NamespaceStrategy::new(clusters, allocations, roles, forbidden, finalizers)),
        })),
    }
}

/// Namespaces, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceKind;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectableNamespaceSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
    cluster_name: Box<str>,
    namespace: Box<str>,
}

impl Kind for NamespaceKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        NAMESPACES
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID", "spec.clusterName", "spec.namespace", "status.phase"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let mut selectable = Selectable::<SelectableNamespaceSpec>::read(body);
        let SelectableNamespaceSpec { tenant_id, cluster_name, namespace } =
            std::mem::take(&mut selectable.spec);
        let fields =
            [tenant_id.clone(), cluster_name, namespace, std::mem::take(&mut selectable.status.phase)];
        selectable.attributes(tenant_id, fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_out_of_a_body() {
        let body =
            br#"{"metadata":{},"spec":{"clusterName":"c","namespace":"n"},"status":{"phase":"Pending"}}"#;
        let read = NamespaceKind.attributes(body);
        assert_eq!(read.tenant, None);
        assert_eq!(read.fields, ["".into(), "c".into(), "n".into(), "Pending".into()].into());
    }
}
