use super::attributes::Selectable;
use super::{KindRow, QuotaAccount, SUBRESOURCES, StoredRow, StrategyDependencies};
use crate::kind_ids;
use crate::strategy::{MemberClusterStrategy, member_cluster};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind, Subresource};
use business_types::account;
use business_types::member_cluster::{ChargedMemberCluster, gvk, schema};
use business_types::names::{GROUP, MEMBER_CLUSTERS};
use std::sync::Arc;
use store::{Attributes, Kind};

/// Member clusters. No role of a tenant has a right to them.
pub const ROW: KindRow = KindRow { plural: MEMBER_CLUSTERS, stored: Some(STORED), rights: &[], resource };

/// The subresource that writes the capacity derived from the cluster's nodes. It may raise limits, so it is separate
/// from the observed status.
const CAPACITY: Subresource = Subresource::growing(member_cluster::CAPACITY, &[&["status", "capacity"]]);

const STORED: StoredRow = StoredRow {
    id: kind_ids::MEMBER_CLUSTER,
    kind: || Arc::new(MemberClusterKind),
    account: QuotaAccount::Charged(account::of_stored::<ChargedMemberCluster>),
    role_source: None,
};

fn resource(dependencies: &StrategyDependencies) -> Resource {
    Resource {
        gvk: gvk(),
        plural: MEMBER_CLUSTERS,
        singular: "membercluster",
        short_names: &["mc"],
        categories: &[],
        namespaced: false,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: member_cluster::COLUMNS,
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: SUBRESOURCES.into_iter().chain([CAPACITY]).collect(),
            server_fields: &[],
            strategy: Arc::new(MemberClusterStrategy::new(dependencies.allocations.clone())),
        })),
    }
}

/// Member clusters, as the store sees them.
#[derive(Clone, Copy, Debug)]
pub struct MemberClusterKind;

impl Kind for MemberClusterKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        MEMBER_CLUSTERS
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        Selectable::<serde::de::IgnoredAny>::read(body).attributes(Box::default(), [])
    }
}
