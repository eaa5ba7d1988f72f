//! What there is in the member cluster, unjudged.

use super::kind::NamespaceView;
use super::verdict::Situation;
use crate::context::Context;
use crate::error::Error;
use crate::member::{ClusterNamespace, ClusterQuota, Member, Reach};
use crate::members::Lookup;
use business_types::condition::reason;
use std::sync::Arc;

/// What there is in the member cluster for one of our namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The namespace.
    pub namespace: Option<Arc<ClusterNamespace>>,
    /// The quota of its name in it.
    pub quota: Option<Arc<ClusterQuota>>,
    /// The generation that the quota names was never that of our object: it may be overwritten.
    pub generation_is_false: bool,
}

/// A member cluster that answers, and what is seen in it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The cluster.
    pub member: Arc<Member>,
    /// What is seen by its watches.
    pub found: Found,
}

/// Where a namespace lives and what is seen there. The error says why nothing can be done; with `None` it is not
/// known yet.
pub fn place(cx: &Context, object: &NamespaceView) -> Result<Place, Option<Situation>> {
    let name = &object.spec.cluster_name;
    let member = match cx.members.find(name) {
        Lookup::Found(member) => member,
        Lookup::NotLoaded => return Err(None),
        Lookup::Unknown => {
            let message = format!("cluster {name} is not in the directory");
            return Err(Some(Situation::Unreachable { reason: reason::CLUSTER_UNKNOWN, message }));
        }
    };
    match member.reach() {
        Reach::Connecting => Err(None),
        Reach::Unreachable { since, reason: cause } => {
            let message = format!("cluster {name} has not answered since {since}: {cause}");
            Err(Some(Situation::Unreachable { reason: reason::UNREACHABLE, message }))
        }
        Reach::Reachable => {
            let (namespace, quota) = member.observed.at(&object.spec.namespace);
            let found = Found { namespace, quota, generation_is_false: false };
            Ok(Place { member, found })
        }
    }
}

/// The same asked of the cluster itself, after something there was not as it was seen.
pub async fn live(member: &Member, object: &NamespaceView, before: &Found) -> Result<Found, Error> {
    let name = &object.spec.namespace;
    let namespace = member.api.namespace(name).await.map_err(Error::Member)?;
    let quota = match namespace {
        Some(_) => member.api.quota(name).await.map_err(Error::Member)?,
        None => None,
    };
    Ok(Found {
        namespace: namespace.map(Arc::new),
        quota: quota.map(Arc::new),
        generation_is_false: before.generation_is_false,
    })
}
