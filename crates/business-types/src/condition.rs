use serde::{Deserialize, Serialize};

/// The object is as its spec requires; `kubectl wait --for=condition=Ready` waits for it.
pub const READY: &str = "Ready";
/// The member cluster enforces exactly the granted quota, and usage is not above it.
pub const QUOTA_ENFORCED: &str = "QuotaEnforced";
/// The namespace and its `ResourceQuota` exist in the member cluster and are ours.
pub const PROVISIONED: &str = "Provisioned";
/// The member cluster is reachable.
pub const CLUSTER_REACHABLE: &str = "ClusterReachable";
/// The object is being deleted; the message says what remains.
pub const TERMINATING: &str = "Terminating";
/// Somebody has replaced our namespace in the member cluster with another one of the same name.
pub const REPLACED: &str = "Replaced";
/// Our bindings in the member cluster name exactly the subjects that have a role in the namespace.
pub const ACCESS_READY: &str = "AccessReady";
/// Bindings that are not ours give somebody access to the namespace in the member cluster.
pub const OTHER_ACCESS: &str = "OtherAccess";
/// The namespace was moved to another project, and its marks in the member cluster are updated.
pub const TRANSFERRED: &str = "Transferred";
/// The registry is reachable.
pub const REGISTRY_REACHABLE: &str = "RegistryReachable";
/// The content in the registry is within its quota.
pub const WITHIN_QUOTA: &str = "WithinQuota";
/// The tenant's root projects are granted no more than its ceilings.
pub const WITHIN_CEILINGS: &str = "WithinCeilings";
/// The member cluster was reached, and no other name refers to it.
pub const REGISTERED: &str = "Registered";
/// The member cluster is reachable: the condition of the `MemberCluster` itself.
pub const REACHABLE: &str = "Reachable";
/// Every tenant with root projects in a member cluster has a ceiling there.
pub const BOUNDED: &str = "Bounded";
/// The capacity of a member cluster that is derived from its nodes is up to date.
pub const CAPACITY_DERIVED: &str = "CapacityDerived";
/// The newest credentials of a member cluster are in use and do not expire soon.
pub const CREDENTIALS_VALID: &str = "CredentialsValid";
/// The content of the namespace's template is in the member cluster.
pub const TEMPLATE_APPLIED: &str = "TemplateApplied";
/// The newest version of a template is applied to all its namespaces.
pub const ROLLED_OUT: &str = "RolledOut";
/// Ledger, objects and member clusters agree.
pub const QUOTA_CONSISTENT: &str = "QuotaConsistent";

/// The condition holds.
pub const TRUE: &str = "True";
/// The condition does not hold.
pub const FALSE: &str = "False";
/// It is unknown whether the condition holds.
pub const UNKNOWN: &str = "Unknown";

/// Reasons that both programs or their tests use.
pub mod reason {
    /// The object is ready.
    pub const READY: &str = "Ready";
    /// The derived capacity is up to date.
    pub const DERIVED: &str = "Derived";
    /// The nodes of the member cluster cannot be read.
    pub const NODES_UNKNOWN: &str = "NodesUnknown";
    /// Nothing was done yet.
    pub const PENDING: &str = "Pending";
    /// Namespace and quota are there.
    pub const PROVISIONED: &str = "Provisioned";
    /// The member cluster's quota admission uses the written quota.
    pub const ENFORCED: &str = "Enforced";
    /// The member cluster's quota admission does not use the written quota yet.
    pub const NOT_ENFORCED: &str = "NotEnforced";
    /// Usage in the member cluster is still above the granted amount, and is charged until it has fallen.
    pub const USED_ABOVE_HARD: &str = "UsedAboveHard";
    /// The member cluster is reachable.
    pub const REACHABLE: &str = "Reachable";
    /// The member cluster is not reachable.
    pub const UNREACHABLE: &str = "Unreachable";
    /// The directory does not list the member cluster. It counts as unreachable, not as deleted.
    pub const CLUSTER_UNKNOWN: &str = "ClusterUnknown";
    /// The namespace in the member cluster belongs to somebody else.
    pub const NAMESPACE_CONFLICT: &str = "NamespaceConflict";
    /// Our namespace in the member cluster was replaced by another one. The charge stays.
    pub const REPLACED: &str = "Replaced";
    /// It is unclear whether the namespace in the member cluster was made for the object. The charge stays.
    pub const UNCLEAR: &str = "NamespaceUnclear";
    /// The namespace was not replaced: it is the one that was made for the object, or there is none.
    pub const IN_PLACE: &str = "InPlace";
    /// The member cluster enforces a newer quota than the object has: the database was restored.
    pub const AHEAD: &str = "AheadOfObject";
    /// The namespace stays in the member cluster. The charge is held until it is unused.
    pub const RELEASED: &str = "Released";
    /// The namespace in the member cluster is being deleted.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The bindings name exactly the subjects that have a role.
    pub const GRANTED: &str = "Granted";
    /// A subject with a role has no valid name in member clusters.
    pub const UNNAMEABLE: &str = "Unnameable";
    /// An ancestor project, whose subjects have roles here, is not known.
    pub const PARENT_UNKNOWN: &str = "ParentUnknown";
    /// There are bindings that are not ours.
    pub const OTHER_BINDINGS: &str = "OtherBindings";
    /// There are no bindings any more that are not ours.
    pub const NONE_SEEN: &str = "NoneSeen";
    /// The member cluster refused a write.
    pub const REFUSED: &str = "Refused";
    /// The marks in the member cluster may still be those of the former project.
    pub const FORMER_MARKS: &str = "FormerMarks";
    /// The marks in the member cluster are those of the project.
    pub const MARKED: &str = "Marked";
    /// Children are being deleted first.
    pub const WAITING_FOR_CHILDREN: &str = "WaitingForChildren";
    /// Holds for namespaces in member clusters still count, or our marks are not removed yet.
    pub const AMOUNTS_HELD: &str = "AmountsHeld";
    /// The cluster's namespace still has content.
    pub const CONTENT_REMAINING: &str = "ContentRemaining";
    /// The project or namespace is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The controller is configured without a registry.
    pub const NO_REGISTRY: &str = "NoRegistry";
    /// The registry has content below the prefix that does not belong to the object.
    pub const REGISTRY_CONFLICT: &str = "RegistryConflict";
    /// Locked by an operator.
    pub const LOCKED: &str = "Locked";
    /// Locked in the registry itself.
    pub const LOCKED_IN_REGISTRY: &str = "LockedInRegistry";
    /// The content was not measured yet.
    pub const NOT_MEASURED: &str = "NotMeasured";
    /// There is too much content to be measured.
    pub const CANNOT_BE_MEASURED: &str = "CannotBeMeasured";
    /// The content is within the quota.
    pub const WITHIN_QUOTA: &str = "WithinQuota";
    /// The quota is used up: nothing can be pushed.
    pub const USED_UP: &str = "UsedUp";
    /// The object is being deleted, and its content stays during a grace period.
    pub const GRACE_PERIOD: &str = "GracePeriod";
    /// Tokens that were issued before the deletion have not expired yet.
    pub const TOKENS_EXPIRE: &str = "TokensExpire";
    /// Root projects are granted no more than the ceiling.
    pub const WITHIN_CEILINGS: &str = "WithinCeilings";
    /// Root projects are granted more than the ceiling.
    pub const ABOVE_CEILING: &str = "AboveCeiling";
    /// The template is applied.
    pub const APPLIED: &str = "Applied";
    /// No template is referenced, and there is no default template.
    pub const NO_TEMPLATE: &str = "NoTemplate";
    /// The referenced template does not exist. What was applied before stays.
    pub const TEMPLATE_NOT_FOUND: &str = "TemplateNotFound";
    /// An older version of the template is applied until the rollout reaches this namespace.
    pub const WAITING_FOR_WAVE: &str = "WaitingForWave";
    /// A field of the project is not a valid value of a label or annotation.
    pub const INVALID_VALUE: &str = "InvalidValue";
    /// The objects of the template exceed the namespace's quota.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// The newest version is applied to all namespaces.
    pub const ROLLED_OUT: &str = "RolledOut";
    /// The newest version is being rolled out.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// An operator has paused the rollout.
    pub const PAUSED: &str = "Paused";
    /// The rollout has stopped because of failures.
    pub const STOPPED: &str = "Stopped";
    /// The cluster was reached, and no other name refers to it.
    pub const REGISTERED: &str = "Registered";
    /// Another name refers to the same cluster already.
    pub const SECOND_NAME: &str = "SecondName";
    /// The cluster was not reached yet.
    pub const NOT_SEEN: &str = "NotSeen";
    /// The directory does not list the cluster.
    pub const NOT_LISTED: &str = "NotListed";
    /// The directory lists the cluster without usable credentials.
    pub const UNUSABLE: &str = "KubeconfigUnusable";
    /// The newest credentials are in use.
    pub const CREDENTIALS_IN_USE: &str = "InUse";
    /// The newest credentials were refused. The previous ones are still in use.
    pub const CREDENTIALS_REFUSED: &str = "CredentialsRefused";
    /// The credentials in use expire soon.
    pub const CREDENTIALS_EXPIRING: &str = "CredentialsExpiring";
    /// The credentials in use have expired.
    pub const CREDENTIALS_EXPIRED: &str = "CredentialsExpired";
    /// Every tenant with root projects there has a ceiling there.
    pub const BOUNDED: &str = "Bounded";
    /// Tenants have root projects there without a ceiling.
    pub const UNBOUNDED: &str = "Unbounded";
    /// The cluster has grants or namespaces, which have to be removed first.
    pub const IN_USE: &str = "InUse";
    /// Ledger, objects and clusters agree.
    pub const CONSISTENT: &str = "Consistent";
    /// The audit found a difference.
    pub const INCONSISTENT: &str = "Inconsistent";
    /// The audit has found that the ledger differs from the sum of the objects.
    pub const LEDGER_DIFFERS: &str = "LedgerDiffers";
    /// Namespaces of member clusters have the project's marks but belong to no object.
    pub const ORPHANED: &str = "Orphaned";
}

/// One aspect of an object's current state (`metav1.Condition`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Its name.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// `metadata.generation` that it was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` last changed, RFC 3339.
    pub last_transition_time: String,
    /// Why, as one word.
    pub reason: String,
    /// Details for a person.
    pub message: String,
}

impl Condition {
    /// A condition without a time; [`set`] gives it one.
    pub fn new(type_: &str, status: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.to_owned(),
            status: status.to_owned(),
            observed_generation: None,
            last_transition_time: String::new(),
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// The same condition with its `observedGeneration`.
    #[must_use]
    pub fn at(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }

    /// Whether its status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == TRUE
    }
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Sets a condition in place of the one of its type. If the status does not change, the transition time stays.
/// `now` is RFC 3339.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition, now: &str) {
    if let Some(old) = conditions.iter_mut().find(|c| c.type_ == condition.type_) {
        let unchanged = old.status == condition.status && !old.last_transition_time.is_empty();
        condition.last_transition_time =
            if unchanged { std::mem::take(&mut old.last_transition_time) } else { now.to_owned() };
        *old = condition;
    } else {
        now.clone_into(&mut condition.last_transition_time);
        conditions.push(condition);
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conditions_time_changes_with_its_status_only() {
        let mut all = Vec::new();
        set(&mut all, Condition::new(READY, FALSE, reason::PENDING, "").at(1), "t1");
        set(&mut all, Condition::new(READY, FALSE, reason::UNREACHABLE, "no answer").at(2), "t2");
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].last_transition_time.as_str(), all[0].reason.as_str()), ("t1", "Unreachable"));
        set(&mut all, Condition::new(READY, TRUE, reason::READY, "").at(2), "t3");
        assert_eq!(all[0].last_transition_time, "t3");
        assert!(find(&all, READY).is_some_and(Condition::is_true));
    }
}
