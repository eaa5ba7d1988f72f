use super::{clients, contains, output};
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use instance::job::{apply, namespace, project, until, until_active, until_field, until_gone};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::pki::Pki;
use instance::registry::Registry;
use instance::{HOST_CLUSTER, Instance, manifests};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};
use terminal::say;

const PROJECT: &str = "depot";
const CREDENTIAL: &str = "registrycredentials.business.tkestack.io";
/// A namespace in the cluster, and the pull secret in it.
const PODS: &str = "depot-pods";
const PULL_SECRET: &str = "business-registry";
const CONTROLLER: &str = "--as=system:serviceaccount:tke-business:business-member";
const USED: &str = "/status/used/requests.storage";

/// An OCI registry that accepts tokens of business-api: go-containerregistry pushes and pulls images, Helm charts.
pub(super) fn registry(instance: &Instance) -> Result<()> {
    let Some(registry) = &instance.registry else {
        say::skipped("the registry's program could not be built");
        return Ok(());
    };
    let depot = RegistryTest { instance, registry, tenant: instance.tenant() };
    depot.prepare()?;
    let accounts = depot.accounts()?;
    depot.images(&accounts)?;
    depot.pull_secret().context("the pull secret of a namespace")?;
    depot.charts(&accounts)?;
    depot.limits(&accounts)?;
    depot.end(&accounts)
}

/// The registry, and kubectl of the administrator of the tenant whose project uses it.
struct RegistryTest<'a> {
    instance: &'a Instance,
    registry: &'a Registry,
    tenant: Kubectl,
}

/// The users of the registry, as `NAME:PASSWORD`.
struct Accounts {
    /// The tenant's administrator, whose password is his token.
    member: String,
    /// A credential that may push.
    writer: String,
    /// A credential that may only pull.
    reader: String,
    /// An administrator of another tenant, whose password is his token.
    foreign: String,
}

impl RegistryTest<'_> {
    fn prepare(&self) -> Result<()> {
        let mut depot = project(PROJECT, None, &[(HOST_CLUSTER, &[("cpu", "1")])]);
        let clusters =
            depot.pointer_mut("/spec/clusters").and_then(Value::as_object_mut).context("clusters")?;
        clusters.insert("registry".to_owned(), json!({"hard": {"requests.storage": "1Gi"}}));
        apply(&self.tenant, &depot)?;
        until_active(&self.tenant, PROJECT)?;
        for (kind, plural, name) in
            [("ImageNamespace", "imagenamespaces", "images"), ("ChartGroup", "chartgroups", "charts")]
        {
            let object = json!({
                "apiVersion": "business.tkestack.io/v1", "kind": kind,
                "metadata": {"name": name, "namespace": PROJECT},
                "spec": {"name": name, "hard": {"requests.storage": "1Mi"}},
            });
            apply(&self.tenant, &object)?;
            self.until_phase(&format!("{plural}.business.tkestack.io"), name, "Available")?;
        }
        Ok(())
    }

    fn until_phase(&self, plural: &str, name: &str, phase: &str) -> Result<()> {
        until_field(&self.tenant, &[plural, name, "-n", PROJECT], "/status/phase", &json!(phase)).map(drop)
    }

    fn accounts(&self) -> Result<Accounts> {
        let token = |user: &str, tenant: &str| -> Result<String> {
            Ok(format!("{user}:{}", self.instance.issuer.token(user, Some(tenant), &["tenant-admins"])?))
        };
        Ok(Accounts {
            member: token("tenant-admin", "default")?,
            foreign: token("other-admin", "other")?,
            writer: self.robot("ci", "Push")?,
            reader: self.robot("nodes", "Pull")?,
        })
    }

    fn robot(&self, name: &str, access: &str) -> Result<String> {
        let object = json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "RegistryCredential",
            "metadata": {"name": name, "namespace": PROJECT}, "spec": {"access": access},
        });
        apply(&self.tenant, &object)?;
        let path =
            format!("/apis/business.tkestack.io/v1/namespaces/{PROJECT}/registrycredentials/{name}/token");
        let issued: Value =
            serde_json::from_str(&self.tenant.feed(&["create", "--raw", &path, "-f", "-"], "{}")?)?;
        let text =
            |field: &str| issued.pointer(field).and_then(Value::as_str).context("no password was issued");
        Ok(format!("{}:{}", text("/status/username")?, text("/status/password")?))
    }

    fn call(&self, account: &str, args: &[&str]) -> Result<Output> {
        let authority = Pki::open(&self.instance.layout.path("pki"))?.cert("serving-ca");
        let mut command = Command::new(layout::bin().join("registry"));
        command.args(args).env("OCI_ACCOUNT", account).env("SSL_CERT_FILE", authority).stdin(Stdio::null());
        output(&mut command)
    }

    fn image(&self, name: &str) -> String {
        format!("{}/default/images/{name}", self.registry.host())
    }

    /// Runs the client, which must succeed; returns its stdout.
    fn works(&self, account: &str, args: &[&str]) -> Result<String> {
        let output = self.call(account, args)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}", args.join(" "), complaint.trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs the client, which must be refused; returns its stderr.
    fn refused(&self, account: &str, args: &[&str]) -> Result<String> {
        let output = self.call(account, args)?;
        ensure!(!output.status.success(), "{} was let in", args.join(" "));
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn images(&self, accounts: &Accounts) -> Result<()> {
        let Accounts { member, writer, reader, foreign } = accounts;
        let app = self.image("app:1");
        let pushed = self.works(member, &["push", &app])?;
        for account in [member, writer, reader] {
            let pulled = self.works(account, &["pull", &app])?;
            ensure!(pulled == pushed, "another image came out: {pulled}, not {pushed}");
        }
        self.works(writer, &["push", &self.image("app:2")])?;
        let shown = self.refused(reader, &["push", &self.image("app:3")])?;
        ensure!(shown.contains("this credential is for pulling only"), "{shown}");
        self.refused(foreign, &["pull", &app])?;
        self.refused(foreign, &["push", &self.image("app:3")])?;
        self.refused("", &["pull", &app])?;
        self.refused("depot/ci:regcred_wrong", &["pull", &app])?;
        self.tenant.run(&["delete", CREDENTIAL, "ci", "-n", PROJECT])?;
        self.refused(writer, &["pull", &app]).map(drop)
    }

    /// Each namespace has its own pull secret: only the controller writes it, and it is revoked with the namespace.
    fn pull_secret(&self) -> Result<()> {
        let (operator, owner) = (&self.instance.kubectl, self.instance.member(HOST_CLUSTER));
        let mut template =
            manifests::render(operator, "deploy/templates-pulling")?.pop().context("no template")?;
        for (pointer, value) in [("/metadata/name", json!("pulling")), ("/spec/default", json!(false))] {
            *template.pointer_mut(pointer).with_context(|| format!("no {pointer}"))? = value;
        }
        apply(operator, &template)?;
        let names_it = |template: &str| json!({"spec": {"template": template}}).to_string();
        operator.run(&["patch", "project", PROJECT, "--type=merge", "-p", &names_it("pulling")])?;
        let name = format!("{HOST_CLUSTER}-{PODS}");
        apply(&self.tenant, &namespace(PROJECT, HOST_CLUSTER, PODS, &[("cpu", "1")]))?;
        operator.run(&[
            "wait",
            "--for=condition=TemplateApplied",
            "bns",
            &name,
            "-n",
            PROJECT,
            "--timeout=120s",
        ])?;
        let has_it = |account: &Value| {
            let secrets = account.get("imagePullSecrets").and_then(Value::as_array);
            secrets.is_some_and(|all| all.iter().any(|one| one.get("name") == Some(&json!(PULL_SECRET))))
        };
        until(&owner, &["serviceaccount", "default", "-n", PODS], has_it)?;
        let pods = self.pull_account(&owner)?;
        self.works(&pods, &["pull", &self.image("app:1")])?;
        let shown = self.refused(&pods, &["push", &self.image("app:9")])?;
        ensure!(shown.contains("this credential is for pulling only"), "{shown}");
        administrator_may_not_write(&owner)?;
        controller_is_confined(&owner)?;
        let object = self.tenant.json(&["get", "bns", &name, "-n", PROJECT])?;
        let issued = object.pointer("/status/pullCredential/passwords").and_then(Value::as_array);
        ensure!(issued.is_some_and(|all| all.len() == 1), "what is right was issued anew: {object}");
        let secret = owner.json(&["get", "secret", PULL_SECRET, "-n", PODS])?;
        let marked = secret.pointer("/metadata/annotations/business.tkestack.io~1pull-password");
        let newest = issued.and_then(|all| all.first()).and_then(|one| one.get("hash"));
        ensure!(marked.is_some() && marked == newest, "another password is in the Secret");

        // A template without pullSecret: the Secret is deleted, and the ServiceAccount default no longer names it.
        let without = r#"[{"op":"remove","path":"/spec/pullSecret"}]"#;
        operator.run(&["patch", "nst", "pulling", "--type=json", "-p", without])?;
        until_gone(&owner, &["secret", PULL_SECRET, "-n", PODS])?;
        until(&owner, &["serviceaccount", "default", "-n", PODS], |account| !has_it(account))?;
        let is_revoked = |object: &Value| object.pointer("/status/pullCredential").is_none();
        until(&self.tenant, &["bns", &name, "-n", PROJECT], is_revoked)?;
        self.refused(&pods, &["pull", &self.image("app:1")])?;
        apply(operator, &template)?;
        until(&owner, &["serviceaccount", "default", "-n", PODS], has_it)?;
        let pods = self.pull_account(&owner)?;
        self.works(&pods, &["pull", &self.image("app:1")])?;

        self.tenant.run(&["delete", "bns", &name, "-n", PROJECT, "--wait=false"])?;
        until_gone(&self.tenant, &["bns", &name, "-n", PROJECT])?;
        self.refused(&pods, &["pull", &self.image("app:1")])?;
        operator.run(&["patch", "project", PROJECT, "--type=merge", "-p", &names_it("")])?;
        operator.run(&["delete", "nst", "pulling", "--wait=false"])?;
        until_gone(operator, &["nst", "pulling"])
    }

    /// The `NAME:PASSWORD` of the pull secret, as a node reads it.
    fn pull_account(&self, owner: &Kubectl) -> Result<String> {
        let secret = owner.json(&["get", "secret", PULL_SECRET, "-n", PODS])?;
        ensure!(secret.get("type") == Some(&json!("kubernetes.io/dockerconfigjson")), "another type");
        let config = secret.pointer("/data/.dockerconfigjson").and_then(Value::as_str).context("no data")?;
        let config: Value = serde_json::from_slice(&STANDARD.decode(config)?)?;
        let account = config.get("auths").and_then(|auths| auths.get(self.registry.host()));
        let text = |field| account?.get(field).and_then(Value::as_str);
        let (user, password) =
            (text("username").context("no user")?, text("password").context("no password")?);
        Ok(format!("{user}:{password}"))
    }

    fn charts(&self, accounts: &Accounts) -> Result<()> {
        let group = format!("{}/default/charts", self.registry.host());
        let authority = Pki::open(&self.instance.layout.path("pki"))?.cert("serving-ca");
        let mut helm = clients::go_test(self.instance, "tests/helm", &["-run", "TestHelm4Charts", "."]);
        helm.env("REGISTRY_CHARTS", group).env("SSL_CERT_FILE", authority);
        helm.env("REGISTRY_WRITER", &accounts.member).env("REGISTRY_READER", &accounts.reader);
        clients::passes(helm.env("REGISTRY_FOREIGN", &accounts.foreign))
    }

    /// Pushes are refused when the budget is used up, and when an operator has locked the image namespace.
    fn limits(&self, accounts: &Accounts) -> Result<()> {
        let Accounts { member, reader, .. } = accounts;
        let much = self.works(member, &["push", &self.image("much:1"), "--bytes", "2000000"])?;
        let get = ["imagenamespaces.business.tkestack.io", "images", "-n", PROJECT];
        let is_counted = |object: &Value| {
            let used = object.pointer(USED).and_then(Value::as_str).unwrap_or_default();
            used.parse::<u64>().is_ok_and(|bytes| bytes > 2_000_000)
        };
        until(&self.tenant, &get, is_counted)?;
        let shown = self.refused(member, &["push", &self.image("more:1")])?;
        ensure!(
            shown.contains("is full") && shown.contains("depot") && shown.contains("hard 1Mi"),
            "{shown}"
        );
        self.works(reader, &["pull", &self.image("much:1")])?;
        self.works(member, &["delete", &format!("{}@{much}", self.image("much"))])?;
        until(&self.tenant, &get, |object| !is_counted(object))?;
        self.works(member, &["push", &self.image("more:1")])?;

        let operator = &self.instance.kubectl;
        for (locked, phase) in [(true, "Locked"), (false, "Available")] {
            let patch = json!({"status": {"locked": locked}}).to_string();
            let [plural, name, ..] = get;
            operator.run(&[
                "patch",
                plural,
                name,
                "-n",
                PROJECT,
                "--subresource=status",
                "--type=merge",
                "-p",
                &patch,
            ])?;
            self.until_phase(plural, name, phase)?;
            if locked {
                let shown = self.refused(member, &["push", &self.image("more:2")])?;
                ensure!(shown.contains("is locked by an operator"), "{shown}");
                self.works(member, &["pull", &self.image("more:1")])?;
            }
        }
        self.works(member, &["push", &self.image("more:2")])?;

        // An untagged image is in no list of the registry: it is counted by the registry's notification.
        let digest = self.works(member, &["push", "--by-digest", &self.image("bare:none")])?;
        let name = format!("default/images/bare@{digest}");
        let is_noted = |object: &Value| {
            let untagged = object.pointer("/status/untagged").and_then(Value::as_array);
            untagged.is_some_and(|all| all.iter().any(|one| one == name.as_str()))
        };
        until(&self.tenant, &get, is_noted).map(drop)
    }

    /// With the project, its images are deleted from the registry. The objects stay until the last token has expired: this
    /// test does not wait for that.
    fn end(&self, accounts: &Accounts) -> Result<()> {
        self.tenant.run(&["delete", "project", PROJECT, "--wait=false"])?;
        let images = "imagenamespaces.business.tkestack.io";
        self.until_phase(images, "images", "Terminating")?;
        self.refused(&accounts.member, &["push", &self.image("late:1")])?;
        let is_empty = |object: &Value| {
            object.get("status").is_some_and(|status| status.to_string().contains("TokensExpire"))
        };
        until(&self.tenant, &[images, "images", "-n", PROJECT], is_empty)?;
        let shown = self.refused(&accounts.member, &["pull", &self.image("more:1")])?;
        ensure!(shown.contains("UNKNOWN") || shown.contains("NOT_FOUND"), "{shown}");
        Ok(())
    }
}

/// The policy refuses writes of the pull secret by the cluster's administrator, and says why. Other Secrets are his.
fn administrator_may_not_write(owner: &Kubectl) -> Result<()> {
    let data = r#"{"data":{".dockerconfigjson":"e30="}}"#;
    let attempts: [&[&str]; 2] = [
        &["patch", "secret", PULL_SECRET, "-n", PODS, "--type=merge", "-p", data],
        &["delete", "secret", PULL_SECRET, "-n", PODS],
    ];
    for attempt in attempts {
        contains(&owner.refused(attempt, None)?, &["kept by business.tkestack.io"])?;
    }
    owner.run(&["create", "secret", "generic", "mine", "-n", PODS, "--from-literal=a=b"])?;
    owner
        .run(&[
            "create",
            "secret",
            "generic",
            PULL_SECRET,
            "-n",
            "default",
            "--from-literal=a=b",
            "--dry-run=server",
        ])
        .map(drop)
}

/// With stolen credentials of the controller, no other Secret can be read or written, and nothing else of a
/// `ServiceAccount` changed.
fn controller_is_confined(owner: &Kubectl) -> Result<()> {
    let theirs: [&[&str]; 6] = [
        &["get", "secrets", "-A"],
        &["get", "secrets", "-n", PODS],
        &["get", "secret", "mine", "-n", PODS],
        &["delete", "secret", "mine", "-n", PODS],
        &["create", "secret", "generic", "more", "-n", PODS, "--from-literal=a=b"],
        &["create", "token", "default", "-n", PODS],
    ];
    for attempt in theirs {
        contains(&owner.refused(&[&[CONTROLLER], attempt].concat(), None)?, &["forbidden"])?;
    }
    let named = format!("metadata.name={PULL_SECRET}");
    owner.run(&[CONTROLLER, "get", "secrets", "-A", "--field-selector", &named])?;
    let elsewhere = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {
            "name": PULL_SECRET, "namespace": "default", "labels": {"business.tkestack.io/template": "pulling"},
            "annotations": {"business.tkestack.io/uid": "u"},
        },
        "data": {".dockerconfigjson": "e30="},
    });
    // Server-side apply needs only the right to patch.
    let apply =
        [CONTROLLER, "apply", "--server-side", "--force-conflicts", "--field-manager=test", "-f", "-"];
    contains(&owner.refused(&apply, Some(&elsewhere.to_string()))?, &["that carry its mark"])?;
    let account = |fields: Value| {
        let mut account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": PODS},
        });
        if let (Some(account), Value::Object(fields)) = (account.as_object_mut(), fields) {
            account.extend(fields);
        }
        account.to_string()
    };
    let metadata = json!({"name": "default", "namespace": PODS, "annotations": {"a": "b"}});
    for changed in [
        json!({"automountServiceAccountToken": false}),
        json!({"imagePullSecrets": [{"name": "mine"}, {"name": PULL_SECRET}]}),
        json!({ "metadata": metadata }),
    ] {
        contains(&owner.refused(&apply, Some(&account(changed)))?, &["changes nothing else"])?;
    }
    // A dry run, because the controller would not remove the name from an account that somebody else has written.
    let rehearsed = [&apply[..], &["--dry-run=server"]].concat();
    owner.feed(&rehearsed, &account(json!({"imagePullSecrets": [{"name": PULL_SECRET}]}))).map(drop)
}
