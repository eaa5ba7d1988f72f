use business_types::account::{self, FreeOfTenant};
use meta::object::Object;
use meta::time::{self, DAY_SECONDS};
use serde_json::json;
use store::model::Write;
use store::read::At;
use store::{Access, Error, Key, Revision, Store};
use tokio::sync::mpsc::{Receiver, Sender, channel};

const LAST_USED: &[&str] = &["status", "lastUsed"];
/// Uses that wait to be written. If there is no room, a later use is recorded.
const WAITING_MAX: usize = 256;

/// Tells on which day a credential was last used: one write a day, not one a use.
#[derive(Clone, Debug)]
pub struct Uses(Sender<Use>);

/// A day on which a credential was used.
#[derive(Debug)]
pub struct Use {
    key: Key,
    day: String,
}

impl Uses {
    /// Where uses are told, and where they come out.
    pub fn channel() -> (Self, Receiver<Use>) {
        let (sender, receiver) = channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    /// A credential is used now.
    pub(super) fn tell(&self, key: &Key, last: Option<&str>, now: i64) {
        let day = day(now);
        if last != Some(day.as_str()) && self.0.try_send(Use { key: key.clone(), day }).is_err() {
            tracing::debug!("too many uses of credentials wait to be written");
        }
    }
}

fn day(now: i64) -> String {
    time::rfc3339(now.div_euclid(DAY_SECONDS).saturating_mul(DAY_SECONDS))
}

/// Writes the uses, for ever.
pub async fn write_all(store: Store, mut uses: Receiver<Use>) {
    let access = Access::internal("uses of credentials");
    while let Some(one) = uses.recv().await {
        // If another write was faster, the next use tells it again.
        if let Err(error) = write(&store, &access, &one).await {
            tracing::debug!(%error, "the use of a credential is not written");
        }
    }
    std::future::pending::<()>().await;
}

async fn write(store: &Store, access: &Access, one: &Use) -> Result<Option<Revision>, Error> {
    let entry = store.get(access, &one.key, At::Latest).await?;
    let mut object = Object::from_stored(&entry.body, entry.revision.0)
        .map_err(|error| Error::Corrupt(error.to_string()))?;
    if object.text(LAST_USED) >= one.day.as_str() {
        return Ok(None);
    }
    object.set(LAST_USED, json!(one.day));
    let account = account::of::<FreeOfTenant>(&object).map_err(|error| Error::Corrupt(error.to_string()))?;
    store.write(access, Write::rewrite(&entry, object.to_stored(), account)).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::KindId;

    #[test]
    fn a_day_is_told_once() {
        let (uses, mut told) = Uses::channel();
        let key = Key::new(KindId(5), "p", "ci");
        uses.tell(&key, None, 86_400 + 7);
        assert_eq!(told.try_recv().unwrap().day, "1970-01-02T00:00:00Z");
        uses.tell(&key, Some("1970-01-02T00:00:00Z"), 2 * 86_400 - 1);
        assert!(told.try_recv().is_err());
        uses.tell(&key, Some("1970-01-02T00:00:00Z"), 2 * 86_400);
        assert_eq!(told.try_recv().unwrap().day, "1970-01-03T00:00:00Z");
    }
}
