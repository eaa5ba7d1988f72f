use crate::people;
use crate::rights::Role;
use crate::roster::given::GivenInTenant;
use crate::roster::{Listing, Roster};
use apiserver::Caller;
use meta::status::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Revision, Sight, TenantSight, Visibility};

/// The roles are known moments after the database is there.
const RETRY_AFTER_SECONDS: u32 = 1;

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

    /// 503 until the roles are known.
    pub fn check_settled(&self) -> Result<(), Status> {
        if self.are_settled() { Ok(()) } else { Err(unsettled()) }
    }

    /// The other tenants that list a service account of a namespace of a member cluster; of the host cluster, if that is
    /// said with an empty name.
    pub fn others_list_accounts_in(&self, tenant: &str, cluster: &str, namespace: &str) -> Vec<Listing> {
        let rosters = self.administrators.iter().chain([&self.projects]);
        rosters.flat_map(|roster| roster.others_list_accounts_in(tenant, cluster, namespace)).collect()
    }

    /// Waits until the roles at this revision of the store are known.
    pub async fn reach(&self, revision: Revision) {
        self.projects.reach(revision).await;
        for roster in &self.administrators {
            roster.reach(revision).await;
        }
    }

    /// Whether the store may have told others of a change that is not in the roles yet.
    pub fn are_behind(&self) -> bool {
        self.projects.is_behind() || self.administrators.iter().any(Roster::is_behind)
    }

    /// Waits until what the store has told others of by now is in the roles.
    pub async fn catch_up(&self) {
        self.projects.catch_up().await;
        for roster in &self.administrators {
            roster.catch_up().await;
        }
    }

    /// Whether the roles are known.
    pub fn are_settled(&self) -> bool {
        self.projects.is_complete() && self.administrators.iter().all(Roster::is_complete)
    }
}

#[cfg(test)]
mod tests;
