//! What a member cluster has that carries our marks, or lies where something is held.

use super::survey::ProjectSurvey;
use crate::context::Context;
use crate::member::marks::{Marks, UID_MAX};
use crate::member::pages::PagedList;
use crate::member::{Member, Reach, weight};
use crate::seal::{Keyring, VerifiedSeal, key_id};
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
/// The part of what may be seen of all clusters that a pass may keep of them beside it.
pub(super) const SCAN_BUDGET_DIVISOR: usize = 4;
/// Objects a page of a list.
const PAGE: u32 = 500;
/// How long what has begun in a cluster is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A namespace of a member cluster that the audit has to judge.
#[derive(Clone, Debug)]
pub struct ScannedNamespace {
    pub member: Arc<Member>,
    pub name: String,
    pub uid: String,
    /// The object that its mark names; empty for one that is too long to name any.
    pub mark: Option<String>,
    /// What its seals say, if they hold for this very namespace.
    pub seals: Vec<VerifiedSeal>,
}

/// What was seen of a cluster.
#[derive(Debug, Default)]
pub struct ClusterScan {
    pub namespaces: Vec<ScannedNamespace>,
    /// Ids of those of our keys that seals there say they were made with.
    pub keys: BTreeSet<String>,
}

/// How much all looks of a pass may keep of what they see, about: whoever rules a cluster chooses how many namespaces bear our
/// marks.
#[derive(Debug)]
pub struct ScanBudget {
    most: usize,
    clusters: usize,
    taken: AtomicUsize,
}

impl ScanBudget {
    /// So many bytes, for so many clusters. Beyond them each has an even share, or what its look may take of what is seen of it
    /// anyway, so it is three times as many at the worst. Who has little is always compared, and who has much that is ours.
    pub fn new(most: usize, clusters: usize) -> Self {
        Self { most, clusters, taken: AtomicUsize::new(0) }
    }

    /// For a cluster that has so many bytes of its own.
    fn reserve(&self, own: usize) -> ScanReservation<'_> {
        ScanReservation { budget: self, own: own.max(self.most / self.clusters.max(1)), bytes: 0 }
    }
}

/// What one look keeps.
#[derive(Debug)]
struct ScanReservation<'a> {
    budget: &'a ScanBudget,
    /// So many it may keep although others have taken all the room.
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

    /// What it has now is kept beyond the look.
    fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for ScanReservation<'_> {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

/// Whether a cluster can be looked at, so that nothing appears in it afterwards that was decided before. The error says
/// why not.
pub async fn wait_until_ready(cx: &Context, member: &Member) -> Result<(), String> {
    if member.reach() != Reach::Reachable {
        return Err("it does not answer".to_owned());
    }
    // Passes that began before may decide from an older view of our objects.
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

/// Everything of a cluster that may concern us. The error says why it could not be looked at.
pub async fn scan_cluster(
    cx: &Context,
    member: &Arc<Member>,
    survey: &ProjectSurvey,
    keyring: &Keyring,
    budget: &ScanBudget,
) -> Result<ClusterScan, String> {
    let mut scanned = ClusterScan::default();
    let mut reservation = budget.reserve(member.observed.weight() / SCAN_BUDGET_DIVISOR);
    // Of those that are marked the seal, by namespace.
    let mut quotas: HashMap<String, Option<String>> = HashMap::new();
    for_each_metadata::<ResourceQuota>(member, |metadata| {
        let marks = Marks::of(&metadata);
        scanned.keys.extend(key_of(&marks, keyring));
        if metadata.name == metadata.namespace
            && is_marked(&marks)
            && let Some(namespace) = metadata.namespace
        {
            let seal = marks.seal.filter(|text| may_be_of(keyring, member, &namespace, text));
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
        scanned.keys.extend(key_of(&marks, keyring));
        let name = metadata.name.unwrap_or_default();
        let uid = metadata.uid.unwrap_or_default();
        let quota = quotas.remove(&name);
        if !is_marked(&marks) && quota.is_none() && !is_awaited(&name) {
            return Ok(());
        }
        if let Some(seal) = &quota {
            reservation.release(of_quota(&name, seal.as_deref()));
        }
        let mark = marks.uid.map(|mark| if mark.len() > UID_MAX { String::new() } else { mark });
        let mut kept = weight::texts([&name, &uid].into_iter().chain(&mark));
        let mut seals = Vec::new();
        // What does not open takes no room: anybody can write it.
        for text in [marks.seal, quota.flatten()].into_iter().flatten() {
            if let Some(opened) = open(keyring, member, &name, &uid, &text) {
                kept = kept.saturating_add(weight::texts([&text]));
                seals.push(opened);
            }
        }
        let namespace_scan = ScannedNamespace { member: Arc::clone(member), name, uid, mark, seals };
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

/// What is kept of a quota until its namespace is looked at.
fn of_quota(namespace: &str, seal: Option<&str>) -> usize {
    weight::texts([namespace].into_iter().chain(seal))
}

/// Names of a cluster's namespaces that imported objects will take over.
fn imported_in(cx: &Context, cluster: &str) -> HashSet<String> {
    let objects = cx.objects.namespaces.in_cluster(cluster);
    let imported = objects.iter().filter(|object| object.status.is_imported());
    imported.map(|object| object.spec.namespace.clone()).collect()
}

/// A seal that was made for this very namespace. One that was made before the namespace was proves nothing here: it
/// could be copied from a former one.
pub fn open(keyring: &Keyring, member: &Member, name: &str, uid: &str, text: &str) -> Option<VerifiedSeal> {
    let opened = keyring.open(text)?;
    let holds = opened.sealed.namespace_uid.is_some() && opened.sealed.is_of(&member.uid, name, uid);
    holds.then_some(opened)
}

/// Whether it is a seal of ours for a namespace of this name. Which one of that name is not known while its quota is looked at.
fn may_be_of(keyring: &Keyring, member: &Member, namespace: &str, text: &str) -> bool {
    let opened = keyring.open(text);
    opened.is_some_and(|VerifiedSeal { sealed, .. }| {
        sealed.cluster == member.uid && sealed.namespace == namespace
    })
}

/// Labels alone make nobody ours: a namespace that has only them can be adopted.
fn is_marked(marks: &Marks) -> bool {
    marks.uid.is_some() || marks.seal.is_some()
}

/// Anybody can write that a seal has another key.
fn key_of(marks: &Marks, keyring: &Keyring) -> Option<String> {
    let id = marks.seal.as_deref().and_then(key_id).filter(|id| keyring.has(id));
    id.map(str::to_owned)
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
