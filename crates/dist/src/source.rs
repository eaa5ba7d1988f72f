use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The commit.
const REVISION: &str = "SOURCE_REVISION";
/// <https://reproducible-builds.org/docs/source-date-epoch/>
const DATE: &str = "SOURCE_DATE_EPOCH";
/// The commit where neither the environment nor git says one.
pub(crate) const UNKNOWN: &str = "unknown";

/// The version of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The licence of the workspace.
pub(crate) const LICENCE: &str = "Apache-2.0";

/// The sources: their commit, and their date.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    /// The commit, with `-dirty` if files differ from it.
    pub(crate) revision: String,
    /// Unix seconds: the timestamp of all files.
    pub(crate) date: u64,
}

impl Source {
    /// From environment variables that the caller sets.
    pub(crate) fn from_environment() -> Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let revision = variable(REVISION).unwrap_or_else(|| UNKNOWN.to_owned());
        let date = variable(DATE).unwrap_or_else(|| "0".to_owned());
        let date = date.parse().with_context(|| format!("{DATE}: `{date}` is no number of seconds"))?;
        Ok(Self { root: root(), revision, date })
    }

    /// The date, RFC 3339.
    pub(crate) fn timestamp(&self) -> Result<String> {
        Ok(jiff::Timestamp::from_second(i64::try_from(self.date)?)?.to_string())
    }
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
