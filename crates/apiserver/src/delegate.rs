use crate::metrics::DelegationMetrics;
use http::{Request, StatusCode, header};
use runtime::{Backoff, trace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a review may take, retries included (`apiserver/pkg/server/options`).
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay before the first retry of a review.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);
/// The longest delay before a retry of a review.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);
/// How often a review is attempted.
const ATTEMPTS_MAX: u32 = 5;

/// The kube-apiserver that reviews are delegated to, and the limits for asking it.
#[derive(Clone)]
pub(crate) struct Delegate {
    pub(crate) client: kube::Client,
    /// Concurrent reviews for callers who are not authenticated.
    pub(crate) unauthenticated_reviews: usize,
    /// How long an answer is cached.
    pub(crate) ttl: Duration,
}

impl Delegate {
    /// Permits for reviews for callers who are not authenticated.
    pub(crate) fn unauthenticated_permits(&self) -> Semaphore {
        Semaphore::new(self.unauthenticated_reviews.min(Semaphore::MAX_PERMITS))
    }
}

/// Posts a review to kube-apiserver, with retries after failures that may be temporary. The error's text is for the
/// log, not for clients.
pub(crate) async fn review<B, A>(
    client: &kube::Client,
    path: &str,
    body: &B,
    metrics: &DelegationMetrics,
) -> Result<A, String>
where
    B: Serialize + Sync,
    A: DeserializeOwned,
{
    let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let outcome = match tokio::time::timeout(REVIEW_TIMEOUT, post(client, path, &body)).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => Err(DelegateFailure { code: None, text: "no answer in time".to_owned() }),
    };
    metrics.observe(outcome.as_ref().map_or_else(|failure| failure.code, |_| Some(200)), started.elapsed());
    outcome.map_err(|failure| failure.text)
}

struct DelegateFailure {
    code: Option<u16>,
    text: String,
}

async fn post<A: DeserializeOwned>(
    client: &kube::Client,
    path: &str,
    body: &[u8],
) -> Result<A, DelegateFailure> {
    let mut backoff = Backoff::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
    let mut attempts = 1;
    loop {
        let mut request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        if let Some(parent) = trace::traceparent() {
            request = request.header("traceparent", parent);
        }
        let request = request
            .body(body.to_vec())
            .map_err(|error| DelegateFailure { code: None, text: error.to_string() })?;
        let error = match client.request(request).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let code = match &error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        };
        let is_retryable = code
            .is_none_or(|code| code >= 500 || code == StatusCode::TOO_MANY_REQUESTS.as_u16())
            && !matches!(error, kube::Error::SerdeError(_));
        if !is_retryable || attempts == ATTEMPTS_MAX {
            return Err(DelegateFailure { code, text: error.to_string() });
        }
        attempts += 1;
        tracing::debug!(path, %error, "review failed, trying again");
        backoff.wait().await;
    }
}
