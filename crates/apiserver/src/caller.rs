use std::collections::BTreeMap;

/// What a text takes in memory beside its bytes, and what a caller takes beside his texts.
const TEXT_WEIGHT: usize = 48;
const CALLER_WEIGHT: usize = 512;

/// The group that may do anything without a review: kube-apiserver's own probes must not depend on one.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of everybody who is known.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody else.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Who asks, after authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User name.
    pub name: String,
    /// User id, when the authenticator knows one.
    pub uid: String,
    /// Groups; `system:authenticated` included.
    pub groups: Vec<String>,
    /// Extra keys as received: lower case, percent-decoded.
    pub extra: BTreeMap<String, Vec<String>>,
    /// The tenant that the authenticator found, by the configured extra keys or token claim.
    pub tenant: Option<String>,
    /// How the caller came.
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
    /// The same of an issuer that kube-apiserver also believes, with the same names: he is one of the cluster's
    /// users.
    ClusterJwt,
    /// A token that kube-apiserver reviewed.
    TokenReview,
    /// A name and a password, at a route that takes them.
    Password,
    /// By another caller, who may act as this one.
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

    /// About how many bytes of memory he takes: three thousand groups of one letter each are much.
    pub(crate) fn weight(&self) -> usize {
        self.texts()
            .fold(CALLER_WEIGHT, |sum, text| sum.saturating_add(text.len()).saturating_add(TEXT_WEIGHT))
    }

    /// Whether anything at all is known of him.
    pub fn is_known(&self) -> bool {
        self.via != Via::Anonymous
    }
}
