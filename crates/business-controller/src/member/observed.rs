//! What is seen of a member cluster.

use super::binding::ClusterBinding;
use super::counting::{Counted, Countings};
use super::first_list::FirstList;
use super::namespace::ClusterNamespace;
use super::others::{OtherAccess, OtherBinding, OtherBindings};
use super::pull_objects::PullObjects;
use super::quota::ClusterQuota;
use super::sights::{ListEnd, Sights};
use super::template_objects::TemplateObjects;
use super::weight;
use crate::error::ListFailure;
use business_types::access::AccessRole;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

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
        inner.namespaces.is_synced() && inner.quotas.is_synced()
    }

    /// Whether every list has ended, or is of what we may not see; those of pull secrets where there are any.
    pub fn is_listed_whole(&self, has_pulls: bool) -> bool {
        let bindings = {
            let inner = self.read();
            inner.bindings.is_synced() || inner.bindings_list.is_forbidden()
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
        self.read().namespaces.highest()
    }

    /// The namespace and its quota.
    pub fn at(&self, name: &str) -> (Option<Arc<ClusterNamespace>>, Option<Arc<ClusterQuota>>) {
        let inner = self.read();
        (inner.namespaces.get(name).cloned(), inner.quotas.get(name).cloned())
    }

    /// A list of namespaces begins.
    pub fn namespaces_begin(&self) {
        self.write().namespaces.begin_list();
    }

    /// A list of quotas begins.
    pub fn quotas_begin(&self) {
        self.write().quotas.begin_list();
    }

    /// A list of namespaces has ended.
    pub fn namespaces_end(&self) -> ListEnd {
        self.write().namespaces.end_list()
    }

    /// A list of quotas has ended.
    pub fn quotas_end(&self) -> ListEnd {
        let mut inner = self.write();
        let end = inner.quotas.end_list();
        let ObservedInner { quotas, countings, .. } = &mut *inner;
        countings.retain(|namespace| quotas.get(namespace).is_some());
        end
    }

    /// A namespace as it is; whether that is news.
    pub fn namespace(&self, object: ClusterNamespace, by_watch: bool) -> bool {
        let name = object.name.clone();
        self.write().namespaces.upsert(&name, object, by_watch)
    }

    /// A namespace is gone, or has lost its label.
    pub fn namespace_gone(&self, object: &ClusterNamespace) {
        self.write().namespaces.remove(&object.name, object);
    }

    /// The quota of a namespace as it is; what is new about it.
    pub fn quota(&self, namespace: &str, object: ClusterQuota, by_watch: bool) -> Concern {
        let mut inner = self.write();
        let mut concern = match inner.quotas.get(namespace) {
            Some(old) if old.differs_in_use_only(&object) => Concern::Figures,
            _ => Concern::State,
        };
        let told = by_watch.then(|| object.clone());
        let mut is_news = inner.quotas.upsert(namespace, object, by_watch);
        if let Some(told) = told {
            let ObservedInner { quotas, countings, .. } = &mut *inner;
            // As a rule it is the one that is kept anyway.
            let told = match quotas.get(namespace) {
                Some(held) if **held == told => Arc::clone(held),
                _ => Arc::new(told),
            };
            // An answer to a write of ours may have said it before, but only the watch says what was before it.
            if countings.told(namespace, told, quotas.is_being_listed(), self.recount) {
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
        inner.quotas.remove(namespace, object);
        inner.countings.forget(namespace);
    }

    /// The bindings of a namespace.
    pub fn bindings_at(&self, namespace: &str) -> SeenBindings {
        let inner = self.read();
        if !inner.bindings.is_synced() {
            return SeenBindings::Unlisted(inner.bindings_list.failure());
        }
        let held = |role| inner.bindings.get(&binding_key(namespace, role)).cloned();
        SeenBindings::Listed(
            AccessRole::ALL.into_iter().filter_map(|role| Some((role, held(role)?))).collect(),
        )
    }

    /// A list of bindings begins.
    pub fn bindings_begin(&self) {
        let mut inner = self.write();
        inner.bindings_list.begins();
        inner.bindings.begin_list();
        inner.others.begin_list();
    }

    /// A list of bindings has ended.
    pub fn bindings_end(&self) -> ListEnd {
        let mut inner = self.write();
        inner.others.end_list();
        inner.bindings_list.ends();
        inner.bindings.end_list()
    }

    /// Whether the first list of bindings is waited for no more from now on, although nothing has failed.
    pub fn bindings_became_late(&self) -> bool {
        let mut inner = self.write();
        !inner.bindings.is_synced() && inner.bindings_list.became_late()
    }

    /// Bindings cannot be listed; whether that is news.
    pub fn bindings_failed(&self, error: &ListFailure) -> bool {
        let mut inner = self.write();
        !inner.bindings.is_synced() && inner.bindings_list.fails(error)
    }

    /// A binding as it is; whether that is news.
    pub fn binding(&self, namespace: &str, object: ClusterBinding, by_watch: bool) -> bool {
        let key = binding_key(namespace, object.role);
        self.write().bindings.upsert(&key, object, by_watch)
    }

    /// A binding that may not be one of ours, as it is; `None` when it is gone. Whether that is news.
    pub fn other_binding(&self, namespace: &str, name: &str, binding: Option<OtherBinding>) -> bool {
        self.write().others.saw(namespace, name, binding)
    }

    /// The bindings of a namespace that were not made for the object of this uid; `None` before they were listed.
    pub fn others_at(&self, namespace: &str, uid: &str) -> Option<OtherAccess> {
        let inner = self.read();
        inner.bindings.is_synced().then(|| inner.others.at(namespace, uid))
    }

    /// A binding is gone.
    pub fn binding_gone(&self, namespace: &str, object: &ClusterBinding) {
        self.write().bindings.remove(&binding_key(namespace, object.role), object);
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
