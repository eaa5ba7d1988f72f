use crate::rights::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The roles of a caller in one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantRoles {
    /// The highest role that the caller has at any object of the tenant.
    pub highest: Option<Role>,
    /// The objects at which the caller has a role, and their descendants; empty for an administrator of the tenant.
    pub objects: Arc<BTreeSet<String>>,
}

/// The roles of a caller by tenant.
pub type RolesByTenant = BTreeMap<Arc<str>, TenantRoles>;
