use crate::members::Members;
use apiserver::Caller;

/// The verb on projects that budget out of nothing needs.
pub const GRANT: &str = "grant";

/// The subresource of a namespace that has certificates issued.
pub const CERTIFICATE: &str = "certificate";

/// What a caller with a tenant is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// He rules the tenant.
    Administrator,
    /// Everybody else: he sees what names him.
    Member,
}

/// Who is who among callers with a tenant.
#[derive(Clone, Debug)]
pub struct Roles {
    /// The group whose members rule their tenant.
    pub tenant_admin_group: String,
    /// Those whom an object of their tenant names as its administrators rule it, too: by kind of the objects.
    pub administrators: Vec<Members>,
    /// Whether those may make and raise root projects.
    pub tenant_grant: bool,
}

/// What a role may do with the objects of a kind that it sees. Beside that, a verb on the objects themselves may come from
/// a role in Kubernetes, but for [`GRANT`] to a member; a verb on a subresource never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// Who.
    pub role: Role,
    /// At which subresource; empty for the object itself.
    pub subresource: &'static str,
    /// What.
    pub verbs: &'static [&'static str],
}

/// What the roles may do with a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindRights {
    /// The kind, by its plural.
    pub resource: &'static str,
    /// What is not here, no role has.
    pub rights: &'static [Right],
}

/// To look at what a caller has one of.
pub const LOOK: &[&str] = &["list"];
/// To look.
pub const READ: &[&str] = &["get", "list", "watch"];
/// To look, and to change what is there.
pub const REVISE: &[&str] = &["get", "list", "patch", "update", "watch"];
/// To look, and to add something new.
pub const ADD: &[&str] = &["create", "get", "list", "watch"];
/// All verbs of a kind.
pub const RULE: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// To hold an owner's deletion back by a dependent: asked about `finalizers`, which is no subresource that is served.
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
    /// Whether a role has a verb.
    pub fn has(&self, role: Role, verb: &str, subresource: &str) -> bool {
        let mut of_role =
            self.rights.iter().filter(|right| right.role == role && right.subresource == subresource);
        of_role.any(|right| right.verbs.contains(&verb))
    }
}

impl Roles {
    /// What a caller is in his tenant; `None` without one.
    pub fn role(&self, caller: &Caller) -> Option<Role> {
        let tenant = caller.tenant.as_ref()?;
        let rules = caller.in_group(&self.tenant_admin_group)
            || self.administrators.iter().any(|all| all.name_caller(tenant, caller));
        Some(if rules { Role::Administrator } else { Role::Member })
    }

    /// Whether it is known already what a caller is. Before, an administrator may be taken for a member.
    pub fn is_settled(&self, caller: &Caller) -> bool {
        caller.tenant.is_none()
            || caller.in_group(&self.tenant_admin_group)
            || self.administrators.iter().all(Members::is_complete)
    }

    /// Whether the caller rules his tenant.
    pub fn is_tenant_admin(&self, caller: &Caller) -> bool {
        self.role(caller) == Some(Role::Administrator)
    }
}
