//! The CRDs of other projects whose kinds the chart uses, from their Go modules.

use anyhow::Result;
use instance::kubectl::Kubectl;
use instance::layout;
use instance::process;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use terminal::say;

const DOWNLOADED: Duration = Duration::from_mins(10);

/// A Go module and its files with CRDs.
struct Module {
    name: &'static str,
    files: &'static [&'static str],
}

const MODULES: [Module; 3] = [
    Module {
        name: "github.com/cert-manager/cert-manager",
        files: &["deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml"],
    },
    Module {
        name: "github.com/prometheus-operator/prometheus-operator",
        files: &[
            "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ],
    },
    Module {
        name: "sigs.k8s.io/gateway-api",
        files: &["config/crd/standard/gateway.networking.k8s.io_tlsroutes.yaml"],
    },
];

/// Installs the CRDs. False if a module cannot be downloaded.
pub(super) fn install(kubectl: &Kubectl) -> Result<bool> {
    for module in MODULES {
        let Some(folder) = folder(&module)? else {
            say::skipped(&format!(
                "{} cannot be had: its kinds are not looked at by kube-apiserver",
                module.name
            ));
            return Ok(false);
        };
        for file in module.files {
            let path = folder.join(file).to_string_lossy().into_owned();
            kubectl.run(&["apply", "--server-side", "--filename", &path])?;
        }
    }
    kubectl.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=120s"])?;
    Ok(true)
}

/// The directory of the module in Go's cache, in the version that tests/crds requires.
fn folder(module: &Module) -> Result<Option<PathBuf>> {
    let mut go = Command::new("go");
    go.current_dir(layout::workspace().join("tests/crds"));
    let output =
        process::output_within(go.args(["mod", "download", "-json", module.name]), None, DOWNLOADED)?;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let folder = told.get("Dir").and_then(Value::as_str).map(Path::new);
    Ok(folder.filter(|_| output.status.success()).map(Path::to_owned))
}
