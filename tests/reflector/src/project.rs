//! Our kind as k8s-openapi describes kinds, so that kube-rs's typed API takes it.

use business_types::ProjectSpec;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// A project; sent without apiVersion and kind, which the URL says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Project {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: ProjectSpec,
}

impl k8s_openapi::Resource for Project {
    type Scope = ClusterResourceScope;
    const API_VERSION: &'static str = "business.tkestack.io/v1";
    const GROUP: &'static str = "business.tkestack.io";
    const KIND: &'static str = "Project";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "projects";
}

impl k8s_openapi::Metadata for Project {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A project without quota that carries a mark.
pub(crate) fn project(name: &str, mark: &str) -> Project {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([("mark".to_owned(), mark.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let spec = ProjectSpec {
        display_name: name.to_owned(),
        tenant_id: "default".to_owned(),
        ..ProjectSpec::default()
    };
    Project { metadata, spec }
}
