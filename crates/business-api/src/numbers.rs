//! The numbers of the kinds in the store. They are in every database: none is ever changed, or used again.

use store::KindId;

/// Projects.
pub const PROJECT: KindId = KindId(1);
/// Namespaces.
pub const NAMESPACE: KindId = KindId(2);
/// Image namespaces.
pub const IMAGE_NAMESPACE: KindId = KindId(3);
/// Chart groups.
pub const CHART_GROUP: KindId = KindId(4);
/// Credentials for the registry.
pub const REGISTRY_CREDENTIAL: KindId = KindId(5);
