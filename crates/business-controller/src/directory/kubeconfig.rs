//! A kubeconfig file whose contexts are the clusters, or a directory of `NAME.kubeconfig` files.

use super::description::ClusterDescription;
use super::listing::{DirectorySource, ListedCluster, Listing};
use crate::error::Error;
use futures_util::future::{BoxFuture, FutureExt as _};
use kube::config::Kubeconfig;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the file is read.
const PERIOD: Duration = Duration::from_secs(2);
/// The extension of the files in a directory.
const EXTENSION: &str = "kubeconfig";

/// Clusters in a kubeconfig.
#[derive(Clone, Debug)]
pub struct KubeconfigSource {
    path: PathBuf,
}

impl KubeconfigSource {
    /// Reads this file or directory.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    async fn read(&self) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        if !self.path.is_dir() {
            let file = Kubeconfig::read_from(&self.path)?;
            let contexts: Vec<String> = file.contexts.iter().map(|context| context.name.clone()).collect();
            for name in contexts {
                let listed =
                    from_kubeconfig(&name, file.clone(), Some(name.clone()), ClusterDescription::imported())
                        .await;
                listing.add(&name, listed);
            }
            return Ok(listing);
        }
        for path in kubeconfigs_in(&self.path)? {
            let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            let listed = match Kubeconfig::read_from(&path) {
                Ok(file) => from_kubeconfig(name, file, None, ClusterDescription::imported()).await,
                Err(error) => Err(error.into()),
            };
            listing.add(name, listed);
        }
        Ok(listing)
    }
}

impl DirectorySource for KubeconfigSource {
    fn load(&self) -> BoxFuture<'_, Result<Listing, Error>> {
        self.read().boxed()
    }

    fn period(&self) -> Duration {
        PERIOD
    }
}

fn kubeconfigs_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: directory.display().to_string(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// A cluster with a kubeconfig that does not come from the command line: it may neither run programs in this process
/// nor read its files.
pub async fn from_untrusted_kubeconfig(
    name: &str,
    file: Kubeconfig,
    entry: ClusterDescription,
) -> Result<ListedCluster, Error> {
    match local_access_field(&file) {
        Some(field) => Err(Error::Config(format!(
            "{field} is refused: only a kubeconfig given on the command line may run programs or name files; put the \
             credentials themselves into it (token, client-certificate-data, client-key-data, \
             certificate-authority-data)"
        ))),
        None => from_kubeconfig(name, file, None, entry).await,
    }
}

/// The first field that would run a program or read a file in this process.
fn local_access_field(file: &Kubeconfig) -> Option<String> {
    for (index, named) in file.auth_infos.iter().enumerate() {
        let Some(user) = &named.auth_info else { continue };
        let fields = [
            ("exec", user.exec.is_some()),
            ("auth-provider", user.auth_provider.is_some()),
            ("tokenFile", user.token_file.is_some()),
            ("client-certificate", user.client_certificate.is_some()),
            ("client-key", user.client_key.is_some()),
        ];
        if let Some((field, _)) = fields.iter().find(|(_, is_set)| *is_set) {
            return Some(format!("users[{index}].user.{field}"));
        }
    }
    let reads = |cluster: &kube::config::Cluster| cluster.certificate_authority.is_some();
    let index = file.clusters.iter().position(|named| named.cluster.as_ref().is_some_and(reads))?;
    Some(format!("clusters[{index}].cluster.certificate-authority"))
}

/// A cluster of this name, with a context of a kubeconfig; the current context if none is given.
pub async fn from_kubeconfig(
    name: &str,
    file: Kubeconfig,
    context: Option<String>,
    mut entry: ClusterDescription,
) -> Result<ListedCluster, Error> {
    let fingerprint = fingerprint(&file, context.as_deref());
    let mut config = kubeconfig::config(&file, context.as_deref()).await?;
    // A new CA file is tried beside the one in use, as all new credentials are.
    config.root_cert_file = None;
    if entry.display_name.is_empty() {
        name.clone_into(&mut entry.display_name);
    }
    let name = name.to_owned();
    Ok(ListedCluster { name, config, fingerprint, version: String::new(), entry, agents_end: None })
}

/// A hash that changes with the context's cluster, its user, or a certificate or key in a file that they name.
pub fn fingerprint(file: &Kubeconfig, context: Option<&str>) -> String {
    let name = context.or(file.current_context.as_deref()).unwrap_or_default();
    let context = file.contexts.iter().find(|c| c.name == name).and_then(|named| named.context.as_ref());
    let cluster = context.and_then(|c| file.clusters.iter().find(|one| one.name == c.cluster));
    let user = context
        .and_then(|c| c.user.as_ref())
        .and_then(|user| file.auth_infos.iter().find(|one| one.name == *user));
    let mut hasher = DefaultHasher::new();
    for text in [serde_json::to_string(&cluster), serde_json::to_string(&user)] {
        text.unwrap_or_default().hash(&mut hasher);
    }
    let info = user.and_then(|user| user.auth_info.as_ref());
    let files = [
        cluster.and_then(|named| named.cluster.as_ref()).and_then(|one| one.certificate_authority.clone()),
        info.and_then(|info| info.client_certificate.clone()),
        info.and_then(|info| info.client_key.clone()),
    ];
    for path in files.into_iter().flatten() {
        std::fs::read(path).unwrap_or_default().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: v1
kind: Config
clusters:
- name: a
  cluster: {server: 'https://a:6443'}
- name: b
  cluster: {server: 'https://b:6443'}
users:
- name: u
  user: {token: one}
contexts:
- name: east
  context: {cluster: a, user: u}
- name: west
  context: {cluster: b, user: u}
current-context: east
";

    #[tokio::test]
    async fn what_comes_from_elsewhere_runs_nothing_here_and_reads_nothing() {
        let user = |text: &str| FILE.replace("{token: one}", text);
        let cases = [
            (
                user("{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh}}"),
                "users[0].user.exec",
            ),
            (user("{auth-provider: {name: oidc, config: {}}}"), "users[0].user.auth-provider"),
            (user("{tokenFile: /etc/shadow}"), "users[0].user.tokenFile"),
            (user("{client-certificate: /a.crt}"), "users[0].user.client-certificate"),
            (user("{client-key: /a.key}"), "users[0].user.client-key"),
            (
                FILE.replace(
                    "{server: 'https://b:6443'}",
                    "{server: 'https://b:6443', certificate-authority: /ca}",
                ),
                "clusters[1].cluster.certificate-authority",
            ),
        ];
        for (text, field) in cases {
            let file = Kubeconfig::from_yaml(&text).unwrap();
            let refused = from_untrusted_kubeconfig("c", file.clone(), ClusterDescription::imported())
                .await
                .unwrap_err();
            assert!(refused.text().contains(&format!("{field} is refused")), "{}", refused.text());
            let by_operator = from_kubeconfig("c", file, None, ClusterDescription::imported()).await;
            assert!(by_operator.is_ok() || field.contains("client") || field.contains("cert"), "{field}");
        }
        let file = Kubeconfig::from_yaml(FILE).unwrap();
        assert!(from_untrusted_kubeconfig("c", file, ClusterDescription::imported()).await.is_ok());
    }

    #[tokio::test]
    async fn every_context_is_a_cluster_and_tells_of_its_own_changes_only() {
        let file = Kubeconfig::from_yaml(FILE).unwrap();
        let moved = Kubeconfig::from_yaml(&FILE.replace("https://b:6443", "https://b:7443")).unwrap();
        for (name, same) in [("east", true), ("west", false)] {
            let before =
                from_kubeconfig(name, file.clone(), Some(name.to_owned()), ClusterDescription::imported())
                    .await
                    .unwrap();
            let after =
                from_kubeconfig(name, moved.clone(), Some(name.to_owned()), ClusterDescription::imported())
                    .await
                    .unwrap();
            assert_eq!(before.fingerprint == after.fingerprint, same, "{name}");
            assert_eq!(before.entry.display_name, name);
        }
        assert_eq!(fingerprint(&file, None), fingerprint(&file, Some("east")));
    }
}
