use super::attributes::Selected;
use super::{Directories, KindRow, Meaning, SUBRESOURCES, StoredRow};
use crate::kind_ids;
use crate::strategy::{MemberClusterStrategy, member_cluster};
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::{Resource, StoredKind, Subresource};
use business_types::account;
use business_types::member_cluster::{ChargedMemberCluster, gvk, schema};
use business_types::names::{GROUP, MEMBER_CLUSTERS};
use std::sync::Arc;
use store::{Attributes, Kind};

/// Member clusters: the operators' own.
pub const ROW: KindRow = KindRow { plural: MEMBER_CLUSTERS, stored: Some(STORED), rights: &[], resource };

/// What was derived from the cluster's nodes. It is a grant, so it is apart from the observed status.
const CAPACITY: Subresource = Subresource::growing(member_cluster::CAPACITY, &[&["status", "capacity"]]);

const STORED: StoredRow = StoredRow {
    id: kind_ids::MEMBER_CLUSTER,
    kind: || Arc::new(MemberClusterKind),
    account: Meaning::Charged(account::of_stored::<ChargedMemberCluster>),
    gives: None,
};

fn resource(directories: &Directories) -> Resource {
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
            strategy: Arc::new(MemberClusterStrategy::new(directories.allocations.clone())),
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
        Selected::<serde::de::IgnoredAny>::read(body).attributes(Box::default(), [])
    }
}
