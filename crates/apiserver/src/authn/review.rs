use super::{Caller, Via};
use crate::cache::Cache;
use crate::delegate;
use crate::metrics::Delegated;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use std::sync::Arc;
use std::time::Duration;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// How long an answer holds, and a failure.
const TTL: Duration = Duration::from_secs(10);
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// How many tokens are remembered.
const CAPACITY: usize = 4096;
/// Longer tokens are nobody's.
const TOKEN_LIMIT: usize = 16 * 1024;

type Reviewed = Result<Arc<Caller>, Arc<str>>;

/// Tokens as kube-apiserver knows them.
#[derive(Clone)]
pub(crate) struct TokenReviews {
    client: kube::Client,
    cache: Arc<Cache<[u8; 32], Reviewed>>,
}

impl std::fmt::Debug for TokenReviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenReviews").finish_non_exhaustive()
    }
}

impl TokenReviews {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self { client, cache: Arc::new(Cache::new(CAPACITY)) }
    }

    /// Whose token it is. The group of everybody is added by kube-apiserver itself.
    pub(crate) async fn review(
        &self,
        token: &str,
        hash: [u8; 32],
        metrics: &Delegated,
    ) -> Result<Arc<Caller>, String> {
        if token.len() > TOKEN_LIMIT {
            return Err("the token is too long".to_owned());
        }
        let fetch = || async {
            match self.ask(token, metrics).await {
                Ok(Some(caller)) => (Ok(Arc::new(caller)), TTL),
                Ok(None) => (Err(Arc::from("token not known to kube-apiserver")), TTL),
                Err(why) => {
                    tracing::warn!(error = why, "token review failed");
                    (Err(Arc::from(why)), FAILURE_TTL)
                }
            }
        };
        self.cache.get_or_fetch(&hash, fetch).await.map_err(|why| why.to_string())
    }

    async fn ask(&self, token: &str, metrics: &Delegated) -> Result<Option<Caller>, String> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review: TokenReview = delegate::review(&self.client, PATH, &review, metrics).await?;
        let status = review.status.unwrap_or_default();
        let user = status.user.unwrap_or_default();
        let name = user.username.unwrap_or_default();
        if status.authenticated != Some(true) || name.is_empty() {
            return Ok(None);
        }
        let extra = user.extra.unwrap_or_default();
        Ok(Some(Caller {
            name,
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: extra.into_iter().map(|(key, values)| (key.to_lowercase(), values)).collect(),
            tenant: None,
            via: Via::TokenReview,
        }))
    }
}
