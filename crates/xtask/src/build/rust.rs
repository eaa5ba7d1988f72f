use crate::cargo::cargo;
use crate::tool::{Progress, Tool};
use crate::workspace;
use anyhow::{Result, ensure};
use std::process::{Command, Stdio};

const PLUGIN: &str = "kubectl-business";
/// If set, programs are not built.
const PREBUILT: &str = "XTASK_PREBUILT";

/// Packages that are built by one cargo call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Programs {
    packages: &'static [&'static str],
    features: &'static [&'static str],
    release: bool,
}

impl Programs {
    /// The programs of `up`. The same as `default-members` in Cargo.toml, so that features are always resolved alike.
    pub(crate) const PLATFORM: Self =
        Self::of(&["business-api", "business-controller", "business-cli", "instance"]);
    /// The acceptance tests, which add no dependencies to the platform's.
    pub(crate) const ACCEPT: Self =
        Self::of(&["business-api", "business-controller", "business-cli", "instance", "accept"]);
    /// The program that writes the reference pages; it links all programs.
    pub(crate) const REFERENCE: Self =
        Self::of(&["business-api", "business-controller", "business-cli", "instance", "reference"]);
    /// The failover test.
    pub(crate) const FAILOVER: Self =
        Self::of(&["business-api", "business-controller", "business-cli", "instance", "stress"]);
    /// The fleet test: many clusters, several controllers.
    pub(crate) const FLEET: Self =
        Self::of(&["business-api", "business-controller", "business-cli", "instance", "simulated", "stress"]);
    /// Clients for the acceptance tests. Built alone, they would resolve fewer features of shared packages, which would
    /// then be compiled twice.
    pub(crate) const CLIENTS: Self =
        Self::of(&["business-controller", "business-cli", "instance", "accept", "reflector", "differential"]);
    /// The benchmark program.
    pub(crate) const BENCH: Self = Self::of(&["bench"]).release();
    /// The program that makes what is shipped.
    pub(crate) const DIST: Self = Self::of(&["dist"]);
    /// The program that fetches PostgreSQL.
    pub(crate) const FETCH: Self = Self { features: &["fetch"], ..Self::of(&["fetch-postgresql"]) };

    /// With the release profile.
    pub(crate) const fn release(self) -> Self {
        Self { release: true, ..self }
    }

    const fn of(packages: &'static [&'static str]) -> Self {
        Self { packages, features: &[], release: false }
    }
}

/// Links the kubectl plugin into `.dev/bin`.
pub(crate) fn link_plugin() -> Result<()> {
    let bin = workspace::dev().join("bin");
    std::fs::create_dir_all(&bin)?;
    workspace::link(&workspace::built(false)?.join(PLUGIN), &bin.join(PLUGIN))
}

pub(super) fn prebuilt() -> bool {
    std::env::var_os(PREBUILT).is_some()
}

pub(super) fn build(programs: &Programs, tool: &Tool) -> Result<()> {
    let cc = Command::new("cc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    ensure!(cc.is_ok(), "a C compiler (`cc`) is needed to build the programs: install gcc or clang");
    let mut command = cargo();
    command.arg("build").args(programs.packages.iter().flat_map(|package| ["--package", package]));
    command.args(programs.features.iter().flat_map(|feature| ["--features", feature]));
    command.args(programs.release.then_some("--release"));
    command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "100");
    command.env("CARGO_TERM_COLOR", "never");
    tool.run(&mut command, |line| match progress(line) {
        Some(progress) => tool.set_progress(progress),
        None => tool.note(line),
    })
}

/// The numbers in cargo's `    Building [===>     ] 12/345: serde, syn`.
fn progress(line: &str) -> Option<Progress> {
    let (_, rest) = line.trim_start().strip_prefix("Building [")?.split_once("] ")?;
    let (done, rest) = rest.split_once('/')?;
    let total: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(Progress { done: done.trim().parse().ok()?, total: total.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_of_cargo_is_read() {
        let line = "    Building [=======>                 ] 123/485: tokio, syn(build.rs)";
        assert_eq!(progress(line), Some(Progress { done: 123, total: 485 }));
        assert_eq!(progress("   Compiling tokio v1.0.0"), None);
    }

    #[test]
    fn the_platform_is_what_cargo_builds_by_default() {
        let manifest = std::fs::read_to_string(workspace::root().join("Cargo.toml")).unwrap();
        let line = manifest.lines().find(|line| line.starts_with("default-members")).unwrap();
        let members: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        let names: Vec<&str> = members.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, Programs::PLATFORM.packages);
    }
}
