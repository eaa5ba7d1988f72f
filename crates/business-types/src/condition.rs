use serde::{Deserialize, Serialize};

/// Everything is as the spec asks for; what `kubectl wait --for=condition=Ready` waits for.
pub const READY: &str = "Ready";
/// The member cluster enforces exactly what is granted, and use is not above it.
pub const QUOTA_ENFORCED: &str = "QuotaEnforced";
/// The namespace and its `ResourceQuota` exist in the member cluster and are ours.
pub const PROVISIONED: &str = "Provisioned";
/// The member cluster answers.
pub const CLUSTER_REACHABLE: &str = "ClusterReachable";
/// The object is being deleted; the message says what remains.
pub const TERMINATING: &str = "Terminating";
/// Somebody has made another namespace in the place of ours in the member cluster.
pub const REPLACED: &str = "Replaced";
/// Everybody who has a role may use the namespace in the member cluster, and our bindings let in nobody else.
pub const ACCESS_READY: &str = "AccessReady";
/// Somebody may use the namespace in the member cluster by bindings that are not ours.
pub const OTHER_ACCESS: &str = "OtherAccess";
/// The namespace was moved to another project, and the member cluster says so, too.
pub const TRANSFERRED: &str = "Transferred";
/// The registry answers.
pub const REGISTRY_REACHABLE: &str = "RegistryReachable";
/// What is kept in the registry is no more than may be.
pub const WITHIN_QUOTA: &str = "WithinQuota";
/// No root project has more of a cluster than the tenant may be granted.
pub const WITHIN_CEILINGS: &str = "WithinCeilings";
/// A member cluster has answered under its name, and its name alone.
pub const REGISTERED: &str = "Registered";
/// The member cluster answers: the condition of the `MemberCluster` itself.
pub const ANSWERS: &str = "Reachable";
/// Every tenant with root projects in a member cluster has a ceiling there.
pub const BOUNDED: &str = "Bounded";
/// What may be granted of a member cluster follows its nodes, where it is derived from them.
pub const CAPACITY_DERIVED: &str = "CapacityDerived";
/// The newest credentials of a member cluster are in use, and do not end soon.
pub const CREDENTIALS_VALID: &str = "CredentialsValid";
/// The content of the namespace's template is in the member cluster.
pub const TEMPLATE_APPLIED: &str = "TemplateApplied";
/// The newest state of a template is in every namespace that has it.
pub const ROLLED_OUT: &str = "RolledOut";
/// Ledger, objects and member clusters agree.
pub const QUOTA_CONSISTENT: &str = "QuotaConsistent";

/// The condition holds.
pub const TRUE: &str = "True";
/// The condition does not hold.
pub const FALSE: &str = "False";
/// It cannot be said.
pub const UNKNOWN: &str = "Unknown";

/// Reasons that both programs and their tests name.
pub mod reason {
    /// Nothing is missing.
    pub const READY: &str = "Ready";
    /// What was derived follows the nodes.
    pub const DERIVED: &str = "Derived";
    /// The nodes of the member cluster cannot be read.
    pub const NODES_UNKNOWN: &str = "NodesUnknown";
    /// Nothing was done yet.
    pub const PENDING: &str = "Pending";
    /// Written to the member cluster, and not seen enforced yet.
    pub const PROVISIONING: &str = "Provisioning";
    /// Namespace and quota are there.
    pub const PROVISIONED: &str = "Provisioned";
    /// The member cluster's quota admission counts with what was written.
    pub const ENFORCED: &str = "Enforced";
    /// The member cluster's quota admission does not count with it yet.
    pub const NOT_ENFORCED: &str = "NotEnforced";
    /// Use in the member cluster is still above the granted amount, and is charged until it has fallen.
    pub const USED_ABOVE_HARD: &str = "UsedAboveHard";
    /// The member cluster answers.
    pub const REACHABLE: &str = "Reachable";
    /// The member cluster does not answer.
    pub const UNREACHABLE: &str = "Unreachable";
    /// The member cluster is not in the directory, which is the same as unreachable: never gone.
    pub const CLUSTER_UNKNOWN: &str = "ClusterUnknown";
    /// The namespace is missing in the member cluster.
    pub const NAMESPACE_NOT_FOUND: &str = "NamespaceNotFound";
    /// The namespace in the member cluster belongs to somebody else.
    pub const NAMESPACE_CONFLICT: &str = "NamespaceConflict";
    /// Another namespace stands in the place of ours in the member cluster. It keeps what is charged.
    pub const REPLACED: &str = "Replaced";
    /// It cannot be told whether the namespace in the member cluster was made for the object: it keeps what is charged.
    pub const UNCLEAR: &str = "NamespaceUnclear";
    /// The namespace that was made for the object stands at its place again, or nothing does.
    pub const IN_PLACE: &str = "InPlace";
    /// The member cluster enforces a grant that is newer than the object: the database was restored.
    pub const AHEAD: &str = "AheadOfObject";
    /// What is charged is held until the namespace, which stays, is unused.
    pub const RELEASED: &str = "Released";
    /// The namespace in the member cluster is being deleted.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The bindings name exactly those who may use the namespace.
    pub const GRANTED: &str = "Granted";
    /// Somebody who may use the namespace cannot be named in a member cluster.
    pub const UNNAMEABLE: &str = "Unnameable";
    /// A project above, whose people have roles here, is not known.
    pub const PARENT_UNKNOWN: &str = "ParentUnknown";
    /// Bindings that are not ours name somebody.
    pub const OTHER_BINDINGS: &str = "OtherBindings";
    /// The bindings that were there before are gone.
    pub const NONE_SEEN: &str = "NoneSeen";
    /// The member cluster refused a write.
    pub const REFUSED: &str = "Refused";
    /// The marks in the member cluster may still be those of the project before.
    pub const FORMER_MARKS: &str = "FormerMarks";
    /// The marks in the member cluster are those of the project.
    pub const MARKED: &str = "Marked";
    /// Children are being deleted first.
    pub const WAITING_FOR_CHILDREN: &str = "WaitingForChildren";
    /// What is left in member clusters still counts, or still bears our marks.
    pub const AMOUNTS_HELD: &str = "AmountsHeld";
    /// The cluster's namespace still has content.
    pub const CONTENT_REMAINING: &str = "ContentRemaining";
    /// The project or namespace is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The controller has no registry to work with.
    pub const NO_REGISTRY: &str = "NoRegistry";
    /// The registry has something at the place that is not the object's.
    pub const REGISTRY_CONFLICT: &str = "RegistryConflict";
    /// What the registry had for the object is not there any more.
    pub const REGISTRY_LOST: &str = "RegistryLost";
    /// Locked by an operator.
    pub const LOCKED: &str = "Locked";
    /// Locked in the registry itself.
    pub const LOCKED_IN_REGISTRY: &str = "LockedInRegistry";
    /// What is kept was not measured yet.
    pub const NOT_MEASURED: &str = "NotMeasured";
    /// There is more than can be measured.
    pub const CANNOT_BE_MEASURED: &str = "CannotBeMeasured";
    /// No more is kept than may be.
    pub const WITHIN_QUOTA: &str = "WithinQuota";
    /// As much is kept as may be: nothing can be pushed.
    pub const USED_UP: &str = "UsedUp";
    /// It is being deleted, and its content stays for a while.
    pub const GRACE_PERIOD: &str = "GracePeriod";
    /// What was allowed before it was deleted may still be done.
    pub const TOKENS_EXPIRE: &str = "TokensExpire";
    /// Root projects are granted no more than the ceiling.
    pub const WITHIN_CEILINGS: &str = "WithinCeilings";
    /// Root projects are granted more than the ceiling.
    pub const ABOVE_CEILING: &str = "AboveCeiling";
    /// What the template says is in place.
    pub const APPLIED: &str = "Applied";
    /// Nobody names a template, and none is the default.
    pub const NO_TEMPLATE: &str = "NoTemplate";
    /// The template that is named does not exist: what was in place stays.
    pub const TEMPLATE_NOT_FOUND: &str = "TemplateNotFound";
    /// A state before the newest is in place, until it is this namespace's turn.
    pub const WAITING_FOR_WAVE: &str = "WaitingForWave";
    /// What the project says cannot be the value of a label or annotation.
    pub const INVALID_VALUE: &str = "InvalidValue";
    /// The namespace's own quota leaves no room for what the template puts there.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// The newest state is in every namespace.
    pub const ROLLED_OUT: &str = "RolledOut";
    /// The newest state is on its way.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// An operator has paused it.
    pub const PAUSED: &str = "Paused";
    /// It has failed somewhere, and goes no further.
    pub const STOPPED: &str = "Stopped";
    /// The cluster has answered, and no other name stands for it.
    pub const REGISTERED: &str = "Registered";
    /// Another name stands for the same cluster already.
    pub const SECOND_NAME: &str = "SecondName";
    /// The cluster has not answered yet.
    pub const NOT_SEEN: &str = "NotSeen";
    /// The directory does not list the cluster.
    pub const NOT_LISTED: &str = "NotListed";
    /// The directory lists the cluster without usable credentials.
    pub const UNUSABLE: &str = "KubeconfigUnusable";
    /// The newest credentials are in use.
    pub const CREDENTIALS_IN_USE: &str = "InUse";
    /// The newest credentials are not used: those before them go on.
    pub const CREDENTIALS_REFUSED: &str = "CredentialsRefused";
    /// The credentials in use end soon.
    pub const CREDENTIALS_EXPIRING: &str = "CredentialsExpiring";
    /// The credentials in use have ended.
    pub const CREDENTIALS_EXPIRED: &str = "CredentialsExpired";
    /// Every tenant there has a ceiling there.
    pub const BOUNDED: &str = "Bounded";
    /// Tenants have root projects there without a ceiling.
    pub const UNBOUNDED: &str = "Unbounded";
    /// What is granted of it, or lives in it, has to go first.
    pub const IN_USE: &str = "InUse";
    /// Ledger, objects and clusters agree.
    pub const CONSISTENT: &str = "Consistent";
    /// The audit found a difference.
    pub const INCONSISTENT: &str = "Inconsistent";
    /// The audit of the ledger found that it is not what the objects add up to.
    pub const LEDGER_DIFFERS: &str = "LedgerDiffers";
    /// Namespaces of member clusters are marked as the project's and belong to no object.
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

    /// The same, computed from this generation.
    #[must_use]
    pub fn at(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }

    /// Whether it holds.
    pub fn is_true(&self) -> bool {
        self.status == TRUE
    }
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Puts a condition in the place of the one of its type. Its transition time stays when its status does.
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
