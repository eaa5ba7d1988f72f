use std::collections::BTreeSet;
use std::sync::Arc;

/// Proof of an authorization. Every call of the store takes one, and only [`authorize`] makes them.
#[derive(Clone, Debug)]
pub struct Access {
    actor: Arc<str>,
    visibility: Visibility,
}

/// What of the store a caller may see. Everything else does not exist for him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All tenants.
    Everything,
    /// One tenant, whole.
    Tenant(Arc<str>),
    /// Of one tenant, the cluster-scoped objects that name the caller as a member, what lies in the
    /// namespaces (for us: projects) of those, and what all callers of the tenant see.
    Member {
        /// The tenant.
        tenant: Arc<str>,
        /// The caller's name, looked for in [`crate::Attributes::members`].
        user: Arc<str>,
        /// The namespaces of which he is a member, as they were when the request came.
        namespaces: Arc<BTreeSet<String>>,
    },
    /// Nothing.
    Nothing,
}

/// Decides who may call the store. The one implementation that serves requests is the API server's.
pub trait Authorizer {
    /// What is asked, by whom.
    type Request: ?Sized + Sync;
    /// Why it was refused.
    type Refusal;

    /// Allows with a visibility and the actor's name, or refuses.
    fn decide(
        &self,
        request: &Self::Request,
    ) -> impl Future<Output = Result<(Arc<str>, Visibility), Self::Refusal>> + Send;
}

/// Asks an authorizer; the only maker of [`Access`] for requests.
pub async fn authorize<A: Authorizer>(authorizer: &A, request: &A::Request) -> Result<Access, A::Refusal> {
    let (actor, visibility) = authorizer.decide(request).await?;
    Ok(Access { actor, visibility })
}

impl Access {
    /// For the program's own work, which nobody asked for: audit, compaction, start-up. `task` is logged.
    pub fn internal(task: &'static str) -> Self {
        Self { actor: Arc::from(task), visibility: Visibility::Everything }
    }

    /// Who acts.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// What he may see.
    pub fn visibility(&self) -> &Visibility {
        &self.visibility
    }

    /// Whether an object exists for this caller. `namespace` is empty for a cluster-scoped object.
    pub fn sees(&self, namespace: &str, name: &str, attributes: &crate::Attributes) -> bool {
        match &self.visibility {
            Visibility::Everything => true,
            Visibility::Nothing => false,
            Visibility::Tenant(tenant) => attributes.tenant.as_deref() == Some(&**tenant),
            Visibility::Member { tenant, user, namespaces } => {
                let named = || match namespace {
                    "" => namespaces.contains(name) || attributes.members.iter().any(|m| **m == **user),
                    namespace => namespaces.contains(namespace),
                };
                attributes.tenant.as_deref() == Some(&**tenant) && (attributes.tenant_wide || named())
            }
        }
    }
}
