//! Certificates for people, signed by the member clusters themselves.
//!
//! business-api has no credentials of member clusters. It makes a key, and sends the request for its certificate to any
//! replica of the controller; the key stays there. The replica has the cluster sign it, with a credential of the cluster
//! that may do nothing else. Nothing is kept, so no leader is needed.

/// Where clusters sign, and where people reach them.
pub mod clusters;
/// Whose certificate a request is for.
pub mod subject;
/// The cluster's own way to a certificate.
pub mod sign;
/// Requests in turn, each to its end.
pub mod worker;
/// The listener, for business-api alone.
pub mod serve;

use meta::status::{Status, StatusCause};

/// Why no certificate was issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueRefusal {
    /// The request is not one that business-api would send.
    #[error("{0}")]
    Invalid(String),
    /// This cluster does not issue certificates, for a reason that lasts.
    #[error("{0}")]
    CannotSign(String),
    /// No answer came in time.
    #[error("{0}")]
    TimedOut(String),
    /// Something else is missing that may come back by itself.
    #[error("{0}")]
    Unavailable(String),
}

/// Seconds after which it may be tried again.
const RETRY_AFTER_SECONDS: u32 = 2;

impl IssueRefusal {
    /// For business-api.
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

    /// Label for metrics: a closed set.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "wrong",
            Self::CannotSign(_) => "cannot_sign",
            Self::TimedOut(_) => "timed_out",
            Self::Unavailable(_) => "unavailable",
        }
    }
}
