//! Reads a repository of a registry: its tags, manifests and blobs.

use super::cache::OciCache;
use super::client::{CALLS_CHUNK, Call, PARALLEL, Page, RegistryClient, too_large, unusable};
use super::cursor::{PAGES_MAX, tags_path};
use super::references::{Manifest, References};
use super::scan_memory::ScanRoom;
use crate::digest::sha256;
use crate::error::Error;
use crate::registry::backend::RegistryPlace;
use business_types::registry::is_digest;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, StatusCode};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A repository, the client that reads it, and the cache of what was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repository<'a> {
    pub client: &'a RegistryClient,
    pub cache: &'a OciCache,
    pub name: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tags {
    tags: Option<Vec<String>>,
}

impl Repository<'_> {
    /// Manifests that may be in no list.
    pub(super) fn seen_manifests(self, place: &RegistryPlace) -> BTreeSet<String> {
        let told = place.untagged.iter().filter(|name| name.repository() == self.name);
        let mut before = self.cache.seen_manifests(&place.prefix(), self.name);
        before.extend(told.map(|name| name.digest().to_owned()));
        before
    }

    /// All tags.
    pub(super) async fn list_tags(self, room: &mut ScanRoom<'_>) -> Result<Vec<String>, Error> {
        let mut path = tags_path(self.name);
        let mut found = Vec::new();
        for _page in 0..PAGES_MAX {
            let Page { content, next } = self.tags(path).await?;
            found.extend(content);
            room.hold(found.len())?;
            match next {
                Some(next) => path = next,
                None => return Ok(found),
            }
        }
        Err(self.too_many_tags())
    }

    pub(super) fn too_many_tags(self) -> Error {
        too_large(&format!("{} has too many tags", self.name))
    }

    /// A page of tags.
    pub(super) async fn tags(self, path: String) -> Result<Page<Vec<String>>, Error> {
        let page: Option<Page<Tags>> = self.client.page(path, &self.pull_scope()).await?;
        let Some(Page { content, next }) = page else { return Ok(Page::default()) };
        Ok(Page { content: content.tags.unwrap_or_default(), next })
    }

    /// The digests of existing tags or digests, until `max` were found.
    pub(super) async fn existing(self, references: &[String], max: usize) -> Result<BTreeSet<String>, Error> {
        let mut found = BTreeSet::new();
        for some in references.chunks(CALLS_CHUNK) {
            let heads: Vec<_> = some.iter().map(|reference| self.digest_of(reference)).collect();
            let mut answers = stream::iter(heads).buffer_unordered(PARALLEL);
            while let Some(answer) = answers.try_next().await? {
                found.extend(answer);
                if found.len() >= max {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// The digest of a tag or digest; `None` if it does not exist.
    async fn digest_of(self, reference: &str) -> Result<Option<String>, Error> {
        let name = self.name;
        let path = format!("/v2/{name}/manifests/{reference}");
        let Some(answer) = self.client.head(path, self.pull_scope()).await? else { return Ok(None) };
        let digest = answer.header("docker-content-digest").unwrap_or(reference);
        if !is_digest(digest) {
            return Err(unusable(&format!("the registry does not say what {name}:{reference} is")));
        }
        Ok(Some(digest.to_owned()))
    }

    /// Reads existing manifests in their order, until `take` refuses one. Returns that one and the rest.
    pub(super) async fn read_in_order(
        self,
        digests: &[String],
        mut take: impl FnMut(String, Arc<Manifest>) -> Result<bool, Error>,
    ) -> Result<&[String], Error> {
        let mut count: usize = 0;
        for some in digests.chunks(CALLS_CHUNK) {
            let reads: Vec<_> = some.iter().map(|digest| self.manifest(digest)).collect();
            let mut reads = stream::iter(reads).buffered(PARALLEL);
            while let Some(read) = reads.try_next().await? {
                if let Some((digest, manifest)) = read
                    && !take(digest, manifest)?
                {
                    return Ok(digests.get(count..).unwrap_or_default());
                }
                count = count.saturating_add(1);
            }
        }
        Ok(&[])
    }

    /// The manifests that have to be read. A cached one may be from another repository, so this repository is asked
    /// whether it has it.
    pub(super) async fn to_be_read(self, digests: BTreeSet<String>) -> Result<Vec<String>, Error> {
        let (read, unread): (Vec<String>, Vec<String>) =
            digests.into_iter().partition(|digest| self.cache.manifest(self.name, digest).is_some());
        let mut wanted = self.existing(&read, usize::MAX).await?;
        wanted.extend(unread);
        Ok(wanted.into_iter().collect())
    }

    /// Reads a manifest, or takes it from the cache; `None` if it does not exist. An index may name what was never
    /// pushed.
    async fn manifest(self, digest: &str) -> Result<Option<(String, Arc<Manifest>)>, Error> {
        let Self { client, cache, name } = self;
        if let Some(manifest) = cache.manifest(name, digest) {
            return Ok(Some((digest.to_owned(), manifest)));
        }
        let path = format!("/v2/{name}/manifests/{digest}");
        let _room = client.manifest_room().await;
        let answer = client.call(&Call { method: Method::GET, path, scope: self.pull_scope() }).await?;
        match answer.status {
            StatusCode::OK => {}
            _ if answer.is_not_found() => return Ok(None),
            _ => return Err(answer.failure()),
        }
        // Other content would have other references, and would be cached.
        if digest.strip_prefix("sha256:").is_some_and(|hex| sha256(&answer.body) != hex) {
            return Err(unusable(&format!("the registry answers with something else than {name}@{digest}")));
        }
        let bytes = u64::try_from(answer.body.len()).unwrap_or(u64::MAX);
        let manifest = Arc::new(Manifest { bytes, references: References::of(&answer.body) });
        cache.cache_manifest(name, digest, &manifest);
        Ok(Some((digest.to_owned(), manifest)))
    }

    /// A blob and its size; `None` if it does not exist here, such as a layer that is kept elsewhere.
    pub(super) async fn size_of(self, digest: &str) -> Result<Option<(String, u64)>, Error> {
        let Self { client, cache, name } = self;
        if let Some(bytes) = cache.blob_size(name, digest) {
            return Ok(Some((digest.to_owned(), bytes)));
        }
        let path = format!("/v2/{name}/blobs/{digest}");
        let Some(bytes) = client.blob_size(path, self.pull_scope()).await? else { return Ok(None) };
        cache.cache_blob_size(name, digest, bytes);
        Ok(Some((digest.to_owned(), bytes)))
    }

    fn pull_scope(self) -> String {
        format!("repository:{}:pull", self.name)
    }
}
