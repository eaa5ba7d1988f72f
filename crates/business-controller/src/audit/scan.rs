//! Scans a member cluster for namespaces and quotas that carry our marks, or are at places for which something is held.

use super::survey::ProjectSurvey;
use crate::context::Context;
use crate::member::marks::{Marks, UID_MAX};
use crate::member::pages::PagedList;
use crate::member::{Member, Reach, weight};
use crate::namespace::confirm;
use crate::seal::{Keyring, Sealed, VerifiedSeal, key_id};
use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Api;
use serde::de::DeserializeOwned;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(30);
/// An audit may keep one part in so many of the memory budget of member clusters, in addition to it.
pub(super) const SCAN_BUDGET_DIVISOR: usize = 4;
/// Objects in one page of a list.
const PAGE: u32 = 500;
/// How long passes and writes that have begun in a cluster are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A namespace of a member cluster that has to be judged.
#[derive(Clone, Debug)]
pub struct ScannedNamespace {
    pub member: Arc<Member>,
    pub name: String,
    pub uid: String,
    /// The object in its marks; empty if the uid is too long to name any.
    pub mark: Option<String>,
    /// Its seals that are valid for this very namespace.
    pub seals: Vec<VerifiedSeal>,
    /// Its quota was sealed with more than its object is charged.
    pub is_beyond_charge: bool,
}

/// The result of scanning a cluster.
#[derive(Debug, Default)]
pub struct ClusterScan {
    pub namespaces: Vec<ScannedNamespace>,
    /// Ids of the keys of seals that may prove something in the cluster.
    pub keys: BTreeSet<String>,
}

/// The memory budget of all scans of one audit, estimated: whoever controls a cluster chooses how many namespaces carry
/// our marks.
#[derive(Debug)]
pub struct ScanBudget {
    most: usize,
    clusters: usize,
    taken: AtomicUsize,
}

impl ScanBudget {
    /// A budget of `most` bytes for this many clusters. When they are used up, each cluster still has an even share, or as much as
    /// it may take of its own cache, so the total is at most three times as much. So a cluster with few marks is always
    /// compared, and one with much that is ours, too.
    pub fn new(most: usize, clusters: usize) -> Self {
        Self { most, clusters, taken: AtomicUsize::new(0) }
    }

    /// A reservation for a cluster whose own share is at least so many bytes.
    fn reserve(&self, own: usize) -> ScanReservation<'_> {
        ScanReservation { budget: self, own: own.max(self.most / self.clusters.max(1)), bytes: 0 }
    }
}

/// What one scan has reserved.
#[derive(Debug)]
struct ScanReservation<'a> {
    budget: &'a ScanBudget,
    /// It may keep so many bytes even if the budget is used up.
    own: usize,
    bytes: usize,
}

impl ScanReservation<'_> {
    fn grow(&mut self, bytes: usize) -> Result<(), String> {
        let ScanBudget { most, clusters: _, taken } = self.budget;
        self.bytes = self.bytes.saturating_add(bytes);
        let all = taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if all <= *most || self.bytes <= self.own {
            return Ok(());
        }
        let mib = self.bytes.div_ceil(1 << 20);
        Err(format!("its namespaces and quotas with our marks take {mib} MiB, and there is no room for more"))
    }

    fn release(&mut self, bytes: usize) {
        let given = bytes.min(self.bytes);
        self.bytes = self.bytes.saturating_sub(given);
        self.budget.taken.fetch_sub(given, Ordering::Relaxed);
    }

    /// Keeps what is reserved after the scan.
    fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for ScanReservation<'_> {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

/// Waits until a cluster can be scanned, so that nothing appears in it later that was decided before. The error says
/// why it cannot.
pub async fn wait_until_ready(cx: &Context, member: &Member) -> Result<(), String> {
    if member.reach() != Reach::Reachable {
        return Err("it does not answer".to_owned());
    }
    // Passes that have begun before may use an older state of our objects.
    if timeout(PATIENCE, cx.queue.wait_for_running(&member.name)).await.is_err() {
        return Err("a pass over one of its namespaces does not end".to_owned());
    }
    match member.api.may_confirm() {
        Ok(()) => {}
        Err(wait) if wait <= PATIENCE => {
            tokio::time::sleep(wait).await;
            member.api.may_confirm().map_err(under_way)?;
        }
        Err(wait) => return Err(under_way(wait)),
    }
    member.verify_identity().await.map_err(|failure| failure.to_string())
}

fn under_way(wait: Duration) -> String {
    format!("a write to it may still be under way: it is compared in {} s", wait.as_secs())
}

/// Scans the clusters of one audit.
#[derive(Clone, Copy, Debug)]
pub struct ClusterScanner<'a> {
    pub cx: &'a Context,
    pub survey: &'a ProjectSurvey,
    pub keyring: &'a Keyring,
    pub budget: &'a ScanBudget,
}

impl ClusterScanner<'_> {
    /// Scans a cluster for everything that may concern us. The error says why that was not possible.
    pub async fn scan(self, member: &Arc<Member>) -> Result<ClusterScan, String> {
        let Self { cx, survey, keyring, budget } = self;
        let mut scanned = ClusterScan::default();
        let mut reservation = budget.reserve(member.observed.weight() / SCAN_BUDGET_DIVISOR);
        // The seals of marked quotas, by namespace.
        let mut quotas: HashMap<String, Option<String>> = HashMap::new();
        for_each_metadata::<ResourceQuota>(member, |metadata| {
            let marks = Marks::of(&metadata);
            if metadata.name == metadata.namespace
                && is_marked(&marks)
                && let Some(namespace) = metadata.namespace
            {
                let seal = marks.seal.filter(|text| may_be_of(keyring, member, &namespace, text));
                scanned.keys.extend(seal.as_deref().and_then(key_id).map(str::to_owned));
                reservation.grow(of_quota(&namespace, seal.as_deref()))?;
                quotas.insert(namespace, seal);
            }
            Ok(())
        })
        .await?;
        let held = survey.places_in(&member.name);
        let imported = imported_in(cx, &member.name);
        let is_awaited = |name: &str| held.contains(name) || imported.contains(name);
        for_each_metadata::<Namespace>(member, |metadata| {
            let marks = Marks::of(&metadata);
            let name = metadata.name.unwrap_or_default();
            let uid = metadata.uid.unwrap_or_default();
            let place = SealedPlace { cluster: &member.uid, namespace: &name, uid: &uid };
            let key = marks.seal.as_deref().and_then(|text| place.key_of(keyring, text));
            scanned.keys.extend(key);
            let quota = quotas.remove(&name);
            if !is_marked(&marks) && quota.is_none() && !is_awaited(&name) {
                return Ok(());
            }
            if let Some(seal) = &quota {
                reservation.release(of_quota(&name, seal.as_deref()));
            }
            let mark = marks.uid.map(|mark| if mark.len() > UID_MAX { String::new() } else { mark });
            let mut kept = weight::texts([&name, &uid].into_iter().chain(&mark));
            // A seal that is not valid is not kept: anybody can write one.
            let mut opened = |text: Option<String>| {
                let text = text?;
                let opened = place.open(keyring, &text)?;
                kept = kept.saturating_add(weight::texts([&text]));
                Some(opened)
            };
            let (of_namespace, of_quota) = (opened(marks.seal), opened(quota.flatten()));
            let is_beyond_charge =
                of_quota.as_ref().is_some_and(|opened| is_beyond_charge(cx, member, &name, &opened.sealed));
            let seals = of_namespace.into_iter().chain(of_quota).collect();
            let member = Arc::clone(member);
            let namespace_scan = ScannedNamespace { member, name, uid, mark, seals, is_beyond_charge };
            reservation.grow(kept.saturating_add(weight::of(&namespace_scan)))?;
            scanned.namespaces.push(namespace_scan);
            Ok(())
        })
        .await?;
        for (namespace, seal) in quotas {
            reservation.release(of_quota(&namespace, seal.as_deref()));
        }
        reservation.keep();
        Ok(scanned)
    }
}

/// The estimated bytes that are kept of a quota until its namespace was scanned.
fn of_quota(namespace: &str, seal: Option<&str>) -> usize {
    weight::texts([namespace].into_iter().chain(seal))
}

/// Whether the quota of the object at this place was sealed with more than the object is charged.
fn is_beyond_charge(cx: &Context, member: &Member, namespace: &str, sealed: &Sealed) -> bool {
    let object = cx.objects.namespaces.at_place(&member.name, namespace);
    object.is_some_and(|object| object.uid == sealed.object && confirm::is_beyond_charge(&object, sealed))
}

/// Namespaces of a cluster that imported objects will take over.
fn imported_in(cx: &Context, cluster: &str) -> HashSet<String> {
    let objects = cx.objects.namespaces.in_cluster(cluster);
    let imported = objects.iter().filter(|object| object.status.is_imported());
    imported.map(|object| object.spec.namespace.clone()).collect()
}

/// A namespace of a member cluster whose seals are verified.
#[derive(Clone, Copy, Debug)]
pub struct SealedPlace<'a> {
    /// The uid of the cluster.
    pub cluster: &'a str,
    pub namespace: &'a str,
    /// The uid of the namespace.
    pub uid: &'a str,
}

impl SealedPlace<'_> {
    /// Verifies a seal, if it was made for this very namespace. One without the uid proves nothing here: it could be
    /// copied from a former namespace.
    pub fn open(self, keyring: &Keyring, text: &str) -> Option<VerifiedSeal> {
        keyring
            .open(text)
            .filter(|opened| opened.sealed.namespace_uid.is_some() && self.matches(&opened.sealed))
    }

    /// The id of the key of a seal that may prove something of this namespace. Whoever writes in the cluster can make
    /// up a seal, or copy one from elsewhere: neither proves anything, and neither keeps a key from being retired.
    fn key_of(self, keyring: &Keyring, text: &str) -> Option<String> {
        let opened = keyring.open(text).filter(|opened| self.matches(&opened.sealed));
        opened.and_then(|_valid| key_id(text)).map(str::to_owned)
    }

    fn matches(self, sealed: &Sealed) -> bool {
        sealed.is_of(self.cluster, self.namespace, self.uid)
    }
}

/// Whether it is a valid seal for a namespace of this name. The uid of that namespace is not known while quotas are
/// scanned.
fn may_be_of(keyring: &Keyring, member: &Member, namespace: &str, text: &str) -> bool {
    let opened = keyring.open(text);
    opened.is_some_and(|VerifiedSeal { sealed, .. }| {
        sealed.cluster == member.uid && sealed.namespace == namespace
    })
}

/// Labels do not make a namespace ours: one that has only labels can be adopted.
pub fn is_marked(marks: &Marks) -> bool {
    marks.uid.is_some() || marks.seal.is_some()
}

async fn for_each_metadata<K>(
    member: &Member,
    mut take: impl FnMut(ObjectMeta) -> Result<(), String>,
) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Metadata<Ty = ObjectMeta> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(member.api.client());
    let mut pages = PagedList::of(PAGE);
    loop {
        let params = pages.params();
        let read = pages.read(DEADLINE, api.list_metadata(&params)).await;
        let Some(page) = read.map_err(|failure| failure.to_string())? else { continue };
        let objects = page.items.len();
        for object in page.items {
            take(object.metadata)?;
        }
        if !pages.advance(objects, page.metadata.continue_) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_little_finds_room_although_others_have_taken_it() {
        let budget = ScanBudget::new(100, 4);
        let (mut large, mut small) = (budget.reserve(0), budget.reserve(0));
        assert!(large.grow(90).is_ok() && small.grow(20).is_ok());
        assert!(large.grow(1).is_err() && small.grow(5).is_ok() && small.grow(1).is_err());
        drop(large);
        assert!(small.grow(50).is_ok());
        small.keep();
        assert_eq!(budget.taken.load(Ordering::Relaxed), 76);
    }

    #[test]
    fn who_has_much_that_is_ours_finds_room_although_others_have_taken_it() {
        let budget = ScanBudget::new(100, 4);
        let (mut first, mut large) = (budget.reserve(0), budget.reserve(60));
        assert!(first.grow(100).is_ok());
        assert!(large.grow(60).is_ok() && large.grow(1).is_err());
    }
}
