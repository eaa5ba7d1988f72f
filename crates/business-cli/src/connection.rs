//! The server that the program talks to, and the user: kubeconfig and context as kubectl takes them.

use crate::api::Api;
use crate::failure::{Failure, error_chain};
use crate::files;
use crate::kubeconfigs::Kubeconfigs;
use clap::Args;
use kube::Config;
use kube::config::{Kubeconfig, KubeconfigError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a request may take by default.
const REQUEST_TIMEOUT: &str = "30s";
/// Nanoseconds.
const SECOND: u128 = 1_000_000_000;
const NO_TIME: &str = "a time is a number with h, m, s or ms, such as 90s or 1m30s";

/// Advice if a kubeconfig has no current context, or not the context that was named.
const OTHER_CONTEXT: &str = "say which context: --context NAME (--member-context for a member cluster's kubeconfig), or `kubectl \
                             config use-context NAME`; `kubectl config get-contexts` shows them";

/// kubectl's namespace if none is named.
const DEFAULT_NAMESPACE: &str = "default";

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

/// A time as kubectl takes it: seconds, or what Go writes, such as `5s`, `1m30s`, `1.5h`, `250ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (number, behind) = split_before(rest, |c| !is_number_char(c));
        let (unit, next) = split_before(behind, is_number_char);
        let part = part_nanos(number, if whole { "s" } else { unit })?;
        nanos = nanos.saturating_add(part);
        rest = next;
    }
    if text.is_empty() {
        return Err(NO_TIME.to_owned());
    }
    // Go's time.Duration is an i64.
    let nanos = i64::try_from(nanos).ok().and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| "that is too long".to_owned())
}

/// A number with a unit, in nanoseconds, rounded down.
fn part_nanos(number: &str, unit: &str) -> Result<u128, String> {
    let unit: u128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        "" => return Err(NO_TIME.to_owned()),
        other => return Err(format!("{other:?} is no unit of time: h, m, s, ms, us, ns")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(NO_TIME.to_owned());
    }
    let whole = if whole.is_empty() { Ok(0) } else { whole.parse::<u64>() };
    let whole = whole.map_err(|_too_large| "that is too long".to_owned())?;
    let mut nanos = u128::from(whole).saturating_mul(unit);
    let mut scale = unit;
    for digit in fraction.chars().filter_map(|c| c.to_digit(10)) {
        scale /= 10;
        nanos = nanos.saturating_add(u128::from(digit) * scale);
    }
    Ok(nanos)
}

fn is_number_char(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// Splits a text before the first character that matches.
fn split_before(text: &str, is_match: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at_checked(text.find(is_match).unwrap_or(text.len())).unwrap_or((text, ""))
}

impl ConnectionFlags {
    /// The API that these flags lead to.
    pub(crate) async fn open(&self) -> Result<Api, Failure> {
        let config = self.config(self.kubeconfig.as_deref()).await?;
        self.api(config).await
    }

    /// The same with another kubeconfig, or none.
    pub(crate) async fn open_with(&self, kubeconfig: Option<&Path>) -> Result<Api, Failure> {
        let config = self.config(kubeconfig).await?;
        self.api(config).await
    }

    async fn config(&self, kubeconfig: Option<&Path>) -> Result<Config, Failure> {
        let context = self.context.as_deref();
        let mut config = match kubeconfig {
            Some(path) => config_of_file(path, context).await?,
            None => default_config(context).await?,
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

    async fn api(&self, config: Config) -> Result<Api, Failure> {
        let project = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        // kube uses the same default if the context names no namespace.
        let is_named = self.namespace.is_some() || project != DEFAULT_NAMESPACE;
        let api = Api::new(config, project, self.request_timeout).await?;
        Ok(if is_named { api } else { api.without_project() })
    }
}

/// A cluster of a kubeconfig file, by one of its contexts.
pub(crate) async fn config_of_file(path: &Path, context: Option<&str>) -> Result<Config, Failure> {
    if !path.exists() {
        return Err(Failure::Kubeconfig(format!("{} is not there", path.display())));
    }
    config_of_context(&Kubeconfigs::read(Some(path))?.all, context).await
}

/// $KUBECONFIG or ~/.kube/config; in a pod that has neither, the pod's own account.
async fn default_config(context: Option<&str>) -> Result<Config, Failure> {
    let listed = Kubeconfigs::read(None)?;
    if listed.is_empty() && context.is_none() {
        return Config::incluster().map_err(|_outside| no_kubeconfig());
    }
    config_of_context(&listed.all, context).await
}

fn no_kubeconfig() -> Failure {
    let looked: Vec<String> =
        files::kubeconfig_paths(None).iter().map(|path| path.display().to_string()).collect();
    Failure::Kubeconfig(format!("there is none, or nothing in it: {}", looked.join(", ")))
}

async fn config_of_context(file: &Kubeconfig, context: Option<&str>) -> Result<Config, Failure> {
    let has_contexts = !file.contexts.is_empty();
    kubeconfig::config(file, context).await.map_err(|error| {
        let failure = Failure::Kubeconfig(error_chain(&error));
        match error {
            KubeconfigError::CurrentContextNotSet | KubeconfigError::LoadContext(_) if has_contexts => {
                failure.with_advice(OTHER_CONTEXT)
            }
            _ => failure,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_kubectl_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("90", 90_000),
            ("5s", 5000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("250ms", 250),
            ("1m30s", 90_000),
            ("1h2m3s4ms", 3_723_004),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("1.s", 1000),
            ("2000us", 2),
            ("2000µs", 2),
            ("3000000ns", 3),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("0.0000000019s"), Ok(Duration::from_nanos(1)), "less than one is cut off");
        for wrong in [
            "",
            "s",
            "5x",
            "-1s",
            "1m30",
            "1.5",
            ".s",
            "1..5s",
            "1 s",
            "99999999999999999999h",
            "9999999999999999999h",
            "99999999999",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
