//! Which manager owns which field after an object was changed: the rules of structured-merge-diff (`merge.Updater`).

use super::compare::{self, Comparison};
use super::field_set::FieldSet;
use super::managers::{ManagerIdentity, Managers};
use super::merge;
use super::typed;
use crate::schema::Schema;
use serde_json::{Map, Value};

/// Why a change is refused.
pub(super) enum OwnershipError {
    /// The change would take fields from other managers.
    Conflicts(Vec<(ManagerIdentity, FieldSet)>),
    /// An object does not fit the schema.
    Invalid(String),
}

impl From<String> for OwnershipError {
    fn from(message: String) -> Self {
        Self::Invalid(message)
    }
}

/// Updates the owners when objects are changed through one endpoint.
pub(super) struct Updater<'a> {
    pub(super) schema: &'a Schema,
    pub(super) api_version: &'a str,
    /// Subtrees that this endpoint does not write.
    pub(super) reset: FieldSet,
}

type Tree = Map<String, Value>;

impl Updater<'_> {
    /// Tracks a change that is no apply. The other managers lose the fields that it added, modified or removed. Returns
    /// the fields that the writer owns from now on: those added and modified.
    pub(super) fn update(
        &self,
        live: &Tree,
        new: &Tree,
        managers: &mut Managers,
    ) -> Result<FieldSet, OwnershipError> {
        self.reconcile(managers);
        let mut change = compare::compare(live, new, self.schema)?;
        change.remove_recursive(&self.reset);
        Self::take_from_others(&change, managers, None, true)?;
        let mut written = change.modified;
        written.add(change.added);
        Ok(written)
    }

    /// Merges a configuration. Returns the new object without `managedFields`, and whether anything changed.
    pub(super) fn apply(
        &self,
        live: &Tree,
        config: &Tree,
        managers: &mut Managers,
        applier: &ManagerIdentity,
        force: bool,
    ) -> Result<(Tree, bool), OwnershipError> {
        self.reconcile(managers);
        let merged = merge::merge(live, config, self.schema)
            .map_err(|error| format!("failed to merge config: {error}"))?;
        let mut fields = typed::fields_of(config, self.schema)
            .map_err(|error| format!("failed to get field set: {error}"))?;
        fields.remove_recursive(&self.reset);
        let last =
            managers.get_mut(applier).map(|entry| std::mem::take(&mut entry.fields)).unwrap_or_default();
        let given_up = !last.is_subset(&fields);
        managers.change(applier, self.api_version, |entry| entry.fields = fields);
        let new = if given_up {
            self.prune(merged, managers, &last).map_err(|error| format!("failed to prune fields: {error}"))?
        } else {
            merged
        };
        let mut change = compare::compare(live, &new, self.schema)
            .map_err(|error| format!("failed to compare objects: {error}"))?;
        change.remove_recursive(&self.reset);
        Self::take_from_others(&change, managers, Some(applier), force)?;
        let changed = !compare::same(live, &new);
        Ok((new, changed))
    }

    /// Drops managers of versions that are not served, and adapts the field sets of the others to the schema.
    fn reconcile(&self, managers: &mut Managers) {
        managers.0.retain(|entry| entry.api_version == self.api_version);
        for entry in &mut managers.0 {
            entry.fields.reconcile(self.schema);
        }
    }

    /// Takes added, modified and removed fields from the managers other than the writer. Without `force`, taking an
    /// added or modified one is a conflict.
    fn take_from_others(
        change: &Comparison,
        managers: &mut Managers,
        writer: Option<&ManagerIdentity>,
        force: bool,
    ) -> Result<(), OwnershipError> {
        let others = || managers.0.iter().filter(|entry| Some(&entry.identity) != writer);
        let mut conflicts = Vec::new();
        for entry in others() {
            let mut taken = entry.fields.intersection(&change.modified);
            taken.add(entry.fields.intersection(&change.added));
            if !taken.is_empty() {
                conflicts.push((entry.identity.clone(), taken));
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(OwnershipError::Conflicts(conflicts));
        }
        let mut conflicts = conflicts.into_iter().peekable();
        for entry in managers.0.iter_mut().filter(|entry| Some(&entry.identity) != writer) {
            // The conflicts are in the order of the managers.
            if let Some((_, taken)) = conflicts.next_if(|(identity, _)| *identity == entry.identity) {
                entry.fields.remove(&taken);
            }
            entry.fields.remove(&change.removed);
        }
        managers.0.retain(|entry| !entry.fields.is_empty());
        Ok(())
    }

    /// Removes the fields that the applier owned before, does not list any more, and nobody else owns.
    fn prune(&self, merged: Tree, managers: &Managers, last: &FieldSet) -> Result<Tree, String> {
        if last.is_empty() {
            return Ok(merged);
        }
        let named = |set: &FieldSet| set.with_named_fields_as_members(Some(self.schema));
        let fields = |tree: &Tree| typed::fields_of(tree, self.schema).map(|set| named(&set));
        let last = named(last);
        let everything = fields(&merged)?;
        let pruned = typed::remove_items(&merged, self.schema, &last)?;
        let owned = FieldSet::union_of(managers.0.iter().map(|entry| entry.fields.clone()));
        let kept = fields(&pruned)?.union(&named(&owned));
        let pruned = typed::remove_items(&merged, self.schema, &everything.difference(&kept))?;
        // A field inside a pruned value stays if the applier never owned it.
        let kept = fields(&pruned)?;
        typed::remove_items(&merged, self.schema, &everything.difference(&kept).intersection(&last))
    }
}
