use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::paths;
use crate::screen::{note, print};
use clap::Args;
use kube::config::Kubeconfig;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  kubectl business kubeconfig east-web -n shop > web.kubeconfig
  kubectl business kubeconfig east-web -n shop --days 7 --file web.kubeconfig
  kubectl business kubeconfig east-web -n shop --merge && kubectl get pods";

/// Advice if a cluster issues no certificates.
const NO_CERTIFICATE: &str = "an operator makes it ready for people: people.enabled of the chart, once, and for the cluster \
                              `kubectl business join` with --people and --endpoint";
/// Advice if the limit of signed certificates is reached.
const LATER: &str = "the server signs so many certificates for each person in a while: one that you have is good until it ends; \
                     else try again in some minutes";
/// Advice if the server refuses the number of days.
const OTHER_DAYS: &str = "give other --days, or leave them out: then the server chooses";

/// Get a kubeconfig with which you enter a namespace in its cluster: it holds a certificate of your own
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NamespaceKubeconfig {
    /// The namespace, in the project of -n
    #[arg(value_name = "NAMESPACE")]
    name: String,
    /// For how many days it is to be good; the server bounds it
    #[arg(long)]
    days: Option<u32>,
    /// Write it to a file that you alone read; one that is there is replaced only if it is an earlier one of the same
    /// namespace
    #[arg(long, short, value_name = "FILE", conflicts_with = "merge")]
    file: Option<PathBuf>,
    /// Add it to your own kubeconfig, and make it the current context
    #[arg(long)]
    merge: bool,
}

impl NamespaceKubeconfig {
    pub(crate) async fn run(&self, api: &Api, own: Option<&Path>) -> Result<Outcome, Failure> {
        // A signed certificate counts against the limit even if it cannot be written, so the file is checked first.
        if let Some(file) = &self.file {
            check_replaceable(file, None)?;
        }
        let days = self.days.map_or_else(String::new, |days| format!("&validDays={days}"));
        let path =
            format!("{}/certificate?format=kubeconfig{days}", paths::namespace(&api.project, &self.name));
        let text = api.get_text(&path).await.map_err(with_certificate_advice)?;
        let issued = || Kubeconfig::from_yaml(&text).map_err(|error| Failure::Other(error.to_string()));
        if self.merge {
            let issued = issued()?;
            let context = issued.current_context.clone().unwrap_or_default();
            let file = files::kubeconfig_to_write(own)?;
            let before = files::read(&file)?.current_context;
            let before = before.filter(|before| !before.is_empty() && *before != context);
            files::merge_into(&file, issued)?;
            let back = before
                .map_or_else(String::new, |name| format!("; `kubectl config use-context {name}` leads back"));
            note(format_args!("{}: the current context is {context}{back}", file.display()));
        } else if let Some(file) = &self.file {
            check_replaceable(file, Some(&issued()?.current_context.unwrap_or_default()))?;
            files::write_secret(file, &text)?;
            note(format_args!("written: kubectl --kubeconfig {} get pods", file.display()));
        } else {
            print(text)?;
        }
        Ok(Outcome::Done)
    }
}

/// Fails if a file exists that is not an earlier kubeconfig of this context: its contents would be lost. `None` means
/// any context.
fn check_replaceable(path: &Path, context: Option<&str>) -> Result<(), Failure> {
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::File { path: path.to_owned(), why: error.to_string() }),
        Ok(found) => found,
    };
    let is_empty = || found.len() == 0;
    let is_earlier = || {
        files::read(path).is_ok_and(|config| {
            let is_of = |name: &str| context.is_none_or(|context| context == name);
            matches!(config.contexts.as_slice(), [only] if is_of(&only.name))
                && config.clusters.len() <= 1
                && config.auth_infos.len() <= 1
        })
    };
    if found.is_file() && (is_empty() || is_earlier()) {
        return Ok(());
    }
    let of = context.unwrap_or("a namespace");
    let why = format!(
        "it is there, and is more than an earlier kubeconfig of {of}: name another file, or add to your own kubeconfig \
         by --merge"
    );
    Err(Failure::File { path: path.to_owned(), why })
}

/// Adds advice by the field that was refused: the server uses 422 for the cluster and for the parameters.
fn with_certificate_advice(failure: Failure) -> Failure {
    if failure.names_field("spec.clusterName") {
        return failure.with_advice_on(422, NO_CERTIFICATE);
    }
    if failure.names_field("validDays") {
        failure.with_advice_on(422, OTHER_DAYS)
    } else {
        failure.with_advice_on(429, LATER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::render;
    use crate::screen::Screen;
    use meta::status::{Status, StatusCause};

    #[test]
    fn a_file_is_replaced_only_by_a_later_one_of_the_same_context() {
        let path = std::env::temp_dir().join(format!("business-cli-replaced-{}", std::process::id()));
        let with = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let is_of = |context| check_replaceable(&path, context).is_ok();
            [is_of(None), is_of(Some("east/web"))]
        };
        let of = |names: &[&str]| {
            let contexts =
                names.iter().map(|name| format!("- name: {name}\n  context: {{cluster: c, user: u}}\n"));
            format!("apiVersion: v1\nkind: Config\ncontexts:\n{}", contexts.collect::<String>())
        };
        assert_eq!([with(""), with(&of(&["east/web"]))], [[true; 2]; 2]);
        assert_eq!(with(&of(&["east/other"])), [true, false], "only the answer says which one it is to be");
        for other in [of(&["east/web", "mine"]), "a: letter\n".into(), "text".into()] {
            assert_eq!(with(&other), [false; 2], "{other}");
        }
        std::fs::remove_file(&path).unwrap();
        for context in [None, Some("east/web")] {
            assert!(check_replaceable(&path, context).is_ok());
            assert!(check_replaceable(&std::env::temp_dir(), context).is_err());
        }
    }

    #[test]
    fn what_to_do_is_said_of_what_was_refused() {
        let next = |field: &str| {
            let cause = StatusCause { field: field.into(), message: "no".into(), ..StatusCause::default() };
            let status = Status::failure(422, "Invalid", "no").with_causes(vec![cause]);
            render(&with_certificate_advice(Failure::Refused(Box::new(status))), Screen::plain(false))
        };
        for part in ["people.enabled of the chart", "--people and --endpoint"] {
            assert!(next("spec.clusterName").contains(part), "{}", next("spec.clusterName"));
        }
        assert!(next("validDays").contains("other --days"), "{}", next("validDays"));
        assert!(!next("metadata.name").contains("--people"), "{}", next("metadata.name"));
    }
}
