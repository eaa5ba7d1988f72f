//! The `--dry-run` flag.

use crate::failure::Failure;
use clap::{Args, ValueEnum};

/// Who is asked, if it is not meant seriously.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRunStrategy {
    #[default]
    None,
    /// Nobody: what would be sent is printed (of `create` alone)
    Client,
    /// The server: it decides, and keeps nothing
    Server,
}

/// The flag, as kubectl has it.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct DryRunFlag {
    /// Do not do it: only ask the server whether it would be done
    #[arg(
        long,
        value_enum,
        default_value_t,
        num_args = 0..=1,
        default_missing_value = "server",
        require_equals = true,
        value_name = "WHO"
    )]
    dry_run: DryRunStrategy,
}

impl DryRunFlag {
    pub(crate) fn strategy(self) -> DryRunStrategy {
        self.dry_run
    }

    /// Whether it is a server-side dry run. A client-side one is an error: only `create` has it.
    pub(crate) fn is_server_dry_run(self) -> Result<bool, Failure> {
        match self.dry_run {
            DryRunStrategy::None => Ok(false),
            DryRunStrategy::Server => Ok(true),
            DryRunStrategy::Client => Err(Failure::Usage(
                "--dry-run=client is of `create` alone: here only the server can say; --dry-run asks it"
                    .to_owned(),
            )),
        }
    }

    /// Refuses `--wait` together with a dry run.
    pub(crate) fn check_wait(self, waits: bool) -> Result<(), Failure> {
        if waits && self.dry_run != DryRunStrategy::None {
            return Err(Failure::Usage(
                "--wait and --dry-run: what is not done is not waited for".to_owned(),
            ));
        }
        Ok(())
    }
}

/// The suffix of the output of a dry run.
pub(crate) fn suffix(dry_run: bool) -> &'static str {
    if dry_run { " (dry run)" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches as _};

    fn flag(args: &[&str]) -> Option<DryRunFlag> {
        let command = DryRunFlag::augment_args(Command::new("line").no_binary_name(true));
        DryRunFlag::from_arg_matches(&command.try_get_matches_from(args).ok()?).ok()
    }

    #[test]
    fn a_bare_flag_asks_the_server_and_none_asks_nobody() {
        let calls: [(&[&str], bool); 4] = [
            (&[], false),
            (&["--dry-run"], true),
            (&["--dry-run=server"], true),
            (&["--dry-run=none"], false),
        ];
        for (args, asks) in calls {
            let flag = flag(args).unwrap();
            assert_eq!(flag.is_server_dry_run().unwrap(), asks, "{args:?}");
            assert_eq!(flag.check_wait(true).is_err(), asks, "{args:?}");
            assert!(flag.check_wait(false).is_ok(), "{args:?}");
        }
        let client = flag(&["--dry-run=client"]).unwrap();
        assert!(
            matches!(client.is_server_dry_run(), Err(Failure::Usage(why)) if why.contains("`create` alone"))
        );
        assert!(flag(&["--dry-run=maybe"]).is_none());
    }
}
