//! The kind of tenants.

use crate::kinds::{Kind, RootKey, View};
use crate::throttle::StatusThrottle;
use business_types::{TenantSpec, TenantStatus, names};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusinessTenant;

pub type TenantView = View<BusinessTenant>;

impl Kind for BusinessTenant {
    const KIND: &'static str = names::TENANT_KIND;
    const PLURAL: &'static str = names::TENANTS;
    type Spec = TenantSpec;
    type Status = TenantStatus;
    type Key = RootKey;
    type Index = ();
    type Memory = StatusThrottle;
}
