//! Writes a plan. Killed at any point and begun again it ends in the same state: each batch is whole or not there, and
//! growth is held from before the first until after the last.

use super::plan::{Plan, Replaced};
use anyhow::{Context, Result, bail, ensure};
use business_types::ChargedPlatform;
use business_types::account;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;
use store::import::{IMPORTED, IMPORTING, Imported};
use store::model::{Before, Change, Growth, NewState, Write};
use store::read::At;
use store::{Access, Error, Store};

/// Objects a batch: half of what one transaction of the server's own writers takes.
const BATCH_OBJECTS: usize = 256;
/// Bytes of bodies a batch, unless its first object alone is larger.
const BATCH_BYTES: usize = 4 << 20;
/// Reading a database that holds nothing but our own must not take longer.
const CACHE_DEADLINE: Duration = Duration::from_secs(30);

/// How far an import of this source has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportProgress {
    /// Nothing was imported, or an earlier import does not matter any more.
    None,
    /// An import was begun and not ended.
    Begun,
    /// An import was ended, and growth still waits for the comparison.
    Ended,
}

/// How far an import has come, as the reason says for which growth is held.
pub async fn progress(store: &Store, access: &Access) -> Result<ImportProgress> {
    let held = store.growth_held(access).await.context("read whether growth is held")?;
    match held.as_deref() {
        Some(IMPORTING) => Ok(ImportProgress::Begun),
        Some(reason) if reason.ends_with(IMPORTED) => Ok(ImportProgress::Ended),
        _ => Ok(ImportProgress::None),
    }
}

/// Whether a plan may be applied. The error says why not.
pub fn check(plan: &Plan, progress: ImportProgress, into_existing: bool) -> Result<()> {
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

/// Writes what is not there yet. False when everything is, and nothing was begun.
pub async fn apply(store: &Store, access: &Access, plan: &Plan, progress: ImportProgress) -> Result<bool> {
    if plan.objects.is_empty() && progress != ImportProgress::Begun {
        return Ok(false);
    }
    if !store.begin_import(access).await.context("hold growth")? {
        let why = store.growth_held(access).await.context("read whether growth is held")?.unwrap_or_default();
        bail!("growth is held already: {why}; let it go on first, with business-api audit --go-on");
    }
    if let Some(replaced) = &plan.replaced {
        give_way(store, access, replaced).await.context("remove what this program has made itself")?;
    }
    let mut done = 0;
    for batch in batches(&plan.objects) {
        store.import(access, batch).await.with_context(|| {
            let last = batch.first().map(|object| object.key.name.to_string()).unwrap_or_default();
            format!("{done} objects are imported; the batch that begins with {last} is not, and can be tried again")
        })?;
        done += batch.len();
        show(done, plan.objects.len());
    }
    store.finish_import(access).await.context("end the import")?;
    Ok(true)
}

/// Removes a platform, which costs nothing, in the state that the plan has seen of it or a later one.
async fn give_way(store: &Store, access: &Access, replaced: &Replaced) -> Result<()> {
    let Replaced { key, uid } = replaced;
    // A program that has just started reads the database first.
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

/// On a terminal, one line that counts.
fn show(done: usize, of: usize) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let end = if done == of { "\n" } else { "" };
        let _shown = write!(out, "\r{done} of {of} objects{end}").and_then(|()| out.flush());
    }
}
