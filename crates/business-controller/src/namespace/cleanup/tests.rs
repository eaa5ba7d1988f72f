use super::*;
use crate::fixtures::server::BEGINNING;
use crate::fixtures::{NAMESPACE_UID, pending};
use crate::member::marks::Marks;
use business_types::Provenance;

fn ending() -> NamespaceView {
    pending(&[]).recorded(Provenance::Made).ending()
}

fn blocked_by(step: &CleanupStep) -> &'static str {
    match step {
        CleanupStep::Blocked { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_on_record_is_deleted_whatever_its_marks_say() {
    let object = ending();
    let deleted = |found: &ObservedState| match decide(&object, found) {
        CleanupStep::Delete { there, origin } => (there.uid.clone(), origin),
        other => panic!("{other:?}"),
    };
    let made = (NAMESPACE_UID.to_owned(), Origin::Made);
    assert_eq!(deleted(&object.found()), made);
    assert_eq!(decide(&object, &ObservedState::default()), CleanupStep::Gone);
    let unsealed = ObservedState { namespace_seal: None, quota_seal: None, ..object.found() };
    assert_eq!(deleted(&unsealed.clone().with_namespace(|there| there.marks = Marks::default())), made);
    for lie in [
        |there: &mut ClusterNamespace| there.marks.adopted = true,
        |there: &mut ClusterNamespace| there.marks.project = Some("q".into()),
        |there: &mut ClusterNamespace| there.marks.uid = Some("another".into()),
    ] {
        assert_eq!(deleted(&unsealed.clone().with_namespace(lie)), made);
    }
}

#[test]
fn what_somebody_made_in_its_place_keeps_the_charge_until_an_operator_consents() {
    let object = ending();
    let found = object.found().foreign();
    let step = decide(&object, &found);
    assert_eq!(blocked_by(&step), reason::REPLACED);
    let consent = object.clone().annotated(names::DELETE_REPLACED_ANNOTATION, "theirs");
    assert!(
        matches!(decide(&consent, &found), CleanupStep::Delete { there, origin: Origin::Replaced } if there.uid == "theirs")
    );
    let other = object.annotated(names::DELETE_REPLACED_ANNOTATION, NAMESPACE_UID);
    assert_eq!(blocked_by(&decide(&other, &found)), reason::REPLACED, "consent is to one namespace");
}

#[test]
fn what_may_have_been_made_keeps_the_charge_and_what_was_not_does_not() {
    let object = pending(&[]).ending();
    let unsealed = ObservedState { namespace_seal: None, ..object.found() };
    assert_eq!(blocked_by(&decide(&object, &unsealed)), reason::UNCLEAR);
    assert!(matches!(decide(&object, &object.found()), CleanupStep::Delete { .. }), "its seal says so");
    assert_eq!(
        decide(&object, &ObservedState { never_created: true, ..unsealed.clone() }),
        CleanupStep::Gone
    );
    let older = unsealed.with_namespace(|there| there.created = BEGINNING - 1000);
    assert_eq!(decide(&object, &older), CleanupStep::Gone, "it was there before the object");
    let known = pending(&[]).recorded(Provenance::Foreign).ending();
    assert_eq!(decide(&known, &known.found()), CleanupStep::Gone);
}

#[test]
fn what_was_there_before_us_is_released_only_if_that_is_on_record() {
    let object = pending(&[]).recorded(Provenance::Adopted).ending();
    assert_eq!(decide(&object, &object.found()), CleanupStep::Release);
}

#[test]
fn a_namespace_that_is_going_is_waited_for_with_what_holds_it_up() {
    let object = ending();
    let going = object.found().with_namespace(|there| {
        there.deleting = true;
        there.remaining = vec!["a pod".into()];
    });
    assert_eq!(decide(&object, &going), CleanupStep::Wait { remaining: vec!["a pod".into()] });
}

#[test]
fn a_charge_that_was_never_taken_is_no_confirmation() {
    let mut object = ending();
    assert!(!is_confirmed(&object));
    object.status = status::next(&object, &NamespaceState::Gone.into(), "now");
    assert!(is_confirmed(&object));
}

#[test]
fn giving_up_needs_a_reason() {
    let object = ending();
    assert!(!is_abandoned(&object));
    assert!(!is_abandoned(&object.clone().annotated(names::ABANDON_ANNOTATION, "")));
    assert!(is_abandoned(&object.annotated(names::ABANDON_ANNOTATION, "cluster lost")));
}
