use crate::world::{PROGRAM, World};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

/// A kubeconfig with a context `c`, whose credential plugin is a script.
pub(crate) fn kubeconfig_with_plugin(script: &str, interactive_mode: &str) -> PathBuf {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": interactive_mode,
    });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": exec}}],
    });
    let kubeconfig = std::env::temp_dir().join(format!("business-plugin-{}", uuid::Uuid::new_v4()));
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    kubeconfig
}

#[test]
fn a_credential_plugin_that_does_not_end_has_a_deadline_where_nobody_is() {
    let kubeconfig = kubeconfig_with_plugin("cat; exec sleep 60", "IfAvailable");
    let args = ["tree", "--request-timeout", "300ms"];
    // Reads standard error to its end: the plugin, which goes on, must not keep it open.
    let output = Command::new(PROGRAM).args(args).env("KUBECONFIG", &kubeconfig).output().unwrap();
    std::fs::remove_file(kubeconfig).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let why = "the credential plugin sh gave no credentials for https://127.0.0.1:1 within 300ms";
    assert!(said.contains(why) && said.contains("next: in a terminal it can ask"), "{said}");
}

#[tokio::test]
async fn at_a_terminal_a_credential_plugin_may_take_its_time_and_is_named() {
    let world = World::new().await;
    let kubeconfig = kubeconfig_with_plugin("sleep 4; echo 'nobody has logged in' >&2; exit 1", "Never");
    let environment = [("KUBECONFIG", kubeconfig.to_str().unwrap())];
    let told = world.on_terminal("c", &["tree", "--request-timeout", "300ms"], &environment);
    std::fs::remove_file(&kubeconfig).unwrap();
    assert_eq!(told.code, 1, "{}", told.raw);
    let waiting = "waiting for the credential plugin sh, for https://127.0.0.1:1: it may ask here";
    assert!(told.raw.contains(waiting), "{}", told.raw);
    assert!(told.raw.contains("the credential plugin sh: nobody has logged in"), "{}", told.raw);
}
