//! Our marks on objects in a member cluster.

use super::weight;
use business_types::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The longest uid in bytes. Kubernetes makes 36; a longer one is ignored.
pub const UID_MAX: usize = 64;

/// Our marks on an object in a member cluster. Anybody may have written them: only a valid seal proves something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Label: the project.
    pub project: Option<String>,
    /// Label: the business namespace.
    pub namespace: Option<String>,
    /// Annotation: uid of the business namespace.
    pub uid: Option<String>,
    /// Annotation: the namespace was not created by us.
    pub adopted: bool,
    /// Annotation: the seal, not verified.
    pub seal: Option<String>,
}

impl Marks {
    pub fn of(metadata: &ObjectMeta) -> Self {
        let label = |key: &str| metadata.labels.as_ref().and_then(|all| all.get(key)).cloned();
        Self {
            project: label(names::PROJECT_LABEL),
            namespace: label(names::NAMESPACE_LABEL),
            uid: annotation(metadata, names::UID_ANNOTATION),
            adopted: annotation(metadata, names::ADOPTED_ANNOTATION).is_some(),
            seal: annotation(metadata, names::SEAL_ANNOTATION),
        }
    }

    pub(super) fn weight(&self) -> usize {
        let Self { project, namespace, uid, adopted: _, seal } = self;
        weight::texts([project, namespace, uid, seal].into_iter().flatten())
    }
}

pub(super) fn annotation(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned()
}
