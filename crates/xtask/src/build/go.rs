use super::tool::{Progress, Tool};
use crate::control_plane::{self, ControlPlane};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

const GO: (u32, u32) = (1, 26);
/// The compilers collect their garbage less often: each is short-lived, and takes half a gigabyte at most.
const COLLECT: &str = "400";

/// Says what is missing to build the control plane.
fn check_version() -> Result<()> {
    let wanted = format!("Go {}.{} or newer is needed to build the local control plane", GO.0, GO.1);
    let mut go = Command::new("go");
    let Ok(output) = go.args(["env", "GOVERSION"]).current_dir(control_plane::source()).output() else {
        bail!("{wanted}: install it, or give `--kubeconfig` of a cluster you have");
    };
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let mut parts = text.trim_start_matches("go").split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    ensure!(found >= GO, "{wanted}; this machine has `{text}`");
    Ok(())
}

/// The numbers of the versions that are built in, and nothing that only a debugger reads.
fn flags(command: &mut Command) {
    let version = control_plane::VERSION;
    let set = "-X k8s.io/component-base/version";
    let minor = version.split('.').nth(1).unwrap_or_default();
    let link = format!("-s -w {set}.gitVersion={version} {set}.gitMajor=1 {set}.gitMinor={minor}");
    command.args(["-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", &link]);
}

pub(super) fn build(plane: &ControlPlane, tool: &Tool) -> Result<()> {
    check_version()?;
    let program = plane.program()?;
    std::fs::create_dir_all(program.parent().context("no directory")?)?;
    let total = packages(plane, tool)?;
    let partial = program.with_extension(format!("partial-{}", std::process::id()));
    let mut command = go("build", plane);
    flags(&mut command);
    if std::env::var_os("GOGC").is_none() {
        command.env("GOGC", COLLECT);
    }
    command.arg("-v").arg("-o").arg(&partial).arg(".");
    let mut done = 0;
    tool.run(&mut command, |line| {
        tool.note(line);
        // Each package has a line with its name when its turn comes.
        done += usize::from(!line.contains(' '));
        tool.told(Progress { done, total });
    })?;
    std::fs::rename(&partial, &program)?;
    Ok(())
}

/// Counts the packages, for which their modules are downloaded.
fn packages(plane: &ControlPlane, tool: &Tool) -> Result<usize> {
    let output = go("list", plane).args(["-deps", "."]).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    complaint.lines().for_each(|line| tool.note(line));
    ensure!(output.status.success(), "the control plane's modules cannot be had: {}", complaint.trim());
    Ok(output.stdout.split(|byte| *byte == b'\n').count())
}

fn go(verb: &str, plane: &ControlPlane) -> Command {
    let mut command = Command::new("go");
    command.current_dir(control_plane::source()).env("CGO_ENABLED", "0");
    command.args([verb, "-tags", &plane.tags()]);
    command
}
