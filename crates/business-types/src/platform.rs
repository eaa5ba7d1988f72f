use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use serde::{Deserialize, Serialize};

mod account;
mod schema;
mod validation;

pub use account::ChargedPlatform;
pub use schema::schema;
pub use validation::{platform, platform_update};

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::PLATFORM_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::PLATFORMS)
}

/// The spec of a platform: administrators of a tenant, in addition to those by membership in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlatformSpec {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Its administrators, by user name.
    pub administrators: Vec<String>,
}

impl PlatformSpec {
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}
