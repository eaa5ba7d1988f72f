//! Compares two values of one schema: which fields were removed, modified or added (`typed.Comparison`).

use super::field_set::{FieldSet, Membership};
use super::path_element::{PathElement, compare_values};
use super::shape::{Items, Shape, as_list, as_map, zip};
use crate::schema::Schema;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The fields in which two objects differ.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Removes subtrees from all three sets.
    pub(super) fn remove_recursive(&mut self, subtrees: &FieldSet) {
        self.removed.remove_recursive(subtrees);
        self.modified.remove_recursive(subtrees);
        self.added.remove_recursive(subtrees);
    }

    fn push(&mut self, element: &PathElement, comparison: ElementComparison) {
        self.removed.push(element, comparison.removed);
        self.modified.push(element, comparison.modified);
        self.added.push(element, comparison.added);
    }

    fn push_field(&mut self, name: &str, comparison: ElementComparison) {
        self.removed.push_field(name, comparison.removed);
        self.modified.push_field(name, comparison.modified);
        self.added.push_field(name, comparison.added);
    }

    fn sort(&mut self) {
        self.removed.sort();
        self.modified.sort();
        self.added.sort();
    }
}

/// The comparison at one path element: whether the element itself differs, and the fields below it.
#[derive(Default)]
struct ElementComparison {
    removed: Membership,
    modified: Membership,
    added: Membership,
}

impl From<Comparison> for ElementComparison {
    fn from(children: Comparison) -> Self {
        let membership = |children| Membership { member: false, children };
        Self {
            removed: membership(children.removed),
            modified: membership(children.modified),
            added: membership(children.added),
        }
    }
}

/// Compares two objects.
pub(super) fn compare(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    schema: &Schema,
) -> Result<Comparison, String> {
    let Shape::Map(fields) = Shape::of(schema, None) else { return Ok(Comparison::default()) };
    let mut comparison = Comparison::default();
    for (key, old, new) in zip(Some(old), Some(new)) {
        comparison.push_field(key, compare_field(old, new, fields.get(key))?);
    }
    Ok(comparison)
}

fn compare_field(
    old: Option<&Value>,
    new: Option<&Value>,
    schema: Option<&Schema>,
) -> Result<ElementComparison, String> {
    if old == new {
        return Ok(ElementComparison::default());
    }
    schema.map_or_else(|| Ok(leaf(old, new)), |schema| compare_typed(old, new, schema))
}

fn compare_typed(
    old: Option<&Value>,
    new: Option<&Value>,
    schema: &Schema,
) -> Result<ElementComparison, String> {
    let (old_shape, new_shape) = (Shape::of(schema, old), Shape::of(schema, new));
    if new.is_none() {
        return walk(old, new, old_shape);
    }
    let mut comparison = walk(old, new, new_shape)?;
    if old.is_some() && !old_shape.is_like(new_shape) {
        // The value's form has changed: the fields of the old form are removed, too.
        let gone = walk(old, new, old_shape)?;
        comparison.removed.children = comparison.removed.children.union(&gone.removed.children);
        comparison.modified.member |= gone.modified.member;
    }
    Ok(comparison)
}

fn walk(old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>) -> Result<ElementComparison, String> {
    let mut comparison = match shape {
        Shape::Scalar(_) | Shape::AtomicMap(_) | Shape::AtomicList(_) => return Ok(leaf(old, new)),
        Shape::Map(fields) => {
            let (old_map, new_map) = (as_map(old), as_map(new));
            if old_map.is_none_or(Map::is_empty) && new_map.is_none_or(Map::is_empty) {
                return Ok(leaf(old, new));
            }
            let mut children = Comparison::default();
            for (key, old, new) in zip(old_map, new_map) {
                children.push_field(key, compare_field(old, new, fields.get(key))?);
            }
            ElementComparison::from(children)
        }
        Shape::List(items) => {
            let (old_list, new_list) = (as_list(old), as_list(new));
            if old_list.is_none_or(<[_]>::is_empty) && new_list.is_none_or(<[_]>::is_empty) {
                return Ok(leaf(old, new));
            }
            if old_list == new_list {
                return Ok(ElementComparison::default());
            }
            ElementComparison::from(compare_lists(
                old_list.unwrap_or_default(),
                new_list.unwrap_or_default(),
                items,
            )?)
        }
    };
    comparison.added.member |= old.is_none();
    comparison.removed.member |= old.is_some() && new.is_none();
    Ok(comparison)
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> ElementComparison {
    let mut comparison = ElementComparison::default();
    match (old, new) {
        (None, _) => comparison.added = Membership::MEMBER,
        (Some(_), None) => comparison.removed = Membership::MEMBER,
        (Some(old), Some(new)) if compare_values(old, new) != Ordering::Equal => {
            comparison.modified = Membership::MEMBER;
        }
        _ => {}
    }
    comparison
}

/// The old and new items by path element; several where an element is repeated.
type Repeated<'a> = BTreeMap<PathElement, (Vec<&'a Value>, Vec<&'a Value>)>;

fn compare_lists(old: &[Value], new: &[Value], items: Items<'_>) -> Result<Comparison, String> {
    let mut by_element: Repeated<'_> = BTreeMap::new();
    for (element, item) in items.elements(old)?.into_iter().zip(old) {
        by_element.entry(element).or_default().0.push(item);
    }
    for (element, item) in items.elements(new)?.into_iter().zip(new) {
        by_element.entry(element).or_default().1.push(item);
    }
    let mut comparison = Comparison::default();
    for (element, (old, new)) in by_element {
        let item_comparison = match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => compare_typed(old.first().copied(), new.first().copied(), items.schema)?,
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len()
                    && old.iter().zip(&new).all(|(old, new)| compare_values(old, new) == Ordering::Equal);
                let mut item_comparison = ElementComparison::default();
                item_comparison.modified.member = !same;
                item_comparison
            }
            // Repeated items are owned as one value: where repetition ends or begins, their fields get or lose their
            // owners.
            ([_, _, ..], new) => {
                let mut item_comparison = match new.first() {
                    Some(item) => compare_typed(None, Some(item), items.schema)?,
                    None => ElementComparison::default(),
                };
                item_comparison.removed.member = true;
                item_comparison
            }
            (old, _) => {
                let mut item_comparison = match old.first() {
                    Some(item) => compare_typed(Some(item), None, items.schema)?,
                    None => ElementComparison::default(),
                };
                item_comparison.added.member = true;
                item_comparison
            }
        };
        comparison.push(&element, item_comparison);
    }
    comparison.sort();
    Ok(comparison)
}

/// Whether two objects have the same values, apart from their `managedFields`.
pub(super) fn same(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let equal = |old: &Value, new: &Value| old == new || compare_values(old, new) == Ordering::Equal;
    let metadata = |old: &Value, new: &Value| {
        let mut fields = zip(old.as_object(), new.as_object()).filter(|(key, ..)| *key != "managedFields");
        fields.all(|(_, old, new)| old.zip(new).is_some_and(|(old, new)| equal(old, new)))
    };
    zip(Some(old), Some(new)).all(|(key, old, new)| match (old, new) {
        (Some(old), Some(new)) if key == "metadata" => metadata(old, new),
        (Some(old), Some(new)) => equal(old, new),
        _ => false,
    })
}
