//! The kind of emigrations.

use crate::kinds::{Kind, ProjectKey, View};
use business_types::{NsEmigrationSpec, NsEmigrationStatus, names};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NsEmigration;

pub type EmigrationView = View<NsEmigration>;

impl Kind for NsEmigration {
    const KIND: &'static str = names::NS_EMIGRATION_KIND;
    const PLURAL: &'static str = names::NS_EMIGRATIONS;
    type Spec = NsEmigrationSpec;
    type Status = NsEmigrationStatus;
    type Key = ProjectKey;
    type Index = ();
    type Memory = ();
}
