use crate::metrics::Delegated;
use http::{Request, StatusCode, header};
use runtime::{Backoff, trace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a review may take, retries included (`apiserver/pkg/server/options`).
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// First wait before a review is tried again.
const RETRY_FLOOR: Duration = Duration::from_millis(500);
/// Longest wait before a review is tried again.
const RETRY_CEILING: Duration = Duration::from_secs(2);
/// How often a review is tried.
const TRIES: u32 = 5;

/// The core kube-apiserver, and how much it is asked.
#[derive(Clone)]
pub(crate) struct Delegate {
    pub(crate) client: kube::Client,
    /// Reviews at once for callers who are not known.
    pub(crate) strangers: usize,
    /// How long an answer holds.
    pub(crate) ttl: Duration,
}

impl Delegate {
    /// Room for the reviews of those who are not known.
    pub(crate) fn room(&self) -> Semaphore {
        Semaphore::new(self.strangers.min(Semaphore::MAX_PERMITS))
    }
}

/// Posts a review to the core kube-apiserver, and again after a failure that may pass. The error's text is for the
/// log, not for clients.
pub(crate) async fn review<B, A>(
    client: &kube::Client,
    path: &str,
    body: &B,
    metrics: &Delegated,
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
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    let mut tries = 1;
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
        let passes = code.is_none_or(|code| code >= 500 || code == StatusCode::TOO_MANY_REQUESTS.as_u16())
            && !matches!(error, kube::Error::SerdeError(_));
        if !passes || tries == TRIES {
            return Err(DelegateFailure { code, text: error.to_string() });
        }
        tries += 1;
        tracing::debug!(path, %error, "review failed, trying again");
        backoff.wait().await;
    }
}
