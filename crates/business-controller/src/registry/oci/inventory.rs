//! What lies below a prefix: manifests, and the bytes of every blob that they name, each counted once.

use super::PARALLEL;
use super::calls::{Call, Http};
use crate::error::{CallFailure, Error};
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
/// Manifests that are looked at below one prefix.
const MANIFESTS_MAX: usize = 100_000;
/// Digests whose content, or size, is remembered. Neither ever changes.
const REMEMBERED_MAX: usize = 200_000;

/// What was found below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Digests of manifests by repository.
    pub repositories: BTreeMap<String, BTreeSet<String>>,
    pub bytes: u64,
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
    /// Bytes of blobs by digest, as the registry says: what a manifest says of them is its author's.
    sizes: Mutex<HashMap<String, u64>>,
}

/// The content of a manifest.
#[derive(Debug)]
struct Manifest {
    bytes: u64,
    /// Digests of what it is made of.
    blobs: Vec<String>,
    /// Digests of manifests, for an index.
    children: Vec<String>,
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

    fn repositories_before(&self, prefix: &str) -> Vec<String> {
        let found = lock(&self.found);
        found.get(prefix).into_iter().flat_map(|found| found.repositories.keys().cloned()).collect()
    }

    fn content(&self, digest: &str) -> Option<Arc<Manifest>> {
        lock(&self.contents).get(digest).cloned()
    }

    fn keep(&self, digest: &str, manifest: &Arc<Manifest>) {
        remember(&self.contents, digest, Arc::clone(manifest));
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

/// Looks through everything below a prefix.
pub async fn read(http: &Http, known: &Known, prefix: &str) -> Result<Inventory, Error> {
    let mut repositories: BTreeSet<String> = list_repositories(http, prefix).await?.into_iter().collect();
    repositories.extend(known.repositories_before(prefix));
    let mut found = Inventory::default();
    let mut blobs: HashMap<String, u64> = HashMap::new();
    for repository in repositories {
        let manifests = manifests_of(http, known, prefix, &repository).await?;
        let named: BTreeSet<&String> = manifests.values().flat_map(|manifest| &manifest.blobs).collect();
        let asked = named.into_iter().filter(|digest| !blobs.contains_key(*digest));
        let sizes: Vec<_> = asked.map(|digest| size_of(http, known, &repository, digest)).collect();
        let sizes: Vec<(String, u64)> = stream::iter(sizes).buffer_unordered(PARALLEL).try_collect().await?;
        blobs.extend(sizes);
        blobs.extend(manifests.iter().map(|(digest, manifest)| (digest.clone(), manifest.bytes)));
        let digests: BTreeSet<String> = manifests.into_keys().collect();
        if !digests.is_empty() {
            found.repositories.insert(repository, digests);
        }
        if found.manifests().count() > MANIFESTS_MAX {
            return Err(too_much(&format!("there are more than {MANIFESTS_MAX} manifests below {prefix}")));
        }
    }
    found.bytes = blobs.into_values().fold(0, u64::saturating_add);
    lock(&known.found).insert(prefix.to_owned(), found.clone());
    Ok(found)
}

fn too_much(message: &str) -> Error {
    Error::Registry(CallFailure::Refused { code: 413, message: message.to_owned() })
}

/// The manifests of a repository that answer: those with tags, those that were seen before, and those that an index names.
async fn manifests_of(
    http: &Http,
    known: &Known,
    prefix: &str,
    repository: &str,
) -> Result<BTreeMap<String, Arc<Manifest>>, Error> {
    let tags = list_tags(http, repository).await?;
    let asked = tags.into_iter().chain(known.before(prefix, repository));
    let heads: Vec<_> = asked.map(|reference| digest_of(http, repository, reference)).collect();
    let digests: Vec<Option<String>> = stream::iter(heads).buffer_unordered(PARALLEL).try_collect().await?;
    let mut wanted: BTreeSet<String> = digests.into_iter().flatten().collect();
    let mut manifests = BTreeMap::new();
    while !wanted.is_empty() {
        let reads: Vec<_> = wanted.iter().map(|digest| manifest(http, known, repository, digest)).collect();
        let read: Vec<_> = stream::iter(reads).buffer_unordered(PARALLEL).try_collect().await?;
        let mut next = BTreeSet::new();
        for (digest, manifest) in read.into_iter().flatten() {
            next.extend(manifest.children.iter().cloned());
            manifests.insert(digest, manifest);
        }
        wanted = next.into_iter().filter(|digest| !manifests.contains_key(digest)).collect();
        if manifests.len().saturating_add(wanted.len()) > MANIFESTS_MAX {
            return Err(too_much(&format!("there are more than {MANIFESTS_MAX} manifests in {repository}")));
        }
    }
    Ok(manifests)
}

/// The digest of what answers under a tag or digest; `None` when nothing does.
async fn digest_of(http: &Http, repository: &str, reference: String) -> Result<Option<String>, Error> {
    let path = format!("/v2/{repository}/manifests/{reference}");
    let answer = http.call(&Call { method: Method::HEAD, path, scope: pull(repository) }).await?;
    match answer.status {
        StatusCode::OK => {
            let digest = answer.header("docker-content-digest").unwrap_or(&reference);
            Ok(Some(digest.to_owned()).filter(|digest| is_digest(digest)))
        }
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(answer.failure()),
    }
}

fn pull(repository: &str) -> String {
    format!("repository:{repository}:pull")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Descriptor {
    digest: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManifestDocument {
    config: Option<Descriptor>,
    layers: Vec<Descriptor>,
    manifests: Vec<Descriptor>,
}

/// A manifest by its digest; `None` when it does not answer. An index may name what was never pushed.
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
        StatusCode::NOT_FOUND => return Ok(None),
        _ => return Err(answer.failure()),
    }
    let bytes = u64::try_from(answer.body.len()).unwrap_or(u64::MAX);
    // Of a format that is not known it counts itself.
    let ManifestDocument { config, layers, manifests } =
        serde_json::from_slice(&answer.body).unwrap_or_default();
    let blobs = digests(config.into_iter().chain(layers));
    let manifest = Arc::new(Manifest { bytes, blobs, children: digests(manifests) });
    known.keep(digest, &manifest);
    Ok(Some((digest.to_owned(), manifest)))
}

fn digests(named: impl IntoIterator<Item = Descriptor>) -> Vec<String> {
    named.into_iter().map(|one| one.digest).filter(|digest| is_digest(digest)).collect()
}

/// Bytes of a blob. What is not there, such as a layer that is kept elsewhere, has none.
async fn size_of(http: &Http, known: &Known, repository: &str, digest: &str) -> Result<(String, u64), Error> {
    if let Some(bytes) = lock(&known.sizes).get(digest) {
        return Ok((digest.to_owned(), *bytes));
    }
    let path = format!("/v2/{repository}/blobs/{digest}");
    let answer = http.call(&Call { method: Method::HEAD, path, scope: pull(repository) }).await?;
    match answer.status {
        StatusCode::OK => {
            let bytes =
                answer.header("content-length").and_then(|text| text.parse().ok()).unwrap_or_default();
            remember(&known.sizes, digest, bytes);
            Ok((digest.to_owned(), bytes))
        }
        StatusCode::NOT_FOUND => Ok((digest.to_owned(), 0)),
        _ => Err(answer.failure()),
    }
}

/// A manifest names others by texts of its author's, which become parts of paths.
fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    !algorithm.is_empty()
        && algorithm.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && (32..=128).contains(&hex.len())
        && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
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
        let (page, next) = page::<Catalog>(http, path, "registry:catalog:*").await?;
        let names = page.and_then(|page| page.repositories).unwrap_or_default();
        let is_past = names.last().is_none_or(|last| !last.starts_with(prefix) && last.as_str() > prefix);
        found.extend(names.into_iter().filter(|name| name.starts_with(&below)));
        match next.filter(|_| !is_past) {
            Some(next) => path = next,
            None => return Ok(found),
        }
    }
    Err(too_much(&format!("the registry lists too many repositories around {prefix}")))
}

async fn list_tags(http: &Http, repository: &str) -> Result<Vec<String>, Error> {
    let mut path = format!("/v2/{repository}/tags/list?n={PAGE}");
    let mut found = Vec::new();
    for _page in 0..PAGES_MAX {
        let (page, next) = page::<Tags>(http, path, &pull(repository)).await?;
        found.extend(page.and_then(|page| page.tags).unwrap_or_default());
        match next {
            Some(next) => path = next,
            None => return Ok(found),
        }
    }
    Err(too_much(&format!("{repository} has too many tags")))
}

/// A page of a list, and where the next one is. What is not there has none.
async fn page<T: DeserializeOwned>(
    http: &Http,
    path: String,
    scope: &str,
) -> Result<(Option<T>, Option<String>), Error> {
    let answer = http.call(&Call { method: Method::GET, path, scope: scope.to_owned() }).await?;
    match answer.status {
        StatusCode::OK => {
            let page = serde_json::from_slice(&answer.body).map_err(|error| {
                Error::Registry(CallFailure::Unavailable(format!(
                    "a list of the registry cannot be read: {error}"
                )))
            })?;
            Ok((Some(page), answer.next_page()))
        }
        StatusCode::NOT_FOUND => Ok((None, None)),
        _ => Err(answer.failure()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_no_path() {
        let hex = "0123456789abcdef".repeat(4);
        assert!(is_digest(&format!("sha256:{hex}")));
        let bad =
            ["", "sha256:", "sha256:../../x", &hex, &format!("sha256:{hex}/.."), &format!("SHA256:{hex}")];
        for bad in bad {
            assert!(!is_digest(bad), "{bad}");
        }
    }
}
