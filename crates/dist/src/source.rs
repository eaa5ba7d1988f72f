use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a copy of the sources without git is told.
const REVISION: &str = "SOURCE_REVISION";
/// <https://reproducible-builds.org/docs/source-date-epoch/>
const DATE: &str = "SOURCE_DATE_EPOCH";
const UNKNOWN: &str = "unknown";

/// The version of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The licence of the workspace.
pub(crate) const LICENCE: &str = "Apache-2.0";

/// What is built, and as of when.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    /// The commit, with `-dirty` behind it where files differ from it.
    pub(crate) revision: String,
    /// Seconds since 1970: no file that is made is younger.
    pub(crate) date: u64,
}

impl Source {
    /// From the environment, else from git.
    pub(crate) fn here() -> Result<Self> {
        let root = root();
        let revision = std::env::var(REVISION).ok().filter(|set| !set.is_empty());
        let revision = revision.or_else(|| revision_of(&root)).unwrap_or_else(|| UNKNOWN.to_owned());
        let date = std::env::var(DATE).ok().filter(|set| !set.is_empty());
        let date =
            date.or_else(|| git(&root, &["log", "-1", "--format=%ct"])).unwrap_or_else(|| "0".to_owned());
        let date = date.parse().with_context(|| format!("{DATE}: `{date}` is no number of seconds"))?;
        Ok(Self { root, revision, date })
    }

    /// The date as RFC 3339 has it.
    pub(crate) fn timestamp(&self) -> Result<String> {
        Ok(jiff::Timestamp::from_second(i64::try_from(self.date)?)?.to_string())
    }
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

fn revision_of(root: &Path) -> Option<String> {
    let commit = git(root, &["rev-parse", "HEAD"])?;
    let changed = git(root, &["status", "--porcelain"]).is_none_or(|changed| !changed.is_empty());
    Some(if changed { format!("{commit}-dirty") } else { commit })
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
