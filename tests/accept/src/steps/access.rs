use super::contains;
use anyhow::{Context, Result, ensure};
use instance::Instance;
use instance::job::{self, Hard, apply, namespace, project, until_available, until_gone};
use instance::kubeconfig::{Kubeconfig, token};
use instance::kubectl::Kubectl;
use instance::pki::Pki;
use serde_json::json;
use std::time::Duration;

const HARD: Hard<'_> = &[("cpu", "4"), ("configmaps", "20")];
const ONE: Hard<'_> = &[("cpu", "1"), ("configmaps", "5")];
const SECONDS: Duration = Duration::from_secs(20);

/// A member gets a kubeconfig for a member cluster, and may there what members may.
pub(super) fn access(instance: &Instance) -> Result<()> {
    for cluster in &instance.clusters {
        in_cluster(instance, cluster).with_context(|| format!("in cluster {cluster}"))?;
    }
    Ok(())
}

fn in_cluster(instance: &Instance, cluster: &str) -> Result<()> {
    let admin = instance.tenant();
    let user = People { instance, cluster };
    let mut owner = project("access", None, &[(cluster, HARD)]);
    if let Some(spec) = owner.get_mut("spec").and_then(serde_json::Value::as_object_mut) {
        spec.insert("members".to_owned(), json!(["alice"]));
    }
    apply(&admin, &owner)?;
    for name in ["access", "access-other"] {
        apply(&admin, &namespace("access", cluster, name, ONE))?;
        until_available(&admin, "access", &format!("{cluster}-{name}"))?;
        let ready = "--for=condition=AccessReady";
        admin.run(&["wait", ready, "bns", &format!("{cluster}-{name}"), "-n", "access", "--timeout=30s"])?;
    }
    apply(&admin, &project("access-none", None, &[(cluster, HARD)]))?;
    apply(&admin, &namespace("access-none", cluster, "access-none", ONE))?;
    until_available(&admin, "access-none", &format!("{cluster}-access-none"))?;

    let alice = user.enters("alice", &[])?;
    may_what_members_may(&alice)?;
    owner_changes_nothing_of_ours(instance, cluster)?;
    let ruler = user.enters("ruler", &["tenant-admins"])?;
    ruler.run(&["create", "role", "mine", "--verb=get", "--resource=pods"])?;
    ruler.run(&["get", "configmaps", "-n", "access-none"])?;
    let operator = instance.kubectl.run(&["get", "--raw", &path(cluster, "")])?;
    contains(&operator, &["certPem", "keyPem", "caCertPem", "apiServer"])?;

    let token = user.at_api("alice", &[])?;
    let refusal = token.refused(&["get", "--raw", &path(cluster, "?validDays=366")], None)?;
    contains(&refusal, &["validDays"])?;
    user.at_api("bob", &[])?.refused(&["get", "--raw", &path(cluster, "")], None)?;

    let nobody = r#"{"spec":{"members":[]}}"#;
    admin.run(&["patch", "project", "access", "--type=merge", "-p", nobody])?;
    instance::wait::until("alice is let in no more", SECONDS, || {
        let output = alice.output(&["get", "configmaps"], None)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_out = !output.status.success() && said.contains("forbidden");
        Ok(if is_out { instance::wait::Look::Yes(()) } else { instance::wait::Look::NotYet(said) })
    })?;
    for name in ["access", "access-none"] {
        admin.run(&["delete", "project", name, "--wait=false"])?;
        until_gone(&admin, &["project", name])?;
    }
    Ok(())
}

fn path(cluster: &str, query: &str) -> String {
    let namespaces = "/apis/business.tkestack.io/v1/namespaces/access/namespaces";
    format!("{namespaces}/{cluster}-access/certificate{query}")
}

/// People of the tenant `default`.
struct People<'a> {
    instance: &'a Instance,
    cluster: &'a str,
}

impl People<'_> {
    /// Directly at business-api.
    fn at_api(&self, name: &str, groups: &[&str]) -> Result<Kubectl> {
        let instance = self.instance;
        let api = instance.apis.first().context("no replica")?;
        let ca = Pki::open(&instance.layout.path("pki"))?.cert("serving-ca");
        let file = instance.layout.path(&format!("home/{name}.kubeconfig"));
        let token = token(&instance.issuer.token(name, Some("default"), groups)?);
        let server = format!("https://{}:{}", api.host, api.port);
        Kubeconfig::default().context(name, &server, &ca, &token)?.write(&file)?;
        Ok(instance.kubectl.with_kubeconfig(&file))
    }

    /// In the cluster, with the kubeconfig that is answered.
    fn enters(&self, name: &str, groups: &[&str]) -> Result<Kubectl> {
        let at_api = self.at_api(name, groups)?;
        // He is known as a member moments after he was made one.
        job::until(&at_api, &["bns", &format!("{}-access", self.cluster), "-n", "access"], |_| true)?;
        let text = at_api.run(&["get", "--raw", &path(self.cluster, "?format=kubeconfig")])?;
        let file = self.instance.layout.path(&format!("home/{name}-{}.kubeconfig", self.cluster));
        instance::pki::secret(&file, &text)?;
        Ok(self.instance.kubectl.with_kubeconfig(&file))
    }
}

fn may_what_members_may(alice: &Kubectl) -> Result<()> {
    let said = alice.run(&["auth", "whoami"])?;
    contains(&said, &["business:default:alice"])?;
    ensure!(!said.contains("administrators"), "a member is in the administrators' group: {said}");
    alice.run(&["create", "configmap", "mine", "--from-literal=a=b"])?;
    alice.run(&["create", "configmap", "mine", "--from-literal=a=b", "-n", "access-other"])?;
    alice.run(&["get", "resourcequotas"])?;
    let more = r#"{"spec":{"hard":{"cpu":"50"}}}"#;
    let forbidden: [&[&str]; 7] = [
        &["create", "configmap", "mine", "--from-literal=a=b", "-n", "access-none"],
        &["get", "configmaps", "-n", "default"],
        &["get", "namespaces"],
        &["patch", "resourcequota", "access", "--type=merge", "-p", more],
        &["delete", "namespace", "access"],
        &["delete", "rolebinding", "business:edit"],
        &["create", "rolebinding", "more", "--clusterrole=admin", "--user=business:default:alice"],
    ];
    for args in forbidden {
        contains(&alice.refused(args, None)?, &["forbidden"])?;
    }
    Ok(())
}

/// The cluster's administrator is kept from our bindings; what is done in an emergency is undone.
fn owner_changes_nothing_of_ours(instance: &Instance, cluster: &str) -> Result<()> {
    let owner = instance.member(cluster);
    let eve = r#"{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}"#;
    let binding = ["rolebinding", "business:edit", "-n", "access"];
    let attempts: [&[&str]; 3] = [
        &["patch", "rolebinding", "business:edit", "-n", "access", "--type=merge", "-p", eve],
        &["delete", "rolebinding", "business:admin", "-n", "access"],
        &["create", "rolebinding", "business:view", "-n", "access", "--clusterrole=view", "--user=eve"],
    ];
    for attempt in attempts {
        contains(&owner.refused(attempt, None)?, &["kept by business.tkestack.io"])?;
    }
    let emergency = instance.break_glass(cluster);
    emergency.run(&["patch", "rolebinding", "business:edit", "-n", "access", "--type=merge", "-p", eve])?;
    job::until(&owner, &binding, |object| {
        object.pointer("/subjects/0/name") == Some(&json!("business:default:alice"))
    })?;
    emergency.run(&["delete", "rolebinding", "business:edit", "-n", "access"])?;
    job::until(&owner, &[&binding[..], &["--ignore-not-found"]].concat(), |object| {
        object.pointer("/subjects/0/name") == Some(&json!("business:default:alice"))
    })?;
    confined(&owner)
}

/// Stolen credentials of ours bind nobody else, and have no other certificate signed.
fn confined(owner: &Kubectl) -> Result<()> {
    let controller = "--as=system:serviceaccount:tke-business:business-member";
    let role = "--clusterrole=business:admin";
    let binds: [&[&str]; 3] = [
        &[
            controller,
            "create",
            "rolebinding",
            "business:admin",
            "-n",
            "default",
            role,
            "--user=business:t:eve",
        ],
        &[controller, "create", "rolebinding", "mine", "-n", "access", role, "--user=business:t:eve"],
        &[controller, "create", "rolebinding", "business:view", "-n", "access", role, "--user=eve"],
    ];
    for attempt in binds {
        contains(&owner.refused(attempt, None)?, &["business.tkestack.io"])?;
    }
    let signer = "--as=system:serviceaccount:tke-business:business-signer";
    for (groups, name) in [
        (Some("system:nodes"), "business:default:alice"),
        (None, "system:node:one"),
        (Some("business:break-glass"), "business:default:alice"),
    ] {
        let request = instance::pki::request(name, groups)?;
        let body = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "business-attack"},
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"],
                "expirationSeconds": 86_400,
                "request": request,
            },
        });
        let refusal = owner.refused(&[signer, "create", "-f", "-"], Some(&body.to_string()))?;
        contains(&refusal, &["asks for certificates of business:TENANT:USER"])?;
    }
    Ok(())
}
