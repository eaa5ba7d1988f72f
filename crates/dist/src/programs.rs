//! Building the programs that are shipped: static, without paths of the build machine.

use crate::platform::Platform;
use crate::{OutputDirectory, source};
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

/// The programs of one cargo call, whichever are packed: the features of shared dependencies are resolved for all of
/// them.
pub(crate) const SHIPPED: [Program; 3] = [API, CONTROLLER, PLUGIN];

/// How programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildMode {
    /// As shipped.
    Release,
    /// With the dev profile, for this machine: to test the packing.
    Dev,
}

/// Where the compiler finds how often code was executed.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ExecutionProfiles {
    /// Has a file TRIPLE.profdata for each target that was profiled; others are built without.
    #[arg(long = "profiles", value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl ExecutionProfiles {
    fn of(&self, platform: Platform) -> Option<PathBuf> {
        let file = self.directory.as_ref()?.join(format!("{}.profdata", platform.triple()));
        file.is_file().then_some(file)
    }
}

/// What is to be built for measuring.
#[derive(clap::Args, Debug)]
pub(crate) struct ProgramSettings {
    #[command(flatten)]
    into: OutputDirectory,
    #[command(flatten)]
    profiles: ExecutionProfiles,
    /// Make programs that count what is executed, and write it below this directory when they end.
    #[arg(long, value_name = "DIR", conflicts_with = "directory")]
    counting: Option<PathBuf>,
}

/// The command `programs`: what is shipped for this machine, with symbols.
pub(crate) fn run(settings: &ProgramSettings) -> Result<()> {
    let here = Platform::ALL.into_iter().find(|platform| platform.is_here());
    let here = here.context("nothing is shipped for machines of this kind")?;
    let mut environment = BuildEnvironment::open(here, BuildMode::Release, &settings.profiles)?;
    if let Some(directory) = &settings.counting {
        environment = environment.counting(directory.clone());
    }
    copy(&environment.build(&SHIPPED)?, &SHIPPED, &settings.into.into)
}

/// The next build may put other programs into cargo's directory.
fn copy(from: &Path, programs: &[Program], into: &Path) -> Result<()> {
    std::fs::create_dir_all(into).with_context(|| format!("make {}", into.display()))?;
    for program in programs {
        let copy = into.join(program.binary);
        std::fs::copy(from.join(program.binary), &copy)
            .with_context(|| format!("write {}", copy.display()))?;
    }
    Ok(())
}

const PROFILE: &str = "dist";
const STATIC: &str = "target-feature=+crt-static";
/// LTO imports no function of more than this many instructions into another module (default 100). That takes a tenth of
/// the time.
const IMPORTED: &str = "llvm-args=-import-instr-limit=20";
const MISMATCHES: &str = "llvm-args=-no-pgo-warn-mismatch";
/// cargo's directory of programs that count, below the usual one.
const INSTRUMENTED: &str = "instrumented";
/// The linker of the dev profile, which links statically.
const LINKED_STATICALLY: &str = "crates/dist/static.sh";
/// The names that replace paths of this machine in the programs.
const SOURCE: &str = "/source";
const TARGET: &str = "/target";
const CARGO: &str = "/cargo";

/// Counts of what programs execute.
#[derive(Debug)]
enum Counts {
    /// Programs are optimised by those in this file.
    Used(PathBuf),
    /// Programs count, and write it below this directory.
    Made(PathBuf),
}

impl Counts {
    fn flags(&self) -> Vec<String> {
        match self {
            // Functions that have changed since are built without, and that is no reason to warn.
            Self::Used(file) => vec![format!("-C{MISMATCHES}"), format!("-Cprofile-use={}", file.display())],
            Self::Made(directory) => vec![format!("-Cprofile-generate={}", directory.display())],
        }
    }
}

/// The tools for building for a platform.
#[derive(Debug)]
pub(crate) struct BuildEnvironment {
    pub(crate) platform: Platform,
    pub(crate) mode: BuildMode,
    target: PathBuf,
    counts: Option<Counts>,
}

impl BuildEnvironment {
    /// Fails if a tool is missing.
    pub(crate) fn open(platform: Platform, mode: BuildMode, profiles: &ExecutionProfiles) -> Result<Self> {
        platform.check()?;
        let me = std::env::current_exe().context("find the own program")?;
        let target = me.ancestors().nth(2).context("the own program lies in no target directory")?.to_owned();
        Ok(Self { platform, mode, target, counts: profiles.of(platform).map(Counts::Used) })
    }

    /// For programs that count. Those that are shipped stay in cargo's directory.
    fn counting(self, directory: PathBuf) -> Self {
        Self { target: self.target.join(INSTRUMENTED), counts: Some(Counts::Made(directory)), ..self }
    }

    /// Builds the programs in one cargo call, so that shared packages are compiled once. Returns their directory.
    pub(crate) fn build(&self, programs: &[Program]) -> Result<PathBuf> {
        match self.mode {
            BuildMode::Release => self.build_release(programs),
            BuildMode::Dev => self.build_dev(programs),
        }
    }

    fn cargo(&self, verb: &str) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(source::root()).args([verb, "--locked", "--target-dir"]).arg(&self.target);
        command.stdout(Stdio::null());
        command
    }

    fn build_release(&self, programs: &[Program]) -> Result<PathBuf> {
        let triple = self.platform.triple();
        let path_remaps = self.path_remaps()?;
        let rename = |flag: &str, (from, to): &(PathBuf, &str)| format!("{flag}={}={to}", from.display());
        let mut flags: Vec<String> = ["-C", STATIC, "-C", IMPORTED].map(str::to_owned).into();
        flags.extend(self.counts.iter().flat_map(Counts::flags));
        flags.extend(path_remaps.iter().map(|pair| rename("--remap-path-prefix", pair)));
        let c: Vec<String> = path_remaps.iter().map(|pair| rename("-ffile-prefix-map", pair)).collect();
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

    /// Builds the default members, so that the features of third-party packages are those of any `cargo build`.
    fn build_dev(&self, programs: &[Program]) -> Result<PathBuf> {
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
        copy(&self.target.join("debug"), programs, &made)?;
        Ok(made)
    }

    /// The paths to remap, the longest last: the last match wins.
    fn path_remaps(&self) -> Result<Vec<(PathBuf, &'static str)>> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
        let home = home.context("cargo has no home: set CARGO_HOME")?;
        let mut path_remaps = Vec::new();
        for (path, name) in [(home, CARGO), (source::root(), SOURCE), (self.target.clone(), TARGET)] {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if real != path {
                path_remaps.push((real, name));
            }
            path_remaps.push((path, name));
        }
        path_remaps.sort_by_key(|(path, _)| path.as_os_str().len());
        Ok(path_remaps)
    }

    /// Copies a program without debug information and with the list of its packages embedded.
    pub(crate) fn strip_and_embed(&self, from: &Path, to: &Path, packages: &[u8]) -> Result<()> {
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
