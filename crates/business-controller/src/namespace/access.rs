//! Who may use a namespace of a member cluster: one `RoleBinding` for each role, which names exactly the people who
//! have it. The bindings are reconciled whatever else is wrong with the namespace: people who have no role any more
//! must lose access. New people are added only when a quota limits the namespace.

use super::access_state::{AccessFailure, AccessState, Grants};
use super::build;
use super::grants::lookup::GrantSourcesSnapshot;
use super::kind::NamespaceView;
use super::memory::BindingsFingerprint;
use super::report;
use super::target::{ReachedTarget, still_owns_place};
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::kinds::{ObjectKey as _, RootKey};
use crate::member::binding::Grantee;
use crate::member::observed::NamespaceBindings;
use crate::member::watch_store::UpdateSource;
use crate::member::{ClusterBinding, ClusterQuota, Member};
use crate::namespace::enqueue::enqueue_namespace;
use crate::namespace::validate::is_marked;
use crate::project::ancestor_lookup::ancestor_chain;
use crate::project::kind::ProjectView;
use crate::queue::Lane;
use business_types::access::AccessRole;
use business_types::condition::reason;
use business_types::{NamespaceSpec, Provenance};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How often the bindings are read again after they were changed under us.
const ATTEMPTS_MAX: usize = 3;

/// A namespace whose bindings are reconciled.
#[derive(Clone, Copy, Debug)]
pub struct AccessTarget<'a> {
    pub cx: &'a Context,
    pub object: &'a NamespaceView,
    pub reached: &'a ReachedTarget,
}

impl AccessTarget<'_> {
    async fn grants(self) -> Result<Arc<Grants>, Error> {
        let Self { cx, object, .. } = self;
        let cache = &cx.objects.namespaces.memory.grants;
        if let Some(found) = cache.get_if_fast(object, &self.sources().await?) {
            return Ok(found);
        }
        let _lock = cache.compute_lock().await;
        // Read again: the sources may have changed while this waited, and another pass may have computed the same
        // grants.
        let sources = self.sources().await?;
        match cache.get_if_fast(object, &sources) {
            Some(found) => Ok(found),
            None => Ok(cache.compute(object, &sources).await),
        }
    }

    async fn sources(self) -> Result<GrantSourcesSnapshot, Error> {
        let Self { cx, object, reached } = self;
        let ancestors = ancestor_chain(cx, self.project()).await.map_err(Error::Api)?;
        let tenant = cx.objects.tenants.get(&RootKey::new(None, &object.spec.tenant_id));
        Ok(GrantSourcesSnapshot { ancestors, tenant, identity: cx.identity_of(&reached.member.name) })
    }

    /// The project as the cache has it now.
    fn project(self) -> Arc<ProjectView> {
        let seen = self.cx.objects.projects.get(&self.reached.project.key);
        seen.unwrap_or_else(|| Arc::clone(&self.reached.project))
    }
}

/// What to do with the binding of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingStep {
    Keep,
    Create,
    Update(Arc<ClusterBinding>),
    /// Something, such as a finalizer, holds its deletion up. Until it is gone, it is to name nobody.
    Empty(Arc<ClusterBinding>),
    /// It binds another role, which cannot be changed, or it should name nobody.
    Delete {
        uid: String,
        then_create: bool,
    },
}

/// What to do with the binding of a role that should name these grantees.
pub fn binding_step(
    object: &NamespaceView,
    grantees: Option<&BTreeSet<Grantee>>,
    there: Option<&Arc<ClusterBinding>>,
) -> BindingStep {
    let Some(there) = there else {
        return if grantees.is_some() { BindingStep::Create } else { BindingStep::Keep };
    };
    match grantees.filter(|_| there.binds_its_role) {
        Some(grantees) if is_marked(object, &there.marks) && there.named.matches(grantees) => {
            BindingStep::Keep
        }
        Some(_) => BindingStep::Update(Arc::clone(there)),
        None if !there.deleting => {
            BindingStep::Delete { uid: there.uid.clone(), then_create: grantees.is_some() }
        }
        None if there.named.is_empty() => BindingStep::Keep,
        None => BindingStep::Empty(Arc::clone(there)),
    }
}

/// Whether this quota, whoever wrote it, admits no more than the object is charged. Anything else that is wrong with it
/// is repaired later in the pass, and does not delay access.
pub fn is_limited_by(object: &NamespaceView, quota: &ClusterQuota) -> bool {
    let hard = &object.spec.hard;
    let charged = object.status.charged(&object.spec);
    !quota.scoped
        && hard.iter().all(|(resource, asked)| {
            let most = charged.get(resource).unwrap_or(asked);
            quota.spec_hard.get(resource).is_some_and(|limit| limit <= most)
        })
}

/// Reconciles the bindings of a namespace that is on record as the object's. Nobody is added where no quota limits the
/// namespace: otherwise, whoever can make the cluster refuse the quota could let people in who use without limit. An
/// error means that nothing may be written.
pub async fn reconcile(at: AccessTarget<'_>) -> Result<AccessState, Error> {
    let AccessTarget { object, reached, .. } = at;
    let record = object.status.cluster_namespace.as_ref();
    let Some(record) = record.filter(|r| matches!(r.provenance, Provenance::Made | Provenance::Adopted))
    else {
        return Ok(AccessState::Unknown);
    };
    let place = &object.spec.namespace;
    let (seen, quota) = reached.member.observed.at(place);
    let there = match seen {
        Some(there) => Some(there),
        // Cleanup handles it, and marks it first.
        None if object.is_deleting() => return Ok(AccessState::Unknown),
        // Somebody may have removed its label. People who have no role any more must lose access all the same.
        None => match reached.member.api.namespace(place).await {
            Ok(there) => there.map(Arc::new),
            Err(failure) => return Ok(AccessState::failed(reason::REFUSED, failure.to_string())),
        },
    };
    let Some(there) = there.filter(|there| there.uid == record.uid) else { return Ok(AccessState::Unknown) };
    let is_limited = quota.is_some_and(|quota| is_limited_by(object, &quota));
    ensure_bindings(at, is_limited && !there.deleting && !object.is_deleting()).await
}

/// Makes the bindings right in a namespace that is the object's. Without `may_add`, no binding names anybody whom it
/// did not name before.
pub async fn ensure_bindings(at: AccessTarget<'_>, may_add: bool) -> Result<AccessState, Error> {
    let AccessTarget { cx, object, reached } = at;
    let grants = at.grants().await?;
    let fingerprint = BindingsFingerprint { key: object.key.clone(), grants: grants.fingerprint() };
    let last_applied = &cx.objects.namespaces.memory.bindings;
    let was_right = may_add && last_applied.matches(&object.uid, &fingerprint);
    let cluster = &reached.member.name;
    let mut seen = match reached.member.observed.bindings_at(&object.spec.namespace) {
        NamespaceBindings::Listed(seen) => seen,
        NamespaceBindings::NotListed(None) => return Ok(AccessState::Unknown),
        NamespaceBindings::NotListed(Some(failure)) if failure.is_forbidden => {
            let message = format!("the RoleBindings of cluster {cluster} cannot be listed: {}", failure.text);
            return Ok(AccessState::Failed(AccessFailure { reason: reason::REFUSED, message, retry: false }));
        }
        // The list may be too large because of what somebody put into another namespace. That must not keep anybody in
        // here.
        NamespaceBindings::NotListed(Some(_)) => {
            match read_bindings(&reached.member, &object.spec.namespace).await {
                Ok(now) => now,
                Err(failure) => return Ok(AccessState::failed(reason::REFUSED, failure.to_string())),
            }
        }
    };
    for _ in 0..ATTEMPTS_MAX {
        // The object may have been moved to another project. Passes over its new key name the people of that project.
        if !still_owns_place(cx, object) {
            return Ok(AccessState::Unknown);
        }
        match apply_bindings(at, &grants, &seen, may_add).await {
            Ok(written) => {
                enqueue_if_moved(cx, object, &written);
                if was_right && !written.is_empty() {
                    report::bindings_restored(cx, object, &written);
                }
                if !may_add {
                    return Ok(AccessState::Pending);
                }
                last_applied.remember(&object.uid, fingerprint);
                return Ok(grants.access_state(&object.spec.tenant_id));
            }
            Err(Error::Member(CallFailure::Conflict(_) | CallFailure::Exists | CallFailure::NotFound)) => {
                match read_bindings(&reached.member, &object.spec.namespace).await {
                    Ok(now) => seen = now,
                    Err(failure) => return Ok(AccessState::failed(reason::REFUSED, failure.to_string())),
                }
            }
            Err(Error::Member(failure)) => {
                let message = format!("cluster {cluster} does not take a RoleBinding: {failure}");
                return Ok(AccessState::failed(reason::REFUSED, message));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(AccessState::failed(
        reason::REFUSED,
        "the RoleBindings change faster than they can be kept right".to_owned(),
    ))
}

/// A write from the object's former key may have arrived after a write from its new key: the new key is reconciled
/// again.
fn enqueue_if_moved(cx: &Context, object: &NamespaceView, written: &[AccessRole]) {
    let NamespaceSpec { cluster_name, namespace, .. } = &object.spec;
    if let Some(now) = cx.objects.namespaces.at_place(cluster_name, namespace)
        && now.key != object.key
        && !written.is_empty()
    {
        enqueue_namespace(cx, &now, Lane::Access, Duration::ZERO);
    }
}

/// Applies the steps of all roles in parallel, so that only one round trip is waited for. Returns the roles whose
/// bindings were not right.
async fn apply_bindings(
    at: AccessTarget<'_>,
    grants: &Grants,
    seen: &BTreeMap<AccessRole, Arc<ClusterBinding>>,
    may_add: bool,
) -> Result<Vec<AccessRole>, Error> {
    let writes = AccessRole::ALL.map(|role| {
        let grantees = grants.roles.get(&role);
        let step = binding_step(at.object, grantees, seen.get(&role));
        let none = BTreeSet::new();
        async move {
            let is_right = step == BindingStep::Keep;
            let wanted = WantedBinding { role, grantees: grantees.unwrap_or(&none), may_add };
            apply_step(at, wanted, step).await?;
            Ok((!is_right).then_some(role))
        }
    });
    let written: Result<Vec<Option<AccessRole>>, Error> = join_all(writes).await.into_iter().collect();
    Ok(written?.into_iter().flatten().collect())
}

/// The desired binding of a role.
#[derive(Clone, Copy, Debug)]
struct WantedBinding<'a> {
    role: AccessRole,
    grantees: &'a BTreeSet<Grantee>,
    /// Whether it may name people whom it did not name before.
    may_add: bool,
}

async fn apply_step(at: AccessTarget<'_>, wanted: WantedBinding<'_>, step: BindingStep) -> Result<(), Error> {
    let AccessTarget { object, reached, .. } = at;
    let WantedBinding { role, grantees, may_add } = wanted;
    let (api, namespace) = (&reached.member.api, &object.spec.namespace);
    let create = async || {
        if may_add {
            api.create_binding(namespace, &build::new_binding(object, role, grantees)).await
        } else {
            Ok(None)
        }
    };
    let written = match step {
        BindingStep::Keep => None,
        BindingStep::Create => create().await?,
        BindingStep::Update(from) if !may_add => {
            remove_subjects(at, wanted, &from).await?;
            None
        }
        BindingStep::Update(from) => {
            match api.patch_binding(namespace, role, &build::binding_patch(object, &from, grantees)).await {
                Err(Error::Member(refusal @ CallFailure::Refused { .. })) => {
                    remove_subjects(at, wanted, &from).await?;
                    return Err(Error::Member(refusal));
                }
                written => written?,
            }
        }
        BindingStep::Empty(from) => {
            api.patch_binding(namespace, role, &build::binding_patch(object, &from, &BTreeSet::new())).await?
        }
        BindingStep::Delete { uid, then_create } => {
            api.delete_binding(namespace, role, &uid).await?;
            if then_create { create().await? } else { None }
        }
    };
    if let Some(written) = written {
        reached.member.observed.upsert_binding(namespace, written, UpdateSource::OwnWrite);
    }
    Ok(())
}

/// Removes the subjects that the binding should not name, and adds nobody: the cluster refuses the new ones, or nobody
/// may be added yet. If the cluster refuses this write, too, the binding is deleted.
async fn remove_subjects(
    at: AccessTarget<'_>,
    wanted: WantedBinding<'_>,
    from: &ClusterBinding,
) -> Result<(), Error> {
    let AccessTarget { object, reached, .. } = at;
    let (api, namespace) = (&reached.member.api, &object.spec.namespace);
    let before = api.grantees(namespace, wanted.role, &from.resource_version).await.map_err(Error::Member)?;
    let left: BTreeSet<Grantee> = before.intersection(wanted.grantees).cloned().collect();
    let somebody_leaves = left != before;
    if !somebody_leaves && (wanted.may_add || is_marked(object, &from.marks)) {
        return Ok(());
    }
    match api.patch_binding(namespace, wanted.role, &build::binding_patch(object, from, &left)).await {
        Ok(written) => {
            if let Some(written) = written {
                reached.member.observed.upsert_binding(namespace, written, UpdateSource::OwnWrite);
            }
            Ok(())
        }
        // What fails by itself, such as a webhook that does not answer, takes nothing away from those who stay.
        Err(Error::Member(CallFailure::Refused { code: ..500, .. })) if somebody_leaves => {
            api.delete_binding(namespace, wanted.role, &from.uid).await
        }
        Err(error) => Err(error),
    }
}

async fn read_bindings(
    member: &Member,
    namespace: &str,
) -> Result<BTreeMap<AccessRole, Arc<ClusterBinding>>, CallFailure> {
    let mut found = BTreeMap::new();
    for role in AccessRole::ALL {
        if let Some(binding) = member.api.binding(namespace, role).await? {
            found.insert(role, Arc::new(binding));
        }
    }
    Ok(found)
}

/// Deletes the bindings of a namespace that stays in the cluster, because nobody reconciles them later. With `of`, only
/// those that were made for the object with this uid. If we may not read bindings, we have made none.
pub async fn withdraw(member: &Member, namespace: &str, of: Option<&str>) -> Result<(), Error> {
    let found = match read_bindings(member, namespace).await {
        Ok(found) => found,
        Err(CallFailure::Refused { code: 401 | 403, message }) => {
            tracing::warn!(
                cluster = member.name,
                message,
                "bindings of a namespace that is given up are not seen"
            );
            return Ok(());
        }
        Err(failure) => return Err(Error::Member(failure)),
    };
    let mut withdrawn = Ok(());
    for (role, binding) in found {
        if of.is_none_or(|uid| binding.marks.uid.as_deref() == Some(uid)) {
            // A binding that cannot be deleted does not prevent the others.
            withdrawn = withdrawn
                .and(member.api.empty_and_delete_binding(namespace, role.name(), &binding.uid).await);
        }
    }
    withdrawn
}

#[cfg(test)]
mod tests;
