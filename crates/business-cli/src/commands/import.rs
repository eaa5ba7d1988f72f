use crate::failure::{Failure, Outcome};
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  business-api import --database-url URL --etcd-servers https://10.0.0.1:2379 --etcd-cafile ca.crt     # what would come
  business-api import --database-url URL --etcd-servers https://10.0.0.1:2379 --etcd-cafile ca.crt --apply

It reads TKEStack's etcd and writes objects with their uids and charges into the database, which no caller of the API may. So it
is a program of whoever rules the database; docs/coming-from-tkestack.md is the whole way.";

const ABOUT: &str =
    "Take over the projects and namespaces of TKEStack: `business-api import` does it, beside the database";

/// What a person types who looks for it here.
#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Import {
    /// What `business-api import` takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    ignored: Vec<String>,
}

impl Import {
    /// Says where it is done.
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        let given = if self.ignored.is_empty() { "--help".to_owned() } else { self.ignored.join(" ") };
        Err(Failure::Usage(format!(
            "an import writes uids and charges into the database, past the API: run `business-api import {given}` where the \
             database is"
        )))
    }
}
