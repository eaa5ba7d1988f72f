//! The rollout of a changed template in waves: the next wave begins when the last one is done. A failure or delay in
//! the namespaces of one tenant holds up only that tenant; failures of two tenants hold up everybody. The wave is in
//! the template's status, by the uids of namespaces, so that every replica sees it. Every tenant reads it, too.

use super::kind::CurrentTemplate;
use crate::namespace::kind::NamespaceView;
use business_types::condition::{self, Condition, FALSE, PROVISIONED, TEMPLATE_APPLIED, reason};
use business_types::{NamespacePhase, TemplateWave};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Whether the current wave has the namespace.
pub fn is_in_wave(template: &CurrentTemplate, namespace: &NamespaceView) -> bool {
    wave_of(template).is_some_and(|wave| wave.namespaces.contains(&namespace.uid))
}

/// The current wave, if it is for the newest state.
fn wave_of(template: &CurrentTemplate) -> Option<&TemplateWave> {
    template.view.status.wave.as_ref().filter(|wave| wave.digest == template.state.digest)
}

/// The next wave: the namespaces of the last one that are not done, and then the next ones, if any may begin. A tenant
/// with failures or delays holds up only its own namespaces. Those that are in the wave already stay in it.
pub fn next_wave(template: &CurrentTemplate, progress: &RolloutProgress) -> Option<TemplateWave> {
    let rollout = template.view.spec.rollout;
    let admitted: HashSet<&str> =
        wave_of(template).into_iter().flat_map(|wave| &wave.namespaces).map(String::as_str).collect();
    let is_admitted = |waiting: &&Arc<NamespaceView>| admitted.contains(waiting.uid.as_str());
    let under_way = || progress.waiting.iter().filter(is_admitted);
    let mut held = progress.failing_owners();
    held.extend(under_way().map(|object| Owner::of(object)));
    let batch = usize::try_from(rollout.batch).unwrap_or_default();
    let others = || progress.waiting.iter().filter(|object| !held.contains(&Owner::of(object))).take(batch);
    let nobody_else_can = held.len() > 1 || (!held.is_empty() && others().next().is_none());
    if rollout.paused || nobody_else_can {
        return wave_of(template).cloned();
    }
    let namespaces: Vec<String> = under_way().chain(others()).map(|object| object.uid.clone()).collect();
    let digest = template.state.digest.clone();
    (!namespaces.is_empty()).then_some(TemplateWave { digest, namespaces })
}

/// Whether the namespace is in use, so that it gets a new state in a wave. One that is not gets the newest state at
/// once.
pub fn is_in_use(object: &NamespaceView) -> bool {
    matches!(object.status.phase, NamespacePhase::Available | NamespacePhase::Locked)
}

/// The same, or it was until its cluster refused something: then its turn comes with a wave all the same.
pub fn was_in_use(object: &NamespaceView) -> bool {
    let told = |type_| condition::find(&object.status.conditions, type_);
    let is_refused =
        told(PROVISIONED).is_some_and(|told| told.status == FALSE && told.reason == reason::REFUSED);
    is_in_use(object) || is_refused && told(TEMPLATE_APPLIED).is_some_and(|told| told.status != FALSE)
}

/// Whether the tenant itself is the cause: a value of its project that cannot be used, or a quota of its namespace that
/// leaves no room. That says nothing about the template.
fn is_tenant_error(told: &Condition) -> bool {
    [reason::INVALID_VALUE, reason::QUOTA_EXCEEDED].contains(&told.reason.as_str())
}

/// The owner of a namespace: its tenant, or its project if it has no tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner<'a> {
    Tenant(&'a str),
    Project(&'a str),
}

impl<'a> Owner<'a> {
    fn of(object: &'a NamespaceView) -> Self {
        match object.spec.tenant_id.as_str() {
            "" => Self::Project(&object.key.project),
            tenant => Self::Tenant(tenant),
        }
    }
}

/// The progress of a rollout.
#[derive(Clone, Debug, Default)]
pub struct RolloutProgress {
    pub namespaces: i64,
    pub updated: i64,
    pub clusters: BTreeSet<String>,
    /// Namespaces that failed to take the state.
    pub failed: Vec<Arc<NamespaceView>>,
    /// Namespaces in use that have another state and can be reached, sorted.
    pub waiting: Vec<Arc<NamespaceView>>,
    /// How many namespaces are in clusters that do not answer.
    pub unreachable: i64,
}

impl RolloutProgress {
    /// Counts a namespace of the template.
    pub fn count(&mut self, template: &CurrentTemplate, object: &Arc<NamespaceView>, reachable: bool) {
        let one_more = |number: &mut i64| *number = number.saturating_add(1);
        one_more(&mut self.namespaces);
        if !self.clusters.contains(&object.spec.cluster_name) {
            self.clusters.insert(object.spec.cluster_name.clone());
        }
        let told = condition::find(&object.status.conditions, TEMPLATE_APPLIED);
        let has_it = object.status.template.as_ref() == Some(&template.state);
        match told {
            Some(told) if has_it && (told.is_true() || is_tenant_error(told)) => one_more(&mut self.updated),
            Some(told) if has_it && told.status == FALSE => self.failed.push(Arc::clone(object)),
            _ if !reachable => one_more(&mut self.unreachable),
            _ if is_in_use(object) => self.waiting.push(Arc::clone(object)),
            _ => {}
        }
    }

    /// Whether the rollout stops until a failure is resolved.
    pub fn is_stopped(&self) -> bool {
        let failing_owners = self.failing_owners();
        let goes_on = || self.waiting.iter().any(|object| !failing_owners.contains(&Owner::of(object)));
        failing_owners.len() > 1 || (!failing_owners.is_empty() && !goes_on())
    }

    fn failing_owners(&self) -> BTreeSet<Owner<'_>> {
        self.failed.iter().map(|object| Owner::of(object)).collect()
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

    /// A namespace in use, with the state of this template, and with this value of its condition.
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

    /// The same in a tenant.
    fn of_tenant(tenant: &str, name: &str, has: &CurrentTemplate, applied: &str) -> Arc<NamespaceView> {
        let mut object = namespace(name, Some(has), applied);
        Arc::make_mut(&mut object).spec.tenant_id = tenant.into();
        object
    }

    fn progress(template: &CurrentTemplate, all: &[Arc<NamespaceView>], reachable: bool) -> RolloutProgress {
        let mut progress = RolloutProgress::default();
        for object in all {
            progress.count(template, object, reachable);
        }
        progress
    }

    /// The template after its next status was written, and the wave in that.
    fn published(template: &CurrentTemplate, all: &[Arc<NamespaceView>]) -> (CurrentTemplate, Vec<String>) {
        let wave = next_wave(template, &progress(template, all, true));
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
        assert_eq!(wave, ["uid-a", "uid-b"]);
        all[0] = namespace("a", Some(&now), "True");
        let half = progress(&now, &all, true);
        assert_eq!((half.namespaces, half.updated), (5, 1));
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["uid-a", "uid-b"], "b is under way");
        assert!(is_in_wave(&now, &all[1]) && !is_in_wave(&now, &all[2]));
        all[1] = namespace("b", Some(&now), "True");
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["uid-c", "uid-d"]);
        all[2] = namespace("c", Some(&now), "False");
        all[3] = namespace("d", Some(&now), "True");
        let stopped = progress(&now, &all, true);
        assert_eq!((stopped.failed.as_slice(), stopped.updated), (&all[2..3], 3));
        let (now, wave) = published(&now, &all);
        assert_eq!(
            (wave, stopped.is_stopped()),
            (vec!["uid-c".into(), "uid-d".into()], true),
            "no other one begins"
        );
        all[2] = namespace("c", Some(&now), "True");
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["uid-e"]);
        all[4] = namespace("e", Some(&now), "True");
        assert_eq!(published(&now, &all).1, [""; 0], "it is done");

        let mut newer = template("3", Rollout { batch: 9, paused: true });
        newer.view =
            Arc::new(TemplateView { status: now.view.status.clone(), ..newer.view.as_ref().clone() });
        assert_eq!(published(&newer, &all).1, [""; 0], "paused");
        assert!(!is_in_wave(&newer, &all[4]), "that was its turn for another state");
    }

    #[test]
    fn what_a_tenant_says_himself_holds_nobody_up() {
        let now = template("2", Rollout { batch: 1, paused: false });
        let old = template("1", Rollout::default());
        for own in [reason::INVALID_VALUE, reason::QUOTA_EXCEEDED] {
            let mut odd = namespace("a", Some(&now), "False").as_ref().clone();
            let told = Condition::new(TEMPLATE_APPLIED, FALSE, own, "no value of a label, or no room");
            condition::set(&mut odd.status.conditions, told, "now");
            let all = [Arc::new(odd), namespace("b", Some(&old), "True")];
            let counted = progress(&now, &all, true);
            assert_eq!((counted.updated, counted.failed.as_slice()), (1, &[][..]), "{own}");
            assert_eq!(published(&now, &all).1, ["uid-b"], "{own}");
        }
    }

    #[test]
    fn one_tenant_holds_up_his_own_and_two_hold_up_everybody() {
        let now = template("2", Rollout { batch: 2, paused: false });
        let old = template("1", Rollout::default());
        let tenants = [("m", "a"), ("m", "b"), ("m", "c"), ("n", "d"), ("n", "e"), ("o", "f")];
        let mut all = tenants.map(|(tenant, name)| of_tenant(tenant, name, &old, "True"));
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["uid-a", "uid-b"]);
        // One is refused by the tenant's cluster, and the other is never done.
        all[0] = of_tenant("m", "a", &now, "False");
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["uid-b", "uid-d", "uid-e"], "b keeps its turn, and c is m's");
        assert!(!progress(&now, &all, true).is_stopped());
        all[3] = of_tenant("n", "d", &now, "True");
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["uid-b", "uid-d", "uid-e"], "e is under way");
        all[4] = of_tenant("n", "e", &now, "True");
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["uid-b", "uid-f"]);
        let mut broken = all.clone();
        broken[4] = of_tenant("n", "e", &now, "False");
        assert!(progress(&now, &broken, true).is_stopped());
        let nobody = CurrentTemplate { view: template("2", now.view.spec.rollout).view, ..now.clone() };
        assert_eq!(published(&nobody, &broken).1, [""; 0], "two have failed: it is the template");
        all[5] = of_tenant("o", "f", &now, "True");
        let (now, wave) = published(&now, &all);
        assert_eq!(wave, ["uid-b", "uid-f"], "c goes when m's are done");
        assert!(progress(&now, &all, true).is_stopped());
        all[0] = of_tenant("m", "a", &now, "True");
        all[1] = of_tenant("m", "b", &now, "True");
        assert_eq!(published(&now, &all).1, ["uid-c"]);
    }

    #[test]
    fn what_cannot_be_reached_holds_nobody_up() {
        let now = template("2", Rollout::default());
        let away = progress(&now, &[namespace("a", None, "True")], false);
        assert_eq!((away.unreachable, away.waiting.len()), (1, 0));
    }
}
