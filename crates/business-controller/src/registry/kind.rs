//! The kinds of image namespaces and chart groups.

use super::schedule::MeasureSchedule;
use crate::cache::Cache;
use crate::kinds::{Kind, ProjectKey, View, ViewChange, ViewIndex};
use business_types::registry::RegistryKind;
use business_types::{ChartGroup, ImageNamespace, RegistrySpec, RegistryStatus};
use std::marker::PhantomData;
use std::sync::Arc;

/// A kind whose objects have a prefix of the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered<K>(PhantomData<K>);

pub type BusinessImageNamespace = Registered<ImageNamespace>;
pub type BusinessChartGroup = Registered<ChartGroup>;
pub type RegisteredView<K> = View<Registered<K>>;

impl<K: RegistryKind> Kind for Registered<K> {
    const KIND: &'static str = K::KIND;
    const PLURAL: &'static str = K::PLURAL;
    type Spec = RegistrySpec;
    type Status = RegistryStatus;
    type Key = ProjectKey;
    type Index = NoIndex;
    type Memory = MeasureSchedule;
}

/// No index: objects are only looked up by their keys.
#[derive(Debug, Default)]
pub struct NoIndex;

impl<K: RegistryKind> ViewIndex<Registered<K>> for NoIndex {
    fn follow(&mut self, _change: &ViewChange<Registered<K>>) {}
}

impl<K: RegistryKind> Cache<Registered<K>> {
    /// The objects of a project, sorted by name.
    pub fn of_project(&self, project: &str) -> Vec<Arc<RegisteredView<K>>> {
        self.with_index(|views, _| ProjectKey::within(views, project))
    }
}
