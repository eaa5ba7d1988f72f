//! Installs, runs, upgrades, rolls back and uninstalls one release.

use super::certificates;
use super::figures::PromQueries;
use super::helm::{Helm, RELEASE, values};
use super::pod::{Node, Pod};
use crate::json::text;
use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use instance::Instance;
use instance::job::{Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::kubeconfig::{Kubeconfig, token};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::manifests::{APISERVICE, MEMBERS_NAMESPACE, NAMESPACE, SERVICE};
use instance::pki::Pki;
use instance::platform::apiservice_available;
use instance::postgres;
use instance::process;
use instance::programs::answer;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use terminal::say;

const CLUSTER: &str = "host";
/// The CA of cert-manager's certificates, as the chart names it.
const AUTHORITY: &str = "business-ca";
/// The identity provider in the configuration. Nobody logs in.
const PROVIDER: &str = "https://127.0.0.1:1";
const PROVIDER_NAME: &str = "Example Corporation";
const AUDITED: Duration = Duration::from_mins(2);
const SOME: Hard<'_> = &[("pods", "3")];

/// The release under test.
struct ReleaseTest<'a> {
    instance: &'a Instance,
    helm: &'a Helm,
    pki: Pki,
    pods: Vec<Pod>,
    /// How often the pods were started. It makes their names unique.
    rounds: u8,
}

pub(super) fn check(instance: &Instance, helm: &Helm, archive: &str, queries: &PromQueries) -> Result<()> {
    let pki = Pki::open(&instance.layout.path("pki"))?;
    let mut release = ReleaseTest { instance, helm, pki, pods: Vec::new(), rounds: 0 };
    say::step("what docs/install.md has people bring is brought", || release.create_prerequisites())?;
    say::step("a database of another authority is not believed", || release.rejects_other_authority())?;
    say::step("Helm installs the chart's archive, and what it would run is ready", || {
        helm.run(&["install", RELEASE, archive, "--values", &values("run")])?;
        release.run()
    })?;
    say::step("helm test passes", || release.test())?;
    say::step("the console answers, by the name that its certificate has", || release.console())?;
    say::step("a cluster joins, and a project has a namespace in it", || release.join())?;
    say::step("the credentials in its Secret are rotated, and the old ones are refused", || {
        release.rotate()
    })?;
    say::step("what alerts and dashboard ask for is exported", || {
        queries.check_metrics(&release.exported()?)
    })?;
    say::step("Helm upgrades the release", || {
        release.change(&[
            "upgrade",
            RELEASE,
            archive,
            "--values",
            &values("run"),
            "--values",
            &values("upgrade"),
        ])?;
        release.works("upgraded")
    })?;
    say::step("Helm rolls it back", || {
        release.change(&["rollback", RELEASE, "1"])?;
        release.works("back")
    })?;
    say::step("Helm uninstalls it, and the credentials of clusters stay", || release.uninstall())
}

impl ReleaseTest<'_> {
    fn kubectl(&self) -> &Kubectl {
        &self.instance.kubectl
    }

    /// Creates what docs/install.md, docs/console.md and docs/identity.md tell people to create first.
    fn create_prerequisites(&self) -> Result<()> {
        let authority = std::fs::read_to_string(self.pki.cert(postgres::AUTHORITY))?;
        for object in [
            super::matrix::namespace(NAMESPACE),
            secret("business-database", &json!({"url": self.instance.database_url})),
            secret("business-database-ca", &json!({"ca.crt": authority})),
            secret("business-console", &console()?),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "business-authentication", "namespace": NAMESPACE},
                "data": {"authentication.yaml": serde_yaml_ng::to_string(&authentication(&authority))?},
            }),
        ] {
            self.kubectl().apply(&object.to_string())?;
        }
        Ok(())
    }

    /// With verify-full, business-api rejects a server certificate of another CA or for another name.
    fn rejects_other_authority(&self) -> Result<()> {
        self.pki.authority("another-ca")?;
        let named = self.instance.database_url.replace("127.0.0.1", "localhost");
        for (url, authority, told) in [
            (&self.instance.database_url, "another-ca", "UnknownIssuer"),
            (&named, postgres::AUTHORITY, "not valid for name"),
        ] {
            let mut audit = Command::new(layout::program_path("business-api")?);
            audit
                .arg("audit")
                .env("DATABASE_URL", url)
                .env("PGSSLMODE", "verify-full")
                .env("PGSSLROOTCERT", self.pki.cert(authority));
            let output = process::output_within(&mut audit, None, AUDITED)?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(!output.status.success() && said.contains(told), "{authority}: {said}");
        }
        Ok(())
    }

    /// Starts the replicas of the Deployments in the cluster, and points Service and APIService to them.
    fn run(&mut self) -> Result<()> {
        certificates::issue(self.kubectl(), &self.pki)?;
        self.rounds += 1;
        self.run_jobs()?;
        for name in ["business-api", "business-controller"] {
            let deployment = self.kubectl().json(&["get", "deployment", name, "--namespace", NAMESPACE])?;
            let spec = deployment.pointer("/spec/template/spec").context("a Deployment without pods")?;
            let replicas = deployment.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
            let node = Node { kubectl: &self.instance.kubectl, dir: self.instance.layout.path("pods") };
            for number in 0..replicas {
                let pod = node.run(&format!("{name}-{}-{number}", self.rounds), NAMESPACE, spec)?;
                self.pods.push(pod);
            }
            if name == SERVICE {
                self.redirect_service()?;
            }
        }
        // Both controllers become ready: they share the clusters.
        self.pods.iter_mut().try_for_each(Pod::ready)?;
        apiservice_available(self.kubectl())
    }

    /// Runs the pods of each Job and `CronJob` to their end.
    fn run_jobs(&self) -> Result<()> {
        let node = self.node();
        for (kind, path) in
            [("jobs", "/spec/template/spec"), ("cronjobs", "/spec/jobTemplate/spec/template/spec")]
        {
            let list = self.kubectl().json(&["get", kind, "--namespace", NAMESPACE])?;
            for job in list.get("items").and_then(Value::as_array).into_iter().flatten() {
                let spec = job.pointer(path).context("a job without a pod")?;
                node.run(&format!("{}-{}", text(job, "/metadata/name"), self.rounds), NAMESPACE, spec)?
                    .succeeds()?;
            }
        }
        Ok(())
    }

    fn node(&self) -> Node<'_> {
        Node { kubectl: &self.instance.kubectl, dir: self.instance.layout.path("pods") }
    }

    /// Points Service and APIService to the first pod, because this machine has no cluster addresses.
    fn redirect_service(&mut self) -> Result<()> {
        let first = self.pods.first_mut().context("no pod")?;
        first.ready()?;
        let port = first.port("https")?;
        let service = json!({"spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
        let registration = json!({"spec": {"service": {"port": port}}});
        let patch = |args: &[&str], body: &Value| {
            let body = body.to_string();
            self.instance.kubectl.run(&[&["patch"], args, &["--type=merge", "--patch", &body]].concat())
        };
        patch(&["service", SERVICE, "--namespace", NAMESPACE], &service)?;
        patch(&["apiservice", APISERVICE], &registration)?;
        Ok(())
    }

    /// Does what `helm test` does, without a kubelet.
    fn test(&self) -> Result<()> {
        let node = self.node();
        let hooks = self.helm.hooks()?;
        let rights: Vec<&Value> = hooks.iter().filter(|object| text(object, "/kind") != "Pod").collect();
        let rights = json!({"apiVersion": "v1", "kind": "List", "items": rights}).to_string();
        self.kubectl().apply(&rights)?;
        let pods: Vec<&Value> = hooks.iter().filter(|object| text(object, "/kind") == "Pod").collect();
        ensure!(!pods.is_empty(), "the chart has no test");
        for pod in pods {
            let spec = pod.get("spec").context("a pod without spec")?;
            node.run(text(pod, "/metadata/name"), NAMESPACE, spec)?.succeeds()?;
        }
        // Their hook-delete-policy wants it.
        self.kubectl().feed(&["delete", "-f", "-"], &rights).map(drop)
    }

    /// Requests the console as an ingress does.
    fn console(&self) -> Result<()> {
        let port = self.pods.first().context("no pod")?.port("console")?;
        let file = self.instance.layout.path("home/console.kubeconfig");
        let (server, authority) = (format!("https://127.0.0.1:{port}"), self.pki.cert(AUTHORITY));
        Kubeconfig::default().context("console", &server, &authority, &token("nobody"))?.write(&file)?;
        let name = format!("--tls-server-name=business-console.{NAMESPACE}.svc");
        let told = self.kubectl().with_kubeconfig(&file).run(&["get", "--raw", "/console/config", &name])?;
        let told: Value = serde_json::from_str(&told)?;
        let issuers = json!([{"name": "corp", "displayName": PROVIDER_NAME}]);
        ensure!(told.get("issuers") == Some(&issuers), "{told}");
        Ok(())
    }

    /// `/metrics` of kube-apiserver and of each pod.
    fn exported(&self) -> Result<Vec<String>> {
        let mut texts = vec![self.kubectl().run(&["get", "--raw", "/metrics"])?];
        for pod in &self.pods {
            texts.push(answer(pod.port("admin")?, "/metrics")?.1);
        }
        Ok(texts)
    }

    fn join(&self) -> Result<()> {
        let operator = self.operator()?;
        self.credentials(&operator, "join")?;
        apply(&operator, &project("shop", None, &[(CLUSTER, &[("pods", "12")])]))?;
        until_active(self.kubectl(), "shop")?;
        self.works("first")
    }

    fn rotate(&self) -> Result<()> {
        let printed = self.credentials(&self.operator()?, "rotate")?;
        ensure!(printed.contains("the old ones are refused"), "{printed}");
        self.works("rotated")
    }

    /// Runs `join` or `rotate` of the command line for the cluster.
    fn credentials(&self, operator: &Kubectl, command: &str) -> Result<String> {
        let home = self.instance.layout.path("home");
        let business = Kubectl::new(&layout::program_path("kubectl-business")?, operator.kubeconfig(), &home);
        let member = self.kubectl().kubeconfig().to_string_lossy().into_owned();
        let host = operator.kubeconfig().to_string_lossy().into_owned();
        business.run(&[command, CLUSTER, "--kubeconfig", &member, "--host-kubeconfig", &host, "--days", "1"])
    }

    /// kubectl of a platform operator, who has only the roles that deploy/ defines for operators.
    fn operator(&self) -> Result<Kubectl> {
        let name = "operator";
        let subject = json!({"kind": "ServiceAccount", "namespace": "default", "name": name});
        let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "business-operator"});
        let (api, account) = ("rbac.authorization.k8s.io/v1", "ServiceAccount");
        for object in [
            json!({"apiVersion": "v1", "kind": account, "metadata": {"name": name, "namespace": "default"}}),
            json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": role("ClusterRole"), "subjects": [subject]}),
            json!({"apiVersion": api, "kind": "RoleBinding", "metadata": {"name": name, "namespace": MEMBERS_NAMESPACE},
                "roleRef": role("Role"), "subjects": [subject]}),
        ] {
            self.kubectl().apply(&object.to_string())?;
        }
        let like = self.kubectl().json(&["config", "view", "--raw", "--flatten", "--minify"])?;
        let issued = self.kubectl().run(&["create", "token", name, "--namespace", "default"])?;
        let file = self.instance.layout.path("home/operator.kubeconfig");
        Kubeconfig::default().context_like("operator", &like, &token(issued.trim()))?.write(&file)?;
        Ok(self.kubectl().with_kubeconfig(&file))
    }

    /// The whole platform works: a new namespace gets its quota in the cluster.
    fn works(&self, name: &str) -> Result<()> {
        apply(self.kubectl(), &namespace("shop", CLUSTER, name, SOME))?;
        until_available(self.kubectl(), "shop", &format!("{CLUSTER}-{name}"))?;
        self.kubectl().run(&["get", "resourcequota", "--namespace", name, "-o", "name"]).map(drop)
    }

    /// Changes the release with helm and replaces the pods by those of the new Deployments.
    fn change(&mut self, args: &[&str]) -> Result<()> {
        // `redirect_service` has changed the port of the APIService.
        self.helm.run(&[args, &["--force-conflicts"]].concat())?;
        for pod in std::mem::take(&mut self.pods) {
            pod.stop()?;
        }
        self.run()
    }

    fn uninstall(&mut self) -> Result<()> {
        let namespaces = ["first", "rotated", "upgraded", "back"].map(|name| format!("{CLUSTER}-{name}"));
        for name in &namespaces {
            self.kubectl().run(&["delete", "bns", name, "-n", "shop", "--wait=false"])?;
        }
        for name in &namespaces {
            until_gone(self.kubectl(), &["bns", name, "-n", "shop"])?;
        }
        self.kubectl().run(&["delete", "project", "shop", "--wait=false"])?;
        until_gone(self.kubectl(), &["project", "shop"])?;
        self.helm.run(&["uninstall", RELEASE])?;
        for pod in std::mem::take(&mut self.pods) {
            pod.stop()?;
        }
        for kind in ["deployments", "services", "roles", "rolebindings", "serviceaccounts", "networkpolicies"]
        {
            let selector = format!("app.kubernetes.io/instance={RELEASE}");
            let left = self.kubectl().run(&["get", kind, "-A", "-l", &selector, "-o", "name"])?;
            ensure!(left.trim().is_empty(), "{left} is left");
        }
        until_gone(self.kubectl(), &["apiservice", APISERVICE])?;
        let secret = format!("cluster-{CLUSTER}");
        self.kubectl().run(&["get", "secret", &secret, "--namespace", MEMBERS_NAMESPACE]).map(drop)
    }
}

fn secret(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": data,
        "metadata": {"name": name, "namespace": NAMESPACE},
    })
}

/// The Secret of docs/console.md, for a public client.
fn console() -> Result<Value> {
    let issuer = json!({"name": "corp", "displayName": PROVIDER_NAME, "issuer": PROVIDER, "clientID": "business-console"});
    let issuers = serde_yaml_ng::to_string(&json!({"issuers": [issuer]}))?;
    // The key may be known: there are no sessions.
    Ok(json!({"issuers.yaml": issuers, "keys": STANDARD.encode([7_u8; 32])}))
}

/// The issuers of docs/identity.md, with a private CA.
fn authentication(authority: &str) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {
                "url": PROVIDER, "audiences": ["kubernetes", "business-console"], "audienceMatchPolicy": "MatchAny",
                "certificateAuthority": authority,
            },
            "claimMappings": {
                "username": {"claim": "sub", "prefix": "corp:"},
                "groups": {"claim": "groups", "prefix": "corp:"},
            },
        }],
    })
}
