use meta::object::Object;
use meta::quantity::ResourceList;
use quota::{Account, Scope, ScopeKind};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The kind of the scope above all tenants. Its domains are the member clusters, with the capacity that may be granted.
pub const FLEET: ScopeKind = ScopeKind(1);
/// The kind of the scopes of tenants, by tenant ID.
pub const TENANT: ScopeKind = ScopeKind(2);
/// The kind of the scopes of projects, by name.
pub const PROJECT: ScopeKind = ScopeKind(3);

/// The scope above all tenants.
pub fn fleet() -> Scope {
    Scope::new(FLEET, "fleet")
}

/// The name of a kind of scope, for messages.
pub fn scope_word(kind: ScopeKind) -> &'static str {
    match kind {
        FLEET => "fleet",
        TENANT => "tenant",
        PROJECT => "project",
        _ => "scope",
    }
}

/// The part of an object from which its account is computed. Only this part is decoded, because a replica computes an
/// account for each change that it sees.
pub trait Charged: DeserializeOwned {
    /// What the object means to the ledger.
    fn account(self) -> Account;
}

/// The account of an object. An error means that a field from which it is computed has the wrong type or value.
pub fn of<C: Charged>(object: &Object) -> Result<Account, serde_json::Error> {
    C::deserialize(object.as_map()).map(C::account)
}

/// The account of a stored body, with the errors of [`of`], and one for a body that is not JSON.
pub fn of_stored<C: Charged>(body: &[u8]) -> Result<Account, serde_json::Error> {
    serde_json::from_slice(body).map(C::account)
}

/// The part of `metadata` that accounts are computed from.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChargedMeta {
    /// The object's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    deletion_timestamp: Option<String>,
}

impl ChargedMeta {
    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.as_ref().is_some_and(|at| !at.is_empty())
    }
}

/// An object of a tenant that is not charged. `spec.tenantID` names the tenant.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct UnchargedTenantObject {
    metadata: ChargedMeta,
    spec: TenantIdSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TenantIdSpec {
    #[serde(rename = "tenantID")]
    tenant_id: String,
}

impl Charged for UnchargedTenantObject {
    fn account(self) -> Account {
        let deleting = self.metadata.is_deleting();
        Account { tenant: self.spec.tenant_id, deleting, ..Account::default() }
    }
}

/// An object without a tenant that is not charged.
#[derive(Debug, Deserialize)]
pub struct UnchargedObject {}

impl Charged for UnchargedObject {
    fn account(self) -> Account {
        Account::default()
    }
}

/// The keys of a resource list.
pub fn keys(list: &ResourceList) -> Vec<String> {
    list.keys().cloned().collect()
}
