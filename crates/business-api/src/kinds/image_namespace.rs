use super::{KindRow, StoredRow, registry};
use crate::kind_ids;
use business_types::ImageNamespace;
use business_types::names::IMAGE_NAMESPACES;

/// Image namespaces.
pub const ROW: KindRow = KindRow {
    plural: IMAGE_NAMESPACES,
    stored: Some(STORED),
    rights: registry::RIGHTS,
    resource: |directories| registry::resource::<ImageNamespace>(&STORED, directories),
};

const STORED: StoredRow = registry::stored::<ImageNamespace>(kind_ids::IMAGE_NAMESPACE);
