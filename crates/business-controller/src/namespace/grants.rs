//! Computes whom the bindings of a namespace should name. Pure.

/// Gets grants from the cache, or computes them.
pub mod lookup;
/// Grants that were computed lately.
pub mod cache;

use super::access_state::{Grants, OmittedSubjects};
use super::kind::NamespaceView;
use crate::member::binding::Grantee;
use crate::project::ancestors::AncestorChain;
use business_types::access::{self, AccessRole};
use business_types::names;
use business_types::{AccessHolder, ClusterIdentity, EffectiveAccess, Subject, SubjectKind};
use std::collections::BTreeMap;

/// Bytes that the subjects of all bindings of a namespace may take. If one binding has all of them, Kubernetes can
/// still store it (at most 1.5 MB), and a watch can deliver it as one event. Lists adapt their page size.
const SUBJECTS_BYTES_MAX: usize = 500_000;
/// Bytes of a subject without its name.
const SUBJECT_BYTES: usize = 80;

/// What grants are computed from, beside the namespace itself.
#[derive(Clone, Copy, Debug)]
pub struct GrantSources<'a> {
    /// Its project and the ancestors of that.
    pub ancestors: &'a AncestorChain,
    /// The administrators that the Tenant object names.
    pub administrators: &'a [Subject],
    /// By which names the cluster knows people.
    pub identity: ClusterIdentity,
}

/// Computes who may use a namespace: the tenant's administrators, and everybody with a role in its project or in an
/// ancestor. Each name is in one binding, that of the highest role.
pub fn compute_grants(object: &NamespaceView, sources: GrantSources<'_>) -> Grants {
    let mut builder =
        GrantsBuilder { object, sources, roles: BTreeMap::new(), omitted: OmittedSubjects::default() };
    builder.add_administrators();
    let specs = sources.ancestors.projects.iter().map(|project| &project.spec);
    for (holder, role) in EffectiveAccess::of(specs).holders() {
        builder.add_holder(holder, role);
    }
    builder.finish()
}

struct GrantsBuilder<'a> {
    object: &'a NamespaceView,
    sources: GrantSources<'a>,
    roles: BTreeMap<Grantee, AccessRole>,
    omitted: OmittedSubjects,
}

impl GrantsBuilder<'_> {
    fn add_administrators(&mut self) {
        if let Some(group) = access::administrators(&self.object.spec.tenant_id) {
            self.grant(Grantee::Group(group), AccessRole::Admin);
        }
        for subject in self.sources.administrators {
            self.add_holder(AccessHolder::of(subject, ""), AccessRole::Admin);
        }
    }

    fn add_holder(&mut self, holder: AccessHolder<'_>, role: AccessRole) {
        let tenant = &self.object.spec.tenant_id;
        let names = match holder.kind {
            SubjectKind::User if holder.of_tenant => {
                vec![access::user(tenant, holder.name).map(Grantee::User)]
            }
            SubjectKind::User => [access::user, access::host_user]
                .map(|known| known(tenant, holder.name).map(Grantee::User))
                .into(),
            SubjectKind::Group => vec![access::group(tenant, holder.name).map(Grantee::Group)],
            // A ServiceAccount of the host cluster or of another member cluster does not exist here.
            SubjectKind::ServiceAccount if holder.cluster != self.object.spec.cluster_name => return,
            SubjectKind::ServiceAccount => vec![Self::service_account(holder)],
        };
        if names.iter().any(Option::is_none) {
            self.omitted.unnameable = self.omitted.unnameable.saturating_add(1);
        }
        for grantee in names.into_iter().flatten() {
            self.grant(grantee, role);
        }
        // A user whose credential names the tenant is left out: another cluster may have a different person of the same
        // name.
        if self.sources.identity == ClusterIdentity::Shared && !holder.of_tenant {
            self.add_host_name(holder.kind, holder.name, role);
        }
    }

    /// Adds the name that the host cluster uses. A name that means somebody else here is left out: its holder still has
    /// the other name.
    fn add_host_name(&mut self, kind: SubjectKind, name: &str, role: AccessRole) {
        let Some(name) = access::shared_name(name) else { return };
        match kind {
            SubjectKind::User => self.grant(Grantee::User(name), role),
            SubjectKind::Group => self.grant(Grantee::Group(name), role),
            SubjectKind::ServiceAccount => {}
        }
    }

    /// The cluster would refuse the whole binding because of one invalid name.
    fn service_account(holder: AccessHolder<'_>) -> Option<Grantee> {
        let AccessHolder { name, namespace, .. } = holder;
        let is_taken = meta::name::dns1123_subdomain(name).is_empty()
            && meta::name::dns1123_label(namespace).is_empty()
            && !names::is_forbidden(namespace, &names::SYSTEM_NAMESPACES);
        is_taken.then(|| Grantee::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    fn grant(&mut self, grantee: Grantee, role: AccessRole) {
        let held = self.roles.entry(grantee).or_insert(role);
        *held = role.max(*held);
    }

    /// Builds the grants. What does not fit is left out, beginning with the lowest role.
    fn finish(self) -> Grants {
        let mut grants = Grants {
            omitted: self.omitted,
            chain_end: self.sources.ancestors.end.clone(),
            ..Grants::default()
        };
        let mut by_role: Vec<(AccessRole, Grantee)> =
            self.roles.into_iter().map(|(grantee, role)| (role, grantee)).collect();
        by_role.sort_by(|(one, _), (other, _)| other.cmp(one));
        let mut room = SUBJECTS_BYTES_MAX;
        for (role, grantee) in by_role {
            let left = room.checked_sub(SUBJECT_BYTES.saturating_add(escaped_len(&grantee)));
            if left.is_some() {
                grants.roles.entry(role).or_default().insert(grantee);
            } else {
                grants.omitted.surplus = grants.omitted.surplus.saturating_add(1);
            }
            room = left.unwrap_or_default();
        }
        grants
    }
}

/// Bytes of the names in the answers of an API server, which escapes HTML characters.
fn escaped_len(grantee: &Grantee) -> usize {
    let names: [&str; 2] = match grantee {
        Grantee::User(name) | Grantee::Group(name) => [name.as_str(), ""],
        Grantee::ServiceAccount { namespace, name } => [namespace, name],
        Grantee::Other => ["", ""],
    };
    let bytes = |letter: char| match letter {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        '"' | '\\' => 2,
        other => other.len_utf8(),
    };
    names.into_iter().flat_map(str::chars).map(bytes).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests;
