use apiserver::Caller;

/// Who is who among callers with a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The group whose members rule their tenant.
    pub tenant_admin_group: String,
    /// Whether those may make and raise root projects.
    pub tenant_grant: bool,
}

impl Roles {
    /// Whether the caller rules his tenant.
    pub fn is_tenant_admin(&self, caller: &Caller) -> bool {
        caller.tenant.is_some() && caller.in_group(&self.tenant_admin_group)
    }
}
