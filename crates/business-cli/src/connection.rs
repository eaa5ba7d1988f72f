//! Whom the program talks to, and as whom: kubeconfig and context as kubectl takes them.

use crate::api::Api;
use crate::failure::Failure;
use clap::Args;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a request may take where nobody says.
const REQUEST_TIMEOUT: &str = "30s";

/// The namespace of whoever says none.
const UNSAID: &str = "default";

/// kubectl's own flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionFlags {
    /// The kubeconfig; else $KUBECONFIG, ~/.kube/config, or the pod's own account
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Act as this user
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Act as somebody of this group; repeat it for several
    #[arg(long, global = true, value_name = "GROUP")]
    pub(crate) as_group: Vec<String>,
    /// The project that namespaces lie in; else the namespace of the context
    #[arg(long, short = 'n', global = true, value_name = "PROJECT")]
    pub(crate) namespace: Option<String>,
    /// How long one request may take, such as 5s or 1m; 0 is for ever
    #[arg(long, global = true, value_name = "TIME", default_value = REQUEST_TIMEOUT, value_parser = duration)]
    pub(crate) request_timeout: Duration,
}

/// `90`, `90s`, `5m`, `1h`, `250ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let number: u64 = number.parse().map_err(|_error| "a time is a number with s, m or h".to_owned())?;
    let seconds = |factor: u64| number.checked_mul(factor).map(Duration::from_secs);
    let read = match unit {
        "ms" => Some(Duration::from_millis(number)),
        "" | "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3600),
        other => return Err(format!("{other:?} is no unit of time: s, m, h, ms")),
    };
    read.ok_or_else(|| "that is too long".to_owned())
}

impl ConnectionFlags {
    /// The API that these flags lead to.
    pub(crate) async fn open(&self) -> Result<Api, Failure> {
        let config = self.config(self.kubeconfig.as_deref()).await?;
        self.api(config)
    }

    /// The same with another kubeconfig, or none.
    pub(crate) async fn open_with(&self, kubeconfig: Option<&Path>) -> Result<Api, Failure> {
        let config = self.config(kubeconfig).await?;
        self.api(config)
    }

    async fn config(&self, kubeconfig: Option<&Path>) -> Result<Config, Failure> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match kubeconfig {
            Some(path) => of_file(path, &options).await?,
            None => default_config(&options).await?,
        };
        if let Some(user) = &self.impersonate {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !self.as_group.is_empty() {
            if config.auth_info.impersonate.is_none() {
                return Err(Failure::Usage("--as-group goes with --as".to_owned()));
            }
            config.auth_info.impersonate_groups = Some(self.as_group.clone());
        }
        Ok(config)
    }

    fn api(&self, config: Config) -> Result<Api, Failure> {
        let project = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        // It is what kube takes where the context says nothing, too.
        let is_said = self.namespace.is_some() || project != UNSAID;
        let api = Api::new(config, project, self.request_timeout)?;
        Ok(if is_said { api } else { api.lacking_project() })
    }
}

/// A cluster of a kubeconfig file, by one of its contexts.
pub(crate) async fn of_file(path: &Path, options: &KubeConfigOptions) -> Result<Config, Failure> {
    let file = Kubeconfig::read_from(path).map_err(|error| bad(&error))?;
    Config::from_custom_kubeconfig(file, options).await.map_err(|error| bad(&error))
}

/// $KUBECONFIG or ~/.kube/config; in a pod without one, the pod's own account.
async fn default_config(options: &KubeConfigOptions) -> Result<Config, Failure> {
    match Config::from_kubeconfig(options).await {
        Ok(config) => Ok(config),
        Err(error) if options.context.is_none() => Config::incluster().map_err(|_outside| bad(&error)),
        Err(error) => Err(bad(&error)),
    }
}

fn bad(error: &dyn std::error::Error) -> Failure {
    Failure::Kubeconfig(whole(error))
}

/// An error with what has caused it.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_kubectl_reads_them() {
        for (text, millis) in [("0", 0), ("5s", 5000), ("2m", 120_000), ("1h", 3_600_000), ("250ms", 250)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "s", "5x", "-1s", "99999999999999999999h", "9999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
