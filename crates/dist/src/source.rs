use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The commit.
const REVISION: &str = "SOURCE_REVISION";
/// <https://reproducible-builds.org/docs/source-date-epoch/>
const DATE: &str = "SOURCE_DATE_EPOCH";
const UNKNOWN: &str = "unknown";

/// The version of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The licence of the workspace.
pub(crate) const LICENCE: &str = "Apache-2.0";

/// The sources: their commit, and their date.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    /// The commit, with `-dirty` behind it where files differ from it.
    pub(crate) revision: String,
    /// Seconds since 1970: no file that is made is younger.
    pub(crate) date: u64,
}

impl Source {
    /// As the caller says.
    pub(crate) fn told() -> Result<Self> {
        let told = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let revision = told(REVISION).unwrap_or_else(|| UNKNOWN.to_owned());
        let date = told(DATE).unwrap_or_else(|| "0".to_owned());
        let date = date.parse().with_context(|| format!("{DATE}: `{date}` is no number of seconds"))?;
        Ok(Self { root: root(), revision, date })
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
