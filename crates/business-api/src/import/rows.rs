//! The table of kinds that can be imported. A row refers to the table of kinds by its plural.

use super::candidate::{ImportKind, ImportRow};
use super::convert;
use crate::kinds::KindTable;
use business_types::names::{
    CHART_GROUPS, CONFIG_MAPS, IMAGE_NAMESPACES, NAMESPACES, NS_EMIGRATIONS, PLATFORMS, PROJECTS,
};
use business_types::{
    ChartGroup, ImageNamespace, RegistryKind, config_map, namespace, nsemigration, platform, project,
};
use meta::schema::Schema;

/// The rows, in the order of the import: scopes before the objects that are charged to them.
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
        convert: convert::project::convert,
    },
    ImportRow {
        plural: NAMESPACES,
        namespaced: true,
        gvk: namespace::gvk,
        schema: namespace::schema,
        finalizer: business_types::names::NAMESPACE_FINALIZER,
        computed: &["certificate"],
        convert: convert::namespace::convert,
    },
    ImportRow {
        plural: PLATFORMS,
        namespaced: false,
        gvk: platform::gvk,
        schema: platform::schema,
        finalizer: "",
        computed: &[],
        convert: convert::platform::convert,
    },
    ImportRow {
        plural: CONFIG_MAPS,
        namespaced: false,
        gvk: config_map::gvk,
        schema: config_map::schema,
        finalizer: "",
        computed: &[],
        convert: convert::config_map::convert,
    },
    of_registry::<ImageNamespace>(IMAGE_NAMESPACES),
    of_registry::<ChartGroup>(CHART_GROUPS),
    ImportRow {
        plural: NS_EMIGRATIONS,
        namespaced: true,
        gvk: nsemigration::gvk,
        schema: nsemigration::schema,
        finalizer: "",
        computed: &["namespaceUID", "observedGeneration", "conditions"],
        convert: convert::nsemigration::convert,
    },
];

const fn of_registry<K: RegistryKind>(plural: &'static str) -> ImportRow {
    ImportRow {
        plural,
        namespaced: true,
        gvk: K::gvk,
        schema: K::schema,
        finalizer: K::FINALIZER,
        // Fields that only the controller here writes. Without them, an object that is in use takes over its own
        // content when the controller first looks at the registry.
        computed: &["registry", "locked", "used", "observedGeneration", "conditions"],
        convert: convert::registry::convert,
    }
}

/// The kinds that can be imported into a program with these kinds.
pub fn import_kinds(kinds: KindTable) -> Vec<(ImportKind, Schema)> {
    let served =
        |row: &'static ImportRow| kinds.0.iter().find(|kind| kind.plural == row.plural)?.stored.as_ref();
    let rows = IMPORTS.iter().enumerate();
    rows.filter_map(|(order, row)| Some((ImportKind { row, stored: served(row)?, order }, (row.schema)())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KINDS;

    #[test]
    fn a_kind_that_is_not_served_is_not_imported() {
        assert_eq!(import_kinds(KINDS).len(), IMPORTS.len());
        assert!(import_kinds(KindTable(&[])).is_empty());
    }
}
