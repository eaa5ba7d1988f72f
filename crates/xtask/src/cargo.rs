//! Calling cargo with the user's environment, without the variables that the outer cargo has set for this program.

use crate::workspace;
use anyhow::Result;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use terminal::say;

/// Whether cargo sets this variable for programs that it runs. Build scripts that depend on one of them would run
/// again, and their dependents would be recompiled, whenever `cargo build` and `cargo xtask` alternate.
fn is_set_by_cargo(name: &str) -> bool {
    const EXACT: [&str; 6] = [
        "CARGO",
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_MANIFEST_LINKS",
        "CARGO_PRIMARY_PACKAGE",
        "OUT_DIR",
    ];
    const BEGINNING: [&str; 4] = ["CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_CFG_"];
    EXACT.contains(&name) || BEGINNING.iter().any(|beginning| name.starts_with(beginning))
}

/// The cargo that runs us, in the workspace.
pub(crate) fn cargo() -> Command {
    with_user_environment(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program that calls cargo itself, in the workspace.
pub(crate) fn with_user_environment(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_set_by_cargo) {
            command.env_remove(name);
        }
    }
    command.current_dir(workspace::root());
    command
}

/// A program of the machine, or one that cargo installs once per user; `None` if it cannot. `package`: the arguments of
/// `cargo install`.
pub(crate) fn tool(name: &str, package: &[&str]) -> Result<Option<PathBuf>> {
    if Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok() {
        return Ok(Some(PathBuf::from(name)));
    }
    let root = workspace::cache().join("tools");
    let program = root.join("bin").join(name);
    if program.exists() {
        return Ok(Some(program));
    }
    say::begin(format_args!("{name} is installed, once"));
    let installed = cargo()
        .args(["install", "--quiet", "--locked", "--debug", "--root"])
        .arg(&root)
        .args(package)
        .stdout(say::lines())
        .status()?;
    Ok(installed.success().then_some(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_reach_the_cargo_inside_and_what_cargo_says_of_this_program_does_not() {
        for ours in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_PRE", "CARGO"] {
            assert!(is_set_by_cargo(ours), "{ours}");
            assert!(std::env::var_os(ours).is_some(), "cargo has not set {ours} for this test");
        }
        for theirs in [
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
            "CARGO_INCREMENTAL",
            "CARGO_BUILD_JOBS",
            "CARGO_PROFILE_DEV_DEBUG",
            "CARGO_REGISTRIES_MIRROR_INDEX",
            "CARGO_SOURCE_CRATES_IO_REPLACE_WITH",
            "CARGO_HTTP_PROXY",
            "CARGO_NET_OFFLINE",
            "CARGO_TERM_COLOR",
            "RUSTUP_TOOLCHAIN",
            "RUSTFLAGS",
        ] {
            assert!(!is_set_by_cargo(theirs), "{theirs}");
        }
        let inside = cargo();
        let given: Vec<_> = inside.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        assert!(given.is_empty(), "{given:?}");
        assert!(inside.get_envs().any(|(name, _)| name == "CARGO_PKG_NAME"), "it is taken away");
    }
}
