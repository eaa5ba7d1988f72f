//! The call by which the API server requests a certificate for a member cluster from the controller.

use serde::{Deserialize, Serialize};

/// The path at which the controller accepts [`IssueRequest`]s.
pub const ISSUE_PATH: &str = "/issue";
/// The shortest validity of a certificate in seconds: the signers of Kubernetes accept no less.
pub const VALID_SECONDS_MIN: i64 = 600;
/// The longest validity of a certificate in seconds: 365 days.
pub const VALID_SECONDS_MAX: i64 = 365 * 24 * 3600;

/// The maximum number of groups in a certificate.
pub const GROUPS_MAX: usize = 8;

/// A request for a certificate. It does not contain the private key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssueRequest {
    /// The member cluster.
    pub cluster: String,
    /// The project of the namespace for which it is requested, for the audit log.
    pub project: String,
    /// The namespace for which it is requested, for the audit log.
    pub name: String,
    /// The user as [`crate::access::user`] names him: the common name of the certificate's subject.
    pub user: String,
    /// His groups as [`crate::access::administrators`] and [`crate::access::group`] name them: the organizations of the
    /// certificate's subject, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub groups: Vec<String>,
    /// The certificate signing request (PKCS #10, PEM), with nothing but public key and subject.
    pub request: String,
    /// The requested validity in seconds.
    pub expiration_seconds: i64,
    /// An id of this request, for the audit logs of both programs.
    #[serde(default)]
    pub issue_id: String,
}

/// A certificate and the API server that accepts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuedCertificate {
    /// The certificate, PEM.
    pub certificate: String,
    /// The URL of the cluster's API server, such as `https://acme.example:6443`.
    pub server: String,
    /// The CA certificates of the API server, PEM.
    pub ca_bundle: String,
}
