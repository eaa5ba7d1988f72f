use super::*;
use crate::fixtures::{amounts, pending};
use crate::member::binding::GranteeDigest;
use crate::member::marks::Marks;

fn of_acme() -> NamespaceView {
    let mut object = pending(&[("pods", "3")]);
    object.spec.tenant_id = "acme".into();
    object
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
        named: GranteeDigest::of(grantees),
        deleting: false,
    })
}

#[test]
fn a_binding_is_made_kept_changed_and_taken_away() {
    let object = of_acme();
    let wanted = BTreeSet::from([Grantee::User("business:acme:alice".into())]);
    let right = there(&object, AccessRole::Edit, &wanted);
    assert_eq!(binding_step(&object, Some(&wanted), None), BindingStep::Create);
    assert_eq!(binding_step(&object, Some(&wanted), Some(&right)), BindingStep::Keep);
    assert_eq!(binding_step(&object, None, None), BindingStep::Keep);
    let gone = BindingStep::Delete { uid: "b".into(), then_create: false };
    assert_eq!(binding_step(&object, None, Some(&right)), gone, "nobody is a member any more");

    let more = BTreeSet::from([Grantee::User("business:acme:eve".into())]);
    let edited = there(&object, AccessRole::Edit, &more);
    assert_eq!(binding_step(&object, Some(&wanted), Some(&edited)), BindingStep::Update(Arc::clone(&edited)));
    let unmarked = Arc::new(ClusterBinding { marks: Marks::default(), ..(*right).clone() });
    assert_eq!(
        binding_step(&object, Some(&wanted), Some(&unmarked)),
        BindingStep::Update(Arc::clone(&unmarked))
    );
    let other_role = Arc::new(ClusterBinding { binds_its_role: false, ..(*right).clone() });
    let anew = BindingStep::Delete { uid: "b".into(), then_create: true };
    assert_eq!(binding_step(&object, Some(&wanted), Some(&other_role)), anew);

    let held = |of: &Arc<ClusterBinding>| Arc::new(ClusterBinding { deleting: true, ..(**of).clone() });
    let (right, other_role) = (held(&right), held(&other_role));
    assert_eq!(
        binding_step(&object, Some(&wanted), Some(&right)),
        BindingStep::Keep,
        "until it is seen gone"
    );
    assert_eq!(binding_step(&object, Some(&more), Some(&right)), BindingStep::Update(Arc::clone(&right)));
    assert_eq!(binding_step(&object, None, Some(&right)), BindingStep::Empty(Arc::clone(&right)));
    assert_eq!(
        binding_step(&object, Some(&wanted), Some(&other_role)),
        BindingStep::Empty(Arc::clone(&other_role))
    );
    let emptied = Arc::new(ClusterBinding { named: GranteeDigest::of(&BTreeSet::new()), ..(*right).clone() });
    assert_eq!(binding_step(&object, None, Some(&emptied)), BindingStep::Keep);
}

#[test]
fn a_quota_limits_where_it_lets_in_no_more_than_is_charged() {
    let lowered = of_acme().asks(&[("pods", "2")]);
    let added = of_acme().asks(&[("pods", "4"), ("cpu", "1")]);
    let quota = |hard: &[(&str, &str)]| ClusterQuota { spec_hard: amounts(hard), ..ClusterQuota::default() };
    let table = [
        (&lowered, &[("pods", "2")] as &[_], true),
        (&lowered, &[("pods", "3")], true),
        (&lowered, &[("pods", "3"), ("secrets", "9")], true),
        (&lowered, &[("pods", "4")], false),
        (&lowered, &[("secrets", "1")], false),
        (&lowered, &[], false),
        (&added, &[("pods", "3")], false),
        (&added, &[("pods", "3"), ("cpu", "1")], true),
    ];
    for (object, hard, expected) in table {
        assert_eq!(is_limited_by(object, &quota(hard)), expected, "{hard:?}");
        let scoped = ClusterQuota { scoped: true, ..quota(hard) };
        assert!(!is_limited_by(object, &scoped), "it counts only some objects");
    }
}
