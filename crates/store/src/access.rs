use std::collections::BTreeSet;
use std::sync::Arc;

/// Proof of an authorization. Every call of the store takes one. [`authorize`] makes it for a request, and
/// [`Access::internal`] for the program's own work.
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
    /// These tenants, each as far as its entry says. Never empty, with one entry per tenant, sorted by name:
    /// [`Visibility::tenants`] makes it.
    Tenants(Arc<[TenantSight]>),
    /// Nothing.
    Nothing,
}

/// What a caller sees of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSight {
    /// The tenant.
    pub tenant: Arc<str>,
    /// The part that the caller sees. All callers of the tenant also see its tenant-wide objects.
    pub sight: Sight,
}

/// The part of a tenant that a caller sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All of it.
    Whole,
    /// These namespaces (for us: projects), as of the request: the objects in them, and the cluster-scoped objects with
    /// the same names. Two values that share one list are equal without a comparison of its items.
    Namespaces(Arc<BTreeSet<String>>),
}

impl Visibility {
    /// All of one tenant.
    pub fn tenant(tenant: &str) -> Self {
        Self::tenants([TenantSight { tenant: Arc::from(tenant), sight: Sight::Whole }])
    }

    /// Parts of these tenants, each named once.
    pub fn tenants(sights: impl IntoIterator<Item = TenantSight>) -> Self {
        let mut sights: Vec<TenantSight> = sights.into_iter().collect();
        sights.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        if sights.is_empty() { Self::Nothing } else { Self::Tenants(Arc::from(sights)) }
    }

    /// The visible part of a tenant; `None` if nothing is visible.
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
    /// The request, with its caller.
    type Request: ?Sized + Sync;
    /// Why the request was refused.
    type Refusal;

    /// Allows the request, with the actor's name and visibility, or refuses it.
    fn decide(
        &self,
        request: &Self::Request,
    ) -> impl Future<Output = Result<(Arc<str>, Visibility), Self::Refusal>> + Send;
}

/// Asks an authorizer. This is the only way to get an [`Access`] for a request.
pub async fn authorize<A: Authorizer>(authorizer: &A, request: &A::Request) -> Result<Access, A::Refusal> {
    let (actor, visibility) = authorizer.decide(request).await?;
    Ok(Access { actor, visibility })
}

impl Access {
    /// For the program's own work, such as audit, compaction and start-up. `task` is logged.
    pub fn internal(task: &'static str) -> Self {
        Self { actor: Arc::from(task), visibility: Visibility::Everything }
    }

    /// Who acts.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// What the caller may see.
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
