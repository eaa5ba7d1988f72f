//! What the template of a namespace puts into it beside the quota: limits first, then whatever else; what it names no more
//! goes. What others put beside it stays.

/// What is to be there; pure.
pub mod wanted;
/// What its pods pull by.
pub mod pull_secret;
/// What is known of that.
pub mod pull_secret_memory;
/// What is known of it.
pub mod state;

use super::kind::NamespaceView;
use super::report;
use super::target::Target;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::member::Member;
use crate::member::dressing::Dressing;
use crate::member::template_objects::{SeenTemplateObjects, TemplateObject, TemplateObjectKind};
use crate::namespace_template::kind::CurrentTemplate;
use crate::namespace_template::resolve::{self, ResolvedTemplate};
use crate::namespace_template::rollout::{self, is_in_use};
use business_types::AppliedTemplate;
use futures_util::future::join_all;
use pull_secret::PullSecretGoal;
use state::{TemplateFailure, TemplateState, Withdrawal};
use std::sync::Arc;
use wanted::{WantedObject, WantedTemplate};

/// The template of a namespace, and what of it is to be there now.
#[derive(Clone, Debug)]
pub enum TemplateSelection {
    /// It has none: what one has put there goes.
    NoTemplate(WantedTemplate),
    /// Its newest state.
    Newest(CurrentTemplate, WantedTemplate),
    /// What is there stays until it is this namespace's turn.
    Waiting(String),
    /// It is named and does not exist: what is there stays.
    NotFound(String),
}

impl TemplateSelection {
    pub fn of(cx: &Context, object: &NamespaceView, target: &Target) -> Self {
        let current = match resolve::of_project(cx, &target.project) {
            ResolvedTemplate::None => return Self::NoTemplate(WantedTemplate::default()),
            ResolvedTemplate::NotFound(name) => return Self::NotFound(name),
            ResolvedTemplate::Template(current) => current,
        };
        let has_it = object.status.template.as_ref() == Some(&current.state);
        // What somebody has deleted is made anew, with all that is new.
        let is_gone = target.member.observed.at(&object.spec.namespace).0.is_none();
        if has_it || is_gone || !is_in_use(object) || rollout::is_in_wave(&current, object) {
            let wanted = wanted::wanted(&current.state.name, &current.view.spec, &target.project);
            return Self::Newest(current, wanted);
        }
        Self::Waiting(current.state.name)
    }

    /// Labels and annotations that are to be there; `None` leaves them as they are.
    pub fn dressing(&self) -> Option<&Dressing> {
        match self {
            Self::NoTemplate(wanted) | Self::Newest(_, wanted) => Some(&wanted.dressing),
            Self::Waiting(_) | Self::NotFound(_) => None,
        }
    }

    /// Whether what it is to be was there before: whatever is not so is drift.
    pub fn was_applied(&self, cx: &Context, object: &NamespaceView) -> bool {
        match self {
            Self::NoTemplate(wanted) | Self::Newest(_, wanted) => was_applied(cx, object, wanted),
            Self::Waiting(_) | Self::NotFound(_) => false,
        }
    }

    /// What is to become of the pull secret. Whoever waits for something else goes on pulling.
    pub fn pull_secret(&self) -> PullSecretGoal<'_> {
        match self {
            Self::NoTemplate(_) => PullSecretGoal::Absent,
            Self::Newest(_, wanted) => {
                wanted.pull_secret.as_ref().map_or(PullSecretGoal::Absent, PullSecretGoal::Newest)
            }
            Self::Waiting(_) | Self::NotFound(_) => PullSecretGoal::Unchanged,
        }
    }

    fn state(&self) -> Option<&AppliedTemplate> {
        match self {
            Self::Newest(current, _) => Some(&current.state),
            Self::NoTemplate(_) | Self::Waiting(_) | Self::NotFound(_) => None,
        }
    }
}

/// Whether exactly this was in place before.
fn was_applied(cx: &Context, object: &NamespaceView, wanted: &WantedTemplate) -> bool {
    cx.objects.namespaces.memory.templates.matches(&object.uid, &wanted.fingerprint())
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateStep {
    /// In the place of what was seen there, if anything was.
    Apply(WantedObject, Option<Arc<TemplateObject>>),
    /// It gives another role, which cannot be changed.
    Replace(Arc<TemplateObject>, WantedObject),
    /// The template does not name it any more.
    Delete(Arc<TemplateObject>),
}

impl TemplateStep {
    fn kind(&self) -> TemplateObjectKind {
        match self {
            Self::Apply(wanted, _) | Self::Replace(_, wanted) => wanted.kind,
            Self::Delete(there) => there.kind,
        }
    }

    /// `LimitRange business-template`
    fn describe(&self) -> String {
        let name = match self {
            Self::Apply(wanted, _) | Self::Replace(_, wanted) => &wanted.name,
            Self::Delete(there) => &there.name,
        };
        format!("{} {name}", self.kind().as_str())
    }
}

/// What to do, in the order in which it is done. Only what carries our mark is taken away.
pub fn steps(
    object: &NamespaceView,
    wanted: &[WantedObject],
    seen: &[Arc<TemplateObject>],
) -> Vec<TemplateStep> {
    let there =
        |one: &WantedObject| seen.iter().find(|there| there.kind == one.kind && there.name == one.name);
    let writes = wanted.iter().filter_map(|one| match there(one) {
        Some(there) if one.is_in_place(object, there) => None,
        Some(there) if there.role.is_some() && there.role != one.role => {
            Some(TemplateStep::Replace(Arc::clone(there), one.clone()))
        }
        there => Some(TemplateStep::Apply(one.clone(), there.cloned())),
    });
    let is_wanted =
        |there: &TemplateObject| wanted.iter().any(|one| one.kind == there.kind && one.name == there.name);
    let is_ours = |there: &TemplateObject| there.object == object.uid && !there.deleting;
    let deletes = seen.iter().filter(|there| !is_wanted(there) && is_ours(there));
    writes.chain(deletes.map(|there| TemplateStep::Delete(Arc::clone(there)))).collect()
}

/// Makes a namespace that is the object's what its template says. Its labels and annotations were seen to before.
pub async fn reconcile(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    selection: &TemplateSelection,
    labels: LabelsResult,
) -> Result<TemplateState, Error> {
    let wanted = match selection {
        TemplateSelection::Waiting(name) => return Ok(TemplateState::Waiting(name.clone())),
        TemplateSelection::NotFound(name) => return Ok(TemplateState::NotFound(name.clone())),
        TemplateSelection::NoTemplate(wanted) | TemplateSelection::Newest(_, wanted) => wanted,
    };
    let seen = match target.member.observed.templates.at(&object.spec.namespace) {
        SeenTemplateObjects::Listed(seen) => seen,
        _ if selection.state().is_none() && object.status.template.is_none() => {
            return Ok(TemplateState::None);
        }
        SeenTemplateObjects::Unlisted(None) => return Ok(TemplateState::Unknown),
        SeenTemplateObjects::Unlisted(Some(error)) => {
            let message = format!("cluster {} does not list {error}", target.member.name);
            let failure = TemplateFailure {
                message,
                retry: false,
                limits: wanted.has_limits(),
                has_other_causes: true,
            };
            return Ok(state(selection, Some(failure)));
        }
    };
    let steps = steps(object, &wanted.objects, &seen);
    let was_right = was_applied(cx, object, wanted);
    if was_right && (labels.written || !steps.is_empty()) {
        let changed: Vec<String> = steps.iter().map(TemplateStep::describe).collect();
        report::template_restored(cx, object, &changed);
    }
    let mut failure = apply_steps(object, target, &selected_name(selection), &steps).await?;
    if let Some(refused) = labels.refused {
        failure.get_or_insert_default().add(&refused);
    }
    let last_applied = &cx.objects.namespaces.memory.templates;
    if failure.is_none() && selection.state().is_some() {
        last_applied.remember(&object.uid, wanted.fingerprint());
    } else {
        last_applied.forget(&object.uid);
    }
    if let (None, Some(invalid)) = (&failure, wanted.invalid.first()) {
        return Ok(TemplateState::Invalid { state: selection.state().cloned(), message: invalid.clone() });
    }
    Ok(state(selection, failure))
}

/// What became of the labels and annotations of the namespace itself.
#[derive(Clone, Debug, Default)]
pub struct LabelsResult {
    /// They were not what they are to be, and were written.
    pub written: bool,
    /// The cluster does not take them, and why.
    pub refused: Option<TemplateFailure>,
}

fn selected_name(selection: &TemplateSelection) -> String {
    selection.state().map(|state| state.name.clone()).unwrap_or_default()
}

fn state(selection: &TemplateSelection, failure: Option<TemplateFailure>) -> TemplateState {
    match (selection.state().cloned(), failure) {
        (state, Some(failure)) => TemplateState::Failed { state, failure },
        (Some(state), None) => TemplateState::Applied(state),
        (None, None) => TemplateState::None,
    }
}

/// One kind after the other, all of a kind at once. What is refused keeps nothing else from being done.
async fn apply_steps(
    object: &NamespaceView,
    target: &Target,
    template: &str,
    steps: &[TemplateStep],
) -> Result<Option<TemplateFailure>, Error> {
    let mut failure: Option<TemplateFailure> = None;
    for kind in TemplateObjectKind::ALL {
        let of_kind = steps.iter().filter(|step| step.kind() == kind);
        let outcomes = join_all(of_kind.map(|step| async move {
            match apply_step(object, target, template, step).await {
                Err(Error::Member(CallFailure::Refused { code, message })) => {
                    let what = format!("cluster {}: {}", target.member.name, step.describe());
                    Ok(Some(TemplateFailure::refused(&what, code, &message)))
                }
                outcome => outcome.map(|()| None),
            }
        }))
        .await;
        for refused in outcomes {
            let Some(refused) = refused? else { continue };
            let limits = kind == TemplateObjectKind::LimitRange;
            failure.get_or_insert_default().add(&TemplateFailure { limits, ..refused });
        }
    }
    Ok(failure)
}

async fn apply_step(
    object: &NamespaceView,
    target: &Target,
    template: &str,
    step: &TemplateStep,
) -> Result<(), Error> {
    let (api, namespace) = (&target.member.api, &object.spec.namespace);
    let observed = &target.member.observed.templates;
    let (wanted, there) = match step {
        TemplateStep::Delete(there) => {
            delete(&target.member, namespace, there).await?;
            return Ok(());
        }
        TemplateStep::Replace(there, wanted) => {
            delete(&target.member, namespace, there).await?;
            (wanted, None)
        }
        TemplateStep::Apply(wanted, there) => (wanted, there.as_ref()),
    };
    let mut body = wanted.body(object, template);
    if let Some(there) = there {
        crate::member::api::based_on(&mut body, &there.uid, &there.resource_version);
    }
    if let Some(written) = api.apply_template_object(wanted.kind, namespace, &wanted.name, &body).await? {
        observed.seen(namespace, written, false);
    }
    Ok(())
}

async fn delete(member: &Member, namespace: &str, there: &TemplateObject) -> Result<(), Error> {
    let deleted = match there.kind {
        TemplateObjectKind::RoleBinding => {
            member.api.withdraw_binding(namespace, &there.name, &there.uid).await
        }
        TemplateObjectKind::LimitRange | TemplateObjectKind::NetworkPolicy => {
            member.api.delete_template_object(namespace, there).await
        }
    };
    match deleted {
        // Another one is in its place by now: the watch tells.
        Ok(()) | Err(Error::Member(CallFailure::Conflict(_))) => {}
        Err(error) => return Err(error),
    }
    member.observed.templates.gone(namespace, there);
    Ok(())
}

/// Takes everything of a template away from a namespace that stays: nobody looks after it later.
pub async fn withdraw(cx: &Context, object: &NamespaceView, target: &Target) -> Result<Withdrawal, Error> {
    let mut there = Vec::new();
    for kind in TemplateObjectKind::ALL {
        match target.member.observed.templates.of(kind).within(&object.spec.namespace) {
            Ok(seen) => there.extend(seen),
            Err(unlisted) if unlisted.is_forbidden() => {}
            Err(_not_yet) => return Ok(Withdrawal::NotListed),
        }
    }
    for step in steps(object, &[], &there) {
        apply_step(object, target, "", &step).await?;
    }
    pull_secret::withdraw(cx, object, target).await
}

/// Takes all that have a role by templates out of a namespace that belongs to no object any more, as far as it is seen.
pub async fn withdraw_bindings(member: &Member, namespace: &str) -> Result<(), Error> {
    let seen = member.observed.templates.of(TemplateObjectKind::RoleBinding).within(namespace);
    let mut withdrawn = Ok(());
    for there in seen.unwrap_or_default() {
        withdrawn = withdrawn.and(delete(member, namespace, &there).await);
    }
    withdrawn
}

#[cfg(test)]
mod tests;
