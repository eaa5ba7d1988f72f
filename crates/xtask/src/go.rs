use crate::tool::{Progress, Tool};
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

const GO: (u32, u32) = (1, 26);
/// GOGC of the compilers: each is short-lived and takes half a gigabyte at most.
const COLLECT: &str = "400";

/// A program that Go builds.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its name for people.
    pub(crate) what: &'static str,
    /// Its directory.
    pub(crate) source: PathBuf,
    /// The package to build.
    pub(crate) package: &'static str,
    /// Build tags, separated by commas.
    pub(crate) tags: String,
    /// Values for the linker (`-X`).
    pub(crate) values: String,
    /// The path of the program.
    pub(crate) program: PathBuf,
    pub(crate) effort: Effort,
}

/// How much the compilers optimize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Fast to build: without inlining, which is a third of the compilers' work.
    Quick,
    /// Optimized, for benchmarks.
    Full,
    /// With the flags of `go test`, so that most packages are in the build cache already.
    AsTests,
}

impl Module {
    /// Fails if Go is missing or too old.
    fn check_version(&self) -> Result<()> {
        let wanted = format!("Go {}.{} or newer is needed to build the {}", GO.0, GO.1, self.what);
        let mut go = Command::new("go");
        let Ok(output) = go.args(["env", "GOVERSION"]).current_dir(&self.source).output() else {
            bail!("{wanted}: install it, or give `--kubeconfig` of a cluster you have");
        };
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let mut parts = text.trim_start_matches("go").split('.').map_while(|part| part.parse::<u32>().ok());
        let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        ensure!(found >= GO, "{wanted}; this machine has `{text}`");
        Ok(())
    }

    fn go(&self, verb: &str) -> Command {
        let mut command = Command::new("go");
        command.current_dir(&self.source).env("CGO_ENABLED", "0");
        command.args([verb, "-tags", &self.tags]);
        command
    }

    /// Downloads the modules and counts the packages.
    fn packages(&self, tool: &Tool) -> Result<usize> {
        let output = self.go("list").args(["-deps", self.package]).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        complaint.lines().for_each(|line| tool.note(line));
        ensure!(
            output.status.success(),
            "the modules of the {} cannot be had: {}",
            self.what,
            complaint.trim()
        );
        Ok(output.stdout.split(|byte| *byte == b'\n').count())
    }
}

pub(super) fn build(module: &Module, tool: &Tool) -> Result<()> {
    module.check_version()?;
    let program = &module.program;
    std::fs::create_dir_all(program.parent().context("no directory")?)?;
    // A mirror that has failed once is asked once more; what came is kept.
    let total = module.packages(tool).or_else(|error| {
        tool.note(&format!("{error:#}"));
        module.packages(tool)
    })?;
    let partial = program.with_extension(format!("partial-{}", std::process::id()));
    let mut command = module.go("build");
    // Nothing that only a debugger reads.
    command.args(["-trimpath", "-buildvcs=false"]);
    command.args(match module.effort {
        Effort::Quick => Some("-gcflags=all=-dwarf=false -l"),
        Effort::Full => Some("-gcflags=all=-dwarf=false"),
        Effort::AsTests => None,
    });
    command.args(["-ldflags", &format!("-s -w {}", module.values)]);
    if std::env::var_os("GOGC").is_none() {
        command.env("GOGC", COLLECT);
    }
    command.arg("-v").arg("-o").arg(&partial).arg(module.package);
    let mut done = 0;
    tool.run(&mut command, |line| {
        tool.note(line);
        // Each package has a line with its name when its turn comes.
        done += usize::from(!line.contains(' '));
        tool.set_progress(Progress { done, total });
    })?;
    std::fs::rename(&partial, program)?;
    Ok(())
}
