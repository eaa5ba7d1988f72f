use crate::kinds::KindTable;
use business_types::names::REGISTRY_CHANGED_ANNOTATION;
use meta::object::Object;
use meta::time;
use runtime::Clock;
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;
use store::model::{Before, Change, NewState, Write};
use store::read::At;
use store::{Access, Error, Key, Revision, Store};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Objects that wait to be marked. Of those that find no room the next measurement by time sees the change.
const WAITING_MAX: usize = 1024;
/// What the registry tells within this time is one mark an object.
const TOGETHER: Duration = Duration::from_secs(1);

/// Tells the controller what has changed in the registry, by a mark at the object: it measures what is kept below its prefix.
#[derive(Clone, Debug)]
pub struct Heard(Sender<Key>);

/// Writes the marks.
#[derive(Debug)]
pub struct Marker {
    /// The objects.
    pub store: Store,
    /// What they mean to the ledger.
    pub kinds: KindTable,
    /// The clock.
    pub clock: Clock,
}

impl Heard {
    /// Where changes are told, and where they come out.
    pub fn channel() -> (Self, Receiver<Key>) {
        let (sender, receiver) = channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    /// Something below the object's prefix has changed.
    pub fn tell(&self, object: Key) {
        if self.0.try_send(object).is_err() {
            tracing::debug!("too many changes of the registry wait to be told");
        }
    }
}

impl Marker {
    /// Writes what is heard, for ever.
    pub async fn run(self, mut heard: Receiver<Key>) {
        let access = Access::internal("events of the registry");
        while let Some(first) = heard.recv().await {
            tokio::time::sleep(TOGETHER).await;
            let mut objects = HashSet::from([first]);
            while let Ok(next) = heard.try_recv() {
                objects.insert(next);
            }
            for object in objects {
                // What somebody else was faster with is measured by time.
                if let Err(error) = self.mark(&access, &object).await {
                    tracing::debug!(name = &*object.name, %error, "a change of the registry is not told");
                }
            }
        }
        std::future::pending::<()>().await;
    }

    async fn mark(&self, access: &Access, key: &Key) -> Result<Revision, Error> {
        let corrupt = |error: serde_json::Error| Error::Corrupt(error.to_string());
        let entry = self.store.get(access, key, At::Latest).await?;
        let mut object = Object::from_stored(&entry.body, entry.revision.0).map_err(corrupt)?;
        let now = time::rfc3339_micro(self.clock.unix_micros());
        object.set(&["metadata", "annotations", REGISTRY_CHANGED_ANNOTATION], json!(now));
        let row = self.kinds.accounts().find(|row| row.kind == key.kind).ok_or(Error::NotFound)?;
        let account = (row.read)(&entry.body).map_err(corrupt)?;
        let before = Before { attributes: entry.attributes.clone(), account: account.clone() };
        let state = NewState { body: object.to_stored(), account };
        let change = Change::Update { expected: entry.revision, before, state };
        let write = Write { key: key.clone(), uid: entry.uid, change, may_grow: false, hold: None };
        self.store.write(access, write).await
    }
}
