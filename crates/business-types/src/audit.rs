use meta::quantity::ResourceList;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far the controller has compared the member clusters with the objects: the [`ClusterComparison`]s of all clusters
/// together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The revision of our objects that each member cluster was last compared with.
    pub clusters: BTreeMap<String, u64>,
    /// Member clusters that were not compared the last time, and why.
    pub missing: BTreeMap<String, String>,
    /// Orphans that stand in no project's status: their project does not exist, or there are too many.
    pub unreported: u64,
    /// How many of these name a project that does not exist.
    pub homeless: u64,
    /// Some of the namespaces that carry our marks without our seal: anybody may have written the marks. They are
    /// charged to no project. `strange` is how many there are.
    pub strangers: Vec<Stranger>,
    /// How many strangers there are.
    pub strange: u64,
}

/// How far the controller has compared one member cluster with the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterComparison {
    /// The revision of our objects that it was last compared with; 0 where it was not compared.
    pub revision: u64,
    /// Why it was not compared the last time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub missing: String,
    /// When that was found, RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// Orphans that stand in no project's status: their project does not exist, or there are too many.
    pub unreported: u64,
    /// How many of these name a project that does not exist.
    pub homeless: u64,
    /// How many namespaces carry our marks without our seal.
    pub strange: u64,
    /// Some of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<Stranger>,
    /// The key that made the seals in it from then on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub active_key: String,
    /// The keys that its seals bore.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

/// A namespace of a member cluster that carries our marks without our seal.
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
    /// What a quota there lets it take.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
}

impl Comparison {
    /// Adds up the comparisons of the clusters.
    pub fn of<'a>(parts: impl IntoIterator<Item = (&'a String, &'a ClusterComparison)>) -> Self {
        let mut whole = Self::default();
        for (cluster, part) in parts {
            if part.missing.is_empty() {
                whole.clusters.insert(cluster.clone(), part.revision);
            } else {
                whole.missing.insert(cluster.clone(), part.missing.clone());
            }
            whole.unreported = whole.unreported.saturating_add(part.unreported);
            whole.homeless = whole.homeless.saturating_add(part.homeless);
            whole.strange = whole.strange.saturating_add(part.strange);
            whole.strangers.extend(part.strangers.iter().cloned());
        }
        whole
    }

    /// Whether every member cluster was compared with the objects of this revision or a later one, and everything
    /// that was found is reported.
    pub fn is_complete_since(&self, revision: u64) -> bool {
        self.missing.is_empty() && self.unreported == 0 && self.clusters.values().all(|at| *at >= revision)
    }
}

/// A namespace of a member cluster that may take what no object is charged for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Orphan {
    /// The member cluster.
    pub cluster_name: String,
    /// The namespace's name there.
    pub namespace: String,
    /// The namespace's uid there.
    pub uid: String,
    /// Why it is told.
    pub state: OrphanState,
    /// What it may take, beyond what is charged for it.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
}

/// Why an orphan is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OrphanState {
    /// It belongs to no object.
    #[default]
    Lost,
    /// Its object is there and is charged less than it may take: a raise was lost with the database's history.
    Ahead,
    /// Its object has released it, and something in it still counts.
    Released,
    /// Its object has released it, and nothing in it is in use: what is held for it can be written off.
    Unused,
}

impl OrphanState {
    /// All of them, as they are written.
    pub const NAMES: [&'static str; 4] = ["Lost", "Ahead", "Released", "Unused"];
}

/// What counts against a project although no object stands for it.
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
    /// Why.
    pub reason: String,
}

/// What the ledger's audit says of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LedgerStatus {
    /// Differences between the ledger and the objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Amounts that count without an object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldAmount>,
    /// Uids of released namespaces of member clusters that nothing is held for any more: an operator has written them
    /// off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub written_off: Vec<String>,
}

impl LedgerStatus {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether nothing is held for an orphan any more, and nothing in it is in use. The next audit of its cluster takes
    /// our quota and marks away.
    pub fn is_done_with(&self, orphan: &Orphan) -> bool {
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
        let whole = Comparison::of(&parts);
        assert_eq!(whole.clusters, BTreeMap::from([("c1".to_owned(), 7), ("c2".to_owned(), 9)]));
        assert_eq!((whole.missing["c3"].as_str(), whole.unreported), ("no answer", 3));
    }
}
