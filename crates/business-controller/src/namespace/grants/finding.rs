//! The grants that follow from what is seen: found at once, or looked up, or found on another thread.

use super::known::{Basis, GrantsPlace, KnownGrants, Store};
use super::{GrantSources, grants};
use crate::digest;
use crate::namespace::access_state::Grants;
use crate::namespace::kind::NamespaceView;
use crate::project::lineage::Lineage;
use crate::tenant::kind::TenantView;
use business_types::ClusterIdentity;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Those of fewer entries are found as fast as they are looked up.
const MANY: usize = 500;
/// Those of more entries would keep others waiting for a thread.
const LONG: usize = 20_000;

/// What grants follow from as it is seen at one moment.
#[derive(Clone, Debug)]
pub struct SeenSources {
    pub lineage: Lineage,
    pub tenant: Option<Arc<TenantView>>,
    pub identity: ClusterIdentity,
}

impl SeenSources {
    fn borrowed(&self) -> GrantSources<'_> {
        let administrators = self.tenant.as_deref().map(|tenant| tenant.spec.administrators.as_slice());
        GrantSources {
            lineage: &self.lineage,
            administrators: administrators.unwrap_or_default(),
            identity: self.identity,
        }
    }

    /// How many names there are, some of them more than once.
    fn entries(&self) -> usize {
        let specs = self.lineage.projects.iter().map(|project| &project.spec);
        let entries = specs.map(|spec| spec.members.len().saturating_add(spec.access.len()));
        entries.fold(0, usize::saturating_add)
    }
}

impl KnownGrants {
    /// The grants that follow from exactly this; `None` when to find them takes long.
    pub fn at_hand(&self, object: &NamespaceView, sources: &SeenSources) -> Option<Arc<Grants>> {
        match sources.entries() {
            ..MANY => Some(Arc::new(grants(object, sources.borrowed()))),
            MANY..LONG => Some(self.store.find(object, sources.borrowed())),
            LONG.. => self.store.look_up(object, sources.borrowed()),
        }
    }

    /// Finds the grants that follow from exactly this, however long it takes: on a thread that nobody else waits for.
    pub async fn find(&self, object: &NamespaceView, sources: &SeenSources) -> Arc<Grants> {
        let (store, of, seen) = (Arc::clone(&self.store), object.clone(), sources.clone());
        match spawn_blocking(move || store.find(&of, seen.borrowed())).await {
            Ok(found) => found,
            // The process ends.
            Err(_cancelled) => self.store.find(object, sources.borrowed()),
        }
    }
}

impl Store {
    fn find(&self, object: &NamespaceView, sources: GrantSources<'_>) -> Arc<Grants> {
        let place = GrantsPlace::of(object);
        // Nothing is found under the lock.
        let people = sources.lineage.projects.iter().map(|view| self.people(view)).collect();
        let basis = Basis::of(object, sources, people);
        if let Some(known) = self.known(&place, &basis) {
            return known;
        }
        let found = Arc::new(grants(object, sources));
        self.remember(place, basis, Arc::clone(&found));
        found
    }

    /// Looks at nothing of which nothing is known yet.
    fn look_up(&self, object: &NamespaceView, sources: GrantSources<'_>) -> Option<Arc<Grants>> {
        let people: Option<Vec<Arc<str>>> =
            sources.lineage.projects.iter().map(|view| self.known_people(view)).collect();
        self.known(&GrantsPlace::of(object), &Basis::of(object, sources, people?))
    }
}

impl GrantsPlace {
    fn of(object: &NamespaceView) -> Self {
        Self { project: Arc::clone(&object.key.project), cluster: object.spec.cluster_name.clone() }
    }
}

impl Basis {
    fn of(object: &NamespaceView, sources: GrantSources<'_>, people: Vec<Arc<str>>) -> Self {
        let GrantSources { lineage, administrators, identity } = sources;
        let others = (&object.spec.tenant_id, &object.spec.cluster_name, identity, administrators);
        Self { people, end: lineage.end.clone(), others: Arc::from(digest::of(&others)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pending;
    use crate::namespace::grants::known::{KEPT_MAX, VIEWS_MIN};
    use crate::project::kind::ProjectView;
    use crate::project::lineage::LineageEnd;
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

    fn line(projects: &[&Arc<ProjectView>]) -> SeenSources {
        let projects = projects.iter().copied().cloned().collect();
        let lineage = Lineage { projects, end: LineageEnd::Root };
        SeenSources { lineage, tenant: None, identity: ClusterIdentity::Certificates }
    }

    #[test]
    fn what_follows_from_the_same_is_found_once() {
        let (known, object) = (KnownGrants::default(), pending(&[("pods", "3")]));
        let spec = json!({ "members": crowd("m", MANY) });
        let (one, same) = (project(&spec), project(&spec));
        let root = project(&json!({ "members": ["root"] }));
        let found = known.at_hand(&object, &line(&[&one, &root])).unwrap();
        assert_eq!(*found, grants(&object, line(&[&one, &root]).borrowed()));
        // Of another one only the status is new.
        for again in [&one, &same, &same] {
            assert!(Arc::ptr_eq(&found, &known.at_hand(&object, &line(&[again, &root])).unwrap()));
        }
    }

    #[test]
    fn grants_are_those_of_what_is_seen_now() {
        let (known, object) = (KnownGrants::default(), pending(&[("pods", "3")]));
        let child = project(&json!({ "members": crowd("m", MANY) }));
        let other = project(&json!({ "members": crowd("n", MANY) }));
        let root = project(&json!({}));
        let above = project(&json!({ "access": [{ "kind": "User", "name": "eve", "role": "admin" }] }));
        let mut without_end = line(&[&child]);
        without_end.lineage.end = LineageEnd::Missing("q".into());
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
            let shared = SeenSources { identity: ClusterIdentity::Shared, ..plain.clone() };
            let ruled = SeenSources { tenant: tenant.clone(), ..plain.clone() };
            for sources in [plain, &shared, &ruled, plain] {
                for object in [&object, &elsewhere, &of_other, &object] {
                    let found = known.at_hand(object, sources).unwrap();
                    assert_eq!(*found, grants(object, sources.borrowed()));
                }
            }
        }
    }

    #[tokio::test]
    async fn what_takes_long_is_found_elsewhere_and_then_at_hand() {
        let (known, object) = (KnownGrants::default(), pending(&[("pods", "3")]));
        let sources = line(&[&project(&json!({ "members": crowd("m", LONG) }))]);
        assert_eq!(known.at_hand(&object, &sources), None);
        let found = known.find(&object, &sources).await;
        assert_eq!(*found, grants(&object, sources.borrowed()));
        assert!(Arc::ptr_eq(&found, &known.at_hand(&object, &sources).unwrap()));
        let fewer = line(&[&project(&json!({ "members": crowd("n", LONG) }))]);
        assert_eq!(known.at_hand(&object, &fewer), None, "nobody has what was");
    }

    #[test]
    fn few_are_kept_and_no_view_for_their_sake() {
        let known = KnownGrants::default();
        let mut object = pending(&[("pods", "3")]);
        let crowded = project(&json!({ "members": crowd("m", MANY) }));
        for number in 0..KEPT_MAX * 2 {
            object.spec.cluster_name = format!("c{number}");
            known.at_hand(&object, &line(&[&crowded])).unwrap();
            assert_eq!(known.store.counts().0, KEPT_MAX.min(number + 1));
        }
        assert_eq!((Arc::strong_count(&crowded), Arc::weak_count(&crowded)), (1, 1));
        for _gone in 0..VIEWS_MIN {
            known.store.people(&project(&json!({})));
        }
        assert!(known.store.counts().1 <= 2, "of those that are gone nothing is known");
    }
}
