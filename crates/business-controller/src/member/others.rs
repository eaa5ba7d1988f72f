//! Role bindings of a member cluster that are not ours and have subjects. They are only reported.

use super::marks::{Marks, UID_MAX};
use super::weight;
use crate::digest;
use business_types::access::AccessRole;
use k8s_openapi::api::rbac::v1::{RoleBinding, Subject};
use meta::field::shortened;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bindings of a namespace that a message names.
const BINDINGS_NAMED_MAX: usize = 3;
/// Subjects of a binding that a message names.
const SUBJECTS_NAMED_MAX: usize = 2;
/// Bytes that are kept of the description of a binding. Whoever may create bindings chooses how long their names are.
const TEXT_MAX: usize = 256;
/// Bytes of a binding's name that are used as its key. A longer name is cut, and its hash appended.
const NAME_MAX: usize = 253;

/// A binding that is not named like ours and has subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherBinding {
    /// Annotation: uid of the business namespace, if we have made it for a template.
    uid: Option<String>,
    /// Its role and subjects, for a message.
    text: Box<str>,
}

/// Bindings of a namespace that are not ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherAccess {
    pub count: usize,
    /// Descriptions of some of them.
    pub told: Vec<String>,
}

impl OtherBinding {
    /// `None` for a binding that is named like ours, or has no subjects.
    pub fn of(binding: &RoleBinding) -> Option<Self> {
        let name = binding.metadata.name.as_deref().filter(|name| AccessRole::of_name(name).is_none())?;
        let subjects = binding.subjects.as_deref().filter(|subjects| !subjects.is_empty())?;
        let mut named: Vec<String> = subjects.iter().take(SUBJECTS_NAMED_MAX).map(subject).collect();
        if let Some(more) = subjects.len().checked_sub(SUBJECTS_NAMED_MAX).filter(|more| *more > 0) {
            named.push(format!("{more} more"));
        }
        let text = format!("{name} ({} to {})", binding.role_ref.name, named.join(", "));
        let uid = Marks::of(&binding.metadata).uid.filter(|uid| uid.len() <= UID_MAX);
        Some(Self { uid, text: shortened(&text, TEXT_MAX).into() })
    }

    fn weight(&self, namespace: &str, name: &str) -> usize {
        let uid = self.uid.as_deref().unwrap_or_default();
        weight::of(self).saturating_add(weight::texts([namespace, name, uid, &self.text]))
    }
}

/// The key of a binding: two different long names have different keys.
fn kept_name(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME_MAX {
        return Cow::Borrowed(name);
    }
    let begin = name.get(..name.floor_char_boundary(NAME_MAX)).unwrap_or_default();
    Cow::Owned(format!("{begin}{}", digest::sha256(name)))
}

fn subject(subject: &Subject) -> String {
    match &subject.namespace {
        Some(namespace) => format!("{} {namespace}/{}", subject.kind, subject.name),
        None => format!("{} {}", subject.kind, subject.name),
    }
}

/// Bindings that are not ours, by namespace and name, as the watch delivers them.
#[derive(Debug, Default)]
pub struct OtherBindings {
    seen: BindingsByNamespace,
    /// The bindings that the current list has shown so far.
    listed: Option<BindingsByNamespace>,
}

#[derive(Debug, Default)]
struct BindingsByNamespace {
    by_namespace: HashMap<String, BTreeMap<String, Arc<OtherBinding>>>,
    /// About how many bytes they take.
    weight: usize,
}

impl BindingsByNamespace {
    /// Stores a binding. Returns the one that it replaces.
    fn put(&mut self, namespace: &str, name: &str, binding: Arc<OtherBinding>) -> Option<Arc<OtherBinding>> {
        self.weight = self.weight.saturating_add(binding.weight(namespace, name));
        let place = self.by_namespace.entry(namespace.to_owned()).or_default();
        let before = place.insert(name.to_owned(), binding)?;
        self.weight = self.weight.saturating_sub(before.weight(namespace, name));
        Some(before)
    }

    fn take(&mut self, namespace: &str, name: &str) -> Option<Arc<OtherBinding>> {
        let place = self.by_namespace.get_mut(namespace)?;
        let before = place.remove(name);
        if place.is_empty() {
            self.by_namespace.remove(namespace);
        }
        let before = before?;
        self.weight = self.weight.saturating_sub(before.weight(namespace, name));
        Some(before)
    }
}

impl OtherBindings {
    /// The estimated bytes they take.
    pub(super) fn weight(&self) -> usize {
        // The listed ones are among the seen ones.
        self.seen.weight
    }

    pub fn begin_list(&mut self) {
        self.listed = Some(BindingsByNamespace::default());
    }

    /// Ends a list: bindings that it did not contain are removed.
    pub fn end_list(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.seen = listed;
        }
    }

    /// Stores a binding; removes it if `None`. Returns whether that is a change.
    pub fn upsert(&mut self, namespace: &str, name: &str, binding: Option<OtherBinding>) -> bool {
        let (name, binding) = (kept_name(name), binding.map(Arc::new));
        if let (Some(listed), Some(binding)) = (&mut self.listed, &binding) {
            listed.put(namespace, &name, Arc::clone(binding));
        }
        match binding {
            Some(binding) => self.seen.put(namespace, &name, Arc::clone(&binding)).as_ref() != Some(&binding),
            None => self.seen.take(namespace, &name).is_some(),
        }
    }

    /// The bindings of a namespace that were not made for this object.
    pub fn at(&self, namespace: &str, uid: &str) -> OtherAccess {
        let all = self.seen.by_namespace.get(namespace).into_iter().flat_map(BTreeMap::values);
        let mut others = OtherAccess::default();
        for binding in all.filter(|binding| binding.uid.as_deref() != Some(uid)) {
            others.count = others.count.saturating_add(1);
            if others.told.len() < BINDINGS_NAMED_MAX {
                others.told.push(binding.text.to_string());
            }
        }
        others
    }
}

impl OtherAccess {
    /// The message for people.
    pub fn message(&self) -> String {
        let more = match self.count.saturating_sub(self.told.len()) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        format!(
            "{} RoleBindings that are not ours name somebody: {}{more}. Tokens of service accounts and what they were copied \
             to are not seen from here",
            self.count,
            self.told.join(", "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use business_types::names;
    use serde_json::json;

    fn binding(name: &str, subjects: &serde_json::Value) -> RoleBinding {
        serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
            "subjects": subjects,
        }))
        .unwrap()
    }

    #[test]
    fn only_those_that_name_somebody_and_are_not_ours_are_told() {
        let eve = json!([{ "kind": "User", "name": "eve" }]);
        assert_eq!(OtherBinding::of(&binding("business:edit", &eve)), None);
        assert_eq!(OtherBinding::of(&binding("empty", &json!([]))), None);
        let many = json!([{ "kind": "User", "name": "a" }, { "kind": "User", "name": "b" }, { "kind": "User", "name": "c" },
            { "kind": "ServiceAccount", "namespace": "n", "name": "d" }]);
        let mut others = OtherBindings::default();
        for (name, subjects) in [("w", &eve), ("x", &many), ("y", &eve), ("z", &eve)] {
            assert!(others.upsert("n", name, OtherBinding::of(&binding(name, subjects))));
        }
        let told = others.at("n", "u");
        assert_eq!(told.count, 4);
        assert!(told.message().contains("x (edit to User a, User b, 2 more)"), "{}", told.message());
        assert!(told.message().contains(", and 1 more"), "{}", told.message());
        let mut ours = OtherBinding::of(&binding("z", &eve)).unwrap();
        ours.uid = Some("u".into());
        assert!(others.upsert("n", "z", Some(ours)));
        assert_eq!(others.at("n", "u").count, 3, "it was made for a template");
        assert!(others.upsert("n", "w", None) && !others.upsert("n", "w", None));
        let weight = others.weight();
        others.begin_list();
        assert_eq!(others.at("n", "u").count, 2, "until the list has ended");
        others.upsert("m", "y", OtherBinding::of(&binding("y", &eve)));
        assert!(others.weight() > weight, "what is listed counts at once");
        others.end_list();
        assert_eq!(others.at("n", "u"), OtherAccess::default());
        assert!(others.weight() > 0 && others.weight() < weight);
        assert!(others.upsert("m", "y", None));
        assert_eq!(others.weight(), 0);
    }

    #[test]
    fn little_is_kept_of_one_however_long_its_texts_are() {
        let long = "ä".repeat(100_000);
        let eve = json!([{ "kind": "User", "name": long }, { "kind": "User", "name": long }]);
        let mut others = OtherBindings::default();
        for end in ["a", "b"] {
            let name = format!("{long}{end}");
            let mut made = binding(&name, &eve);
            made.metadata.annotations = Some([(names::UID_ANNOTATION.to_owned(), long.clone())].into());
            assert!(others.upsert("n", &name, OtherBinding::of(&made)));
        }
        assert_eq!(others.at("n", &long).count, 2, "neither takes the other's place, and no uid is so long");
        assert!(others.weight() < 3000, "{}", others.weight());
        let message = others.at("n", "u").message();
        assert!(message.len() < 1000 && message.contains("ä…"), "{message}");
        for end in ["a", "b"] {
            assert!(others.upsert("n", &format!("{long}{end}"), None));
        }
        assert_eq!(others.weight(), 0);
        assert_eq!((kept_name("web"), kept_name(&"x".repeat(300)).len()), ("web".into(), 253 + 64));
    }
}
