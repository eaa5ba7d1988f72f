use anyhow::{Context, Result, ensure};
use instance::job::apply;
use instance::kubeconfig::{Kubeconfig, token};
use instance::layout;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance, process};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use terminal::say;

/// Objects of a test have gone by then.
const SOON: Duration = Duration::from_mins(3);
/// How long tests of a client may run, with their build.
const PASSES: Duration = Duration::from_mins(25);

/// client-go's own code against the server, aggregated and direct; informers with and without `WatchList`.
pub(super) fn client_go(instance: &Instance) -> Result<()> {
    for (watch_list, tests) in [("true", "."), ("false", "Informer")] {
        let mut go = go_test(instance, "tests/controlplane", &["-run", tests, "./clientgo"]);
        go.env("KUBE_FEATURE_WatchListClient", watch_list);
        passes(&mut go).with_context(|| format!("with WatchList {watch_list}"))?;
    }
    Ok(())
}

/// The ways of Argo CD and Flux once more, by a service account that a tenant names as its administrator: through kube-apiserver,
/// by the door that is open to everybody, without a right of its own in Kubernetes.
pub(super) fn gitops(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let account = json!({"kind": "ServiceAccount", "namespace": "gitops", "name": "argocd"});
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gitops"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "argocd", "namespace": "gitops"}}),
        json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "Tenant", "metadata": {"name": "gitops"},
            "spec": {"displayName": "GitOps", "administrators": [account]},
        }),
    ] {
        apply(k, &object)?;
    }
    let issued = k.run(&["create", "token", "argocd", "-n", "gitops"])?;
    let file = instance.layout.path("home/argocd.kubeconfig");
    let host: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(k.kubeconfig())?)?;
    Kubeconfig::default().context_like("argocd", &host, &token(issued.trim()))?.write(&file)?;
    let argocd = k.with_kubeconfig(&file);
    let refusal = argocd.refused(&["get", "memberclusters"], None)?;
    ensure!(refusal.contains("orbidden"), "a tenant's program sees member clusters: {refusal}");
    let mut go = go_test(instance, "tests/controlplane", &["-run", "ArgoCD|Flux", "./clientgo"]);
    go.env("TENANT_KUBECONFIG", &file).env("TENANT", "gitops").env_remove("OPERATOR_KUBECONFIG");
    passes(&mut go)?;
    k.run(&["delete", "namespace", "gitops", "--wait=false"])?;
    wait::until("the tenant's object goes", SOON, || {
        let output = k.output(&["delete", "tenant", "gitops"], None)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(if output.status.success() { Progress::Done(()) } else { Progress::Pending(said) })
    })
}

/// Helm 3 with its three-way merge patches, Helm 4 with server-side apply.
pub(super) fn helm(instance: &Instance) -> Result<()> {
    passes(&mut go_test(instance, "tests/helm", &["."]))
}

pub(super) fn go_test(instance: &Instance, module: &str, args: &[&str]) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(layout::workspace().join(module))
        .args(["test", "-trimpath", "-count=1", "-timeout=20m"])
        .args(args)
        .env("CGO_ENABLED", "0");
    ways(&mut command, instance);
    command
}

/// Tells a client's tests the ways to the server.
fn ways(command: &mut Command, instance: &Instance) {
    command
        .env("OPERATOR_KUBECONFIG", instance.layout.path("kubeconfig"))
        .env("TENANT_KUBECONFIG", instance.layout.path("tenant.kubeconfig"))
        .env("MEMBER", HOST_CLUSTER)
        .stdin(Stdio::null());
}

pub(super) fn passes(command: &mut Command) -> Result<()> {
    let output = process::output_within(command, None, PASSES)?;
    let (text, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{text}{complaint}");
    Ok(())
}

/// The package `kubernetes` of Python; skipped where Python or the package is not to be had.
pub(super) fn python(instance: &Instance) -> Result<()> {
    match packages() {
        Err(reason) => {
            say::skipped(&format!("{reason:#}"));
            Ok(())
        }
        Ok(packages) => {
            let mut command = Command::new("python3");
            ways(command.arg(layout::workspace().join("tests/python/clients.py")), instance);
            passes(command.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1"))
        }
    }
}

/// The directory of the packages that the tests import, installed once per checkout.
fn packages() -> Result<PathBuf> {
    let wanted = layout::workspace().join("tests/python/requirements.txt");
    let packages =
        layout::workspace().join(format!(".dev/python-{}", layout::hash(&std::fs::read(&wanted)?)));
    if packages.exists() {
        return Ok(packages);
    }
    let partial = packages.with_extension(format!("partial-{}", std::process::id()));
    let mut install = Command::new("python3");
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
        .arg(&partial)
        .arg("--requirement")
        .arg(&wanted)
        .stdin(Stdio::null());
    passes(&mut install)?;
    std::fs::rename(&partial, &packages)?;
    Ok(packages)
}

/// kube-rs's watcher, reflector and store, aggregated and direct.
pub(super) fn kube_rs(instance: &Instance) -> Result<()> {
    let program = layout::program_path("reflector")?;
    for kubeconfig in ["kubeconfig", "tenant.kubeconfig"] {
        let mut command = Command::new(&program);
        command.arg("--kubeconfig").arg(instance.layout.path(kubeconfig));
        passes(command.env("DATABASE_URL", &instance.database_url)).context(kubeconfig)?;
    }
    Ok(())
}

/// Server-side apply beside a custom resource with the same schema on the instance's kube-apiserver.
pub(super) fn apply_differential(instance: &Instance) -> Result<()> {
    let mut command = Command::new(layout::program_path("differential")?);
    command.arg("--kubeconfig").arg(instance.layout.path("kubeconfig"));
    passes(command.args(["--histories", "300", "--schemas", "4"]))
}
