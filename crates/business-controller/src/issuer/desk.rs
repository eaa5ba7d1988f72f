//! Requests in turn. What was begun goes on to its end although whoever asked has left: a request in a cluster is always
//! taken away again.

use super::places::{ClusterEndpoint, IssuingCluster, Places};
use super::{IssueRefusal, sign, subject};
use crate::outcome::StateLabels;
use business_types::issue::{IssueRequest, Issued};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use runtime::Metrics;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Requests at work at a time.
const RUNNING_MAX: usize = 16;
/// Requests that wait for a place.
const WAITING_MAX: usize = 32;

type Answer = Result<Issued, IssueRefusal>;

/// A request and who waits for its answer.
#[derive(Debug)]
struct Job {
    request: IssueRequest,
    answer: oneshot::Sender<Answer>,
}

/// Takes requests. Its clones are the same one.
#[derive(Clone, Debug)]
pub struct Desk {
    jobs: mpsc::Sender<Job>,
}

/// Works them off.
#[derive(Debug)]
pub struct Clerk {
    jobs: mpsc::Receiver<Job>,
    places: Places,
    issued: Family<StateLabels, Counter>,
}

/// Both ends.
pub fn open(places: Places, metrics: &Metrics) -> (Desk, Clerk) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Desk { jobs: sender }, Clerk { jobs: receiver, places, issued: register(metrics) })
}

/// What is counted here.
pub fn register(metrics: &Metrics) -> Family<StateLabels, Counter> {
    metrics.register(
        "business_controller_certificates",
        "Requests for certificates of people, by what became of them",
        Family::default(),
    )
}

impl Desk {
    /// A certificate, or why there is none.
    pub async fn issue(&self, request: IssueRequest) -> Answer {
        let busy = || IssueRefusal::Unavailable("too many certificates are being issued".to_owned());
        let (answer, waiting) = oneshot::channel();
        self.jobs.try_send(Job { request, answer }).map_err(|_full_or_ended| busy())?;
        waiting.await.unwrap_or_else(|_ended| Err(busy()))
    }
}

impl Clerk {
    /// Works until it is told to end, and then ends what it has begun.
    pub async fn run(mut self, end: CancellationToken) {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                Some(ended) = running.join_next() => {
                    if !is_sound(&ended) {
                        return;
                    }
                }
                job = self.jobs.recv(), if running.len() < RUNNING_MAX => {
                    let Some(job) = job else { break };
                    running.spawn(work(self.places.clone(), self.issued.clone(), job));
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            if !is_sound(&ended) {
                return;
            }
        }
    }
}

fn is_sound(ended: &Result<(), tokio::task::JoinError>) -> bool {
    if let Err(error) = ended {
        tracing::error!(%error, "issuing a certificate has broken down");
    }
    ended.is_ok()
}

async fn work(places: Places, counts: Family<StateLabels, Counter>, job: Job) {
    let Job { request, answer } = job;
    let outcome = issue(&places, &request).await;
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
    // Whoever asked may have left.
    drop(answer.send(outcome));
}

async fn issue(places: &Places, request: &IssueRequest) -> Answer {
    subject::check(request)?;
    let place = places.find(&request.cluster).await?;
    let ClusterEndpoint { server, ca_bundle } = place.endpoint.clone();
    let id = uuid::Uuid::new_v4().simple().to_string();
    let certificate = sign::sign(IssuingCluster { ..place }, request, &id).await?;
    Ok(Issued { certificate, server, ca_bundle })
}
