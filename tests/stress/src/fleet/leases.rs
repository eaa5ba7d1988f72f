//! The holders of the controllers' leases, from a watch of kube-apiserver.

use super::sums::{ask, items, text};
use super::tenures::Takeover;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use kit::{Endpoint, Lines};
use meta::time::parse_micro;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tke-business/leases?watch=1";
const CLUSTERS: &str = "/apis/business.tkestack.io/v1/memberclusters";
/// What leases of shares are called; with the second word, those by which replicas show that they live.
const PREFIX: &str = "business-controller";
const PRESENCE: &str = "business-controller-replica-";

/// What was seen of them, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases(Arc<Mutex<LeaseHistory>>);

#[derive(Debug, Default)]
struct LeaseHistory {
    holders: BTreeMap<String, (String, i64)>,
    takeovers: Vec<Takeover>,
}

impl Leases {
    /// Whom they have come to.
    pub(crate) fn takeovers(&self) -> Vec<Takeover> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).takeovers.clone()
    }

    /// Who has which, by lease.
    pub(crate) fn holders(&self) -> BTreeMap<String, String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.holders.iter().map(|(lease, (holder, _))| (lease.clone(), holder.clone())).collect()
    }

    /// Follows them for ever; the error is that they cannot be followed.
    pub(crate) async fn follow(self, endpoint: Endpoint) -> Result<()> {
        loop {
            // A watch without a revision begins with what is there.
            let mut connection = endpoint.connect().await?;
            let response = connection.open(Method::GET, LEASES, Bytes::new()).await?;
            ensure!(response.status().is_success(), "leases: {}", response.status());
            let mut lines = Lines::of(response);
            while let Some(line) = lines.line().await? {
                self.hear(&serde_json::from_slice(&line)?);
            }
        }
    }

    fn hear(&self, event: &Value) {
        let text = |pointer: &str| text(event, pointer);
        let lease = text("/object/metadata/name");
        if !lease.starts_with(PREFIX) || lease.starts_with(PRESENCE) {
            return;
        }
        let holder = controller_of(&text("/object/spec/holderIdentity")).to_owned();
        let since = if holder.is_empty() { "/object/spec/renewTime" } else { "/object/spec/acquireTime" };
        let at = parse_micro(&text(since)).unwrap_or_default();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (holder.clone(), at);
        if seen.holders.insert(lease.clone(), now.clone()) != Some(now) {
            seen.takeovers.push(Takeover { lease, writer: holder, at });
        }
    }
}

/// The lease of each cluster, as our API says to the operator.
pub(crate) async fn by_cluster(operator: &Endpoint) -> Result<BTreeMap<String, String>> {
    let clusters = items(&ask(operator, CLUSTERS).await?)?;
    let lease = |cluster: &Value| (text(cluster, "/metadata/name"), text(cluster, "/status/lease"));
    Ok(clusters.iter().map(lease).filter(|(_, lease)| !lease.is_empty()).collect())
}

/// The controller of an identity: what the instance has put behind its name is taken away.
fn controller_of(identity: &str) -> &str {
    identity.rsplit_once('-').map_or(identity, |(name, _)| name)
}

/// The endpoint of the operator.
pub(crate) fn operator(instance: &instance::Instance) -> Result<Endpoint> {
    Endpoint::from_kubeconfig(instance.kubectl.kubeconfig()).context("the operator's kubeconfig")
}
