use crate::registry::{self, ChargedRegistryObject, RegistryKind};
use meta::schema::Schema;

/// The kind of chart groups: prefixes for a project's repositories of charts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChartGroup;

/// The part of a chart group from which its account is computed.
pub type ChargedChartGroup = ChargedRegistryObject<ChartGroup>;

impl RegistryKind for ChartGroup {
    const KIND: &'static str = crate::names::CHART_GROUP_KIND;
    const PLURAL: &'static str = crate::names::CHART_GROUPS;
    const SINGULAR: &'static str = "chartgroup";
    const SHORT_NAMES: &'static [&'static str] = &["rcg"];
    const FINALIZER: &'static str = crate::names::CHART_GROUP_FINALIZER;
    const NAME_PREFIX: &'static str = "rcg-";
    const DISPLAY_NAME: &'static str = "chart group";

    fn schema() -> Schema {
        Schema::kind(
            "io.tkestack.business.v1.ChartGroup",
            "A prefix of the registry, TENANT/NAME, below which a project keeps charts. metadata.namespace is the \
             project.",
            [
                ("spec", registry::spec_schema("io.tkestack.business.v1.ChartGroupSpec").optional()),
                ("status", registry::status_schema("io.tkestack.business.v1.ChartGroupStatus").optional()),
            ],
        )
    }
}
