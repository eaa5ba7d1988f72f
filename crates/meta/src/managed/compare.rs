//! Two values of one schema compared: which fields were removed, modified, added.

use super::element::{Element, compare_values};
use super::fieldset::{FieldSet, Mark};
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
    /// Leaves some subtrees out.
    pub(super) fn remove_below(&mut self, subtrees: &FieldSet) {
        self.removed.remove_below(subtrees);
        self.modified.remove_below(subtrees);
        self.added.remove_below(subtrees);
    }

    fn push(&mut self, element: &Element, marks: Marks) {
        self.removed.push(element, marks.removed);
        self.modified.push(element, marks.modified);
        self.added.push(element, marks.added);
    }

    fn push_field(&mut self, name: &str, marks: Marks) {
        self.removed.push_field(name, marks.removed);
        self.modified.push_field(name, marks.modified);
        self.added.push_field(name, marks.added);
    }

    fn sort(&mut self) {
        self.removed.sort();
        self.modified.sort();
        self.added.sort();
    }
}

/// What was found at one place.
#[derive(Default)]
struct Marks {
    removed: Mark,
    modified: Mark,
    added: Mark,
}

impl From<Comparison> for Marks {
    fn from(below: Comparison) -> Self {
        let mark = |below| Mark { member: false, below };
        Self { removed: mark(below.removed), modified: mark(below.modified), added: mark(below.added) }
    }
}

/// Compares two objects.
pub(super) fn compare(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    schema: &Schema,
) -> Result<Comparison, String> {
    let Shape::Map(fields) = Shape::of(schema, None) else { return Ok(Comparison::default()) };
    let mut found = Comparison::default();
    for (key, old, new) in zip(Some(old), Some(new)) {
        found.push_field(key, compare_field(old, new, fields.get(key))?);
    }
    Ok(found)
}

fn compare_field(old: Option<&Value>, new: Option<&Value>, schema: Option<&Schema>) -> Result<Marks, String> {
    if old == new {
        return Ok(Marks::default());
    }
    schema.map_or_else(|| Ok(leaf(old, new)), |schema| compare_values_of(old, new, schema))
}

fn compare_values_of(old: Option<&Value>, new: Option<&Value>, schema: &Schema) -> Result<Marks, String> {
    let (old_shape, new_shape) = (Shape::of(schema, old), Shape::of(schema, new));
    if new.is_none() {
        return walk(old, new, old_shape);
    }
    let mut marks = walk(old, new, new_shape)?;
    if old.is_some() && !old_shape.is_like(new_shape) {
        // The fields below the old form are gone, beside the changes that the new form shows.
        let gone = walk(old, new, old_shape)?;
        marks.removed.below = marks.removed.below.union(&gone.removed.below);
        marks.modified.member |= gone.modified.member;
    }
    Ok(marks)
}

fn walk(old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>) -> Result<Marks, String> {
    let mut marks = match shape {
        Shape::Scalar(_) | Shape::AtomicMap(_) | Shape::AtomicList(_) => return Ok(leaf(old, new)),
        Shape::Map(fields) => {
            let (old_map, new_map) = (as_map(old), as_map(new));
            if old_map.is_none_or(Map::is_empty) && new_map.is_none_or(Map::is_empty) {
                return Ok(leaf(old, new));
            }
            let mut below = Comparison::default();
            for (key, old, new) in zip(old_map, new_map) {
                below.push_field(key, compare_field(old, new, fields.get(key))?);
            }
            Marks::from(below)
        }
        Shape::List(items) => {
            let (old_list, new_list) = (as_list(old), as_list(new));
            if old_list.is_none_or(<[_]>::is_empty) && new_list.is_none_or(<[_]>::is_empty) {
                return Ok(leaf(old, new));
            }
            if old_list == new_list {
                return Ok(Marks::default());
            }
            Marks::from(compare_lists(old_list.unwrap_or_default(), new_list.unwrap_or_default(), items)?)
        }
    };
    marks.added.member |= old.is_none();
    marks.removed.member |= old.is_some() && new.is_none();
    Ok(marks)
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Marks {
    let mut marks = Marks::default();
    match (old, new) {
        (None, _) => marks.added = Mark::MEMBER,
        (Some(_), None) => marks.removed = Mark::MEMBER,
        (Some(old), Some(new)) if compare_values(old, new) != Ordering::Equal => {
            marks.modified = Mark::MEMBER;
        }
        _ => {}
    }
    marks
}

/// Items by their element; more than one where an element is repeated.
type Repeated<'a> = BTreeMap<Element, (Vec<&'a Value>, Vec<&'a Value>)>;

fn compare_lists(old: &[Value], new: &[Value], items: Items<'_>) -> Result<Comparison, String> {
    let mut by_element: Repeated<'_> = BTreeMap::new();
    for (element, item) in items.elements(old)?.into_iter().zip(old) {
        by_element.entry(element).or_default().0.push(item);
    }
    for (element, item) in items.elements(new)?.into_iter().zip(new) {
        by_element.entry(element).or_default().1.push(item);
    }
    let mut found = Comparison::default();
    for (element, (old, new)) in by_element {
        let marks = match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => {
                compare_values_of(old.first().copied(), new.first().copied(), items.schema)?
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len()
                    && old.iter().zip(&new).all(|(old, new)| compare_values(old, new) == Ordering::Equal);
                let mut marks = Marks::default();
                marks.modified.member = !same;
                marks
            }
            // Repeated items are owned as one; ownership of parts comes and goes with repetition.
            ([_, _, ..], new) => {
                let mut marks = match new.first() {
                    Some(item) => compare_values_of(None, Some(item), items.schema)?,
                    None => Marks::default(),
                };
                marks.removed.member = true;
                marks
            }
            (old, _) => {
                let mut marks = match old.first() {
                    Some(item) => compare_values_of(Some(item), None, items.schema)?,
                    None => Marks::default(),
                };
                marks.added.member = true;
                marks
            }
        };
        found.push(&element, marks);
    }
    found.sort();
    Ok(found)
}

/// Whether two objects hold the same values, their `managedFields` apart.
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
