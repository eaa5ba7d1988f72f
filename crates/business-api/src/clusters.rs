//! The member clusters, kept from the store's watch: who may use them, and what their objects say.

use crate::follow::{ObjectIndex, SharedIndex};
use crate::host_cluster::HostCluster;
use crate::kind_ids::MEMBER_CLUSTER;
use apiserver::View;
use business_types::refusal::CLUSTER_CLOSED;
use business_types::{
    ClosedCluster, ClusterComparison, ClusterSummary, Comparison, MemberClusterSpec, MemberClusterStatus,
    names,
};
use meta::gvk::GroupResource;
use meta::status::{Status, StatusCause};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::quota::{Account, Grants};
use store::{Entry, Key, KindId, Store};
use tokio::sync::watch;
use tokio::time::timeout;

const RETRY_AFTER_SECONDS: u32 = 2;
/// How long a write waits for the index to get what the store has of the clusters.
const REFRESH_MAX: Duration = Duration::from_secs(1);

/// The member clusters. Clones share them.
#[derive(Clone, Debug)]
pub struct Clusters {
    index: SharedIndex<ClusterIndex>,
    comparison: watch::Receiver<Arc<Comparison>>,
    /// Whether every name is allowed as long as no cluster is registered.
    registration_optional: bool,
    host: HostCluster,
}

/// Whether a member is the host cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMatch {
    /// It is.
    Host,
    /// It is another cluster.
    Other,
    /// Neither can the host cluster's uid be read, nor has an operator said which member it is.
    Unknown,
}

#[derive(Debug, Default)]
struct ClusterIndex {
    clusters: BTreeMap<Arc<str>, Arc<ClusterSummary>>,
    comparisons: BTreeMap<String, ClusterComparison>,
    comparison: watch::Sender<Arc<Comparison>>,
}

/// The part of a stored member cluster that the index reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StoredCluster {
    metadata: StoredMetadata,
    spec: MemberClusterSpec,
    status: MemberClusterStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredMetadata {
    creation_timestamp: String,
    deletion_timestamp: Option<String>,
    annotations: BTreeMap<String, String>,
}

/// How far the controller has compared these clusters with the objects, by their stored status.
pub(crate) fn comparison(clusters: &[Arc<Entry>]) -> Comparison {
    let mut index = ClusterIndex::default();
    for entry in clusters {
        index.set(&entry.key.name, read(entry));
    }
    Comparison::of(&index.comparisons)
}

fn read(entry: &Entry) -> Option<StoredCluster> {
    serde_json::from_slice(&entry.body)
        .inspect_err(
            |error| tracing::error!(%error, name = %entry.key.name, "a member cluster cannot be read"),
        )
        .ok()
}

impl Clusters {
    /// The registered clusters. No other name is allowed.
    pub fn registered() -> Self {
        Self::new(false)
    }

    /// The registered clusters, where nobody has to register any: as long as there is none, every name is allowed.
    pub fn registration_optional() -> Self {
        Self::new(true)
    }

    fn new(registration_optional: bool) -> Self {
        let index = ClusterIndex::default();
        let comparison = index.comparison.subscribe();
        let index = SharedIndex::new(index);
        Self { index, comparison, registration_optional, host: HostCluster::default() }
    }

    /// The same clusters, one of which may turn out to be the host cluster.
    #[must_use]
    pub fn with_host(self, host: HostCluster) -> Self {
        Self { host, ..self }
    }

    /// How far the controller has compared the clusters with the objects.
    pub fn comparison(&self) -> watch::Receiver<Arc<Comparison>> {
        self.comparison.clone()
    }

    /// 503 until all of them have been read.
    pub fn check_synced(&self) -> Result<(), Status> {
        if self.has_synced() {
            return Ok(());
        }
        Err(Status::unavailable("the member clusters have not been read yet", RETRY_AFTER_SECONDS))
    }

    /// Whether all of them have been read.
    pub fn has_synced(&self) -> bool {
        self.index.has_synced()
    }

    /// Whether a tenant may use a cluster. The answer is the same for a cluster that does not exist and for one of
    /// other tenants.
    pub fn allows(&self, name: &str, tenant: &str) -> bool {
        let index = self.index.read();
        if self.registration_optional && index.clusters.is_empty() {
            return true;
        }
        index.clusters.get(name).is_some_and(|cluster| cluster.allows(tenant))
    }

    /// Reads the newest state if the tenant may not use one of these clusters as far as the index knows: the cluster
    /// may be newly registered, or newly open to the tenant. Returns whether it has.
    pub async fn refresh_unless_allowed(
        &self,
        view: View<'_>,
        names: &[&str],
        tenant: &str,
    ) -> Result<bool, Status> {
        let unknown = names.iter().find(|name| !name.is_empty() && !self.allows(name, tenant));
        let Some(name) = unknown else { return Ok(false) };
        // Afterwards the store's cache has the newest state, and the index gets it from there.
        view.unfiltered().latest().get(&Key::new(MEMBER_CLUSTER, "", name)).await?;
        let _late = timeout(REFRESH_MAX, self.index.catch_up()).await;
        Ok(true)
    }

    /// Whether operators may use a name.
    pub fn allows_operators(&self, name: &str) -> bool {
        let index = self.index.read();
        self.registration_optional && index.clusters.is_empty() || index.clusters.contains_key(name)
    }

    /// A cluster by name.
    pub fn get(&self, name: &str) -> Option<Arc<ClusterSummary>> {
        self.index.read().clusters.get(name).cloned()
    }

    /// All clusters, by name.
    pub fn all(&self) -> BTreeMap<Arc<str>, Arc<ClusterSummary>> {
        self.index.read().clusters.clone()
    }

    /// Whether a member is the host cluster.
    pub fn host_match(&self, name: &str) -> HostMatch {
        let index = self.index.read();
        let cluster = index.clusters.get(name);
        if cluster.is_some_and(|cluster| self.is_host(cluster)) {
            return HostMatch::Host;
        }
        let is_another = cluster.is_some_and(|cluster| cluster.declared_host == Some(false))
            || index.clusters.values().any(|cluster| cluster.declared_host == Some(true));
        if self.host.is_pending() && !is_another { HostMatch::Unknown } else { HostMatch::Other }
    }

    /// The name under which the host cluster is a member.
    pub fn host(&self) -> Option<Arc<str>> {
        let index = self.index.read();
        index.clusters.iter().find(|(_, cluster)| self.is_host(cluster)).map(|(name, _)| Arc::clone(name))
    }

    fn is_host(&self, cluster: &ClusterSummary) -> bool {
        cluster.declared_host == Some(true) || self.host.has_uid(&cluster.uid)
    }

    /// Whether a cluster is cordoned or being deleted.
    pub fn is_closed(&self, name: &str) -> bool {
        self.index.read().clusters.get(name).is_some_and(|cluster| cluster.closed.is_some())
    }

    /// Refuses a write (403) that grows something in a cluster that is closed: cordoned, or being deleted. A tenant
    /// that may not use the cluster does not learn that it is closed, unless the object has something there already.
    pub fn check_growth(&self, growth: ClusterGrowth<'_>) -> Result<(), Status> {
        let ClusterGrowth { before, after, resource, name } = growth;
        let closed = grown_domains(before, after).find_map(|cluster| {
            let is_present = before.is_some_and(|before| before.costs.contains_key(cluster));
            let known = self.get(cluster).filter(|known| is_present || known.allows(&after.tenant))?;
            Some((cluster, known.closed?))
        });
        let Some((cluster, closed)) = closed else { return Ok(()) };
        let (state, word) = match closed {
            ClosedCluster::Cordoned => ("is cordoned", "cordoned"),
            ClosedCluster::Deleting => ("is being deleted", "deleting"),
        };
        let why = format!(
            "cluster {cluster:?} {state}: nothing new comes to it and nothing in it grows; shrinking and deleting go on"
        );
        let cause = StatusCause {
            reason: CLUSTER_CLOSED.to_owned(),
            message: format!("cluster={cluster} state={word}"),
            field: "spec".to_owned(),
        };
        Err(Status::forbidden(resource, name, &why).with_causes(vec![cause]))
    }

    /// Follows the objects of the kind for ever.
    pub async fn follow(self, store: Store, kind: KindId) {
        self.index.follow(store, kind, "member clusters").await;
    }
}

/// A write that may grow something in a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterGrowth<'a> {
    /// The object's account before the write; `None` for a new object.
    pub before: Option<&'a Account>,
    /// The object's account after it.
    pub after: &'a Account,
    /// The object's group and plural.
    pub resource: &'a GroupResource,
    /// The object's name.
    pub name: &'a str,
}

/// The domains in which more is charged or granted than before, or which are used for the first time.
fn grown_domains<'a>(before: Option<&'a Account>, after: &'a Account) -> impl Iterator<Item = &'a str> {
    let costs = after.costs.iter().filter(move |(domain, amounts)| {
        let had = before.and_then(|before| before.costs.get(*domain));
        had.is_none_or(|had| amounts.iter().any(|(key, amount)| had.get(key).is_none_or(|was| amount > was)))
    });
    let granted =
        Grants::raised_domains(before.and_then(|before| before.grants.as_ref()), after.grants.as_ref());
    costs.map(|(domain, _)| domain.as_str()).chain(granted)
}

impl ObjectIndex for ClusterIndex {
    /// An index that is being built has no receivers.
    fn new_empty(&self) -> Self {
        Self::default()
    }

    fn apply(&mut self, entry: &Entry, exists: bool) {
        self.set(&entry.key.name, exists.then(|| read(entry)).flatten());
        self.publish_comparison();
    }

    fn replace(&mut self, complete: Self) -> Self {
        let comparison = self.comparison.clone();
        let old = std::mem::replace(self, Self { comparison, ..complete });
        self.publish_comparison();
        old
    }
}

impl ClusterIndex {
    fn set(&mut self, name: &Arc<str>, cluster: Option<StoredCluster>) {
        self.comparisons.remove(&**name);
        let Some(StoredCluster { metadata, spec, mut status }) = cluster else {
            self.clusters.remove(name);
            return;
        };
        if let Some(comparison) = status.comparison.take() {
            self.comparisons.insert(name.to_string(), comparison);
        }
        let deleting = metadata.deletion_timestamp.is_some();
        let created = metadata.creation_timestamp;
        let declared_host: Option<bool> =
            metadata.annotations.get(names::HOST_CLUSTER_ANNOTATION).and_then(|is| is.parse().ok());
        let cluster = ClusterSummary { created, declared_host, ..ClusterSummary::of(spec, status, deleting) };
        self.clusters.insert(Arc::clone(name), Arc::new(cluster));
    }

    fn publish_comparison(&self) {
        let new = Comparison::of(&self.comparisons);
        self.comparison.send_if_modified(|current| {
            let is_new = **current != new;
            *current = Arc::new(new);
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use store::{Attributes, Revision};

    impl Clusters {
        /// These clusters, synced.
        pub(crate) fn of<const N: usize>(clusters: [(&str, Value); N]) -> Self {
            let registered = Self::registered();
            let mut complete = ClusterIndex::default();
            for (name, body) in clusters {
                complete.apply(&entry(name, &body), true);
            }
            registered.index.publish(complete);
            registered
        }

        fn apply(&self, name: &str, body: &Value) {
            self.index.update(|index| index.apply(&entry(name, body), true));
        }
    }

    fn entry(name: &str, body: &Value) -> Entry {
        Entry {
            key: Key::new(KindId(1), "", name),
            uid: uuid::Uuid::nil(),
            revision: Revision(1),
            body: body.to_string().into(),
            attributes: Attributes::default(),
        }
    }

    #[test]
    fn unread_clusters_ask_for_patience() {
        let clusters = Clusters::registered();
        let refused = clusters.check_synced().unwrap_err();
        assert_eq!((refused.code, refused.details.unwrap().retry_after_seconds), (503, 2));
        let clusters = Clusters::of([]);
        assert_eq!(clusters.check_synced(), Ok(()));
        assert!(!clusters.allows("c1", "t"));
    }

    #[test]
    fn where_nobody_registers_clusters_every_name_is_good_until_somebody_does() {
        let clusters = Clusters::registration_optional();
        assert!(clusters.allows("c1", "t") && clusters.allows("c2", "t"));
        clusters.apply("c1", &json!({"spec": {"tenants": ["t"]}}));
        assert!(clusters.allows("c1", "t"));
        assert!(!clusters.allows("c2", "t") && !clusters.allows("c1", "u"));
    }

    #[test]
    fn the_host_cluster_is_known_by_its_uid_or_by_what_an_operator_says() {
        let own = [("c1", json!({"status": {"uid": "a"}})), ("c2", json!({"status": {"uid": "b"}}))];
        let clusters = Clusters::of(own);
        assert_eq!(clusters.host(), None);
        clusters.apply("c3", &json!({}));
        let clusters = clusters.with_host(HostCluster::resolved("b"));
        let matches = ["c1", "c2", "c3"].map(|name| clusters.host_match(name));
        assert_eq!(matches, [HostMatch::Other, HostMatch::Host, HostMatch::Other]);
        assert_eq!(clusters.host().as_deref(), Some("c2"));
        clusters.apply("c1", &json!({"metadata": {"annotations": {names::HOST_CLUSTER_ANNOTATION: "true"}}}));
        assert_eq!(clusters.host_match("c1"), HostMatch::Host);
    }

    #[test]
    fn until_the_host_cluster_is_known_it_may_be_any_member() {
        let own = || Clusters::of([("c1", json!({"status": {"uid": "a"}})), ("c2", json!({}))]);
        let matches = |clusters: &Clusters| ["c1", "c2"].map(|name| clusters.host_match(name));
        assert_eq!(matches(&own()), [HostMatch::Other; 2], "there is none");
        let clusters = own().with_host(HostCluster::pending());
        assert_eq!(matches(&clusters), [HostMatch::Unknown; 2]);
        let declared = |is: &str| json!({"metadata": {"annotations": {names::HOST_CLUSTER_ANNOTATION: is}}});
        clusters.apply("c1", &declared("false"));
        assert_eq!(matches(&clusters), [HostMatch::Other, HostMatch::Unknown]);
        clusters.apply("c1", &declared("perhaps"));
        assert_eq!(matches(&clusters), [HostMatch::Unknown; 2]);
        assert_eq!(clusters.host(), None);
        clusters.apply("c2", &declared("true"));
        assert_eq!(matches(&clusters), [HostMatch::Other, HostMatch::Host], "an operator has said it");
    }

    #[test]
    fn what_was_compared_is_news_once() {
        let clusters = Clusters::of([]);
        let mut comparison = clusters.comparison();
        comparison.mark_unchanged();
        for new in [true, false] {
            clusters.apply("c1", &json!({"status": {"comparison": {"revision": 7}}}));
            clusters.apply("c2", &json!({"status": {"comparison": {"missing": "no answer"}}}));
            assert_eq!(comparison.has_changed().unwrap(), new);
            let known = Arc::clone(&comparison.borrow_and_update());
            assert_eq!((known.clusters["c1"], known.missing["c2"].as_str()), (7, "no answer"));
        }
        clusters.apply("c1", &json!({"status": {}}));
        assert!(comparison.borrow_and_update().clusters.is_empty());
    }

    #[test]
    fn what_is_closed_takes_nothing_more_and_lets_go() {
        let clusters = Clusters::of([
            ("shut", json!({"spec": {"tenants": ["t"], "cordoned": true}})),
            (
                "going",
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"tenants": ["*"]}}),
            ),
            ("good", json!({"spec": {"tenants": ["*"]}})),
        ]);
        let charge = |cluster: &str, pods: &str| {
            let amounts = [("pods".to_owned(), pods.parse().unwrap())].into();
            Account {
                tenant: "t".to_owned(),
                costs: [(cluster.to_owned(), amounts)].into(),
                ..Account::default()
            }
        };
        let resource = business_types::namespace::group_resource();
        let check = |before: Option<&Account>, after: &Account| {
            clusters.check_growth(ClusterGrowth { before, after, resource: &resource, name: "n" })
        };
        for (cluster, state) in [("shut", "is cordoned"), ("going", "is being deleted")] {
            let (less, more) = (charge(cluster, "1"), charge(cluster, "2"));
            for (before, after) in [(None, &less), (Some(&less), &more)] {
                let refused = check(before, after).unwrap_err();
                assert_eq!(refused.code, 403);
                assert!(refused.message.contains(state), "{}", refused.message);
            }
            for (before, after) in [(&more, &less), (&less, &less)] {
                assert_eq!(check(Some(before), after), Ok(()));
            }
        }
        assert_eq!(check(None, &charge("good", "1")), Ok(()));
        let foreign = Account { tenant: "u".to_owned(), ..charge("shut", "1") };
        assert_eq!(check(None, &foreign), Ok(()), "he is told that it is not there");
        let more = Account { tenant: "u".to_owned(), ..charge("shut", "2") };
        assert_eq!(check(Some(&foreign), &more).unwrap_err().code, 403, "he was taken off it, and is there");
    }
}
