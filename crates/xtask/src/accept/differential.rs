use crate::instance::{HOST_CLUSTER, Instance};
use crate::{layout, say};
use anyhow::{Result, ensure};
use std::process::{Command, Output};

/// HTTP requests of every verb beside custom resources with the same schema, while no controller changes what is
/// compared.
pub(super) fn requests(instance: &Instance) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(layout::workspace())
        .args(["build", "--quiet", "--package", "differential"])
        .stdout(say::lines())
        .status()?;
    ensure!(built.success(), "the comparing program does not build");
    let controllers = ["business-controller".to_owned(), format!("kube-controller-manager-{HOST_CLUSTER}")];
    for name in &controllers {
        instance.supervisor.pause(name)?;
    }
    let output = compare(instance);
    for name in &controllers {
        instance.supervisor.resume(name)?;
    }
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn compare(instance: &Instance) -> Result<Output> {
    let mut program = Command::new(layout::built("differential", false)?);
    program.args(["requests", "--quiet-cluster", "--count", "800", "--parallel", "4", "--kubeconfig"]);
    program.arg(instance.layout.path("kubeconfig"));
    Ok(program.output()?)
}
