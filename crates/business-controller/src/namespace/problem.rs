//! Problems of a namespace for which an operator has to look at its cluster; pure.

use super::kind::NamespaceView;
use business_types::NamespacePhase;
use business_types::condition::{self, CLUSTER_REACHABLE, FALSE, PROVISIONED, QUOTA_ENFORCED, reason};

/// What takes longer than this does not end by itself, in seconds.
const LONG: i64 = 15 * 60;

/// A problem of a namespace. A cluster that does not answer is reported for the cluster, not for each namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceProblem {
    /// Its cluster refuses the namespace or the quota.
    Refused,
    /// It cannot be provisioned, for a reason that its owner can read and resolve.
    Failed,
    /// Its quota is written, but its cluster has not enforced it for long.
    Unenforced,
    /// It has been terminating for long, and is still charged.
    Terminating,
}

impl NamespaceProblem {
    pub const ALL: [Self; 4] = [Self::Refused, Self::Failed, Self::Unenforced, Self::Terminating];

    /// The label for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unenforced => "unenforced",
            Self::Terminating => "terminating",
        }
    }

    /// The problem of a namespace, if it has one. `now` is in seconds since 1970.
    pub fn of(object: &NamespaceView, now: i64) -> Option<Self> {
        let status = &object.status;
        let denied = |type_| condition::find(&status.conditions, type_).filter(|told| told.status == FALSE);
        if denied(CLUSTER_REACHABLE).is_some() {
            return None;
        }
        if object.is_deleting() {
            let is_charged = status.cached_spec_hard.as_ref().is_some_and(|charge| !charge.is_empty());
            return (is_charged && object.has_been_going(LONG, now)).then_some(Self::Terminating);
        }
        if denied(PROVISIONED).is_some_and(|told| told.reason == reason::REFUSED) {
            return Some(Self::Refused);
        }
        if status.phase == NamespacePhase::Failed {
            return Some(Self::Failed);
        }
        let pending = denied(QUOTA_ENFORCED).filter(|told| told.reason == reason::NOT_ENFORCED)?;
        let since = meta::time::parse(&pending.last_transition_time).ok()?;
        (now.saturating_sub(since) >= LONG).then_some(Self::Unenforced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pending;
    use crate::fixtures::server::BEGINNING;
    use crate::namespace::status;
    use crate::namespace::verdict::NamespaceState;
    use business_types::Condition;
    use meta::quantity::ResourceList;

    fn with(mut object: NamespaceView, type_: &str, why: &str) -> NamespaceView {
        let condition = Condition::new(type_, FALSE, why, "");
        condition::set(&mut object.status.conditions, condition, &meta::time::rfc3339(BEGINNING));
        object
    }

    /// The problem at once, and after a long time.
    fn seen(object: &NamespaceView) -> [Option<NamespaceProblem>; 2] {
        [0, LONG].map(|seconds| NamespaceProblem::of(object, BEGINNING + seconds))
    }

    #[test]
    fn what_passes_by_itself_is_no_trouble_until_it_has_taken_long() {
        let object = || pending(&[("pods", "3")]);
        assert_eq!(seen(&object()), [None, None]);
        let unenforced = with(object(), QUOTA_ENFORCED, reason::NOT_ENFORCED);
        assert_eq!(seen(&unenforced), [None, Some(NamespaceProblem::Unenforced)]);
        let above = with(object(), QUOTA_ENFORCED, reason::USED_ABOVE_HARD);
        assert_eq!(seen(&above), [None, None], "its owner uses more than he asks for now");
        let mut going = object().ending();
        assert_eq!(seen(&going), [None, Some(NamespaceProblem::Terminating)]);
        going.status.cached_spec_hard = Some(ResourceList::new());
        assert_eq!(seen(&going), [None, None], "it is gone from its cluster");
        for silent in [unenforced, object().ending()] {
            assert_eq!(seen(&with(silent, CLUSTER_REACHABLE, reason::UNREACHABLE)), [None, None]);
        }
    }

    #[test]
    fn what_a_cluster_refuses_is_another_thing_than_what_an_owner_can_end() {
        for (reason, problem) in [
            (reason::REFUSED, NamespaceProblem::Refused),
            (reason::NAMESPACE_CONFLICT, NamespaceProblem::Failed),
        ] {
            let mut object = pending(&[("pods", "3")]);
            let refused = NamespaceState::Refused { reason, message: "no".into() };
            object.status = status::next(&object, &refused.into(), &meta::time::rfc3339(BEGINNING));
            assert_eq!(seen(&object), [Some(problem); 2], "{reason}");
        }
    }
}
