//! The effect of single values on the rendered chart.

use super::helm::{Helm, chart};
use crate::json::{found, list, text};
use anyhow::{Context as _, Result, ensure};
use instance::manifests::NAMESPACE;
use serde_json::{Value, json};
use std::path::Path;

const API: &str = "business-api";
const CONTROLLER: &str = "business-controller";
const CONTAINER: &str = "/spec/template/spec/containers/0";

pub(super) fn check(helm: &Helm, dir: &Path) -> Result<()> {
    pinned(helm)?;
    placed(helm)?;
    fixed_ids(helm)?;
    grace_period(helm)?;
    replicas(helm)?;
    forbidden_namespaces(helm)?;
    overrides(helm)?;
    standby(helm)?;
    console_issuers(helm)?;
    labelled(helm, dir)
}

fn deployment<'a>(objects: &'a [Value], name: &str) -> Result<&'a Value> {
    let is_it = |one: &&Value| text(one, "/kind") == "Deployment" && text(one, "/metadata/name") == name;
    objects.iter().find(is_it).with_context(|| format!("no Deployment {name}"))
}

/// With digests, each image is named by its digest: of both programs, of the jobs, of the test and of the tunnel.
fn pinned(helm: &Helm) -> Result<()> {
    let digest = format!("sha256:{:064x}", 7);
    let set = format!("api.digest={digest},controller.digest={digest},tunnel.image=proxy-server@{digest}");
    let more =
        "certificates.provider=job,tunnel.enabled=true,image.registry=registry.example.org:5000/platform";
    let objects = Value::from(helm.template_with(NAMESPACE, &chart(), &[&set, more])?);
    let mut images = Vec::new();
    found(&objects, "image", &mut images);
    let wanted = |name: &str| json!(format!("registry.example.org:5000/platform/{name}@{digest}"));
    let of = |image: &Value| images.iter().filter(|found| **found == image).count();
    let counted = (of(&wanted(API)), of(&wanted(CONTROLLER)), of(&json!(format!("proxy-server@{digest}"))));
    ensure!(counted == (4, 1, 1) && images.len() == 6, "{images:?}");
    Ok(())
}

/// All pods with the image of business-api have its nodeSelector and tolerations.
fn placed(helm: &Helm) -> Result<()> {
    let set = "certificates.provider=job,api.nodeSelector.disk=ssd,api.tolerations[0].operator=Exists";
    let objects = Value::from(helm.template_with(NAMESPACE, &chart(), &[set])?);
    let (mut selectors, mut tolerations) = (Vec::new(), Vec::new());
    found(&objects, "nodeSelector", &mut selectors);
    found(&objects, "tolerations", &mut tolerations);
    let placed = selectors.iter().all(|one| **one == json!({"disk": "ssd"}));
    let tolerant = tolerations.iter().all(|one| **one == json!([{"operator": "Exists"}]));
    // Deployment, job, daily job, test.
    ensure!(
        placed && tolerant && (selectors.len(), tolerations.len()) == (4, 4),
        "{selectors:?} {tolerations:?}"
    );
    Ok(())
}

/// Without `fixedIds`, no pod of programs, jobs or the test sets user or group ids: the cluster assigns them.
fn fixed_ids(helm: &Helm) -> Result<()> {
    for (fixed, wanted) in [("true", [5, 5, 2]), ("false", [0, 0, 0])] {
        let set =
            format!("certificates.provider=job,people.enabled=true,tunnel.enabled=true,fixedIds={fixed}");
        let objects = Value::from(helm.template_with(NAMESPACE, &chart(), &[&set])?);
        let count = |key: &str| {
            let mut values = Vec::new();
            found(&objects, key, &mut values);
            values.len()
        };
        let counted = ["runAsUser", "runAsGroup", "fsGroup"].map(count);
        ensure!(counted == wanted && count("runAsNonRoot") == 5, "fixedIds={fixed}: {counted:?}");
    }
    Ok(())
}

/// terminationGracePeriodSeconds allows a longer --shutdown-delay of business-api.
fn grace_period(helm: &Helm) -> Result<()> {
    let set = "api.extraArgs={--shutdown-delay=60s},api.terminationGracePeriodSeconds=125";
    let objects = helm.template_with(NAMESPACE, &chart(), &[set])?;
    for (name, wanted) in [(API, 125), (CONTROLLER, 30)] {
        let seconds =
            deployment(&objects, name)?.pointer("/spec/template/spec/terminationGracePeriodSeconds");
        ensure!(seconds == Some(&json!(wanted)), "{name}: {seconds:?}");
    }
    Ok(())
}

/// With an autoscaler the chart sets no replicas. But 0 replicas, as during a restore, stay 0.
fn replicas(helm: &Helm) -> Result<()> {
    for (set, wanted) in [
        ("api.replicas=3", Some(json!(3))),
        ("api.autoscaling.enabled=true", None),
        ("api.autoscaling.enabled=true,api.replicas=0", Some(json!(0))),
    ] {
        let objects = helm.template_with(NAMESPACE, &chart(), &[set])?;
        let replicas = deployment(&objects, API)?.pointer("/spec/replicas");
        ensure!(replicas == wanted.as_ref(), "{set}: {replicas:?}");
    }
    Ok(())
}

/// Both programs get the same --forbidden-namespaces, in whichever namespace the release is. It always has tke-business,
/// because the controller uses that in each member cluster.
fn forbidden_namespaces(helm: &Helm) -> Result<()> {
    let always = "--forbidden-namespaces=default,kube-*,tke-business,tke-business-members";
    for (namespace, set, wanted) in [
        (NAMESPACE, "image.tag=x", None),
        ("elsewhere", "image.tag=x", Some(format!("{always},elsewhere"))),
        (NAMESPACE, "members.namespace=clusters", Some(format!("{always},clusters"))),
        ("elsewhere", "members.namespace=clusters", Some(format!("{always},elsewhere,clusters"))),
    ] {
        let objects = helm.template_with(namespace, &chart(), &[set])?;
        for name in [API, CONTROLLER] {
            let args = list(deployment(&objects, name)?, &format!("{CONTAINER}/args"));
            let told = args.filter_map(Value::as_str).find(|flag| flag.starts_with("--forbidden-namespaces"));
            ensure!(told == wanted.as_deref(), "{name} in {namespace} with {set}: {told:?}");
        }
    }
    Ok(())
}

/// An extra variable, volume or mount replaces the chart's own of the same name.
fn overrides(helm: &Helm) -> Result<()> {
    let objects = helm.template_with(
        NAMESPACE,
        &chart(),
        &[
            "api.extraEnv[0].name=DATABASE_URL,api.extraEnv[0].value=postgres://x",
            "api.extraVolumes[0].name=console,api.extraVolumes[0].emptyDir.medium=Memory",
            "api.extraVolumes[1].name=tls,api.extraVolumes[1].secret.secretName=another",
            "api.extraVolumeMounts[0].name=console,api.extraVolumeMounts[0].mountPath=/tls",
            "people.enabled=true",
        ],
    )?;
    let api = deployment(&objects, API)?;
    let of = |place: &str, key: &str, name: &str| -> Vec<&Value> {
        list(api, place).filter(|one| text(one, key) == name).collect()
    };
    let env = of(&format!("{CONTAINER}/env"), "/name", "DATABASE_URL");
    ensure!(env == [&json!({"name": "DATABASE_URL", "value": "postgres://x"})], "{env:?}");
    let console = of("/spec/template/spec/volumes", "/name", "console");
    ensure!(console == [&json!({"name": "console", "emptyDir": {"medium": "Memory"}})], "{console:?}");
    let tls = of("/spec/template/spec/volumes", "/name", "tls");
    ensure!(tls == [&json!({"name": "tls", "secret": {"secretName": "another"}})], "{tls:?}");
    let mounts = of(&format!("{CONTAINER}/volumeMounts"), "/mountPath", "/tls");
    ensure!(mounts == [&json!({"name": "console", "mountPath": "/tls"})], "{mounts:?}");
    // The chart's other volumes stay.
    let issuer = of("/spec/template/spec/volumes", "/name", "issuer");
    ensure!(issuer.len() == 1, "{issuer:?}");
    Ok(())
}

/// The configuration of docs/operations/database.md: the URL of the standby comes from a Secret.
fn standby(helm: &Helm) -> Result<()> {
    let reference = "api.extraEnv[0].valueFrom.secretKeyRef.name=business-standby,api.extraEnv[0].valueFrom.secretKeyRef.key=url";
    let objects =
        helm.template_with(NAMESPACE, &chart(), &["api.extraEnv[0].name=READ_FROM_URL", reference])?;
    let env: Vec<&Value> = list(deployment(&objects, API)?, &format!("{CONTAINER}/env")).collect();
    let of = |name: &str, secret: &str| json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": "url"}}});
    for wanted in [of("DATABASE_URL", "business-database"), of("READ_FROM_URL", "business-standby")] {
        ensure!(env.contains(&&wanted), "{wanted} is not in {env:?}");
    }
    Ok(())
}

/// The console's issuers come from the ConfigMap or from extra flags; an extra flag replaces the chart's own.
fn console_issuers(helm: &Helm) -> Result<()> {
    let console = "console.enabled=true,console.origins={https://console.example.org}";
    for more in [
        "authentication.configMapName=business-authentication",
        "api.extraArgs={--authentication-config=/x/y.yaml}",
        "api.extraArgs={--jwt-issuer=https://login.example.org,--jwt-audience=kubernetes}",
    ] {
        helm.template_with(NAMESPACE, &chart(), &[console, more])?;
    }
    let set = "authentication.configMapName=x,api.extraArgs={--authentication-config=/mine/file.yaml}";
    let objects = helm.template_with(NAMESPACE, &chart(), &[console, set])?;
    let args = list(deployment(&objects, API)?, &format!("{CONTAINER}/args"));
    let told: Vec<&str> =
        args.filter_map(Value::as_str).filter(|flag| flag.starts_with("--authentication-config")).collect();
    ensure!(told == ["--authentication-config=/mine/file.yaml"], "{told:?}");
    Ok(())
}

/// A version with build metadata renders to a valid label, which cannot have `+`.
fn labelled(helm: &Helm, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let to = dir.to_string_lossy().into_owned();
    helm.run(&["package", &chart(), "--version", "0.1.0+build.1", "--destination", &to])?;
    let package = dir.join("business-0.1.0+build.1.tgz").to_string_lossy().into_owned();
    let objects = Value::from(helm.template_with(NAMESPACE, &package, &["image.tag=x"])?);
    let mut labels = Vec::new();
    found(&objects, "helm.sh/chart", &mut labels);
    ensure!(
        !labels.is_empty() && labels.iter().all(|one| **one == json!("business-0.1.0_build.1")),
        "{labels:?}"
    );
    Ok(())
}
