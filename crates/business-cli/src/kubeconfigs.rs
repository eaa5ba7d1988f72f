//! The kubeconfigs of a call: several files that count as one, as for kubectl.

use crate::failure::{Failure, error_chain};
use crate::files;
use kube::config::{Kubeconfig, KubeconfigError};
use std::path::{Path, PathBuf};

/// The kubeconfigs that exist.
#[derive(Debug)]
pub(crate) struct Kubeconfigs {
    /// The file for new entries; `None` if $HOME is not set.
    write_target: Option<PathBuf>,
    files_read: Vec<(PathBuf, Kubeconfig)>,
    /// All of them merged: the first file that sets a value wins.
    pub(crate) all: Kubeconfig,
}

impl Kubeconfigs {
    /// `named`: the file of `--kubeconfig`. Files that do not exist are skipped.
    pub(crate) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        let write_target = files::kubeconfig_to_write(named).ok();
        let (mut files_read, mut all) = (Vec::new(), Kubeconfig::default());
        for path in files::kubeconfig_paths(named) {
            let bad = |error: KubeconfigError| {
                Failure::Kubeconfig(format!("{}: {}", path.display(), error_chain(&error)))
            };
            let Some(config) = files::read_optional(&path).map_err(bad)? else { continue };
            all = all.merge(config.clone()).map_err(bad)?;
            files_read.push((path, config));
        }
        Ok(Self { write_target, files_read, all })
    }

    /// Whether they have neither contexts nor clusters.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.contexts.is_empty() && self.all.clusters.is_empty()
    }

    /// The file that has a context, else the file for new entries.
    pub(crate) fn file_of(&self, context: &str) -> Result<&Path, Failure> {
        let has = |config: &Kubeconfig| config.contexts.iter().any(|one| one.name == context);
        let found = self.files_read.iter().find(|(_, config)| has(config)).map(|(path, _)| path);
        found.or(self.write_target.as_ref()).map(PathBuf::as_path).ok_or_else(files::home_not_set)
    }

    /// Merges entries into one of the files and makes their context the current one.
    pub(crate) fn add(&self, path: &Path, added: Kubeconfig) -> Result<(), Failure> {
        let current = added.current_context.clone();
        files::merge_into(path, added)?;
        // An earlier file that sets the current context would win.
        for (earlier, _) in self.files_read.iter().take_while(|(other, _)| other != path) {
            if files::read(earlier)?.current_context.is_some() {
                return files::change(earlier, |config| config.current_context = current);
            }
        }
        Ok(())
    }

    /// Removes a context from the file that has it, and from the files in which it is the current one.
    pub(crate) fn remove(&self, context: &str) -> Result<(), Failure> {
        let owner = self.file_of(context)?;
        for (path, config) in &self.files_read {
            if path == owner || config.current_context.as_deref() == Some(context) {
                files::change(path, |config| files::remove_context(config, context, &self.all))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A directory with files of these texts.
    fn files_of(name: &str, texts: &[&str]) -> (PathBuf, Vec<PathBuf>) {
        let scratch = std::env::temp_dir().join(format!("business-cli-listed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).unwrap();
        let paths = texts.iter().enumerate().map(|(at, text)| {
            let path = scratch.join(at.to_string());
            std::fs::write(&path, text).unwrap();
            path
        });
        let paths = paths.collect();
        (scratch, paths)
    }

    /// As `$KUBECONFIG` lists them.
    fn listed(paths: &[PathBuf]) -> Kubeconfigs {
        let files_read = paths.iter().map(|path| (path.clone(), files::read(path).unwrap()));
        let files_read: Vec<_> = files_read.collect();
        let all =
            files_read.iter().fold(Kubeconfig::default(), |all, (_, one)| all.merge(one.clone()).unwrap());
        Kubeconfigs { write_target: Some(paths[0].clone()), files_read, all }
    }

    fn config(name: &str, current: &str) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": current,
            "clusters": [{"name": name, "cluster": {"server": format!("https://{name}")}}],
            "users": [{"name": name, "user": {"token": "t"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        });
        config.to_string()
    }

    #[test]
    fn the_first_file_that_says_a_context_says_which_one_is_current() {
        let (scratch, paths) = files_of("current", &[&config("a", ""), &config("b", "b"), &config("c", "c")]);
        assert_eq!(listed(&paths).all.current_context.as_deref(), Some("b"), "what is empty says nothing");
        let added = Kubeconfig::from_yaml(&config("c", "c")).unwrap();
        let before = listed(&paths);
        before.add(before.file_of("c").unwrap(), added).unwrap();
        let after = listed(&paths);
        assert_eq!(after.all.current_context.as_deref(), Some("c"));
        assert_eq!(after.all.contexts.len(), 3);
        std::fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_context_is_taken_out_of_the_file_that_has_it() {
        let (scratch, paths) = files_of("out", &[&config("a", "b"), &config("b", "b")]);
        let before = listed(&paths);
        assert_eq!(before.file_of("b").unwrap(), paths[1]);
        assert_eq!(before.file_of("absent").unwrap(), paths[0]);
        before.remove("b").unwrap();
        let after = listed(&paths);
        assert_eq!((after.all.contexts.len(), after.all.auth_infos.len()), (1, 1));
        assert_eq!(after.all.current_context, None);
        std::fs::remove_dir_all(scratch).unwrap();
    }
}
