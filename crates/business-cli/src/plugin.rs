//! Errors of a kubeconfig's credential plugin. `login` makes this program one.

use crate::failure::Failure;
use kube::Config;
use kube::client::AuthError;
use kube::config::ExecConfig;
use std::path::Path;

/// The file name of this program.
pub(crate) const PLUGIN: &str = "kubectl-business";

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
    use std::time::Duration;

    fn failure_text(command: &str, args: &[&str]) -> String {
        let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
        config.auth_info.exec = Some(ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some(command.to_owned()),
            args: Some(args.iter().map(|arg| (*arg).to_owned()).collect()),
            install_hint: Some("install it".to_owned()),
            interactive_mode: Some(kube::config::ExecInteractiveMode::Never),
            ..ExecConfig::default()
        });
        Api::new(config, "p".to_owned(), Duration::ZERO).err().unwrap().to_string()
    }

    #[tokio::test]
    async fn what_a_credential_plugin_says_is_told_as_it_says_it() {
        let stderr =
            failure_text("sh", &["-c", "echo 'error: the session has ended: log in again' >&2; exit 1"]);
        assert_eq!(stderr, "the credential plugin sh: the session has ended: log in again");
        let stderr = failure_text("sh", &["-c", "exit 3"]);
        assert!(
            stderr.starts_with("the credential plugin sh gave no credentials: exit status: 3"),
            "{stderr}"
        );
        let stderr = failure_text("/absent/plugin", &[]);
        assert!(stderr.starts_with("the credential plugin /absent/plugin cannot be started: "), "{stderr}");
        assert!(stderr.ends_with(": install it"), "{stderr}");
    }
}
