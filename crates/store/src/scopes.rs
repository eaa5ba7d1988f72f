use crate::model::{Kind, KindId, ScopeRole};
use quota::{Scope, ScopeKind};
use std::sync::Arc;

/// The kinds whose objects stand for scopes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeRoles(Arc<[(KindId, ScopeRole)]>);

impl ScopeRoles {
    pub(crate) fn of_kinds<'a>(kinds: impl Iterator<Item = (KindId, &'a Arc<dyn Kind>)>) -> Self {
        Self(kinds.filter_map(|(id, kind)| Some((id, kind.stands_for()?))).collect())
    }

    /// How objects of a kind stand for scopes.
    pub(crate) fn of(&self, kind: KindId) -> Option<ScopeRole> {
        self.0.iter().find(|(id, _)| *id == kind).map(|(_, role)| *role)
    }

    /// The kind of the objects that stand for scopes of this scope's kind.
    pub(crate) fn kind_of(&self, scope: &Scope) -> Option<KindId> {
        self.0.iter().find(|(_, role)| role.scope == scope.kind).map(|(id, _)| *id)
    }

    /// Whether scopes of this kind accept domains that they do not list.
    pub(crate) fn is_open(&self, scope: &Scope) -> bool {
        self.0.iter().any(|(_, role)| role.scope == scope.kind && !role.required)
    }

    /// For each kind of scopes, by its number: the kind of the objects that stand for them.
    pub(crate) fn kinds(&self) -> Vec<Option<i16>> {
        self.by_scope().map(|found| found.map(|(id, _)| id.0)).collect()
    }

    /// For each kind of scopes, by its number: whether a scope without its object accepts no charge. `None` if no
    /// object stands for these scopes.
    pub(crate) fn required(&self) -> Vec<Option<bool>> {
        self.by_scope().map(|found| found.map(|(_, role)| role.required)).collect()
    }

    fn by_scope(&self) -> impl Iterator<Item = Option<&(KindId, ScopeRole)>> {
        let last = self.0.iter().map(|(_, role)| role.scope.0).max().unwrap_or_default();
        (1..=last).map(|number| self.0.iter().find(|(_, role)| role.scope == ScopeKind(number)))
    }
}
