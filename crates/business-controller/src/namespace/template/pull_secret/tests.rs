use super::*;
use crate::fixtures::{PROJECT_UID, pending};
use business_types::{AppliedTemplate, PullPassword};

const NOW: i64 = 1_767_225_600;
const HOST: &str = "registry.example";
const DAY: i64 = 86_400;

fn spec() -> PullSecretSpec {
    PullSecretSpec { template: Some("standard".into()), names: vec!["web".into()], valid_days: Some(30) }
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

fn is_up_to_date(object: &NamespaceView, secret: &PullSecret, spec: &PullSecretSpec) -> bool {
    let (host, secret) = (HOST, Some(secret));
    PullSecretSnapshot { object, project_uid: PROJECT_UID, host, secret, now: NOW }.is_up_to_date(spec)
}

#[test]
fn a_secret_is_right_as_it_was_written_and_not_for_ever() {
    let object = issued(NOW - 14 * DAY);
    assert!(is_up_to_date(&object, &secret(&object), &spec()));
    assert!(!is_up_to_date(&issued(NOW - 20 * DAY), &secret(&object), &spec()), "it is old");
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
        assert!(!is_up_to_date(&object, &changed, &spec()), "{number}");
    }
    let other_images = PullSecretSpec { names: Vec::new(), ..spec() };
    assert!(!is_up_to_date(&object, &secret(&object), &other_images));
    let any_template = PullSecretSpec { template: None, ..spec() };
    assert!(is_up_to_date(&object, &secret(&object), &any_template));
    let mut elsewhere = object.clone();
    elsewhere.key.project = "q".into();
    assert!(!is_up_to_date(&elsewhere, &secret(&object), &spec()), "it was issued in another project");
    let renewal = PullSecretSpec::renewal_of(object.status.pull_credential.as_ref().unwrap());
    assert_eq!(renewal, PullSecretSpec { template: None, ..spec() });
}

#[test]
fn namespaces_do_not_all_come_at_once() {
    let life = PullPassword {
        hash: String::new(),
        issued_at: meta::time::rfc3339(NOW),
        expires_at: meta::time::rfc3339(NOW + 30 * DAY),
    };
    let mut due: Vec<i64> = (0..1000)
        .map(|number| life.is_due_at(jitter_of(&format!("00000000-0000-4000-8000-{number:012x}"))))
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
    let failure = |message: &str| TemplateFailure {
        message: message.to_owned(),
        retry: true,
        ..TemplateFailure::default()
    };
    let problem = || PullSecretProblem::Failed(failure("pull"));
    let told = |state: TemplateState| match state.with_pull_secret(problem(), &object) {
        TemplateState::Failed { state, failure } => (state, failure.message),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(TemplateState::Applied(applied.clone())), (Some(applied.clone()), "pull".into()));
    assert_eq!(told(TemplateState::Waiting("standard".into())), (Some(applied.clone()), "pull".into()));
    let first = TemplateState::Failed { state: None, failure: failure("limits") };
    assert_eq!(told(first), (None, "limits; pull".into()));
    let unseen =
        TemplateState::Applied(applied.clone()).with_pull_secret(PullSecretProblem::NotListed, &object);
    assert!(unseen.allows_use() && unseen == TemplateState::PullSecretUnknown(applied.clone()));
    let fine = TemplateState::Applied(applied.clone()).with_pull_secret(PullSecretProblem::None, &object);
    assert_eq!(fine, TemplateState::Applied(applied));
}
