//! What the API server asks the controller when somebody wants a certificate for a member cluster.

use serde::{Deserialize, Serialize};

/// Where the controller takes [`IssueRequest`]s.
pub const ISSUE_PATH: &str = "/issue";
/// The fewest seconds that a certificate is valid: the signers of Kubernetes take no less.
pub const VALID_SECONDS_MIN: i64 = 600;
/// The most seconds that a certificate is valid: 365 days.
pub const VALID_SECONDS_MAX: i64 = 365 * 24 * 3600;

/// The most groups that a certificate names.
pub const GROUPS_MAX: usize = 8;

/// Asks for a certificate. The private key stays with whoever asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssueRequest {
    /// The member cluster.
    pub cluster: String,
    /// The project of the namespace that it is asked for; for the audit log.
    pub project: String,
    /// The namespace that it is asked for; for the audit log.
    pub name: String,
    /// Whose certificate it is, as [`crate::access::user`] names him: the subject's common name.
    pub user: String,
    /// The groups that he belongs to, as [`crate::access::administrators`] and [`crate::access::group`] name them: the
    /// subject's organizations, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub groups: Vec<String>,
    /// PKCS #10, PEM: nothing but key and subject.
    pub request: String,
    /// Seconds that it is to be valid.
    pub expiration_seconds: i64,
    /// A name for this request, which the audit logs of both programs carry.
    #[serde(default)]
    pub issue_id: String,
}

/// A certificate, and where it is good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issued {
    /// PEM.
    pub certificate: String,
    /// Where people reach the cluster, such as `https://acme.example:6443`.
    pub server: String,
    /// The authorities that vouch for it, PEM.
    pub ca_bundle: String,
}
