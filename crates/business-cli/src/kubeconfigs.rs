//! The kubeconfigs of a call, read and written as kubectl does it: a list of files that are one.

use crate::failure::{Failure, whole};
use crate::files;
use kube::config::{Kubeconfig, KubeconfigError};
use std::path::{Path, PathBuf};

/// The kubeconfigs that are listed and exist.
#[derive(Debug)]
pub(crate) struct Kubeconfigs {
    /// Where new entries are written to; nowhere without a home.
    own: Option<PathBuf>,
    found: Vec<(PathBuf, Kubeconfig)>,
    /// All of them as one: the first that sets a value counts.
    pub(crate) all: Kubeconfig,
}

impl Kubeconfigs {
    /// `named`: the file of `--kubeconfig`. Files that do not exist are skipped.
    pub(crate) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        let own = files::kubeconfig(named).ok();
        let (mut found, mut all) = (Vec::new(), Kubeconfig::default());
        for path in files::kubeconfigs(named) {
            let bad = |error: KubeconfigError| {
                Failure::Kubeconfig(format!("{}: {}", path.display(), whole(&error)))
            };
            let Some(config) = files::found(&path).map_err(bad)? else { continue };
            all = all.merge(config.clone()).map_err(bad)?;
            found.push((path, config));
        }
        Ok(Self { own, found, all })
    }

    /// Whether nothing says how to reach any cluster.
    pub(crate) fn say_nothing(&self) -> bool {
        self.all.contexts.is_empty() && self.all.clusters.is_empty()
    }

    /// The file that has a context, else the one that new ones are written to.
    pub(crate) fn file_of(&self, context: &str) -> Result<&Path, Failure> {
        let has = |config: &Kubeconfig| config.contexts.iter().any(|one| one.name == context);
        let found = self.found.iter().find(|(_, config)| has(config)).map(|(path, _)| path);
        found.or(self.own.as_ref()).map(PathBuf::as_path).ok_or_else(files::homeless)
    }

    /// Adds entries to one of the files, in place of those of the same names, and makes their context the current one.
    pub(crate) fn add(&self, path: &Path, added: Kubeconfig) -> Result<(), Failure> {
        let current = added.current_context.clone();
        files::merge_into(path, added)?;
        // A file before it that says another one is heard first.
        for (earlier, _) in self.found.iter().take_while(|(other, _)| other != path) {
            if files::read(earlier)?.current_context.is_some() {
                return files::change(earlier, |whole| whole.current_context = current);
            }
        }
        Ok(())
    }

    /// Takes a context out of the file that has it, and out of those that call it the current one.
    pub(crate) fn remove(&self, context: &str) -> Result<(), Failure> {
        let own = self.file_of(context)?;
        for (path, config) in &self.found {
            if path == own || config.current_context.as_deref() == Some(context) {
                files::change(path, |whole| files::remove_context(whole, context, &self.all))?;
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
        let found = paths.iter().map(|path| (path.clone(), files::read(path).unwrap()));
        let found: Vec<_> = found.collect();
        let all = found.iter().fold(Kubeconfig::default(), |all, (_, one)| all.merge(one.clone()).unwrap());
        Kubeconfigs { own: Some(paths[0].clone()), found, all }
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
