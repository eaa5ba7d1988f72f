use crate::line;
use crate::say::{self, Count, Output};
use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a program knows of the command that has called it.
#[derive(Clone, Debug)]
pub struct Caller {
    output: Output,
    /// The level of `test` that this run is.
    level: Option<String>,
    /// Where the outcome of the level is expected.
    outcome: Option<PathBuf>,
    /// When the command began: it has built everything before.
    begun: Instant,
}

impl Caller {
    /// Adds the flags with which a command says who it is.
    pub fn flags(command: Command) -> Command {
        let hidden = |name: &'static str| Arg::new(name).long(name).hide(true);
        command.args([
            hidden("level"),
            hidden("outcome").value_parser(value_parser!(PathBuf)),
            hidden("spent").value_parser(value_parser!(u64)).default_value("0"),
        ])
    }

    /// What those flags say.
    pub fn of(matches: &ArgMatches) -> Self {
        let spent = Duration::from_millis(matches.get_one("spent").copied().unwrap_or_default());
        Self {
            output: line::output_of(matches),
            level: matches.get_one("level").cloned(),
            outcome: matches.get_one("outcome").cloned(),
            begun: Instant::now().checked_sub(spent).unwrap_or_else(Instant::now),
        }
    }

    /// The time since the command began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Works, and tells the outcome to whom it concerns.
    pub fn run(&self, what: &str, work: impl FnOnce() -> Result<Option<Count>>) -> ExitCode {
        say::to(self.output);
        say::enter(self.level.as_deref());
        let mut outcome = work();
        match &self.outcome {
            Some(file) => {
                outcome = outcome.map(|count| with_failures(count, say::lacking()));
                let told = write_outcome(file, &outcome);
                outcome = outcome.and_then(|count| told.map(|()| count));
            }
            None => say::ended(what, self.elapsed(), &outcome),
        }
        say::exit_code(&outcome)
    }
}

/// The flags for a program that is called `since` the command began.
pub fn spent(since: Instant) -> [OsString; 2] {
    ["--spent".into(), since.elapsed().as_millis().to_string().into()]
}

/// The flags for a program that is called as a level of `test`.
pub fn level(name: &str, outcome: &Path, output: Output) -> Vec<OsString> {
    let mut flags: Vec<OsString> = vec!["--level".into(), name.into(), "--outcome".into(), outcome.into()];
    if output == Output::Json {
        flags.extend(["--output".into(), "json".into()]);
    }
    flags
}

/// What a level has counted, and what it had to leave out.
fn with_failures(count: Option<Count>, more: usize) -> Option<Count> {
    if more == 0 {
        return count;
    }
    let mut count = count.unwrap_or(Count::ONE);
    count.failed += more;
    Some(count)
}

fn write_outcome(file: &Path, outcome: &Result<Option<Count>>) -> Result<()> {
    let text = match outcome {
        Ok(count) => {
            count.map_or_else(|| "1 0".to_owned(), |count| format!("{} {}", count.passed, count.failed))
        }
        Err(error) => format!("\n{error:#}"),
    };
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

/// What a program has told there.
pub fn read_outcome(file: &Path) -> Result<Count> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let (line, error) = text.split_once('\n').unwrap_or((&text, ""));
    let number = |text: &str| text.parse().with_context(|| format!("`{line}` is no count"));
    match line.split_once(' ') {
        Some((passed, failed)) => Ok(Count { passed: number(passed)?, failed: number(failed)? }),
        None => bail!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn what_had_to_be_left_out_is_counted_beside_what_was_not() {
        assert_eq!(with_failures(None, 0), None);
        assert_eq!(with_failures(None, 2), Some(Count { passed: 1, failed: 2 }));
        let count = Count { passed: 7, failed: 1 };
        assert_eq!(with_failures(Some(count), 0), Some(count));
        assert_eq!(with_failures(Some(count), 1), Some(Count { passed: 7, failed: 2 }));
    }

    #[test]
    fn what_is_told_is_heard() {
        let file = std::env::temp_dir().join(format!("terminal-outcome-{}", std::process::id()));
        let count = Count { passed: 25, failed: 1 };
        write_outcome(&file, &Ok(Some(count))).unwrap();
        assert_eq!(read_outcome(&file).unwrap(), count);
        write_outcome(&file, &Ok(None)).unwrap();
        assert_eq!(read_outcome(&file).unwrap(), Count { passed: 1, failed: 0 });
        write_outcome(&file, &Err(anyhow!("it is\nstuck"))).unwrap();
        assert_eq!(read_outcome(&file).unwrap_err().to_string(), "it is\nstuck");
        std::fs::remove_file(&file).unwrap();
    }
}
