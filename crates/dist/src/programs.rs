//! Programs as they are shipped: static, without the paths of the machine that has built them.

use crate::platform::Platform;
use crate::source;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that is shipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) package: &'static str,
    pub(crate) binary: &'static str,
    pub(crate) title: &'static str,
}

pub(crate) const API: Program = Program {
    package: "business-api",
    binary: "business-api",
    title: "The API server of business.tkestack.io/v1.",
};
pub(crate) const CONTROLLER: Program = Program {
    package: "business-controller",
    binary: "business-controller",
    title: "The controller of business.tkestack.io/v1.",
};
pub(crate) const PLUGIN: Program = Program {
    package: "business-cli",
    binary: "kubectl-business",
    title: "Projects, namespaces and their budgets on the command line.",
};

/// How programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As they are shipped.
    Whole,
    /// In the dev profile, for this machine: to try what is packed around them.
    Quick,
}

const PROFILE: &str = "dist";
const STATIC: &str = "target-feature=+crt-static";
/// LTO brings no function of more than this many instructions into another module (100 by default): it takes a tenth of
/// the time.
const IMPORTED: &str = "llvm-args=-import-instr-limit=20";
/// The same for the dev profile.
const LINKED_STATICALLY: &str = "crates/dist/static.sh";
/// The name in the programs for the paths of this machine.
const SOURCE: &str = "/source";
const TARGET: &str = "/target";
const CARGO: &str = "/cargo";

/// The tools on this machine that a build goes through.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) platform: Platform,
    pub(crate) effort: Effort,
    target: PathBuf,
}

impl Workshop {
    /// One that has everything it needs.
    pub(crate) fn open(platform: Platform, effort: Effort) -> Result<Self> {
        platform.check()?;
        let me = std::env::current_exe().context("find the own program")?;
        let target = me.ancestors().nth(2).context("the own program lies in no target directory")?.to_owned();
        Ok(Self { platform, effort, target })
    }

    /// Builds the programs in one call, so that what they share is compiled once; tells where they are.
    pub(crate) fn build(&self, programs: &[Program]) -> Result<PathBuf> {
        match self.effort {
            Effort::Whole => self.build_whole(programs),
            Effort::Quick => self.build_quick(programs),
        }
    }

    fn cargo(&self, verb: &str) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(source::root()).args([verb, "--locked", "--target-dir"]).arg(&self.target);
        command.stdout(Stdio::null());
        command
    }

    fn build_whole(&self, programs: &[Program]) -> Result<PathBuf> {
        let triple = self.platform.triple();
        let renamed = self.renamed()?;
        let rename = |flag: &str, (from, to): &(PathBuf, &str)| format!("{flag}={}={to}", from.display());
        let mut flags: Vec<String> = ["-C", STATIC, "-C", IMPORTED].map(str::to_owned).into();
        flags.extend(renamed.iter().map(|pair| rename("--remap-path-prefix", pair)));
        let c: Vec<String> = renamed.iter().map(|pair| rename("-ffile-prefix-map", pair)).collect();
        let mut command = self.cargo("build");
        command.args(["--profile", PROFILE, "--target", triple]);
        command.args(programs.iter().flat_map(|program| ["--package", program.package]));
        // A program depends on its sources alone: flags of the environment stay out.
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        for name in [
            format!("CFLAGS_{triple}"),
            format!("CFLAGS_{}", triple.replace('-', "_")),
            "TARGET_CFLAGS".to_owned(),
        ] {
            command.env_remove(name);
        }
        command.env("CFLAGS", c.join(" "));
        if !self.platform.is_here() {
            let upper = triple.replace('-', "_").to_uppercase();
            command.env(format!("CARGO_TARGET_{upper}_LINKER"), self.platform.cc());
        }
        command.env("CARGO_INCREMENTAL", "0");
        ensure!(command.status().context("start cargo")?.success(), "the programs do not build for {triple}");
        Ok(self.target.join(triple).join(PROFILE))
    }

    /// The packages of others are those of any `cargo build`: the same members are chosen, so the same features are.
    fn build_quick(&self, programs: &[Program]) -> Result<PathBuf> {
        ensure!(
            self.platform.is_here(),
            "a quick build is for this machine, not for {}",
            self.platform.name()
        );
        let mut command = self.cargo("build");
        command.env("RUSTC_WORKSPACE_WRAPPER", source::root().join(LINKED_STATICALLY));
        command.args(programs.iter().flat_map(|program| ["--bin", program.binary]));
        ensure!(command.status().context("start cargo")?.success(), "the programs do not build");
        let made = self.target.join("quick");
        std::fs::create_dir_all(&made)?;
        for program in programs {
            // The next `cargo build` puts its own program into this place.
            std::fs::copy(self.target.join("debug").join(program.binary), made.join(program.binary))?;
        }
        Ok(made)
    }

    /// Paths of this machine, the longest last: the last that fits is taken.
    fn renamed(&self) -> Result<Vec<(PathBuf, &'static str)>> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
        let home = home.context("cargo has no home: set CARGO_HOME")?;
        let mut renamed = Vec::new();
        for (path, name) in [(home, CARGO), (source::root(), SOURCE), (self.target.clone(), TARGET)] {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if real != path {
                renamed.push((real, name));
            }
            renamed.push((path, name));
        }
        renamed.sort_by_key(|(path, _)| path.as_os_str().len());
        Ok(renamed)
    }

    /// Copies a program without what only a debugger reads, with the list of its packages in it.
    pub(crate) fn finish(&self, from: &Path, to: &Path, packages: &[u8]) -> Result<()> {
        let list = to.with_extension("packages");
        std::fs::write(&list, packages)?;
        let mut section = OsString::from(".dep-v0=");
        section.push(&list);
        let mut objcopy = Command::new(self.platform.objcopy());
        objcopy.args(["--strip-all", "--add-section"]).arg(section);
        objcopy.args(["--set-section-flags", ".dep-v0=noload,readonly"]).arg(from).arg(to);
        let output = objcopy.output().context("start objcopy")?;
        std::fs::remove_file(&list)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} cannot be stripped: {}", from.display(), said.trim());
        Ok(())
    }
}
