//! Running a kubeconfig's credential plugin, and its errors. `login` makes this program one.

use crate::failure::{Failure, error_chain, seconds};
use crate::paths::server_of;
use crate::screen::note;
use kube::client::AuthError;
use kube::config::{ExecConfig, ExecInteractiveMode};
use kube::{Client, Config};
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

/// The file name of this program.
pub(crate) const PLUGIN: &str = "kubectl-business";

/// How long a person waits for a plugin without being told so.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Advice if a plugin does not end and nobody is there whom it could ask.
const NOBODY_ANSWERS: &str =
    "in a terminal it can ask for what it needs; if it is only slow, give it longer with --request-timeout";

/// Creates a client. kube runs the credential plugin first and blocks its thread until the plugin ends. At a terminal a
/// plugin may ask, and the person decides how long to wait; elsewhere it gets no input, and has `timeout`.
pub(crate) async fn client(config: &mut Config, timeout: Option<Duration>) -> Result<Client, Failure> {
    let Some(plugin) = &mut config.auth_info.exec else {
        return Client::try_from(config.clone()).map_err(|error| unusable(config, &error));
    };
    let has_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    if !has_terminal {
        // A plugin that outlives this program must not keep its standard error open: whoever reads it would wait.
        plugin.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    let command = plugin.command.clone().unwrap_or_default();
    let server = server_of(config);
    let for_kube = config.clone();
    let mut building = tokio::task::spawn_blocking(move || Client::try_from(for_kube));
    let limit = if has_terminal { SILENCE_MAX } else { timeout.unwrap_or(Duration::MAX) };
    let built = match tokio::time::timeout(limit, &mut building).await {
        Ok(built) => built,
        Err(_elapsed) if has_terminal => {
            note(format_args!(
                "waiting for the credential plugin {command}, for {server}: it may ask here or in a browser; Ctrl-C ends it"
            ));
            building.await
        }
        Err(_elapsed) => {
            let within = seconds(limit);
            let why =
                format!("the credential plugin {command} gave no credentials for {server} within {within}");
            return Err(Failure::Other(why).with_advice(NOBODY_ANSWERS));
        }
    };
    let built = built.map_err(|error| Failure::Other(error.to_string()))?;
    built.map_err(|error| unusable(config, &error))
}

/// The failure to create a client.
fn unusable(config: &Config, error: &kube::Error) -> Failure {
    failure(config, error).unwrap_or_else(|| Failure::Kubeconfig(error_chain(error)))
}

/// The failure of the credential plugin, if it was the cause of an error. kube itself would print the plugin's output
/// as a list of bytes.
pub(crate) fn failure(config: &Config, error: &kube::Error) -> Option<Failure> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<AuthError>() {
            return failure_of_plugin(config.auth_info.exec.as_ref()?, error);
        }
        cause = error.source();
    }
    None
}

fn failure_of_plugin(plugin: &ExecConfig, error: &AuthError) -> Option<Failure> {
    let command = plugin.command.as_deref()?;
    let text = match error {
        AuthError::AuthExecRun { out, .. } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let stderr = stderr.trim();
            let stderr = stderr.strip_prefix("error: ").unwrap_or(stderr);
            if stderr.is_empty() {
                format!("the credential plugin {command} gave no credentials: {}", out.status)
            } else if Path::new(command).ends_with(PLUGIN) {
                stderr.to_owned()
            } else {
                format!("the credential plugin {command}: {stderr}")
            }
        }
        AuthError::AuthExecStart(why) => {
            let hint = plugin.install_hint.as_ref().map_or_else(String::new, |hint| format!(": {hint}"));
            format!("the credential plugin {command} cannot be started: {why}{hint}")
        }
        _ => return None,
    };
    Some(Failure::Other(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Api;

    async fn failure_text(command: &str, args: &[&str]) -> String {
        let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
        config.auth_info.exec = Some(ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some(command.to_owned()),
            args: Some(args.iter().map(|arg| (*arg).to_owned()).collect()),
            install_hint: Some("install it".to_owned()),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        });
        Api::new(config, "p".to_owned(), Duration::ZERO).await.err().unwrap().to_string()
    }

    #[tokio::test]
    async fn what_a_credential_plugin_says_is_told_as_it_says_it() {
        let stderr =
            failure_text("sh", &["-c", "echo 'error: the session has ended: log in again' >&2; exit 1"])
                .await;
        assert_eq!(stderr, "the credential plugin sh: the session has ended: log in again");
        let stderr = failure_text("sh", &["-c", "exit 3"]).await;
        assert!(
            stderr.starts_with("the credential plugin sh gave no credentials: exit status: 3"),
            "{stderr}"
        );
        let stderr = failure_text("/absent/plugin", &[]).await;
        assert!(stderr.starts_with("the credential plugin /absent/plugin cannot be started: "), "{stderr}");
        assert!(stderr.ends_with(": install it"), "{stderr}");
    }
}
