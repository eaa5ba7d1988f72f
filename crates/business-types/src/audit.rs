use meta::quantity::ResourceList;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The sum of the [`ClusterComparison`]s of all member clusters: how far the controller has compared them with the
/// objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The revision of our objects that each member cluster was last compared with.
    pub clusters: BTreeMap<String, u64>,
    /// Member clusters that could not be compared the last time, with the reason.
    pub missing: BTreeMap<String, String>,
    /// The number of orphans that no project's status lists: their project does not exist, or there are too many.
    pub unreported: u64,
    /// The number of these orphans whose project does not exist.
    pub homeless: u64,
    /// Some of the namespaces that have our marks but no valid seal. Anybody may have written the marks, so no project
    /// is charged for them. `strange` is their number.
    pub strangers: Vec<Stranger>,
    /// The number of namespaces that have our marks but no valid seal.
    pub strange: u64,
}

/// How far the controller has compared one member cluster with the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterComparison {
    /// The revision of our objects that it was last compared with; 0 if it could not be compared.
    pub revision: u64,
    /// Why it could not be compared the last time; empty if it was compared.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub missing: String,
    /// The time of this result, RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// The number of orphans that no project's status lists: their project does not exist, or there are too many.
    pub unreported: u64,
    /// The number of these orphans whose project does not exist.
    pub homeless: u64,
    /// The number of namespaces that have our marks but no valid seal.
    pub strange: u64,
    /// Some of these namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<Stranger>,
    /// The id of the key that the controller uses for new seals there since this result; empty if it could not be
    /// compared.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub active_key: String,
    /// The ids of the keys of the seals that were found in the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

/// A namespace of a member cluster that has our marks but no valid seal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stranger {
    /// The member cluster.
    pub cluster_name: String,
    /// The namespace's name there.
    pub namespace: String,
    /// The namespace's uid there.
    pub uid: String,
    /// The project that its label names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// The hard limits of a quota in the namespace.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
}

impl Comparison {
    /// Adds up the comparisons of the clusters.
    pub fn of<'a>(parts: impl IntoIterator<Item = (&'a String, &'a ClusterComparison)>) -> Self {
        let mut sum = Self::default();
        for (cluster, part) in parts {
            if part.missing.is_empty() {
                sum.clusters.insert(cluster.clone(), part.revision);
            } else {
                sum.missing.insert(cluster.clone(), part.missing.clone());
            }
            sum.unreported = sum.unreported.saturating_add(part.unreported);
            sum.homeless = sum.homeless.saturating_add(part.homeless);
            sum.strange = sum.strange.saturating_add(part.strange);
            sum.strangers.extend(part.strangers.iter().cloned());
        }
        sum
    }

    /// Whether every member cluster was compared with the objects of this revision or a later one, and everything
    /// that was found is reported.
    pub fn is_complete_since(&self, revision: u64) -> bool {
        self.missing.is_empty() && self.unreported == 0 && self.clusters.values().all(|at| *at >= revision)
    }
}

/// A namespace of a member cluster that may use resources that no object is charged for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Orphan {
    /// The member cluster.
    pub cluster_name: String,
    /// The namespace's name there.
    pub namespace: String,
    /// The namespace's uid there.
    pub uid: String,
    /// Why it is an orphan.
    pub state: OrphanState,
    /// The amounts that it may use beyond what is charged for it.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
}

/// Why a namespace of a member cluster is an orphan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OrphanState {
    /// It belongs to no object.
    #[default]
    Lost,
    /// Its object is charged less than the namespace may use: a raise was lost with the database's history.
    Ahead,
    /// Its object has released it, and it is still in use.
    Released,
    /// Its object has released it, and it is not in use: its hold can be written off.
    Unused,
}

impl OrphanState {
    /// The names of all states.
    pub const NAMES: [&'static str; 4] = ["Lost", "Ahead", "Released", "Unused"];
}

/// A hold: an amount that counts against a project although its object is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldAmount {
    /// Identifies it for `business-api audit --write-off`.
    pub uid: String,
    /// `orphaned`, `abandoned` or `released`.
    pub state: String,
    /// The member cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The namespace's name there.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The amounts that count.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// Why it counts.
    pub reason: String,
}

/// The result of the ledger's audit for a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LedgerStatus {
    /// Differences between the ledger and the objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldAmount>,
    /// The uids of released namespaces of member clusters whose holds an operator has written off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub written_off: Vec<String>,
}

impl LedgerStatus {
    /// Whether the audit has found nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an orphan is unused and its hold is written off. The next audit of its cluster removes our quota and
    /// marks from it.
    pub fn has_written_off(&self, orphan: &Orphan) -> bool {
        orphan.state == OrphanState::Unused && self.written_off.contains(&orphan.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_counts_from_the_revision_that_every_cluster_has_reached() {
        let clusters = BTreeMap::from([("c1".to_owned(), 7), ("c2".to_owned(), 9)]);
        let comparison = Comparison { clusters, ..Comparison::default() };
        assert!(comparison.is_complete_since(7) && !comparison.is_complete_since(8));
        let lost = Comparison { unreported: 1, ..comparison.clone() };
        assert!(!lost.is_complete_since(7));
        let missing = BTreeMap::from([("c3".to_owned(), "no answer".to_owned())]);
        assert!(!Comparison { missing, ..comparison }.is_complete_since(7));
    }

    #[test]
    fn what_was_found_in_the_clusters_adds_up() {
        let part =
            |revision, unreported| ClusterComparison { revision, unreported, ..ClusterComparison::default() };
        let lost = ClusterComparison { missing: "no answer".to_owned(), ..part(3, 2) };
        let parts = BTreeMap::from([
            ("c1".to_owned(), part(7, 1)),
            ("c2".to_owned(), part(9, 0)),
            ("c3".to_owned(), lost),
        ]);
        let sum = Comparison::of(&parts);
        assert_eq!(sum.clusters, BTreeMap::from([("c1".to_owned(), 7), ("c2".to_owned(), 9)]));
        assert_eq!((sum.missing["c3"].as_str(), sum.unreported), ("no answer", 3));
    }
}
