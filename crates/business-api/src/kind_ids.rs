//! The ids of the kinds in the store. They are in every database: an id is never changed, and never used again.

use store::KindId;

/// Projects.
pub const PROJECT: KindId = KindId(1);
/// Namespaces.
pub const NAMESPACE: KindId = KindId(2);
/// Platforms.
pub const PLATFORM: KindId = KindId(3);
/// Config maps.
pub const CONFIG_MAP: KindId = KindId(4);
/// Emigrations of namespaces.
pub const NS_EMIGRATION: KindId = KindId(5);
/// Image namespaces.
pub const IMAGE_NAMESPACE: KindId = KindId(6);
/// Chart groups.
pub const CHART_GROUP: KindId = KindId(7);
/// Credentials for the registry.
pub const REGISTRY_CREDENTIAL: KindId = KindId(8);
/// Tenants.
pub const TENANT: KindId = KindId(9);
/// Member clusters.
pub const MEMBER_CLUSTER: KindId = KindId(10);
/// Templates of namespaces.
pub const NAMESPACE_TEMPLATE: KindId = KindId(11);
