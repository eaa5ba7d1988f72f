use super::*;
use crate::fixtures::pending;
use crate::member::observed::Marks;

fn of(members: &[&str]) -> (NamespaceView, ProjectView) {
    let mut object = pending(&[("pods", "3")]);
    object.spec.tenant_id = "acme".into();
    let mut project = ProjectView::default();
    project.spec.members = members.iter().map(|member| (*member).to_owned()).collect();
    (object, project)
}

fn there(object: &NamespaceView, role: AccessRole, grantees: &BTreeSet<Grantee>) -> Arc<ClusterBinding> {
    let marks = Marks {
        project: Some(object.key.project.to_string()),
        namespace: Some(object.key.name.to_string()),
        uid: Some(object.uid.clone()),
        ..Marks::default()
    };
    Arc::new(ClusterBinding {
        role,
        uid: "b".into(),
        resource_version: "7".into(),
        marks,
        binds_its_role: true,
        grantees: grantees.clone(),
        deleting: false,
    })
}

#[test]
fn members_edit_and_administrators_rule() {
    let (object, project) = of(&["alice", "bob", "alice"]);
    let grants = grants(&object, &project);
    assert_eq!(
        grants.roles[&AccessRole::Admin],
        BTreeSet::from([Grantee::Group("business:acme:administrators".into())])
    );
    let users = ["business:acme:alice", "business:acme:bob"].map(|name| Grantee::User(name.into()));
    assert_eq!(grants.roles[&AccessRole::Edit], BTreeSet::from(users));
    assert_eq!(grants.unnameable, 0);
}

#[test]
fn who_cannot_be_named_is_counted_and_nobody_is_named_in_his_place() {
    let (mut object, project) = of(&["ali\u{7}ce", &"x".repeat(300), "bob"]);
    assert_eq!(grants(&object, &project).unnameable, 2);
    assert_eq!(grants(&object, &project).roles[&AccessRole::Edit].len(), 1);
    object.spec.tenant_id = "acme:b".into();
    let none = grants(&object, &project);
    assert_eq!((none.roles.len(), none.unnameable), (0, 3), "it would be another tenant's user");
}

#[test]
fn a_binding_is_made_kept_changed_and_taken_away() {
    let (object, project) = of(&["alice"]);
    let wanted = grants(&object, &project).roles.remove(&AccessRole::Edit).unwrap();
    let right = there(&object, AccessRole::Edit, &wanted);
    assert_eq!(step(&object, Some(&wanted), None), BindingStep::Create);
    assert_eq!(step(&object, Some(&wanted), Some(&right)), BindingStep::Keep);
    assert_eq!(step(&object, None, None), BindingStep::Keep);
    let gone = BindingStep::Delete { uid: "b".into(), then_create: false };
    assert_eq!(step(&object, None, Some(&right)), gone, "nobody is a member any more");

    let more = BTreeSet::from([Grantee::User("business:acme:eve".into())]);
    let edited = there(&object, AccessRole::Edit, &more);
    assert_eq!(step(&object, Some(&wanted), Some(&edited)), BindingStep::Update(Arc::clone(&edited)));
    let unmarked = Arc::new(ClusterBinding { marks: Marks::default(), ..(*right).clone() });
    assert_eq!(step(&object, Some(&wanted), Some(&unmarked)), BindingStep::Update(Arc::clone(&unmarked)));
    let other_role = Arc::new(ClusterBinding { binds_its_role: false, ..(*right).clone() });
    let anew = BindingStep::Delete { uid: "b".into(), then_create: true };
    assert_eq!(step(&object, Some(&wanted), Some(&other_role)), anew);
}
