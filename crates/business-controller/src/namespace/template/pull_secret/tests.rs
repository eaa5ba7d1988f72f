use super::*;
use crate::fixtures::{PROJECT_UID, pending};
use business_types::{AppliedTemplate, PullPassword};

const NOW: i64 = 1_767_225_600;
const HOST: &str = "registry.example";
const DAY: i64 = 86_400;

fn order() -> PullOrder {
    PullOrder { template: Some("standard".into()), names: vec!["web".into()], valid_days: Some(30) }
}

fn issued(at: i64) -> NamespaceView {
    let mut object = pending(&[]);
    let newest = PullPassword {
        hash: "ab".into(),
        issued_at: meta::time::rfc3339(at),
        expires_at: meta::time::rfc3339(at + 30 * DAY),
    };
    object.status.pull_credential = Some(PullCredential {
        username: "p/namespaces/n".into(),
        project_uid: PROJECT_UID.into(),
        names: vec!["web".into()],
        passwords: vec![newest],
    });
    object
}

fn secret(object: &NamespaceView) -> PullSecret {
    PullSecret {
        template: "standard".into(),
        object: object.uid.clone(),
        password: "ab".into(),
        registry: HOST.into(),
        held: true,
        ..PullSecret::default()
    }
}

fn is_right(object: &NamespaceView, secret: &PullSecret, order: &PullOrder) -> bool {
    let (host, secret) = (HOST, Some(secret));
    PullSight { object, project_uid: PROJECT_UID, host, secret, now: NOW }.is_right(order)
}

#[test]
fn a_secret_is_right_as_it_was_written_and_not_for_ever() {
    let object = issued(NOW - 14 * DAY);
    assert!(is_right(&object, &secret(&object), &order()));
    assert!(!is_right(&issued(NOW - 20 * DAY), &secret(&object), &order()), "it is old");
    let changes: [fn(&mut PullSecret); 6] = [
        |secret| secret.held = false,
        |secret| secret.deleting = true,
        |secret| secret.object = "another".into(),
        |secret| secret.password = "another".into(),
        |secret| secret.registry = "another".into(),
        |secret| secret.template = "another".into(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = secret(&object);
        change(&mut changed);
        assert!(!is_right(&object, &changed, &order()), "{number}");
    }
    let other_images = PullOrder { names: Vec::new(), ..order() };
    assert!(!is_right(&object, &secret(&object), &other_images));
    let any_template = PullOrder { template: None, ..order() };
    assert!(is_right(&object, &secret(&object), &any_template));
    let mut elsewhere = object.clone();
    elsewhere.key.project = "q".into();
    assert!(!is_right(&elsewhere, &secret(&object), &order()), "it was issued in another project");
    let again = PullOrder::again(object.status.pull_credential.as_ref().unwrap());
    assert_eq!(again, PullOrder { template: None, ..order() });
}

#[test]
fn namespaces_do_not_all_come_at_once() {
    let life = PullPassword {
        hash: String::new(),
        issued_at: meta::time::rfc3339(NOW),
        expires_at: meta::time::rfc3339(NOW + 30 * DAY),
    };
    let mut due: Vec<i64> = (0..1000)
        .map(|number| life.is_due_at(spread(&format!("00000000-0000-4000-8000-{number:012x}"))))
        .collect();
    due.sort_unstable();
    assert!(due[0] >= NOW + 15 * DAY && due[999] < NOW + 20 * DAY);
    let busiest = due.windows(50).map(|some| some[49] - some[0]).min().unwrap();
    assert!(busiest > 3600, "fifty of a thousand within {busiest} s");
}

#[test]
fn what_is_wrong_with_it_is_told_beside_all_else() {
    let applied = AppliedTemplate { name: "standard".into(), digest: "1".into() };
    let mut object = pending(&[]);
    object.status.template = Some(applied.clone());
    let undone = |message: &str| Undone { message: message.to_owned(), retry: true, ..Undone::default() };
    let trouble = || PullTrouble::Undone(undone("pull"));
    let told = |state: TemplateState| match state.with_pull_secret(trouble(), &object) {
        TemplateState::Undone { state, undone } => (state, undone.message),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(TemplateState::Applied(applied.clone())), (Some(applied.clone()), "pull".into()));
    assert_eq!(told(TemplateState::Waiting("standard".into())), (Some(applied.clone()), "pull".into()));
    let first = TemplateState::Undone { state: None, undone: undone("limits") };
    assert_eq!(told(first), (None, "limits; pull".into()));
    let unseen = TemplateState::Applied(applied.clone()).with_pull_secret(PullTrouble::Unseen, &object);
    assert!(unseen.lets_begin() && unseen == TemplateState::ButPullSecret(applied.clone()));
    let fine = TemplateState::Applied(applied.clone()).with_pull_secret(PullTrouble::None, &object);
    assert_eq!(fine, TemplateState::Applied(applied));
}
