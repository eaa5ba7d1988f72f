//! What a source lists.

use super::credential::Credential;
use super::description::ClusterDescription;
use crate::error::Error;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

/// A source of member clusters.
pub trait DirectorySource: Debug + Send + Sync {
    /// Lists all clusters now.
    fn load(&self) -> BoxFuture<'_, Result<Listing, Error>>;
    /// How often the source is to be read.
    fn period(&self) -> Duration;
}

/// What a source lists: usable clusters, and names without a usable kubeconfig.
#[derive(Debug, Default)]
pub struct Listing {
    pub clusters: Vec<ListedCluster>,
    /// Names without a usable kubeconfig, and why.
    pub unusable: BTreeMap<String, String>,
}

impl Listing {
    /// Adds a cluster. One that cannot be used does not prevent the others.
    pub(super) fn add(&mut self, name: &str, listed: Result<ListedCluster, Error>) {
        match listed {
            Ok(listed) => self.clusters.push(listed),
            Err(error) => drop(self.unusable.insert(name.to_owned(), error.text())),
        }
    }
}

/// A member cluster as a source lists it.
#[derive(Clone, Debug)]
pub struct ListedCluster {
    /// Its name, as in `spec.clusterName`.
    pub name: String,
    /// How to reach it.
    pub config: kube::Config,
    /// Changes when the kubeconfig or a file that it names changes.
    pub fingerprint: String,
    /// Its Kubernetes version, where the source says it.
    pub version: String,
    /// Its description: display name, type and tenants.
    pub entry: ClusterDescription,
    /// When the token of the tunnel's agents expires, in seconds since 1970; `None` if the cluster is reached without
    /// them.
    pub agents_end: Option<i64>,
}

impl ListedCluster {
    /// The credential in its kubeconfig, if it can be recognized. It is valid no longer than the agents' token.
    pub(super) fn credential(&self) -> Option<Credential> {
        Credential::of(&self.config).map(|credential| credential.at_most(self.agents_end))
    }
}
