//! Which manager becomes the owner of which field when an object changes: the rules of structured-merge-diff.

use super::compare::{self, Comparison};
use super::contents;
use super::fieldset::FieldSet;
use super::managers::{ManagerIdentity, Managers};
use super::merge;
use crate::schema::Schema;
use serde_json::{Map, Value};

/// A change that cannot be made.
pub(super) enum OwnershipRefusal {
    /// Fields of others, each with its owner.
    Conflicts(Vec<(ManagerIdentity, FieldSet)>),
    /// An object that the rules do not fit.
    Unfit(String),
}

impl From<String> for OwnershipRefusal {
    fn from(message: String) -> Self {
        Self::Unfit(message)
    }
}

/// The endpoint through which objects change.
pub(super) struct OwnedEndpoint<'a> {
    pub(super) schema: &'a Schema,
    pub(super) api_version: &'a str,
    /// Subtrees that are not written through this endpoint.
    pub(super) reset: FieldSet,
}

type Tree = Map<String, Value>;

impl OwnedEndpoint<'_> {
    /// Tracks a change by other means than apply. The manager owns what it added and modified, and the others lose
    /// what it modified and removed.
    pub(super) fn update(
        &self,
        live: &Tree,
        new: &Tree,
        managers: &mut Managers,
    ) -> Result<FieldSet, OwnershipRefusal> {
        self.reconcile(managers);
        let mut change = compare::compare(live, new, self.schema)?;
        change.remove_below(&self.reset);
        Self::hand_over(&change, managers, None, true)?;
        let mut written = change.modified;
        written.add(change.added);
        Ok(written)
    }

    /// Merges a configuration; gives the new object without `managedFields`, and whether anything changed.
    pub(super) fn apply(
        &self,
        live: &Tree,
        config: &Tree,
        managers: &mut Managers,
        applier: &ManagerIdentity,
        force: bool,
    ) -> Result<(Tree, bool), OwnershipRefusal> {
        self.reconcile(managers);
        let merged = merge::merge(live, config, self.schema)
            .map_err(|error| format!("failed to merge config: {error}"))?;
        let last = managers.get(applier).map(|entry| entry.fields.clone()).unwrap_or_default();
        let mut fields = contents::fields_of(config, self.schema)
            .map_err(|error| format!("failed to get field set: {error}"))?;
        fields.remove_below(&self.reset);
        let given_up = !last.is_subset(&fields);
        managers.change(applier, self.api_version, |entry| entry.fields = fields);
        let new = if given_up {
            self.prune(merged, managers, &last).map_err(|error| format!("failed to prune fields: {error}"))?
        } else {
            merged
        };
        let mut change = compare::compare(live, &new, self.schema)
            .map_err(|error| format!("failed to compare objects: {error}"))?;
        change.remove_below(&self.reset);
        Self::hand_over(&change, managers, Some(applier), force)?;
        let changed = !compare::same(live, &new);
        Ok((new, changed))
    }

    /// Drops managers of versions that are not served and brings the others in line with the schema.
    fn reconcile(&self, managers: &mut Managers) {
        managers.0.retain(|entry| entry.api_version == self.api_version);
        for entry in &mut managers.0 {
            entry.fields.reconcile(self.schema);
        }
    }

    /// Takes changed and removed fields from the other managers; without `force`, taking a changed one is a conflict.
    fn hand_over(
        change: &Comparison,
        managers: &mut Managers,
        writer: Option<&ManagerIdentity>,
        force: bool,
    ) -> Result<(), OwnershipRefusal> {
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
            return Err(OwnershipRefusal::Conflicts(conflicts));
        }
        let mut conflicts = conflicts.into_iter().peekable();
        for entry in managers.0.iter_mut().filter(|entry| Some(&entry.identity) != writer) {
            // They are in the order of the managers.
            if let Some((_, taken)) = conflicts.next_if(|(identity, _)| *identity == entry.identity) {
                entry.fields.remove(&taken);
            }
            entry.fields.remove(&change.removed);
        }
        managers.0.retain(|entry| !entry.fields.is_empty());
        Ok(())
    }

    /// Removes what the applier owned last time, does not list any more, and nobody else owns.
    fn prune(&self, merged: Tree, managers: &Managers, last: &FieldSet) -> Result<Tree, String> {
        if last.is_empty() {
            return Ok(merged);
        }
        let named = |set: &FieldSet| set.with_named_fields(Some(self.schema));
        let fields = |tree: &Tree| contents::fields_of(tree, self.schema).map(|set| named(&set));
        let last = named(last);
        let everything = fields(&merged)?;
        let pruned = contents::without(&merged, self.schema, &last)?;
        let owned = FieldSet::union_of(managers.0.iter().map(|entry| entry.fields.clone()));
        let kept = fields(&pruned)?.union(&named(&owned));
        let pruned = contents::without(&merged, self.schema, &everything.difference(&kept))?;
        // A field inside something pruned stays if it was never the applier's.
        let kept = fields(&pruned)?;
        contents::without(&merged, self.schema, &everything.difference(&kept).intersection(&last))
    }
}
