//! The cache of a member cluster.

use super::binding::ClusterBinding;
use super::initial_list::InitialList;
use super::namespace::ClusterNamespace;
use super::others::{OtherAccess, OtherBinding, OtherBindings};
use super::pull_objects::PullObjects;
use super::quota::ClusterQuota;
use super::recount::{QuotaHistories, UsageRecount};
use super::template_objects::TemplateObjects;
use super::watch_store::{ListEnd, UpdateSource, WatchStore};
use super::weight;
use crate::error::ListFailure;
use business_types::access::AccessRole;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// The cache of a member cluster: filled by its watches, and brought forward by the answers to our own writes.
#[derive(Debug)]
pub struct Observed {
    /// Within this time the cluster has recounted its quotas.
    recount: Duration,
    inner: RwLock<ObservedInner>,
    /// Objects that templates have created.
    pub templates: TemplateObjects,
    /// Pull secrets, and the service accounts that use them.
    pub pulls: PullObjects,
}

#[derive(Debug, Default)]
struct ObservedInner {
    namespaces: WatchStore<ClusterNamespace>,
    quotas: WatchStore<ClusterQuota>,
    histories: QuotaHistories,
    /// By [`binding_key`].
    bindings: WatchStore<ClusterBinding>,
    others: OtherBindings,
    bindings_list: InitialList,
}

/// The role bindings of a namespace that are named like ours.
#[derive(Clone, Debug)]
pub enum NamespaceBindings {
    /// They were not listed yet. If the list has failed, why.
    NotListed(Option<ListFailure>),
    Listed(BTreeMap<AccessRole, Arc<ClusterBinding>>),
}

fn binding_key(namespace: &str, role: AccessRole) -> String {
    format!("{namespace}/{}", role.name())
}

/// What has changed in a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaChange {
    /// Nothing.
    None,
    /// Only the usage.
    UsageOnly,
    /// Anything else.
    State,
}

impl Observed {
    /// An empty cache of a cluster that recounts its quotas within `recount`.
    pub fn new(recount: Duration) -> Self {
        Self {
            recount,
            inner: RwLock::default(),
            templates: TemplateObjects::default(),
            pulls: PullObjects::default(),
        }
    }

    /// Whether namespaces and quotas were listed since the cluster was connected to. Role bindings are optional: we may
    /// have no right to list them.
    pub fn is_synced(&self) -> bool {
        let inner = self.read();
        inner.namespaces.is_synced() && inner.quotas.is_synced()
    }

    /// Whether every list has ended or is forbidden; those of pull secrets count only with `has_pulls`.
    pub fn is_fully_listed(&self, has_pulls: bool) -> bool {
        let bindings = {
            let inner = self.read();
            inner.bindings.is_synced() || inner.bindings_list.is_forbidden()
        };
        let pulls = !has_pulls || self.pulls.are_listed();
        self.is_synced() && bindings && pulls && self.templates.are_listed()
    }

    /// Clears the cache: the cluster is connected to again, and its revisions may have gone back.
    pub fn reset(&self) {
        *self.write() = ObservedInner::default();
        self.templates.reset();
        self.pulls.reset();
    }

    /// The same, but as if the watch of quotas had not been interrupted.
    #[cfg(test)]
    pub fn reset_except_histories(&self) {
        let histories = std::mem::take(&mut self.write().histories);
        self.reset();
        self.write().histories = histories;
    }

    /// The estimated bytes of the cache.
    pub fn weight(&self) -> usize {
        let inner = self.read();
        let ObservedInner { namespaces, quotas, histories, bindings, others, bindings_list: _ } = &*inner;
        let quotas = quotas.weight().saturating_add(histories.weight());
        let own = [namespaces.weight(), quotas, bindings.weight(), others.weight()];
        weight::sum(own.into_iter().chain([self.templates.weight(), self.pulls.weight()]))
    }

    /// The highest revision of a namespace that was seen since the last list of namespaces began.
    pub fn highest_namespace_revision(&self) -> u64 {
        self.read().namespaces.highest()
    }

    /// The namespace and its quota.
    pub fn at(&self, name: &str) -> (Option<Arc<ClusterNamespace>>, Option<Arc<ClusterQuota>>) {
        let inner = self.read();
        (inner.namespaces.get(name).cloned(), inner.quotas.get(name).cloned())
    }

    /// Begins a list of namespaces.
    pub fn begin_namespace_list(&self) {
        self.write().namespaces.begin_list();
    }

    /// Begins a list of quotas.
    pub fn begin_quota_list(&self) {
        self.write().quotas.begin_list();
    }

    /// Ends a list of namespaces.
    pub fn end_namespace_list(&self) -> ListEnd {
        self.write().namespaces.end_list()
    }

    /// Ends a list of quotas.
    pub fn end_quota_list(&self) -> ListEnd {
        let mut inner = self.write();
        let end = inner.quotas.end_list();
        let ObservedInner { quotas, histories, .. } = &mut *inner;
        histories.retain(|namespace| quotas.get(namespace).is_some());
        end
    }

    /// Stores a namespace. Returns whether it is new or changed.
    pub fn upsert_namespace(&self, object: ClusterNamespace, source: UpdateSource) -> bool {
        let name = object.name.clone();
        self.write().namespaces.upsert(&name, object, source)
    }

    /// Removes a namespace that is gone, or has lost its label.
    pub fn remove_namespace(&self, object: &ClusterNamespace) {
        self.write().namespaces.remove(&object.name, object);
    }

    /// Stores the quota of a namespace. Returns what has changed.
    pub fn upsert_quota(&self, namespace: &str, object: ClusterQuota, source: UpdateSource) -> QuotaChange {
        let mut inner = self.write();
        let mut change = match inner.quotas.get(namespace) {
            Some(old) if old.differs_in_use_only(&object) => QuotaChange::UsageOnly,
            _ => QuotaChange::State,
        };
        let told = (source == UpdateSource::Watch).then(|| object.clone());
        let mut is_news = inner.quotas.upsert(namespace, object, source);
        if let Some(told) = told {
            let ObservedInner { quotas, histories, .. } = &mut *inner;
            // Usually it is the one that is stored anyway.
            let told = match quotas.get(namespace) {
                Some(held) if **held == told => Arc::clone(held),
                _ => Arc::new(told),
            };
            // The answer to our own write may have brought the same version, but only the watch shows what was before
            // it.
            if histories.observe(namespace, told, quotas.is_being_listed(), self.recount) {
                (is_news, change) = (true, QuotaChange::State);
            }
        }
        if is_news { change } else { QuotaChange::None }
    }

    /// Whether the usage in this version of the quota was recounted.
    pub fn usage_recount(&self, namespace: &str, quota: &ClusterQuota) -> UsageRecount {
        self.read().histories.recount_of(namespace, quota, self.recount)
    }

    /// The same for a caller that charges more until then: the watch's delivery of this version counts as a change.
    pub fn usage_recount_awaited(&self, namespace: &str, quota: &ClusterQuota) -> UsageRecount {
        self.write().histories.recount_awaited(namespace, quota, self.recount)
    }

    /// Removes the quota of a namespace that is gone, or has lost its label.
    pub fn remove_quota(&self, namespace: &str, object: &ClusterQuota) {
        let mut inner = self.write();
        inner.quotas.remove(namespace, object);
        inner.histories.forget(namespace);
    }

    /// The role bindings of a namespace that are named like ours.
    pub fn bindings_at(&self, namespace: &str) -> NamespaceBindings {
        let inner = self.read();
        if !inner.bindings.is_synced() {
            return NamespaceBindings::NotListed(inner.bindings_list.failure());
        }
        let held = |role| inner.bindings.get(&binding_key(namespace, role)).cloned();
        NamespaceBindings::Listed(
            AccessRole::ALL.into_iter().filter_map(|role| Some((role, held(role)?))).collect(),
        )
    }

    /// Begins a list of role bindings.
    pub fn begin_binding_list(&self) {
        let mut inner = self.write();
        inner.bindings_list.begin();
        inner.bindings.begin_list();
        inner.others.begin_list();
    }

    /// Ends a list of role bindings.
    pub fn end_binding_list(&self) -> ListEnd {
        let mut inner = self.write();
        inner.others.end_list();
        inner.bindings_list.end();
        inner.bindings.end_list()
    }

    /// Whether the first list of role bindings has become overdue without a failure. Returns `true` once.
    pub fn binding_list_became_overdue(&self) -> bool {
        let mut inner = self.write();
        !inner.bindings.is_synced() && inner.bindings_list.became_overdue()
    }

    /// Records that role bindings cannot be listed. Returns whether that is new.
    pub fn binding_list_failed(&self, error: &ListFailure) -> bool {
        let mut inner = self.write();
        !inner.bindings.is_synced() && inner.bindings_list.fail(error)
    }

    /// Stores a role binding that is named like ours. Returns whether it is new or changed.
    pub fn upsert_binding(&self, namespace: &str, object: ClusterBinding, source: UpdateSource) -> bool {
        let key = binding_key(namespace, object.role);
        self.write().bindings.upsert(&key, object, source)
    }

    /// Stores a role binding that is not named like ours; removes it if `binding` is `None`. Returns whether that is a
    /// change.
    pub fn upsert_other_binding(&self, namespace: &str, name: &str, binding: Option<OtherBinding>) -> bool {
        self.write().others.upsert(namespace, name, binding)
    }

    /// The role bindings of a namespace that were not made for the object of this uid; `None` before they were listed.
    pub fn other_access_at(&self, namespace: &str, uid: &str) -> Option<OtherAccess> {
        let inner = self.read();
        inner.bindings.is_synced().then(|| inner.others.at(namespace, uid))
    }

    /// Removes a role binding.
    pub fn remove_binding(&self, namespace: &str, object: &ClusterBinding) {
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
