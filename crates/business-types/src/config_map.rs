use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;

mod schema;
mod validation;

pub use schema::schema;
pub use validation::{DATA_BYTES_MAX, config_map};

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::CONFIG_MAP_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::CONFIG_MAPS)
}

/// The tenant that owns it; empty for the platform's own.
pub fn tenant_of(object: &Object) -> &str {
    object.text(&["metadata", "labels", crate::names::TENANT_LABEL])
}
