//! Certificates with which people enter member clusters.
//!
//! The private key is generated here. It is in the answer to the caller and nowhere else, and is not stored. The
//! controller only gets the certificate request.

/// Has the controller issue certificates, over mutual TLS.
pub mod controller;
/// Limits how often each caller asks for certificates.
pub mod rate_limit;
/// Generates a key and the request for its certificate.
pub mod key;

use business_types::issue::{IssueRequest, IssuedCertificate};
use futures_util::future::BoxFuture;
use key::KeyPem;
use meta::status::Status;
use meta::time::DAY_SECONDS;
use rate_limit::{RateLimitKey, RateLimiter};
use std::sync::Arc;
use tokio::time::Instant;

/// Issues certificates, or has them issued.
pub trait CertificateIssuer: Send + Sync + 'static {
    /// The certificate, or the answer to the caller. The message of a 422 is about the member cluster.
    fn issue(&self, request: IssueRequest) -> BoxFuture<'_, Result<IssuedCertificate, Status>>;
}

/// The validity of certificates, in days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidDays {
    /// Without a value in the request.
    pub default: u16,
    /// The most that a request may ask for.
    pub max: u16,
}

impl Default for ValidDays {
    fn default() -> Self {
        Self { default: 1, max: 365 }
    }
}

impl ValidDays {
    /// Parses the value of a request; an empty one is the default. The error says which values are allowed.
    pub fn parse(self, text: &str) -> Result<u16, String> {
        if text.is_empty() {
            return Ok(self.default);
        }
        let days = text.parse().ok().filter(|days| (1..=self.max).contains(days));
        days.ok_or_else(|| format!("must be a number of days from 1 to {}", self.max))
    }
}

/// A request for a certificate that has been authorized.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    /// The caller, for the rate limit.
    pub rate_limit_key: RateLimitKey,
    /// The user of the certificate, by the name in the member cluster.
    pub user: String,
    /// The user's groups in the member cluster.
    pub groups: Vec<String>,
    /// The member cluster.
    pub cluster: String,
    /// The project of the namespace.
    pub project: String,
    /// The name of the Namespace object.
    pub name: String,
    /// For how many days the certificate is valid.
    pub days: u16,
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct CertificateAndKey {
    /// PKCS #8, PEM.
    pub key: KeyPem,
    /// The certificate, and where it is used.
    pub issued: IssuedCertificate,
}

/// Issues certificates, within a rate limit for each caller.
#[derive(Clone)]
pub struct Certificates {
    issuer: Option<Arc<dyn CertificateIssuer>>,
    /// For how long they are valid.
    pub days: ValidDays,
    rate_limiter: Arc<RateLimiter>,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("days", &self.days).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Without an issuer every request is refused.
    pub fn new(issuer: Option<Arc<dyn CertificateIssuer>>, days: ValidDays) -> Self {
        Self { issuer, days, rate_limiter: Arc::default() }
    }

    /// Generates a key and has its certificate issued.
    pub async fn issue(&self, request: CertificateRequest) -> Result<CertificateAndKey, Status> {
        let Some(issuer) = &self.issuer else {
            let why = "no certificates are issued here: business-api runs without --issuer-url";
            return Err(Status::failure(422, "Invalid", why));
        };
        let now = Instant::now();
        self.rate_limiter.acquire(&request.rate_limit_key, now).map_err(Status::too_many_requests)?;
        let CertificateRequest { user, groups, cluster, project, name, days, .. } = request;
        let generated = key::generate(&user, &groups).map_err(|error| {
            tracing::error!(%error, "a key cannot be made");
            Status::internal("the key cannot be made")
        })?;
        let request = IssueRequest {
            cluster,
            project,
            name,
            user,
            groups,
            request: generated.request,
            expiration_seconds: i64::from(days) * DAY_SECONDS,
            issue_id: uuid::Uuid::new_v4().to_string(),
        };
        let logged = request.clone();
        let outcome = issuer.issue(request).await;
        let IssueRequest { cluster, project, name, user, groups, issue_id, .. } = &logged;
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
                days,
                "certificate issued"
            ),
            Err(status) => tracing::warn!(
                audit = true,
                issue_id,
                cluster,
                project,
                name,
                user,
                groups,
                code = status.code,
                why = status.message,
                "certificate refused"
            ),
        }
        Ok(CertificateAndKey { key: generated.key, issued: outcome? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_a_number_within_the_setting() {
        let days = ValidDays { default: 2, max: 30 };
        assert_eq!((days.parse(""), days.parse("1"), days.parse("30")), (Ok(2), Ok(1), Ok(30)));
        for wrong in ["0", "31", "-5", "abc", "1.5", "100000"] {
            assert_eq!(days.parse(wrong), Err("must be a number of days from 1 to 30".to_owned()), "{wrong}");
        }
    }
}
