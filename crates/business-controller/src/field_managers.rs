//! Who is named in `managedFields` of what is written.

/// Whoever writes our objects, and in member clusters what is no template's.
pub const FIELD_MANAGER: &str = "business-controller";

/// Of what templates put into a member cluster.
pub const TEMPLATE_MANAGER: &str = "business-template";

/// Kubernetes names so whoever wrote an object before its writers were recorded.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";
