use crate::cache::AnswerCache;
use crate::caller::{Caller, Via};
use crate::delegate::{self, Delegate};
use crate::metrics::DelegationMetrics;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// How long a failure is cached.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// How many tokens are cached.
const CAPACITY: usize = 4096;
/// The bytes of memory that their callers may take.
const WEIGHT: usize = 32 * 1024 * 1024;
/// How many requests may wait for reviews of unknown tokens: those with the same token share a review.
const WAITERS_MAX: usize = 256;
/// Longer tokens are refused without asking kube-apiserver.
const TOKEN_LIMIT: usize = 16 * 1024;

type ReviewOutcome = Result<Arc<Caller>, TokenReviewFailure>;
type Hash = [u8; 32];

/// Asks kube-apiserver for `TokenReviews`, and caches the answers.
pub(crate) struct TokenReviews {
    delegate: Delegate,
    cache: AnswerCache<Hash, ReviewOutcome>,
    /// Tokens that were valid. These are reviewed again without a permit, however many unknown ones are waiting.
    valid_tokens: Mutex<RecentTokens>,
    /// Limits the concurrent reviews of unknown tokens.
    unknown_token_permits: Semaphore,
    /// Limits the requests that wait for them.
    unknown_token_waiters: Semaphore,
}

/// Why a token has no caller. The texts are for the log.
#[derive(Clone, Debug)]
pub(crate) enum TokenReviewFailure {
    /// The token is invalid.
    Refused(Arc<str>),
    /// kube-apiserver gave no answer.
    Unanswered(Arc<str>),
    /// Too many reviews of unknown tokens are in flight.
    Busy,
}

/// The last tokens that were valid.
#[derive(Default)]
struct RecentTokens {
    known: HashSet<Hash>,
    order: VecDeque<Hash>,
}

impl RecentTokens {
    fn insert(&mut self, hash: Hash) {
        if self.known.insert(hash) {
            self.order.push_back(hash);
        }
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl std::fmt::Debug for TokenReviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenReviews").finish_non_exhaustive()
    }
}

impl TokenReviews {
    pub(crate) fn new(delegate: Delegate) -> Self {
        let cache = AnswerCache::new(CAPACITY, WEIGHT, |_hash, reviewed: &ReviewOutcome| {
            reviewed.as_ref().map_or(0, |caller| caller.weight())
        });
        Self {
            unknown_token_permits: delegate.unauthenticated_permits(),
            unknown_token_waiters: Semaphore::new(WAITERS_MAX),
            delegate,
            cache,
            valid_tokens: Mutex::default(),
        }
    }

    /// The caller of a token. kube-apiserver has added the group `system:authenticated`.
    pub(crate) async fn review(&self, token: &str, hash: Hash, metrics: &DelegationMetrics) -> ReviewOutcome {
        if token.len() > TOKEN_LIMIT {
            return Err(TokenReviewFailure::Refused(Arc::from("the token is too long")));
        }
        let _waiter = if self.valid_tokens().known.contains(&hash) {
            None
        } else {
            Some(self.unknown_token_waiters.try_acquire().map_err(|_full| TokenReviewFailure::Busy)?)
        };
        let fetch = || async {
            let _permit = if self.valid_tokens().known.contains(&hash) {
                None
            } else {
                let Ok(permit) = self.unknown_token_permits.try_acquire() else {
                    return (Err(TokenReviewFailure::Busy), Duration::ZERO);
                };
                Some(permit)
            };
            match self.ask(token, metrics).await {
                Ok(Some(caller)) => {
                    self.valid_tokens().insert(hash);
                    (Ok(Arc::new(caller)), self.delegate.ttl)
                }
                Ok(None) => {
                    let refused = TokenReviewFailure::Refused(Arc::from("token not known to kube-apiserver"));
                    (Err(refused), self.delegate.ttl)
                }
                Err(why) => {
                    tracing::warn!(error = why, "token review failed");
                    (Err(TokenReviewFailure::Unanswered(Arc::from(why))), FAILURE_TTL)
                }
            }
        };
        self.cache.get_or_fetch(&hash, fetch).await
    }

    fn valid_tokens(&self) -> MutexGuard<'_, RecentTokens> {
        self.valid_tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, token: &str, metrics: &DelegationMetrics) -> Result<Option<Caller>, String> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review: TokenReview = delegate::review(&self.delegate.client, PATH, &review, metrics).await?;
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
            expires: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ServerMetrics;
    use axum::body::Body;
    use futures_util::FutureExt as _;
    use http::{Request, Response};
    use runtime::Metrics;

    #[tokio::test]
    async fn only_so_many_wait_for_the_review_of_one_token_that_nobody_knows() {
        let service = tower::service_fn(|_request: Request<kube::client::Body>| {
            std::future::pending::<Result<Response<Body>, std::io::Error>>()
        });
        let client = kube::Client::new(service, "default");
        let reviews = TokenReviews::new(Delegate { client, unauthenticated_reviews: 1, ttl: Duration::ZERO });
        let metrics = ServerMetrics::new(&Metrics::new(), &[]);
        let review = || Box::pin(reviews.review("unknown", [0; 32], &metrics.delegated_authn));
        let mut waiting: Vec<_> = (0..WAITERS_MAX).map(|_| review()).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert!(matches!(review().now_or_never(), Some(Err(TokenReviewFailure::Busy))));
        drop(waiting);
        assert!(review().now_or_never().is_none(), "their places are free");
    }
}
