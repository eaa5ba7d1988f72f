//! Certificates with which people enter member clusters.
//!
//! The key is made here and goes out with the answer, and nowhere else; the controller is sent the request for its
//! certificate. Nothing is kept.

/// The controller, asked over mutual TLS.
pub mod controller;
/// How often somebody may ask.
pub mod allowance;
/// A key, and the request for its certificate.
pub mod key;

use allowance::{Allowance, AllowanceHolder};
use business_types::issue::{IssueRequest, Issued};
use futures_util::future::BoxFuture;
use key::KeyPem;
use meta::status::Status;
use meta::time::DAY_SECONDS;
use std::sync::Arc;
use tokio::time::Instant;

/// Has certificates issued.
pub trait CertificateIssuer: Send + Sync + 'static {
    /// The certificate, or the answer to its caller. The text of a 422 is about the cluster.
    fn issue(&self, request: IssueRequest) -> BoxFuture<'_, Result<Issued, Status>>;
}

/// For how many days a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidDays {
    /// Unless the request says it.
    pub default: u16,
    /// At the most.
    pub max: u16,
}

impl Default for ValidDays {
    fn default() -> Self {
        Self { default: 1, max: 365 }
    }
}

impl ValidDays {
    /// The days that a query asks for; the error says what it may ask for.
    pub fn of(self, text: &str) -> Result<u16, String> {
        if text.is_empty() {
            return Ok(self.default);
        }
        let days = text.parse().ok().filter(|days| (1..=self.max).contains(days));
        days.ok_or_else(|| format!("must be a number of days from 1 to {}", self.max))
    }
}

/// A wish for a certificate, which its caller may have.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Who asks: his allowance is counted.
    pub holder: AllowanceHolder,
    /// Its user, by the name that the member cluster knows.
    pub user: String,
    /// The groups that the user is in there.
    pub groups: Vec<String>,
    /// The member cluster.
    pub cluster: String,
    /// The project of the namespace.
    pub project: String,
    /// The namespace, as it is named here.
    pub name: String,
    /// How long it is to be valid.
    pub days: u16,
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Credential {
    /// PKCS #8, PEM.
    pub key: KeyPem,
    /// The rest.
    pub issued: Issued,
}

/// Issues certificates, within what each caller may ask for.
#[derive(Clone)]
pub struct Certificates {
    issuer: Option<Arc<dyn CertificateIssuer>>,
    /// For how long they are valid.
    pub days: ValidDays,
    allowance: Arc<Allowance>,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("days", &self.days).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Without an issuer every wish is refused.
    pub fn new(issuer: Option<Arc<dyn CertificateIssuer>>, days: ValidDays) -> Self {
        Self { issuer, days, allowance: Arc::default() }
    }

    /// Makes a key and has its certificate issued.
    pub async fn issue(&self, wish: Wish) -> Result<Credential, Status> {
        let Some(issuer) = &self.issuer else {
            let why = "no certificates are issued here: business-api runs without --issuer-url";
            return Err(Status::failure(422, "Invalid", why));
        };
        self.allowance.take(&wish.holder, Instant::now()).map_err(Status::too_many_requests)?;
        let Wish { user, groups, cluster, project, name, days, .. } = wish;
        let made = key::make(&user, &groups).map_err(|error| {
            tracing::error!(%error, "a key cannot be made");
            Status::internal("the key cannot be made")
        })?;
        let request = IssueRequest {
            cluster,
            project,
            name,
            user,
            groups,
            request: made.request,
            expiration_seconds: i64::from(days) * DAY_SECONDS,
            issue_id: uuid::Uuid::new_v4().to_string(),
        };
        let told = request.clone();
        let outcome = issuer.issue(request).await;
        let IssueRequest { cluster, project, name, user, groups, issue_id, .. } = &told;
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
        Ok(Credential { key: made.key, issued: outcome? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_a_number_within_the_setting() {
        let days = ValidDays { default: 2, max: 30 };
        assert_eq!((days.of(""), days.of("1"), days.of("30")), (Ok(2), Ok(1), Ok(30)));
        for wrong in ["0", "31", "-5", "abc", "1.5", "100000"] {
            assert_eq!(days.of(wrong), Err("must be a number of days from 1 to 30".to_owned()), "{wrong}");
        }
    }
}
