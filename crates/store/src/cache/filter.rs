//! The objects that one reader gets: those of his selection that he may see.

use crate::access::{Access, Visibility};
use crate::model::{Attributes, Entry, Key};
use crate::read::Selection;
use meta::selector::Operator;

pub(crate) const NAME_FIELD: &str = "metadata.name";
pub(crate) const NAMESPACE_FIELD: &str = "metadata.namespace";

/// A selection and an access, compiled for one kind.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    access: Access,
    selection: Selection,
    fields: &'static [&'static str],
}

impl Filter {
    pub(crate) fn new(access: &Access, selection: &Selection, fields: &'static [&'static str]) -> Self {
        Self { access: access.clone(), selection: selection.clone(), fields }
    }

    pub(crate) fn selection(&self) -> &Selection {
        &self.selection
    }

    pub(crate) fn visibility(&self) -> &Visibility {
        self.access.visibility()
    }

    /// Names of the selectable fields, in the order of the attributes.
    pub(crate) fn fields(&self) -> &'static [&'static str] {
        self.fields
    }

    /// Whether every object in the selection's namespace matches.
    pub(crate) fn selects_all(&self) -> bool {
        self.selection.labels.is_empty()
            && self.selection.fields.is_empty()
            && *self.access.visibility() == Visibility::Everything
    }

    /// The one name that can match.
    pub(crate) fn name(&self) -> Option<&str> {
        self.selection.fields.exact(NAME_FIELD)
    }

    /// The one namespace that can match.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.selection.namespace.as_deref().or_else(|| self.selection.fields.exact(NAMESPACE_FIELD))
    }

    /// The equality terms on labels and fields, each with the values of which it accepts one.
    pub(crate) fn equalities(&self) -> impl Iterator<Item = (TermSubject<'_>, &[String])> {
        let labels =
            self.selection.labels.requirements().iter().filter(|term| {
                matches!(term.operator, Operator::Equals | Operator::DoubleEquals | Operator::In)
            });
        let fields = self
            .selection
            .fields
            .requirements()
            .iter()
            .filter(|term| matches!(term.operator, Operator::Equals | Operator::DoubleEquals));
        labels
            .map(|term| (TermSubject::Label(&term.key), term.values.as_slice()))
            .chain(fields.map(|term| (TermSubject::Field(&term.key), term.values.as_slice())))
    }

    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        self.accepts(&entry.key, &entry.attributes)
    }

    /// Whether an object with these attributes is in the selection and visible to the reader.
    pub(crate) fn accepts(&self, key: &Key, attributes: &Attributes) -> bool {
        let selection = &self.selection;
        key.kind == selection.kind
            && selection.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
            && self.access.sees(&key.namespace, &key.name, attributes)
            && (selection.labels.is_empty() || selection.labels.matches(|label| attributes.label(label)))
            && (selection.fields.is_empty()
                || selection.fields.matches(|field| self.field(key, attributes, field)))
    }

    fn field<'a>(&self, key: &'a Key, attributes: &'a Attributes, field: &str) -> Option<&'a str> {
        match field {
            NAME_FIELD => Some(&key.name),
            NAMESPACE_FIELD => Some(&key.namespace),
            _ => {
                let at = self.fields.iter().position(|known| *known == field)?;
                attributes.fields.get(at).map(|value| &**value)
            }
        }
    }
}

/// The label or field of an equality term.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TermSubject<'a> {
    Label(&'a str),
    Field(&'a str),
}

impl Attributes {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| **label == *key).map(|(_, value)| &**value)
    }
}
