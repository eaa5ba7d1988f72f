use super::*;
use crate::fixtures::server::BEGINNING;
use crate::fixtures::{NAMESPACE_UID, PROJECT_UID, amounts, pending};
use crate::seal::VerifiedSeal;

const HARD: &[(&str, &str)] = &[("pods", "3")];

fn verdict(object: &NamespaceView, found: &ObservedState) -> NamespaceVerdict {
    judged(object, found, false)
}

fn judged(object: &NamespaceView, found: &ObservedState, is_newest: bool) -> NamespaceVerdict {
    let forbidden = ["kube-*".to_owned()];
    validate(
        WantedNamespace {
            object,
            project_uid: PROJECT_UID,
            is_newest,
            forbidden: &forbidden,
            template_metadata: None,
        },
        found,
    )
}

fn plan(object: &NamespaceView, found: &ObservedState) -> Plan {
    match verdict(object, found) {
        NamespaceVerdict::Proceed(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn refusal(object: &NamespaceView, found: &ObservedState) -> NamespaceRefusal {
    match verdict(object, found) {
        NamespaceVerdict::Refuse(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn cause(plan: &Plan) -> MarkCause {
    match plan.namespace {
        NamespaceStep::Mark { cause, .. } => cause,
        ref other => panic!("{other:?}"),
    }
}

fn available() -> NamespaceView {
    pending(HARD).recorded(Provenance::Made)
}

#[test]
fn what_is_missing_is_created() {
    let plan = plan(&pending(HARD), &ObservedState::default());
    assert_eq!(plan.namespace, NamespaceStep::Create);
    assert_eq!(plan.quota, QuotaStep::Create);
}

#[test]
fn what_is_right_is_left_alone_whatever_the_spelling_of_amounts() {
    let object = pending(&[("requests.cpu", "1500m")]).recorded(Provenance::Made);
    let found = object.found().with_quota(|quota| quota.spec_hard = amounts(&[("requests.cpu", "1.5")]));
    assert!(plan(&object, &found).is_empty());
}

#[test]
fn a_quota_of_an_older_generation_is_written_anew_even_if_its_amounts_fit() {
    let old = available();
    let object = old.clone().asks(&[("pods", "5")]).asks(HARD);
    let plan = plan(&object, &old.found());
    assert!(
        matches!(plan.quota, QuotaStep::Update { cause: QuotaUpdateCause::SpecChanged, .. }),
        "a paused leader's write must conflict"
    );
}

#[test]
fn what_is_sealed_with_a_later_generation_is_not_overwritten_before_the_excess_is_held() {
    let object = available();
    let later = object.clone().asks(&[("pods", "9")]);
    let mut found = later.found();
    assert_eq!(verdict(&object, &found), NamespaceVerdict::Recheck);
    assert!(
        matches!(judged(&object, &found, true), NamespaceVerdict::Ahead { .. }),
        "9 may be in use, 3 are charged"
    );
    found.is_excess_reported = true;
    assert!(matches!(judged(&object, &found, true), NamespaceVerdict::Proceed(_)));
    let lower = object.clone().asks(&[("pods", "1")]).found();
    assert!(matches!(judged(&object, &lower, true), NamespaceVerdict::Proceed(_)), "3 are charged");
}

#[test]
fn what_is_sealed_with_more_than_is_charged_is_not_overwritten_before_the_excess_is_held() {
    let before = available().asks(&[("pods", "9")]);
    let (mut object, mut found) = (before.clone().asks(HARD), before.found());
    assert!(matches!(judged(&object, &found, true), NamespaceVerdict::Proceed(_)), "9 are charged");
    // The lower quota was enforced and confirmed before the cluster was restored.
    object.status.cached_spec_hard = Some(amounts(HARD));
    assert_eq!(verdict(&object, &found), NamespaceVerdict::Recheck);
    assert!(matches!(judged(&object, &found, true), NamespaceVerdict::Ahead { .. }));
    found.is_excess_reported = true;
    assert!(matches!(judged(&object, &found, true), NamespaceVerdict::Proceed(_)));
}

#[test]
fn drift_of_the_quota_is_repaired() {
    let object = available();
    let edited = object.found().with_quota(|quota| quota.spec_hard = amounts(&[("pods", "99")]));
    let unlabelled = object.found().with_quota(|quota| quota.marks.project = None);
    let unsealed = ObservedState { quota_seal: None, ..object.found() };
    for found in [edited, unlabelled, unsealed] {
        assert!(matches!(
            plan(&object, &found).quota,
            QuotaStep::Update { cause: QuotaUpdateCause::Drift, .. }
        ));
    }
    let deleted = ObservedState { quota: None, quota_seal: None, ..object.found() };
    assert_eq!(plan(&object, &deleted).quota, QuotaStep::Create);
}

#[test]
fn whatever_marks_say_the_record_decides() {
    let object = available();
    for strip in [
        |m: &mut ClusterNamespace| m.marks.project = None,
        |m: &mut ClusterNamespace| m.marks.namespace = None,
        |m: &mut ClusterNamespace| m.marks.project = Some("q".into()),
        |m: &mut ClusterNamespace| m.marks.uid = Some("made-up".into()),
        |m: &mut ClusterNamespace| m.marks.adopted = true,
        |m: &mut ClusterNamespace| m.marks = Marks::default(),
    ] {
        let found = ObservedState { namespace_seal: None, ..object.found() }.with_namespace(strip);
        let plan = plan(&object, &found);
        assert_eq!((cause(&plan), plan.origin), (MarkCause::Drift, Origin::Made));
        let only_marks = object.found().with_namespace(strip);
        assert_eq!(cause(&self::plan(&object, &only_marks)), MarkCause::Drift);
    }
}

#[test]
fn what_stands_in_the_way_is_not_touched_and_not_told_whose_it_is() {
    let object = pending(HARD);
    let theirs = object.found().foreign().with_namespace(|there| {
        there.marks.project = Some("secret-project".into());
        there.marks.uid = Some("secret-uid".into());
    });
    for (known, provenance) in [(false, None), (true, Some(Provenance::Foreign))] {
        let refusal = refusal(&object, &ObservedState { never_created: known, ..theirs.clone() });
        assert!(!refusal.message.contains("secret"), "{}", refusal.message);
        assert!(refusal.message.contains("business.tkestack.io/adopt=p/n"));
        assert_eq!(refusal.record.map(|record| record.provenance), provenance);
    }
}

#[test]
fn without_a_record_only_a_seal_shows_that_it_was_made_for_the_object() {
    let object = pending(HARD);
    let found = object.found();
    let place_owner = |found: &ObservedState| place_owner(&object, found.namespace.as_ref().unwrap(), found);
    assert_eq!(place_owner(&found), PlaceOwner::Ours(Origin::Made));
    let opened = |change: fn(&mut Sealed)| {
        let mut opened = VerifiedSeal { sealed: object.sealed(Origin::Made), is_current: true };
        change(&mut opened.sealed);
        ObservedState { namespace_seal: Some(opened), ..found.clone() }
    };
    assert_eq!(place_owner(&opened(|sealed| sealed.namespace_uid = None)), PlaceOwner::Ours(Origin::Made));
    assert_eq!(place_owner(&opened(|sealed| sealed.origin = Origin::Replaced)), PlaceOwner::Replaced);
    assert_eq!(place_owner(&opened(|sealed| sealed.object = "another".into())), PlaceOwner::Unclear);
    let unsealed = ObservedState { namespace_seal: None, ..found.clone() };
    assert_eq!(
        place_owner(&unsealed),
        PlaceOwner::Unclear,
        "an answer may have been lost, and the seal taken away"
    );
    assert_eq!(place_owner(&ObservedState { never_created: true, ..unsealed.clone() }), PlaceOwner::Foreign);
    let older = unsealed.with_namespace(|there| there.created = BEGINNING - 301);
    assert_eq!(place_owner(&older), PlaceOwner::Foreign, "it was there before the object");
}

#[test]
fn a_namespace_of_another_uid_than_is_on_record_is_a_replacement() {
    let object = available();
    let found = object.found().with_namespace(|there| there.uid = "theirs".into());
    let with_old_seals = ObservedState { namespace_seal: None, quota_seal: None, ..found };
    assert_eq!(verdict(&object, &with_old_seals), NamespaceVerdict::Recheck, "the record may be newer");
    let NamespaceVerdict::Proceed(plan) = judged(&object, &with_old_seals, true) else { panic!() };
    assert_eq!((cause(&plan), plan.origin), (MarkCause::Replacement, Origin::Replaced));
    let consent = |uid: &str| object.clone().annotated(names::DELETE_REPLACED_ANNOTATION, uid);
    let there = with_old_seals.namespace.clone().unwrap();
    assert_eq!(verdict(&consent("theirs"), &with_old_seals), NamespaceVerdict::DeleteReplaced { there });
    assert!(matches!(judged(&consent("another"), &with_old_seals, true), NamespaceVerdict::Proceed(_)));
    let agreed = with_old_seals.with_namespace(|there| there.adopt = Some("p/n".into()));
    assert_eq!(verdict(&object, &agreed), NamespaceVerdict::Adopt { uid: "theirs".into() });
}

#[test]
fn what_bears_a_seal_of_ours_with_its_own_uid_is_the_objects_although_another_is_on_record() {
    let mut object = available();
    object.status.cluster_namespace.as_mut().unwrap().uid = "before".into();
    let sealed = |change: fn(&mut Sealed)| {
        let mut opened = VerifiedSeal { sealed: object.sealed(Origin::Made), is_current: true };
        change(&mut opened.sealed);
        Some(opened)
    };
    let place_owner = |namespace_seal: Option<VerifiedSeal>, quota_seal: Option<VerifiedSeal>| {
        let found = ObservedState { namespace_seal, quota_seal, ..object.found() };
        place_owner(&object, found.namespace.as_ref().unwrap(), &found)
    };
    let copied = || sealed(|sealed| sealed.namespace_uid = None);
    let adopted = || sealed(|sealed| sealed.origin = Origin::Adopted);
    let replaced = || sealed(|sealed| sealed.origin = Origin::Replaced);
    assert_eq!(place_owner(copied(), sealed(|_| {})), PlaceOwner::Ours(Origin::Made));
    assert_eq!(place_owner(sealed(|_| {}), None), PlaceOwner::Ours(Origin::Made));
    assert_eq!(place_owner(adopted(), None), PlaceOwner::Ours(Origin::Adopted));
    assert_eq!(place_owner(copied(), None), PlaceOwner::Replaced, "it may be of the one before");
    let after = |uid: &'static str| {
        let mut sealed = object.sealed(Origin::Made);
        (sealed.namespace_uid, sealed.after) = (None, Some(uid.to_owned()));
        Some(VerifiedSeal { sealed, is_current: true })
    };
    assert_eq!(place_owner(after("before"), None), PlaceOwner::Ours(Origin::Made), "its answer was lost");
    assert_eq!(place_owner(after("before"), replaced()), PlaceOwner::Replaced);
    assert_eq!(place_owner(after("the one before that"), None), PlaceOwner::Replaced, "it is a copy");
    assert_eq!(place_owner(None, None), PlaceOwner::Replaced);
    assert_eq!(place_owner(None, sealed(|sealed| sealed.object = "another".into())), PlaceOwner::Replaced);
    assert_eq!(place_owner(replaced(), sealed(|_| {})), PlaceOwner::Replaced);
    assert_eq!(place_owner(sealed(|_| {}), replaced()), PlaceOwner::Replaced);
}

#[test]
fn an_existing_namespace_is_adopted_only_with_consent() {
    let object = pending(HARD);
    let there = object.found().foreign();
    assert_eq!(refusal(&object, &there).reason, "NamespaceConflict");
    let by_cluster = |consent: &str| there.clone().with_namespace(|there| there.adopt = Some(consent.into()));
    refusal(&object, &by_cluster("p/other"));
    let adopt = NamespaceVerdict::Adopt { uid: "theirs".into() };
    assert_eq!(verdict(&object, &by_cluster("p/n")), adopt);
    assert_eq!(verdict(&object.clone().annotated(names::ADOPT_ANNOTATION, "true"), &there), adopt);
    let mut adopted = object.recorded(Provenance::Adopted);
    adopted.status.cluster_namespace.as_mut().unwrap().uid = "theirs".into();
    assert_eq!(plan(&adopted, &there).origin, Origin::Adopted, "then it is marked");
}

/// An imported object, and what its former system has left in the cluster: labels and a quota without marks.
fn imported() -> (NamespaceView, ObservedState) {
    let mut object = pending(HARD);
    let found = ObservedState { namespace_seal: None, quota_seal: None, ..object.found() };
    let found = found
        .with_namespace(|there| {
            there.created = BEGINNING - 1_000_000;
            there.marks.uid = None;
        })
        .with_quota(|quota| quota.marks = Marks::default());
    object.status.cluster_namespace = Some(ClusterNamespaceRecord::imported());
    (object, found)
}

fn taken(provenance: Provenance) -> NamespaceVerdict {
    NamespaceVerdict::TakeOver { uid: NAMESPACE_UID.to_owned(), provenance }
}

#[test]
fn what_bears_the_labels_of_an_imported_object_is_taken_over_and_nothing_else() {
    let (object, found) = imported();
    assert_eq!(verdict(&object, &found), taken(Provenance::Made));
    assert_eq!(place_owner(&pending(HARD), found.namespace.as_ref().unwrap(), &found), PlaceOwner::Foreign);
    let unlabelled = found.clone().with_namespace(|there| there.marks = Marks::default());
    assert_eq!(refusal(&object, &unlabelled).record, None, "its labels may come back");
    let of_another = found.clone().with_namespace(|there| there.marks.project = Some("q".into()));
    refusal(&object, &of_another);
    for former in [Some("c0-web".to_owned()), None] {
        let renamed = found.clone().with_namespace(|there| there.marks.namespace = former);
        assert_eq!(verdict(&object, &renamed), taken(Provenance::Made), "the cluster had another name");
    }
    let consent = object.clone().annotated(names::ADOPT_ANNOTATION, "true");
    assert!(matches!(verdict(&consent, &unlabelled), NamespaceVerdict::Adopt { .. }));
    let mut sealed = object.sealed(Origin::Made);
    sealed.object = "another".into();
    let of_another =
        ObservedState { namespace_seal: Some(VerifiedSeal { sealed, is_current: true }), ..found };
    refusal(&object, &of_another);
    assert!(
        matches!(verdict(&object, &ObservedState::default()), NamespaceVerdict::Proceed(_)),
        "what is gone is made anew"
    );
}

/// It was taken over before, and a restore has removed that from its record.
#[test]
fn what_was_sealed_for_an_imported_object_is_taken_over_as_it_came_to_be_there() {
    let (object, found) = imported();
    let sealed = |origin| {
        let opened = VerifiedSeal { sealed: object.sealed(origin), is_current: true };
        ObservedState { namespace_seal: Some(opened), ..found.clone() }
    };
    for (origin, provenance) in [
        (Origin::Made, Provenance::Made),
        (Origin::Adopted, Provenance::Adopted),
        (Origin::Released, Provenance::Adopted),
    ] {
        assert_eq!(verdict(&object, &sealed(origin)), taken(provenance), "{origin:?}");
    }
    let replaced = sealed(Origin::Replaced);
    assert_eq!(plan(&object, &replaced).origin, Origin::Replaced, "it has our quota and is not the object's");
    let ended = object.clone().ending();
    let place_owner = |origin| place_owner(&ended, found.namespace.as_ref().unwrap(), &sealed(origin));
    assert_eq!(place_owner(Origin::Replaced), PlaceOwner::Replaced, "so it is not deleted without consent");
    assert_eq!(place_owner(Origin::Adopted), PlaceOwner::Ours(Origin::Adopted), "so it is released");
}

#[test]
fn what_the_cluster_lets_in_beyond_an_imported_charge_is_held_before_it_is_taken_over() {
    let (object, found) = imported();
    let found = found.with_quota(|quota| quota.spec_hard = amounts(&[("pods", "7")]));
    let mut more = found.clone().with_quota(|quota| *quota = quota.clone().enforced(&[("pods", "5")]));
    for found in [&found, &more] {
        assert!(matches!(verdict(&object, found), NamespaceVerdict::Ahead { .. }));
    }
    let consent = object.clone().annotated(names::ADOPT_ANNOTATION, "true");
    let mut unlabelled = more.clone().with_namespace(|there| there.marks = Marks::default());
    assert!(matches!(verdict(&consent, &unlabelled), NamespaceVerdict::Ahead { .. }), "by consent, too");
    for found in [&mut more, &mut unlabelled] {
        found.is_excess_reported = true;
    }
    assert!(matches!(verdict(&object, &more), NamespaceVerdict::TakeOver { .. }));
    assert!(matches!(verdict(&consent, &unlabelled), NamespaceVerdict::Adopt { .. }));
}

#[test]
fn a_namespace_that_is_being_deleted_is_waited_for() {
    let object = pending(HARD);
    let found = object.found().with_namespace(|there| {
        there.deleting = true;
        there.remaining = vec!["pods remain".into()];
    });
    let NamespaceVerdict::Wait(StatusInput { state: NamespaceState::NotActive { message }, record, .. }) =
        verdict(&object, &found)
    else {
        panic!()
    };
    assert!(message.contains("pods remain"));
    assert_eq!(record.map(|record| record.provenance), Some(Provenance::Made), "it is on record from now on");
}

#[test]
fn a_seal_that_could_be_newer_is_renewed_in_a_quiet_time_only() {
    let object = available();
    let older_key = |mut found: ObservedState| {
        for seal in [&mut found.namespace_seal, &mut found.quota_seal] {
            seal.as_mut().unwrap().is_current = false;
        }
        found
    };
    let mut without_uid = object.found();
    without_uid.namespace_seal.as_mut().unwrap().sealed.namespace_uid = None;
    for found in [older_key(object.found()), without_uid] {
        assert!(plan(&object, &found).is_empty());
        let quiet = plan(&object, &ObservedState { quiet: true, ..found });
        assert_eq!(cause(&quiet), MarkCause::Reseal);
    }
    let quiet = plan(&object, &ObservedState { quiet: true, ..older_key(object.found()) });
    assert!(matches!(quiet.quota, QuotaStep::Update { cause: QuotaUpdateCause::Reseal, .. }));
}

#[test]
fn forbidden_names_and_scoped_quotas_are_refused() {
    let mut object = available();
    let scoped = object.found().with_quota(|quota| quota.scoped = true);
    assert!(refusal(&object, &scoped).message.contains("scopes"));
    object.spec.namespace = "kube-system".into();
    assert!(refusal(&object, &ObservedState::default()).message.contains("kube-system"));
}
