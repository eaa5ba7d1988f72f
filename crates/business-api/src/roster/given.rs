use crate::rights::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What somebody is given in a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenInTenant {
    /// The highest role that he has somewhere in it.
    pub highest: Option<Role>,
    /// The objects at which he has a role, and those below them; empty for an administrator of the tenant.
    pub objects: Arc<BTreeSet<String>>,
}

/// The same by tenant.
pub type GivenByTenant = BTreeMap<Arc<str>, GivenInTenant>;
