//! What the template of a namespace puts into it beside the quota: limits first, then whatever else; what it names no more
//! goes. What others put beside it stays.

/// What is to be there; pure.
pub mod wanted;
/// What its pods pull by.
pub mod pull_secret;
/// What is known of that.
pub mod pull_memory;
/// What is known of it.
pub mod state;
/// What it was when it was right.
pub mod kept;

use super::kind::NamespaceView;
use super::report;
use super::site::Site;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::member::Member;
use crate::member::template_metadata::TemplateMetadata;
use crate::member::template_objects::{NamespaceTemplateObjects, TemplateObject, TemplateObjectKind};
use crate::namespace_template::kind::CurrentTemplate;
use crate::namespace_template::resolve::{self, Resolved};
use crate::namespace_template::rollout::{self, is_in_use};
use business_types::AppliedTemplate;
use futures_util::future::join_all;
use pull_secret::PullAim;
use state::{TemplateState, Undone, Withdrawal};
use std::sync::Arc;
use wanted::{WantedObject, WantedTemplate};

/// The template of a namespace, and what of it is to be there now.
#[derive(Clone, Debug)]
pub enum TemplateStage {
    /// It has none: what one has put there goes.
    Nothing(WantedTemplate),
    /// Its newest state.
    Newest(CurrentTemplate, WantedTemplate),
    /// What is there stays until it is this namespace's turn.
    Waiting(String),
    /// It is named and does not exist: what is there stays.
    Missing(String),
}

impl TemplateStage {
    pub fn of(cx: &Context, object: &NamespaceView, site: &Site) -> Self {
        let current = match resolve::of_project(cx, &site.project) {
            Resolved::Nothing => return Self::Nothing(WantedTemplate::default()),
            Resolved::Missing(name) => return Self::Missing(name),
            Resolved::Template(current) => current,
        };
        let has_it = object.status.template.as_ref() == Some(&current.state);
        // What somebody has deleted is made anew, with all that is new.
        let is_gone = site.member.observed.at(&object.spec.namespace).0.is_none();
        if has_it || is_gone || !is_in_use(object) || rollout::admits(&current, object) {
            let wanted = wanted::wanted(&current.state.name, &current.view.spec, &site.project);
            return Self::Newest(current, wanted);
        }
        Self::Waiting(current.state.name)
    }

    /// Labels and annotations that are to be there; `None` leaves them as they are.
    pub fn dressing(&self) -> Option<&TemplateMetadata> {
        match self {
            Self::Nothing(wanted) | Self::Newest(_, wanted) => Some(&wanted.dressing),
            Self::Waiting(_) | Self::Missing(_) => None,
        }
    }

    /// Whether what it is to be was there before: whatever is not so is drift.
    pub fn was_kept(&self, cx: &Context, object: &NamespaceView) -> bool {
        match self {
            Self::Nothing(wanted) | Self::Newest(_, wanted) => was_kept(cx, object, wanted),
            Self::Waiting(_) | Self::Missing(_) => false,
        }
    }

    /// What is to become of the pull secret. Whoever waits for something else goes on pulling.
    pub fn pull_secret(&self) -> PullAim<'_> {
        match self {
            Self::Nothing(_) => PullAim::Gone,
            Self::Newest(_, wanted) => wanted.pull_secret.as_ref().map_or(PullAim::Gone, PullAim::Newest),
            Self::Waiting(_) | Self::Missing(_) => PullAim::AsItIs,
        }
    }

    fn state(&self) -> Option<&AppliedTemplate> {
        match self {
            Self::Newest(current, _) => Some(&current.state),
            Self::Nothing(_) | Self::Waiting(_) | Self::Missing(_) => None,
        }
    }
}

/// Whether exactly this was in place before.
fn was_kept(cx: &Context, object: &NamespaceView, wanted: &WantedTemplate) -> bool {
    cx.objects.namespaces.memory.kept.was(&object.uid, &wanted.kept())
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
    fn told(&self) -> String {
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
pub async fn keep(
    cx: &Context,
    object: &NamespaceView,
    site: &Site,
    stage: &TemplateStage,
    labels: Labels,
) -> Result<TemplateState, Error> {
    let wanted = match stage {
        TemplateStage::Waiting(name) => return Ok(TemplateState::Waiting(name.clone())),
        TemplateStage::Missing(name) => return Ok(TemplateState::Missing(name.clone())),
        TemplateStage::Nothing(wanted) | TemplateStage::Newest(_, wanted) => wanted,
    };
    let seen = match site.member.observed.templates.at(&object.spec.namespace) {
        NamespaceTemplateObjects::Listed(seen) => seen,
        _ if stage.state().is_none() && object.status.template.is_none() => return Ok(TemplateState::None),
        NamespaceTemplateObjects::NotListed(None) => return Ok(TemplateState::Unknown),
        NamespaceTemplateObjects::NotListed(Some(error)) => {
            let message = format!("cluster {} does not list {error}", site.member.name);
            let undone = Undone { message, retry: false, limits: wanted.has_limits(), others: true };
            return Ok(state(stage, Some(undone)));
        }
    };
    let steps = steps(object, &wanted.objects, &seen);
    let was_right = was_kept(cx, object, wanted);
    if was_right && (labels.written || !steps.is_empty()) {
        let told: Vec<String> = steps.iter().map(TemplateStep::told).collect();
        report::template_restored(cx, object, &told);
    }
    let mut undone = carry_out(object, site, &stage_name(stage), &steps).await?;
    if let Some(refused) = labels.refused {
        undone.get_or_insert_default().add(&refused);
    }
    let kept = &cx.objects.namespaces.memory.kept;
    if undone.is_none() && stage.state().is_some() {
        kept.remember(&object.uid, wanted.kept());
    } else {
        kept.forget(&object.uid);
    }
    if let (None, Some(invalid)) = (&undone, wanted.invalid.first()) {
        return Ok(TemplateState::Invalid { state: stage.state().cloned(), message: invalid.clone() });
    }
    Ok(state(stage, undone))
}

/// What became of the labels and annotations of the namespace itself.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// They were not what they are to be, and were written.
    pub written: bool,
    /// The cluster does not take them, and why.
    pub refused: Option<Undone>,
}

fn stage_name(stage: &TemplateStage) -> String {
    stage.state().map(|state| state.name.clone()).unwrap_or_default()
}

fn state(stage: &TemplateStage, undone: Option<Undone>) -> TemplateState {
    match (stage.state().cloned(), undone) {
        (state, Some(undone)) => TemplateState::Undone { state, undone },
        (Some(state), None) => TemplateState::Applied(state),
        (None, None) => TemplateState::None,
    }
}

/// One kind after the other, all of a kind at once. What is refused keeps nothing else from being done.
async fn carry_out(
    object: &NamespaceView,
    site: &Site,
    template: &str,
    steps: &[TemplateStep],
) -> Result<Option<Undone>, Error> {
    let mut undone: Option<Undone> = None;
    for kind in TemplateObjectKind::ALL {
        let of_kind = steps.iter().filter(|step| step.kind() == kind);
        let outcomes = join_all(of_kind.map(|step| async move {
            match write(object, site, template, step).await {
                Err(Error::Member(CallFailure::Refused { code, message })) => {
                    let what = format!("cluster {}: {}", site.member.name, step.told());
                    Ok(Some(Undone::refused(&what, code, &message)))
                }
                outcome => outcome.map(|()| None),
            }
        }))
        .await;
        for refused in outcomes {
            let Some(refused) = refused? else { continue };
            let limits = kind == TemplateObjectKind::LimitRange;
            undone.get_or_insert_default().add(&Undone { limits, ..refused });
        }
    }
    Ok(undone)
}

async fn write(
    object: &NamespaceView,
    site: &Site,
    template: &str,
    step: &TemplateStep,
) -> Result<(), Error> {
    let (api, namespace) = (&site.member.api, &object.spec.namespace);
    let observed = &site.member.observed.templates;
    let (wanted, there) = match step {
        TemplateStep::Delete(there) => {
            delete(&site.member, namespace, there).await?;
            return Ok(());
        }
        TemplateStep::Replace(there, wanted) => {
            delete(&site.member, namespace, there).await?;
            (wanted, None)
        }
        TemplateStep::Apply(wanted, there) => (wanted, there.as_ref()),
    };
    let mut body = wanted.body(object, template);
    if let Some(there) = there {
        crate::member::api::set_preconditions(&mut body, &there.uid, &there.resource_version);
    }
    if let Some(written) = api.apply_template_object(wanted.kind, namespace, &wanted.name, &body).await? {
        observed.upsert(namespace, written, false);
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
        // Another one is in its place by now: the watch tells.
        Ok(()) | Err(Error::Member(CallFailure::Conflict(_))) => {}
        Err(error) => return Err(error),
    }
    member.observed.templates.remove(namespace, there);
    Ok(())
}

/// Takes everything of a template away from a namespace that stays: nobody looks after it later.
pub async fn withdraw(cx: &Context, object: &NamespaceView, site: &Site) -> Result<Withdrawal, Error> {
    let mut there = Vec::new();
    for kind in TemplateObjectKind::ALL {
        match site.member.observed.templates.of(kind).in_namespace(&object.spec.namespace) {
            Ok(seen) => there.extend(seen),
            Err(unlisted) if unlisted.is_forbidden() => {}
            Err(_not_yet) => return Ok(Withdrawal::Unseen),
        }
    }
    for step in steps(object, &[], &there) {
        write(object, site, "", &step).await?;
    }
    pull_secret::withdraw(cx, object, site).await
}

/// Takes all that have a role by templates out of a namespace that belongs to no object any more, as far as it is seen.
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
