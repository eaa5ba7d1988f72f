use crate::people;
use crate::roster::{GivenInTenant, Roster};
use apiserver::Caller;
use business_types::access::AccessRole;
use meta::status::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Revision, Sight, TenantSight, Visibility};

/// The roles are known moments after the database is there.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The verb on projects that budget out of nothing needs.
pub const GRANT: &str = "grant";

/// The subresource of a namespace that has certificates issued.
pub const CERTIFICATE: &str = "certificate";

/// A caller's role in a project and those below it; the last one is a role in all of a tenant. Each role may do what
/// those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// He looks.
    View,
    /// He makes namespaces.
    Edit,
    /// He says who belongs to the project, and makes projects below it.
    Admin,
    /// He rules the tenant.
    Administrator,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::View, Self::Edit, Self::Admin, Self::Administrator];

    /// As it is told to people.
    pub fn word(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Edit => "edit",
            Self::Admin => "admin",
            Self::Administrator => "administrator of the tenant",
        }
    }
}

impl From<AccessRole> for Role {
    fn from(role: AccessRole) -> Self {
        match role {
            AccessRole::View => Self::View,
            AccessRole::Edit => Self::Edit,
            AccessRole::Admin => Self::Admin,
        }
    }
}

/// The roles of callers with a tenant.
#[derive(Clone, Debug)]
pub struct Roles {
    /// The group whose members rule the tenant that their credential names.
    pub tenant_admin_group: String,
    /// The people to whom the projects give roles.
    pub projects: Roster,
    /// The people whom objects of other kinds make administrators of their tenant.
    pub administrators: Vec<Roster>,
    /// Whether those may make and raise root projects.
    pub tenant_grant: bool,
}

/// What the holders of a role, and of those above it, may do with the objects of a kind that they see. They get rights
/// from nowhere else: roles in Kubernetes let them in, and give them nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The least role that has the right.
    pub role: Role,
    /// The subresource; empty for the object itself.
    pub subresource: &'static str,
    /// What.
    pub verbs: &'static [&'static str],
}

/// What the roles may do with a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindRights {
    /// The kind, by its plural.
    pub resource: &'static str,
    /// No role has a right that is not listed here.
    pub rights: &'static [Right],
}

/// To look at an object of which each caller has one.
pub const LOOK: &[&str] = &["list"];
/// To look.
pub const READ: &[&str] = &["get", "list", "watch"];
/// To look, and to change what is there.
pub const REVISE: &[&str] = &["get", "list", "patch", "update", "watch"];
/// All verbs of a kind.
pub const RULE: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// To let a dependent block its owner's deletion: Kubernetes asks about the subresource `finalizers`, which is not
/// served.
pub const HOLD_BACK: &[&str] = &["update"];
/// To change an object through a subresource.
pub const CHANGE: &[&str] = &["get", "patch", "update"];

/// To have something done by a subresource.
pub const ACT: &[&str] = &["create"];

impl Right {
    /// Verbs on the objects themselves.
    pub const fn object(role: Role, verbs: &'static [&'static str]) -> Self {
        Self { role, subresource: "", verbs }
    }

    /// Verbs on a subresource.
    pub const fn subresource(role: Role, subresource: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { role, subresource, verbs }
    }
}

impl KindRights {
    /// The least role that has a verb; `None` when no role has it.
    pub fn least(&self, verb: &str, subresource: &str) -> Option<Role> {
        let having = self.rights.iter().filter(|right| right.subresource == subresource);
        having.filter(|right| right.verbs.contains(&verb)).map(|right| right.role).min()
    }
}

/// The roles of a caller in all tenants where he has one, as they are known now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What he sees.
    pub visibility: Visibility,
    /// The highest role that he has anywhere; everybody in a tenant may look.
    pub highest: Option<Role>,
}

#[derive(Clone, Debug, Default)]
struct InTenant {
    rules: bool,
    given: GivenInTenant,
}

impl InTenant {
    fn highest(&self) -> Role {
        if self.rules { Role::Administrator } else { self.given.highest.unwrap_or(Role::View) }
    }

    fn sight(self) -> Sight {
        if self.rules { Sight::Whole } else { Sight::Namespaces(self.given.objects) }
    }
}

impl Standing {
    fn of(tenants: BTreeMap<Arc<str>, InTenant>) -> Self {
        let highest = tenants.values().map(InTenant::highest).max();
        let sights = tenants.into_iter().map(|(tenant, held)| TenantSight { tenant, sight: held.sight() });
        Self { visibility: Visibility::tenants(sights), highest }
    }
}

/// Whether a caller with this visibility rules all that he sees.
pub fn is_whole(visibility: &Visibility) -> bool {
    match visibility {
        Visibility::Everything | Visibility::Nothing => true,
        Visibility::Tenants(sights) => sights.iter().all(|sight| sight.sight == Sight::Whole),
    }
}

fn unsettled() -> Status {
    Status::unavailable("who is who in the tenants is being read", RETRY_AFTER_SECONDS)
}

impl Roles {
    /// The roles of a caller. If his credential names a tenant, that is his only one; otherwise all tenants whose
    /// objects name him are his. The error asks to retry: the roles are not known yet.
    pub fn standing(&self, caller: &Caller) -> Result<Standing, Status> {
        let named = caller.tenant.as_deref();
        if let Some(tenant) = self.tenant_by_group(caller) {
            let held = InTenant { rules: true, ..InTenant::default() };
            return Ok(Standing::of(BTreeMap::from([(Arc::from(tenant), held)])));
        }
        if !self.are_settled() {
            return Err(unsettled());
        }
        let people = people::names(caller);
        let mut tenants = BTreeMap::new();
        if let Some(tenant) = named {
            tenants.insert(Arc::from(tenant), InTenant::default());
        }
        for roster in &self.administrators {
            for tenant in roster.given(&people, named).keys() {
                tenants.entry(Arc::clone(tenant)).or_insert_with(InTenant::default).rules = true;
            }
        }
        for (tenant, given) in &*self.projects.given(&people, named) {
            tenants.entry(Arc::clone(tenant)).or_insert_with(InTenant::default).given = given.clone();
        }
        Ok(Standing::of(tenants))
    }

    /// The tenant that a caller rules by his group: his credential names both.
    pub fn tenant_by_group<'a>(&self, caller: &'a Caller) -> Option<&'a str> {
        caller.tenant.as_deref().filter(|_| caller.in_group(&self.tenant_admin_group))
    }

    /// The role in a project of a caller with this visibility. `None` if the project does not exist for him: nothing
    /// that he sees lies there, whatever has changed since then.
    pub fn in_project(&self, caller: &Caller, visibility: &Visibility, project: &str) -> Option<Role> {
        let sights = match visibility {
            Visibility::Everything => return Some(Role::Administrator),
            Visibility::Nothing => return None,
            Visibility::Tenants(_) if is_whole(visibility) => return Some(Role::Administrator),
            Visibility::Tenants(sights) => sights,
        };
        let found = self.projects.at(&people::names(caller), project);
        let names_it =
            |sight: &TenantSight| matches!(&sight.sight, Sight::Namespaces(seen) if seen.contains(project));
        if sights.iter().any(names_it) {
            return Some(found.and_then(|(_, role)| role).unwrap_or(Role::View));
        }
        let (tenant, _) = found?;
        (visibility.of_tenant(&tenant)? == &Sight::Whole).then_some(Role::Administrator)
    }

    /// His role at the place of a project that he sees: in the project above it, or in the tenant.
    pub fn above_project(&self, caller: &Caller, visibility: &Visibility, project: &str) -> Option<Role> {
        let here = self.in_project(caller, visibility, project)?;
        if is_whole(visibility) {
            return Some(here);
        }
        let in_tenant = |tenant: &str| match visibility.of_tenant(tenant)? {
            Sight::Whole => Some(Role::Administrator),
            Sight::Namespaces(_) => Some(Role::View),
        };
        let above = self.projects.place(project).and_then(|(tenant, parent)| match &*parent {
            "" => in_tenant(&tenant),
            parent => self.in_project(caller, visibility, parent),
        });
        Some(above.unwrap_or(Role::View))
    }

    /// How many people the objects of a tenant list.
    pub fn listed(&self, tenant: &str) -> usize {
        let listed = self.administrators.iter().map(|roster| roster.listed(tenant));
        listed.fold(self.projects.listed(tenant), usize::saturating_add)
    }

    /// Waits until the roles at this revision of the store are known.
    pub async fn reach(&self, revision: Revision) {
        self.projects.reach(revision).await;
        for roster in &self.administrators {
            roster.reach(revision).await;
        }
    }

    /// Whether the roles are known.
    pub fn are_settled(&self) -> bool {
        self.projects.is_complete() && self.administrators.iter().all(Roster::is_complete)
    }
}

#[cfg(test)]
mod tests;
