use super::*;
use crate::fixtures::pending;

#[test]
fn only_what_is_ours_is_deleted() {
    let object = pending(&[]).ending();
    let ours = object.in_cluster();
    assert_eq!(decide(&object, Some(&ours)), Step::Delete { uid: "cluster-uid".into() });
    assert_eq!(decide(&object, None), Step::Gone);

    let mut unlabelled = ours.clone();
    unlabelled.marks.project = None;
    assert_eq!(decide(&object, Some(&unlabelled)), Step::Delete { uid: "cluster-uid".into() });

    let mut foreign = ours.clone();
    foreign.marks.uid = Some("another".into());
    assert_eq!(
        decide(&object, Some(&foreign)),
        Step::Gone,
        "never provisioned, or made anew by somebody else"
    );

    let mut unmarked = ours.clone();
    unmarked.marks = crate::member::observed::Marks::default();
    assert_eq!(decide(&object, Some(&unmarked)), Step::Gone);

    let mut taken = ours;
    taken.marks.project = Some("q".into());
    assert!(matches!(decide(&object, Some(&taken)), Step::Blocked(message) if message.contains("project q")));
}

#[test]
fn what_was_there_before_us_is_given_back() {
    let object = pending(&[]).ending();
    let adopted = ClusterNamespace { adopted: true, ..object.in_cluster() };
    assert_eq!(decide(&object, Some(&adopted)), Step::Release);
}

#[test]
fn a_namespace_that_is_going_is_waited_for_with_what_holds_it_up() {
    let object = pending(&[]).ending();
    let going = ClusterNamespace { deleting: true, remaining: vec!["a pod".into()], ..object.in_cluster() };
    assert_eq!(decide(&object, Some(&going)), Step::Wait { remaining: vec!["a pod".into()] });
}

#[test]
fn a_charge_that_was_never_taken_is_no_confirmation() {
    let mut object = pending(&[]).ending();
    assert!(!is_confirmed(&object));
    object.status = status::next(&object, &Situation::Gone, "now");
    assert!(is_confirmed(&object));
}

#[test]
fn giving_up_needs_a_reason() {
    let mut object = pending(&[]).ending();
    assert!(!is_abandoned(&object));
    object.annotations.insert(names::ABANDON_ANNOTATION.into(), String::new());
    assert!(!is_abandoned(&object));
    object.annotations.insert(names::ABANDON_ANNOTATION.into(), "cluster lost".into());
    assert!(is_abandoned(&object));
}
