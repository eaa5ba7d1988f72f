//! The repositories of a registry, from its catalogue and from what is known otherwise.

use super::cache::OciCache;
use super::client::{Page, RegistryClient, too_large};
use super::cursor::{PAGE, PAGES_MAX};
use crate::error::{CallFailure, Error};
use crate::registry::backend::RegistryPlace;
use business_types::registry::{ManifestName, is_repository_component};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The repositories below a prefix.
#[derive(Debug, Default)]
pub(super) struct Repositories {
    pub names: BTreeSet<String>,
    /// Whether the whole catalogue was read that concerns the prefix.
    pub is_complete: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Catalog {
    repositories: Option<Vec<String>>,
}

/// The repositories below the prefix of a place, from the catalogue and from what is known otherwise.
pub(super) async fn repositories(
    client: &RegistryClient,
    cache: &OciCache,
    place: &RegistryPlace,
) -> Result<Repositories, Error> {
    let prefix = &place.prefix();
    let below = format!("{prefix}/");
    let mut repositories = list_repositories(client, prefix).await?;
    repositories.names.extend(cache.seen_repositories(prefix));
    let told = place.untagged.iter().map(ManifestName::repository);
    repositories.names.extend(told.filter(|name| name.starts_with(&below)).map(str::to_owned));
    Ok(repositories)
}

/// The repositories below a prefix that the catalogue lists. Registries sort them by bytes, or by path components. In
/// both orders, names with the prefix are consecutive.
///
/// The list starts after a name that no repository can have and that sorts before all names below the prefix. If it
/// started after the prefix itself, distribution 3 would begin in its storage at `PREFIX/_manifests`, and skip each
/// component that begins with a digit. Registries that take only the name of an existing repository (Harbor) take
/// neither.
async fn list_repositories(client: &RegistryClient, prefix: &str) -> Result<Repositories, Error> {
    let mut path = format!("/v2/_catalog?n={PAGE}&last={prefix}/-");
    let (mut listed, below) = (Repositories::default(), format!("{prefix}/"));
    // If a page ends at a repository with a tag `_manifests`, the next page of distribution has
    // `REPOSITORY/_manifests/tags`.
    let is_ours = |name: &String| name.starts_with(&below) && name.split('/').all(is_repository_component);
    for _page in 0..PAGES_MAX {
        let Page { content, next } = catalogue(client, path).await?;
        let names = content.repositories.unwrap_or_default();
        let is_past = names.last().is_some_and(|last| !last.starts_with(prefix) && last.as_str() > prefix);
        listed.names.extend(names.into_iter().filter(is_ours));
        let Some(next) = next.filter(|_| !is_past) else {
            listed.is_complete = true;
            break;
        };
        path = next;
    }
    Ok(listed)
}

/// Checks that the registry itself answers: it has a catalogue.
pub(super) async fn check_catalog(client: &RegistryClient) -> Result<(), Error> {
    catalogue(client, "/v2/_catalog?n=1".to_owned()).await.map(drop)
}

/// A page of the catalogue. A missing catalogue is not an empty one.
async fn catalogue(client: &RegistryClient, path: String) -> Result<Page<Catalog>, Error> {
    client.page(path, "registry:catalog:*").await?.ok_or_else(|| {
        Error::Registry(CallFailure::Refused {
            code: 404,
            message: "the registry does not list its repositories: /v2/_catalog has to be allowed to the controller"
                .to_owned(),
        })
    })
}

pub(super) fn too_many_repositories(prefix: &str) -> Error {
    too_large(&format!("the registry lists too many repositories around {prefix}"))
}
