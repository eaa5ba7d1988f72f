use crate::authn::opinion::Unauthenticated;
use crate::authn::{Authenticated, Authenticator};
use crate::authz::{Attributes, Authorization, Demand};
use crate::caller::Caller;
use crate::request::RequestInfo;
use crate::tls::Peer;
use meta::status::Status;
use std::sync::Arc;
use std::time::Duration;
use store::Visibility;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// What an open stream depends on: a credential, a right, and what its caller sees. All three may end before it does.
#[derive(Debug)]
pub struct Tenure {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) authorization: Arc<Authorization>,
    pub(crate) peer: Arc<Peer>,
    /// Shared by all streams that ask the same with the same credential.
    pub(crate) grounds: Arc<Grounds>,
    /// What was seen when the stream began.
    pub(crate) visibility: Visibility,
    /// About how often it is checked. Reviews are remembered, so many streams of one caller cost one review.
    pub(crate) every: Duration,
    /// Subscribed to before the visibility was asked for.
    pub(crate) changes: Option<watch::Receiver<u64>>,
}

/// The caller, his request, and the rights by which he makes it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grounds {
    /// Who was authenticated.
    pub(crate) authenticated: Authenticated,
    /// The rights by which he acts as the caller of the demand; none if he is that caller.
    pub(crate) impersonation: Vec<RequestInfo>,
    pub(crate) demand: Demand,
}

/// Why a stream may not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The credential has ended: a client that comes back with a new one goes on where it was.
    Credential,
    /// The request would be refused now, with this answer.
    Refused(Box<Status>),
    /// The caller sees something else than at the beginning: what he was told is no longer the whole truth.
    Sight,
}

/// Stands between an open watch and each of its events: what the event itself changes may have taken the sight of it
/// away. It judges by the program's own rules alone, for these can be asked at once; [`Tenure::lost`] asks the others.
#[derive(Debug)]
pub(crate) struct Gate {
    authorization: Arc<Authorization>,
    grounds: Arc<Grounds>,
    visibility: Visibility,
    changes: watch::Receiver<u64>,
    /// What the rules said after the last change.
    open: bool,
}

impl Gate {
    /// Whether the next event has to wait until the rules know what it means for them.
    pub(crate) fn must_wait(&self) -> bool {
        self.authorization.settle().is_some()
    }

    /// Waits for that.
    pub(crate) async fn settle(&self) {
        if let Some(settled) = self.authorization.settle() {
            settled.await;
        }
    }

    /// Whether the caller still sees, as far as the rules know, what he saw at the beginning.
    pub(crate) fn is_open(&mut self) -> bool {
        if matches!(self.changes.has_changed(), Ok(true)) {
            // Before the rules are asked: a change after that is another one.
            self.changes.mark_unchanged();
            let asked = &self.grounds.demand.attributes;
            self.open = self.authorization.still_shows(asked, &self.visibility);
        }
        self.open
    }
}

impl Tenure {
    /// The gate of this stream; `None` if nothing in the store can change what its caller sees.
    pub(crate) fn gate(&self) -> Option<Gate> {
        // An operator's sight rests on his right.
        if self.visibility == Visibility::Everything {
            return None;
        }
        Some(Gate {
            authorization: Arc::clone(&self.authorization),
            grounds: Arc::clone(&self.grounds),
            visibility: self.visibility.clone(),
            changes: self.changes.clone()?,
            open: true,
        })
    }

    /// Waits until the stream may not go on. While nobody can tell, it may. A stream keeps polling this one future:
    /// one that is dropped and made anew for each event would never complete under load.
    pub async fn lost(mut self: Box<Self>) -> Lost {
        let ends = self.ends();
        loop {
            let next = Instant::now() + self.every.mul_f64(0.75 + rand::random::<f64>() / 2.0);
            tokio::select! {
                () = changed(&mut self.changes) => {}
                () = sleep_until(ends.map_or(next, |ends| ends.min(next))) => {}
            }
            if ends.is_some_and(|ends| ends <= Instant::now()) {
                return Lost::Credential;
            }
            // Boxed: it seldom runs, and is much larger than the room that every stream should have for it.
            if let Err(lost) = Box::pin(self.check()).await {
                return lost;
            }
        }
    }

    fn ends(&self) -> Option<Instant> {
        let expires = self.grounds.authenticated.caller.expires?;
        let left = u64::try_from(expires.saturating_sub(self.authenticator.now())).unwrap_or_default();
        Instant::now().checked_add(Duration::from_secs(left))
    }

    async fn check(&self) -> Result<(), Lost> {
        let Grounds { authenticated, impersonation, demand } = &*self.grounds;
        let caller = match self.authenticator.again(&self.peer, authenticated).await {
            Ok(caller) => caller,
            Err(Unauthenticated::Invalid(why)) => {
                tracing::debug!(why, user = authenticated.caller.name, "a stream's credential has ended");
                return Err(Lost::Credential);
            }
            Err(Unauthenticated::Unanswered(_) | Unauthenticated::Busy | Unauthenticated::Starting) => {
                return Ok(());
            }
        };
        let mut demand = demand.clone();
        if impersonation.is_empty() {
            demand.attributes.caller = caller;
        } else {
            self.check_impersonation(&caller).await?;
        }
        let access = match self.authorization.admit(&demand).await {
            Ok(access) => access,
            Err(status) => return refused(status),
        };
        if *access.visibility() == self.visibility { Ok(()) } else { Err(Lost::Sight) }
    }

    async fn check_impersonation(&self, caller: &Arc<Caller>) -> Result<(), Lost> {
        for right in &self.grounds.impersonation {
            let attributes = Attributes { caller: Arc::clone(caller), info: right.clone() };
            if let Err(status) = self.authorization.may_impersonate(&attributes).await {
                refused(status)?;
            }
        }
        Ok(())
    }
}

/// A review that fails refuses nothing.
fn refused(status: Status) -> Result<(), Lost> {
    if status.code == 403 { Err(Lost::Refused(Box::new(status))) } else { Ok(()) }
}

async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(receiver) = changes {
        if receiver.changed().await.is_ok() {
            return;
        }
        *changes = None;
    }
    std::future::pending::<()>().await;
}
