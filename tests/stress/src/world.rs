//! The objects of the test: member clusters, tenants, projects and namespaces as the API stores them, with extra fields
//! for the audit. The code for real objects computes their effect on the ledger.

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

/// Resources that every scope limits.
pub(crate) const RESOURCES: [&str; 2] = ["cpu", "pods"];

/// Whole units by resource.
pub(crate) type Units = BTreeMap<String, u64>;

/// The same amount of every resource.
pub(crate) fn units(amount: u64) -> Units {
    RESOURCES.iter().map(|resource| ((*resource).to_owned(), amount)).collect()
}

/// An amount as the test writes it, or as people do.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Text(String),
}

/// Whole units, and nothing else: the audit has no other arithmetic.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Units, D::Error> {
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

fn whole_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Units>, D::Error> {
    whole(deserializer).map(Some)
}

/// The kinds of the test; their places are their numbers in the store, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestKind {
    /// A member cluster, which grants the fleet what it has.
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

    /// The kind of a number.
    pub(crate) fn of(id: i16) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.id().0 == id);
        found.with_context(|| format!("no kind of the test has the number {id}"))
    }

    /// The kind of a plural.
    pub(crate) fn named(resource: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.resource() == resource);
        found.with_context(|| format!("{resource} are no kind of the test"))
    }

    /// Its number.
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

    fn word(self) -> &'static str {
        match self {
            Self::Cluster => "MemberCluster",
            Self::Tenant => "Tenant",
            Self::Project => "Project",
            Self::Namespace => "Namespace",
        }
    }

    /// What a body means to the ledger, as the API reads it.
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

/// Reads bodies for the store's own audit.
#[derive(Debug)]
pub(crate) struct TestAccounts;

impl Accounts for TestAccounts {
    fn account(&self, kind: KindId, body: &[u8]) -> Result<Option<Account>, String> {
        let kind = TestKind::of(kind.0).map_err(|error| error.to_string())?;
        kind.account(body).map(Some).map_err(|error| error.to_string())
    }
}

/// What a body holds: one shape for all kinds, of which each fills its part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StoredBody {
    api_version: String,
    kind: String,
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
    /// Unique to this write: what was stored can be told from what was not.
    pub(crate) token: Uuid,
    /// The writer may not create budget.
    pub(crate) bound: bool,
    /// The list that a namespace was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) list: Option<List>,
}

/// Objects that are made together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct List {
    /// Which.
    pub(crate) id: Uuid,
    /// How many they are.
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
    /// A namespace's cluster …
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cluster_name: String,
    /// … and its name there.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    /// What a namespace may use, or what a cluster has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "whole")]
    pub(crate) hard: Units,
    /// What of a cluster follows from its nodes.
    #[serde(skip_serializing_if = "Derived::is_empty")]
    pub(crate) derived: Derived,
}

/// Amounts in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HardUnits {
    #[serde(deserialize_with = "whole")]
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

/// What one amount is derived from.
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
    /// A namespace's charge, where it is not its spec.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole_if_any")]
    pub(crate) cached_spec_hard: Option<Units>,
    /// What was derived of a cluster's nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) capacity: Units,
}

impl StoredBody {
    fn named(kind: TestKind, namespace: &str, name: &str) -> Self {
        let metadata =
            Metadata { name: name.to_owned(), namespace: namespace.to_owned(), deletion_timestamp: None };
        let api_version = format!("{GROUP}/v1");
        Self { api_version, kind: kind.word().to_owned(), metadata, ..Self::default() }.fresh()
    }

    /// A cluster with these amounts, some of which follow from its nodes.
    pub(crate) fn cluster(name: &str, amounts: Units, derived: &[&str]) -> Self {
        let mut body = Self::named(TestKind::Cluster, "", name);
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
        let mut body = Self::named(TestKind::Tenant, "", name);
        body.spec.clusters = ceilings;
        body
    }

    /// A project of a tenant; a root without a parent.
    pub(crate) fn project(name: &str, tenant: &str, parent: &str, hard: BTreeMap<String, HardUnits>) -> Self {
        let mut body = Self::named(TestKind::Project, "", name);
        tenant.clone_into(&mut body.spec.tenant_id);
        parent.clone_into(&mut body.spec.parent_project_name);
        body.spec.clusters = hard;
        body
    }

    /// A namespace below a project, in a cluster, where it has a name of its own.
    pub(crate) fn namespace(project: &str, name: &str, cluster: &str, hard: Units) -> Self {
        let mut body = Self::named(TestKind::Namespace, project, name);
        name.clone_into(&mut body.spec.namespace);
        cluster.clone_into(&mut body.spec.cluster_name);
        body.spec.hard = hard;
        body
    }

    /// The same of a tenant.
    pub(crate) fn owned_by(mut self, tenant: &str) -> Self {
        tenant.clone_into(&mut self.spec.tenant_id);
        self
    }

    /// The same as a part of a list.
    pub(crate) fn in_list(self, list: List) -> Self {
        Self { list: Some(list), ..self }
    }

    /// The same under a token of its own, by a writer who may do all.
    pub(crate) fn fresh(mut self) -> Self {
        self.token = Uuid::new_v4();
        self.bound = false;
        self
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whose it is.
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

    /// Begins its end.
    pub(crate) fn delete(&mut self) {
        self.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    }

    /// What a namespace is charged.
    pub(crate) fn charge(&self) -> &Units {
        self.status.cached_spec_hard.as_ref().unwrap_or(&self.spec.hard)
    }

    /// Where it lies.
    pub(crate) fn key(&self, kind: TestKind) -> Key {
        Key::new(kind.id(), &self.metadata.namespace, &self.metadata.name)
    }

    /// As the store takes it.
    pub(crate) fn state(&self, kind: TestKind) -> Result<NewState> {
        let body = serde_json::to_string(self)?;
        let account = kind.account(body.as_bytes())?;
        Ok(NewState { body, account })
    }

    /// The greater of charge and spec, key by key.
    pub(crate) fn high_water(&self) -> Units {
        let mut high = self.charge().clone();
        for (resource, amount) in &self.spec.hard {
            let slot = high.entry(resource.clone()).or_default();
            *slot = (*slot).max(*amount);
        }
        high
    }
}
