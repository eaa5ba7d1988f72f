//! The kind of templates: its index and cache look-ups.

use crate::cache::Cache;
use crate::digest;
use crate::kinds::{Kind, RootKey, View, ViewChange, ViewIndex};
use crate::throttle::StatusThrottle;
use business_types::{AppliedTemplate, NamespaceTemplateSpec, NamespaceTemplateStatus, names};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceTemplate;

pub type TemplateView = View<NamespaceTemplate>;

impl Kind for NamespaceTemplate {
    const KIND: &'static str = names::NAMESPACE_TEMPLATE_KIND;
    const PLURAL: &'static str = names::NAMESPACE_TEMPLATES;
    type Spec = NamespaceTemplateSpec;
    type Status = NamespaceTemplateStatus;
    type Key = RootKey;
    type Index = TemplateStates;
    type Memory = StatusThrottle;
}

/// The current state of each template, and the defaults.
#[derive(Debug, Default)]
pub struct TemplateStates {
    states: BTreeMap<RootKey, AppliedTemplate>,
    defaults: BTreeSet<DefaultTemplate>,
}

/// A default template. One that is being deleted sorts last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DefaultTemplate {
    deleting: bool,
    key: RootKey,
}

impl DefaultTemplate {
    fn of(view: &TemplateView) -> Self {
        Self { deleting: view.is_deleting(), key: view.key.clone() }
    }
}

/// A template, and the state that it should put into namespaces now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentTemplate {
    pub view: Arc<TemplateView>,
    pub state: AppliedTemplate,
}

impl ViewIndex<NamespaceTemplate> for TemplateStates {
    fn follow(&mut self, change: &ViewChange<NamespaceTemplate>) {
        if let Some(old) = &change.old {
            self.states.remove(&old.key);
            self.defaults.remove(&DefaultTemplate::of(old));
        }
        if let Some(new) = &change.new {
            let digest = digest::of(&new.spec.content());
            let state = AppliedTemplate { name: new.key.name.to_string(), digest };
            self.states.insert(new.key.clone(), state);
            if new.spec.default {
                self.defaults.insert(DefaultTemplate::of(new));
            }
        }
    }
}

impl Cache<NamespaceTemplate> {
    pub fn current(&self, key: &RootKey) -> Option<CurrentTemplate> {
        self.with_index(|views, states| {
            Some(CurrentTemplate { view: views.get(key).cloned()?, state: states.states.get(key)?.clone() })
        })
    }

    /// The template of namespaces for which nobody names one.
    pub fn default_key(&self) -> Option<RootKey> {
        self.with_index(|_, states| states.defaults.first().map(|first| first.key.clone()))
    }
}
