use crate::failure::{Failure, Outcome};
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  export DATABASE_URL     # postgres://…: on a command line, whoever calls ps there would read its password
  business-api import --etcd-servers https://10.0.0.1:2379 --etcd-cafile ca.crt     # what would come
  business-api import --etcd-servers https://10.0.0.1:2379 --etcd-cafile ca.crt --apply

It reads TKEStack's etcd and writes objects with their uids and charges into the database, which no caller of the API may. So it
is a program of whoever rules the database; docs/coming-from-tkestack.md is the whole way.";

const ABOUT: &str =
    "Take over the projects and namespaces of TKEStack: `business-api import` does it, beside the database";

const DATABASE_FLAG: &str = "--database-url";

/// Refers to `business-api import`, which does the import.
#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Import {
    /// What `business-api import` takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    ignored: Vec<String>,
}

impl Import {
    /// Fails with the command that does the import.
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        let given = without_database(&self.ignored);
        let given = if given.is_empty() { "--help".to_owned() } else { given.join(" ") };
        Err(Failure::Usage(format!(
            "an import writes uids and charges into the database, past the API: run `business-api import {given}` where the \
             database is, with its address in DATABASE_URL"
        )))
    }
}

/// The arguments without the database URL, which may contain a password.
fn without_database(words: &[String]) -> Vec<&str> {
    let mut words = words.iter().map(String::as_str);
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix(DATABASE_FLAG) {
            Some("") => {
                words.next();
            }
            Some(rest) if rest.starts_with('=') => {}
            _ => kept.push(word),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_told_again() {
        let kept = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            without_database(&words).join(" ")
        };
        assert_eq!(kept("--apply --database-url postgres://u:p@h/d --prefix /x"), "--apply --prefix /x");
        assert_eq!(kept("--database-url=postgres://u:p@h/d --apply"), "--apply");
        assert_eq!(kept("--apply --database-url"), "--apply");
    }
}
