use std::collections::BTreeMap;

/// Bytes of memory that a text takes in addition to its own bytes.
const TEXT_WEIGHT: usize = 48;
/// Bytes of memory that a caller takes in addition to his texts.
const CALLER_WEIGHT: usize = 512;

/// The group that may do everything without a review: the requests of kube-apiserver itself must not depend on one.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of all authenticated callers.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of all other callers.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Who sends a request, as authentication found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User name.
    pub name: String,
    /// User id, if the authenticator knows one.
    pub uid: String,
    /// Groups; `system:authenticated` included.
    pub groups: Vec<String>,
    /// Extra keys as received: lower case, percent-decoded.
    pub extra: BTreeMap<String, Vec<String>>,
    /// The tenant that the authenticator found, by the configured extra keys or token claim.
    pub tenant: Option<String>,
    /// How the caller was authenticated.
    pub via: Via,
    /// When his credential ends, in Unix seconds, if the credential says so.
    pub expires: Option<i64>,
}

/// How a caller was authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Via {
    /// Not at all: `system:anonymous`.
    #[default]
    Anonymous,
    /// Through kube-apiserver, as a front proxy.
    FrontProxy,
    /// A client certificate.
    Certificate,
    /// A JSON web token of a configured issuer.
    Jwt,
    /// A JSON web token of an issuer that kube-apiserver also accepts and maps to the same names: the caller is a user
    /// of the cluster.
    ClusterJwt,
    /// A token that kube-apiserver reviewed.
    TokenReview,
    /// A name and a password, at a route with a dialect.
    Password,
    /// Another caller impersonates this one.
    Impersonation,
}

impl Caller {
    /// Whether the caller belongs to a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// His names and values.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &String> {
        let extra = self.extra.iter().flat_map(|(key, values)| std::iter::once(key).chain(values));
        [&self.name, &self.uid].into_iter().chain(&self.groups).chain(extra)
    }

    /// About how many bytes of memory he takes. Many short groups take much more than their letters.
    pub(crate) fn weight(&self) -> usize {
        self.texts()
            .fold(CALLER_WEIGHT, |sum, text| sum.saturating_add(text.len()).saturating_add(TEXT_WEIGHT))
    }

    /// Whether he is not anonymous.
    pub fn is_known(&self) -> bool {
        self.via != Via::Anonymous
    }
}
