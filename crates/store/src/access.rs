use std::collections::BTreeSet;
use std::sync::Arc;

/// Proof of an authorization. Every call of the store takes one, and only [`authorize`] makes them.
#[derive(Clone, Debug)]
pub struct Access {
    actor: Arc<str>,
    visibility: Visibility,
}

/// The part of the store that a caller may see. The rest does not exist for him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All tenants.
    Everything,
    /// These tenants, each as far as its entry says. Never empty; one entry a tenant, sorted by name. Made by
    /// [`Visibility::tenants`].
    Tenants(Arc<[TenantSight]>),
    /// Nothing.
    Nothing,
}

/// What a caller sees of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSight {
    /// The tenant.
    pub tenant: Arc<str>,
    /// The part that he sees, beside what all callers of the tenant see.
    pub sight: Sight,
}

/// The part of a tenant that is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All of it.
    Whole,
    /// These namespaces (for us: projects), as of the request: the objects in them, and the cluster-scoped objects of
    /// the same names. Two values that share one list are equal without a look at it.
    Namespaces(Arc<BTreeSet<String>>),
}

impl Visibility {
    /// A tenant, whole.
    pub fn tenant(tenant: &str) -> Self {
        Self::tenants([TenantSight { tenant: Arc::from(tenant), sight: Sight::Whole }])
    }

    /// What is seen of some tenants, each named once.
    pub fn tenants(sights: impl IntoIterator<Item = TenantSight>) -> Self {
        let mut sights: Vec<TenantSight> = sights.into_iter().collect();
        sights.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        if sights.is_empty() { Self::Nothing } else { Self::Tenants(Arc::from(sights)) }
    }

    /// What is seen of a tenant; `None` when nothing is.
    pub fn of_tenant(&self, tenant: &str) -> Option<&Sight> {
        match self {
            Self::Everything => Some(&Sight::Whole),
            Self::Nothing => None,
            Self::Tenants(sights) => {
                let at = sights.binary_search_by(|sight| (*sight.tenant).cmp(tenant)).ok()?;
                sights.get(at).map(|sight| &sight.sight)
            }
        }
    }
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
            Visibility::Tenants(_) if attributes.public => true,
            visibility @ Visibility::Tenants(_) => {
                let sight = attributes.tenant.as_deref().and_then(|tenant| visibility.of_tenant(tenant));
                sight.is_some_and(|sight| match sight {
                    Sight::Whole => true,
                    Sight::Namespaces(_) if attributes.tenant_wide => true,
                    Sight::Namespaces(seen) => {
                        seen.contains(if namespace.is_empty() { name } else { namespace })
                    }
                })
            }
        }
    }
}
