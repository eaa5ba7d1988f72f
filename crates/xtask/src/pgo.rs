//! `cargo xtask pgo`: counts what business-api executes under load. What is shipped and measured from then on is
//! optimised by these counts: <https://doc.rust-lang.org/rustc/profile-guided-optimization.html>.

use crate::build::Programs;
use crate::control_plane::ControlPlane;
use crate::execution_profile::{self, ProfileOrigin};
use crate::{bench, call, image, up, workspace};
use anyhow::{Context, Result, ensure};
use clap::Command;
use std::path::{Path, PathBuf};
use terminal::say;

/// The load: what the benchmark program measures, and its arguments. Full speed, and a fleet's day with lists and
/// watches.
const LOAD: [&[&str]; 2] =
    [&["http", "--", "--rounds", "1", "--seconds", "6"], &["soak", "--", "--minutes", "2"]];

/// `pgo`.
pub(crate) fn command() -> Command {
    Command::new("pgo")
        .about("Count what business-api executes under load: what is shipped is optimised by that.")
}

/// Makes the profile anew.
pub(crate) fn pgo() -> Result<()> {
    let merge = tool("llvm-profdata")?;
    let (profile, origin) = execution_profile::files()?;
    up::prepare(&[Programs::DIST, Programs::PLATFORM, Programs::BENCH], &ControlPlane::measured())?;
    let directory = workspace::target()?.join("pgo");
    let (programs, counts) = (directory.join("programs"), directory.join("counts"));
    image::counting_programs(&programs, &counts)?;
    // Only business-api counts.
    let controller = "business-controller";
    std::fs::copy(workspace::built(false)?.join(controller), programs.join(controller))?;
    let bench = bench::beside(&programs)?;
    if counts.exists() {
        std::fs::remove_dir_all(&counts).with_context(|| format!("empty {}", counts.display()))?;
    }
    for load in LOAD {
        let mut command = std::process::Command::new(&bench);
        let status = call::run(command.args(["platform", "--clusters", "1", "--replicas", "1"]).args(load))?;
        ensure!(status.success(), "the load failed");
    }
    say::step("the counts merged", || merged(&merge, &counts, &profile))?;
    std::fs::write(&origin, ProfileOrigin::now()?.text())
        .with_context(|| format!("write {}", origin.display()))
}

/// Leaves out functions that were never executed.
fn merged(merge: &Path, counts: &Path, profile: &Path) -> Result<()> {
    if let Some(directory) = profile.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    }
    let mut command = std::process::Command::new(merge);
    command.args(["merge", "--sparse", "-o"]).arg(profile).arg(counts);
    let output = command.output().with_context(|| format!("start {}", merge.display()))?;
    ensure!(output.status.success(), "llvm-profdata: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// A program of the compiler's LLVM: others may not know the format.
fn tool(name: &str) -> Result<PathBuf> {
    let libraries = PathBuf::from(execution_profile::rustc(&["--print", "target-libdir"])?);
    let program = libraries.with_file_name("bin").join(name);
    ensure!(program.exists(), "{name} is missing: `rustup component add llvm-tools` installs it");
    Ok(program)
}
