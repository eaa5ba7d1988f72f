use super::*;
use crate::fixtures::pending;

const HARD: &[(&str, &str)] = &[("pods", "3")];

fn found(namespace: ClusterNamespace, quota: Option<ClusterQuota>) -> Found {
    Found { namespace: Some(Arc::new(namespace)), quota: quota.map(Arc::new), generation_is_false: false }
}

fn plan(object: &NamespaceView, found: &Found) -> Plan {
    match validate(object, found, &["kube-*".to_owned()]) {
        Verdict::Proceed(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn refusal(object: &NamespaceView, found: &Found) -> String {
    match validate(object, found, &["kube-*".to_owned()]) {
        Verdict::Refuse(refusal) => refusal.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_missing_is_created() {
    let plan = plan(&pending(HARD), &Found::default());
    assert_eq!(plan, Plan { namespace: NamespaceStep::Create, quota: QuotaStep::Create });
}

#[test]
fn what_is_right_is_left_alone_whatever_the_spelling_of_amounts() {
    let object = pending(&[("requests.cpu", "1500m")]);
    let mut quota = object.quota();
    quota.spec_hard = crate::fixtures::amounts(&[("requests.cpu", "1.5")]);
    assert!(plan(&object, &found(object.in_cluster(), Some(quota))).is_empty());
}

#[test]
fn a_quota_of_an_older_generation_is_written_anew_even_if_its_amounts_fit() {
    let object = pending(HARD).asks(&[("pods", "5")]).asks(HARD);
    let mut quota = object.quota();
    quota.generation = Some(1);
    let plan = plan(&object, &found(object.in_cluster(), Some(quota)));
    assert!(
        matches!(plan.quota, QuotaStep::Update { drift: false, .. }),
        "a paused leader's write must conflict"
    );
}

#[test]
fn a_lower_generation_never_overwrites_a_higher_one() {
    let object = pending(HARD);
    let mut quota = object.quota();
    quota.generation = Some(2);
    let mut found = found(object.in_cluster(), Some(quota));
    assert_eq!(validate(&object, &found, &[]), Verdict::Recheck);
    found.generation_is_false = true;
    assert!(
        matches!(plan(&object, &found).quota, QuotaStep::Update { .. }),
        "the mark was found to be false"
    );
}

#[test]
fn drift_of_the_quota_is_repaired() {
    let object = pending(HARD);
    let mut edited = object.quota();
    edited.spec_hard = crate::fixtures::amounts(&[("pods", "99")]);
    let mut unlabelled = object.quota();
    unlabelled.marks.project = None;
    for quota in [edited, unlabelled] {
        let plan = plan(&object, &found(object.in_cluster(), Some(quota)));
        assert!(matches!(plan.quota, QuotaStep::Update { drift: true, .. }));
    }
    assert_eq!(plan(&object, &found(object.in_cluster(), None)).quota, QuotaStep::Create);
}

#[test]
fn a_missing_label_is_restored_when_the_uid_is_right() {
    let object = pending(HARD);
    for strip in [
        |m: &mut ClusterNamespace| m.marks.project = None,
        |m: &mut ClusterNamespace| m.marks.namespace = None,
    ] {
        let mut namespace = object.in_cluster();
        strip(&mut namespace);
        let plan = plan(&object, &found(namespace, Some(object.quota())));
        assert!(matches!(plan.namespace, NamespaceStep::Restore { .. }));
    }
}

#[test]
fn what_is_somebody_elses_is_not_touched() {
    let object = pending(HARD);
    let mut other_project = object.in_cluster();
    other_project.marks.project = Some("q".into());
    assert!(refusal(&object, &found(other_project, None)).contains("project q"));
    let mut other_uid = object.in_cluster();
    other_uid.marks.uid = Some("former".into());
    assert!(refusal(&object, &found(other_uid, None)).contains("uid former"));
}

#[test]
fn an_existing_namespace_is_adopted_only_with_consent() {
    let object = pending(HARD);
    let mut there = object.in_cluster();
    there.marks = crate::member::observed::Marks::default();
    assert!(refusal(&object, &found(there.clone(), None)).contains("business.tkestack.io/adopt=p/n"));
    let mut by_cluster = there.clone();
    by_cluster.adopt = Some("p/other".into());
    refusal(&object, &found(by_cluster.clone(), None));
    by_cluster.adopt = Some("p/n".into());
    assert!(matches!(plan(&object, &found(by_cluster, None)).namespace, NamespaceStep::Adopt { .. }));
    let mut by_operator = object;
    by_operator.annotations.insert(names::ADOPT_ANNOTATION.into(), "true".into());
    assert!(matches!(plan(&by_operator, &found(there, None)).namespace, NamespaceStep::Adopt { .. }));
}

#[test]
fn a_namespace_that_is_being_deleted_is_waited_for() {
    let object = pending(HARD);
    let mut there = object.in_cluster();
    there.deleting = true;
    there.remaining = vec!["pods remain".into()];
    let verdict = validate(&object, &found(there, Some(object.quota())), &[]);
    assert!(
        matches!(verdict, Verdict::Wait(Situation::NotActive { message }) if message.contains("pods remain"))
    );
}

#[test]
fn forbidden_names_and_scoped_quotas_are_refused() {
    let mut object = pending(HARD);
    let mut quota = object.quota();
    quota.scoped = true;
    assert!(refusal(&object, &found(object.in_cluster(), Some(quota))).contains("scopes"));
    object.spec.namespace = "kube-system".into();
    assert!(refusal(&object, &Found::default()).contains("kube-system"));
}

#[test]
fn bodies_carry_the_version_read_and_drop_keys_that_are_gone() {
    let object = pending(HARD).asks(&[("services", "2")]);
    let mut quota = object.quota();
    quota.spec_hard = crate::fixtures::amounts(HARD);
    quota.generation = Some(1);
    let plan = plan(&object, &found(object.in_cluster(), Some(quota)));
    let prepared = crate::namespace::build::build(&object, &plan);
    let crate::namespace::build::Write::Patch(body) = prepared.quota else { panic!() };
    assert_eq!(body["metadata"]["resourceVersion"], "11");
    assert_eq!(body["metadata"]["annotations"]["business.tkestack.io/generation"], "2");
    assert_eq!(body["spec"]["hard"], serde_json::json!({ "pods": null, "services": "2" }));
}
