use anyhow::{Result, ensure};
use instance::{HOST_CLUSTER, Instance, layout, process};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const COMPARED: Duration = Duration::from_mins(20);

/// HTTP requests of every verb beside custom resources with the same schema, while no controller changes what is
/// compared.
pub(super) fn requests(instance: &Instance) -> Result<()> {
    let program = layout::program_path("differential")?;
    let controllers = ["business-controller".to_owned(), format!("kube-controller-manager-{HOST_CLUSTER}")];
    for name in &controllers {
        instance.supervisor.pause(name)?;
    }
    let output = compare(instance, &program);
    for name in &controllers {
        instance.supervisor.resume(name)?;
    }
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn compare(instance: &Instance, program: &Path) -> Result<Output> {
    let mut program = Command::new(program);
    program.args(["requests", "--quiet-cluster", "--count", "800", "--parallel", "4", "--kubeconfig"]);
    program.arg(instance.layout.path("kubeconfig"));
    process::output_within(&mut program, None, COMPARED)
}
