//! Renders the files under deploy/ and applies them to a real kube-apiserver, with and without a dry run.

/// What objects name.
pub(crate) mod references;
/// What commands in docs/ name.
#[cfg(test)]
mod commands;

use anyhow::{Context as _, Result, ensure};
use instance::kubectl::Kubectl;
use instance::layout::Layout;
use instance::manifests::{MEMBERS_NAMESPACE, NAMESPACE};
use instance::wait::{self, Progress};
use instance::{Instance, Options};
use instance::{job, manifests, up};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const AGGREGATED: Duration = Duration::from_mins(2);

/// Their kinds need an operator that this machine does not run: only what they name is looked at.
const FOREIGN: [&str; 2] = [CERT_MANAGER, "monitoring.coreos.com/"];
const CERT_MANAGER: &str = "cert-manager.io/";

/// Each directory of deploy/components is part of one at least.
const RENDERED: [&str; 12] = [
    "deploy/member",
    "deploy/member-capacity",
    "deploy/member-shared",
    "deploy/overlays/local",
    "deploy/overlays/dev",
    // By itself, as docs/install.md applies it.
    "deploy/components/postgres-dev",
    PLAIN,
    "deploy/overlays/prod",
    "tests/accept/deploy/people",
    "tests/accept/deploy/console",
    "tests/accept/deploy/tunnel",
    "tests/accept/deploy/assigned-ids",
];

/// What `install.yaml` of a release is rendered from: nothing but cert-manager has to be there before.
const PLAIN: &str = "deploy/overlays/plain";

/// What is applied beside another directory, and names what is in that one.
const BESIDE: (&str, &str) = ("deploy/member-capacity", "deploy/member");

/// Renders every overlay, applies it, and asks what each identity may.
pub(crate) fn check() -> Result<()> {
    let layout = Layout::of_manifests();
    up::clear(&layout)?;
    let instance = Instance::start(&layout, &Options { bare: true, ..Options::default() })?;
    let kubectl = &instance.kubectl;
    let outcome = apply_all(kubectl)
        .and_then(|()| rights(kubectl))
        .and_then(|()| roles_for_people(kubectl))
        .and_then(|()| roles_in_members(kubectl))
        .and_then(|()| offered_roles(kubectl));
    instance.stop()?;
    outcome?;
    up::clear(&layout)
}

/// `up --kubeconfig`: the main job with the APIService in a cluster that is not ours, here a second local one.
pub(crate) fn elsewhere() -> Result<()> {
    let (theirs, ours) = (Layout::of_manifests(), Layout::of_check());
    up::clear(&theirs)?;
    up::clear(&ours)?;
    let cluster = Instance::start(&theirs, &Options { bare: true, ..Options::default() })?;
    let options = Options { kubeconfig: Some(theirs.path("kubeconfig")), members: 1, ..Options::default() };
    let outcome = Instance::start(&ours, &options).and_then(|instance| {
        let worked = job::main_job(&instance);
        instance.stop().and(worked)
    });
    cluster.stop()?;
    outcome?;
    up::clear(&theirs)?;
    up::clear(&ours)
}

fn apply_all(kubectl: &Kubectl) -> Result<()> {
    for directory in RENDERED {
        let mut objects = manifests::render(kubectl, directory)?;
        let mut there = objects.clone();
        let mut wanted = BTreeSet::new();
        let (beside, other) = BESIDE;
        if directory == beside {
            there.extend(manifests::render(kubectl, other)?);
        }
        references::check(&there, &[]).with_context(|| format!("what {directory} renders to"))?;
        objects.retain(|object| {
            let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            let foreign = FOREIGN.iter().find(|foreign| version.starts_with(**foreign));
            wanted.extend(foreign);
            foreign.is_none()
        });
        ensure!(directory != PLAIN || wanted == BTreeSet::from([CERT_MANAGER]), "{PLAIN} wants {wanted:?}");
        manifests::apply(kubectl, &objects)?;
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let dry = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            "-",
        ];
        kubectl.feed(&dry, &list)?;
    }
    Ok(())
}

/// The attributes of a SubjectAccessReview: group, resource (with subresource), name, namespace.
type AccessRequest = (&'static str, &'static str, &'static str, &'static str);

const API: &str = "business-api";
const CONTROLLER: &str = "business-controller";
const MEMBER: &str = "business-member";
const SIGNER: &str = "business-signer";
const OURS: &str = "business.tkestack.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";

/// What no role for people writes.
const CONTROLLERS_OWN: [&str; 11] = [
    "memberclusters/status",
    "memberclusters/finalize",
    "projects/status",
    "projects/finalize",
    "namespaces/status",
    "namespaces/finalize",
    "namespaces/pullcredential",
    "imagenamespaces/status",
    "imagenamespaces/finalize",
    "chartgroups/status",
    "chartgroups/finalize",
];

const MAY: &[(&str, &str, AccessRequest)] = &[
    (API, "create", ("authorization.k8s.io", "subjectaccessreviews", "", "")),
    (API, "create", ("authentication.k8s.io", "tokenreviews", "", "")),
    (API, "get", ("", "configmaps", "extension-apiserver-authentication", "kube-system")),
    (CONTROLLER, "operate", (OURS, "projects", "", "")),
    (CONTROLLER, "create", (OURS, "memberclusters", "", "")),
    (CONTROLLER, "patch", (OURS, "memberclusters/status", "x", "")),
    (CONTROLLER, "patch", (OURS, "namespaces/status", "x", "project")),
    (CONTROLLER, "update", (OURS, "projects/finalize", "x", "")),
    (CONTROLLER, "create", (OURS, "namespaces/pullcredential", "x", "project")),
    (CONTROLLER, "patch", (OURS, "imagenamespaces/status", "x", "project")),
    (CONTROLLER, "patch", (OURS, "chartgroups/finalize", "x", "project")),
    (CONTROLLER, "list", ("", "secrets", "", MEMBERS_NAMESPACE)),
    (CONTROLLER, "get", ("", "secrets", "business-controller-seal", NAMESPACE)),
    (CONTROLLER, "patch", ("", "secrets", "business-controller-seal", NAMESPACE)),
    (CONTROLLER, "create", ("events.k8s.io", "events", "", "default")),
    (CONTROLLER, "list", ("coordination.k8s.io", "leases", "", NAMESPACE)),
    (CONTROLLER, "update", ("coordination.k8s.io", "leases", "business-controller-fleet", NAMESPACE)),
    (CONTROLLER, "delete", ("coordination.k8s.io", "leases", "business-controller-replica-x", NAMESPACE)),
    (MEMBER, "delete", ("", "namespaces", "x", "")),
    (MEMBER, "update", ("", "resourcequotas", "x", "anywhere")),
    (MEMBER, "patch", (RBAC, "rolebindings", "business:edit", "anywhere")),
    (MEMBER, "bind", (RBAC, "clusterroles", "business:edit", "")),
    // By deploy/member-capacity.
    (MEMBER, "list", ("", "pods", "", "")),
    (MEMBER, "list", ("", "nodes", "", "")),
    (MEMBER, "watch", ("", "secrets", "business-registry", "")),
    (MEMBER, "create", ("", "secrets", "business-registry", "anywhere")),
    (MEMBER, "patch", ("", "serviceaccounts", "default", "anywhere")),
    (SIGNER, "create", (CERTIFICATES, "certificatesigningrequests", "", "")),
    (SIGNER, "get", (CERTIFICATES, "certificatesigningrequests", "x", "")),
    (SIGNER, "delete", (CERTIFICATES, "certificatesigningrequests", "x", "")),
    (SIGNER, "get", ("", "namespaces", "kube-system", "")),
    (SIGNER, "update", (CERTIFICATES, "certificatesigningrequests/approval", "x", "")),
    (SIGNER, "approve", (CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client", "")),
];

const MAY_NOT: &[(&str, &str, AccessRequest)] = &[
    (API, "get", ("", "secrets", "x", NAMESPACE)),
    (API, "get", ("", "configmaps", "another", NAMESPACE)),
    (API, "list", (OURS, "namespaces", "", "project")),
    (CONTROLLER, "create", (OURS, "registrycredentials/token", "x", "project")),
    (CONTROLLER, "get", ("", "secrets", "x", "kube-system")),
    (CONTROLLER, "get", ("", "secrets", "business-database", NAMESPACE)),
    (CONTROLLER, "list", ("", "secrets", "", NAMESPACE)),
    (CONTROLLER, "create", ("", "secrets", "", MEMBERS_NAMESPACE)),
    (CONTROLLER, "patch", ("", "secrets", "another", NAMESPACE)),
    (CONTROLLER, "delete", ("", "namespaces", "x", "")),
    (CONTROLLER, "list", ("coordination.k8s.io", "leases", "", "kube-system")),
    (CONTROLLER, "create", (OURS, "projects", "", "")),
    (CONTROLLER, "grant", (OURS, "projects", "", "")),
    (MEMBER, "list", ("", "secrets", "", "anywhere")),
    (MEMBER, "watch", ("", "secrets", "", "")),
    (MEMBER, "get", ("", "secrets", "x", "anywhere")),
    (MEMBER, "create", ("", "secrets", "", "anywhere")),
    (MEMBER, "patch", ("", "secrets", "x", "anywhere")),
    (MEMBER, "create", ("", "serviceaccounts/token", "default", "anywhere")),
    (MEMBER, "create", ("", "serviceaccounts", "", "anywhere")),
    (MEMBER, "get", ("", "pods", "x", "anywhere")),
    (MEMBER, "delete", ("", "pods", "x", "anywhere")),
    (MEMBER, "get", (OURS, "projects", "x", "")),
    (MEMBER, "bind", (RBAC, "clusterroles", "cluster-admin", "")),
    (MEMBER, "create", (RBAC, "clusterrolebindings", "", "")),
    (MEMBER, "create", (CERTIFICATES, "certificatesigningrequests", "", "")),
    (SIGNER, "list", (CERTIFICATES, "certificatesigningrequests", "", "")),
    (SIGNER, "approve", (CERTIFICATES, "signers", "kubernetes.io/kubelet-serving", "")),
    (SIGNER, "approve", (CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client-kubelet", "")),
    (SIGNER, "sign", (CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client", "")),
    (SIGNER, "update", (CERTIFICATES, "certificatesigningrequests/status", "x", "")),
    (SIGNER, "get", ("", "namespaces", "x", "")),
    (SIGNER, "patch", (RBAC, "rolebindings", "business:edit", "anywhere")),
];

/// What operators do by verbs and subresources of their own.
const OPERATORS_OWN: &[(&str, AccessRequest)] = &[
    ("operate", (OURS, "projects", "", "")),
    ("grant", (OURS, "projects", "", "")),
    ("create", (OURS, "projects/lock", "x", "")),
    ("create", (OURS, "projects/unlock", "x", "")),
    ("create", (OURS, "namespaces/abandon", "x", "project")),
    ("update", (OURS, "tenants", "x", "")),
    ("update", (OURS, "memberclusters", "x", "")),
];

/// Of a namespace in a member cluster, with the roles that may do it there; nobody else may.
const IN_MEMBERS: &[(&str, AccessRequest, &[&str])] = &[
    ("get", ("", "pods", "x", "anywhere"), &["business:view", "business:edit", "business:admin"]),
    ("create", ("apps", "deployments", "", "anywhere"), &["business:edit", "business:admin"]),
    ("get", ("", "secrets", "x", "anywhere"), &["business:edit", "business:admin"]),
    ("create", (RBAC, "rolebindings", "", "anywhere"), &["business:admin"]),
    ("update", ("", "resourcequotas", "x", "anywhere"), &[]),
    ("delete", ("", "namespaces", "x", "anywhere"), &[]),
];

/// Both programs and the member role hold the rights they need, and not those beside them.
fn rights(kubectl: &Kubectl) -> Result<()> {
    for (wanted, cases) in [(true, MAY), (false, MAY_NOT)] {
        for (account, verb, asked) in cases {
            let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
            let allowed = allowed(kubectl, &json!({"user": user}), verb, asked)?;
            ensure!(allowed == wanted, "{account} {verb} {asked:?}: {allowed}, not {wanted}");
        }
    }
    Ok(())
}

/// Nobody with a role for people may write /status or /finalize; the door opens no act of an operator.
fn roles_for_people(kubectl: &Kubectl) -> Result<()> {
    for role in ["business-door", "business-operator"] {
        let somebody = somebody_with(kubectl, role, &("get", (OURS, "projects", "x", "")))?;
        let writes = allowed(kubectl, &somebody, "create", &(OURS, "namespaces", "", "project"))?;
        ensure!(writes, "{role} may create no namespaces");
        let operates = role == "business-operator";
        for (verb, asked) in OPERATORS_OWN {
            let held = allowed(kubectl, &somebody, verb, asked)?;
            ensure!(held == operates, "{role} {verb} {asked:?}: {held}");
        }
        for resource in CONTROLLERS_OWN {
            for verb in ["create", "update", "patch"] {
                let held = allowed(kubectl, &somebody, verb, &(OURS, resource, "x", "project"))?;
                ensure!(!held, "{role} may {verb} {resource}");
            }
        }
    }
    let anybody = json!({"user": "anybody", "groups": ["system:authenticated"]});
    let enters = allowed(kubectl, &anybody, "get", &(OURS, "projects", "x", ""))?;
    ensure!(enters, "the door is closed to whoever is known");
    Ok(())
}

/// What people are bound to in member clusters is neither empty nor more than it says.
fn roles_in_members(kubectl: &Kubectl) -> Result<()> {
    for role in ["business:view", "business:edit", "business:admin"] {
        let somebody = somebody_with(kubectl, role, &("get", ("", "pods", "x", "anywhere")))?;
        for (verb, asked, roles) in IN_MEMBERS {
            let held = allowed(kubectl, &somebody, verb, asked)?;
            ensure!(held == roles.contains(&role), "{role} {verb} {asked:?}: {held}");
        }
    }
    Ok(())
}

/// A template may give what a labelled `ClusterRole` offers, one of ours or, as docs/operations/tenants.md has it, one of people's own.
fn offered_roles(kubectl: &Kubectl) -> Result<()> {
    let own = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "offers-deployer", "labels": {"business.tkestack.io/offers": "true"}},
        "rules": [{
            "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["business:offered:deployer"],
            "verbs": ["bind"],
        }],
    });
    kubectl.apply(&own.to_string())?;
    let member = json!({"user": format!("system:serviceaccount:{NAMESPACE}:{MEMBER}")});
    for role in ["business:offered:view", "business:offered:deployer"] {
        wait::until(&format!("{role} is offered"), AGGREGATED, || {
            let holds = allowed(kubectl, &member, "bind", &(RBAC, "clusterroles", role, ""))?;
            Ok(if holds { Progress::Done(()) } else { Progress::Pending("not yet".to_owned()) })
        })?;
    }
    let another = allowed(kubectl, &member, "bind", &(RBAC, "clusterroles", "business:offered:another", ""))?;
    ensure!(!another, "what nobody offers may be given");
    Ok(())
}

/// A subject that holds a role, as soon as the role is filled: a controller aggregates them.
fn somebody_with(kubectl: &Kubectl, role: &str, filled: &(&str, AccessRequest)) -> Result<Value> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("test:{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": role}],
    });
    kubectl.apply(&binding.to_string())?;
    let somebody = json!({"user": "somebody", "groups": [role]});
    let (verb, asked) = filled;
    wait::until(&format!("{role} may {verb} {asked:?}"), AGGREGATED, || {
        let holds = allowed(kubectl, &somebody, verb, asked)?;
        Ok(if holds { Progress::Done(()) } else { Progress::Pending("not yet".to_owned()) })
    })?;
    Ok(somebody)
}

/// Asks with a `SubjectAccessReview`.
fn allowed(kubectl: &Kubectl, subject: &Value, verb: &str, asked: &AccessRequest) -> Result<bool> {
    let (group, resource, name, namespace) = asked;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({
        "verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "name": name, "namespace": namespace,
    });
    let mut spec = subject.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("resourceAttributes".to_owned(), attributes);
    }
    let kind = "SubjectAccessReview";
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = kubectl.feed(&["create", "--raw", path, "-f", "-"], &review.to_string())?;
    let answer: Value = serde_json::from_str(&answer)?;
    Ok(answer.pointer("/status/allowed") == Some(&json!(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use instance::layout;

    #[test]
    fn every_component_is_rendered() {
        let read = |path: &str| std::fs::read_to_string(layout::workspace().join(path)).unwrap();
        let rendered: Vec<String> =
            RENDERED.iter().map(|path| read(&format!("{path}/kustomization.yaml"))).collect();
        for entry in std::fs::read_dir(layout::workspace().join("deploy/components")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let part = format!("/components/{name}\n");
            assert!(rendered.iter().any(|text| text.contains(&part)), "nothing renders {name}");
        }
    }
}
