//! The backend for registries of the OCI distribution specification. Such a registry knows no owners: the ledger says
//! whose a prefix is. Content is found by listing repositories, tags and manifests.

/// Calls to a registry, and their tokens.
pub mod client;
/// Scans the content below a prefix.
pub mod scan;
/// The repositories below a prefix.
mod catalog;
/// Reads a repository.
mod repository;
/// Finds what to remove of a repository.
mod removal;
/// The memory of all scans.
pub mod scan_memory;
/// What was seen before, and where removals go on.
pub mod cache;
/// The digests that a manifest refers to.
pub mod references;
/// Where a removal goes on in a large repository.
pub mod cursor;

use super::backend::{Backend, Measured, ProvideResult, RecordedState, RegistryPlace, RemovalProgress};
use super::writes::RegistryWrites;
use crate::error::{CallFailure, Error};
use crate::fence::Fence;
use business_types::registry::{RegistryBackend, RegistryProvenance, RegistryRecord, TOKEN_SECONDS_MAX};
use cache::OciCache;
use catalog::Repositories;
use client::{CALLS_CHUNK, Call, PARALLEL, RegistryClient, is_too_large};
use cursor::RemovalCursor;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::{StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream};
use http::{Method, StatusCode};
use removal::RemovalBatch;
use repository::Repository;
use scan_memory::ScanMemory;
use std::sync::Arc;
use std::time::Duration;

/// How long a registry accepts a token beyond its end, for clocks that differ.
const TOKEN_LEEWAY_SECONDS: u64 = 60;
/// How long business-api may not know of the deletion. It lets nobody push by a view that is older.
const API_LAG_SECONDS: u64 = 10;
/// How far our clock may differ from those that the token and the deletion are timed by.
const CLOCK_SKEW_SECONDS: u64 = 10;
/// How many parts of a repository a pass tries, until the registry deletes something.
const PARTS_MAX: usize = 8;

/// The backend for registries of the OCI distribution specification.
#[derive(Debug)]
pub struct OciRegistry {
    client: RegistryClient,
    writes: RegistryWrites,
    cache: OciCache,
    memory: Arc<ScanMemory>,
}

/// The outcome of a pass over a repository.
#[derive(Debug)]
enum RepositoryRemoval {
    /// It has no manifests.
    Empty,
    /// This many manifests were removed.
    Removed(usize),
    /// Nothing was removed, and there are parts that were not tried yet.
    Unfinished,
    /// Nothing was removed, although every part was tried, and why.
    Refused(Error),
}

/// The manifests of a part after their deletion was tried.
#[derive(Debug)]
struct PartRemoval {
    removed: usize,
    /// Why others stay.
    why: Option<Error>,
}

/// Manifests that the registry refuses to delete.
#[derive(Debug, Default)]
struct UndeletedManifests {
    digests: Vec<String>,
    /// What it says of one of them.
    why: Option<Error>,
}

impl OciRegistry {
    pub fn new(client: RegistryClient, fence: Arc<Fence>) -> Self {
        let (cache, memory) = (OciCache::default(), Arc::default());
        Self { client, writes: RegistryWrites::new(fence), cache, memory }
    }

    /// The same beside other scans.
    #[cfg(test)]
    pub(crate) fn beside(self, memory: Arc<ScanMemory>) -> Self {
        Self { memory, ..self }
    }

    fn repository<'a>(&'a self, name: &'a str) -> Repository<'a> {
        Repository { client: &self.client, cache: &self.cache, name }
    }

    async fn has_content(&self, place: &RegistryPlace) -> Result<bool, Error> {
        scan::has_content(&self.client, &self.cache, place).await
    }

    async fn provide(&self, place: &RegistryPlace, consent: bool) -> Result<ProvideResult, Error> {
        Ok(match (self.has_content(place).await?, consent) {
            (false, _) => ProvideResult::Provided(record(RegistryProvenance::Made)),
            (true, true) => ProvideResult::Provided(record(RegistryProvenance::Adopted)),
            (true, false) => ProvideResult::Refused(format!(
                "the registry has content below {} that is from before this object: an operator takes it over with the \
                 annotation {}=true, or removes it",
                place.prefix(),
                business_types::names::ADOPT_ANNOTATION
            )),
        })
    }

    async fn remove(&self, place: &RegistryPlace, is_closed: bool) -> Result<RemovalProgress, Error> {
        let prefix = place.prefix();
        let Repositories { names, is_complete } =
            catalog::repositories(&self.client, &self.cache, place).await?;
        let resume_after = self.cache.resume_after(place, is_closed);
        let (mut emptied, mut removed): (usize, usize) = (0, 0);
        let (mut refusal, mut is_unfinished) = (None, false);
        // One repository after the other: if there is too much for one pass, each pass removes some.
        for repository in names.iter().filter(|name| **name > resume_after) {
            // The repositories after this one are removed all the same, even if this pass is cut off. Nothing counts as
            // gone while manifests are known.
            let has_known = || !self.cache.seen_manifests(&prefix, repository).is_empty();
            let is_handled = match self.remove_part(place, repository).await {
                Ok(RepositoryRemoval::Empty) => true,
                Ok(RepositoryRemoval::Removed(count)) => {
                    emptied = emptied.saturating_add(1);
                    removed = removed.saturating_add(count);
                    true
                }
                Ok(RepositoryRemoval::Unfinished) => {
                    is_unfinished = true;
                    has_known()
                }
                Ok(RepositoryRemoval::Refused(why)) => {
                    refusal = Some(why);
                    has_known()
                }
                Err(error) if is_too_large(&error) => {
                    refusal = Some(error);
                    false
                }
                Err(error) => return Err(error),
            };
            if is_handled {
                self.cache.record_progress(place, is_closed, repository);
            }
        }
        let has_manifests = self.cache.finish_round(place);
        if let Some(error) = refusal {
            return Err(error);
        }
        if has_manifests || is_unfinished {
            let next =
                if is_unfinished { "it goes on with others" } else { "it is looked whether any is left" };
            return Ok(RemovalProgress::InProgress(format!(
                "{removed} manifests of {emptied} repositories were removed; {next}"
            )));
        }
        if !is_complete {
            return Err(catalog::too_many_repositories(&prefix));
        }
        // Before an empty registry is believed: another server at its address may answer so to everything.
        if !names.is_empty() {
            catalog::check_catalog(&self.client).await?;
        }
        self.cache.forget(&prefix);
        self.memory.forget(&prefix);
        Ok(RemovalProgress::Done)
    }

    /// Removes a part of a repository. If the registry deletes none of it, the manifests that name it may be in another
    /// part, which is tried next.
    async fn remove_part(&self, place: &RegistryPlace, repository: &str) -> Result<RepositoryRemoval, Error> {
        let prefix = place.prefix();
        let first = RemovalCursor::first(repository);
        let mut refused = None;
        for _part in 0..PARTS_MAX {
            let cursor = self.cache.cursor(&prefix, repository).unwrap_or_else(|| first.clone());
            let found = self.repository(repository).removal_batch(place, &cursor).await;
            let found = found.inspect_err(|error| {
                // The cursor has a path of the registry, which may not know it any more.
                if matches!(error, Error::Registry(CallFailure::Refused { .. })) {
                    self.cache.set_cursor(&prefix, repository, None);
                }
            })?;
            if found.waves.is_empty() && cursor == first {
                return Ok(RepositoryRemoval::Empty);
            }
            let PartRemoval { removed, why } = self.delete_part(repository, &found).await?;
            let next = found.next.filter(|_| removed == 0);
            let is_last = next.is_none();
            self.cache.set_cursor(&prefix, repository, next);
            if removed > 0 {
                self.cache.set_undeletable(&prefix, repository, false);
                return Ok(RepositoryRemoval::Removed(removed));
            }
            refused = why.or(refused);
            // If everything that was tried in this pass has gone meanwhile, the next pass starts again.
            if is_last && refused.is_some() {
                self.cache.set_undeletable(&prefix, repository, true);
                break;
            }
        }
        let refused = refused.filter(|_| self.cache.is_undeletable(&prefix, repository));
        Ok(refused.map_or(RepositoryRemoval::Unfinished, RepositoryRemoval::Refused))
    }

    /// Deletes the manifests of a part. A registry may refuse to delete what another manifest names.
    async fn delete_part(&self, repository: &str, found: &RemovalBatch) -> Result<PartRemoval, Error> {
        let mut refused = Vec::new();
        for wave in &found.waves {
            refused.push(self.delete_all(repository, wave).await?.digests);
        }
        // Manifests that others name could not go first. The cache has them by now, so they can go last.
        let (mut left, mut why): (usize, Option<Error>) = (0, None);
        for wave in refused.iter().rev() {
            let kept = self.delete_all(repository, wave).await?;
            left = left.saturating_add(kept.digests.len());
            why = kept.why.or(why);
        }
        let mut count: usize = found.waves.iter().map(Vec::len).sum();
        if left > 0 {
            count = count.saturating_add(found.parents.len());
            let kept = self.delete_all(repository, &found.parents).await?;
            left = left.saturating_add(kept.digests.len());
            why = kept.why.or(why);
        }
        Ok(PartRemoval { removed: count.saturating_sub(left), why })
    }

    /// Deletes manifests. Returns those that the registry refuses to delete.
    async fn delete_all(&self, repository: &str, digests: &[String]) -> Result<UndeletedManifests, Error> {
        let mut kept = UndeletedManifests::default();
        for some in digests.chunks(CALLS_CHUNK) {
            let calls: Vec<_> = some.iter().map(|digest| self.delete(repository, digest)).collect();
            let ended: Vec<Option<(String, Error)>> =
                stream::iter(calls).buffer_unordered(PARALLEL).try_collect().await?;
            for (digest, why) in ended.into_iter().flatten() {
                kept.digests.push(digest);
                kept.why = Some(why);
            }
        }
        Ok(kept)
    }

    /// Deletes a manifest. Returns the digest and the reason if the registry refuses.
    async fn delete(&self, repository: &str, digest: &str) -> Result<Option<(String, Error)>, Error> {
        let call = Call {
            method: Method::DELETE,
            path: format!("/v2/{repository}/manifests/{digest}"),
            scope: format!("repository:{repository}:delete,pull"),
        };
        // Each call needs a permit of its own, so that a former leader removes nothing that is pushed under its
        // successor.
        let answer = self.client.write(&call, &self.writes).await?;
        match answer.status {
            StatusCode::ACCEPTED | StatusCode::OK | StatusCode::NOT_FOUND => Ok(None),
            // zot and GitLab's registry answer either of these for a manifest that another one names.
            StatusCode::METHOD_NOT_ALLOWED => Ok(Some((digest.to_owned(), does_not_delete()))),
            StatusCode::CONFLICT => Ok(Some((digest.to_owned(), answer.failure()))),
            _ => Err(answer.failure()),
        }
    }
}

fn does_not_delete() -> Error {
    Error::Registry(CallFailure::Refused {
        code: 405,
        message: "the registry does not delete: it has to be allowed there (storage.delete.enabled)"
            .to_owned(),
    })
}

fn record(provenance: RegistryProvenance) -> RegistryRecord {
    RegistryRecord { backend: RegistryBackend::Oci, provenance, uid: String::new() }
}

impl Backend for OciRegistry {
    fn backend_type(&self) -> RegistryBackend {
        RegistryBackend::Oci
    }

    fn provide<'a>(
        &'a self,
        place: &'a RegistryPlace,
        consent: bool,
    ) -> BoxFuture<'a, Result<ProvideResult, Error>> {
        Self::provide(self, place, consent).boxed()
    }

    /// This backend creates nothing in the registry.
    fn recover<'a>(
        &'a self,
        place: &'a RegistryPlace,
        consent: bool,
    ) -> BoxFuture<'a, Result<Option<RegistryRecord>, Error>> {
        let found = async move {
            let is_taken = consent && self.has_content(place).await?;
            Ok(is_taken.then(|| record(RegistryProvenance::Adopted)))
        };
        found.boxed()
    }

    /// A prefix is only a name, which cannot be lost.
    fn inspect<'a>(
        &'a self,
        _place: &'a RegistryPlace,
        _record: &'a RegistryRecord,
    ) -> BoxFuture<'a, Result<RecordedState, Error>> {
        std::future::ready(Ok(RecordedState::Present { locked: false })).boxed()
    }

    fn measure<'a>(&'a self, place: &'a RegistryPlace) -> BoxFuture<'a, Result<Option<Measured>, Error>> {
        let found = scan::scan(&self.client, &self.cache, &self.memory, place);
        found.map_ok(Some).boxed()
    }

    fn remove<'a>(
        &'a self,
        place: &'a RegistryPlace,
        _record: &'a RegistryRecord,
        is_closed: bool,
    ) -> BoxFuture<'a, Result<RemovalProgress, Error>> {
        Self::remove(self, place, is_closed).boxed()
    }

    fn writes_have_ended(&self) -> Result<(), Duration> {
        self.writes.have_ended()
    }

    fn late_push_window(&self) -> Duration {
        Duration::from_secs(API_LAG_SECONDS + TOKEN_SECONDS_MAX + TOKEN_LEEWAY_SECONDS + CLOCK_SKEW_SECONDS)
    }
}
