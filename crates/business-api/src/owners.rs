//! Whom an object may name in `metadata.ownerReferences`. The garbage collector knows owners by their uid alone, and a
//! dependent that blocks holds its owner's deletion: an owner is always of the object's own tenant.

use business_types::names::GROUP;
use meta::field::{FieldError, Path};
use meta::object::Object;
use serde::Deserialize;
use serde_json::{Value, json};

const OWNERS: &[&str] = &["metadata", "ownerReferences"];

/// A reference that a write adds or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOwner {
    /// Its place in the list.
    pub at: usize,
    /// The kind, if it is one of this group's.
    pub kind: Option<String>,
    /// The owner's name.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
}

/// What a look-up of a kind, name and uid has found where the owner has to be: in the object's namespace, or in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// No object of this name and uid.
    Nothing,
    /// An object of this tenant.
    Of(&'a str),
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

/// The references that the old object does not have, letter by letter.
pub fn new_owners(old: Option<&Object>, new: &Object) -> Vec<NewOwner> {
    let before = old.map(references).unwrap_or_default();
    let added = references(new).iter().enumerate().filter(|(_, reference)| !before.contains(reference));
    added
        .map(|(at, value)| {
            // What is malformed is refused by the rules for metadata.
            let Reference { api_version, kind, name, uid } =
                Reference::deserialize(value).unwrap_or_default();
            let group = api_version.split_once('/').map_or("", |(group, _version)| group);
            NewOwner { at, kind: (group == GROUP).then_some(kind), name, uid }
        })
        .collect()
}

fn references(object: &Object) -> &[Value] {
    object.get(OWNERS).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What is wrong with a reference of an object of a tenant. `confined`: the writer sees no other tenant, to whom a foreign
/// owner and none are the same. An operator may refer to what is elsewhere, or not there yet.
pub fn check(owner: &NewOwner, found: Found<'_>, tenant: &str, confined: bool) -> Option<FieldError> {
    let path = Path::new("metadata").child("ownerReferences").index(owner.at);
    let not_found = || FieldError::not_found(&path.child("uid"), &json!(owner.uid));
    match (&owner.kind, found) {
        (Some(_), Found::Of(of)) if of == tenant => None,
        (Some(_), Found::Of(_)) if !confined => {
            Some(FieldError::invalid(&path.child("uid"), &json!(owner.uid), "the owner is another tenant's"))
        }
        (Some(_), _) => confined.then(not_found),
        (None, _) if confined => {
            let why = format!("an owner of a tenant's object is an object of {GROUP} of the same tenant");
            Some(FieldError::forbidden(&path, &why))
        }
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(api_version: &str, uid: &str, block: bool) -> Value {
        json!({"apiVersion": api_version, "kind": "Project", "name": "p", "uid": uid, "blockOwnerDeletion": block})
    }

    fn object(owners: &[Value]) -> Object {
        Object::new(json!({"metadata": {"ownerReferences": owners}})).unwrap()
    }

    const OURS: &str = "business.tkestack.io/v1";

    #[test]
    fn only_what_a_write_adds_or_changes_is_looked_at() {
        let kept = reference(OURS, "u1", false);
        let old = object(std::slice::from_ref(&kept));
        let new = object(&[reference("apps/v1", "u2", true), kept, reference(OURS, "u1", true)]);
        let found: Vec<_> =
            new_owners(Some(&old), &new).into_iter().map(|owner| (owner.at, owner.kind, owner.uid)).collect();
        assert_eq!(found, [(0, None, "u2".to_owned()), (2, Some("Project".to_owned()), "u1".to_owned())]);
        assert_eq!(new_owners(Some(&old), &old), []);
        assert_eq!(new_owners(None, &old).len(), 1);
        assert_eq!(new_owners(None, &object(&[json!("odd")]))[0].kind, None);
    }

    #[test]
    fn an_owner_is_of_the_same_tenant() {
        let said = |api_version: &str, found: Found<'_>, confined: bool| {
            let owner = new_owners(None, &object(&[reference(api_version, "u1", true)])).remove(0);
            check(&owner, found, "t", confined).map(|error| error.to_string())
        };
        assert_eq!(said(OURS, Found::Of("t"), true), None);
        assert_eq!(said(OURS, Found::Of("t"), false), None);
        let nothing = said(OURS, Found::Nothing, true).unwrap();
        assert_eq!(nothing, "metadata.ownerReferences[0].uid: Not found: \"u1\"");
        assert_eq!(said(OURS, Found::Of("u"), true), Some(nothing), "another tenant's is none");
        assert!(said(OURS, Found::Of("u"), false).unwrap().ends_with("the owner is another tenant's"));
        assert_eq!(said(OURS, Found::Nothing, false), None);
        // Whatever it says it is: the uid alone makes it an owner, and only our own objects can be looked up.
        assert!(said("apps/v1", Found::Nothing, true).unwrap().contains("Forbidden"));
        assert!(said("v1", Found::Nothing, true).is_some());
        assert_eq!(said("apps/v1", Found::Nothing, false), None);
    }
}
