//! Tests deploy/member's admission policies on real kube-apiservers.

use super::access::until_bound;
use super::contains;
use super::outage::condition;
use anyhow::{Context, Result, ensure};
use instance::Instance;
use instance::job::{self, Hard, apply, namespace, project, until_gone};
use instance::kubectl::Kubectl;
use instance::pki;
use instance::wait::{self, Progress};
use serde_json::{Value, json};
use std::time::Duration;

const ONE: Hard<'_> = &[("cpu", "1")];
const SOON: Duration = Duration::from_mins(2);
const PLACE: &str = "policies";
const FOREIGN: &str = "policies-foreign";
const OURS: &str = "kept by business.tkestack.io";
const CONTROLLER: &str = "--as=system:serviceaccount:tke-business:business-member";
const CONTROLLER_PROCESS: &str = "business-controller";
const DELETE_REPLACED: &str = "business.tkestack.io/delete-replaced";
const SIGNER: &str = "--as=system:serviceaccount:tke-business:business-signer";
const RBAC: &str = "rbac.authorization.k8s.io";
const ALICE: &str = "business:default:alice";
const GROUP: &str = "business:default:group:devs";
const COMMON_NAME: u8 = 3;
const ORGANIZATION: u8 = 10;
/// What an EC key of P-256 begins with in a request.
const P256: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3,
    1, 7, 3, 0x42, 0,
];

/// Only the controller writes our objects in a cluster, and it writes nothing else.
pub(super) fn policies(instance: &Instance) -> Result<()> {
    for cluster in &instance.clusters {
        in_cluster(instance, cluster).with_context(|| format!("in cluster {cluster}"))?;
    }
    Ok(())
}

fn in_cluster(instance: &Instance, cluster: &str) -> Result<()> {
    let admin = instance.tenant();
    let mut owner = project(PLACE, None, &[(cluster, ONE)]);
    if let Some(spec) = owner.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("members".to_owned(), json!(["alice"]));
    }
    apply(&admin, &owner)?;
    apply(&admin, &namespace(PLACE, cluster, PLACE, ONE))?;
    until_bound(&admin, PLACE, &format!("{cluster}-{PLACE}"))?;
    owner_changes_nothing_of_ours(instance, cluster)?;
    controller_is_confined(&instance.member(cluster))?;
    controller_takes_no_foreign_namespace(instance, cluster)?;
    people_by_other_names_where_that_is_wanted(&instance.member(cluster))?;
    signer_is_confined(&instance.member(cluster))?;
    replaced_namespace_goes_when_both_sides_consent(instance, cluster)?;
    admin.run(&["delete", "project", PLACE, "--wait=false"])?;
    until_gone(&admin, &["project", PLACE])
}

/// The cluster's administrator cannot change our objects; changes in an emergency are reverted.
fn owner_changes_nothing_of_ours(instance: &Instance, cluster: &str) -> Result<()> {
    let owner = instance.member(cluster);
    let eve = r#"{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}"#;
    let unmarked = r#"{"metadata":{"annotations":{"business.tkestack.io/uid":null}}}"#;
    let more = r#"{"spec":{"hard":{"cpu":"50"}}}"#;
    let owned = json!({"metadata": {"ownerReferences": [absent_owner()]}}).to_string();
    let attempts: [&[&str]; 9] = [
        &["patch", "rolebinding", "business:edit", "-n", PLACE, "--type=merge", "-p", eve],
        &["delete", "rolebinding", "business:admin", "-n", PLACE],
        &["create", "rolebinding", "business:view", "-n", PLACE, "--clusterrole=view", "--user=eve"],
        &["patch", "namespace", PLACE, "--type=merge", "-p", unmarked],
        &["patch", "namespace", PLACE, "--type=merge", "-p", &owned],
        &["label", "namespace", PLACE, "tkestack.io/projectName=other", "--overwrite"],
        &["delete", "namespace", PLACE],
        &["patch", "resourcequota", PLACE, "-n", PLACE, "--type=merge", "-p", more],
        &["delete", "resourcequota", PLACE, "-n", PLACE],
    ];
    for attempt in attempts {
        contains(&owner.refused(attempt, None)?, &[OURS])?;
    }
    let limits = json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "forged", "namespace": PLACE, "annotations": {"business.tkestack.io/uid": "u"}},
    });
    contains(&owner.refused(&["create", "-f", "-"], Some(&limits.to_string()))?, &[OURS])?;

    let emergency = instance.break_glass(cluster);
    let there = owner.json(&["get", "namespace", "kube-system"])?;
    let given = json!({
        "apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": there.pointer("/metadata/uid"),
    });
    let given = json!({"metadata": {"ownerReferences": [given]}}).to_string();
    let taken = r#"{"metadata":{"ownerReferences":null}}"#;
    emergency.run(&["patch", "namespace", PLACE, "--type=merge", "-p", &given])?;
    owner.run(&["patch", "namespace", PLACE, "--type=merge", "-p", taken])?;
    let binding = ["rolebinding", "business:edit", "-n", PLACE];
    let alice = |object: &Value| object.pointer("/subjects/0/name") == Some(&json!("business:default:alice"));
    emergency.run(&["patch", "rolebinding", "business:edit", "-n", PLACE, "--type=merge", "-p", eve])?;
    job::until(&owner, &binding, alice)?;
    emergency.run(&["delete", "rolebinding", "business:edit", "-n", PLACE])?;
    job::until(&owner, &[&binding[..], &["--ignore-not-found"]].concat(), alice)
}

/// A `RoleBinding` that somebody with our credential tries to create.
struct BindingAttempt<'a> {
    namespace: &'a str,
    name: &'a str,
    role: &'a str,
    subject: Value,
}

fn subject(kind: &str, name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": kind, "name": name})
}

fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
}

/// The answer to an attempt that is only tried: nothing where it would be made.
fn tried(owner: &Kubectl, attempt: &BindingAttempt<'_>) -> Result<String> {
    let BindingAttempt { namespace, name, role, subject } = attempt;
    let body = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    });
    let output =
        owner.output(&[CONTROLLER, "create", "--dry-run=server", "-f", "-"], Some(&body.to_string()))?;
    if output.status.success() {
        return Ok(String::new());
    }
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// `business:view` is not there: alice is an editor.
fn view(subject: Value) -> BindingAttempt<'static> {
    BindingAttempt { namespace: PLACE, name: "business:view", role: "business:view", subject }
}

/// Stolen credentials of the controller bind nobody of the cluster's own, nothing else, and nowhere else.
fn controller_is_confined(owner: &Kubectl) -> Result<()> {
    let eve = || subject("User", "business:t:eve");
    for taken in [eve(), subject("Group", "business:t:group:devs"), account("gitops", "argocd")] {
        let said = tried(owner, &view(taken.clone()))?;
        ensure!(said.is_empty(), "{taken}: {said}");
    }
    let refused = [
        view(subject("User", "eve")),
        view(subject("User", "system:admin")),
        view(subject("Group", "system:authenticated")),
        view(subject("Group", "business:break-glass")),
        view(account("kube-system", "node-controller")),
        view(account("tke-business", "business-member")),
        BindingAttempt { namespace: "default", ..view(eve()) },
        BindingAttempt { name: "mine", ..view(eve()) },
        BindingAttempt { role: "business:admin", ..view(eve()) },
    ];
    for attempt in refused {
        let said = tried(owner, &attempt)?;
        contains(&said, &["business.tkestack.io"]).with_context(|| attempt.subject.to_string())?;
    }
    contains(&tried(owner, &BindingAttempt { role: "cluster-admin", ..view(eve()) })?, &["forbidden"])
}

/// The garbage collector deletes what is owned by this.
fn absent_owner() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": "policies-absent", "uid": "absent"})
}

/// Stolen credentials of the controller make no namespace look like one of ours, to delete it or to rule it, and have
/// the garbage collector delete none.
fn controller_takes_no_foreign_namespace(instance: &Instance, cluster: &str) -> Result<()> {
    let owner = instance.member(cluster);
    let mark = r#"{"metadata":{"annotations":{"business.tkestack.io/uid":"u"}}}"#;
    let adopt = r#"{"metadata":{"annotations":{"business.tkestack.io/uid":"u","business.tkestack.io/adopted":"true"}}}"#;
    let give_back = r#"{"metadata":{"annotations":{"business.tkestack.io/uid":null}}}"#;
    let marks = json!({"business.tkestack.io/uid": "u", "business.tkestack.io/adopted": "true"});
    let more = [("ownerReferences", absent_owner()), ("finalizers", json!("example.org/kept"))]
        .map(|(field, value)| json!({"metadata": {"annotations": marks, (field): [value]}}).to_string());
    let patch =
        |name, with| [CONTROLLER, "patch", "namespace", name, "--dry-run=server", "--type=merge", "-p", with];
    owner.run(&["create", "namespace", FOREIGN])?;
    contains(&owner.refused(&patch(FOREIGN, mark), None)?, &["as adopted only"])?;
    contains(&owner.refused(&[CONTROLLER, "delete", "namespace", FOREIGN], None)?, &["carry its mark"])?;
    owner.run(&patch(FOREIGN, adopt))?;
    for patched in &more {
        contains(&owner.refused(&patch(FOREIGN, patched), None)?, &["changes marks only"])?;
    }
    owner.run(&["label", "namespace", FOREIGN, "business.tkestack.io/off-limits=true"])?;
    contains(&owner.refused(&patch(FOREIGN, adopt), None)?, &["off limits"])?;
    owner.run(&["delete", "namespace", FOREIGN, "--wait=false"])?;
    contains(&owner.refused(&patch("tke-business", adopt), None)?, &["the cluster's own"])?;
    contains(&owner.refused(&patch(PLACE, give_back), None)?, &["keeps no mark"])
}

/// What the cluster's administrator makes in the place of ours gets the quota, and goes when an operator and he himself have
/// consented. The controller cannot consent in his place.
fn replaced_namespace_goes_when_both_sides_consent(instance: &Instance, cluster: &str) -> Result<()> {
    let (k, owner) = (&instance.kubectl, instance.member(cluster));
    let name = format!("{cluster}-{PLACE}");
    let object = ["bns", &name, "-n", PLACE];
    instance.supervisor.pause(CONTROLLER_PROCESS)?;
    let made = instance
        .break_glass(cluster)
        .run(&["delete", "namespace", PLACE])
        .and_then(|_| owner.run(&["create", "namespace", PLACE]));
    instance.supervisor.resume(CONTROLLER_PROCESS)?;
    made?;
    let his = uid(&owner.json(&["get", "namespace", PLACE])?).context("no uid")?;
    job::until(k, &object, |object| replaced(object).0 == "True")?;
    job::until_field(&owner, &["resourcequota", PLACE, "-n", PLACE], "/status/hard/cpu", &json!("1"))?;

    let consent = format!("{DELETE_REPLACED}={his}");
    let patch = json!({"metadata": {"annotations": {(DELETE_REPLACED): his}}}).to_string();
    let itself = [CONTROLLER, "patch", "namespace", PLACE, "--dry-run=server", "--type=merge", "-p", &patch];
    contains(&owner.refused(&itself, None)?, &["others consent"])?;
    contains(&owner.refused(&[CONTROLLER, "delete", "namespace", PLACE], None)?, &["has not made"])?;
    contains(&owner.refused(&["delete", "namespace", PLACE], None)?, &[OURS])?;
    k.run(&["annotate", "bns", &name, "-n", PLACE, &consent])?;
    job::until(k, &object, |object| replaced(object).1.contains("refused the deletion"))?;
    ensure!(uid(&owner.json(&["get", "namespace", PLACE])?).as_ref() == Some(&his), "it is gone");
    owner.run(&["annotate", "namespace", PLACE, &consent])?;
    job::until(&owner, &["namespace", PLACE, "--ignore-not-found"], |there| {
        uid(there).is_some_and(|uid| uid != his)
    })?;
    job::until(k, &object, |object| replaced(object).0 == "False")?;
    until_bound(k, PLACE, &name)
}

fn uid(object: &Value) -> Option<String> {
    object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned)
}

/// Whether another namespace stands in the place of ours, as its object says it, and what it says of that.
fn replaced(object: &Value) -> (String, String) {
    let found = condition(object, "Replaced").unwrap_or_default();
    let text = |field: &str| found.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

/// As deploy/member-shared leaves it. The policy is put back whatever becomes of it.
fn people_by_other_names_where_that_is_wanted(owner: &Kubectl) -> Result<()> {
    let policy = ["validatingadmissionpolicybinding", "business-confine-people"];
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "business-confine-people"},
        "spec": {"policyName": "business-confine-people", "validationActions": ["Deny"]},
    });
    owner.run(&[&["delete"], &policy[..]].concat())?;
    let outcome = by_the_hosts_names(owner);
    apply(owner, &binding)?;
    outcome
}

fn by_the_hosts_names(owner: &Kubectl) -> Result<()> {
    wait::until("people may be bound by their own names", SOON, || {
        let said = tried(owner, &view(subject("User", "corp:alice")))?;
        Ok(if said.is_empty() { Progress::Done(()) } else { Progress::Pending(said) })
    })?;
    for refused in [
        subject("User", "system:admin"),
        subject("Group", "system:masters"),
        subject("Group", "business:break-glass"),
        account("kube-system", "node-controller"),
    ] {
        contains(&tried(owner, &view(refused))?, &["nobody of the cluster's own"])?;
    }
    Ok(())
}

/// Stolen credentials of the signer cannot get other certificates signed.
fn signer_is_confined(owner: &Kubectl) -> Result<()> {
    let refused = |request: String| {
        let refusal = owner.refused(&[SIGNER, "create", "-f", "-"], Some(&asked(&request).to_string()))?;
        contains(&refusal, &["asks for certificates of business:TENANT:USER"])
    };
    for (group, name) in [
        (Some("system:nodes"), ALICE),
        (None, "system:node:one"),
        (Some("business:break-glass"), ALICE),
        (Some("business:default:developers"), ALICE),
    ] {
        refused(pki::request(name, group)?)?;
    }
    for (what, subject) in hidden() {
        refused(pki::request_of(&subject)?).context(what)?;
    }
    let taken = |request: String| {
        let body = asked(&request).to_string();
        owner.feed(&[SIGNER, "create", "--dry-run=server", "-f", "-"], &body)
    };
    for group in [None, Some("business:default:administrators"), Some(GROUP)] {
        taken(pki::request(ALICE, group)?)?;
    }
    // Each way to write a length, and the most that is asked for.
    for bytes in [100, 118, 120, 121, 127, 128, 200] {
        let user = attribute(COMMON_NAME, &format!("{ALICE:a<bytes$}"), b"");
        let group = attribute(ORGANIZATION, &format!("{GROUP:a<bytes$}"), b"");
        for groups in [0, 1, 8] {
            let subject = [group.repeat(groups), user.clone()].concat();
            taken(pki::request_of(&subject)?).with_context(|| format!("{groups} groups, {bytes} B"))?;
        }
    }
    Ok(())
}

/// Subjects that begin like ours, and name somebody else or have bytes that are read by nobody.
fn hidden() -> [(&'static str, Vec<u8>); 5] {
    let alice = attribute(COMMON_NAME, ALICE, b"");
    let ruler = [
        attribute(ORGANIZATION, "kubeadm:cluster-admins", b""),
        attribute(COMMON_NAME, "kubernetes-admin", b""),
    ]
    .concat();
    [
        (
            "what is like the end of the subject, within a name",
            [attribute(COMMON_NAME, ALICE, P256), ruler.clone()].concat(),
        ),
        (
            "a name that is shorter than its text",
            [attribute(ORGANIZATION, "business:break-glass", b":administrators"), alice.clone()].concat(),
        ),
        ("names behind ours", [alice.clone(), ruler.clone()].concat()),
        ("names before ours", [ruler, alice.clone()].concat()),
        ("bytes that nobody reads", attribute(COMMON_NAME, ALICE, &alice)),
    ]
}

/// One name of a subject: its attribute 2.5.4.N in UTF-8, and what a reader of DER skips.
fn attribute(number: u8, text: &str, skipped: &[u8]) -> Vec<u8> {
    let of = [6, 3, 0x55, 4, number];
    let pair = [of.as_slice(), pki::der(0x0c, text.as_bytes()).as_slice(), skipped].concat();
    pki::der(0x31, &pki::der(0x30, &pair))
}

fn asked(request: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "business-attack"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            "expirationSeconds": 86_400,
            "request": request,
        },
    })
}
