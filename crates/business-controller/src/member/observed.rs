//! Namespaces, quotas and bindings of a member cluster, trimmed to what is decided from.

use super::counting::{Counted, Countings};
use super::dressing::Dressing;
use super::first_list::FirstList;
use super::others::{OtherAccess, OtherBinding, OtherBindings};
use super::pull_objects::PullObjects;
use super::template_objects::TemplateObjects;
use super::weight;
use crate::digest;
use crate::error::ListFailure;
use crate::kinds::revision;
use business_types::access::AccessRole;
use business_types::names;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use meta::field::shortened;
use meta::quantity::ResourceList;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// What is kept of a namespace that is going: so many messages of its conditions, and so many bytes of each. They name what tenants
/// have put there.
const REMAINING_MAX: usize = 8;
const REMAINING_TEXT_MAX: usize = 256;

/// Bytes of a uid, of which Kubernetes makes 36: what is longer is none.
pub const UID_MAX: usize = 64;

/// Marks of ours on an object in a member cluster. Anybody may have written them: only a seal that holds says anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Label: the project.
    pub project: Option<String>,
    /// Label: the business namespace.
    pub namespace: Option<String>,
    /// Annotation: uid of the business namespace.
    pub uid: Option<String>,
    /// Annotation: it was not made by us.
    pub adopted: bool,
    /// Annotation: the seal, unproved.
    pub seal: Option<String>,
}

impl Marks {
    pub fn of(metadata: &ObjectMeta) -> Self {
        let label = |key: &str| metadata.labels.as_ref().and_then(|all| all.get(key)).cloned();
        Self {
            project: label(names::PROJECT_LABEL),
            namespace: label(names::NAMESPACE_LABEL),
            uid: annotation(metadata, names::UID_ANNOTATION),
            adopted: annotation(metadata, names::ADOPTED_ANNOTATION).is_some(),
            seal: annotation(metadata, names::SEAL_ANNOTATION),
        }
    }

    fn weight(&self) -> usize {
        let Self { project, namespace, uid, adopted: _, seal } = self;
        weight::texts([project, namespace, uid, seal].into_iter().flatten())
    }
}

/// A namespace in a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNamespace {
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// `metadata.creationTimestamp`, in seconds since 1970.
    pub created: i64,
    pub marks: Marks,
    /// What of it a template has set.
    pub dressing: Dressing,
    /// Consent to its adoption: `<project>/<name>`.
    pub adopt: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// What holds its deletion up, as its own conditions say.
    pub remaining: Vec<String>,
}

/// A `ResourceQuota` in a member cluster, named like its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterQuota {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    pub marks: Marks,
    /// `spec.hard`
    pub spec_hard: ResourceList,
    /// `status.hard`: what admission counts with.
    pub status_hard: ResourceList,
    /// `status.used`
    pub status_used: ResourceList,
    /// It counts only some objects.
    pub scoped: bool,
    /// It is being deleted.
    pub deleting: bool,
}

/// The API group of roles and of those whom they are given to.
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// A `RoleBinding` in a member cluster that is named like one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterBinding {
    /// What its name says.
    pub role: AccessRole,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    pub marks: Marks,
    /// Whether its `roleRef`, which never changes, is the role that its name says.
    pub binds_its_role: bool,
    pub named: Named,
    /// It is being deleted.
    pub deleting: bool,
}

/// Whom a binding names, as far as it is kept: there may be thousands, in each namespace of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    count: usize,
    digest: String,
}

impl Named {
    pub fn of(grantees: &BTreeSet<Grantee>) -> Self {
        Self { count: grantees.len(), digest: digest::of(grantees) }
    }

    /// Whether it is exactly these.
    pub fn is(&self, grantees: &BTreeSet<Grantee>) -> bool {
        self.count == grantees.len() && *self == Self::of(grantees)
    }

    pub fn is_nobody(&self) -> bool {
        self.count == 0
    }
}

/// Somebody whom a binding names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Grantee {
    User(String),
    Group(String),
    ServiceAccount {
        namespace: String,
        name: String,
    },
    /// What we never write.
    Other,
}

impl From<Subject> for Grantee {
    fn from(subject: Subject) -> Self {
        let Subject { api_group, kind, name, namespace } = subject;
        match (kind.as_str(), api_group.as_deref(), namespace) {
            ("User", Some(RBAC), None) => Self::User(name),
            ("Group", Some(RBAC), None) => Self::Group(name),
            ("ServiceAccount", None | Some(""), Some(namespace)) => Self::ServiceAccount { namespace, name },
            _ => Self::Other,
        }
    }
}

/// Whom a binding names.
pub fn grantees(subjects: Option<Vec<Subject>>) -> BTreeSet<Grantee> {
    subjects.unwrap_or_default().into_iter().map(Grantee::from).collect()
}

impl ClusterBinding {
    /// `None` for one that is not named like ours.
    pub fn of(binding: RoleBinding) -> Option<Self> {
        let RoleBinding { metadata, role_ref, subjects } = binding;
        let role = AccessRole::of_name(metadata.name.as_deref()?)?;
        let RoleRef { api_group, kind, name } = role_ref;
        Some(Self {
            role,
            marks: Marks::of(&metadata),
            binds_its_role: api_group.as_deref() == Some(RBAC)
                && kind == "ClusterRole"
                && name == role.name(),
            named: Named::of(&grantees(subjects)),
            deleting: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        })
    }
}

impl From<Namespace> for ClusterNamespace {
    fn from(namespace: Namespace) -> Self {
        let metadata = namespace.metadata;
        let conditions = namespace.status.and_then(|status| status.conditions).unwrap_or_default();
        let remaining = conditions.into_iter().filter(|condition| condition.status == "True");
        let remaining = remaining
            .take(REMAINING_MAX)
            .map(|condition| shortened(&condition.message.unwrap_or(condition.type_), REMAINING_TEXT_MAX));
        Self {
            marks: Marks::of(&metadata),
            dressing: Dressing::of(&metadata),
            adopt: annotation(&metadata, names::ADOPT_ANNOTATION),
            created: metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            deleting: metadata.deletion_timestamp.is_some(),
            remaining: remaining.collect(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }
}

impl From<ResourceQuota> for ClusterQuota {
    fn from(quota: ResourceQuota) -> Self {
        let metadata = quota.metadata;
        let spec = quota.spec.unwrap_or_default();
        let status = quota.status.unwrap_or_default();
        Self {
            marks: Marks::of(&metadata),
            spec_hard: amounts(spec.hard),
            status_hard: amounts(status.hard),
            status_used: amounts(status.used),
            scoped: spec.scopes.is_some_and(|all| !all.is_empty()) || spec.scope_selector.is_some(),
            deleting: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }
}

impl ClusterQuota {
    /// Whether nothing but how much is in use is new.
    fn differs_in_use_only(&self, new: &Self) -> bool {
        let with_new_use = Self {
            status_used: new.status_used.clone(),
            resource_version: new.resource_version.clone(),
            ..self.clone()
        };
        self.status_used.is_empty() == new.status_used.is_empty() && with_new_use == *new
    }
}

fn annotation(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned()
}

/// Amounts that a Kubernetes API server has accepted. One that cannot be read is left out, so that the list
/// equals nothing that was written.
fn amounts(texts: Option<BTreeMap<String, Text>>) -> ResourceList {
    let texts = texts.unwrap_or_default();
    texts.into_iter().filter_map(|(key, Text(text))| Some((key, text.parse().ok()?))).collect()
}

/// What is seen of one kind, by name of the namespace, or by `NAMESPACE/NAME`.
#[derive(Debug)]
pub(super) struct Sights<V> {
    objects: BTreeMap<String, Arc<V>>,
    /// Of all of them, with their names.
    weight: usize,
    delivered: u64,
    /// The highest revision since the last list began: no history that has come less far is the one that was seen.
    highest: u64,
    listed: Option<HashSet<String>>,
    synced: bool,
}

impl<V> Default for Sights<V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), weight: 0, delivered: 0, highest: 0, listed: None, synced: false }
    }
}

/// Something of a member cluster that is kept by the name of its namespace.
pub trait Versioned: Clone + PartialEq {
    /// `metadata.resourceVersion`
    fn resource_version(&self) -> &str;

    /// About how many bytes it takes: whoever rules a cluster chooses how long its texts are.
    fn weight(&self) -> usize;
}

impl Versioned for ClusterNamespace {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        let texts = [&self.name, &self.uid, &self.resource_version];
        weight::of(self)
            .saturating_add(weight::texts(texts.into_iter().chain(&self.adopt).chain(&self.remaining)))
            .saturating_add(self.marks.weight())
            .saturating_add(self.dressing.weight())
    }
}

impl Versioned for ClusterQuota {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        let amounts = [&self.spec_hard, &self.status_hard, &self.status_used];
        weight::of(self)
            .saturating_add(weight::texts([&self.uid, &self.resource_version]))
            .saturating_add(weight::texts(amounts.into_iter().flat_map(BTreeMap::keys)))
            .saturating_add(self.marks.weight())
    }
}

impl Versioned for ClusterBinding {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        weight::of(self)
            .saturating_add(weight::texts([&self.uid, &self.resource_version, &self.named.digest]))
            .saturating_add(self.marks.weight())
    }
}

/// What an object takes with its name, which is kept twice while it is listed.
fn weight_of<V: Versioned>(name: &str, object: &V) -> usize {
    weight::texts([name, name]).saturating_add(object.weight())
}

impl<V: Versioned> Sights<V> {
    /// About how many bytes all of it takes.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(super) fn list_begins(&mut self) {
        self.highest = 0;
        self.listed = Some(HashSet::new());
    }

    /// What lies in a namespace.
    pub(super) fn within(&self, namespace: &str) -> Vec<Arc<V>> {
        let prefix = format!("{namespace}/");
        let from = self.objects.range(prefix.clone()..);
        from.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Whether `object` is news. Between the beginning and the end of a list the watch tells nothing but the list.
    pub(super) fn seen(&mut self, name: &str, object: V, by_watch: bool) -> bool {
        let incoming = revision(object.resource_version());
        self.highest = self.highest.max(incoming);
        let is_listed = by_watch && self.listed.is_some();
        if by_watch {
            self.delivered = self.delivered.max(incoming);
            if let Some(listed) = self.listed.as_mut() {
                listed.insert(name.to_owned());
            }
        } else if incoming <= self.delivered || self.is_in_list(name) {
            return false;
        }
        let is_old = |held: &V| {
            // A list counts as it is: the cluster may have been restored, and then its revisions went back. Answers to own
            // writes wait until they have come as far again; the watch tells the same.
            if is_listed { *held == object } else { revision(held.resource_version()) >= incoming }
        };
        if self.objects.get(name).is_some_and(|held| is_old(held)) {
            return false;
        }
        self.weight = self.weight.saturating_add(weight_of(name, &object));
        if let Some(before) = self.objects.insert(name.to_owned(), Arc::new(object)) {
            self.weight = self.weight.saturating_sub(weight_of(name, &*before));
        }
        true
    }

    /// The list that is under way has told of it. What an own write has changed since, the watch tells.
    fn is_in_list(&self, name: &str) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.contains(name))
    }

    pub(super) fn gone(&mut self, name: &str, object: &V) {
        let gone_at = revision(object.resource_version());
        self.delivered = self.delivered.max(gone_at);
        self.highest = self.highest.max(gone_at);
        if let Some(before) = self.objects.remove(name) {
            self.weight = self.weight.saturating_sub(weight_of(name, &*before));
        }
    }

    /// What was not in the list is gone.
    pub(super) fn list_ends(&mut self) -> ListEnd {
        let is_first = !std::mem::replace(&mut self.synced, true);
        let Some(listed) = self.listed.take() else { return ListEnd { is_first, gone: BTreeSet::new() } };
        let gone = self.objects.keys().filter(|key| !listed.contains(*key));
        let namespace = |key: &String| key.split_once('/').map_or(key.as_str(), |(name, _)| name).to_owned();
        let gone = gone.map(namespace).collect();
        self.objects.retain(|key, _| listed.contains(key));
        self.weight = weight::sum(self.objects.iter().map(|(key, object)| weight_of(key, &**object)));
        ListEnd { is_first, gone }
    }
}

/// What the end of a list tells.
#[derive(Debug, PartialEq, Eq)]
pub struct ListEnd {
    /// It is the first one since the cluster was connected to.
    pub is_first: bool,
    /// The namespaces of what is there no more.
    pub gone: BTreeSet<String>,
}

/// What is seen of a member cluster by its watches, brought forward by the answers to own writes.
#[derive(Debug)]
pub struct Observed {
    /// Within this time the cluster counts everything anew.
    recount: Duration,
    inner: RwLock<ObservedInner>,
    /// What templates have put there.
    pub templates: TemplateObjects,
    /// Their pull secrets.
    pub pulls: PullObjects,
}

#[derive(Debug, Default)]
struct ObservedInner {
    namespaces: Sights<ClusterNamespace>,
    quotas: Sights<ClusterQuota>,
    countings: Countings,
    /// By [`binding_key`].
    bindings: Sights<ClusterBinding>,
    others: OtherBindings,
    bindings_list: FirstList,
}

/// The bindings of a namespace, as far as they are known.
#[derive(Clone, Debug)]
pub enum SeenBindings {
    /// They were not listed yet; if that has failed, why.
    Unlisted(Option<ListFailure>),
    Listed(BTreeMap<AccessRole, Arc<ClusterBinding>>),
}

fn binding_key(namespace: &str, role: AccessRole) -> String {
    format!("{namespace}/{}", role.name())
}

/// What a change of a quota means for its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// Nothing new.
    Nothing,
    /// Only figures of use.
    Figures,
    /// Anything else.
    State,
}

impl Observed {
    /// Nothing is seen yet of a cluster that counts use again within this time.
    pub fn new(recount: Duration) -> Self {
        Self {
            recount,
            inner: RwLock::default(),
            templates: TemplateObjects::default(),
            pulls: PullObjects::default(),
        }
    }

    /// Whether namespaces and quotas were listed since the cluster was last connected to. Nothing waits for bindings: we
    /// may not have the right to see them.
    pub fn is_synced(&self) -> bool {
        let inner = self.read();
        inner.namespaces.synced && inner.quotas.synced
    }

    /// Whether every list has ended, or is of what we may not see; those of pull secrets where there are any.
    pub fn is_listed_whole(&self, has_pulls: bool) -> bool {
        let bindings = {
            let inner = self.read();
            inner.bindings.synced || inner.bindings_list.is_forbidden()
        };
        let pulls = !has_pulls || self.pulls.are_listed();
        self.is_synced() && bindings && pulls && self.templates.are_listed()
    }

    /// Forgets everything: the cluster is connected to anew, and its revisions may have gone back.
    pub fn reset(&self) {
        *self.write() = ObservedInner::default();
        self.templates.reset();
        self.pulls.reset();
    }

    /// The same, but that the watch of quotas goes on where it was.
    #[cfg(test)]
    pub fn reset_but_countings(&self) {
        let countings = std::mem::take(&mut self.write().countings);
        self.reset();
        self.write().countings = countings;
    }

    /// About how many bytes all that is seen takes.
    pub fn weight(&self) -> usize {
        let inner = self.read();
        let ObservedInner { namespaces, quotas, countings, bindings, others, bindings_list: _ } = &*inner;
        let quotas = quotas.weight().saturating_add(countings.weight());
        let own = [namespaces.weight(), quotas, bindings.weight(), others.weight()];
        weight::sum(own.into_iter().chain([self.templates.weight(), self.pulls.weight()]))
    }

    /// The highest revision at which a namespace was seen since the last list of them began.
    pub fn highest_of_namespaces(&self) -> u64 {
        self.read().namespaces.highest
    }

    /// The namespace and its quota.
    pub fn at(&self, name: &str) -> (Option<Arc<ClusterNamespace>>, Option<Arc<ClusterQuota>>) {
        let inner = self.read();
        (inner.namespaces.objects.get(name).cloned(), inner.quotas.objects.get(name).cloned())
    }

    /// A list of namespaces begins.
    pub fn namespaces_begin(&self) {
        self.write().namespaces.list_begins();
    }

    /// A list of quotas begins.
    pub fn quotas_begin(&self) {
        self.write().quotas.list_begins();
    }

    /// A list of namespaces has ended.
    pub fn namespaces_end(&self) -> ListEnd {
        self.write().namespaces.list_ends()
    }

    /// A list of quotas has ended.
    pub fn quotas_end(&self) -> ListEnd {
        let mut inner = self.write();
        let end = inner.quotas.list_ends();
        let ObservedInner { quotas, countings, .. } = &mut *inner;
        countings.retain(|namespace| quotas.objects.contains_key(namespace));
        end
    }

    /// A namespace as it is; whether that is news.
    pub fn namespace(&self, object: ClusterNamespace, by_watch: bool) -> bool {
        let name = object.name.clone();
        self.write().namespaces.seen(&name, object, by_watch)
    }

    /// A namespace is gone, or has lost its label.
    pub fn namespace_gone(&self, object: &ClusterNamespace) {
        self.write().namespaces.gone(&object.name, object);
    }

    /// The quota of a namespace as it is; what is new about it.
    pub fn quota(&self, namespace: &str, object: ClusterQuota, by_watch: bool) -> Concern {
        let mut inner = self.write();
        let mut concern = match inner.quotas.objects.get(namespace) {
            Some(old) if old.differs_in_use_only(&object) => Concern::Figures,
            _ => Concern::State,
        };
        let told = by_watch.then(|| object.clone());
        let mut is_news = inner.quotas.seen(namespace, object, by_watch);
        if let Some(told) = told {
            let ObservedInner { quotas, countings, .. } = &mut *inner;
            // As a rule it is the one that is kept anyway.
            let told = match quotas.objects.get(namespace) {
                Some(held) if **held == told => Arc::clone(held),
                _ => Arc::new(told),
            };
            // An answer to a write of ours may have said it before, but only the watch says what was before it.
            if countings.told(namespace, told, quotas.listed.is_some(), self.recount) {
                (is_news, concern) = (true, Concern::State);
            }
        }
        if is_news { concern } else { Concern::Nothing }
    }

    /// How far the use that this version of the quota of a namespace shows is to be believed.
    pub fn counted(&self, namespace: &str, quota: &ClusterQuota) -> Counted {
        self.read().countings.of(namespace, quota, self.recount)
    }

    /// The same, where more stays charged for that: the watch's word of this version is news then.
    pub fn counted_awaited(&self, namespace: &str, quota: &ClusterQuota) -> Counted {
        self.write().countings.awaited(namespace, quota, self.recount)
    }

    /// The quota of a namespace is gone, or has lost its label.
    pub fn quota_gone(&self, namespace: &str, object: &ClusterQuota) {
        let mut inner = self.write();
        inner.quotas.gone(namespace, object);
        inner.countings.forget(namespace);
    }

    /// The bindings of a namespace.
    pub fn bindings_at(&self, namespace: &str) -> SeenBindings {
        let inner = self.read();
        if !inner.bindings.synced {
            return SeenBindings::Unlisted(inner.bindings_list.failure());
        }
        let held = |role| inner.bindings.objects.get(&binding_key(namespace, role)).cloned();
        SeenBindings::Listed(
            AccessRole::ALL.into_iter().filter_map(|role| Some((role, held(role)?))).collect(),
        )
    }

    /// A list of bindings begins.
    pub fn bindings_begin(&self) {
        let mut inner = self.write();
        inner.bindings_list.begins();
        inner.bindings.list_begins();
        inner.others.list_begins();
    }

    /// A list of bindings has ended.
    pub fn bindings_end(&self) -> ListEnd {
        let mut inner = self.write();
        inner.others.list_ends();
        inner.bindings_list.ends();
        inner.bindings.list_ends()
    }

    /// Whether the first list of bindings is waited for no more from now on, although nothing has failed.
    pub fn bindings_became_late(&self) -> bool {
        let mut inner = self.write();
        !inner.bindings.synced && inner.bindings_list.became_late()
    }

    /// Bindings cannot be listed; whether that is news.
    pub fn bindings_failed(&self, error: &ListFailure) -> bool {
        let mut inner = self.write();
        !inner.bindings.synced && inner.bindings_list.fails(error)
    }

    /// A binding as it is; whether that is news.
    pub fn binding(&self, namespace: &str, object: ClusterBinding, by_watch: bool) -> bool {
        let key = binding_key(namespace, object.role);
        self.write().bindings.seen(&key, object, by_watch)
    }

    /// A binding that may not be one of ours, as it is; `None` when it is gone. Whether that is news.
    pub fn other_binding(&self, namespace: &str, name: &str, binding: Option<OtherBinding>) -> bool {
        self.write().others.saw(namespace, name, binding)
    }

    /// The bindings of a namespace that were not made for the object of this uid; `None` before they were listed.
    pub fn others_at(&self, namespace: &str, uid: &str) -> Option<OtherAccess> {
        let inner = self.read();
        inner.bindings.synced.then(|| inner.others.at(namespace, uid))
    }

    /// A binding is gone.
    pub fn binding_gone(&self, namespace: &str, object: &ClusterBinding) {
        self.write().bindings.gone(&binding_key(namespace, object.role), object);
    }

    fn read(&self) -> RwLockReadGuard<'_, ObservedInner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ObservedInner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
