use crate::authn::outcome::AuthnError;
use crate::authn::{Authenticated, Authenticator};
use crate::authz::{Authorization, AuthorizationAttributes, AuthorizationRequest};
use crate::caller::Caller;
use crate::request::RequestInfo;
use crate::tls::Peer;
use meta::status::Status;
use std::sync::Arc;
use std::time::Duration;
use store::Visibility;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// What allows an open stream: a credential, a right, and what its caller sees. Each may end or change before the
/// stream ends, so they are checked again while it is open.
#[derive(Debug)]
pub struct StreamAuthorization {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) authorization: Arc<Authorization>,
    pub(crate) peer: Arc<Peer>,
    /// Shared by all streams with the same request and the same credential.
    pub(crate) inputs: Arc<AuthorizationInputs>,
    /// What the caller saw when the stream began.
    pub(crate) visibility: Visibility,
    /// About how often the stream is checked. Reviews are cached, so many streams of one caller cost one review.
    pub(crate) every: Duration,
    /// See [`Policy::changes`](crate::authz::Policy::changes). Subscribed to before the visibility was determined.
    pub(crate) changes: Option<watch::Receiver<u64>>,
}

/// What is checked again: the caller, the rights by which he impersonates somebody, and the request.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AuthorizationInputs {
    /// Who was authenticated.
    pub(crate) authenticated: Authenticated,
    /// The rights by which he acts as the caller of the request; empty if he is that caller himself.
    pub(crate) impersonation: Vec<RequestInfo>,
    pub(crate) request: AuthorizationRequest,
}

/// Why a stream must end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The credential has ended. A client with a new one can resume the watch at its last revision.
    CredentialEnded,
    /// The request would be refused now, with this status.
    Forbidden(Box<Status>),
    /// The caller sees something else than at the beginning, so the events sent so far are no longer all that he may
    /// see.
    VisibilityChanged,
}

/// Checks before each event of a watch that its caller may still see it: the change behind the event may itself have
/// taken that away. It asks the program's own rules only, since they answer at once. [`StreamAuthorization::revoked`]
/// asks kube-apiserver, too.
#[derive(Debug)]
pub(crate) struct VisibilityGate {
    authorization: Arc<Authorization>,
    inputs: Arc<AuthorizationInputs>,
    visibility: Visibility,
    changes: watch::Receiver<u64>,
    /// The answer of the rules after the last change.
    is_visible: bool,
}

impl VisibilityGate {
    /// Whether the next event must wait for [`VisibilityGate::settle`].
    pub(crate) fn must_settle(&self) -> bool {
        self.authorization.settle().is_some()
    }

    /// Waits until the rules have processed all events up to the next one; see
    /// [`Policy::settle`](crate::authz::Policy::settle).
    pub(crate) async fn settle(&self) {
        if let Some(settled) = self.authorization.settle() {
            settled.await;
        }
    }

    /// Whether the caller still sees, as far as the rules know, what he saw when the stream began.
    pub(crate) fn is_open(&mut self) -> bool {
        if matches!(self.changes.has_changed(), Ok(true)) {
            // Before the rules are asked, so that a later change is noticed the next time.
            self.changes.mark_unchanged();
            let attributes = &self.inputs.request.attributes;
            self.is_visible = self.authorization.is_still_visible(attributes, &self.visibility);
        }
        self.is_visible
    }
}

impl StreamAuthorization {
    /// The gate of this stream; `None` if nothing in the store can change what its caller sees.
    pub(crate) fn visibility_gate(&self) -> Option<VisibilityGate> {
        // What an operator sees depends on his right alone.
        if self.visibility == Visibility::Everything {
            return None;
        }
        Some(VisibilityGate {
            authorization: Arc::clone(&self.authorization),
            inputs: Arc::clone(&self.inputs),
            visibility: self.visibility.clone(),
            changes: self.changes.clone()?,
            is_visible: true,
        })
    }

    /// Completes when the stream must end. While that cannot be determined, the stream goes on. A stream polls one such
    /// future as long as it is open. If it made a new one for each event, none would complete under load.
    pub async fn revoked(mut self: Box<Self>) -> Revocation {
        let credential_end = self.credential_end();
        loop {
            let next = Instant::now() + self.every.mul_f64(0.75 + rand::random::<f64>() / 2.0);
            tokio::select! {
                () = next_change(&mut self.changes) => {}
                () = sleep_until(credential_end.map_or(next, |end| end.min(next))) => {}
            }
            if credential_end.is_some_and(|end| end <= Instant::now()) {
                return Revocation::CredentialEnded;
            }
            // Boxed: the future is large and seldom needed, and would otherwise enlarge the future of every stream.
            if let Err(revoked) = Box::pin(self.check()).await {
                return revoked;
            }
        }
    }

    fn credential_end(&self) -> Option<Instant> {
        let expires = self.inputs.authenticated.caller.expires?;
        let left = u64::try_from(expires.saturating_sub(self.authenticator.now())).unwrap_or_default();
        Instant::now().checked_add(Duration::from_secs(left))
    }

    async fn check(&self) -> Result<(), Revocation> {
        let AuthorizationInputs { authenticated, impersonation, request } = &*self.inputs;
        let caller = match self.authenticator.reauthenticate(&self.peer, authenticated).await {
            Ok(caller) => caller,
            Err(AuthnError::Invalid(why)) => {
                tracing::debug!(why, user = authenticated.caller.name, "a stream's credential has ended");
                return Err(Revocation::CredentialEnded);
            }
            Err(AuthnError::Unavailable(_) | AuthnError::TooManyReviews | AuthnError::TrustNotLoaded) => {
                return Ok(());
            }
        };
        let mut request = request.clone();
        if impersonation.is_empty() {
            request.attributes.caller = caller;
        } else {
            self.check_impersonation(&caller).await?;
        }
        let access = match self.authorization.admit(&request).await {
            Ok(access) => access,
            Err(status) => return revoked_if_forbidden(status),
        };
        if *access.visibility() == self.visibility { Ok(()) } else { Err(Revocation::VisibilityChanged) }
    }

    async fn check_impersonation(&self, caller: &Arc<Caller>) -> Result<(), Revocation> {
        for right in &self.inputs.impersonation {
            let attributes = AuthorizationAttributes { caller: Arc::clone(caller), info: right.clone() };
            if let Err(status) = self.authorization.may_impersonate(&attributes).await {
                revoked_if_forbidden(status)?;
            }
        }
        Ok(())
    }
}

/// Only a 403 revokes. A review that failed does not.
fn revoked_if_forbidden(status: Status) -> Result<(), Revocation> {
    if status.code == 403 { Err(Revocation::Forbidden(Box::new(status))) } else { Ok(()) }
}

async fn next_change(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(receiver) = changes {
        if receiver.changed().await.is_ok() {
            return;
        }
        *changes = None;
    }
    std::future::pending::<()>().await;
}
