//! Reconciles what the template of a namespace puts into it beside the quota: LimitRange first, then the rest. Objects
//! that the template does not name any more are deleted. Objects of others stay.

/// What a template puts into a namespace; pure.
pub mod wanted;
/// What identifies the effect of a template on a namespace.
pub mod fingerprint;
/// Reconciles the pull secret.
pub mod pull_secret;
/// What is remembered of pull secrets.
pub mod pull_secret_memory;
/// The state of a template in a namespace.
pub mod state;

use super::kind::NamespaceView;
use super::report;
use super::target::Target;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::member::Member;
use crate::member::template_metadata::TemplateMetadata;
use crate::member::template_objects::{NamespaceTemplateObjects, TemplateObject, TemplateObjectKind};
use crate::member::watch_store::UpdateSource;
use crate::namespace_template::kind::CurrentTemplate;
use crate::namespace_template::resolve::{self, ResolvedTemplate};
use crate::namespace_template::rollout;
use business_types::AppliedTemplate;
use futures_util::future::join_all;
use pull_secret::PullSecretGoal;
use state::{TemplateFailure, TemplateState, Withdrawal};
use std::sync::Arc;
use wanted::{WantedObject, WantedTemplate};

/// The template of a namespace, and what of it to apply now.
#[derive(Clone, Debug)]
pub enum TemplateSelection {
    /// The namespace has no template: objects of a former one are deleted.
    NoTemplate(WantedTemplate),
    /// Apply the newest state.
    Newest(CurrentTemplate, WantedTemplate),
    /// Leave everything as it is until a wave has this namespace.
    Waiting(String),
    /// The named template does not exist: leave everything as it is.
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
        if has_it
            || !rollout::was_in_use(object)
            || rollout::is_in_wave(&current, object)
            || is_created_again(object, target)
        {
            let wanted = wanted::wanted(&current.state.name, &current.view.spec, &target.project);
            return Self::Newest(current, wanted);
        }
        Self::Waiting(current.state.name)
    }

    /// The labels and annotations to apply; `None` leaves them as they are.
    pub fn template_metadata(&self) -> Option<&TemplateMetadata> {
        match self {
            Self::NoTemplate(wanted) | Self::Newest(_, wanted) => Some(&wanted.template_metadata),
            Self::Waiting(_) | Self::NotFound(_) => None,
        }
    }

    /// Whether exactly this was applied before. If so, any difference is drift.
    pub fn was_applied(&self, cx: &Context, object: &NamespaceView) -> bool {
        match self {
            Self::NoTemplate(wanted) | Self::Newest(_, wanted) => was_applied(cx, object, wanted),
            Self::Waiting(_) | Self::NotFound(_) => false,
        }
    }

    /// What to do with the pull secret. A namespace that waits for its wave keeps a valid one.
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

/// Whether the namespace is gone, or was just created again: its seal still says which one was there before. What the
/// template had put there has gone with that one, so the namespace gets the newest state at once.
fn is_created_again(object: &NamespaceView, target: &Target) -> bool {
    let name = &object.spec.namespace;
    let Some(there) = target.member.observed.at(name).0 else { return true };
    let opened = there.marks.seal.as_deref().and_then(|seal| target.open(name, &there.uid, seal));
    opened.is_some_and(|opened| opened.sealed.after.is_some())
}

/// Whether exactly this was applied before.
fn was_applied(cx: &Context, object: &NamespaceView, wanted: &WantedTemplate) -> bool {
    cx.objects.namespaces.memory.templates.matches(&object.uid, &wanted.fingerprint())
}

/// What to do with an object of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateStep {
    /// Apply the object, based on what was seen there, if anything was.
    Apply(WantedObject, Option<Arc<TemplateObject>>),
    /// Delete the binding and apply it again: its role differs and cannot be changed.
    Replace(Arc<TemplateObject>, WantedObject),
    /// Delete the object: the template does not name it any more.
    Delete(Arc<TemplateObject>),
}

impl TemplateStep {
    fn kind(&self) -> TemplateObjectKind {
        match self {
            Self::Apply(wanted, _) | Self::Replace(_, wanted) => wanted.kind,
            Self::Delete(there) => there.kind,
        }
    }

    /// Kind and name, such as `LimitRange business-template`.
    fn describe(&self) -> String {
        let name = match self {
            Self::Apply(wanted, _) | Self::Replace(_, wanted) => &wanted.name,
            Self::Delete(there) => &there.name,
        };
        format!("{} {name}", self.kind().as_str())
    }
}

/// The steps in their order. Only objects that carry our mark are deleted.
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

/// Reconciles the objects of the template in a namespace that is the object's. Labels and annotations were written
/// before.
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
        NamespaceTemplateObjects::Listed(seen) => seen,
        _ if selection.state().is_none() && object.status.template.is_none() => {
            return Ok(TemplateState::None);
        }
        NamespaceTemplateObjects::NotListed(None) => return Ok(TemplateState::Unknown),
        NamespaceTemplateObjects::NotListed(Some(error)) => {
            let message = format!("cluster {} does not list {error}", target.member.name);
            let failure = TemplateFailure {
                message,
                retry: false,
                lacks_limits: wanted.has_limits(),
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

/// The outcome of writing labels and annotations of the namespace.
#[derive(Clone, Debug, Default)]
pub struct LabelsResult {
    /// They differed, and were written.
    pub written: bool,
    /// The cluster refused them, and why.
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

/// Applies one kind after the other, and the objects of a kind in parallel. A refusal does not prevent the rest.
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
            let lacks_limits = kind == TemplateObjectKind::LimitRange;
            failure.get_or_insert_default().add(&TemplateFailure { lacks_limits, ..refused });
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
        crate::member::api::set_preconditions(&mut body, &there.uid, &there.resource_version);
    }
    if let Some(written) = api.apply_template_object(wanted.kind, namespace, &wanted.name, &body).await? {
        observed.upsert(namespace, written, UpdateSource::OwnWrite);
    }
    Ok(())
}

async fn delete(member: &Member, namespace: &str, there: &TemplateObject) -> Result<(), Error> {
    let deleted = match there.kind {
        TemplateObjectKind::RoleBinding => {
            member.api.empty_and_delete_binding(namespace, &there.name, &there.uid).await
        }
        TemplateObjectKind::LimitRange | TemplateObjectKind::NetworkPolicy => {
            member.api.delete_template_object(namespace, there).await
        }
    };
    match deleted {
        // Another object has taken its place: the watch will tell.
        Ok(()) | Err(Error::Member(CallFailure::Conflict(_))) => {}
        Err(error) => return Err(error),
    }
    member.observed.templates.remove(namespace, there);
    Ok(())
}

/// Removes everything of a template from a namespace that stays in the cluster, because nobody reconciles it later.
pub async fn withdraw(cx: &Context, object: &NamespaceView, target: &Target) -> Result<Withdrawal, Error> {
    let mut there = Vec::new();
    for kind in TemplateObjectKind::ALL {
        match target.member.observed.templates.of(kind).in_namespace(&object.spec.namespace) {
            Ok(seen) => there.extend(seen),
            Err(unlisted) if unlisted.is_forbidden() => {}
            Err(unlisted) => return Ok(Withdrawal::NotListed(unlisted.describe(kind.plural()))),
        }
    }
    for step in steps(object, &[], &there) {
        apply_step(object, target, "", &step).await?;
    }
    pull_secret::withdraw(cx, object, target).await
}

/// Removes the bindings of templates, as far as they are seen, from a namespace that belongs to no object any more.
pub async fn withdraw_bindings(member: &Member, namespace: &str) -> Result<(), Error> {
    let seen = member.observed.templates.of(TemplateObjectKind::RoleBinding).in_namespace(namespace);
    let mut withdrawn = Ok(());
    for there in seen.unwrap_or_default() {
        withdrawn = withdrawn.and(delete(member, namespace, &there).await);
    }
    withdrawn
}

#[cfg(test)]
mod tests;
