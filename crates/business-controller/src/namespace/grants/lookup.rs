//! Gets grants: computes them at once, takes them from the cache, or computes them on another thread.

use super::cache::{GrantsBasis, GrantsCache, GrantsKey, GrantsStore};
use super::{GrantSources, compute_grants};
use crate::digest;
use crate::namespace::access_state::Grants;
use crate::namespace::kind::NamespaceView;
use crate::project::ancestors::AncestorChain;
use crate::tenant::kind::TenantView;
use business_types::ClusterIdentity;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// With fewer entries than this, computing is as fast as a cache look-up.
const CACHED_ENTRIES_MIN: usize = 500;
/// From this many entries on, computing would block the async runtime.
const BACKGROUND_ENTRIES_MIN: usize = 20_000;

/// What grants are computed from, as seen at one moment.
#[derive(Clone, Debug)]
pub struct GrantSourcesSnapshot {
    pub ancestors: AncestorChain,
    pub tenant: Option<Arc<TenantView>>,
    pub identity: ClusterIdentity,
}

impl GrantSourcesSnapshot {
    fn as_sources(&self) -> GrantSources<'_> {
        let administrators = self.tenant.as_deref().map(|tenant| tenant.spec.administrators.as_slice());
        GrantSources {
            ancestors: &self.ancestors,
            administrators: administrators.unwrap_or_default(),
            identity: self.identity,
        }
    }

    /// The number of entries. Some may name the same person.
    fn entries(&self) -> usize {
        let specs = self.ancestors.projects.iter().map(|project| &project.spec);
        let entries = specs.map(|spec| spec.members.len().saturating_add(spec.access.len()));
        entries.fold(0, usize::saturating_add)
    }
}

impl GrantsCache {
    /// The grants for exactly these sources; `None` if computing them takes long and they are not cached.
    pub fn get_if_fast(&self, object: &NamespaceView, sources: &GrantSourcesSnapshot) -> Option<Arc<Grants>> {
        match sources.entries() {
            ..CACHED_ENTRIES_MIN => Some(Arc::new(compute_grants(object, sources.as_sources()))),
            CACHED_ENTRIES_MIN..BACKGROUND_ENTRIES_MIN => {
                Some(self.store.get_or_compute(object, sources.as_sources()))
            }
            BACKGROUND_ENTRIES_MIN.. => self.store.get_cached(object, sources.as_sources()),
        }
    }

    /// Computes the grants for exactly these sources on a blocking thread, however long it takes.
    pub async fn compute(&self, object: &NamespaceView, sources: &GrantSourcesSnapshot) -> Arc<Grants> {
        let (store, of, seen) = (Arc::clone(&self.store), object.clone(), sources.clone());
        match spawn_blocking(move || store.get_or_compute(&of, seen.as_sources())).await {
            Ok(found) => found,
            // The runtime is shutting down.
            Err(_cancelled) => self.store.get_or_compute(object, sources.as_sources()),
        }
    }
}

impl GrantsStore {
    fn get_or_compute(&self, object: &NamespaceView, sources: GrantSources<'_>) -> Arc<Grants> {
        let key = GrantsKey::of(object);
        // Nothing is computed under the lock.
        let subjects = sources.ancestors.projects.iter().map(|view| self.subjects_digest(view)).collect();
        let basis = GrantsBasis::of(object, sources, subjects);
        if let Some(cached) = self.get(&key, &basis) {
            return cached;
        }
        let found = Arc::new(compute_grants(object, sources));
        self.insert(key, basis, Arc::clone(&found));
        found
    }

    /// The grants, if they and the digests of all projects are cached. Computes nothing.
    fn get_cached(&self, object: &NamespaceView, sources: GrantSources<'_>) -> Option<Arc<Grants>> {
        let subjects: Option<Vec<Arc<str>>> =
            sources.ancestors.projects.iter().map(|view| self.cached_subjects_digest(view)).collect();
        self.get(&GrantsKey::of(object), &GrantsBasis::of(object, sources, subjects?))
    }
}

impl GrantsKey {
    fn of(object: &NamespaceView) -> Self {
        Self { project: Arc::clone(&object.key.project), cluster: object.spec.cluster_name.clone() }
    }
}

impl GrantsBasis {
    fn of(object: &NamespaceView, sources: GrantSources<'_>, subjects: Vec<Arc<str>>) -> Self {
        let GrantSources { ancestors, administrators, identity } = sources;
        let others = (&object.spec.tenant_id, &object.spec.cluster_name, identity, administrators);
        Self { subjects, end: ancestors.end.clone(), others: Arc::from(digest::of(&others)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pending;
    use crate::namespace::grants::cache::{CACHED_MAX, DIGESTS_MIN};
    use crate::project::ancestors::ChainEnd;
    use crate::project::kind::ProjectView;
    use serde_json::{Value, json};

    fn project(spec: &Value) -> Arc<ProjectView> {
        Arc::new(ProjectView {
            spec: serde_json::from_value(spec.clone()).unwrap(),
            ..ProjectView::default()
        })
    }

    fn crowd(name: &str, count: usize) -> Value {
        json!((0..count).map(|number| format!("{name}-{number}")).collect::<Vec<String>>())
    }

    fn line(projects: &[&Arc<ProjectView>]) -> GrantSourcesSnapshot {
        let projects = projects.iter().copied().cloned().collect();
        let ancestors = AncestorChain { projects, end: ChainEnd::Root };
        GrantSourcesSnapshot { ancestors, tenant: None, identity: ClusterIdentity::Certificates }
    }

    #[test]
    fn what_follows_from_the_same_is_found_once() {
        let (cache, object) = (GrantsCache::default(), pending(&[("pods", "3")]));
        let spec = json!({ "members": crowd("m", CACHED_ENTRIES_MIN) });
        let (one, same) = (project(&spec), project(&spec));
        let root = project(&json!({ "members": ["root"] }));
        let found = cache.get_if_fast(&object, &line(&[&one, &root])).unwrap();
        assert_eq!(*found, compute_grants(&object, line(&[&one, &root]).as_sources()));
        // `same` differs from `one` only in its status.
        for again in [&one, &same, &same] {
            assert!(Arc::ptr_eq(&found, &cache.get_if_fast(&object, &line(&[again, &root])).unwrap()));
        }
    }

    #[test]
    fn grants_are_those_of_what_is_seen_now() {
        let (cache, object) = (GrantsCache::default(), pending(&[("pods", "3")]));
        let child = project(&json!({ "members": crowd("m", CACHED_ENTRIES_MIN) }));
        let other = project(&json!({ "members": crowd("n", CACHED_ENTRIES_MIN) }));
        let root = project(&json!({}));
        let above = project(&json!({ "access": [{ "kind": "User", "name": "eve", "role": "admin" }] }));
        let mut without_end = line(&[&child]);
        without_end.ancestors.end = ChainEnd::Missing("q".into());
        let lines = [
            line(&[&child, &root]),
            line(&[&other, &root]),
            line(&[&child, &above]),
            line(&[&child]),
            without_end,
        ];
        let mut tenant = TenantView::default();
        tenant.spec.administrators =
            serde_json::from_value(json!([{ "kind": "User", "name": "ann" }])).unwrap();
        let tenant = Some(Arc::new(tenant));
        let (mut elsewhere, mut of_other) = (object.clone(), object.clone());
        elsewhere.spec.cluster_name = "c2".into();
        of_other.spec.tenant_id = "other".into();
        for plain in lines.iter().chain(&lines) {
            let shared = GrantSourcesSnapshot { identity: ClusterIdentity::Shared, ..plain.clone() };
            let ruled = GrantSourcesSnapshot { tenant: tenant.clone(), ..plain.clone() };
            for sources in [plain, &shared, &ruled, plain] {
                for object in [&object, &elsewhere, &of_other, &object] {
                    let found = cache.get_if_fast(object, sources).unwrap();
                    assert_eq!(*found, compute_grants(object, sources.as_sources()));
                }
            }
        }
    }

    #[tokio::test]
    async fn what_takes_long_is_found_elsewhere_and_then_at_hand() {
        let (cache, object) = (GrantsCache::default(), pending(&[("pods", "3")]));
        let sources = line(&[&project(&json!({ "members": crowd("m", BACKGROUND_ENTRIES_MIN) }))]);
        assert_eq!(cache.get_if_fast(&object, &sources), None);
        let found = cache.compute(&object, &sources).await;
        assert_eq!(*found, compute_grants(&object, sources.as_sources()));
        assert!(Arc::ptr_eq(&found, &cache.get_if_fast(&object, &sources).unwrap()));
        let fewer = line(&[&project(&json!({ "members": crowd("n", BACKGROUND_ENTRIES_MIN) }))]);
        assert_eq!(cache.get_if_fast(&object, &fewer), None, "nobody has what was");
    }

    #[test]
    fn few_are_kept_and_no_view_for_their_sake() {
        let cache = GrantsCache::default();
        let mut object = pending(&[("pods", "3")]);
        let crowded = project(&json!({ "members": crowd("m", CACHED_ENTRIES_MIN) }));
        for number in 0..CACHED_MAX * 2 {
            object.spec.cluster_name = format!("c{number}");
            cache.get_if_fast(&object, &line(&[&crowded])).unwrap();
            assert_eq!(cache.store.counts().0, CACHED_MAX.min(number + 1));
        }
        assert_eq!((Arc::strong_count(&crowded), Arc::weak_count(&crowded)), (1, 1));
        for _gone in 0..DIGESTS_MIN {
            cache.store.subjects_digest(&project(&json!({})));
        }
        assert!(cache.store.counts().1 <= 2, "of those that are gone nothing is known");
    }
}
