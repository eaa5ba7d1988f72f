//! Certificates for people, signed by the member clusters themselves.
//!
//! business-api has no credentials of member clusters. It generates a key, which stays there, and sends the certificate
//! request to any replica of the controller. The replica has the cluster sign it, with a credential of the cluster that
//! can do nothing else. Nothing is stored, so no leader is needed.

/// Looks up where a cluster signs, and where people reach it.
pub mod clusters;
/// Checks the subject of a certificate request.
pub mod subject;
/// Has a certificate signed by the cluster.
pub mod sign;
/// The queue of requests, and the worker that handles them.
pub mod worker;
/// The HTTPS listener, for business-api alone.
pub mod serve;

use meta::status::{Status, StatusCause};

/// Why no certificate was issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueRefusal {
    /// business-api would not send such a request.
    #[error("{0}")]
    Invalid(String),
    /// This cluster does not issue certificates, for a reason that lasts.
    #[error("{0}")]
    CannotSign(String),
    /// There was no answer in time.
    #[error("{0}")]
    TimedOut(String),
    /// Something is missing that may come back by itself.
    #[error("{0}")]
    Unavailable(String),
}

/// When business-api may retry.
const RETRY_AFTER_SECONDS: u32 = 2;

impl IssueRefusal {
    /// The answer to business-api.
    pub fn status(&self) -> Status {
        match self {
            Self::Invalid(why) => Status::bad_request(why),
            Self::CannotSign(why) => {
                let cause = StatusCause {
                    reason: "FieldValueNotSupported".to_owned(),
                    message: why.clone(),
                    field: "spec.clusterName".to_owned(),
                };
                Status::failure(422, "Invalid", why).with_causes(vec![cause])
            }
            Self::TimedOut(why) => Status::timeout(why, RETRY_AFTER_SECONDS),
            Self::Unavailable(why) => Status::unavailable(why, RETRY_AFTER_SECONDS),
        }
    }

    /// The label for metrics, from a closed set.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "wrong",
            Self::CannotSign(_) => "cannot_sign",
            Self::TimedOut(_) => "timed_out",
            Self::Unavailable(_) => "unavailable",
        }
    }
}
