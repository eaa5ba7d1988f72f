//! Files that hold secrets, and kubeconfigs that are added to.

use crate::failure::Failure;
use kube::config::Kubeconfig;
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Its owner alone.
const PRIVATE: u32 = 0o600;
const PRIVATE_DIRECTORY: u32 = 0o700;

/// Writes a file that its owner alone reads; whoever reads it meanwhile sees the old one or the new one.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::File { path: path.to_owned(), why: error.to_string() };
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    if let Some(directory) = path.parent().filter(is_missing) {
        std::fs::create_dir_all(directory).map_err(failed)?;
        std::fs::set_permissions(directory, Permissions::from_mode(PRIVATE_DIRECTORY)).map_err(failed)?;
    }
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(&fresh)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&fresh, path));
    if written.is_err() {
        let _not_made = std::fs::remove_file(&fresh);
    }
    written.map_err(failed)
}

/// Where kubectl keeps what it knows of somebody.
pub(crate) fn home() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(PathBuf::from).ok_or_else(|| Failure::Stopped("$HOME is not set".to_owned()))
}

/// The kubeconfig that is written to: the one that is named, else the first of $KUBECONFIG, else ~/.kube/config.
pub(crate) fn kubeconfig(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let first = std::env::split_paths(&listed).find(|path| !path.as_os_str().is_empty());
    first.map_or_else(|| Ok(home()?.join(".kube/config")), Ok)
}

/// Adds the entries of another kubeconfig to a file, in place of those of the same names, and makes its context the current one.
pub(crate) fn merge_into(path: &Path, added: Kubeconfig) -> Result<(), Failure> {
    let failed = |why: String| Failure::File { path: path.to_owned(), why };
    let mut whole = if path.exists() {
        Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?
    } else {
        Kubeconfig::default()
    };
    whole.clusters.retain(|one| !added.clusters.iter().any(|other| other.name == one.name));
    whole.auth_infos.retain(|one| !added.auth_infos.iter().any(|other| other.name == one.name));
    whole.contexts.retain(|one| !added.contexts.iter().any(|other| other.name == one.name));
    whole.clusters.extend(added.clusters);
    whole.auth_infos.extend(added.auth_infos);
    whole.contexts.extend(added.contexts);
    whole.current_context = added.current_context.or(whole.current_context);
    whole.api_version.get_or_insert_with(|| "v1".to_owned());
    whole.kind.get_or_insert_with(|| "Config".to_owned());
    let text = serde_yaml_ng::to_string(&whole).map_err(|error| failed(error.to_string()))?;
    write_secret(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn config(name: &str, user: &Value) -> Kubeconfig {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": format!("https://{name}")}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        });
        Kubeconfig::from_yaml(&config.to_string()).unwrap()
    }

    #[test]
    fn what_stands_in_a_kubeconfig_stays_with_its_secrets() {
        let path = std::env::temp_dir().join(format!("business-cli-files-{}", std::process::id()));
        let secrets = json!({"token": "t", "password": "p", "username": "u", "client-key-data": "a2V5"});
        merge_into(&path, config("old", &secrets)).unwrap();
        merge_into(&path, config("new", &json!({"token": "first"}))).unwrap();
        merge_into(&path, config("new", &json!({"token": "second"}))).unwrap();
        let written: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let user = |at: usize| written["users"][at]["user"].clone();
        for (key, text) in secrets.as_object().unwrap() {
            assert_eq!(user(0)[key], *text, "{key}");
        }
        assert_eq!(user(1)["token"], "second");
        assert_eq!(
            (written["users"].as_array().unwrap().len(), &written["current-context"]),
            (2, &json!("new"))
        );
    }
}
