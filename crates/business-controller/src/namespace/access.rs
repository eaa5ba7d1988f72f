//! Who may use a namespace of a member cluster: a `RoleBinding` a role, which names the members of the project and the
//! tenant's administrators and nobody else. It is kept right whatever else goes wrong with the namespace: whoever is no
//! member any more must lose it.

use super::access_state::{Access, Denied, Grants};
use super::build;
use super::kind::NamespaceView;
use super::memory::Binding;
use super::report;
use super::site::Site;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::member::ClusterBinding;
use crate::member::observed::{Grantee, SeenBindings};
use crate::namespace::validate::is_marked;
use crate::project::kind::ProjectView;
use business_types::Provenance;
use business_types::access::{self, AccessRole};
use business_types::condition::reason;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Times that the bindings are looked at anew when they were changed under us.
const ROUNDS_MAX: usize = 3;

/// Who may use a namespace of a project.
pub fn grants(object: &NamespaceView, project: &ProjectView) -> Grants {
    let tenant = &object.spec.tenant_id;
    let mut grants = Grants::default();
    if let Some(group) = access::administrators(tenant) {
        grants.roles.insert(AccessRole::Admin, BTreeSet::from([Grantee::Group(group)]));
    }
    for member in &project.spec.members {
        match access::user(tenant, member) {
            Some(user) => {
                grants.roles.entry(AccessRole::Edit).or_default().insert(Grantee::User(user));
            }
            None => grants.unnameable = grants.unnameable.saturating_add(1),
        }
    }
    grants
}

/// What to do with the binding of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingStep {
    Keep,
    Create,
    Update(Arc<ClusterBinding>),
    /// It binds another role, which cannot be changed, or nobody is to be named.
    Delete {
        uid: String,
        then_create: bool,
    },
}

/// What to do with the binding of a role that is to name these.
pub fn step(
    object: &NamespaceView,
    grantees: Option<&BTreeSet<Grantee>>,
    there: Option<&Arc<ClusterBinding>>,
) -> BindingStep {
    match (grantees, there) {
        (None, None) => BindingStep::Keep,
        (Some(_), None) => BindingStep::Create,
        (None, Some(there)) => BindingStep::Delete { uid: there.uid.clone(), then_create: false },
        (Some(_), Some(there)) if !there.binds_its_role || there.deleting => {
            BindingStep::Delete { uid: there.uid.clone(), then_create: true }
        }
        (Some(grantees), Some(there)) if there.grantees == *grantees && is_marked(object, &there.marks) => {
            BindingStep::Keep
        }
        (Some(_), Some(there)) => BindingStep::Update(Arc::clone(there)),
    }
}

/// Keeps the bindings of a namespace right that is on record as the object's. The error says that nothing may be written.
pub async fn keep(cx: &Context, object: &NamespaceView, site: &Site) -> Result<Access, Error> {
    let record = object.status.cluster_namespace.as_ref();
    let Some(record) = record.filter(|r| matches!(r.provenance, Provenance::Made | Provenance::Adopted))
    else {
        return Ok(Access::Unknown);
    };
    let (there, _quota) = site.member.observed.at(&object.spec.namespace);
    match there {
        Some(there) if there.uid == record.uid => {
            provide(cx, object, site, !there.deleting && !object.is_deleting()).await
        }
        _ => Ok(Access::Unknown),
    }
}

/// Makes the bindings right in a namespace that is the object's. One that is being deleted takes nothing new.
pub async fn provide(
    cx: &Context,
    object: &NamespaceView,
    site: &Site,
    takes_new: bool,
) -> Result<Access, Error> {
    let binding = Binding { key: object.key.clone(), grants: grants(object, &site.project) };
    let grants = &binding.grants;
    let bound = &cx.objects.namespaces.memory.bound;
    let was_right = takes_new && bound.was(&object.uid, &binding);
    let mut seen = match site.member.observed.bindings_at(&object.spec.namespace) {
        SeenBindings::Listed(seen) => seen,
        SeenBindings::Unlisted(None) => return Ok(Access::Unknown),
        SeenBindings::Unlisted(Some(error)) => {
            let message =
                format!("the RoleBindings of cluster {} cannot be listed: {error}", site.member.name);
            return Ok(Access::Failed(Denied { reason: reason::REFUSED, message, retry: false }));
        }
    };
    for _ in 0..ROUNDS_MAX {
        match write(object, site, grants, &seen, takes_new).await {
            Ok(written) => {
                if was_right && !written.is_empty() {
                    report::bindings_restored(cx, object, &written);
                }
                let access = granted(object, grants);
                bound.remember(&object.uid, binding);
                return Ok(access);
            }
            Err(Error::Member(CallFailure::Conflict(_) | CallFailure::Exists | CallFailure::NotFound)) => {
                match live(object, site).await {
                    Ok(now) => seen = now,
                    Err(failure) => return Ok(Access::failed(reason::REFUSED, failure.to_string())),
                }
            }
            Err(Error::Member(failure)) => {
                let message = format!("cluster {} does not take a RoleBinding: {failure}", site.member.name);
                return Ok(Access::failed(reason::REFUSED, message));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Access::failed(
        reason::REFUSED,
        "the RoleBindings change faster than they can be kept right".to_owned(),
    ))
}

fn granted(object: &NamespaceView, grants: &Grants) -> Access {
    if grants.roles.contains_key(&AccessRole::Admin) {
        return Access::Granted { unnameable: grants.unnameable };
    }
    let message = format!("tenant {:?} cannot be named in a cluster", object.spec.tenant_id);
    Access::Failed(Denied { reason: reason::UNNAMEABLE, message, retry: false })
}

/// Tells the roles whose bindings were not right. All at once: nobody waits for two answers in turn.
async fn write(
    object: &NamespaceView,
    site: &Site,
    grants: &Grants,
    seen: &BTreeMap<AccessRole, Arc<ClusterBinding>>,
    takes_new: bool,
) -> Result<Vec<AccessRole>, Error> {
    let writes = AccessRole::ALL.map(|role| {
        let grantees = grants.roles.get(&role);
        let step = step(object, grantees, seen.get(&role));
        let none = BTreeSet::new();
        async move {
            let is_right = step == BindingStep::Keep;
            carry_out(object, site, role, grantees.unwrap_or(&none), step, takes_new).await?;
            Ok((!is_right).then_some(role))
        }
    });
    let written: Result<Vec<Option<AccessRole>>, Error> = join_all(writes).await.into_iter().collect();
    Ok(written?.into_iter().flatten().collect())
}

async fn carry_out(
    object: &NamespaceView,
    site: &Site,
    role: AccessRole,
    grantees: &BTreeSet<Grantee>,
    step: BindingStep,
    takes_new: bool,
) -> Result<(), Error> {
    let (api, namespace) = (&site.member.api, &object.spec.namespace);
    let create = async || {
        if takes_new {
            api.create_binding(namespace, &build::new_binding(object, role, grantees)).await
        } else {
            Ok(None)
        }
    };
    let written = match step {
        BindingStep::Keep => None,
        BindingStep::Create => create().await?,
        BindingStep::Update(from) => {
            api.patch_binding(namespace, role, &build::binding(object, &from, grantees)).await?
        }
        BindingStep::Delete { uid, then_create } => {
            api.delete_binding(namespace, role, &uid).await?;
            if then_create { create().await? } else { None }
        }
    };
    if let Some(written) = written {
        site.member.observed.binding(namespace, written, false);
    }
    Ok(())
}

async fn live(
    object: &NamespaceView,
    site: &Site,
) -> Result<BTreeMap<AccessRole, Arc<ClusterBinding>>, CallFailure> {
    let mut found = BTreeMap::new();
    for role in AccessRole::ALL {
        if let Some(binding) = site.member.api.binding(&object.spec.namespace, role).await? {
            found.insert(role, Arc::new(binding));
        }
    }
    Ok(found)
}

/// Takes the bindings away from a namespace that stays. Where we may not even see them, we have made none.
pub async fn withdraw(object: &NamespaceView, site: &Site) -> Result<(), Error> {
    let found = match live(object, site).await {
        Ok(found) => found,
        Err(CallFailure::Refused { code: 401 | 403, message }) => {
            tracing::warn!(
                cluster = site.member.name,
                message,
                "bindings of a released namespace are not seen"
            );
            return Ok(());
        }
        Err(failure) => return Err(Error::Member(failure)),
    };
    for (role, binding) in found {
        site.member.api.delete_binding(&object.spec.namespace, role, &binding.uid).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
