use crate::instance::{HOST_CLUSTER, Instance};
use crate::layout;
use anyhow::{Result, ensure};
use std::process::Command;

/// client-go's own code against the server, aggregated and direct; informers with and without `WatchList`.
pub(super) fn client_go(instance: &Instance) -> Result<()> {
    for (watch_list, tests) in [("true", "."), ("false", "Informer")] {
        let output = Command::new("go")
            .current_dir(layout::workspace().join("tests/controlplane"))
            .args(["test", "-trimpath", "-count=1", "-run", tests, "./clientgo"])
            .env("CGO_ENABLED", "0")
            .env("KUBE_FEATURE_WatchListClient", watch_list)
            .env("OPERATOR_KUBECONFIG", instance.layout.path("kubeconfig"))
            .env("TENANT_KUBECONFIG", instance.layout.path("tenant.kubeconfig"))
            .env("MEMBER", HOST_CLUSTER)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "client-go with WatchList {watch_list}:\n{text}");
    }
    Ok(())
}

/// Server-side apply beside a custom resource with the same schema on the instance's kube-apiserver.
pub(super) fn apply_differential(instance: &Instance) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(layout::workspace())
        .args(["build", "--quiet", "--package", "differential"])
        .status()?;
    ensure!(built.success(), "the comparing program does not build");
    let output = Command::new(layout::built("differential", false)?)
        .arg("--kubeconfig")
        .arg(instance.layout.path("kubeconfig"))
        .args(["--histories", "300", "--schemas", "4"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
