//! A changed template goes through its namespaces in waves: the next one begins when the last one is done, and none after
//! one has failed.

use super::kind::CurrentTemplate;
use crate::kinds::RootKey;
use crate::namespace::kind::NamespaceView;
use business_types::condition::{self, Condition, FALSE, TEMPLATE_APPLIED};
use business_types::{AppliedTemplate, NamespacePhase};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The waves of all templates. They are lost with the process: then the first wave is taken anew, in the same order.
#[derive(Debug, Default)]
pub struct Rollouts(Mutex<HashMap<RootKey, Wave>>);

#[derive(Debug, Default)]
struct Wave {
    state: AppliedTemplate,
    /// Uids of the namespaces whose turn it is, or was.
    admitted: HashSet<String>,
}

impl Rollouts {
    /// Whether it is a namespace's turn to get this state.
    pub fn admits(&self, template: &CurrentTemplate, uid: &str) -> bool {
        let waves = self.lock();
        let wave = waves.get(&template.view.key).filter(|wave| wave.state == template.state);
        wave.is_some_and(|wave| wave.admitted.contains(uid))
    }

    fn admit(&self, template: &CurrentTemplate, next: &[Arc<NamespaceView>]) {
        let mut waves = self.lock();
        let wave = waves.entry(template.view.key.clone()).or_default();
        if wave.state != template.state {
            *wave = Wave { state: template.state.clone(), admitted: HashSet::new() };
        }
        wave.admitted.extend(next.iter().map(|namespace| namespace.uid.clone()));
    }

    /// Begins the next wave, if there is to be one: those whose turn it is now.
    pub fn next_wave(&self, template: &CurrentTemplate, tally: &Tally) -> Vec<Arc<NamespaceView>> {
        let rollout = template.view.spec.rollout;
        let is_under_way = tally.waiting.iter().any(|waiting| self.admits(template, &waiting.uid));
        if rollout.paused || !tally.failed.is_empty() || is_under_way {
            return Vec::new();
        }
        let batch = usize::try_from(rollout.batch).unwrap_or_default();
        let next: Vec<Arc<NamespaceView>> = tally.waiting.iter().take(batch).cloned().collect();
        self.admit(template, &next);
        next
    }

    pub fn forget(&self, template: &RootKey) {
        self.lock().remove(template);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RootKey, Wave>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether people work in it: it gets a new state in its turn. One that is not in use yet gets the newest at once.
pub fn is_in_use(object: &NamespaceView) -> bool {
    matches!(object.status.phase, NamespacePhase::Available | NamespacePhase::Locked)
}

/// Where the namespaces of a template are.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub namespaces: i64,
    pub updated: i64,
    pub clusters: BTreeMap<String, i64>,
    /// `PROJECT/NAME: why`, of those that have not taken the state.
    pub failed: Vec<String>,
    /// Those in use that have another state and can be reached, sorted.
    pub waiting: Vec<Arc<NamespaceView>>,
    /// Those whose cluster does not answer.
    pub unreachable: i64,
}

impl Tally {
    /// Counts a namespace of the template.
    pub fn count(&mut self, template: &CurrentTemplate, object: &Arc<NamespaceView>, reachable: bool) {
        let one_more = |number: &mut i64| *number = number.saturating_add(1);
        one_more(&mut self.namespaces);
        one_more(self.clusters.entry(object.spec.cluster_name.clone()).or_default());
        let told = condition::find(&object.status.conditions, TEMPLATE_APPLIED);
        let has_it = object.status.template.as_ref() == Some(&template.state);
        match told {
            Some(told) if has_it && told.is_true() => one_more(&mut self.updated),
            Some(Condition { status, message, .. }) if has_it && status == FALSE => {
                self.failed.push(format!("{}: {message}", object.key));
            }
            _ if !reachable => one_more(&mut self.unreachable),
            _ if is_in_use(object) => self.waiting.push(Arc::clone(object)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pending;
    use crate::kinds::ObjectKey as _;
    use crate::namespace_template::kind::TemplateView;
    use business_types::{NamespaceTemplateSpec, Rollout};

    fn template(digest: &str, rollout: Rollout) -> CurrentTemplate {
        let spec = NamespaceTemplateSpec { rollout, ..NamespaceTemplateSpec::default() };
        let view = TemplateView { key: RootKey::new(None, "standard"), spec, ..TemplateView::default() };
        let state = AppliedTemplate { name: "standard".into(), digest: digest.into() };
        CurrentTemplate { view: Arc::new(view), state }
    }

    /// A namespace in use, and whether it has this state.
    fn namespace(name: &str, has: Option<&CurrentTemplate>, applied: &str) -> Arc<NamespaceView> {
        let mut object = pending(&[]);
        object.key.name = name.into();
        object.uid = format!("uid-{name}");
        object.status.phase = NamespacePhase::Available;
        object.status.template = has.map(|template| template.state.clone());
        let told = Condition::new(TEMPLATE_APPLIED, applied, "", "because");
        condition::set(&mut object.status.conditions, told, "now");
        Arc::new(object)
    }

    fn tally(template: &CurrentTemplate, all: &[Arc<NamespaceView>], reachable: bool) -> Tally {
        let mut tally = Tally::default();
        for object in all {
            tally.count(template, object, reachable);
        }
        tally
    }

    fn names(wave: &[Arc<NamespaceView>]) -> Vec<&str> {
        wave.iter().map(|object| &*object.key.name).collect()
    }

    #[test]
    fn a_wave_begins_when_the_last_one_is_done_and_none_after_a_failure() {
        let rollouts = Rollouts::default();
        let now = template("2", Rollout { batch: 2, paused: false });
        let old = template("1", Rollout::default());
        let mut all: Vec<_> =
            ["a", "b", "c", "d", "e"].map(|name| namespace(name, Some(&old), "True")).into();
        assert_eq!(names(&rollouts.next_wave(&now, &tally(&now, &all, true))), ["a", "b"]);
        all[0] = namespace("a", Some(&now), "True");
        let half = tally(&now, &all, true);
        assert_eq!((half.namespaces, half.updated), (5, 1));
        assert!(rollouts.next_wave(&now, &half).is_empty(), "b is under way");
        assert!(rollouts.admits(&now, "uid-b") && !rollouts.admits(&now, "uid-c"));
        all[1] = namespace("b", Some(&now), "True");
        assert_eq!(names(&rollouts.next_wave(&now, &tally(&now, &all, true))), ["c", "d"]);
        all[2] = namespace("c", Some(&now), "False");
        all[3] = namespace("d", Some(&now), "True");
        let stopped = tally(&now, &all, true);
        assert_eq!((stopped.failed.as_slice(), stopped.updated), (&["p/c: because".to_owned()][..], 3));
        assert!(rollouts.next_wave(&now, &stopped).is_empty());
        all[2] = namespace("c", Some(&now), "True");
        assert_eq!(names(&rollouts.next_wave(&now, &tally(&now, &all, true))), ["e"]);

        let newer = template("3", Rollout { batch: 9, paused: true });
        assert!(rollouts.next_wave(&newer, &tally(&newer, &all, true)).is_empty(), "paused");
        assert!(!rollouts.admits(&newer, "uid-a"));
    }

    #[test]
    fn what_cannot_be_reached_holds_nobody_up() {
        let now = template("2", Rollout::default());
        let away = tally(&now, &[namespace("a", None, "True")], false);
        assert_eq!((away.unreachable, away.waiting.len()), (1, 0));
    }
}
