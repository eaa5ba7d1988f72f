use crate::instance::{Instance, Options};
use crate::layout::Layout;
use crate::{manifests, up};
use anyhow::{Result, ensure};
use serde_json::Value;

/// Their kinds need an operator that this machine does not run.
const FOREIGN: [&str; 2] = ["cert-manager.io/", "monitoring.coreos.com/"];

/// Renders every overlay and applies it, dry and for real, to a kube-apiserver of its own: in the one of the
/// instance the Service would lead away from the running business-api.
pub(super) fn render_and_apply(instance: &Instance) -> Result<()> {
    let layout =
        Layout { dir: instance.layout.path("manifests"), first_port: instance.layout.first_port + 500 };
    up::clear(&layout)?;
    let other = Instance::start(&layout, &Options { bare: true, ..Options::default() })?;
    let outcome = apply_all(&other);
    other.stop()?;
    up::clear(&layout)?;
    outcome
}

fn apply_all(instance: &Instance) -> Result<()> {
    let kubectl = &instance.kubectl;
    for directory in ["member", "overlays/local", "overlays/dev", "overlays/prod"] {
        let mut objects = manifests::render(kubectl, directory)?;
        objects.retain(|object| {
            let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            !FOREIGN.iter().any(|foreign| version.starts_with(foreign))
        });
        manifests::apply(kubectl, &objects)?;
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
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
    rights(instance)
}

/// What each identity may and may not do, as kube-apiserver sees it.
fn rights(instance: &Instance) -> Result<()> {
    let api = "system:serviceaccount:tke-business:business-api";
    let controller = "system:serviceaccount:tke-business:business-controller";
    let member = "system:serviceaccount:tke-business:business-member";
    let ours = "namespaces.business.tkestack.io";
    let may = [
        (api, "create", "subjectaccessreviews.authorization.k8s.io", ""),
        (api, "watch", "configmaps/business-clusters", "tke-business"),
        (api, "get", "configmaps/extension-apiserver-authentication", "kube-system"),
        (controller, "operate", "projects.business.tkestack.io", ""),
        (controller, "watch", "secrets", "tke-business"),
        (controller, "create", "events.events.k8s.io", "default"),
        (member, "delete", "namespaces", ""),
        (member, "update", "resourcequotas", "anywhere"),
    ];
    let may_not = [
        (api, "get", "secrets", "tke-business"),
        (api, "list", ours, "anywhere"),
        (controller, "get", "secrets", "kube-system"),
        (controller, "delete", "namespaces", ""),
        (controller, "create", "projects.business.tkestack.io", ""),
        (controller, "grant", "projects.business.tkestack.io", ""),
        (member, "list", "secrets", "anywhere"),
        (member, "list", "pods", "anywhere"),
    ];
    for (wanted, cases) in [("yes", may), ("no", may_not)] {
        for (user, verb, resource, namespace) in cases {
            let mut args = vec!["auth", "can-i", verb, resource, "--as", user, "--quiet=false"];
            if !namespace.is_empty() {
                args.extend(["-n", namespace]);
            }
            let output = instance.kubectl.output(&args, None)?;
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            ensure!(said == wanted, "{user} {verb} {resource} in {namespace:?}: {said}, not {wanted}");
        }
    }
    Ok(())
}
