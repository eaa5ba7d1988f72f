//! What lies below a prefix: manifests, and the bytes of every blob that they name, each counted once.

use super::PARALLEL;
use super::calls::{Call, Http};
use super::references::References;
use crate::error::{CallFailure, Error};
use crate::registry::backend::{Measured, RegistryPlace, TOO_MUCH};
use business_types::registry::{ManifestName, is_digest};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Repositories, or tags of one, that a page has.
const PAGE: usize = 500;
/// Pages that are read of one list.
const PAGES_MAX: usize = 200;
/// Pages of tags whose manifests are removed at a time, and digests that those name.
const REMOVED_PAGES: usize = 4;
const REMOVED_NAMES: usize = 20_000;
/// Manifests that are looked at below one prefix.
const MANIFESTS_MAX: usize = 100_000;
/// Digests whose content, or size, is remembered. Neither ever changes.
const REMEMBERED_MAX: usize = 200_000;
/// Digests that manifests name, of a repository, and of blobs below one prefix: their authors have them name what they like.
const NAMED_MAX: usize = 1_000_000;
/// A manifest that names more is read anew each time.
const REMEMBERED_NAMES_MAX: usize = 256;

/// What was found below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Digests of manifests by repository.
    pub repositories: BTreeMap<String, BTreeSet<String>>,
    pub measured: Measured,
}

impl Inventory {
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty()
    }

    /// Repository and digest of each manifest.
    pub fn manifests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.repositories.iter().flat_map(|(repository, digests)| {
            digests.iter().map(move |digest| (repository.as_str(), digest.as_str()))
        })
    }
}

/// What was seen before: no list shows a manifest that has lost its tag, and every manifest has to be removed by its digest.
/// It is lost with the process.
#[derive(Debug, Default)]
pub struct Known {
    /// By prefix.
    found: Mutex<HashMap<String, Inventory>>,
    /// By digest.
    contents: Mutex<HashMap<String, Arc<Manifest>>>,
    /// Bytes of blobs by repository and digest, as the registry says: what a manifest says of them is its author's, and what
    /// another repository has he may not know.
    sizes: Mutex<HashMap<String, u64>>,
}

/// The content of a manifest.
#[derive(Debug)]
struct Manifest {
    bytes: u64,
    names: References,
}

impl Known {
    /// Nothing is left below this prefix.
    pub fn forget(&self, prefix: &str) {
        lock(&self.found).remove(prefix);
    }

    fn before(&self, prefix: &str, repository: &str) -> BTreeSet<String> {
        let found = lock(&self.found);
        found.get(prefix).and_then(|found| found.repositories.get(repository)).cloned().unwrap_or_default()
    }

    fn sees(&self, prefix: &str, repository: &str, digests: &BTreeSet<String>) {
        let mut found = lock(&self.found);
        let found = found.entry(prefix.to_owned()).or_default();
        found.repositories.entry(repository.to_owned()).or_default().extend(digests.iter().cloned());
    }

    fn repositories_before(&self, prefix: &str) -> Vec<String> {
        let found = lock(&self.found);
        found.get(prefix).into_iter().flat_map(|found| found.repositories.keys().cloned()).collect()
    }

    fn content(&self, digest: &str) -> Option<Arc<Manifest>> {
        lock(&self.contents).get(digest).cloned()
    }

    fn keep(&self, digest: &str, manifest: &Arc<Manifest>) {
        if manifest.names.count() <= REMEMBERED_NAMES_MAX {
            remember(&self.contents, digest, Arc::clone(manifest));
        }
    }
}

fn remember<T>(held: &Mutex<HashMap<String, T>>, digest: &str, value: T) {
    let mut held = lock(held);
    if held.len() >= REMEMBERED_MAX {
        held.clear();
    }
    held.insert(digest.to_owned(), value);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks through everything below the prefix of a place.
pub async fn read(http: &Http, known: &Known, place: &RegistryPlace) -> Result<Inventory, Error> {
    let prefix = &place.prefix();
    let repositories = repositories(http, known, place).await?;
    let are_named = !repositories.is_empty();
    let mut found = Inventory::default();
    let mut blobs: HashMap<String, u64> = HashMap::new();
    for repository in repositories {
        let before = before(known, place, &repository);
        let (tags, true) = list_tags(http, &repository, PAGES_MAX).await? else {
            return Err(too_much(&format!("{repository} has too many tags")));
        };
        let Manifests { manifests, untagged } =
            manifests_of(http, known, &repository, tags, before, Extent::Whole).await?;
        found
            .measured
            .untagged
            .extend(untagged.iter().filter_map(|digest| ManifestName::new(&repository, digest)));
        let named: BTreeSet<&String> =
            manifests.values().flat_map(|manifest| &manifest.names.blobs).collect();
        let is_counted = |digest: &str| blobs.contains_key(digest) || manifests.contains_key(digest);
        let asked = named.into_iter().filter(|digest| !is_counted(digest));
        let sizes: Vec<_> = asked.map(|digest| size_of(http, known, &repository, digest)).collect();
        let sizes: Vec<_> = stream::iter(sizes).buffer_unordered(PARALLEL).try_collect().await?;
        // What is not there may be in another repository, and counts then.
        blobs.extend(sizes.into_iter().flatten());
        blobs.extend(manifests.iter().map(|(digest, manifest)| (digest.clone(), manifest.bytes)));
        let digests: BTreeSet<String> = manifests.into_keys().collect();
        if !digests.is_empty() {
            found.repositories.insert(repository, digests);
        }
        if found.manifests().count() > MANIFESTS_MAX {
            return Err(too_much(&format!("there are more than {MANIFESTS_MAX} manifests below {prefix}")));
        }
        if blobs.len() > NAMED_MAX {
            return Err(too_much(&format!("there are more than {NAMED_MAX} blobs below {prefix}")));
        }
    }
    // Of all of them nothing is there any more: somebody may answer so by now to whatever he is asked.
    if are_named && found.is_empty() {
        confirm(http).await?;
    }
    found.measured.bytes = blobs.into_values().fold(0, u64::saturating_add);
    lock(&known.found).insert(prefix.to_owned(), found.clone());
    Ok(found)
}

/// The repositories below the prefix of a place: those that are listed, and those that something else leads to.
pub async fn repositories(
    http: &Http,
    known: &Known,
    place: &RegistryPlace,
) -> Result<BTreeSet<String>, Error> {
    let prefix = &place.prefix();
    let below = format!("{prefix}/");
    let mut repositories: BTreeSet<String> = list_repositories(http, prefix).await?.into_iter().collect();
    repositories.extend(known.repositories_before(prefix));
    let told = place.untagged.iter().map(ManifestName::repository);
    repositories.extend(told.filter(|name| name.starts_with(&below)).map(str::to_owned));
    Ok(repositories)
}

/// The digests of manifests of a repository: of all, unless there are very many. They are remembered: what an index names is
/// not found without it.
pub async fn digests(
    http: &Http,
    known: &Known,
    place: &RegistryPlace,
    repository: &str,
) -> Result<BTreeSet<String>, Error> {
    let before = before(known, place, repository);
    let (tags, _are_all) = list_tags(http, repository, REMOVED_PAGES).await?;
    let digests: BTreeSet<String> = manifests_of(http, known, repository, tags, before, Extent::Part)
        .await?
        .manifests
        .into_keys()
        .collect();
    known.sees(&place.prefix(), repository, &digests);
    Ok(digests)
}

/// Whether it is the registry that answers: it has a catalogue.
pub async fn confirm(http: &Http) -> Result<(), Error> {
    catalogue(http, "/v2/_catalog?n=1".to_owned()).await.map(drop)
}

/// Manifests of a repository that no list may show.
fn before(known: &Known, place: &RegistryPlace, repository: &str) -> BTreeSet<String> {
    let told = place.untagged.iter().filter(|name| name.repository() == repository);
    let mut before = known.before(&place.prefix(), repository);
    before.extend(told.map(|name| name.digest().to_owned()));
    before
}

fn too_much(message: &str) -> Error {
    Error::Registry(CallFailure::Refused { code: TOO_MUCH, message: message.to_owned() })
}

/// The manifests of a repository that answer, by digest.
struct Manifests {
    manifests: BTreeMap<String, Arc<Manifest>>,
    /// Those that neither a tag nor another manifest leads to.
    untagged: BTreeSet<String>,
}

/// How much of a repository is looked through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Some of what has a tag or is told, with all that it names.
    Part,
}

/// Those with tags, those that were seen before, and those that an index names.
async fn manifests_of(
    http: &Http,
    known: &Known,
    repository: &str,
    tags: Vec<String>,
    before: BTreeSet<String>,
    extent: Extent,
) -> Result<Manifests, Error> {
    let tagged = existing(http, repository, tags).await?;
    // What has a tag has answered by it.
    let others: Vec<String> = before.difference(&tagged).cloned().collect();
    let others = existing(http, repository, others).await?;
    let mut wanted: BTreeSet<String> = tagged.union(&others).cloned().collect();
    let mut manifests: BTreeMap<String, Arc<Manifest>> = BTreeMap::new();
    let mut names: usize = 0;
    let mut are_named = false;
    while !wanted.is_empty() {
        let reads: Vec<_> = wanted.iter().map(|digest| manifest(http, known, repository, digest)).collect();
        let mut read = stream::iter(reads).buffer_unordered(PARALLEL);
        let mut next = BTreeSet::new();
        while let Some(answer) = read.try_next().await? {
            let Some((digest, manifest)) = answer else { continue };
            names = names.saturating_add(manifest.names.count());
            if names > NAMED_MAX {
                let message = format!("the manifests in {repository} name more than {NAMED_MAX} digests");
                return Err(too_much(&message));
            }
            next.extend(manifest.names.children.iter().cloned());
            manifests.insert(digest, manifest);
            if extent == Extent::Part && !are_named && names > REMOVED_NAMES {
                break;
            }
        }
        drop(read);
        are_named = true;
        next.retain(|digest| !manifests.contains_key(digest));
        if manifests.len().saturating_add(next.len()) > MANIFESTS_MAX {
            return Err(too_much(&format!("there are more than {MANIFESTS_MAX} manifests in {repository}")));
        }
        // Where the content is known it may be from another repository: this one is asked whether it has it.
        let (read, unread): (BTreeSet<String>, BTreeSet<String>) =
            next.into_iter().partition(|digest| known.content(digest).is_some());
        wanted = existing(http, repository, read).await?;
        wanted.extend(unread);
    }
    let named: BTreeSet<&String> = manifests.values().flat_map(|manifest| &manifest.names.children).collect();
    let untagged = others.iter().filter(|digest| !named.contains(digest)).cloned().collect();
    Ok(Manifests { manifests, untagged })
}

/// The digests of what answers under these tags or digests.
async fn existing(
    http: &Http,
    repository: &str,
    references: impl IntoIterator<Item = String>,
) -> Result<BTreeSet<String>, Error> {
    let heads: Vec<_> =
        references.into_iter().map(|reference| digest_of(http, repository, reference)).collect();
    let digests: Vec<Option<String>> = stream::iter(heads).buffer_unordered(PARALLEL).try_collect().await?;
    Ok(digests.into_iter().flatten().collect())
}

/// The digest of what answers under a tag or digest; `None` when nothing does.
async fn digest_of(http: &Http, repository: &str, reference: String) -> Result<Option<String>, Error> {
    let path = format!("/v2/{repository}/manifests/{reference}");
    let Some(answer) = http.head(path, pull(repository)).await? else { return Ok(None) };
    let digest = answer.header("docker-content-digest").unwrap_or(&reference);
    Ok(Some(digest.to_owned()).filter(|digest| is_digest(digest)))
}

fn pull(repository: &str) -> String {
    format!("repository:{repository}:pull")
}

/// A manifest that is there or whose content is not known, by its digest; `None` when it does not answer. An index may name
/// what was never pushed.
async fn manifest(
    http: &Http,
    known: &Known,
    repository: &str,
    digest: &str,
) -> Result<Option<(String, Arc<Manifest>)>, Error> {
    if let Some(manifest) = known.content(digest) {
        return Ok(Some((digest.to_owned(), manifest)));
    }
    let path = format!("/v2/{repository}/manifests/{digest}");
    let answer = http.call(&Call { method: Method::GET, path, scope: pull(repository) }).await?;
    match answer.status {
        StatusCode::OK => {}
        _ if answer.is_unknown() => return Ok(None),
        _ => return Err(answer.failure()),
    }
    let bytes = u64::try_from(answer.body.len()).unwrap_or(u64::MAX);
    let manifest = Arc::new(Manifest { bytes, names: References::of(&answer.body) });
    known.keep(digest, &manifest);
    Ok(Some((digest.to_owned(), manifest)))
}

/// A blob and its bytes; `None` for one that is not there, such as a layer that is kept elsewhere.
async fn size_of(
    http: &Http,
    known: &Known,
    repository: &str,
    digest: &str,
) -> Result<Option<(String, u64)>, Error> {
    let name = format!("{repository}@{digest}");
    let before = lock(&known.sizes).get(&name).copied();
    if let Some(bytes) = before {
        return Ok(Some((digest.to_owned(), bytes)));
    }
    let path = format!("/v2/{repository}/blobs/{digest}");
    let Some(bytes) = http.bytes(path, pull(repository)).await? else { return Ok(None) };
    remember(&known.sizes, &name, bytes);
    Ok(Some((digest.to_owned(), bytes)))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Catalog {
    repositories: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tags {
    tags: Option<Vec<String>>,
}

/// The names of all repositories below a prefix. Registries sort them by bytes, or by parts: what begins with the prefix
/// stands together in either order.
async fn list_repositories(http: &Http, prefix: &str) -> Result<Vec<String>, Error> {
    let mut path = format!("/v2/_catalog?n={PAGE}&last={prefix}");
    let (mut found, below) = (Vec::new(), format!("{prefix}/"));
    for _page in 0..PAGES_MAX {
        let (page, next) = catalogue(http, path).await?;
        let names = page.repositories.unwrap_or_default();
        let is_past = names.last().is_none_or(|last| !last.starts_with(prefix) && last.as_str() > prefix);
        found.extend(names.into_iter().filter(|name| name.starts_with(&below)));
        match next.filter(|_| !is_past) {
            Some(next) => path = next,
            None => return Ok(found),
        }
    }
    Err(too_much(&format!("the registry lists too many repositories around {prefix}")))
}

/// A page of the catalogue, and where the next one is. One that is not there is not an empty one.
async fn catalogue(http: &Http, path: String) -> Result<(Catalog, Option<String>), Error> {
    page(http, path, "registry:catalog:*").await?.ok_or_else(|| {
        Error::Registry(CallFailure::Refused {
            code: 404,
            message: "the registry does not list its repositories: /v2/_catalog has to be allowed to the controller"
                .to_owned(),
        })
    })
}

/// The tags of a repository on so many pages, and whether that is all of them.
async fn list_tags(http: &Http, repository: &str, pages: usize) -> Result<(Vec<String>, bool), Error> {
    let mut path = format!("/v2/{repository}/tags/list?n={PAGE}");
    let mut found = Vec::new();
    for _page in 0..pages {
        let Some((page, next)) = page::<Tags>(http, path, &pull(repository)).await? else {
            return Ok((found, true));
        };
        found.extend(page.tags.unwrap_or_default());
        match next {
            Some(next) => path = next,
            None => return Ok((found, true)),
        }
    }
    Ok((found, false))
}

/// A page of a list, and where the next one is; `None` when the registry says that there is no such list.
async fn page<T: DeserializeOwned>(
    http: &Http,
    path: String,
    scope: &str,
) -> Result<Option<(T, Option<String>)>, Error> {
    let answer = http.call(&Call { method: Method::GET, path, scope: scope.to_owned() }).await?;
    match answer.status {
        StatusCode::OK => {
            let page = serde_json::from_slice(&answer.body).map_err(|error| {
                Error::Registry(CallFailure::Unavailable(format!(
                    "a list of the registry cannot be read: {error}"
                )))
            })?;
            Ok(Some((page, answer.next_page())))
        }
        _ if answer.is_unknown() => Ok(None),
        _ => Err(answer.failure()),
    }
}
