use crate::tool::{Progress, Tool};
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

const GO: (u32, u32) = (1, 26);
/// The compilers collect their garbage less often: each is short-lived, and takes half a gigabyte at most.
const COLLECT: &str = "400";

/// A program that Go builds.
#[derive(Debug)]
pub(crate) struct Module {
    /// What people call it.
    pub(crate) what: &'static str,
    /// Where its files are.
    pub(crate) source: PathBuf,
    /// What is built there.
    pub(crate) package: &'static str,
    /// Build tags, separated by commas.
    pub(crate) tags: String,
    /// Values for the linker to build in.
    pub(crate) values: String,
    /// Where the program goes.
    pub(crate) program: PathBuf,
    pub(crate) effort: Effort,
}

/// What the compilers take time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// To be there soon: nothing is inlined, which is a third of the compilers' work.
    Quick,
    /// To run fast: what something else is measured beside.
    Full,
    /// As `go test` compiles: most of it is tested here, and so compiled already.
    AsTests,
}

impl Module {
    /// Says what is missing to build it.
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

    /// Counts the packages, for which their modules are downloaded.
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
        tool.told(Progress { done, total });
    })?;
    std::fs::rename(&partial, program)?;
    Ok(())
}
