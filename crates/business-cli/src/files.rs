//! Writing files that hold secrets, and changing kubeconfigs.

use crate::failure::Failure;
use kube::config::{Context, Kubeconfig, KubeconfigError};
use std::fs::{File, Metadata, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Readable by the owner only.
const PRIVATE: u32 = 0o600;
const PRIVATE_DIRECTORY: u32 = 0o700;
/// The bits of a file's mode that are its permissions.
const MODE_BITS: u32 = 0o777;
const BYTE_ORDER_MARK: char = '\u{feff}';
/// How long to wait for another program that writes the kubeconfig.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Writes a file atomically, readable by its owner only.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    write(path, text, None)
}

/// `before`: metadata of the present file, if owner and mode are to be kept.
fn write(path: &Path, text: &str, before: Option<&Metadata>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::File { path: path.to_owned(), why: error.to_string() };
    make_directory_of(path).map_err(failed)?;
    let fresh = with_suffix(path, &format!(".{}.new", std::process::id()));
    let renamed =
        File::options().write(true).create_new(true).mode(PRIVATE).open(&fresh).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            if let Some(before) = before {
                copy_owner_and_mode(&file, before)?;
            }
            file.sync_all()?;
            std::fs::rename(&fresh, path)
        });
    if renamed.is_err() {
        let _not_made = std::fs::remove_file(&fresh);
    }
    let written = match renamed {
        // A file that is mounted into a container by itself cannot be replaced.
        Err(error) if error.kind() == ErrorKind::ResourceBusy => overwrite(path, text, before.is_none()),
        other => other,
    };
    written.map_err(failed)
}

/// Keeps owner, group and mode. If the owner cannot be kept, only the new owner can read the file.
fn copy_owner_and_mode(file: &File, before: &Metadata) -> std::io::Result<()> {
    let own = file.metadata()?;
    let has_same_owner = (own.uid(), own.gid()) == (before.uid(), before.gid())
        || std::os::unix::fs::fchown(file, Some(before.uid()), Some(before.gid())).is_ok();
    let mode = if has_same_owner { before.mode() & MODE_BITS } else { PRIVATE };
    file.set_permissions(Permissions::from_mode(mode))
}

fn overwrite(path: &Path, text: &str, is_private: bool) -> std::io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    if is_private {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Creates the parent directory of a file.
pub(crate) fn make_directory_of(path: &Path) -> std::io::Result<()> {
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let Some(directory) = path.parent().filter(is_missing) else { return Ok(()) };
    std::fs::create_dir_all(directory)?;
    std::fs::set_permissions(directory, Permissions::from_mode(PRIVATE_DIRECTORY))
}

/// `config.lock` of `config`.
fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The home directory.
pub(crate) fn home() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(PathBuf::from).ok_or_else(home_not_set)
}

pub(crate) fn home_not_set() -> Failure {
    Failure::Other("$HOME is not set".to_owned())
}

/// The paths of the kubeconfigs: the one that is named, else those of $KUBECONFIG, else ~/.kube/config.
pub(crate) fn kubeconfig_paths(named: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = named {
        return vec![path.to_owned()];
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> =
        std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if listed.is_empty() {
        home().map(|home| home.join(".kube/config")).into_iter().collect()
    } else {
        listed
    }
}

/// The kubeconfig that new entries are written to, as kubectl chooses it: the first that exists, else the last.
pub(crate) fn kubeconfig_to_write(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let listed = kubeconfig_paths(named);
    let chosen = listed.iter().find(|path| path.exists()).or_else(|| listed.last());
    chosen.cloned().ok_or_else(home_not_set)
}

/// kubectl's lock of a kubeconfig: a file beside it, removed when this value is dropped.
#[derive(Debug)]
struct KubeconfigLock(PathBuf);

impl KubeconfigLock {
    fn take(path: &Path, wait: Duration) -> Result<Self, Failure> {
        let lock = with_suffix(path, ".lock");
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

/// Reads a kubeconfig if it exists. Relative paths in it become absolute.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_no_directory| path.to_owned());
    match Kubeconfig::read_from(absolute) {
        Ok(mut config) => {
            // An empty value is not set, as for kubectl.
            config.current_context = config.current_context.filter(|current| !current.is_empty());
            Ok(Some(config))
        }
        Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a kubeconfig; empty if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Kubeconfig, Failure> {
    let failed = |error: KubeconfigError| Failure::File { path: path.to_owned(), why: error.to_string() };
    Ok(read_optional(path).map_err(failed)?.unwrap_or_default())
}

/// Reads a kubeconfig without changing the paths in it; empty if it does not exist.
fn read_verbatim(path: &Path) -> Result<Kubeconfig, Failure> {
    let failed = |why: String| Failure::File { path: path.to_owned(), why };
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let text = text.trim_start_matches(BYTE_ORDER_MARK);
            Kubeconfig::from_yaml(text).map_err(|error| failed(error.to_string()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Kubeconfig::default()),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// A context of a kubeconfig.
pub(crate) fn context<'a>(config: &'a Kubeconfig, name: &str) -> Option<&'a Context> {
    config.contexts.iter().find(|one| one.name == name)?.context.as_ref()
}

/// A kubeconfig that is locked against other writers.
#[derive(Debug)]
struct LockedKubeconfig {
    /// The file itself; the target if the path is a symbolic link.
    real: PathBuf,
    _locks: [Option<KubeconfigLock>; 2],
}

impl LockedKubeconfig {
    fn take(path: &Path) -> Result<Self, Failure> {
        let failed = |why: String| Failure::File { path: path.to_owned(), why };
        let behind = path.is_symlink().then(|| path.canonicalize()).transpose();
        let behind = behind.map_err(|error| failed(format!("it is a link to what is not there: {error}")))?;
        let lock = KubeconfigLock::take(path, LOCK_WAIT)?;
        // Another program may write the target by its own path.
        let lock_behind = behind.as_deref().map(|path| KubeconfigLock::take(path, LOCK_WAIT)).transpose()?;
        Ok(Self { real: behind.unwrap_or_else(|| path.to_owned()), _locks: [Some(lock), lock_behind] })
    }
}

/// Fails if the lock of a kubeconfig cannot be taken.
pub(crate) fn can_be_changed(path: &Path) -> Result<(), Failure> {
    LockedKubeconfig::take(path).map(drop)
}

/// Changes a kubeconfig under its lock. A symbolic link stays one.
pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Kubeconfig)) -> Result<(), Failure> {
    let failed = |why: String| Failure::File { path: path.to_owned(), why };
    let locked = LockedKubeconfig::take(path)?;
    let before = std::fs::metadata(&locked.real).ok();
    let mut config = read_verbatim(&locked.real)?;
    change(&mut config);
    config.api_version.get_or_insert_with(|| "v1".to_owned());
    config.kind.get_or_insert_with(|| "Config".to_owned());
    let text = meta::yaml::to_string(&config).map_err(|error| failed(error.to_string()))?;
    write(&locked.real, &text, before.as_ref())
}

/// Merges a kubeconfig into a file: its entries replace those of the same names, and its context becomes current.
pub(crate) fn merge_into(path: &Path, added: Kubeconfig) -> Result<(), Failure> {
    change(path, |config| merge(config, added))
}

fn merge(config: &mut Kubeconfig, added: Kubeconfig) {
    config.clusters.retain(|one| !added.clusters.iter().any(|other| other.name == one.name));
    config.auth_infos.retain(|one| !added.auth_infos.iter().any(|other| other.name == one.name));
    config.contexts.retain(|one| !added.contexts.iter().any(|other| other.name == one.name));
    config.clusters.extend(added.clusters);
    config.auth_infos.extend(added.auth_infos);
    config.contexts.extend(added.contexts);
    if added.current_context.is_some() {
        config.current_context = added.current_context;
    }
}

/// Removes a context, and its user and cluster unless another context names them, in this kubeconfig or in `all` merged
/// ones.
pub(crate) fn remove_context(config: &mut Kubeconfig, name: &str, all: &Kubeconfig) {
    if config.current_context.as_deref() == Some(name) {
        config.current_context = None;
    }
    let Some(gone) = context(config, name).cloned() else { return };
    config.contexts.retain(|one| one.name != name);
    let others = config.contexts.iter().chain(all.contexts.iter().filter(|one| one.name != name));
    let others: Vec<&Context> = others.filter_map(|one| one.context.as_ref()).collect();
    let user = gone.user.filter(|user| !others.iter().any(|other| other.user.as_ref() == Some(user)));
    let cluster = Some(gone.cluster).filter(|cluster| !others.iter().any(|other| other.cluster == *cluster));
    config.auth_infos.retain(|one| Some(&one.name) != user.as_ref());
    config.clusters.retain(|one| Some(&one.name) != cluster.as_ref());
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

    /// A temporary directory.
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
        let mut merged = config("old", &json!({"token": "t"}));
        merge(&mut merged, config("new", &json!({"token": "u"})));
        let mut also = merged.contexts.last().unwrap().clone();
        also.name = "also".to_owned();
        also.context.as_mut().unwrap().user = Some("old".to_owned());
        merged.contexts.push(also);
        let remove = |merged: &mut Kubeconfig, name: &str| {
            let all = merged.clone();
            remove_context(merged, name, &all);
        };
        remove(&mut merged, "new");
        let names = |config: &Kubeconfig| {
            let users: Vec<String> = config.auth_infos.iter().map(|one| one.name.clone()).collect();
            let clusters: Vec<String> = config.clusters.iter().map(|one| one.name.clone()).collect();
            (users.join(" "), clusters.join(" "), config.current_context.clone())
        };
        assert_eq!(
            names(&merged),
            ("old".to_owned(), "old new".to_owned(), None),
            "its cluster is used still"
        );
        remove(&mut merged, "absent");
        remove(&mut merged, "also");
        assert_eq!(names(&merged), ("old".to_owned(), "old".to_owned(), None));
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
    #[test]
    fn what_another_file_names_stays() {
        let mut merged = config("old", &json!({"token": "t"}));
        let mut other = config("other", &json!({"token": "u"}));
        other.contexts[0].context.as_mut().unwrap().user = Some("old".to_owned());
        let all = merged.clone().merge(other).unwrap();
        remove_context(&mut merged, "old", &all);
        assert_eq!(merged.contexts.len() + merged.clusters.len(), 0);
        assert_eq!(merged.auth_infos[0].name, "old");
    }

    #[test]
    fn a_kubeconfig_is_written_as_it_stands_and_stays_whose_it_is() {
        let scratch = Scratch::new("as-it-stands");
        let path = scratch.0.join("config");
        let text = "\u{feff}current-context: ''\nusers:\n- name: a\n  user: {client-key: keys/a.pem, tokenFile: ../t}\n\
                    clusters:\n- name: c\n  cluster: {server: https://c, certificate-authority: ca.crt}\n";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        merge_into(&path, config("new", &json!({"token": "t"}))).unwrap();
        let written: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let paths = [
            &written["users"][0]["user"]["client-key"],
            &written["users"][0]["user"]["tokenFile"],
            &written["clusters"][0]["cluster"]["certificate-authority"],
        ];
        assert_eq!(paths, ["keys/a.pem", "../t", "ca.crt"], "none is made absolute");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & MODE_BITS, 0o640);
        write_secret(&path, "secret").unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().mode() & MODE_BITS,
            PRIVATE,
            "a file of its own is private"
        );
    }

    #[test]
    fn what_kubectl_would_read_as_no_text_is_quoted() {
        let scratch = Scratch::new("quoted");
        let path = scratch.0.join("config");
        let text = "contexts:\n- name: a\n  context: {cluster: c, user: a, namespace: 'no'}\n\
                    users:\n- name: a\n  user:\n    exec: {command: x, env: [{name: 'Y', value: 'yes'}]}\n";
        std::fs::write(&path, text).unwrap();
        merge_into(&path, config("on", &json!({"token": "1_000"}))).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        for quoted in ["namespace: \"no\"", ": \"yes\"", ": \"Y\"", "name: \"on\"", "token: \"1_000\""] {
            assert!(written.contains(quoted), "{quoted}: {written}");
        }
        assert!(written.contains("current-context: \"on\"\n"), "it stays YAML: {written}");
    }

    #[test]
    fn what_cannot_be_replaced_is_overwritten() {
        let scratch = Scratch::new("busy");
        let path = scratch.0.join("config");
        std::fs::write(&path, "a text that is longer than the next one").unwrap();
        let before = std::fs::metadata(&path).unwrap().ino();
        overwrite(&path, "short", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), before);
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_changed_is_told_of_before() {
        let scratch = Scratch::new("before");
        let path = scratch.0.join("config");
        can_be_changed(&path).unwrap();
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0, "nothing is left");
        std::os::unix::fs::symlink("absent", &path).unwrap();
        assert!(can_be_changed(&path).unwrap_err().to_string().contains("a link to what is not there"));
    }
}
