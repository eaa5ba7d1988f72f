//! The numbers of the kinds in the store. They are in every database: none is ever changed, or used again.

use store::KindId;

/// Projects.
pub const PROJECT: KindId = KindId(1);
/// Namespaces.
pub const NAMESPACE: KindId = KindId(2);
/// Platforms.
pub const PLATFORM: KindId = KindId(3);
/// Config maps.
pub const CONFIG_MAP: KindId = KindId(4);
