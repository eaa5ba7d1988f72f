use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::paths;
use crate::screen::{note, print};
use clap::Args;
use kube::config::Kubeconfig;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  kubectl business kubeconfig east-web -n shop > web.kubeconfig
  kubectl business kubeconfig east-web -n shop --days 7 --file web.kubeconfig
  kubectl business kubeconfig east-web -n shop --merge && kubectl get pods";

/// What to do if a cluster issues no certificates.
const NO_CERTIFICATE: &str = "an operator makes it ready for people: people.enabled of the chart, once, and for the cluster \
                              `kubectl business join` with --people and --endpoint";
/// What to do about a number of days that the server does not take.
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
    /// Write it to a file that you alone read
    #[arg(long, short, value_name = "FILE", conflicts_with = "merge")]
    file: Option<PathBuf>,
    /// Add it to your own kubeconfig, and make it the current context
    #[arg(long)]
    merge: bool,
}

impl NamespaceKubeconfig {
    pub(crate) async fn run(&self, api: &Api, own: Option<&Path>) -> Result<Outcome, Failure> {
        let days = self.days.map_or_else(String::new, |days| format!("&validDays={days}"));
        let path =
            format!("{}/certificate?format=kubeconfig{days}", paths::namespace(&api.project, &self.name));
        let text = api.text(&path).await.map_err(advised)?;
        if self.merge {
            let issued = Kubeconfig::from_yaml(&text).map_err(|error| Failure::Stopped(error.to_string()))?;
            let context = issued.current_context.clone().unwrap_or_default();
            let file = files::kubeconfig(own)?;
            let before = files::read(&file)?.current_context;
            let before = before.filter(|before| !before.is_empty() && *before != context);
            files::merge_into(&file, issued)?;
            let back = before
                .map_or_else(String::new, |name| format!("; `kubectl config use-context {name}` leads back"));
            note(format_args!("{}: the current context is {context}{back}", file.display()));
        } else if let Some(file) = &self.file {
            files::write_secret(file, &text)?;
            note(format_args!("written: kubectl --kubeconfig {} get pods", file.display()));
        } else {
            print(text)?;
        }
        Ok(Outcome::Done)
    }
}

/// The server tells of the cluster, and of the parameters, by the same code.
fn advised(failure: Failure) -> Failure {
    if failure.names_field("spec.clusterName") {
        return failure.advised(422, NO_CERTIFICATE);
    }
    if failure.names_field("validDays") { failure.advised(422, OTHER_DAYS) } else { failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::told;
    use crate::screen::Screen;
    use meta::status::{Status, StatusCause};

    #[test]
    fn what_to_do_is_said_of_what_was_refused() {
        let next = |field: &str| {
            let cause = StatusCause { field: field.into(), message: "no".into(), ..StatusCause::default() };
            let status = Status::failure(422, "Invalid", "no").with_causes(vec![cause]);
            told(&advised(Failure::Refused(Box::new(status))), Screen::plain(false))
        };
        for part in ["people.enabled of the chart", "--people and --endpoint"] {
            assert!(next("spec.clusterName").contains(part), "{}", next("spec.clusterName"));
        }
        assert!(next("validDays").contains("other --days"), "{}", next("validDays"));
        assert!(!next("metadata.name").contains("--people"), "{}", next("metadata.name"));
    }
}
