use super::{KindRow, StoredRow, registry};
use crate::kind_ids;
use business_types::ImageNamespace;
use business_types::names::IMAGE_NAMESPACES;

/// Image namespaces.
pub const ROW: KindRow = KindRow {
    plural: IMAGE_NAMESPACES,
    stored: Some(STORED),
    rights: registry::RIGHTS,
    resource: |dependencies| registry::resource::<ImageNamespace>(&STORED, dependencies),
};

const STORED: StoredRow = registry::stored_row::<ImageNamespace>(kind_ids::IMAGE_NAMESPACE);
