//! Sets of field paths (`fieldpath.Set`), their set operations, and their `FieldsV1` form.

use super::path_element::PathElement;
use crate::schema::{Schema, Type};
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// A set of field paths as a tree, sorted at every level. The empty path is never in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(Vec<Node>);

/// A path element, whether the path that ends there is in the set, and the paths that go on from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

/// What a set has at one path element: whether the path that ends there is in it, and the paths that go on.
#[derive(Debug, Default)]
pub(super) struct Membership {
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

impl Membership {
    pub(super) const MEMBER: Self = Self { member: true, children: FieldSet(Vec::new()) };

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// Whether it has no path.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of paths in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|node| usize::from(node.member).saturating_add(node.children.len())).sum()
    }

    /// Adds a path. An empty path is ignored.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.0.binary_search_by(|node| node.element.cmp(first)) {
            Ok(at) => at,
            Err(at) => {
                let node = Node { element: first.clone(), member: false, children: Self::default() };
                self.0.insert(at, node);
                at
            }
        };
        let Some(node) = self.0.get_mut(at) else { return };
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// A set of paths of plain field names.
    pub fn of_names(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert_names(path);
        }
        set
    }

    /// As [`Self::insert`], but copies a name only where it is new in the set.
    fn insert_names(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.0.binary_search_by(|node| node.element.cmp_field(first)) {
            Ok(at) => at,
            Err(at) => {
                let element = PathElement::Field((*first).to_owned());
                self.0.insert(at, Node { element, member: false, children: Self::default() });
                at
            }
        };
        let Some(node) = self.0.get_mut(at) else { return };
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert_names(rest);
        }
    }

    /// Whether a path is in it.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first)
            .is_some_and(|node| if rest.is_empty() { node.member } else { node.children.has(rest) })
    }

    /// All paths in upstream's order: at each level, those that end there come first.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, found: &mut Vec<Vec<PathElement>>) {
        for node in self.0.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            found.push(path);
        }
        for node in &self.0 {
            prefix.push(node.element.clone());
            node.children.collect(prefix, found);
            prefix.pop();
        }
    }

    pub(super) fn get(&self, element: &PathElement) -> Option<&Node> {
        let at = self.0.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.0.get(at)
    }

    pub(super) fn get_field(&self, name: &str) -> Option<&Node> {
        let at = self.0.binary_search_by(|node| node.element.cmp_field(name)).ok()?;
        self.0.get(at)
    }

    /// Adds an element. If elements are not added in their order, [`Self::sort`] has to follow.
    pub(super) fn push(&mut self, element: &PathElement, membership: Membership) {
        if !membership.is_empty() {
            self.0.push(Node {
                element: element.clone(),
                member: membership.member,
                children: membership.children,
            });
        }
    }

    pub(super) fn push_field(&mut self, name: &str, membership: Membership) {
        if !membership.is_empty() {
            self.0.push(Node {
                element: PathElement::Field(name.to_owned()),
                member: membership.member,
                children: membership.children,
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
                    children: a.children.union(&b.children),
                }),
                (one, other) => one.or(other).cloned(),
            });
        }
    }

    /// The paths that are in any of the sets. Each path is moved once per level, however many sets there are.
    pub(super) fn union_of(sets: impl IntoIterator<Item = Self>) -> Self {
        Self::from_nodes(sets.into_iter().flat_map(|set| set.0).collect())
    }

    /// A set from nodes in any order. Nodes of one element are merged.
    fn from_nodes(mut nodes: Vec<Node>) -> Self {
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut set = Vec::with_capacity(nodes.len());
        let mut nodes = nodes.into_iter().peekable();
        while let Some(mut node) = nodes.next() {
            let mut children = Vec::new();
            while let Some(same) = nodes.next_if(|next| next.element == node.element) {
                node.member |= same.member;
                children.extend(same.children.0);
            }
            if !children.is_empty() {
                children.append(&mut node.children.0);
                node.children = Self::from_nodes(children);
            }
            set.push(node);
        }
        Self(set)
    }

    /// The paths that are in both sets. Only the smaller set is walked: a large set may be compared with many small
    /// ones.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        let mut both = Self::default();
        for one in &few.0 {
            if let Some(other) = many.get(&one.element) {
                let children = one.children.intersection(&other.children);
                both.push(&one.element, Membership { member: one.member && other.member, children });
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
            if let Some(removed) = other.get(&node.element) {
                node.member &= !removed.member;
                node.children.remove(&removed.children);
            }
            node.member || !node.children.is_empty()
        });
    }

    /// Removes the paths of the other set, and all paths below them (`RecursiveDifference`).
    pub fn remove_recursive(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.0.retain_mut(|node| match other.get(&node.element) {
            Some(removed) if removed.member => false,
            Some(removed) => {
                node.children.remove_recursive(&removed.children);
                node.member || !node.children.is_empty()
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

    /// Whether all its paths are in the other set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().all(|node| match other.get(&node.element) {
            Some(theirs) => (theirs.member || !node.member) && node.children.is_subset(&theirs.children),
            None => false,
        })
    }

    /// The same set with every declared field on the way to a path added (`EnsureNamedFieldsAreMembers`).
    #[must_use]
    pub(super) fn with_named_fields_as_members(&self, schema: Option<&Schema>) -> Self {
        let with = |node: &Node| {
            let inner = schema.and_then(|schema| child(schema, &node.element));
            let named = matches!(
                (schema.map(|schema| &schema.ty), &node.element),
                (Some(Type::Struct { fields, .. }), PathElement::Field(name)) if fields.contains_key(name.as_str())
            );
            Node {
                element: node.element.clone(),
                member: node.member || (named && !node.children.is_empty()),
                children: node.children.with_named_fields_as_members(inner),
            }
        };
        Self(self.0.iter().map(with).collect())
    }

    /// Adapts the set to a schema in which more types are atomic than when it was written: an atomic value is owned as
    /// a whole.
    pub(super) fn reconcile(&mut self, schema: &Schema) {
        for node in &mut self.0 {
            let Some(inner) = child(schema, &node.element) else { continue };
            if node.children.is_empty() {
                continue;
            }
            if is_atomic(inner) {
                node.member = true;
                node.children = Self::default();
            } else {
                node.children.reconcile(inner);
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
            let Some(element) = PathElement::parse(key)? else { continue };
            let children = Self::from_value(value)?;
            let member = children.is_empty() || value.get(".").is_some();
            nodes.push(Node { element, member, children });
        }
        Ok(Self::from_nodes(nodes))
    }

    /// Writes `FieldsV1`.
    pub fn to_value(&self) -> Value {
        Value::Object(self.to_map())
    }

    fn to_map(&self) -> Map<String, Value> {
        let entry = |node: &Node| {
            let mut map = node.children.to_map();
            if node.member && !map.is_empty() {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (node.element.to_key(), Value::Object(map))
        };
        self.0.iter().map(entry).collect()
    }
}

/// The schema of the value at a path element.
fn child<'a>(schema: &'a Schema, element: &PathElement) -> Option<&'a Schema> {
    match element {
        PathElement::Field(name) => match &schema.ty {
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
