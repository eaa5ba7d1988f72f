use business_types::account::{self, UnchargedTenantObject};
use meta::object::Object;
use meta::time::{self, DAY_SECONDS};
use serde_json::json;
use store::model::Write;
use store::read::At;
use store::{Access, Error, Key, Revision, Store};
use tokio::sync::mpsc::{Receiver, Sender, channel};

const LAST_USED: &[&str] = &["status", "lastUsed"];
/// The most uses that wait to be written. Without room a use is dropped; a later one is recorded.
const PENDING_MAX: usize = 256;

/// Queues uses of credentials, to record the day of the last use: one write per day, not one per use.
#[derive(Clone, Debug)]
pub struct LastUsedSender(Sender<CredentialUse>);

/// A day on which a credential was used.
#[derive(Debug)]
pub struct CredentialUse {
    key: Key,
    day: String,
}

impl LastUsedSender {
    /// The queue's sender and receiver.
    pub fn channel() -> (Self, Receiver<CredentialUse>) {
        let (sender, receiver) = channel(PENDING_MAX);
        (Self(sender), receiver)
    }

    /// Queues a use of a credential, unless it is recorded for this day.
    pub(super) fn record(&self, key: &Key, last: Option<&str>, now: i64) {
        let day = day(now);
        if last != Some(day.as_str()) && self.0.try_send(CredentialUse { key: key.clone(), day }).is_err() {
            tracing::debug!("too many uses of credentials wait to be written");
        }
    }
}

fn day(now: i64) -> String {
    time::rfc3339(now.div_euclid(DAY_SECONDS).saturating_mul(DAY_SECONDS))
}

/// Writes the queued uses. Never returns.
pub async fn write_all(store: Store, mut uses: Receiver<CredentialUse>) {
    let access = Access::internal("uses of credentials");
    while let Some(one) = uses.recv().await {
        // If the write conflicts with another one, the next use records the day.
        if let Err(error) = write(&store, &access, &one).await {
            tracing::debug!(%error, "the use of a credential is not written");
        }
    }
    std::future::pending::<()>().await;
}

async fn write(store: &Store, access: &Access, one: &CredentialUse) -> Result<Option<Revision>, Error> {
    let entry = store.get(access, &one.key, At::Latest).await?;
    let mut object = Object::from_stored(&entry.body, entry.revision.0)
        .map_err(|error| Error::Corrupt(error.to_string()))?;
    if object.text(LAST_USED) >= one.day.as_str() {
        return Ok(None);
    }
    object.set(LAST_USED, json!(one.day));
    let account =
        account::of::<UnchargedTenantObject>(&object).map_err(|error| Error::Corrupt(error.to_string()))?;
    store.write(access, Write::rewrite(&entry, object.to_stored(), account)).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::KindId;

    #[test]
    fn a_day_is_told_once() {
        let (uses, mut receiver) = LastUsedSender::channel();
        let key = Key::new(KindId(5), "p", "ci");
        uses.record(&key, None, 86_400 + 7);
        assert_eq!(receiver.try_recv().unwrap().day, "1970-01-02T00:00:00Z");
        uses.record(&key, Some("1970-01-02T00:00:00Z"), 2 * 86_400 - 1);
        assert!(receiver.try_recv().is_err());
        uses.record(&key, Some("1970-01-02T00:00:00Z"), 2 * 86_400);
        assert_eq!(receiver.try_recv().unwrap().day, "1970-01-03T00:00:00Z");
    }
}
