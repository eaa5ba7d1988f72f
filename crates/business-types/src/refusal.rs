//! The reasons in `details.causes[]` of refused writes that are specific to this API. The server reports them, the
//! command line uses them to suggest what to do next, and the reference lists them.

/// A scope does not have the requested amount.
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
/// A new limit is below what is allocated already.
pub const BELOW_ALLOCATED: &str = "BelowAllocated";
/// A new amount is below what is used already.
pub const BELOW_USED: &str = "BelowUsed";
/// The project has the maximum number of children.
pub const TOO_MANY_CHILDREN: &str = "TooManyChildren";
/// An operator has locked the project.
pub const PROJECT_LOCKED: &str = "ProjectLocked";
/// The project is being deleted. The name is that of client-go.
pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
/// Another object has the cluster's namespace or the name in the registry.
pub const CLAIM_TAKEN: &str = "ClaimTaken";
/// The project still has children.
pub const PROJECT_IN_USE: &str = "ProjectInUse";
/// The tenant still has projects.
pub const TENANT_IN_USE: &str = "TenantInUse";
/// The project cannot be moved because its children have more than it is granted.
pub const PROJECT_OVERDRAWN: &str = "ProjectOverdrawn";
/// The tenant has no ceiling for the root project.
pub const NO_CEILING: &str = "NoCeiling";
/// The tenant has the maximum number of objects, or of bytes of objects.
pub const TENANT_FULL: &str = "TenantFull";
/// The tenant's objects list the maximum number of users and groups.
pub const TOO_MANY_PEOPLE: &str = "TooManyPeople";
/// The cluster accepts nothing new.
pub const CLUSTER_CLOSED: &str = "ClusterClosed";

/// The description of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Its name, in `details.causes[].reason`.
    pub name: &'static str,
    /// The HTTP status code of a response with only this reason.
    pub code: u16,
    /// When it is reported.
    pub when: &'static str,
    /// The fields that it is reported for.
    pub fields: &'static str,
    /// The keys of `details.causes[].message`.
    pub keys: &'static [&'static str],
    /// What to do next. `{key}` is replaced by the value of the key.
    pub next: &'static str,
}

const AMOUNT: &[&str] = &[
    "project, tenant or scope",
    "cluster or domain",
    "resource",
    "requested",
    "hard",
    "allocated",
    "remaining",
    "fits",
    "held",
];
const SCOPE: &str = "metadata.namespace, spec.parentProjectName";

/// All reasons.
pub const REASONS: [Reason; 14] = [
    Reason {
        name: QUOTA_EXCEEDED,
        code: 403,
        when: "more is asked for than a level has left; `fits` is the largest amount that would have been accepted",
        fields: "spec.hard[R], spec.clusters[C].hard[R]",
        keys: AMOUNT,
        next: "ask for {resource}={fits} at most, or have the level's hard raised",
    },
    Reason {
        name: BELOW_ALLOCATED,
        code: 403,
        when: "a limit is put below what is given away; `fits` is the smallest that would have been accepted",
        fields: "spec.clusters[C].hard[R]",
        keys: AMOUNT,
        next: "set {resource} to {fits} or more, or lower what lies below first",
    },
    Reason {
        name: BELOW_USED,
        code: 403,
        when: "a namespace or a place in the registry is lowered below what it uses",
        fields: "spec.hard[R]",
        keys: &["cluster or domain", "resource", "requested", "used", "fits"],
        next: "ask for {resource}={fits} or more, or remove what uses it in the cluster first",
    },
    Reason {
        name: TOO_MANY_CHILDREN,
        code: 403,
        when: "the project has as many children as a project may have",
        fields: SCOPE,
        keys: &["project", "max"],
        next: "put it into another project, or delete what nobody needs: `kubectl business tree {project} --namespaces`",
    },
    Reason {
        name: PROJECT_LOCKED,
        code: 403,
        when: "an operator has locked the project: it takes nothing new and does not grow",
        fields: "metadata.namespace, spec.parentProjectName, spec.clusters",
        keys: &["project"],
        next: "an operator has locked it: `kubectl business describe project {project}` says why; he ends it with `unlock`",
    },
    Reason {
        name: NAMESPACE_TERMINATING,
        code: 403,
        when: "the project is being deleted; `message` is a sentence, as client-go knows it",
        fields: SCOPE,
        keys: &[],
        next: "the project is being deleted: use another one, or wait until it is gone",
    },
    Reason {
        name: CLAIM_TAKEN,
        code: 409,
        when: "another object has this namespace of the cluster, or this name in the registry",
        fields: "spec.namespace, spec.name",
        keys: &["cluster or domain", "namespace or name"],
        next: "choose another name for it in the cluster; whose it is, is not told",
    },
    Reason {
        name: PROJECT_IN_USE,
        code: 409,
        when: "the project still has children",
        fields: "spec.finalizers",
        keys: &["project", "children"],
        next: "delete what lies in it first: `kubectl business tree {project} --namespaces`",
    },
    Reason {
        name: TENANT_IN_USE,
        code: 409,
        when: "the tenant still has projects",
        fields: "spec.finalizers",
        keys: &["tenant", "children"],
        next: "delete its projects first: `kubectl business tree --tenant {tenant}`",
    },
    Reason {
        name: PROJECT_OVERDRAWN,
        code: 403,
        when: "the project is to be moved, and its children have more than it is granted",
        fields: "spec.parentProjectName",
        keys: &["project"],
        next: "lower what its children have first: `kubectl business tree {project} --namespaces`",
    },
    Reason {
        name: NO_CEILING,
        code: 403,
        when: "the tenant has no ceiling on the cluster, and the caller may not make budget out of nothing",
        fields: "spec.clusters[C]",
        keys: &["tenant", "cluster or domain"],
        next: "an operator gives tenant {tenant} a ceiling on {cluster}, or make it below a project that has budget there \
               (--parent)",
    },
    Reason {
        name: TENANT_FULL,
        code: 403,
        when: "the tenant has as many objects of all kinds, or as many bytes of them, as a tenant may keep; `what` is `objects` or `bytes`",
        fields: "metadata.name",
        keys: &["tenant", "what", "requested", "max"],
        next: "delete what nobody needs, or have an operator raise `--tenant-{what}-max` of business-api",
    },
    Reason {
        name: TOO_MANY_PEOPLE,
        code: 403,
        when: "the projects and administrators of the tenant list as many people as a tenant may, each as often as he is listed",
        fields: "spec.members, spec.access, spec.administrators",
        keys: &["tenant", "requested", "max"],
        next: "take people out of the lists of tenant {tenant} who need no role, or name groups in place of people",
    },
    Reason {
        name: CLUSTER_CLOSED,
        code: 403,
        when: "the cluster takes nothing new and nothing in it grows; `state` is `cordoned` or `deleting`",
        fields: "spec",
        keys: &["cluster", "state"],
        next: "choose another cluster, or wait until an operator opens it: `kubectl business uncordon {cluster}`; what is \
               there can still shrink and go",
    },
];

impl Reason {
    /// The reason with this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        REASONS.iter().find(|reason| reason.name == name)
    }

    /// What to do next, with the values from the cause's message.
    pub fn next_for(&self, message: &str) -> String {
        let pairs = message.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.fold(self.next.to_owned(), |next, (key, value)| {
            // Texts say `{cluster}` also for the registry, whose message says `domain`.
            let key = if key == "domain" { "cluster" } else { key };
            next.replace(&format!("{{{key}}}"), value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_one_row_and_says_what_to_do_by_keys_that_it_has() {
        for (at, reason) in REASONS.iter().enumerate() {
            assert_eq!(REASONS.iter().position(|other| other.name == reason.name), Some(at));
            let told =
                |word: &str| reason.keys.iter().any(|key| key.split(" or ").any(|one| one.trim() == word));
            for word in reason.next.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                assert!(told(word), "{}: {word}", reason.name);
            }
        }
    }

    #[test]
    fn what_to_do_names_what_was_refused() {
        let reason = Reason::of(BELOW_USED).unwrap();
        let next = reason.next_for("cluster=east resource=pods requested=1 used=3 fits=3");
        assert_eq!(next, "ask for pods=3 or more, or remove what uses it in the cluster first");
    }
}
