//! Writes a plan. It can be killed at any point and repeated, with the same result: each batch is one transaction, and
//! growth is held from before the first batch until after the last.

use super::plan::{Plan, ReplacedObject};
use anyhow::{Context, Result, bail, ensure};
use business_types::ChargedPlatform;
use business_types::account;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;
use store::import::{IMPORTED, IMPORTING, Imported};
use store::model::{Before, Change, Growth, NewState, Write};
use store::read::At;
use store::{Access, Error, Store};

/// The most objects in a batch: half of what one transaction of a server's writer takes.
const BATCH_OBJECTS: usize = 256;
/// The most bytes of bodies in a batch, unless its first object alone is larger.
const BATCH_BYTES: usize = 4 << 20;
/// The time limit to fill the cache. The database has only our own object.
const CACHE_DEADLINE: Duration = Duration::from_secs(30);

/// How far an import of this source has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportProgress {
    /// No import was begun, or growth was released since it ended.
    None,
    /// An import was begun and has not ended.
    Begun,
    /// An import has ended, and growth is still held until the audit has compared everything.
    Ended,
}

/// How far an import has come, by the reason for which growth is held.
pub async fn progress(store: &Store, access: &Access) -> Result<ImportProgress> {
    let held = store.growth_held(access).await.context("read whether growth is held")?;
    match held.as_deref() {
        Some(IMPORTING) => Ok(ImportProgress::Begun),
        Some(reason) if reason.ends_with(IMPORTED) => Ok(ImportProgress::Ended),
        _ => Ok(ImportProgress::None),
    }
}

/// Refuses to apply a plan to a database that it does not fit.
pub fn ensure_applicable(plan: &Plan, progress: ImportProgress, into_existing: bool) -> Result<()> {
    let present: usize = plan.counts.values().map(|count| count.present).sum();
    let read: usize = plan.counts.values().map(|count| count.read).sum();
    ensure!(
        present > 0 || !plan.objects.is_empty(),
        "none of the {read} records of the source comes: without --apply it is told why"
    );
    if into_existing || (plan.others == 0 && (present == 0 || progress == ImportProgress::Begun)) {
        return Ok(());
    }
    if plan.others == 0 && plan.objects.is_empty() {
        return Ok(());
    }
    ensure!(
        plan.others == 0,
        "the database holds {} objects that do not come from here: --into-existing imports beside them",
        plan.others
    );
    bail!(
        "this was imported before, and {} of its objects are not there: they have gone since, or somebody has let growth go on \
         before it was whole. --into-existing brings them",
        plan.objects.len()
    )
}

/// Writes the objects that are missing. Returns false if there are none and no import was begun.
pub async fn apply(store: &Store, access: &Access, plan: &Plan, progress: ImportProgress) -> Result<bool> {
    if plan.objects.is_empty() && progress != ImportProgress::Begun {
        return Ok(false);
    }
    if !store.begin_import(access).await.context("hold growth")? {
        let why = store.growth_held(access).await.context("read whether growth is held")?.unwrap_or_default();
        bail!("growth is held already: {why}; let it go on first, with business-api audit --go-on");
    }
    if let Some(replaced) = &plan.replaced {
        delete_replaced(store, access, replaced).await.context("remove what this program has made itself")?;
    }
    let mut done = 0;
    for batch in batches(&plan.objects) {
        store.import(access, batch).await.with_context(|| {
            let first = batch.first().map(|object| object.key.name.to_string()).unwrap_or_default();
            format!("{done} objects are imported; the batch that begins with {first} is not, and can be tried again")
        })?;
        done += batch.len();
        show_progress(done, plan.objects.len());
    }
    store.finish_import(access).await.context("end the import")?;
    Ok(true)
}

/// Deletes the replaced platform, also if it has changed since the plan was made. A platform costs nothing.
async fn delete_replaced(store: &Store, access: &Access, replaced: &ReplacedObject) -> Result<()> {
    let ReplacedObject { key, uid } = replaced;
    // A store that was just opened fills its cache first.
    let filled = tokio::time::timeout(CACHE_DEADLINE, store.until_synced()).await;
    filled.context("the database was not read in time")?;
    let entry = match store.get(access, key, At::Latest).await {
        Ok(entry) if entry.uid == *uid => entry,
        Ok(_) | Err(Error::NotFound) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let body = std::str::from_utf8(&entry.body)?.to_owned();
    let account = account::of_stored::<ChargedPlatform>(&entry.body)?;
    let change = Change::Delete {
        expected: entry.revision,
        before: Before { attributes: entry.attributes.clone(), account: account.clone() },
        last: NewState { body, account },
    };
    let write = Write { key: key.clone(), uid: *uid, change, growth: Growth::Refused, hold: None };
    store.write(access, write).await?;
    Ok(())
}

fn batches(mut objects: &[Imported]) -> impl Iterator<Item = &[Imported]> {
    std::iter::from_fn(move || {
        let mut bytes = 0_usize;
        let fits = |object: &&Imported| {
            let first = bytes == 0;
            bytes = bytes.saturating_add(object.state.body.len());
            first || bytes <= BATCH_BYTES
        };
        let count = objects.iter().take(BATCH_OBJECTS).take_while(fits).count();
        let (batch, rest) = objects.split_at_checked(count)?;
        objects = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// On a terminal, shows the progress in one line.
fn show_progress(done: usize, of: usize) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let end = if done == of { "\n" } else { "" };
        let _shown = write!(out, "\r{done} of {of} objects{end}").and_then(|()| out.flush());
    }
}
