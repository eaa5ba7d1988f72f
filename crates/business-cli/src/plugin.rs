//! The credential plugin of a kubeconfig, and its words if it gives no credentials. `login` has this program be one.

use crate::failure::Failure;
use kube::Config;
use kube::client::AuthError;
use kube::config::ExecConfig;
use std::path::Path;

/// What kubectl calls this program.
pub(crate) const PLUGIN: &str = "kubectl-business";

/// What went wrong with the credential plugin, if that was the cause: kube would print the plugin's output byte for
/// byte.
pub(crate) fn failure(config: &Config, error: &kube::Error) -> Option<Failure> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<AuthError>() {
            return told(config.auth_info.exec.as_ref()?, error);
        }
        cause = error.source();
    }
    None
}

fn told(plugin: &ExecConfig, error: &AuthError) -> Option<Failure> {
    let command = plugin.command.as_deref()?;
    let text = match error {
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.trim();
            let said = said.strip_prefix("error: ").unwrap_or(said);
            if said.is_empty() {
                format!("the credential plugin {command} gave no credentials: {}", out.status)
            } else if Path::new(command).ends_with(PLUGIN) {
                said.to_owned()
            } else {
                format!("the credential plugin {command}: {said}")
            }
        }
        AuthError::AuthExecStart(why) => {
            let hint = plugin.install_hint.as_ref().map_or_else(String::new, |hint| format!(": {hint}"));
            format!("the credential plugin {command} cannot be started: {why}{hint}")
        }
        _ => return None,
    };
    Some(Failure::Stopped(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Api;
    use std::time::Duration;

    fn asked(command: &str, args: &[&str]) -> String {
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
        let said = asked("sh", &["-c", "echo 'error: the session has ended: log in again' >&2; exit 1"]);
        assert_eq!(said, "the credential plugin sh: the session has ended: log in again");
        let said = asked("sh", &["-c", "exit 3"]);
        assert!(said.starts_with("the credential plugin sh gave no credentials: exit status: 3"), "{said}");
        let said = asked("/absent/plugin", &[]);
        assert!(said.starts_with("the credential plugin /absent/plugin cannot be started: "), "{said}");
        assert!(said.ends_with(": install it"), "{said}");
    }
}
