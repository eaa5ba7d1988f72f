use business_types::access::AccessRole;

/// The verb on projects that a caller needs to make budget that no limit above covers.
pub const GRANT: &str = "grant";

/// The subresource of a namespace that issues certificates.
pub const CERTIFICATE: &str = "certificate";

/// A caller's role in a project and its descendants; [`Role::Administrator`] is a role in a whole tenant. Each role has
/// the rights of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads.
    View,
    /// Also writes namespaces.
    Edit,
    /// Also gives roles in the project, and makes child projects.
    Admin,
    /// Also makes and deletes root projects.
    Administrator,
}

impl Role {
    /// All roles, the least one first.
    pub const ALL: [Self; 4] = [Self::View, Self::Edit, Self::Admin, Self::Administrator];

    /// The role's name in messages.
    pub fn label(self) -> &'static str {
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

/// What holders of a role, or of a higher one, may do with the visible objects of a kind. Roles in Kubernetes give them
/// no further rights: these only let them through kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The least role that has the right.
    pub role: Role,
    /// The subresource; empty for the object itself.
    pub subresource: &'static str,
    /// The verbs.
    pub verbs: &'static [&'static str],
}

/// What the roles may do with a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindRights {
    /// The kind, by its plural.
    pub resource: &'static str,
    /// All rights that roles have.
    pub rights: &'static [Right],
}

/// The verb for an object of which each caller has one of their own.
pub const LIST: &[&str] = &["list"];
/// The verbs that read.
pub const READ: &[&str] = &["get", "list", "watch"];
/// The verbs that read, or change what exists.
pub const READ_UPDATE: &[&str] = &["get", "list", "patch", "update", "watch"];
/// All verbs of a kind.
pub const READ_WRITE: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verb on `finalizers` of an owner that `blockOwnerDeletion` needs. Kubernetes checks it, and the subresource
/// itself is not served.
pub const UPDATE_FINALIZERS: &[&str] = &["update"];
/// The verbs of a subresource that is a part of its object.
pub const GET_UPDATE: &[&str] = &["get", "patch", "update"];
/// The verb of a subresource that is an action.
pub const CREATE: &[&str] = &["create"];

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
    /// The least role that may do this; `None` if no role may.
    pub fn least_role(&self, verb: &str, subresource: &str) -> Option<Role> {
        let rights = self.rights.iter().filter(|right| right.subresource == subresource);
        rights.filter(|right| right.verbs.contains(&verb)).map(|right| right.role).min()
    }
}
