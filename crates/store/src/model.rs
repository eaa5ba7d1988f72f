use bytes::{BufMut, Bytes, BytesMut};
use quota::{Account, HoldChange, ScopeKind};
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
    /// How its objects stand for scopes: each for the scope of its own name.
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
    /// Whether a scope without its object accepts no charge. Otherwise the scope exists without one, and a domain
    /// that it does not list is unlimited.
    pub required: bool,
}

/// The part of an object that selects and filters look at. As JSON it is the column `events.before`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// The tenant that owns it; `None` for an object of nobody.
    pub tenant: Option<Box<str>>,
    /// Every caller of its tenant sees it, whatever else he sees of the tenant.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tenant_wide: bool,
    /// Callers of every tenant see it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub public: bool,
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

impl Revision {
    /// After every other.
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
pub struct NewState {
    /// JSON without `metadata.resourceVersion` ([`meta::object::Object::to_stored`]).
    pub body: String,
    /// What the object means to the ledger in this state.
    pub account: Account,
}

/// The state that a writer has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// The attributes before, by which a watch notices that an object leaves its selection.
    pub attributes: Attributes,
    /// What the object meant to the ledger. The compare-and-swap guarantees that it is true.
    pub account: Account,
}

/// How far a write may raise what its object costs or grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Not at all: it can only lower it.
    #[default]
    Refused,
    /// Not at all; but the room that the object takes in the store is limited: somebody changes an object that is
    /// being deleted.
    Deleting,
    /// As far as it fits; but in these domains only if the scope that is paid lists them, even a scope that exists
    /// without its object.
    Within(Vec<String>),
    /// As far as it fits.
    Free,
}

impl Growth {
    /// [`Self::Free`] or [`Self::Refused`].
    pub fn when(free: bool) -> Self {
        if free { Self::Free } else { Self::Refused }
    }

    /// Whether the write may raise anything.
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

/// One write. It is decided inside its batch, after the revision counter's lock is held. What it does to the ledger is
/// the difference of the accounts before and after it.
#[derive(Clone, Debug)]
pub struct Write {
    /// Where its object is.
    pub key: Key,
    /// The object's identity: given at create, expected otherwise.
    pub uid: Uuid,
    /// What it does.
    pub change: Change,
    /// How far it may raise what the object costs or grants.
    pub growth: Growth,
    /// On a delete: what becomes of the charge that is left.
    pub hold: Option<HoldChange>,
}

impl Write {
    /// Gives an object another body. What it means to the ledger stays.
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
    /// The key must be free.
    Create(NewState),
    /// The object must be at `expected`.
    Update {
        /// The revision that the writer has read.
        expected: Revision,
        /// The state that he has read.
        before: Before,
        /// The new state.
        state: NewState,
    },
    /// The object must be at `expected`; `last` is the state that watchers get with the deletion.
    Delete {
        /// The revision that the writer has read.
        expected: Revision,
        /// The state that he has read.
        before: Before,
        /// The last state.
        last: NewState,
    },
    /// The object must be at `expected`, and `to` free. It keeps its uid and what it claims; watchers get a deletion at
    /// one revision and a creation at the next.
    Move {
        /// Where the object lives afterwards, with the kind that it has.
        to: Key,
        /// The revision that the writer has read.
        expected: Revision,
        /// The state that he has read.
        before: Before,
        /// The body that he has read, for those who watch the old place.
        last: String,
        /// The new state.
        state: NewState,
    },
}

impl Change {
    /// What the object meant before; `None` for a create.
    pub fn before(&self) -> Option<&Account> {
        match self {
            Self::Create(_) => None,
            Self::Update { before, .. } | Self::Delete { before, .. } | Self::Move { before, .. } => {
                Some(&before.account)
            }
        }
    }

    /// What it means afterwards; `None` for a delete.
    pub fn after(&self) -> Option<&Account> {
        match self {
            Self::Create(state) | Self::Update { state, .. } | Self::Move { state, .. } => {
                Some(&state.account)
            }
            Self::Delete { .. } => None,
        }
    }

    /// The newest state that is written to the history.
    pub fn state(&self) -> &NewState {
        match self {
            Self::Create(state)
            | Self::Update { state, .. }
            | Self::Delete { last: state, .. }
            | Self::Move { state, .. } => state,
        }
    }

    /// Where the object goes, if it goes anywhere.
    pub fn destination(&self) -> Option<&Key> {
        match self {
            Self::Move { to, .. } => Some(to),
            Self::Create(_) | Self::Update { .. } | Self::Delete { .. } => None,
        }
    }

    /// How many revisions it takes.
    pub(crate) fn revision_count(&self) -> usize {
        if self.destination().is_some() { 2 } else { 1 }
    }
}
