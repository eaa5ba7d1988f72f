//! Our field managers, as `managedFields` names them.

/// For our own objects, and in member clusters for everything but templates.
pub const FIELD_MANAGER: &str = "business-controller";

/// For objects of templates in member clusters.
pub const TEMPLATE_MANAGER: &str = "business-template";

/// The name that Kubernetes uses for writes before it recorded managers.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";
