//! A changed template goes through its namespaces in waves: the next one begins when the last one is done, and none after
//! one has failed. Whose turn it is stands in the template's status: whoever looks after a namespace reads it there.

use super::kind::CurrentTemplate;
use crate::kinds::ProjectKey;
use crate::namespace::kind::NamespaceView;
use business_types::condition::{self, Condition, FALSE, TEMPLATE_APPLIED, reason};
use business_types::{NamespacePhase, TemplateWave};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether it is a namespace's turn to get the newest state of a template.
pub fn admits(template: &CurrentTemplate, namespace: &ProjectKey) -> bool {
    let name = namespace.to_string();
    wave_of(template).is_some_and(|wave| wave.namespaces.contains(&name))
}

/// Whose turn it is to get the newest state.
fn wave_of(template: &CurrentTemplate) -> Option<&TemplateWave> {
    template.view.status.wave.as_ref().filter(|wave| wave.digest == template.state.digest)
}

/// Whose turn it is to be: those of the last wave until all of them are done, then those of the next, if there is to be one.
pub fn next_wave(template: &CurrentTemplate, tally: &Tally) -> Option<TemplateWave> {
    let rollout = template.view.spec.rollout;
    let is_under_way = tally.waiting.iter().any(|waiting| admits(template, &waiting.key));
    if rollout.paused || !tally.failed.is_empty() || is_under_way {
        return wave_of(template).cloned();
    }
    let batch = usize::try_from(rollout.batch).unwrap_or_default();
    let namespaces: Vec<String> = tally.waiting.iter().take(batch).map(|next| next.key.to_string()).collect();
    let digest = template.state.digest.clone();
    (!namespaces.is_empty()).then_some(TemplateWave { digest, namespaces })
}

/// Whether people work in it: it gets a new state in its turn. One that is not in use yet gets the newest at once.
pub fn is_in_use(object: &NamespaceView) -> bool {
    matches!(object.status.phase, NamespacePhase::Available | NamespacePhase::Locked)
}

/// Whether it is something of the project that no namespace can take: what one tenant says keeps no other from the template.
fn is_its_projects(told: &Condition) -> bool {
    told.reason == reason::INVALID_VALUE
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
            Some(told) if has_it && (told.is_true() || is_its_projects(told)) => one_more(&mut self.updated),
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
    use crate::kinds::{ObjectKey as _, RootKey};
    use crate::namespace_template::kind::TemplateView;
    use business_types::{AppliedTemplate, NamespaceTemplateSpec, Rollout};

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

    /// The template as its status says it next: whose turn it is.
    fn published(template: &CurrentTemplate, all: &[Arc<NamespaceView>]) -> (CurrentTemplate, Vec<String>) {
        let wave = next_wave(template, &tally(template, all, true));
        let mut view = template.view.as_ref().clone();
        view.status.wave.clone_from(&wave);
        let next = CurrentTemplate { view: Arc::new(view), state: template.state.clone() };
        (next, wave.map(|wave| wave.namespaces).unwrap_or_default())
    }

    #[test]
    fn a_wave_begins_when_the_last_one_is_done_and_none_after_a_failure() {
        let now = template("2", Rollout { batch: 2, paused: false });
        let old = template("1", Rollout::default());
        let mut all: Vec<_> =
            ["a", "b", "c", "d", "e"].map(|name| namespace(name, Some(&old), "True")).into();
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["p/a", "p/b"]);
        all[0] = namespace("a", Some(&now), "True");
        let half = tally(&now, &all, true);
        assert_eq!((half.namespaces, half.updated), (5, 1));
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["p/a", "p/b"], "b is under way");
        assert!(admits(&now, &all[1].key) && !admits(&now, &all[2].key));
        all[1] = namespace("b", Some(&now), "True");
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["p/c", "p/d"]);
        all[2] = namespace("c", Some(&now), "False");
        all[3] = namespace("d", Some(&now), "True");
        let stopped = tally(&now, &all, true);
        assert_eq!((stopped.failed.as_slice(), stopped.updated), (&["p/c: because".to_owned()][..], 3));
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["p/c", "p/d"], "no other one begins");
        all[2] = namespace("c", Some(&now), "True");
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["p/e"]);
        all[4] = namespace("e", Some(&now), "True");
        assert_eq!(published(&now, &all).1, [""; 0], "it is done");

        let mut newer = template("3", Rollout { batch: 9, paused: true });
        newer.view =
            Arc::new(TemplateView { status: now.view.status.clone(), ..newer.view.as_ref().clone() });
        assert_eq!(published(&newer, &all).1, [""; 0], "paused");
        assert!(!admits(&newer, &all[4].key), "that was its turn for another state");
    }

    #[test]
    fn what_a_project_says_of_itself_holds_nobody_up() {
        let now = template("2", Rollout { batch: 1, paused: false });
        let old = template("1", Rollout::default());
        let mut odd = namespace("a", Some(&now), "False").as_ref().clone();
        let told = Condition::new(TEMPLATE_APPLIED, FALSE, reason::INVALID_VALUE, "no value of a label");
        condition::set(&mut odd.status.conditions, told, "now");
        let all = [Arc::new(odd), namespace("b", Some(&old), "True")];
        let counted = tally(&now, &all, true);
        assert_eq!((counted.updated, counted.failed.as_slice()), (1, &[][..]));
        assert_eq!(published(&now, &all).1, ["p/b"]);
    }

    #[test]
    fn what_cannot_be_reached_holds_nobody_up() {
        let now = template("2", Rollout::default());
        let away = tally(&now, &[namespace("a", None, "True")], false);
        assert_eq!((away.unreachable, away.waiting.len()), (1, 0));
    }
}
