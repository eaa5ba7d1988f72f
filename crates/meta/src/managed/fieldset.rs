//! Sets of fields, with the algebra that ownership needs, and their `FieldsV1` form.

use super::element::Element;
use crate::schema::{Schema, Type};
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// A set of field paths as a tree, sorted at every level. The root itself is never in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(Vec<Node>);

/// An element of which the set has itself, paths below it, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: Element,
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

/// What a set has at one place: the place itself, and paths below it.
#[derive(Debug, Default)]
pub(super) struct Mark {
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl Mark {
    pub(super) const MEMBER: Self = Self { member: true, below: FieldSet(Vec::new()) };

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Whether it has no path.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of paths in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|node| usize::from(node.member).saturating_add(node.below.len())).sum()
    }

    /// Adds a path; the empty path is passed over.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.0.binary_search_by(|node| node.element.cmp(first)) {
            Ok(at) => at,
            Err(at) => {
                let node = Node { element: first.clone(), member: false, below: Self::default() };
                self.0.insert(at, node);
                at
            }
        };
        let Some(node) = self.0.get_mut(at) else { return };
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    /// A set of paths of plain field names.
    pub fn of_names(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::Field((*name).to_owned())).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether a path is in it.
    pub fn has(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first).is_some_and(|node| if rest.is_empty() { node.member } else { node.below.has(rest) })
    }

    /// All paths, shorter ones of a level first, as upstream lists them.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, prefix: &mut Vec<Element>, found: &mut Vec<Vec<Element>>) {
        for node in self.0.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            found.push(path);
        }
        for node in &self.0 {
            prefix.push(node.element.clone());
            node.below.collect(prefix, found);
            prefix.pop();
        }
    }

    pub(super) fn get(&self, element: &Element) -> Option<&Node> {
        let at = self.0.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.0.get(at)
    }

    pub(super) fn get_field(&self, name: &str) -> Option<&Node> {
        let at = self.0.binary_search_by(|node| node.element.cmp_field(name)).ok()?;
        self.0.get(at)
    }

    /// Adds what was found at an element. Elements may come in any order if [`Self::sort`] follows.
    pub(super) fn push(&mut self, element: &Element, mark: Mark) {
        if !mark.is_empty() {
            self.0.push(Node { element: element.clone(), member: mark.member, below: mark.below });
        }
    }

    pub(super) fn push_field(&mut self, name: &str, mark: Mark) {
        if !mark.is_empty() {
            self.0.push(Node {
                element: Element::Field(name.to_owned()),
                member: mark.member,
                below: mark.below,
            });
        }
    }

    pub(super) fn sort(&mut self) {
        self.0.sort_by(|a, b| a.element.cmp(&b.element));
    }

    /// The paths that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut out = Self::default();
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.element.cmp(&b.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return out,
            };
            let from_left = if order == Ordering::Greater { None } else { left.next() };
            let from_right = if order == Ordering::Less { None } else { right.next() };
            out.0.extend(match (from_left, from_right) {
                (Some(a), Some(b)) => Some(Node {
                    element: a.element.clone(),
                    member: a.member || b.member,
                    below: a.below.union(&b.below),
                }),
                (one, other) => one.or(other).cloned(),
            });
        }
    }

    /// The paths that are in any of the sets. Each path is moved once a level, however many sets there are.
    pub(super) fn union_of(sets: impl IntoIterator<Item = Self>) -> Self {
        Self::gathered(sets.into_iter().flat_map(|set| set.0).collect())
    }

    /// A set of nodes in any order; those of one element are put together.
    fn gathered(mut nodes: Vec<Node>) -> Self {
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut set = Vec::with_capacity(nodes.len());
        let mut nodes = nodes.into_iter().peekable();
        while let Some(mut node) = nodes.next() {
            let mut below = Vec::new();
            while let Some(same) = nodes.next_if(|next| next.element == node.element) {
                node.member |= same.member;
                below.extend(same.below.0);
            }
            if !below.is_empty() {
                below.append(&mut node.below.0);
                node.below = Self::gathered(below);
            }
            set.push(node);
        }
        Self(set)
    }

    /// The paths that are in both sets. The larger set is not walked: there may be many small ones to compare with
    /// it.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        let mut both = Self::default();
        for one in &few.0 {
            if let Some(other) = many.get(&one.element) {
                let below = one.below.intersection(&other.below);
                both.push(&one.element, Mark { member: one.member && other.member, below });
            }
        }
        both
    }

    /// The paths that are only in this set.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = self.clone();
        left.remove(other);
        left
    }

    /// Removes the paths of the other set.
    pub fn remove(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.0.retain_mut(|node| {
            if let Some(doomed) = other.get(&node.element) {
                node.member &= !doomed.member;
                node.below.remove(&doomed.below);
            }
            node.member || !node.below.is_empty()
        });
    }

    /// Removes the paths of the other set, and those below them.
    pub fn remove_below(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.0.retain_mut(|node| match other.get(&node.element) {
            Some(doomed) if doomed.member => false,
            Some(doomed) => {
                node.below.remove_below(&doomed.below);
                node.member || !node.below.is_empty()
            }
            None => true,
        });
    }

    /// Adds the paths of the other set.
    pub fn add(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            *self = self.union(&other);
        }
    }

    /// Whether the other set has all its paths.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().all(|node| match other.get(&node.element) {
            Some(known) => (known.member || !node.member) && node.below.is_subset(&known.below),
            None => false,
        })
    }

    /// The same set, in which every declared field that leads to a path is itself a member.
    #[must_use]
    pub(super) fn with_named_fields(&self, schema: Option<&Schema>) -> Self {
        let with = |node: &Node| {
            let inner = schema.and_then(|schema| child(schema, &node.element));
            let named = matches!(
                (schema.map(|schema| &schema.ty), &node.element),
                (Some(Type::Struct { fields, .. }), Element::Field(name)) if fields.contains_key(name.as_str())
            );
            Node {
                element: node.element.clone(),
                member: node.member || (named && !node.below.is_empty()),
                below: node.below.with_named_fields(inner),
            }
        };
        Self(self.0.iter().map(with).collect())
    }

    /// Brings a set up to date with a schema in which more is atomic than when it was written.
    pub(super) fn reconcile(&mut self, schema: &Schema) {
        for node in &mut self.0 {
            let Some(inner) = child(schema, &node.element) else { continue };
            if node.below.is_empty() {
                continue;
            }
            if is_atomic(inner) {
                node.member = true;
                node.below = Self::default();
            } else {
                node.below.reconcile(inner);
            }
        }
    }

    /// Reads `FieldsV1`.
    pub fn from_value(fields: &Value) -> Result<Self, String> {
        let Value::Object(map) = fields else { return Err("FieldsV1 must be an object".to_owned()) };
        let mut nodes = Vec::with_capacity(map.len());
        for (key, value) in map {
            if key == "." {
                continue;
            }
            let Some(element) = Element::parse(key)? else { continue };
            let below = Self::from_value(value)?;
            let member = below.is_empty() || value.get(".").is_some();
            nodes.push(Node { element, member, below });
        }
        Ok(Self::gathered(nodes))
    }

    /// Writes `FieldsV1`.
    pub fn to_value(&self) -> Value {
        Value::Object(self.to_map())
    }

    fn to_map(&self) -> Map<String, Value> {
        let entry = |node: &Node| {
            let mut map = node.below.to_map();
            if node.member && !map.is_empty() {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (node.element.to_key(), Value::Object(map))
        };
        self.0.iter().map(entry).collect()
    }
}

/// The shape of what stands at an element.
fn child<'a>(schema: &'a Schema, element: &Element) -> Option<&'a Schema> {
    match element {
        Element::Field(name) => match &schema.ty {
            Type::Any => Some(schema),
            _ => schema.field(name),
        },
        _ => schema.items(),
    }
}

fn is_atomic(schema: &Schema) -> bool {
    match &schema.ty {
        Type::Struct { atomic, .. } | Type::Map { atomic, .. } => *atomic,
        Type::List { list, .. } => *list == crate::schema::ListType::Atomic,
        _ => false,
    }
}
