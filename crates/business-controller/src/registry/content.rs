//! What both kinds have in common, and what a backend is told of an object.

use super::backend::{Content, RegistryPlace};
use super::kind::{BusinessChartGroup, BusinessImageNamespace, Registered, RegisteredView};
use super::schedule::MeasureSchedule;
use crate::kinds::{ObjectKey as _, ProjectKey};
use crate::objects::RegisteredKind;
use business_types::registry::{ManifestName, RegistryKind};
use business_types::{RegistrySpec, RegistryStatus, names};
use std::collections::BTreeSet;

/// The content of a kind. The supertraits say what else both kinds have in common.
pub trait HasContent:
    RegisteredKind<Spec = RegistrySpec, Status = RegistryStatus, Key = ProjectKey, Memory = MeasureSchedule>
{
    const CONTENT: Content;
}

impl HasContent for BusinessImageNamespace {
    const CONTENT: Content = Content::Images;
}

impl HasContent for BusinessChartGroup {
    const CONTENT: Content = Content::Charts;
}

/// What a backend is told of an object.
pub fn place<K: RegistryKind>(object: &RegisteredView<K>) -> RegistryPlace
where
    Registered<K>: HasContent,
{
    RegistryPlace {
        content: Registered::<K>::CONTENT,
        uid: object.uid.clone(),
        tenant: object.spec.tenant_id.clone(),
        name: object.key.name().to_owned(),
        project: object.key.project.to_string(),
        display_name: object.spec.display_name.clone(),
        untagged: untagged(object),
    }
}

/// Manifests that were without a tag when they were measured, and manifests that were pushed since.
fn untagged<K: RegistryKind>(object: &RegisteredView<K>) -> BTreeSet<ManifestName> {
    let pushed = object.annotations.get(names::REGISTRY_PUSHED_ANNOTATION);
    let pushed = pushed.into_iter().flat_map(|list| list.split_whitespace());
    pushed
        .chain(object.status.untagged.iter().map(String::as_str))
        .filter_map(|name| name.parse().ok())
        .collect()
}
