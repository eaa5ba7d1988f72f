//! The sources of member clusters.

use super::kubeconfig::KubeconfigSource;
use super::listing::DirectorySource;
use super::platform::PlatformSource;
use super::secrets::SecretSource;
use crate::error::Error;
use kube::Client;
use std::path::Path;

/// The source that the command line names: a kubeconfig or a directory of them, TKE's platform API, or else Secrets in
/// `members_namespace` of the host cluster, which `client` leads to.
pub async fn open_source(
    members_kubeconfig: Option<&Path>,
    platform_kubeconfig: Option<&Path>,
    members_namespace: &str,
    client: &Client,
) -> Result<Box<dyn DirectorySource>, Error> {
    Ok(match (members_kubeconfig, platform_kubeconfig) {
        (Some(path), _) => Box::new(KubeconfigSource::new(path.to_path_buf())),
        (None, Some(path)) => Box::new(PlatformSource::open(path.to_path_buf()).await?),
        (None, None) => Box::new(SecretSource::new(client.clone(), members_namespace)),
    })
}
