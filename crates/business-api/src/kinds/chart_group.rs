use super::{KindRow, StoredRow, registry};
use crate::kind_ids;
use business_types::ChartGroup;
use business_types::names::CHART_GROUPS;

/// Chart groups.
pub const ROW: KindRow = KindRow {
    plural: CHART_GROUPS,
    stored: Some(STORED),
    rights: registry::RIGHTS,
    resource: |dependencies| registry::resource::<ChartGroup>(&STORED, dependencies),
};

const STORED: StoredRow = registry::stored_row::<ChartGroup>(kind_ids::CHART_GROUP);
