//! The programs for PostgreSQL with Patroni: a Python environment that is made once per user, a complete PostgreSQL,
//! and HAProxy.

use crate::{postgres, workspace};
use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use terminal::say;

/// Programs that Patroni calls; packages of the server alone lack some.
const PROGRAMS: [&str; 7] =
    ["postgres", "initdb", "pg_ctl", "pg_controldata", "pg_basebackup", "pg_rewind", "psql"];
/// Directories of system programs, which may not be on PATH.
const SBIN: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Installs Patroni and links all programs for an instance. The error says what to install.
pub(crate) fn link() -> Result<()> {
    let dev = workspace::dev();
    std::fs::create_dir_all(dev.join("bin"))?;
    workspace::link(&haproxy()?, &dev.join("bin/haproxy"))?;
    workspace::link(&postgresql()?, &dev.join("postgresql-ha"))?;
    workspace::link(&environment()?, &dev.join("patroni"))
}

fn haproxy() -> Result<PathBuf> {
    let dirs = workspace::path().into_iter().chain(SBIN.map(PathBuf::from));
    workspace::find("haproxy", dirs, |_| true)
        .context("HAProxy is not on this machine: install it (Debian: apt-get install haproxy)")
}

fn postgresql() -> Result<PathBuf> {
    let whole = |dir: &PathBuf| PROGRAMS.iter().all(|program| dir.join(program).is_file());
    postgres::places().into_iter().find(whole).with_context(|| {
        format!(
            "no directory of this machine has all of {}: install PostgreSQL with its clients (Debian: apt-get install \
             postgresql)",
            PROGRAMS.join(", ")
        )
    })
}

/// The virtual environment with Patroni; its name depends on the requirements.
fn environment() -> Result<PathBuf> {
    let requirements = workspace::root().join("tests/patroni/requirements.txt");
    let text = std::fs::read(&requirements).with_context(|| format!("read {}", requirements.display()))?;
    let environment = postgres::cache().join(format!("patroni-{}", workspace::content_hash(text)));
    if !environment.exists() {
        say::step("Patroni installed, once", || install(&environment, &requirements))?;
    }
    Ok(environment)
}

/// Creates it under a temporary name, so that nobody uses an incomplete one.
fn install(environment: &Path, requirements: &Path) -> Result<()> {
    let base = environment.parent().context("the environment has no parent")?;
    std::fs::create_dir_all(base)?;
    let half = environment.with_extension(std::process::id().to_string());
    let made = run(Command::new(python()?).args(["-m", "venv"]).arg(&half))
        .context("make a Python environment (Debian: apt-get install python3-venv)")
        .and_then(|()| {
            let mut pip = Command::new(half.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
            run(pip.arg(requirements)).context("install Patroni from the Python package index")
        })
        .and_then(|()| std::fs::rename(&half, environment).context("keep the Python environment"));
    if made.is_err() && half.exists() {
        std::fs::remove_dir_all(&half)?;
    }
    made
}

/// A Python that all users of this machine can run.
fn python() -> Result<PathBuf> {
    let open = |file: &Path| {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        file.ancestors().all(|part| part.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0))
    };
    let dirs = std::iter::once(PathBuf::from("/usr/bin")).chain(workspace::path());
    workspace::find("python3", dirs, open)
        .context("Patroni needs a Python 3 that every user can run (Debian: apt-get install python3-venv)")
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("start {name}"))?;
    if !output.status.success() {
        let said =
            String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        bail!("{name}: {}", last.into_iter().rev().collect::<Vec<_>>().join("; "));
    }
    Ok(())
}
