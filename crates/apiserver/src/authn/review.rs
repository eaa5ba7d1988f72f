use crate::cache::AnswerCache;
use crate::caller::{Caller, Via};
use crate::delegate::{self, Delegate};
use crate::metrics::Delegated;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// How long a failure holds.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// How many tokens are remembered.
const CAPACITY: usize = 4096;
/// The bytes of memory that their callers may take.
const WEIGHT: usize = 32 * 1024 * 1024;
/// Longer tokens are refused unread.
const TOKEN_LIMIT: usize = 16 * 1024;

type Reviewed = Result<Arc<Caller>, TokenReviewFailure>;
type Hash = [u8; 32];

/// Tokens as kube-apiserver knows them.
pub(crate) struct TokenReviews {
    delegate: Delegate,
    cache: AnswerCache<Hash, Reviewed>,
    /// Tokens that were good once are reviewed again however many unknown ones wait.
    good: Mutex<Recent>,
    /// Room for reviews of unknown tokens at kube-apiserver.
    room: Semaphore,
}

/// Why a token has no caller. The texts are for the log.
#[derive(Clone, Debug)]
pub(crate) enum TokenReviewFailure {
    /// The token is nobody's.
    Refused(Arc<str>),
    /// kube-apiserver gave no answer.
    Unanswered(Arc<str>),
    /// Too many unknown tokens are being reviewed.
    Busy,
}

/// The last tokens that were good.
#[derive(Default)]
struct Recent {
    known: HashSet<Hash>,
    order: VecDeque<Hash>,
}

impl Recent {
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
        let cache = AnswerCache::new(CAPACITY, WEIGHT, |_hash, reviewed: &Reviewed| {
            reviewed.as_ref().map_or(0, |caller| caller.weight())
        });
        Self { room: delegate.room(), delegate, cache, good: Mutex::default() }
    }

    /// The caller of a token. kube-apiserver itself adds the group `system:authenticated`.
    pub(crate) async fn review(&self, token: &str, hash: Hash, metrics: &Delegated) -> Reviewed {
        if token.len() > TOKEN_LIMIT {
            return Err(TokenReviewFailure::Refused(Arc::from("the token is too long")));
        }
        let fetch = || async {
            let _permit = if self.good().known.contains(&hash) {
                None
            } else {
                let Ok(permit) = self.room.try_acquire() else {
                    return (Err(TokenReviewFailure::Busy), Duration::ZERO);
                };
                Some(permit)
            };
            match self.ask(token, metrics).await {
                Ok(Some(caller)) => {
                    self.good().insert(hash);
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

    fn good(&self) -> MutexGuard<'_, Recent> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, token: &str, metrics: &Delegated) -> Result<Option<Caller>, String> {
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
