use bytes::{BufMut, Bytes, BytesMut};
use quota::{Account, HoldChange, ScopeKind};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// The metadata of most objects begin within so many bytes.
const SPLICE_BYTES: usize = 256;

/// The number of a kind in the table `kinds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(pub i16);

/// A kind of objects, as far as the store must know it to index them.
pub trait Kind: Send + Sync + 'static {
    /// API group.
    fn group(&self) -> &str;
    /// Plural resource name.
    fn resource(&self) -> &str;
    /// Whether and how its objects stand for scopes. Each object stands for the scope of its own name.
    fn stands_for(&self) -> Option<ScopeRole> {
        None
    }
    /// Names of the selectable fields beside `metadata.name` and `metadata.namespace`, in the order of
    /// [`Attributes::fields`].
    fn fields(&self) -> &'static [&'static str];
    /// Reads the attributes out of a stored body. It must accept whatever was stored.
    fn attributes(&self, body: &[u8]) -> Attributes;
}

/// How the objects of a kind stand for scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeRole {
    /// The kind of the scopes.
    pub scope: ScopeKind,
    /// If true, a scope without its object accepts no charge. Otherwise the scope exists without an object, and a
    /// domain that it does not list is unlimited.
    pub required: bool,
}

/// The part of an object that selectors and access filters read. As JSON it is the column `events.before`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// The tenant that owns the object; `None` if no tenant does.
    pub tenant: Option<Box<str>>,
    /// Every caller of the tenant sees the object, whatever else he sees of the tenant.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tenant_wide: bool,
    /// Callers of every tenant see the object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub public: bool,
    /// Labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of [`Kind::fields`]; an absent value is an empty text.
    pub fields: Box<[Box<str>]>,
}

/// The key of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its kind.
    pub kind: KindId,
    /// Its namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// A key of these parts.
    pub fn new(kind: KindId, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: Arc::from(namespace), name: Arc::from(name) }
    }
}

/// A position in the one history of all objects. Clients see it as `resourceVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl Revision {
    /// The largest revision.
    pub const MAX: Self = Self(u64::MAX);
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One object at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// Its uid, which never changes.
    pub uid: Uuid,
    /// The revision of its last change. For the last state of a deleted object: of the deletion.
    pub revision: Revision,
    /// JSON without `metadata.resourceVersion`.
    pub body: Bytes,
    /// What selectors and access filters read.
    pub attributes: Attributes,
}

impl Entry {
    /// Appends the JSON with `metadata.resourceVersion` in its place.
    pub fn write_json(&self, out: &mut BytesMut) {
        let spliced = splice_position(&self.body).and_then(|at| self.body.split_at_checked(at));
        let Some((head, tail)) = spliced else {
            out.put_slice(&self.body);
            return;
        };
        let mut digits = [0u8; 20];
        let number = decimal(self.revision.0, &mut digits);
        out.reserve(head.len() + tail.len() + number.len() + 22);
        out.put_slice(head);
        out.put_slice(b"\"resourceVersion\":\"");
        out.put_slice(number);
        out.put_slice(if tail.starts_with(b"}") { b"\"" } else { b"\"," });
        out.put_slice(tail);
    }

    /// The JSON with `metadata.resourceVersion`.
    pub fn to_json(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.body.len() + 48);
        self.write_json(&mut out);
        out.freeze()
    }
}

/// Where `metadata.resourceVersion` goes into a stored body. Nearly always the first bytes show it, and the others need
/// not be read.
fn splice_position(body: &[u8]) -> Option<usize> {
    let find = |part: &[u8]| {
        let (head, _tail) = meta::object::splice_point(std::str::from_utf8(part).ok()?)?;
        Some(head.len())
    };
    body.get(..SPLICE_BYTES).and_then(find).or_else(|| find(body))
}

fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + u8::try_from(value % 10).unwrap_or_default();
        value /= 10;
        at -= 1;
        if value == 0 {
            break;
        }
    }
    digits.get(at..).unwrap_or_default()
}

/// A new state to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewState {
    /// JSON without `metadata.resourceVersion` ([`meta::object::Object::to_stored`]).
    pub body: String,
    /// What the object means to the ledger in this state.
    pub account: Account,
}

/// The state of an object that a writer has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// The attributes before. With them a watch notices that an object leaves its selection.
    pub attributes: Attributes,
    /// The account before. The compare-and-swap guarantees that it is true.
    pub account: Account,
}

/// How far a write may raise what its object costs or grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Not at all: the write may only lower it.
    #[default]
    Refused,
    /// As [`Self::Refused`], but the bytes of the object count against the tenant's limit: somebody changes an object
    /// that is being deleted.
    Deleting,
    /// As far as it fits. In these domains only if the paid scope lists them, even if that scope exists without its
    /// object.
    Within(Vec<String>),
    /// As far as it fits.
    Free,
}

impl Growth {
    /// Whether the write may raise a cost or a grant.
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Self::Refused | Self::Deleting)
    }

    /// The domains that have to be listed.
    pub(crate) fn within(&self) -> &[String] {
        match self {
            Self::Within(domains) => domains,
            Self::Refused | Self::Deleting | Self::Free => &[],
        }
    }
}

/// One write. It is decided in its batch, under the lock of the revision counter. It changes the ledger by the
/// difference between the accounts before and after it.
#[derive(Clone, Debug)]
pub struct Write {
    /// The object's key before the write.
    pub key: Key,
    /// The object's uid: of the new object on a create, otherwise a precondition.
    pub uid: Uuid,
    /// What the write does to the object.
    pub change: Change,
    /// How far the write may raise what the object costs or grants.
    pub growth: Growth,
    /// On a delete: the hold that the object's charge becomes.
    pub hold: Option<HoldChange>,
}

impl Write {
    /// A write that gives an object another body. Its account stays.
    pub fn rewrite(entry: &Entry, body: String, account: Account) -> Self {
        let before = Before { attributes: entry.attributes.clone(), account: account.clone() };
        let state = NewState { body, account };
        let change = Change::Update { expected: entry.revision, before, state };
        Self { key: entry.key.clone(), uid: entry.uid, change, growth: Growth::Refused, hold: None }
    }
}

/// What a write does to its object.
#[derive(Clone, Debug)]
pub enum Change {
    /// Creates the object. The key must be free.
    Create(NewState),
    /// Updates the object, which must be at the revision `expected`.
    Update {
        /// The revision that the writer has read.
        expected: Revision,
        /// The state that the writer has read.
        before: Before,
        /// The new state.
        state: NewState,
    },
    /// Deletes the object, which must be at the revision `expected`.
    Delete {
        /// The revision that the writer has read.
        expected: Revision,
        /// The state that the writer has read.
        before: Before,
        /// The last state, which watchers get with the deletion.
        last: NewState,
    },
    /// Moves the object to another key. The object must be at the revision `expected`, and `to` must be free. The
    /// object keeps its uid and its claims. Watchers get a deletion at one revision and a creation at the next.
    Move {
        /// The key afterwards, of the same kind.
        to: Key,
        /// The revision that the writer has read.
        expected: Revision,
        /// The state that the writer has read.
        before: Before,
        /// The body that the writer has read, which watchers get with the deletion.
        last: String,
        /// The new state.
        state: NewState,
    },
}

impl Change {
    /// The account before the change; `None` for a create.
    pub fn before(&self) -> Option<&Account> {
        match self {
            Self::Create(_) => None,
            Self::Update { before, .. } | Self::Delete { before, .. } | Self::Move { before, .. } => {
                Some(&before.account)
            }
        }
    }

    /// The account after the change; `None` for a delete.
    pub fn after(&self) -> Option<&Account> {
        match self {
            Self::Create(state) | Self::Update { state, .. } | Self::Move { state, .. } => {
                Some(&state.account)
            }
            Self::Delete { .. } => None,
        }
    }

    /// The new state; for a delete, the last one.
    pub fn state(&self) -> &NewState {
        match self {
            Self::Create(state)
            | Self::Update { state, .. }
            | Self::Delete { last: state, .. }
            | Self::Move { state, .. } => state,
        }
    }

    /// The key to which a move moves the object; `None` for other changes.
    pub fn destination(&self) -> Option<&Key> {
        match self {
            Self::Move { to, .. } => Some(to),
            Self::Create(_) | Self::Update { .. } | Self::Delete { .. } => None,
        }
    }

    /// How many revisions the change uses.
    pub(crate) fn revision_count(&self) -> usize {
        if self.destination().is_some() { 2 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_goes_into_the_metadata_wherever_they_begin() {
        for letters in [0, 100, SPLICE_BYTES] {
            let data = format!("\"data\":\"{}\",", "é".repeat(letters));
            let entry = Entry {
                key: Key::new(KindId(1), "", "a"),
                uid: Uuid::nil(),
                revision: Revision(7),
                body: format!("{{{data}\"metadata\":{{\"name\":\"a\"}}}}").into(),
                attributes: Attributes::default(),
            };
            let want = format!("{{{data}\"metadata\":{{\"resourceVersion\":\"7\",\"name\":\"a\"}}}}");
            assert_eq!(entry.to_json(), want);
        }
    }
}
