//! Who comes to own what when an object changes: the rules of structured-merge-diff.

use super::compare::{self, Comparison};
use super::contents;
use super::fieldset::FieldSet;
use super::managers::{Entry, Identity, Managers};
use super::merge;
use crate::schema::Schema;
use serde_json::{Map, Value};

/// A change that cannot be made.
pub(super) enum Refusal {
    /// Fields of others, each with its owner.
    Conflicts(Vec<(Identity, FieldSet)>),
    /// An object that the rules do not fit.
    Unfit(String),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self::Unfit(message)
    }
}

/// The endpoint through which objects change.
pub(super) struct Endpoint<'a> {
    pub(super) schema: &'a Schema,
    pub(super) api_version: &'a str,
    /// Subtrees that are not written through this endpoint.
    pub(super) reset: FieldSet,
}

type Tree = Map<String, Value>;

impl Endpoint<'_> {
    /// An object was changed by other means than apply: what the change added and modified is the manager's,
    /// what it modified and removed is no other's.
    pub(super) fn update(
        &self,
        live: &Tree,
        new: &Tree,
        managers: &mut Managers,
    ) -> Result<FieldSet, Refusal> {
        self.reconcile(managers);
        let change = compare::compare(live, new, self.schema)?;
        self.hand_over(&change, managers, None, true)?;
        Ok(change.modified.union(&change.added).recursive_difference(&self.reset))
    }

    /// Merges a configuration; gives the new object, or nothing when the object stays as it is.
    pub(super) fn apply(
        &self,
        live: &Tree,
        config: &Tree,
        managers: &mut Managers,
        applier: &Identity,
        force: bool,
    ) -> Result<Option<Tree>, Refusal> {
        self.reconcile(managers);
        let merged = merge::merge(live, config, self.schema)
            .map_err(|error| format!("failed to merge config: {error}"))?;
        let last = managers.get(applier).map(|entry| entry.fields.clone()).unwrap_or_default();
        let fields = contents::fields_of(config, self.schema)
            .map_err(|error| format!("failed to get field set: {error}"))?
            .recursive_difference(&self.reset);
        let given_up = !last.is_subset(&fields);
        self.claim(managers, applier, fields);
        let new = if given_up {
            self.prune(merged, managers, &last).map_err(|error| format!("failed to prune fields: {error}"))?
        } else {
            merged
        };
        let change = compare::compare(live, &new, self.schema)
            .map_err(|error| format!("failed to compare objects: {error}"))?;
        self.hand_over(&change, managers, Some(applier), force)?;
        let same = compare::same(live, &new);
        Ok(if same { None } else { Some(new) })
    }

    /// Drops managers of versions that are not served and brings the others in line with the schema.
    fn reconcile(&self, managers: &mut Managers) {
        managers.0.retain(|entry| entry.api_version == self.api_version);
        for entry in &mut managers.0 {
            entry.fields.reconcile(self.schema);
        }
    }

    /// Notes what an applier owns, keeping its time; unlike [`Managers::set`] also when it is nothing.
    fn claim(&self, managers: &mut Managers, applier: &Identity, fields: FieldSet) {
        match managers.get_mut(applier) {
            Some(entry) => entry.fields = fields,
            None => managers.0.push(Entry {
                identity: applier.clone(),
                api_version: self.api_version.to_owned(),
                time: None,
                fields,
            }),
        }
    }

    /// Takes changed and removed fields from the other managers; without `force`, taking a changed one is a conflict.
    fn hand_over(
        &self,
        change: &Comparison,
        managers: &mut Managers,
        writer: Option<&Identity>,
        force: bool,
    ) -> Result<(), Refusal> {
        let change = change.without(&self.reset);
        let written = change.modified.union(&change.added);
        let mut conflicts = Vec::new();
        for entry in managers.0.iter().filter(|entry| Some(&entry.identity) != writer) {
            let taken = entry.fields.intersection(&written);
            if !taken.is_empty() {
                conflicts.push((entry.identity.clone(), taken));
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        for entry in managers.0.iter_mut().filter(|entry| Some(&entry.identity) != writer) {
            if let Some((_, taken)) = conflicts.iter().find(|(identity, _)| *identity == entry.identity) {
                entry.fields = entry.fields.difference(taken);
            }
            if !change.removed.is_empty() {
                entry.fields = entry.fields.difference(&change.removed);
            }
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
        let owned = managers.0.iter().fold(FieldSet::default(), |all, entry| all.union(&entry.fields));
        let kept = fields(&pruned)?.union(&named(&owned));
        let pruned = contents::without(&merged, self.schema, &everything.difference(&kept))?;
        // What lies inside something pruned but was never the applier's stays.
        let kept = fields(&pruned)?;
        contents::without(&merged, self.schema, &everything.difference(&kept).intersection(&last))
    }
}
