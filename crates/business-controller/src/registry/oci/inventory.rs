//! What lies below a prefix: manifests, and the bytes of every blob that they name, each counted once.

use super::PARALLEL;
use super::calls::{Call, Http};
use super::references::References;
use crate::error::{CallFailure, Error};
use crate::registry::backend::{Measured, RegistryPlace, TOO_MUCH};
use business_types::registry::{ManifestName, UNTAGGED_MAX, is_digest, is_repository_component};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Repositories, or tags of one, that a page has.
const PAGE: usize = if cfg!(test) { 50 } else { 500 };
/// Pages that are read of one list.
const PAGES_MAX: usize = 200;
/// Manifests of a repository that are looked at before some of it is removed: of a page of tags, and of what was seen before,
/// which has to be more than is told of an object. And digests that those name.
const REMOVED_MANIFESTS: usize = if cfg!(test) { 8 } else { 1_000 };
const REMOVED_NAMES: usize = 5_000;
/// Manifests that are looked at below one prefix.
const MANIFESTS_MAX: usize = 100_000;
/// Digests whose content, or size, is remembered. Neither ever changes.
const REMEMBERED_MAX: usize = 200_000;
/// Digests that manifests name, of a repository, and of blobs below one prefix: their authors have them name what they like.
const NAMED_MAX: usize = 1_000_000;
/// Digests that one manifest names, where all is looked through: each is asked for. No image has as many.
const MANIFEST_NAMES_MAX: usize = 10_000;
/// Manifests that are told of an object, as long as all that have no tag are among them.
const TOLD_MAX: usize = if cfg!(test) { 4 } else { UNTAGGED_MAX };
/// Calls that are prepared at a time.
const TOGETHER: usize = 1_000;
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
    below: Mutex<HashMap<String, Below>>,
    /// By digest.
    contents: Mutex<HashMap<String, Arc<Manifest>>>,
    /// Bytes of blobs by repository and digest, as the registry says: what a manifest says of them is its author's, and what
    /// another repository has he may not know.
    sizes: Mutex<HashMap<String, u64>>,
}

/// What is known below a prefix.
#[derive(Debug, Default)]
struct Below {
    /// Digests of manifests by repository. None is empty.
    repositories: BTreeMap<String, BTreeSet<String>>,
    round: Option<Round>,
}

/// A look through all repositories below a prefix, which may take several passes.
#[derive(Debug)]
struct Round {
    /// The object's whose content is removed.
    uid: String,
    /// Nothing could be pushed any more when it began.
    is_closed: bool,
    /// The last repository that it has come to.
    behind: String,
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
        lock(&self.below).remove(prefix);
    }

    /// Behind which repository the removal goes on. What was looked at while something could still be pushed is looked at anew.
    pub fn goes_on(&self, place: &RegistryPlace, is_closed: bool) -> String {
        let below = lock(&self.below);
        let round = below.get(&place.prefix()).and_then(|below| below.round.as_ref());
        let same = round.filter(|round| round.uid == place.uid && round.is_closed == is_closed);
        same.map(|round| round.behind.clone()).unwrap_or_default()
    }

    /// The removal has come so far.
    pub fn has_come_to(&self, place: &RegistryPlace, is_closed: bool, repository: &str) {
        let round = Round { uid: place.uid.clone(), is_closed, behind: repository.to_owned() };
        lock(&self.below).entry(place.prefix()).or_default().round = Some(round);
    }

    /// All repositories were looked at, and the next look begins anew. Whether anything has answered: what does is known until it
    /// answers no more.
    pub fn ends_round(&self, place: &RegistryPlace) -> bool {
        let mut below = lock(&self.below);
        let Some(below) = below.get_mut(&place.prefix()) else { return false };
        below.round = None;
        !below.repositories.is_empty()
    }

    fn before(&self, prefix: &str, repository: &str) -> BTreeSet<String> {
        let below = lock(&self.below);
        below.get(prefix).and_then(|below| below.repositories.get(repository)).cloned().unwrap_or_default()
    }

    fn sees(&self, prefix: &str, repository: &str, digests: BTreeSet<String>, gone: &BTreeSet<String>) {
        let mut below = lock(&self.below);
        let repositories = &mut below.entry(prefix.to_owned()).or_default().repositories;
        let mut seen = repositories.remove(repository).unwrap_or_default();
        seen.retain(|digest| !gone.contains(digest));
        seen.extend(digests);
        if !seen.is_empty() {
            repositories.insert(repository.to_owned(), seen);
        }
    }

    fn repositories_before(&self, prefix: &str) -> Vec<String> {
        let below = lock(&self.below);
        below.get(prefix).into_iter().flat_map(|below| below.repositories.keys().cloned()).collect()
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
    let (repositories, true) = repositories(http, known, place).await? else {
        return Err(too_many_repositories(prefix));
    };
    let are_named = !repositories.is_empty();
    let mut found = Inventory::default();
    let mut blobs: HashMap<String, u64> = HashMap::new();
    let mut with_tags: Vec<ManifestName> = Vec::new();
    for repository in repositories {
        let before = before(known, place, &repository);
        let tags = list_tags(http, &repository).await?;
        let tagged = existing(http, &repository, tags, usize::MAX).await?;
        let room = TOLD_MAX.saturating_sub(with_tags.len());
        with_tags
            .extend(tagged.iter().take(room).filter_map(|digest| ManifestName::new(&repository, digest)));
        let Manifests { manifests, untagged, gone: _ } =
            manifests_of(http, known, &repository, tagged, before, Extent::Whole).await?;
        found
            .measured
            .untagged
            .extend(untagged.iter().filter_map(|digest| ManifestName::new(&repository, digest)));
        let named: BTreeSet<&String> =
            manifests.values().flat_map(|manifest| &manifest.names.blobs).collect();
        let is_counted = |digest: &str| blobs.contains_key(digest) || manifests.contains_key(digest);
        let asked: Vec<&String> = named.into_iter().filter(|digest| !is_counted(digest)).collect();
        for some in asked.chunks(TOGETHER) {
            let sizes: Vec<_> = some.iter().map(|digest| size_of(http, known, &repository, digest)).collect();
            let sizes: Vec<_> = stream::iter(sizes).buffer_unordered(PARALLEL).try_collect().await?;
            // What is not there may be in another repository, and counts then.
            blobs.extend(sizes.into_iter().flatten());
        }
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
    let room = TOLD_MAX.saturating_sub(found.measured.untagged.len());
    found.measured.untagged.extend(with_tags.into_iter().take(room));
    found.measured.bytes = blobs.into_values().fold(0, u64::saturating_add);
    let below = Below { repositories: found.repositories.clone(), round: None };
    lock(&known.below).insert(prefix.to_owned(), below);
    Ok(found)
}

/// The repositories below the prefix of a place: those that are listed, and those that something else leads to. And whether
/// that is all of them.
pub async fn repositories(
    http: &Http,
    known: &Known,
    place: &RegistryPlace,
) -> Result<(BTreeSet<String>, bool), Error> {
    let prefix = &place.prefix();
    let below = format!("{prefix}/");
    let (listed, are_all) = list_repositories(http, prefix).await?;
    let mut repositories: BTreeSet<String> = listed.into_iter().collect();
    repositories.extend(known.repositories_before(prefix));
    let told = place.untagged.iter().map(ManifestName::repository);
    repositories.extend(told.filter(|name| name.starts_with(&below)).map(str::to_owned));
    Ok((repositories, are_all))
}

/// The digests of manifests of a repository: of all, unless there are many; what others name before those. They are remembered
/// until they answer no more: what an index names is not found without it.
pub async fn digests(
    http: &Http,
    known: &Known,
    place: &RegistryPlace,
    repository: &str,
) -> Result<Vec<Vec<String>>, Error> {
    let before = before(known, place, repository);
    let tagged = some_tagged(http, repository).await?;
    let Manifests { manifests, gone, untagged: _ } =
        manifests_of(http, known, repository, tagged, before, Extent::Part).await?;
    // Somebody else may answer so by now to whatever he is asked.
    if !gone.is_empty() {
        confirm(http).await?;
    }
    let waves = waves(&manifests);
    known.sees(&place.prefix(), repository, manifests.into_keys().collect(), &gone);
    Ok(waves)
}

/// The digests in the order in which they go: what is named before what names it, deepest first. Where a removal is cut its
/// next leader finds what is left.
fn waves(manifests: &BTreeMap<String, Arc<Manifest>>) -> Vec<Vec<String>> {
    let mut parents: HashMap<&str, Vec<&str>> = HashMap::new();
    // How many of what it names are in no wave yet.
    let mut left: HashMap<&str, usize> = HashMap::new();
    let mut wave: Vec<&str> = Vec::new();
    for (digest, manifest) in manifests {
        let mut count: usize = 0;
        for child in manifest.names.children.iter().filter(|child| manifests.contains_key(*child)) {
            parents.entry(child.as_str()).or_default().push(digest.as_str());
            count = count.saturating_add(1);
        }
        if count == 0 {
            wave.push(digest.as_str());
        } else {
            left.insert(digest.as_str(), count);
        }
    }
    let mut waves: Vec<Vec<String>> = Vec::new();
    while !wave.is_empty() {
        let mut next: Vec<&str> = Vec::new();
        for parent in wave.iter().filter_map(|digest| parents.get(digest)).flatten() {
            let Some(count) = left.get_mut(parent) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                left.remove(parent);
                next.push(*parent);
            }
        }
        waves.push(wave.iter().map(|digest| (*digest).to_owned()).collect());
        wave = next;
    }
    // No content names itself; what a registry has so goes last.
    if !left.is_empty() {
        waves.push(left.into_keys().map(str::to_owned).collect());
    }
    waves
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

pub fn too_many_repositories(prefix: &str) -> Error {
    too_much(&format!("the registry lists too many repositories around {prefix}"))
}

fn too_many_tags(repository: &str) -> Error {
    too_much(&format!("{repository} has too many tags"))
}

/// The manifests of a repository that answer, by digest.
struct Manifests {
    manifests: BTreeMap<String, Arc<Manifest>>,
    /// Those that neither a tag nor another manifest leads to.
    untagged: BTreeSet<String>,
    /// Those that were seen before and do not answer any more.
    gone: BTreeSet<String>,
}

/// How much of a repository is looked through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Some of what has a tag or was seen before, with all that it names.
    Part,
}

/// Those with tags, those that were seen before, and those that an index names.
async fn manifests_of(
    http: &Http,
    known: &Known,
    repository: &str,
    tagged: BTreeSet<String>,
    before: BTreeSet<String>,
    extent: Extent,
) -> Result<Manifests, Error> {
    // What has a tag has answered by it.
    let rest = before.difference(&tagged).cloned();
    let asked: BTreeSet<String> = match extent {
        Extent::Whole => rest.collect(),
        Extent::Part => rest.take(REMOVED_MANIFESTS).collect(),
    };
    let others = existing(http, repository, asked.clone(), usize::MAX).await?;
    let gone = asked.difference(&others).cloned().collect();
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
            if extent == Extent::Whole && manifest.names.count() > MANIFEST_NAMES_MAX {
                let message = format!("{repository}@{digest} names more than {MANIFEST_NAMES_MAX} digests");
                return Err(too_much(&message));
            }
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
        wanted = existing(http, repository, read, usize::MAX).await?;
        wanted.extend(unread);
    }
    let named: BTreeSet<&String> = manifests.values().flat_map(|manifest| &manifest.names.children).collect();
    let untagged = others.iter().filter(|digest| !named.contains(digest)).cloned().collect();
    Ok(Manifests { manifests, untagged, gone })
}

/// The digests of what answers under these tags or digests, until so many have answered.
async fn existing(
    http: &Http,
    repository: &str,
    references: impl IntoIterator<Item = String>,
    max: usize,
) -> Result<BTreeSet<String>, Error> {
    let heads: Vec<_> =
        references.into_iter().map(|reference| digest_of(http, repository, reference)).collect();
    let answers = stream::iter(heads).buffer_unordered(PARALLEL);
    answers.try_filter_map(|digest| std::future::ready(Ok(digest))).take(max).try_collect().await
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

/// The names of repositories below a prefix, and whether that is all of them. Registries sort them by bytes, or by parts: what
/// begins with the prefix stands together in either order.
///
/// It begins behind a name that none can have and that sorts before all below the prefix. Behind the prefix itself distribution
/// 3 begins in its storage at `PREFIX/_manifests`, and passes over each part that begins with a digit. Registries that take
/// only the name of a repository that is there (Harbor) take neither.
async fn list_repositories(http: &Http, prefix: &str) -> Result<(Vec<String>, bool), Error> {
    let mut path = format!("/v2/_catalog?n={PAGE}&last={prefix}/-");
    let (mut found, below) = (Vec::new(), format!("{prefix}/"));
    // Where a page ends at a repository with a tag `_manifests`, distribution has `REPOSITORY/_manifests/tags` on the next one.
    let is_ours = |name: &String| name.starts_with(&below) && name.split('/').all(is_repository_component);
    for _page in 0..PAGES_MAX {
        let (page, next) = catalogue(http, path).await?;
        let names = page.repositories.unwrap_or_default();
        let is_past = names.last().is_none_or(|last| !last.starts_with(prefix) && last.as_str() > prefix);
        found.extend(names.into_iter().filter(is_ours));
        match next.filter(|_| !is_past) {
            Some(next) => path = next,
            None => return Ok((found, true)),
        }
    }
    Ok((found, false))
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

/// All tags of a repository.
async fn list_tags(http: &Http, repository: &str) -> Result<Vec<String>, Error> {
    let mut path = tags_of(repository);
    let mut found = Vec::new();
    for _page in 0..PAGES_MAX {
        let (tags, next) = tags(http, repository, path).await?;
        found.extend(tags);
        match next {
            Some(next) => path = next,
            None => return Ok(found),
        }
    }
    Err(too_many_tags(repository))
}

/// The digests of the first page of tags of which any answers.
async fn some_tagged(http: &Http, repository: &str) -> Result<BTreeSet<String>, Error> {
    let mut path = tags_of(repository);
    for _page in 0..PAGES_MAX {
        let (tags, next) = tags(http, repository, path).await?;
        let tagged = existing(http, repository, tags, REMOVED_MANIFESTS).await?;
        match next {
            Some(next) if tagged.is_empty() => path = next,
            _ => return Ok(tagged),
        }
    }
    Err(too_many_tags(repository))
}

fn tags_of(repository: &str) -> String {
    format!("/v2/{repository}/tags/list?n={PAGE}")
}

/// A page of tags, and where the next one is.
async fn tags(http: &Http, repository: &str, path: String) -> Result<(Vec<String>, Option<String>), Error> {
    let page = page::<Tags>(http, path, &pull(repository)).await?;
    Ok(page.map(|(page, next)| (page.tags.unwrap_or_default(), next)).unwrap_or_default())
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
