use crate::rights::Role;
use crate::role_bindings::tenant_roles::TenantRoles;
use crate::role_bindings::{AccountListing, RoleBindings};
use crate::subjects;
use apiserver::Caller;
use meta::status::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Revision, Sight, TenantSight, Visibility};

/// The roles are read within moments after the database answers.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Finds the roles of callers in tenants.
#[derive(Clone, Debug)]
pub struct Roles {
    /// The group of administrators: its members rule the tenant that their credential names.
    pub tenant_admin_group: String,
    /// The roles that projects give.
    pub projects: RoleBindings,
    /// The administrators of tenants, by each kind whose objects name some.
    pub administrators: Vec<RoleBindings>,
    /// Whether administrators may make and raise root projects.
    pub tenant_grant: bool,
}

/// The roles of a caller at one moment, in all tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerRoles {
    /// What the caller sees.
    pub visibility: Visibility,
    /// The caller's highest role in any tenant: at least [`Role::View`] for a caller of a tenant, `None` for others.
    pub highest: Option<Role>,
}

#[derive(Clone, Debug, Default)]
struct RolesInTenant {
    is_administrator: bool,
    by_projects: TenantRoles,
}

impl RolesInTenant {
    fn highest(&self) -> Role {
        if self.is_administrator {
            Role::Administrator
        } else {
            self.by_projects.highest.unwrap_or(Role::View)
        }
    }

    fn sight(self) -> Sight {
        if self.is_administrator { Sight::Whole } else { Sight::Namespaces(self.by_projects.objects) }
    }
}

impl CallerRoles {
    fn new(tenants: BTreeMap<Arc<str>, RolesInTenant>) -> Self {
        let highest = tenants.values().map(RolesInTenant::highest).max();
        let sights = tenants.into_iter().map(|(tenant, roles)| TenantSight { tenant, sight: roles.sight() });
        Self { visibility: Visibility::tenants(sights), highest }
    }
}

/// Whether a caller sees each of their tenants as a whole, as administrators do. Also true for callers who see
/// everything or nothing.
pub fn sees_whole_tenants(visibility: &Visibility) -> bool {
    match visibility {
        Visibility::Everything | Visibility::Nothing => true,
        Visibility::Tenants(sights) => sights.iter().all(|sight| sight.sight == Sight::Whole),
    }
}

fn not_synced() -> Status {
    Status::unavailable("who is who in the tenants is being read", RETRY_AFTER_SECONDS)
}

impl Roles {
    /// The roles of a caller. A credential that names a tenant limits the caller to it; other callers have a role in
    /// each tenant whose objects name them. 503 until the roles have been read.
    pub fn of_caller(&self, caller: &Caller) -> Result<CallerRoles, Status> {
        let own_tenant = caller.tenant.as_deref();
        if let Some(tenant) = self.tenant_by_group(caller) {
            let highest = Some(Role::Administrator);
            return Ok(CallerRoles { visibility: Visibility::tenant(tenant), highest });
        }
        self.check_synced()?;
        let subjects = subjects::of_caller(caller);
        let mut tenants = BTreeMap::new();
        if let Some(tenant) = own_tenant {
            tenants.insert(Arc::from(tenant), RolesInTenant::default());
        }
        for bindings in &self.administrators {
            for tenant in bindings.roles_by_tenant(&subjects, own_tenant).keys() {
                tenants.entry(Arc::clone(tenant)).or_insert_with(RolesInTenant::default).is_administrator =
                    true;
            }
        }
        for (tenant, roles) in &*self.projects.roles_by_tenant(&subjects, own_tenant) {
            tenants.entry(Arc::clone(tenant)).or_insert_with(RolesInTenant::default).by_projects =
                roles.clone();
        }
        Ok(CallerRoles::new(tenants))
    }

    /// The tenant of a caller who is in the group of administrators: the credential names both.
    pub fn tenant_by_group<'a>(&self, caller: &'a Caller) -> Option<&'a str> {
        caller.tenant.as_deref().filter(|_| caller.in_group(&self.tenant_admin_group))
    }

    /// The role in a project of a caller with this visibility. `None` if the project does not exist for the caller: the
    /// visibility decides that, even if roles have changed since it was computed.
    pub fn in_project(&self, caller: &Caller, visibility: &Visibility, project: &str) -> Option<Role> {
        let sights = match visibility {
            Visibility::Everything => return Some(Role::Administrator),
            Visibility::Nothing => return None,
            Visibility::Tenants(_) if sees_whole_tenants(visibility) => return Some(Role::Administrator),
            Visibility::Tenants(sights) => sights,
        };
        let found = self.projects.role_at(&subjects::of_caller(caller), project);
        let sees_project =
            |sight: &TenantSight| matches!(&sight.sight, Sight::Namespaces(seen) if seen.contains(project));
        if sights.iter().any(sees_project) {
            return Some(found.and_then(|(_, role)| role).unwrap_or(Role::View));
        }
        let (tenant, _) = found?;
        (visibility.of_tenant(&tenant)? == &Sight::Whole).then_some(Role::Administrator)
    }

    /// The caller's role above a project that the caller sees: in its parent, or for a root project in the tenant.
    pub fn above_project(&self, caller: &Caller, visibility: &Visibility, project: &str) -> Option<Role> {
        let here = self.in_project(caller, visibility, project)?;
        if sees_whole_tenants(visibility) {
            return Some(here);
        }
        let in_tenant = |tenant: &str| match visibility.of_tenant(tenant)? {
            Sight::Whole => Some(Role::Administrator),
            Sight::Namespaces(_) => Some(Role::View),
        };
        let above = self.projects.tenant_and_parent(project).and_then(|(tenant, parent)| match &*parent {
            "" => in_tenant(&tenant),
            parent => self.in_project(caller, visibility, parent),
        });
        Some(above.unwrap_or(Role::View))
    }

    /// How many subjects the objects of a tenant list together.
    pub fn listed(&self, tenant: &str) -> usize {
        self.all_bindings().map(|bindings| bindings.listed(tenant)).fold(0, usize::saturating_add)
    }

    /// 503 until the roles have been read.
    pub fn check_synced(&self) -> Result<(), Status> {
        if self.has_synced() { Ok(()) } else { Err(not_synced()) }
    }

    /// The other tenants that list a service account of a namespace of a member cluster; of the host cluster, if
    /// `cluster` is empty.
    pub fn foreign_account_listings(
        &self,
        tenant: &str,
        cluster: &str,
        namespace: &str,
    ) -> Vec<AccountListing> {
        let all = self.administrators.iter().chain([&self.projects]);
        all.flat_map(|bindings| bindings.foreign_account_listings(tenant, cluster, namespace)).collect()
    }

    /// Waits until the roles are as of a revision of the store.
    pub async fn wait_for(&self, revision: Revision) {
        self.projects.wait_for(revision).await;
        for bindings in &self.administrators {
            bindings.wait_for(revision).await;
        }
    }

    /// Whether the store may have sent other watches a change that the roles do not have yet.
    pub fn are_behind(&self) -> bool {
        self.all_bindings().any(RoleBindings::is_behind)
    }

    /// Waits until the roles have every change that the store has sent to other watches by now.
    pub async fn catch_up(&self) {
        self.projects.catch_up().await;
        for bindings in &self.administrators {
            bindings.catch_up().await;
        }
    }

    /// Whether all objects that give roles have been read.
    pub fn has_synced(&self) -> bool {
        self.all_bindings().all(RoleBindings::has_synced)
    }

    fn all_bindings(&self) -> impl Iterator<Item = &RoleBindings> {
        std::iter::once(&self.projects).chain(&self.administrators)
    }
}

#[cfg(test)]
mod tests;
