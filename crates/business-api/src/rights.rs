use business_types::access::AccessRole;

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
