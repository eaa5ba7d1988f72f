//! Files that hold secrets, and kubeconfigs that are added to.

use crate::failure::Failure;
use kube::config::{Context, Kubeconfig};
use std::fs::{File, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Its owner alone.
const PRIVATE: u32 = 0o600;
const PRIVATE_DIRECTORY: u32 = 0o700;
/// How long another program may write a kubeconfig.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Writes a file that its owner alone reads; whoever reads it meanwhile sees the old one or the new one.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::File { path: path.to_owned(), why: error.to_string() };
    make_directory_of(path).map_err(failed)?;
    let fresh = beside(path, &format!(".{}.new", std::process::id()));
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

fn make_directory_of(path: &Path) -> std::io::Result<()> {
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let Some(directory) = path.parent().filter(is_missing) else { return Ok(()) };
    std::fs::create_dir_all(directory)?;
    std::fs::set_permissions(directory, Permissions::from_mode(PRIVATE_DIRECTORY))
}

/// `config.lock` of `config`.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
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

/// The lock of a kubeconfig, as kubectl takes it: a file beside it, which is removed at the end.
#[derive(Debug)]
struct KubeconfigLock(PathBuf);

impl KubeconfigLock {
    fn take(path: &Path, wait: Duration) -> Result<Self, Failure> {
        let lock = beside(path, ".lock");
        let failed = |why: String| Failure::File { path: lock.clone(), why };
        make_directory_of(path).map_err(|error| failed(error.to_string()))?;
        let begun = Instant::now();
        loop {
            match File::options().write(true).create_new(true).mode(PRIVATE).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(failed(error.to_string()));
                }
                Err(_) if begun.elapsed() < wait => std::thread::sleep(LOCK_PAUSE),
                Err(_) => {
                    let why = "the kubeconfig is being written by another program; if none is at it, one has left this file \
                               behind: remove it, and try again";
                    return Err(failed(why.to_owned()));
                }
            }
        }
    }
}

impl Drop for KubeconfigLock {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// What a kubeconfig says. One that is not there says nothing.
pub(crate) fn read(path: &Path) -> Result<Kubeconfig, Failure> {
    let failed = |why: String| Failure::File { path: path.to_owned(), why };
    if !path.exists() {
        return Ok(Kubeconfig::default());
    }
    // The paths in it are told as they are found from here.
    let whole = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
    Kubeconfig::read_from(whole).map_err(|error| failed(error.to_string()))
}

/// A context of a kubeconfig.
pub(crate) fn context<'a>(config: &'a Kubeconfig, name: &str) -> Option<&'a Context> {
    config.contexts.iter().find(|one| one.name == name)?.context.as_ref()
}

/// Changes a kubeconfig, which nobody else writes meanwhile. A link to it stays one.
pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Kubeconfig)) -> Result<(), Failure> {
    let failed = |why: String| Failure::File { path: path.to_owned(), why };
    let behind = path.is_symlink().then(|| path.canonicalize()).transpose();
    let behind = behind.map_err(|error| failed(format!("it is a link to what is not there: {error}")))?;
    let _lock = KubeconfigLock::take(path, LOCK_WAIT)?;
    // Somebody may write it by its own name.
    let _lock_behind = behind.as_deref().map(|path| KubeconfigLock::take(path, LOCK_WAIT)).transpose()?;
    let mut whole = read(path)?;
    change(&mut whole);
    whole.api_version.get_or_insert_with(|| "v1".to_owned());
    whole.kind.get_or_insert_with(|| "Config".to_owned());
    let text = serde_yaml_ng::to_string(&whole).map_err(|error| failed(error.to_string()))?;
    write_secret(behind.as_deref().unwrap_or(path), &text)
}

/// Adds the entries of another kubeconfig to a file, in place of those of the same names, and makes its context the current one.
pub(crate) fn merge_into(path: &Path, added: Kubeconfig) -> Result<(), Failure> {
    change(path, |whole| merge(whole, added))
}

fn merge(whole: &mut Kubeconfig, added: Kubeconfig) {
    whole.clusters.retain(|one| !added.clusters.iter().any(|other| other.name == one.name));
    whole.auth_infos.retain(|one| !added.auth_infos.iter().any(|other| other.name == one.name));
    whole.contexts.retain(|one| !added.contexts.iter().any(|other| other.name == one.name));
    whole.clusters.extend(added.clusters);
    whole.auth_infos.extend(added.auth_infos);
    whole.contexts.extend(added.contexts);
    if added.current_context.is_some() {
        whole.current_context = added.current_context;
    }
}

/// Takes a context out, and its user and cluster where no other context names them.
pub(crate) fn remove_context(whole: &mut Kubeconfig, name: &str) {
    let Some(gone) = context(whole, name).cloned() else { return };
    whole.contexts.retain(|one| one.name != name);
    let others: Vec<&Context> = whole.contexts.iter().filter_map(|one| one.context.as_ref()).collect();
    let user = gone.user.filter(|user| !others.iter().any(|other| other.user.as_ref() == Some(user)));
    let cluster = Some(gone.cluster).filter(|cluster| !others.iter().any(|other| other.cluster == *cluster));
    whole.auth_infos.retain(|one| Some(&one.name) != user.as_ref());
    whole.clusters.retain(|one| Some(&one.name) != cluster.as_ref());
    if whole.current_context.as_deref() == Some(name) {
        whole.current_context = None;
    }
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

    /// A directory of a test's own.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("business-cli-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_link_stays_one_and_what_it_leads_to_is_written() {
        let scratch = Scratch::new("link");
        let (real, link) = (scratch.0.join("real"), scratch.0.join("config"));
        merge_into(&real, config("old", &json!({"token": "t"}))).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        merge_into(&link, config("new", &json!({"token": "u"}))).unwrap();
        assert!(link.is_symlink());
        assert_eq!(read(&real).unwrap().contexts.len(), 2);
        let files = std::fs::read_dir(&scratch.0).unwrap().count();
        assert_eq!(files, 2, "no lock is left");
        std::fs::remove_file(&real).unwrap();
        let why = merge_into(&link, config("new", &json!({"token": "u"}))).unwrap_err().to_string();
        assert!(why.contains("a link to what is not there") && link.is_symlink(), "{why}");
    }

    #[test]
    fn those_who_write_at_once_lose_nothing() {
        let scratch = Scratch::new("at-once");
        let path = scratch.0.join("config");
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d", "e", "f"] {
                let path = &path;
                scope.spawn(move || merge_into(path, config(name, &json!({"token": name}))).unwrap());
            }
        });
        assert_eq!(read(&path).unwrap().contexts.len(), 6);
    }

    #[test]
    fn a_lock_that_does_not_go_is_named() {
        let scratch = Scratch::new("lock");
        let path = scratch.0.join("config");
        let held = KubeconfigLock::take(&path, Duration::ZERO).unwrap();
        assert!(scratch.0.join("config.lock").exists(), "as kubectl calls it");
        let why = KubeconfigLock::take(&path, Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("config.lock") && why.contains("remove it"), "{why}");
        drop(held);
        KubeconfigLock::take(&path, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_context_goes_with_what_it_alone_names() {
        let mut whole = config("old", &json!({"token": "t"}));
        merge(&mut whole, config("new", &json!({"token": "u"})));
        let mut also = whole.contexts.last().unwrap().clone();
        also.name = "also".to_owned();
        also.context.as_mut().unwrap().user = Some("old".to_owned());
        whole.contexts.push(also);
        remove_context(&mut whole, "new");
        let names = |config: &Kubeconfig| {
            let users: Vec<String> = config.auth_infos.iter().map(|one| one.name.clone()).collect();
            let clusters: Vec<String> = config.clusters.iter().map(|one| one.name.clone()).collect();
            (users.join(" "), clusters.join(" "), config.current_context.clone())
        };
        assert_eq!(
            names(&whole),
            ("old".to_owned(), "old new".to_owned(), None),
            "its cluster is used still"
        );
        remove_context(&mut whole, "absent");
        remove_context(&mut whole, "also");
        assert_eq!(names(&whole), ("old".to_owned(), "old".to_owned(), None));
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
