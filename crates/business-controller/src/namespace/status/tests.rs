use super::*;
use crate::fixtures::{amounts, pending};
use crate::member::recount::UsageRecount;
use crate::namespace::access_state::OmittedSubjects;
use crate::namespace::confirm;
use crate::namespace::verdict::record_of;
use crate::seal::Origin;
use business_types::Provenance;
use business_types::condition::find;
use std::sync::Arc;

const NOW: &str = "2026-01-02T03:04:05Z";
const LATER: &str = "2026-01-02T04:00:00Z";

fn with(object: &NamespaceView, quota: ClusterQuota) -> Provisioned {
    let is_enforced = confirm::is_enforced(object, &quota, Some(&object.sealed(Origin::Made)));
    let enforced = if is_enforced { Enforcement::Enforced } else { Enforcement::Pending };
    let (quota, template) = (Arc::new(quota), TemplateState::None);
    Provisioned { quota, enforced, charge: None, marked: true, others: None, template, revokes_pull: false }
}

fn provisioned(object: &NamespaceView, quota: ClusterQuota) -> StatusInput {
    let access = AccessState::Granted(OmittedSubjects::default());
    StatusInput { access, ..NamespaceState::Provisioned(with(object, quota)).into() }
}

fn shown(status: &NamespaceStatus, type_: &str) -> (String, String) {
    let condition = find(&status.conditions, type_).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

#[test]
fn a_namespace_is_available_at_once_and_enforced_when_seen() {
    let mut object = pending(&[("pods", "3")]);
    let status = next(&object, &provisioned(&object, object.quota()), NOW);
    assert_eq!(status.phase, NamespacePhase::Available);
    assert_eq!(status.last_transition_time.as_deref(), Some(NOW));
    assert_eq!(shown(&status, READY), ("True".into(), "Ready".into()));
    assert_eq!(shown(&status, QUOTA_ENFORCED), ("False".into(), "NotEnforced".into()));
    object.status = status;
    let status = next(&object, &provisioned(&object, object.quota().enforced(&[("pods", "1")])), LATER);
    assert_eq!(shown(&status, QUOTA_ENFORCED), ("True".into(), "Enforced".into()));
    assert_eq!(status.used, amounts(&[("pods", "1")]));
    assert_eq!(status.last_transition_time.as_deref(), Some(NOW));
    object.status = status.clone();
    let quiet = next(
        &object,
        &provisioned(&object, object.quota().enforced(&[("pods", "1")])),
        "2027-01-01T00:00:00Z",
    );
    assert_eq!(quiet, status, "nothing new is nothing to write");
}

#[test]
fn figures_stay_until_a_new_quota_was_counted_and_go_when_nothing_is_limited() {
    let mut object = pending(&[("pods", "3")]);
    object.status = next(&object, &provisioned(&object, object.quota().enforced(&[("pods", "2")])), NOW);
    let status = next(&object, &provisioned(&object, object.quota()), LATER);
    assert_eq!(status.used, amounts(&[("pods", "2")]));
    let object = object.asks(&[]);
    let status = next(&object, &provisioned(&object, object.quota()), LATER);
    assert_eq!(status.used, ResourceList::new());
}

#[test]
fn an_unreachable_cluster_is_said_once_and_leaves_the_phase_alone() {
    let mut object = pending(&[("pods", "3")]);
    object.status = next(&object, &provisioned(&object, object.quota()), NOW);
    let silence: StatusInput = NamespaceState::Unreachable {
        reason: reason::UNREACHABLE,
        message: "cluster c1 has not answered".into(),
    }
    .into();
    let status = next(&object, &silence, LATER);
    assert_eq!(status.phase, NamespacePhase::Available);
    assert_eq!(shown(&status, CLUSTER_REACHABLE), ("False".into(), "Unreachable".into()));
    assert_eq!(find(&status.conditions, CLUSTER_REACHABLE).unwrap().last_transition_time, LATER);
    assert_eq!(shown(&status, READY).0, "Unknown");
    assert_eq!(shown(&status, ACCESS_READY), ("Unknown".into(), "Unreachable".into()));
    object.status = status.clone();
    assert_eq!(next(&object, &silence, "2027-01-01T00:00:00Z"), status, "its age is in the transition time");
    let heard = StatusInput { access: AccessState::Unknown, ..provisioned(&object, object.quota()) };
    let heard = next(&object, &heard, LATER);
    assert_eq!(shown(&heard, ACCESS_READY), ("Unknown".into(), "Pending".into()), "it answers again");
}

#[test]
fn a_pending_namespace_of_an_unreachable_cluster_says_why() {
    let silence: StatusInput = NamespaceState::Unreachable {
        reason: reason::CLUSTER_UNKNOWN,
        message: "not in the directory".into(),
    }
    .into();
    let status = next(&pending(&[]), &silence, NOW);
    assert_eq!((status.phase, status.reason.as_str()), (NamespacePhase::Pending, "ClusterUnknown"));
    let object = NamespaceView { status, ..pending(&[]) };
    let healed = next(&object, &provisioned(&object, object.quota()), LATER);
    assert_eq!(
        (healed.phase, healed.reason.as_str(), healed.message.as_str()),
        (NamespacePhase::Available, "", "")
    );
}

#[test]
fn a_refusal_is_shown_and_forgotten_when_it_is_over() {
    let mut object = pending(&[]);
    let refused = NamespaceState::Refused { reason: reason::NAMESPACE_CONFLICT, message: "not ours".into() };
    object.status = next(&object, &refused.into(), NOW);
    assert_eq!((object.status.phase, object.status.message.as_str()), (NamespacePhase::Failed, "not ours"));
    let healed = next(&object, &provisioned(&object, object.quota()), LATER);
    assert_eq!((healed.phase, healed.message.as_str()), (NamespacePhase::Available, ""));
}

#[test]
fn a_locked_namespace_stays_locked_and_a_terminating_one_terminating() {
    for phase in [NamespacePhase::Locked, NamespacePhase::Terminating] {
        let mut object = pending(&[]);
        object.status.phase = phase;
        assert_eq!(next(&object, &provisioned(&object, object.quota()), NOW).phase, phase);
    }
}

#[test]
fn the_charge_is_changed_by_a_confirmation_only() {
    let object = pending(&[("pods", "9")]).asks(&[("pods", "2")]);
    let quota = object.quota().enforced(&[("pods", "0")]);
    let before = next(&object, &provisioned(&object, quota.clone()), NOW);
    assert_eq!(before.cached_spec_hard, Some(amounts(&[("pods", "9")])));
    assert_eq!(shown(&before, QUOTA_ENFORCED).0, "False");
    let charge =
        confirm::charge(&object, &quota, Some(&object.sealed(Origin::Made)), &UsageRecount::Complete);
    let after = next(
        &object,
        &NamespaceState::Provisioned(Provisioned { charge, ..with(&object, quota) }).into(),
        NOW,
    );
    assert_eq!(after.cached_spec_hard, Some(amounts(&[("pods", "2")])));
    assert_eq!(after.observed_generation, Some(2));
    assert_eq!(shown(&after, QUOTA_ENFORCED).0, "True");
}

#[test]
fn why_more_is_charged_than_is_in_use_is_said_the_same_way_until_it_is_over() {
    let mut object = pending(&[("pods", "9")]).asks(&[("pods", "2")]);
    let counting = |object: &NamespaceView| Provisioned {
        enforced: Enforcement::AwaitingRecount,
        charge: Some(amounts(&[("pods", "5")])),
        ..with(object, object.quota().enforced(&[("pods", "0")]))
    };
    object.status = next(&object, &NamespaceState::Provisioned(counting(&object)).into(), NOW);
    let told = find(&object.status.conditions, QUOTA_ENFORCED).unwrap();
    assert_eq!((told.reason.as_str(), told.message.as_str()), ("NotEnforced", COUNTING));
    let later = next(&object, &NamespaceState::Provisioned(counting(&object)).into(), LATER);
    assert_eq!(later, object.status, "nothing new is nothing to write");
}

#[test]
fn what_is_in_use_beyond_the_charge_is_not_said_to_be_charged() {
    let object = pending(&[("pods", "9")]).asks(&[("pods", "2")]);
    let message = |used: &str| {
        let quota = object.quota().enforced(&[("pods", used)]);
        let status = next(&object, &provisioned(&object, quota), NOW);
        assert_eq!(shown(&status, QUOTA_ENFORCED), ("False".into(), "UsedAboveHard".into()));
        find(&status.conditions, QUOTA_ENFORCED).unwrap().message.clone()
    };
    assert_eq!(message("9"), CHARGED);
    assert_eq!(message("10"), UNCHARGED);
}

#[test]
fn a_namespace_that_is_gone_costs_nothing() {
    let object = pending(&[("pods", "9")]).ending();
    let status = next(&object, &NamespaceState::Gone.into(), NOW);
    assert_eq!(status.cached_spec_hard, Some(ResourceList::new()));
    assert_eq!(status.phase, NamespacePhase::Terminating);
}

#[test]
fn a_replacement_is_shown_until_ours_is_there_again_and_the_record_stays() {
    let mut object = pending(&[("pods", "3")]).recorded(Provenance::Made);
    let record = object.status.cluster_namespace.clone();
    let quota = with(&object, object.quota());
    let replaced = NamespaceState::Replaced { quota, message: "another one".into() };
    object.status =
        next(&object, &StatusInput { record: record_of("theirs", Origin::Replaced), ..replaced.into() }, NOW);
    assert_eq!((object.status.phase, object.status.reason.as_str()), (NamespacePhase::Failed, "Replaced"));
    assert_eq!(shown(&object.status, REPLACED), ("True".into(), "Replaced".into()));
    assert_eq!(shown(&object.status, READY).0, "False");
    assert_eq!(object.status.cluster_namespace, record);
    let back = StatusInput { record: record_of("new", Origin::Made), ..provisioned(&object, object.quota()) };
    let status = next(&object, &back, LATER);
    assert_eq!(shown(&status, REPLACED), ("False".into(), "InPlace".into()));
    assert_eq!(status.cluster_namespace.map(|record| record.uid).as_deref(), Some("new"));
}
