//! The objects of the test: member clusters, tenants, projects and namespaces as the API stores them, with extra fields
//! for the audit. The same code as for real objects computes their charges.

use anyhow::{Context, Result};
use business_types::account::{self, PROJECT, TENANT};
use business_types::names::{GROUP, MEMBER_CLUSTERS, NAMESPACES, PROJECTS, TENANTS};
use business_types::{ChargedMemberCluster, ChargedNamespace, ChargedProject, ChargedTenant};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use store::audit::Accounts;
use store::model::NewState;
use store::quota::Account;
use store::{Attributes, Key, Kind, KindId, ScopeRole};
use uuid::Uuid;

/// The resources that all scopes limit.
pub(crate) const RESOURCES: [&str; 2] = ["cpu", "pods"];

/// Amounts in whole units, by resource.
pub(crate) type Units = BTreeMap<String, u64>;

/// The same amount of every resource.
pub(crate) fn units(amount: u64) -> Units {
    RESOURCES.iter().map(|resource| ((*resource).to_owned(), amount)).collect()
}

/// An amount as the test writes it (a number) or as people do (a text).
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Text(String),
}

/// Reads amounts, which must be whole units: the audit cannot calculate with others.
fn whole_units<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Units, D::Error> {
    let amounts = BTreeMap::<String, Amount>::deserialize(deserializer)?;
    let unit = |(resource, amount)| match amount {
        Amount::Number(number) => Ok((resource, number)),
        Amount::Text(text) => text
            .parse()
            .map(|number| (resource, number))
            .map_err(|_not_whole| D::Error::custom(format!("{text:?} is no whole number"))),
    };
    amounts.into_iter().map(unit).collect()
}

fn optional_units<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Units>, D::Error> {
    whole_units(deserializer).map(Some)
}

/// The kinds of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestKind {
    /// A member cluster, which sets limits of the fleet.
    Cluster,
    /// A tenant with its ceilings.
    Tenant,
    /// A project.
    Project,
    /// A namespace.
    Namespace,
}

impl TestKind {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 4] = [Self::Cluster, Self::Tenant, Self::Project, Self::Namespace];

    /// The kind with an id of the store.
    pub(crate) fn of_id(id: i16) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.id().0 == id);
        found.with_context(|| format!("no kind of the test has the number {id}"))
    }

    /// The kind with a plural.
    pub(crate) fn of_resource(resource: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.resource() == resource);
        found.with_context(|| format!("{resource} are no kind of the test"))
    }

    /// Its id in the store.
    pub(crate) fn id(self) -> KindId {
        KindId(match self {
            Self::Cluster => 1,
            Self::Tenant => 2,
            Self::Project => 3,
            Self::Namespace => 4,
        })
    }

    /// Its plural.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Cluster => MEMBER_CLUSTERS,
            Self::Tenant => TENANTS,
            Self::Project => PROJECTS,
            Self::Namespace => NAMESPACES,
        }
    }

    fn kind_name(self) -> &'static str {
        match self {
            Self::Cluster => "MemberCluster",
            Self::Tenant => "Tenant",
            Self::Project => "Project",
            Self::Namespace => "Namespace",
        }
    }

    /// The charges and limits of a body, as the API computes them.
    fn account(self, body: &[u8]) -> serde_json::Result<Account> {
        match self {
            Self::Cluster => account::of_stored::<ChargedMemberCluster>(body),
            Self::Tenant => account::of_stored::<ChargedTenant>(body),
            Self::Project => account::of_stored::<ChargedProject>(body),
            Self::Namespace => account::of_stored::<ChargedNamespace>(body),
        }
    }
}

impl Kind for TestKind {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn resource(&self) -> &str {
        Self::resource(*self)
    }

    fn stands_for(&self) -> Option<ScopeRole> {
        match self {
            Self::Tenant => Some(ScopeRole { scope: TENANT, required: false }),
            Self::Project => Some(ScopeRole { scope: PROJECT, required: true }),
            Self::Cluster | Self::Namespace => None,
        }
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let tenant = serde_json::from_slice::<StoredBody>(body).map(|body| body.tenant(*self).to_owned());
        let tenant = tenant.ok().filter(|tenant| !tenant.is_empty()).map(Into::into);
        Attributes { tenant, ..Attributes::default() }
    }
}

/// Computes accounts of stored bodies for the store's own audit.
#[derive(Debug)]
pub(crate) struct TestAccounts;

impl Accounts for TestAccounts {
    fn account(&self, kind: KindId, body: &[u8]) -> Result<Option<Account>, String> {
        let kind = TestKind::of_id(kind.0).map_err(|error| error.to_string())?;
        kind.account(body).map(Some).map_err(|error| error.to_string())
    }
}

/// The stored body: one type for all kinds, each of which uses a part of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StoredBody {
    api_version: String,
    kind: String,
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
    /// Unique for each write, so that the audit finds which writes were stored.
    pub(crate) token: Uuid,
    /// Whether the writer may only use budget that the tenant has, and not create new budget.
    pub(crate) bound: bool,
    /// The list that a namespace was created with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) list: Option<List>,
}

/// A list of objects of which all or none are created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct List {
    /// The same for all objects of the list.
    pub(crate) id: Uuid,
    /// The number of objects.
    pub(crate) size: usize,
}

/// `metadata`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    deletion_timestamp: Option<String>,
}

/// `spec`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    #[serde(rename = "tenantID", skip_serializing_if = "String::is_empty")]
    pub(crate) tenant_id: String,
    /// A project's parent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) parent_project_name: String,
    /// A tenant's ceilings, a project's limits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) clusters: BTreeMap<String, HardUnits>,
    /// The cluster of a namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cluster_name: String,
    /// The name of a namespace in the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    /// The amounts of a namespace or a cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "whole_units")]
    pub(crate) hard: Units,
    /// The amounts of a cluster that are derived from its nodes.
    #[serde(skip_serializing_if = "Derived::is_empty")]
    pub(crate) derived: Derived,
}

/// Amounts in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HardUnits {
    #[serde(deserialize_with = "whole_units")]
    pub(crate) hard: Units,
}

/// `spec.derived`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Derived {
    pub(crate) resources: BTreeMap<String, DerivedFrom>,
}

impl Derived {
    /// Whether nothing is derived.
    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }
}

/// The source of a derived amount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DerivedFrom {
    resource: String,
}

/// `status`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    /// An operator has locked the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) locked: Option<bool>,
    /// The charge of a namespace, if it differs from the spec.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_units")]
    pub(crate) cached_spec_hard: Option<Units>,
    /// The derived amounts of a cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) capacity: Units,
}

impl StoredBody {
    fn new(kind: TestKind, namespace: &str, name: &str) -> Self {
        let metadata =
            Metadata { name: name.to_owned(), namespace: namespace.to_owned(), deletion_timestamp: None };
        let api_version = format!("{GROUP}/v1");
        Self { api_version, kind: kind.kind_name().to_owned(), metadata, ..Self::default() }.with_new_token()
    }

    /// A cluster with these amounts, of which the resources `derived` are derived from its nodes.
    pub(crate) fn cluster(name: &str, amounts: Units, derived: &[&str]) -> Self {
        let mut body = Self::new(TestKind::Cluster, "", name);
        for (resource, amount) in amounts {
            if derived.contains(&resource.as_str()) {
                let from = DerivedFrom { resource: resource.clone() };
                body.spec.derived.resources.insert(resource.clone(), from);
                body.status.capacity.insert(resource, amount);
            } else {
                body.spec.hard.insert(resource, amount);
            }
        }
        body
    }

    /// A tenant with ceilings.
    pub(crate) fn of_tenant(name: &str, ceilings: BTreeMap<String, HardUnits>) -> Self {
        let mut body = Self::new(TestKind::Tenant, "", name);
        body.spec.clusters = ceilings;
        body
    }

    /// A project of a tenant; a root if `parent` is empty.
    pub(crate) fn project(name: &str, tenant: &str, parent: &str, hard: BTreeMap<String, HardUnits>) -> Self {
        let mut body = Self::new(TestKind::Project, "", name);
        tenant.clone_into(&mut body.spec.tenant_id);
        parent.clone_into(&mut body.spec.parent_project_name);
        body.spec.clusters = hard;
        body
    }

    /// A namespace of a project in a cluster.
    pub(crate) fn namespace(project: &str, name: &str, cluster: &str, hard: Units) -> Self {
        let mut body = Self::new(TestKind::Namespace, project, name);
        name.clone_into(&mut body.spec.namespace);
        cluster.clone_into(&mut body.spec.cluster_name);
        body.spec.hard = hard;
        body
    }

    /// Sets the tenant.
    pub(crate) fn owned_by(mut self, tenant: &str) -> Self {
        tenant.clone_into(&mut self.spec.tenant_id);
        self
    }

    /// Sets the list.
    pub(crate) fn in_list(self, list: List) -> Self {
        Self { list: Some(list), ..self }
    }

    /// Sets a new token, for a write that is not bound.
    pub(crate) fn with_new_token(mut self) -> Self {
        self.token = Uuid::new_v4();
        self.bound = false;
        self
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The tenant of the object.
    pub(crate) fn tenant(&self, kind: TestKind) -> &str {
        match kind {
            TestKind::Cluster => "",
            TestKind::Tenant => &self.metadata.name,
            TestKind::Project | TestKind::Namespace => &self.spec.tenant_id,
        }
    }

    /// Whether it is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Marks it as being deleted.
    pub(crate) fn delete(&mut self) {
        self.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    }

    /// The charge of a namespace.
    pub(crate) fn charge(&self) -> &Units {
        self.status.cached_spec_hard.as_ref().unwrap_or(&self.spec.hard)
    }

    /// Its key in the store.
    pub(crate) fn key(&self, kind: TestKind) -> Key {
        Key::new(kind.id(), &self.metadata.namespace, &self.metadata.name)
    }

    /// The state that is written to the store.
    pub(crate) fn state(&self, kind: TestKind) -> Result<NewState> {
        let body = serde_json::to_string(self)?;
        let account = kind.account(body.as_bytes())?;
        Ok(NewState { body, account })
    }

    /// The maximum of charge and spec for each resource.
    pub(crate) fn high_water(&self) -> Units {
        let mut high = self.charge().clone();
        for (resource, amount) in &self.spec.hard {
            let slot = high.entry(resource.clone()).or_default();
            *slot = (*slot).max(*amount);
        }
        high
    }
}
