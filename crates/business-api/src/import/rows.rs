//! The kinds that can be imported: a row each, found in the table of kinds by its plural.

use super::candidate::{ImportRow, Importable};
use super::mend;
use crate::kinds::KindTable;
use business_types::names::{
    CHART_GROUPS, CONFIG_MAPS, IMAGE_NAMESPACES, NAMESPACES, NS_EMIGRATIONS, PLATFORMS, PROJECTS,
};
use business_types::{
    ChartGroup, ImageNamespace, RegistryKind, config_map, namespace, nsemigration, platform, project,
};
use meta::schema::Schema;

/// In the order in which they are imported: what others pay comes before them.
pub const IMPORTS: &[ImportRow] = &[
    ImportRow {
        plural: PROJECTS,
        namespaced: false,
        gvk: project::gvk,
        schema: project::schema,
        finalizer: business_types::names::PROJECT_FINALIZER,
        computed: &[
            "clusters",
            "calculatedChildProjects",
            "calculatedNamespaces",
            "cachedSpecClusters",
            "cachedParent",
        ],
        mend: mend::project::mend,
    },
    ImportRow {
        plural: NAMESPACES,
        namespaced: true,
        gvk: namespace::gvk,
        schema: namespace::schema,
        finalizer: business_types::names::NAMESPACE_FINALIZER,
        computed: &["certificate"],
        mend: mend::namespace::mend,
    },
    ImportRow {
        plural: PLATFORMS,
        namespaced: false,
        gvk: platform::gvk,
        schema: platform::schema,
        finalizer: "",
        computed: &[],
        mend: mend::platform::mend,
    },
    ImportRow {
        plural: CONFIG_MAPS,
        namespaced: false,
        gvk: config_map::gvk,
        schema: config_map::schema,
        finalizer: "",
        computed: &[],
        mend: mend::config_map::mend,
    },
    of_registry::<ImageNamespace>(IMAGE_NAMESPACES),
    of_registry::<ChartGroup>(CHART_GROUPS),
    ImportRow {
        plural: NS_EMIGRATIONS,
        namespaced: true,
        gvk: nsemigration::gvk,
        schema: nsemigration::schema,
        finalizer: "",
        computed: &["namespaceUID"],
        mend: mend::nsemigration::mend,
    },
];

const fn of_registry<K: RegistryKind>(plural: &'static str) -> ImportRow {
    ImportRow {
        plural,
        namespaced: true,
        gvk: K::gvk,
        schema: K::schema,
        finalizer: K::FINALIZER,
        // Fields about the registry that only the controller here writes. Without them, an object that is in use takes
        // over its own content when the registry is first looked at.
        computed: &["registry", "locked", "used", "observedGeneration", "conditions"],
        mend: mend::registry::mend,
    }
}

/// The kinds that can be imported into a program of these kinds.
pub fn importable(kinds: KindTable) -> Vec<(Importable, Schema)> {
    let served =
        |row: &'static ImportRow| kinds.0.iter().find(|kind| kind.plural == row.plural)?.stored.as_ref();
    let rows = IMPORTS.iter().enumerate();
    rows.filter_map(|(order, row)| Some((Importable { row, stored: served(row)?, order }, (row.schema)())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KINDS;

    #[test]
    fn a_kind_that_is_not_served_is_not_imported() {
        assert_eq!(importable(KINDS).len(), IMPORTS.len());
        assert!(importable(KindTable(&[])).is_empty());
    }
}
