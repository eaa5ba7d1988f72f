//! Why held growth cannot be released yet after a divergence of history.

use super::orphans;
use super::project_status::{self, AuditStatuses};
use crate::clusters;
use crate::follow;
use crate::kind_ids::MEMBER_CLUSTER;
use crate::kinds::KindTable;
use business_types::{Comparison, OrphanState};
use std::collections::BTreeSet;
use store::audit::Difference;
use store::hold::GrowthHold;
use store::read::{At, ListQuery};
use store::{Access, Error, Revision, Store};

/// The field that names the cluster of an object.
const CLUSTER_FIELD: &str = "spec.clusterName";

/// What this replica has found out for the release of growth.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrowthFinding<'a> {
    /// The store's revision after the comparison was read. A comparison at a later revision belongs to a history that
    /// was lost.
    pub(super) newest: Revision,
    /// The number of orphans that could not be held.
    pub(super) unheld: usize,
    pub(super) differences: &'a [Difference],
    /// Clusters for which something is charged or held, by the store.
    pub(super) in_use: &'a ClustersInUse,
}

/// The clusters that must be compared before growth is released.
#[derive(Debug)]
pub(super) struct ClustersInUse {
    /// The names of clusters in which objects live or for which something is held.
    names: BTreeSet<String>,
    /// Whether any member cluster is registered, in use or not.
    any_registered: bool,
}

/// Reads the clusters in which objects live or for which something is held.
pub(super) async fn clusters_in_use(
    store: &Store,
    access: &Access,
    kinds: KindTable,
) -> Result<ClustersInUse, Error> {
    let mut clusters = BTreeSet::new();
    for row in kinds.stored_rows() {
        let kind = (row.kind)();
        let Some(field) = kind.fields().iter().position(|field| *field == CLUSTER_FIELD) else { continue };
        let selection = follow::select_kind(row.id);
        let query = ListQuery { selection, at: At::Latest, limit: None, continue_token: None };
        for entry in store.list(access, &query).await?.items {
            let cluster = entry.attributes.fields.get(field).map(|cluster| &**cluster).unwrap_or_default();
            if !cluster.is_empty() && !clusters.contains(cluster) {
                clusters.insert(cluster.to_owned());
            }
        }
    }
    for hold in store.holds(access, None).await? {
        clusters.extend(orphans::clusters(&hold).map(str::to_owned));
    }
    let query = ListQuery {
        selection: follow::select_kind(MEMBER_CLUSTER),
        at: At::Latest,
        limit: Some(1),
        continue_token: None,
    };
    let any_registered = !store.list(access, &query).await?.items.is_empty();
    Ok(ClustersInUse { names: clusters, any_registered })
}

/// Why growth is held, and what it waits for, for people.
pub(super) async fn explain_hold(
    store: &Store,
    access: &Access,
    kinds: KindTable,
    hold: GrowthHold,
    differences: &[Difference],
) -> Result<String, Error> {
    if hold.is_import() {
        return Ok(Error::Importing.to_string());
    }
    if !hold.waits_for_audit() {
        return Ok(format!("{}; it waits for business-api audit --go-on", hold.reason));
    }
    let in_use = clusters_in_use(store, access, kinds).await?;
    let statuses = project_status::read(store, access).await?;
    let unheld = count_unheld(store, access, &statuses).await?;
    let registered = follow::select_kind(MEMBER_CLUSTER);
    let query = ListQuery { selection: registered, at: At::Latest, limit: None, continue_token: None };
    let page = store.list(access, &query).await?;
    let comparison = clusters::comparison(&page.items);
    let found = GrowthFinding { newest: page.revision, unheld, differences, in_use: &in_use };
    let why = statuses.obstacle().or_else(|| obstacle(&hold, &comparison, found));
    Ok(format!("{}; {}", hold.reason, why.as_deref().unwrap_or("nothing is in its way any more")))
}

/// Counts the orphans that are not held yet, or cannot be.
async fn count_unheld(store: &Store, access: &Access, statuses: &AuditStatuses) -> Result<usize, Error> {
    let holds = store.holds(access, None).await?;
    let orphans =
        statuses.projects.iter().flat_map(|(name, status)| status.orphans.iter().map(move |one| (name, one)));
    let is_unheld = |(project, orphan): &(&String, &business_types::Orphan)| {
        orphan.state != OrphanState::Unused
            && orphans::hold_of(project, orphan).is_none_or(|hold| !orphans::is_covered(&holds, &hold))
    };
    Ok(orphans.filter(is_unheld).count())
}

/// Why growth cannot be released yet; `None` if nothing is in the way.
pub(super) fn obstacle(
    hold: &GrowthHold,
    comparison: &Comparison,
    found: GrowthFinding<'_>,
) -> Option<String> {
    let GrowthFinding { newest, unheld, differences, in_use } = found;
    if let Some(first) = differences.first() {
        return Some(format!(
            "{} differences between ledger and objects, which business-api audit --repair sets right: {first}",
            differences.len()
        ));
    }
    let unreported = comparison.unreported.saturating_add(u64::try_from(unheld).unwrap_or(u64::MAX));
    if !in_use.any_registered {
        return Some(match in_use.names.first() {
            Some(cluster) => format!(
                "no member cluster is registered, and something is charged or held in member cluster {cluster}"
            ),
            None => "no member cluster is registered, so none is compared: when that is so, it waits for \
                 business-api audit --go-on"
                .to_owned(),
        });
    }
    let is_recent = |at: &u64| (hold.since.0..=newest.0).contains(at);
    if comparison.clusters.is_empty() || !comparison.clusters.values().all(is_recent) {
        return Some("the controller has not compared the member clusters since".to_owned());
    }
    if let Some((cluster, why)) = comparison.missing.first_key_value() {
        return Some(format!("member cluster {cluster} was not compared: {why}"));
    }
    // This includes clusters that the controller does not know: it may have forgotten one.
    if let Some(cluster) = in_use.names.iter().find(|cluster| !comparison.clusters.contains_key(*cluster)) {
        return Some(format!(
            "something is charged or held in member cluster {cluster}, which was not compared"
        ));
    }
    (unreported > 0)
        .then(|| format!("{unreported} namespaces of member clusters belong to no object and to no project"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use uuid::Uuid;

    const NEWEST: Revision = Revision(60);

    fn in_use(names: &[&str]) -> ClustersInUse {
        ClustersInUse { names: names.iter().map(|name| (*name).to_owned()).collect(), any_registered: true }
    }

    #[test]
    fn growth_waits_for_both_sides() {
        let hold =
            GrowthHold { reason: "history has diverged".to_owned(), epoch: Uuid::nil(), since: Revision(50) };
        let clusters = |at| BTreeMap::from([("c1".to_owned(), at)]);
        let old = Comparison { clusters: clusters(49), ..Comparison::default() };
        let in_use = in_use(&["c1"]);
        let why = |comparison: &Comparison, unheld| {
            let found = GrowthFinding { newest: NEWEST, unheld, differences: &[], in_use: &in_use };
            obstacle(&hold, comparison, found)
        };
        assert!(why(&Comparison::default(), 0).unwrap().contains("not compared"));
        assert!(why(&old, 0).unwrap().contains("not compared"));
        let lost = Comparison { clusters: clusters(61), ..Comparison::default() };
        assert!(why(&lost, 0).unwrap().contains("not compared"), "this history has not come so far");
        let new = Comparison { clusters: clusters(50), ..Comparison::default() };
        assert_eq!(why(&new, 0), None);
        assert!(why(&new, 1).unwrap().starts_with("1 namespaces"));
        let missing = BTreeMap::from([("c2".to_owned(), "no answer".to_owned())]);
        let without = Comparison { missing, ..new.clone() };
        assert_eq!(why(&without, 0).unwrap(), "member cluster c2 was not compared: no answer");
        let strangers = Comparison { strange: 7, ..new };
        assert_eq!(why(&strangers, 0), None, "anybody can make them");
    }

    #[test]
    fn a_cluster_that_the_controller_has_forgotten_keeps_growth_waiting() {
        let hold =
            GrowthHold { reason: "history has diverged".to_owned(), epoch: Uuid::nil(), since: Revision(5) };
        let comparison = Comparison { clusters: [("c1".to_owned(), 9)].into(), ..Comparison::default() };
        let in_use = in_use(&["c1", "delisted"]);
        let found = GrowthFinding { newest: NEWEST, unheld: 0, differences: &[], in_use: &in_use };
        assert!(obstacle(&hold, &comparison, found).unwrap().contains("member cluster delisted"));
    }

    #[test]
    fn where_no_cluster_is_registered_nobody_waits_for_a_comparison() {
        let hold =
            GrowthHold { reason: "history has diverged".to_owned(), epoch: Uuid::nil(), since: Revision(5) };
        let why = |names: &[&str]| {
            let in_use = ClustersInUse { any_registered: false, ..in_use(names) };
            let found = GrowthFinding { newest: NEWEST, unheld: 0, differences: &[], in_use: &in_use };
            obstacle(&hold, &Comparison::default(), found).unwrap()
        };
        assert!(why(&[]).ends_with("it waits for business-api audit --go-on"), "{}", why(&[]));
        assert!(why(&["c1"]).ends_with("held in member cluster c1"), "{}", why(&["c1"]));
    }
}
