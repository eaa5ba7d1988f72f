//! The queue of requests for certificates, and the worker that handles them. A request that was begun is finished
//! although its caller has left, so that nothing stays in the cluster.

use super::clusters::ClusterLookup;
use super::{IssueRefusal, sign, subject};
use crate::metrics::StateLabels;
use business_types::ClusterEndpoint;
use business_types::issue::{IssueRequest, IssuedCertificate};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use runtime::Metrics;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Requests that are handled at a time. Most of the time they wait for their clusters.
const RUNNING_MAX: usize = 64;
/// Requests that wait in the queue.
const WAITING_MAX: usize = 32;
/// Requests of one cluster, waiting or running. A cluster that does not answer takes no room from others.
const PER_CLUSTER_MAX: usize = 4;

type Answer = Result<IssuedCertificate, IssueRefusal>;

/// A request, and the channel for its answer.
#[derive(Debug)]
struct Job {
    request: IssueRequest,
    answer: oneshot::Sender<Answer>,
    permit: ClusterPermit,
}

/// The number of requests of each cluster. A cluster without requests has no entry.
#[derive(Clone, Debug, Default)]
struct ClusterLimits(Arc<Mutex<HashMap<String, usize>>>);

/// A permit for one request of a cluster, until it is dropped.
#[derive(Debug)]
struct ClusterPermit {
    limits: ClusterLimits,
    cluster: String,
}

/// Takes requests. Its clones share the queue.
#[derive(Clone, Debug)]
pub struct IssueQueue {
    jobs: mpsc::Sender<Job>,
    limits: ClusterLimits,
}

/// Handles the requests of the queue.
#[derive(Debug)]
pub struct IssueWorker {
    jobs: mpsc::Receiver<Job>,
    lookup: ClusterLookup,
    issued: Family<StateLabels, Counter>,
}

/// Creates a queue and its worker.
pub fn new_queue(lookup: ClusterLookup, metrics: &Metrics) -> (IssueQueue, IssueWorker) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (
        IssueQueue { jobs: sender, limits: ClusterLimits::default() },
        IssueWorker { jobs: receiver, lookup, issued: register(metrics) },
    )
}

/// Registers the counter of requests.
pub fn register(metrics: &Metrics) -> Family<StateLabels, Counter> {
    metrics.register(
        "business_controller_certificates",
        "Requests for certificates of people, by what became of them",
        Family::default(),
    )
}

impl ClusterLimits {
    /// A permit for one more request of a cluster, unless it has too many.
    fn acquire(&self, cluster: &str) -> Option<ClusterPermit> {
        let mut counts = self.lock();
        let count = counts.entry(cluster.to_owned()).or_default();
        if *count >= PER_CLUSTER_MAX {
            return None;
        }
        *count += 1;
        Some(ClusterPermit { limits: self.clone(), cluster: cluster.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClusterPermit {
    fn drop(&mut self) {
        let mut counts = self.limits.lock();
        if let Some(count) = counts.get_mut(&self.cluster) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.cluster);
            }
        }
    }
}

impl IssueQueue {
    /// Issues a certificate.
    pub async fn issue(&self, request: IssueRequest) -> Answer {
        let busy = || IssueRefusal::Unavailable("too many certificates are being issued".to_owned());
        let Some(permit) = self.limits.acquire(&request.cluster) else {
            let cluster = &request.cluster;
            return Err(IssueRefusal::Unavailable(format!(
                "cluster {cluster}: too many certificates are being issued there"
            )));
        };
        let (answer, waiting) = oneshot::channel();
        self.jobs.try_send(Job { request, answer, permit }).map_err(|_full_or_ended| busy())?;
        waiting.await.unwrap_or_else(|_ended| Err(busy()))
    }
}

impl IssueWorker {
    /// Handles requests until the token is cancelled, and finishes what it has begun.
    pub async fn run(mut self, end: CancellationToken) {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                Some(ended) = running.join_next() => {
                    if !is_clean_exit(&ended) {
                        return;
                    }
                }
                job = self.jobs.recv(), if running.len() < RUNNING_MAX => {
                    let Some(job) = job else { break };
                    running.spawn(work(self.lookup.clone(), self.issued.clone(), job));
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            if !is_clean_exit(&ended) {
                return;
            }
        }
    }
}

fn is_clean_exit(ended: &Result<(), tokio::task::JoinError>) -> bool {
    if let Err(error) = ended {
        tracing::error!(%error, "issuing a certificate has broken down");
    }
    ended.is_ok()
}

async fn work(lookup: ClusterLookup, counts: Family<StateLabels, Counter>, job: Job) {
    let Job { request, answer, permit } = job;
    let outcome = issue(&lookup, &request).await;
    let state = outcome.as_ref().map_or_else(IssueRefusal::category, |_| "issued");
    counts.get_or_create(&StateLabels { state }).inc();
    let IssueRequest { cluster, project, name, user, groups, expiration_seconds, issue_id, .. } = &request;
    let groups = groups.join(",");
    match &outcome {
        Ok(_) => tracing::info!(
            audit = true,
            issue_id,
            cluster,
            project,
            name,
            user,
            groups,
            expiration_seconds,
            "certificate issued"
        ),
        Err(refusal) => tracing::warn!(
            audit = true, issue_id, cluster, project, name, user, groups, %refusal, "certificate refused"
        ),
    }
    // The caller may send another request as soon as it has the answer.
    drop(permit);
    // The caller may have left.
    drop(answer.send(outcome));
}

async fn issue(lookup: &ClusterLookup, request: &IssueRequest) -> Answer {
    subject::check(request)?;
    let cluster = lookup.find(&request.cluster).await?;
    let ClusterEndpoint { server, ca_bundle } = cluster.endpoint.clone();
    let id = uuid::Uuid::new_v4().simple().to_string();
    let certificate = sign::sign(cluster, request, &id).await?;
    Ok(IssuedCertificate { certificate, server, ca_bundle })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::Dialer;
    use crate::fixtures::server::Server;
    use crate::issuer::clusters::IssuerSource;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn a_cluster_that_hangs_keeps_no_certificate_of_another_waiting() {
        let server = Server::default();
        let source = IssuerSource::Secrets(Box::new(kube::Api::namespaced(server.client(), "tke-business")));
        let (queue, worker) =
            new_queue(ClusterLookup::new(source, server.client(), Dialer::default()), &Metrics::new());
        let ask = |cluster: &str| {
            queue.issue(IssueRequest { cluster: cluster.to_owned(), ..IssueRequest::default() })
        };
        for _ in 0..PER_CLUSTER_MAX {
            assert!(ask("c1").now_or_never().is_none(), "it waits, and whoever asked leaves");
        }
        for _ in 0..WAITING_MAX {
            let refused = ask("c1").now_or_never();
            assert!(
                matches!(&refused, Some(Err(IssueRefusal::Unavailable(why))) if why.contains("cluster c1")),
                "{refused:?}"
            );
        }
        assert!(ask("c2").now_or_never().is_none(), "others have their places");

        let end = CancellationToken::new();
        let working = tokio::spawn(worker.run(end.clone()));
        for cluster in ["c2", "c1"] {
            assert!(matches!(ask(cluster).await, Err(IssueRefusal::Invalid(_))), "those before have ended");
        }
        assert!(queue.limits.lock().is_empty());
        end.cancel();
        working.await.unwrap();
    }
}
