use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// Number of a kind in the table `kinds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(pub i16);

/// What the store has to know of a kind to index its objects.
pub trait Kind: Send + Sync + 'static {
    /// API group.
    fn group(&self) -> &str;
    /// Plural resource name.
    fn resource(&self) -> &str;
    /// Whether objects of it are quota scopes: others are charged to them, and they carry limits.
    fn is_scope(&self) -> bool {
        false
    }
    /// Names of the selectable fields beside `metadata.name` and `metadata.namespace`, in the order of
    /// [`Attributes::fields`].
    fn fields(&self) -> &'static [&'static str];
    /// Reads the attributes out of a stored body. It must accept whatever was stored.
    fn attributes(&self, body: &[u8]) -> Attributes;
}

/// The part of an object that selects and filters look at. As JSON it is the column `events.before`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// The tenant that owns it; `None` for an object of nobody.
    pub tenant: Option<Box<str>>,
    /// Users who are named as members.
    pub members: Box<[Box<str>]>,
    /// Labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of [`Kind::fields`]; empty text where absent.
    pub fields: Box<[Box<str>]>,
}

/// Where an object lives.
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
    /// Builds one from its parts.
    pub fn new(kind: KindId, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: Arc::from(namespace), name: Arc::from(name) }
    }
}

/// A place in the one history of all objects: what clients see as `resourceVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One object at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it lives.
    pub key: Key,
    /// Its identity over time.
    pub uid: Uuid,
    /// Its last change. For the last state of a deleted object: the deletion.
    pub revision: Revision,
    /// JSON without `metadata.resourceVersion`.
    pub body: Bytes,
    /// What selectors look at.
    pub attributes: Attributes,
}

impl Entry {
    /// Appends the JSON with `metadata.resourceVersion` in its place.
    pub fn write_json(&self, out: &mut BytesMut) {
        let spliced = std::str::from_utf8(&self.body).ok().and_then(meta::object::splice_point);
        let Some((head, tail)) = spliced else {
            out.put_slice(&self.body);
            return;
        };
        let mut digits = [0u8; 20];
        let number = decimal(self.revision.0, &mut digits);
        out.reserve(head.len() + tail.len() + number.len() + 22);
        out.put_slice(head.as_bytes());
        out.put_slice(b"\"resourceVersion\":\"");
        out.put_slice(number);
        out.put_slice(if tail.starts_with('}') { b"\"" } else { b"\"," });
        out.put_slice(tail.as_bytes());
    }

    /// The JSON with `metadata.resourceVersion`.
    pub fn to_json(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.body.len() + 48);
        self.write_json(&mut out);
        out.freeze()
    }
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
pub struct State {
    /// JSON without `metadata.resourceVersion` ([`meta::object::Object::to_stored`]).
    pub body: String,
    /// The tenant, kept in a column of its own: a child and its scope must agree in it.
    pub tenant: String,
    /// `metadata.deletionTimestamp` is set: the object takes nothing new.
    pub deleting: bool,
    /// An operator has locked it: it takes nothing new.
    pub locked: bool,
}

/// One write. It is decided inside its batch, after the revision counter's lock is held.
#[derive(Clone, Debug)]
pub struct Write {
    /// Where.
    pub key: Key,
    /// The object's identity: given at create, expected otherwise.
    pub uid: Uuid,
    /// What.
    pub change: Change,
    /// What it does to quota; `None` for a kind that has none.
    pub quota: Option<crate::quota::QuotaChange>,
}

/// What a write does to its object.
#[derive(Clone, Debug)]
pub enum Change {
    /// The key must be free.
    Create(State),
    /// The object must be at `expected`.
    Update {
        /// The revision that the writer has read.
        expected: Revision,
        /// Attributes before the change, so that a watch with a selector can tell a leaving object.
        before: Attributes,
        /// The new state.
        state: State,
    },
    /// The object must be at `expected`; `last` is the state that watchers get with the deletion.
    Delete {
        /// The revision that the writer has read.
        expected: Revision,
        /// Attributes before the change.
        before: Attributes,
        /// The last state.
        last: State,
    },
    /// Deletes the object here and creates it at another key, both or neither. The uid stays.
    Move {
        /// The revision that the writer has read.
        expected: Revision,
        /// Attributes before the change.
        before: Attributes,
        /// The last state at the old key.
        last: State,
        /// The new key; it must be free.
        to: Key,
        /// The state at the new key.
        state: State,
    },
}
