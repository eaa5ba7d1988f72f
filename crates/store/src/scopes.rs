use crate::model::{Kind, KindId, Standing};
use quota::{Scope, ScopeKind};
use std::sync::Arc;

/// Which kinds stand for scopes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standings(Arc<[(KindId, Standing)]>);

impl Standings {
    pub(crate) fn of_kinds<'a>(kinds: impl Iterator<Item = (KindId, &'a Arc<dyn Kind>)>) -> Self {
        Self(kinds.filter_map(|(id, kind)| Some((id, kind.stands_for()?))).collect())
    }

    /// How objects of a kind stand for scopes.
    pub(crate) fn of(&self, kind: KindId) -> Option<Standing> {
        self.0.iter().find(|(id, _)| *id == kind).map(|(_, standing)| *standing)
    }

    /// The kind whose objects stand for scopes of this kind.
    pub(crate) fn kind_of(&self, scope: &Scope) -> Option<KindId> {
        self.0.iter().find(|(_, standing)| standing.scope == scope.kind).map(|(id, _)| *id)
    }

    pub(crate) fn first(&self) -> Option<KindId> {
        self.0.first().map(|(id, _)| *id)
    }

    pub(crate) fn only(&self) -> ScopeKind {
        self.0.first().map_or(ScopeKind(0), |(_, standing)| standing.scope)
    }
}
