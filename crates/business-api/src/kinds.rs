//! The table of kinds. One row has everything that this program knows about a kind: how it is served, stored, charged,
//! followed and authorized.

/// The fields that selectors can use.
pub mod attributes;
/// The row of Project.
pub mod project;
/// The row of Namespace.
pub mod namespace;
/// The row of Platform.
pub mod platform;
/// The row of ConfigMap.
pub mod config_map;
/// The row of Portal.
pub mod portal;
/// The row of `NsEmigration`.
pub mod nsemigration;
/// The row of `ClusterOffer`.
pub mod cluster_offer;
/// What the rows of the registry's kinds have in common.
pub mod registry;
/// The row of `ImageNamespace`.
pub mod image_namespace;
/// The row of `ChartGroup`.
pub mod chart_group;
/// The row of `RegistryCredential`.
pub mod registry_credential;
/// The row of Tenant.
pub mod tenant;
/// The row of `MemberCluster`.
pub mod member_cluster;
/// The row of `NamespaceTemplate`.
pub mod namespace_template;

use crate::accounts::{KindAccounts, ReadAccount};
use crate::allocations::Allocations;
use crate::certificates::{Certificates, ValidDays};
use crate::clusters::Clusters;
use crate::finalizers::TenantFinalizers;
use crate::rights::{KindRights, Right};
use crate::role_bindings::{ReadBindings, RoleBindings};
use crate::roles::Roles;
use anyhow::{Context, ensure};
use apiserver::{Resource, Subresource};
use runtime::{Metrics, Tasks};
use std::sync::Arc;
use store::{Kind, KindId, Store};

/// The kinds of this program. A new one goes to the end: the number of a stored kind is its position among
/// the stored kinds, from 1.
pub const KINDS: KindTable = KindTable(&[
    project::ROW,
    namespace::ROW,
    platform::ROW,
    config_map::ROW,
    portal::ROW,
    cluster_offer::ROW,
    nsemigration::ROW,
    image_namespace::ROW,
    chart_group::ROW,
    registry_credential::ROW,
    tenant::ROW,
    member_cluster::ROW,
    namespace_template::ROW,
]);

/// The subresources of a kind with a status and finalizers of its own.
pub const SUBRESOURCES: [Subresource; 2] = [Subresource::STATUS, Subresource::FINALIZE];

/// One kind.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    /// Its plural.
    pub plural: &'static str,
    /// How it is stored; `None` for a computed kind.
    pub stored: Option<StoredRow>,
    /// What callers with a tenant may do with it.
    pub rights: &'static [Right],
    /// How it is served.
    pub resource: fn(&StrategyDependencies) -> Resource,
}

/// What this program knows about a kind that the store keeps.
#[derive(Clone, Copy, Debug)]
pub struct StoredRow {
    /// Its number in the store. It never changes and is never reused for another kind.
    pub id: KindId,
    /// The kind as the store sees it.
    pub kind: fn() -> Arc<dyn Kind>,
    /// How the quota ledger treats its objects.
    pub account: QuotaAccount,
    /// How its objects grant roles; `None` if they grant none.
    pub role_source: Option<RoleSource>,
}

/// How the quota ledger treats the objects of a kind.
#[derive(Clone, Copy, Debug)]
pub enum QuotaAccount {
    /// They are charged to a scope, or set the limits of one.
    Charged(ReadAccount),
    /// They cost nothing: their accounts only name their tenant.
    Free(ReadAccount),
}

impl QuotaAccount {
    /// The function that reads the account of an object.
    pub const fn reader(self) -> ReadAccount {
        match self {
            Self::Charged(read) | Self::Free(read) => read,
        }
    }
}

/// How the objects of a kind grant roles.
#[derive(Clone, Copy, Debug)]
pub enum RoleSource {
    /// They name administrators of their tenant.
    Administrators(ReadBindings),
    /// They are projects: they grant roles in themselves and in the projects below.
    Projects(ReadBindings),
}

/// What the strategies depend on.
#[derive(Clone, Debug)]
pub struct StrategyDependencies {
    /// The member clusters.
    pub clusters: Clusters,
    /// How full the projects are.
    pub allocations: Allocations,
    /// The roles of callers with a tenant.
    pub roles: Roles,
    /// The finalizers that tenants may set.
    pub finalizers: TenantFinalizers,
    /// Names in a member cluster that no namespace may claim.
    pub forbidden: Vec<String>,
    /// Certificates for member clusters.
    pub certificates: Certificates,
    /// How many days a password for the registry may be good for.
    pub credential_days_max: i64,
}

impl StrategyDependencies {
    /// Dependencies without data. They suffice for whoever reads the schemas of the kinds.
    pub fn empty() -> Self {
        let roles = Roles {
            tenant_admin_group: String::new(),
            projects: RoleBindings::empty(),
            administrators: Vec::new(),
            tenant_grant: false,
        };
        Self {
            clusters: Clusters::registration_optional(),
            allocations: Allocations::default(),
            roles,
            finalizers: TenantFinalizers::default(),
            forbidden: Vec::new(),
            certificates: Certificates::new(None, ValidDays::default()),
            credential_days_max: 0,
        }
    }
}

/// All kinds of a program.
#[derive(Clone, Copy, Debug)]
pub struct KindTable(pub &'static [KindRow]);

impl KindTable {
    /// The kinds that the store is opened with. The store numbers them by their position.
    pub fn store_kinds(self) -> anyhow::Result<Vec<Arc<dyn Kind>>> {
        for (StoredRow { id, .. }, number) in self.stored_rows().zip(1..) {
            ensure!(id.0 == number, "kind {} stands at place {number} of the table of kinds", id.0);
        }
        let projects =
            self.role_sources().filter(|(_, source)| matches!(source, RoleSource::Projects(_))).count();
        ensure!(projects <= 1, "{projects} kinds give roles in projects");
        Ok(self.stored_rows().map(|row| (row.kind)()).collect())
    }

    /// Opens the store of these kinds.
    pub fn open(self, config: store::Config, tasks: &Tasks, metrics: &Metrics) -> anyhow::Result<Store> {
        Store::open(config, self.store_kinds()?, tasks, metrics).context("open the store")
    }

    /// The resources that are served.
    pub fn resources(self, dependencies: &StrategyDependencies) -> Vec<Arc<Resource>> {
        let mut resources: Vec<_> = self.0.iter().map(|row| Arc::new((row.resource)(dependencies))).collect();
        resources.sort_by_key(|resource| resource.plural);
        resources
    }

    /// The stored kinds, each with the function that reads an object's account.
    pub fn accounts(self) -> impl Iterator<Item = KindAccounts> {
        self.stored_rows().map(|row| KindAccounts { kind: row.id, read: row.account.reader() })
    }

    /// The same for the kinds that are charged.
    pub fn charged_accounts(self) -> impl Iterator<Item = KindAccounts> {
        self.stored_rows().filter_map(|row| match row.account {
            QuotaAccount::Charged(read) => Some(KindAccounts { kind: row.id, read }),
            QuotaAccount::Free(_) => None,
        })
    }

    /// What roles may do with each kind.
    pub fn rights(self) -> Vec<KindRights> {
        self.0.iter().map(|row| KindRights { resource: row.plural, rights: row.rights }).collect()
    }

    /// The kinds whose objects grant roles.
    pub fn role_sources(self) -> impl Iterator<Item = (KindId, RoleSource)> {
        self.stored_rows().filter_map(|row| Some((row.id, row.role_source?)))
    }

    /// The rows of the kinds that the store keeps.
    pub fn stored_rows(self) -> impl Iterator<Item = &'static StoredRow> {
        self.0.iter().filter_map(|row| row.stored.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWAPPED: &[KindRow] = &[namespace::ROW, project::ROW];

    #[test]
    fn a_kinds_number_is_its_place() {
        let stored = KINDS.store_kinds().unwrap();
        let plurals: Vec<&str> = stored.iter().map(|kind| kind.resource()).collect();
        let rows = KINDS.0.iter().filter(|row| row.stored.is_some());
        assert_eq!(plurals, rows.map(|row| row.plural).collect::<Vec<_>>());
        assert!(KindTable(SWAPPED).store_kinds().is_err());
    }

    #[test]
    fn a_kind_is_charged_or_free_as_it_says() {
        let body = br#"{"metadata":{"name":"a","namespace":"p"},"spec":{"tenantID":"t","clusterName":"c","namespace":"n"}}"#;
        for row in KINDS.stored_rows() {
            let account = (row.account.reader())(body).unwrap();
            let means = account.pays.is_some() || account.grants.is_some() || !account.claims.is_empty();
            assert!(!means || matches!(row.account, QuotaAccount::Charged(_)), "kind {}", row.id.0);
            assert!((row.account.reader())(b"{").is_err(), "kind {}", row.id.0);
        }
    }
}
