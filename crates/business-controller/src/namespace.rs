//! The controller of namespaces: site → access → validate → build → apply → template → status, and cleanup at the end.

/// What a namespace is to the controller.
pub mod kind;
/// Objects for which nothing can have been made yet.
pub mod memory;
/// What a pass comes to.
pub mod verdict;
/// Who looks at namespaces again.
pub mod wake;
/// What there is in the member cluster.
pub mod site;
/// How soon to look again.
mod pauses;
/// Who may use it there.
pub mod access;
/// Whom its bindings are to name; pure.
pub mod grants;
/// What is known of them.
pub mod access_state;
/// What its template puts there.
pub mod template;
/// What has to be done there; pure.
pub mod validate;
/// The bodies of the writes; pure.
pub mod build;
/// The writes.
pub mod apply;
/// When less may be charged; pure.
pub mod confirm;
/// The status to show; pure but for its write.
pub mod status;
/// What somebody has to look at; pure.
pub mod trouble;
/// Events for what a pass has done.
pub mod report;
/// The deletion of a cluster's namespace.
pub mod removal;
/// The end of a namespace.
pub mod cleanup;

use crate::context::Context;
use crate::controller::{Controller, MemberNamespaceChange};
use crate::error::{CallFailure, Error};
use crate::kinds::{ChangeSource, ProjectKey, ViewChange, revision};
use crate::member::recount::UsageRecount;
use crate::member::{ClusterNamespace, ClusterQuota};
use crate::member_cluster::wake_cluster;
use crate::members::Lookup;
use crate::outcome::PassOutcome;
use crate::project::wake::wake_project;
use crate::queue::Lane;
use crate::seal::{Origin, Sealed};
use crate::shares::Share;
use crate::tenant::wake_tenant;
use access::AccessPlace;
use access_state::Access;
use apply::{Applied, Written};
use business_types::{ClusterNamespaceRecord, NamespacePhase, NamespaceSpec, Provenance};
use kind::{BusinessNamespace, NamespaceView};
use pauses::{RECHECK, SOON};
use removal::{DeletionRefusal, Removal};
use site::{FoundSite, Nowhere, Site, is_there};
use std::time::Duration;
use template::pull_secret::{self, PullPass};
use template::state::{TemplateState, Undone};
use template::{Labels, TemplateStage};
use validate::WantedNamespace;
use verdict::{
    Enforcement, InPlace, Marking, NamespaceFinding, NamespaceRefusal, NamespaceStep, NamespaceVerdict,
    PlaceOwner, Plan, Situation, record_of,
};
use wake::{wake_namespace, wake_templates_of};

/// Times that a pass begins anew when the member cluster was changed under it.
const ROUNDS_MAX: usize = 4;
/// What a cluster's admission may be behind.
const ADMISSION_LAG: Duration = Duration::from_millis(200);
/// How often to look whether an excess is held.
const EXCESS_RECHECK: Duration = Duration::from_secs(5);
/// What is older when it is first seen has come back from a backup, and somebody may have written for it.
const NEWBORN_SECONDS: i64 = 300;
impl Controller for BusinessNamespace {
    fn changed(cx: &Context, change: &ViewChange<Self>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        note(cx, change);
        if let Some(new) = new {
            wake_namespace(cx, new, Lane::Urgent, Duration::ZERO);
        }
        let charge = |view: &NamespaceView| (view.uid.clone(), view.status.cached_spec_hard.clone());
        if old.map(charge) != new.map(charge)
            && let Some(view) = new.or(old)
        {
            wake_project(cx, &view.key.project, Lane::Later);
        }
        wake_templates_of(cx, old, new);
        if let (Some(view), None) | (None, Some(view)) = (old, new) {
            wake_tenant(cx, &view.spec.tenant_id, Lane::Later);
        }
        let use_of = |view: &NamespaceView| view.status.used.clone();
        if old.map(use_of) != new.map(use_of)
            && let Some(view) = new.or(old)
        {
            wake_cluster(cx, &view.spec.cluster_name, Lane::Later);
        }
    }

    async fn reconcile(cx: &Context, key: &ProjectKey) -> Result<PassOutcome, Error> {
        reconcile(cx, key).await
    }

    fn resync(cx: &Context) {
        for object in cx.objects.namespaces.all() {
            wake_namespace(cx, &object, Lane::Later, Duration::ZERO);
        }
    }

    /// Those first that somebody waits for.
    fn cluster_changed(cx: &Context, cluster: &str) {
        for object in cx.objects.namespaces.in_cluster(cluster) {
            let lane = if is_settled(&object) { Lane::Later } else { Lane::Urgent };
            wake_namespace(cx, &object, lane, Duration::ZERO);
        }
    }

    fn member_namespace_changed(cx: &Context, place: &MemberNamespaceChange<'_>) {
        if let Some(object) = cx.objects.namespaces.at_place(place.cluster, place.namespace) {
            wake_namespace(cx, &object, place.lane, place.delay);
        }
    }
}

/// Whether nobody waits for it: it is where it should be, and was not changed since that was said.
fn is_settled(object: &NamespaceView) -> bool {
    let status = &object.status;
    let is_seen = status.observed_generation == Some(object.generation);
    status.phase == NamespacePhase::Available && is_seen && !object.is_deleting()
}

/// Remembers an object that is new: as long as its cluster is looked after here and nobody else can have written for it, it
/// is known what was made for it.
fn note(cx: &Context, change: &ViewChange<BusinessNamespace>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if let Some(gone) = old.filter(|old| new.is_none_or(|new| new.uid != old.uid)) {
        cx.objects.namespaces.memory.forget(&gone.uid);
    }
    let age = |new: &NamespaceView| cx.clock.unix_seconds().saturating_sub(new.created);
    let is_born = |new: &&NamespaceView| {
        change.source == ChangeSource::WatchEvent
            && old.is_none_or(|old| old.uid != new.uid)
            && age(new) < NEWBORN_SECONDS
            && new.status.cluster_namespace.is_none()
            // Where it was before, a write may have been tried for it.
            && !new.was_transferred()
    };
    if let Some(new) = new.filter(is_born)
        && let Some(held) = first_tenure(cx, new)
    {
        cx.objects.namespaces.memory.untried.remember(&new.uid, held);
    }
}

/// The tenure in which the object was made, if nobody else can have written for it: its cluster is looked after here.
fn first_tenure(cx: &Context, new: &NamespaceView) -> Option<(Share, u64)> {
    let held = cx.term_of(&new.spec.cluster_name)?;
    let Lookup::Found(member) = cx.member(&new.spec.cluster_name) else { return None };
    let is_first = member.term == held.1 && member.is_sole_writer_for(revision(&new.resource_version));
    is_first.then_some(held)
}

async fn reconcile(cx: &Context, key: &ProjectKey) -> Result<PassOutcome, Error> {
    let Some(object) = cx.objects.namespaces.get(key) else { return Ok(PassOutcome::Skipped) };
    // One that has moved has two keys, and from where it lay something may be under way.
    let Some(_turn) = cx.objects.namespaces.memory.turns.take(&object.uid) else {
        return Ok(PassOutcome::NotBegun(SOON));
    };
    let reached = match site::reach(cx, &object).await {
        Ok(reached) => reached,
        Err(Nowhere::NotYet) => return Ok(PassOutcome::Waiting),
        Err(Nowhere::Behind | Nowhere::WithoutProject) => return Ok(PassOutcome::NotBegun(SOON)),
        Err(Nowhere::Failed(error)) => return Err(error),
        Err(Nowhere::Because(situation)) => return not_there(cx, &object, situation).await,
    };
    // Before anything else is looked at: whatever else is wrong, who has no role any more loses it.
    let access = access::keep(AccessPlace { cx, object: &object, reached: &reached }).await?;
    let result = match Site::of(cx, &reached, &object.spec.namespace) {
        None => Ok(PassOutcome::Waiting),
        Some(site) if object.is_deleting() => cleanup::run(cx, &object, &site).await,
        Some(site) => converge(cx, &object, &site, access.clone()).await,
    };
    if let Err(Error::Member(CallFailure::Unavailable(_))) = &result {
        reached.member.probe_request.notify_one();
    }
    match result {
        // That is tried again soon, whatever else there is to wait for.
        Ok(
            PassOutcome::Applied | PassOutcome::Unchanged | PassOutcome::Waiting | PassOutcome::WaitingFor(_),
        ) if access.is_to_be_retried() => Ok(PassOutcome::Refused),
        result => result,
    }
}

/// The cluster does not answer, or is not known: said once, and nothing is tried.
async fn not_there(cx: &Context, object: &NamespaceView, situation: Situation) -> Result<PassOutcome, Error> {
    if object.is_deleting() && cleanup::is_abandoned(object) {
        return cleanup::abandon(cx, object).await;
    }
    let written = status::write(cx, object, &situation.clone().into()).await?;
    if written.is_some() {
        report::unreachable(cx, object, &situation);
    }
    Ok(PassOutcome::Waiting)
}

/// Brings the member cluster to what the spec asks for, and the status to what there is.
async fn converge(
    cx: &Context,
    object: &NamespaceView,
    site: &Site,
    access: Access,
) -> Result<PassOutcome, Error> {
    let (project_uid, forbidden) = (&site.project.uid, &cx.forbidden);
    let stage = TemplateStage::of(cx, object, site);
    let dressing = stage.dressing();
    let wanted = WantedNamespace { object, project_uid, is_newest: false, forbidden, dressing };
    let mut course = Course { wanted, labels: Labels::default(), declined: None, undeleted: None };
    // The watches see nothing without our marks, such as the quota of an imported object's namespace.
    let mut found =
        if object.status.is_imported() { site.live(cx, object).await? } else { site.seen(cx, object) };
    for _ in 0..ROUNDS_MAX {
        match course.verdict(&found) {
            NamespaceVerdict::Wait(finding) => {
                return wait(cx, object, &NamespaceFinding { access, ..finding }).await;
            }
            NamespaceVerdict::Refuse(refusal) => return refuse(cx, object, refusal, access).await,
            NamespaceVerdict::Recheck => {
                if object_is_behind(cx, object).await? {
                    return Ok(PassOutcome::WaitingFor(SOON));
                }
                course.wanted.is_newest = true;
                found = site.live(cx, object).await?;
            }
            NamespaceVerdict::Ahead { message } => return ahead(cx, object, message).await,
            NamespaceVerdict::Adopt { uid } => {
                return put_on_record(cx, object, uid, Provenance::Adopted).await;
            }
            NamespaceVerdict::TakeOver { uid, provenance } => {
                return put_on_record(cx, object, uid, provenance).await;
            }
            // It may have gone to another project since the pass has begun: its marks are written from there.
            NamespaceVerdict::Proceed(_) | NamespaceVerdict::DeleteReplaced { .. }
                if !is_there(cx, object) =>
            {
                return Ok(PassOutcome::Skipped);
            }
            NamespaceVerdict::DeleteReplaced { there } => {
                course.undeleted = delete_replaced(cx, object, site, &there).await?;
                if course.undeleted.is_none() {
                    return Ok(PassOutcome::WaitingFor(SOON));
                }
            }
            NamespaceVerdict::Proceed(plan) => {
                let repairs = &cx.objects.namespaces.memory.repairs;
                let only_repairs = plan.only_repairs(stage.was_kept(cx, object));
                if only_repairs && let Some(wait) = repairs.wait(&object.uid) {
                    return Ok(PassOutcome::WaitingFor(wait));
                }
                match apply::apply(cx, site, object, &plan, course.wanted.dressing).await {
                    Ok(Written::Elsewhere) => return Ok(PassOutcome::Skipped),
                    Ok(Written::MadeAnew { uid }) => return made_anew(cx, object, &plan, uid).await,
                    Ok(Written::InPlace(applied)) => {
                        if only_repairs {
                            repairs.count(&object.uid);
                        }
                        let Course { labels, undeleted, .. } = course;
                        let seen_to = SeenTo { access, stage, labels, undeleted };
                        return settle(cx, object, site, &plan, applied, seen_to).await;
                    }
                    Err(error) => match course.failed(cx, site, &plan, error).await? {
                        Ok(now) => found = now,
                        Err(why) => return refuse(cx, object, why, access).await,
                    },
                }
            }
        }
    }
    match course.declined {
        Some(why) => refuse(cx, object, why, access).await,
        None => Err(Error::Unsettled),
    }
}

/// The cluster has been given more than the object says: the audit holds the difference. It is asked for when that is new: where it
/// cannot tell it, its period is soon enough.
async fn ahead(cx: &Context, object: &NamespaceView, message: String) -> Result<PassOutcome, Error> {
    if status::write(cx, object, &Situation::Ahead { message }.into()).await?.is_some() {
        cx.audit_wanted.notify_one();
    }
    Ok(PassOutcome::WaitingFor(EXCESS_RECHECK))
}

/// What a pass goes by, and what it has met with.
struct Course<'a> {
    wanted: WantedNamespace<'a>,
    labels: Labels,
    /// Why the cluster has just declined our marks.
    declined: Option<NamespaceRefusal>,
    /// Why it does not delete what stands in the place of ours.
    undeleted: Option<String>,
}

impl Course<'_> {
    fn verdict(&self, found: &FoundSite) -> NamespaceVerdict {
        match validate::validate(self.wanted, found) {
            // The cluster keeps it: so it has our quota.
            NamespaceVerdict::DeleteReplaced { there } if self.undeleted.is_some() => {
                validate::keep(self.wanted, found, &there, Origin::Replaced)
            }
            verdict => verdict,
        }
    }

    /// A write has failed: what there is now, or why it cannot be.
    async fn failed(
        &mut self,
        cx: &Context,
        site: &Site,
        plan: &Plan,
        error: Error,
    ) -> Result<Result<FoundSite, NamespaceRefusal>, Error> {
        let said = match error {
            Error::Member(CallFailure::Refused { code, message }) => Some((code, message)),
            Error::Member(CallFailure::Conflict(_) | CallFailure::Exists | CallFailure::NotFound) => None,
            error => return Err(error),
        };
        self.declined = None;
        let found = site.live(cx, self.wanted.object).await?;
        let Some((code, message)) = said else { return Ok(Ok(found)) };
        match (Declined { wanted: self.wanted, plan, code, message }).then(site, &found) {
            AfterRefusal::Again => {}
            AfterRefusal::Later(why) => {
                self.declined = Some(why);
                tokio::time::sleep(ADMISSION_LAG).await;
            }
            AfterRefusal::Undressed(why) => {
                self.labels.refused = Some(why);
                self.wanted.dressing = None;
            }
            AfterRefusal::Refused(why) => return Ok(Err(why)),
        }
        Ok(Ok(found))
    }
}

/// A write that the cluster has declined.
struct Declined<'a> {
    wanted: WantedNamespace<'a>,
    plan: &'a Plan,
    code: u16,
    message: String,
}

/// What to do about it.
enum AfterRefusal {
    /// Something else is there by now.
    Again,
    /// The cluster's admission may not have seen yet that the namespace is marked. If it goes on like this, this is why.
    Later(NamespaceRefusal),
    /// Labels that the cluster does not take keep nobody from his quota.
    Undressed(Undone),
    Refused(NamespaceRefusal),
}

impl Declined<'_> {
    /// What to do, after the cluster was looked at again.
    fn then(self, site: &Site, found: &FoundSite) -> AfterRefusal {
        let Self { wanted, plan, code, message } = self;
        let (there, cluster) = (found.namespace.as_ref(), &site.member.name);
        if there.is_some_and(|there| there.deleting) {
            return AfterRefusal::Again;
        }
        let is_undressed = |there: &ClusterNamespace| {
            wanted.dressing.is_some_and(|dressing| there.template_metadata != *dressing)
        };
        let refusal = || NamespaceRefusal {
            record: on_record(wanted.object, found),
            ..NamespaceRefusal::by_cluster(cluster, code, &message)
        };
        match plan.namespace {
            NamespaceStep::Mark { .. } if there.is_some_and(|there| is_undressed(there)) => {
                let what = format!("cluster {cluster}: labels and annotations");
                AfterRefusal::Undressed(Undone::refused(&what, code, &message))
            }
            NamespaceStep::Mark { .. } => AfterRefusal::Later(refusal()),
            NamespaceStep::Keep { .. } | NamespaceStep::Create => AfterRefusal::Refused(refusal()),
        }
    }
}

/// Why the cluster does not delete what stands in the place of ours.
async fn delete_replaced(
    cx: &Context,
    object: &NamespaceView,
    site: &Site,
    there: &ClusterNamespace,
) -> Result<Option<String>, Error> {
    let origin = Origin::Replaced;
    match removal::remove(object, site, there, origin).await {
        Ok(Removal::Begun) => report::replaced_deleted(cx, object),
        // The next look tells.
        Ok(Removal::Outdated) => {}
        Err(Error::Member(CallFailure::Refused { code, message })) => {
            let (cluster, message) = (&*site.member.name, &*message);
            return Ok(Some(DeletionRefusal { cluster, there, origin, code, message }.text()));
        }
        Err(error) => return Err(error),
    }
    Ok(None)
}

async fn put_on_record(
    cx: &Context,
    object: &NamespaceView,
    uid: String,
    provenance: Provenance,
) -> Result<PassOutcome, Error> {
    status::record(cx, object, &ClusterNamespaceRecord { uid, provenance }).await?;
    Ok(PassOutcome::WaitingFor(Duration::ZERO))
}

/// A namespace was made while another one is on record: this one goes on record before anything else is done that can fail.
async fn made_anew(
    cx: &Context,
    object: &NamespaceView,
    plan: &Plan,
    uid: String,
) -> Result<PassOutcome, Error> {
    report::done(cx, object, plan);
    let NamespaceSpec { cluster_name, namespace, .. } = &object.spec;
    // The object may have gone to another project since the pass has begun.
    let now = cx.objects.namespaces.at_place(cluster_name, namespace).filter(|now| now.uid == object.uid);
    put_on_record(cx, now.as_deref().unwrap_or(object), uid, Provenance::Made).await
}

/// What goes on record of what was found, if it is the object's.
fn on_record(object: &NamespaceView, found: &FoundSite) -> Option<ClusterNamespaceRecord> {
    let there = found.namespace.as_ref()?;
    match validate::standing(object, there, found) {
        PlaceOwner::Ours(origin) => record_of(&there.uid, origin),
        PlaceOwner::Replaced | PlaceOwner::Foreign | PlaceOwner::Unclear => None,
    }
}

async fn wait(
    cx: &Context,
    object: &NamespaceView,
    finding: &NamespaceFinding,
) -> Result<PassOutcome, Error> {
    if status::write(cx, object, finding).await?.is_some() {
        report::terminating(cx, object, &finding.situation);
    }
    Ok(PassOutcome::WaitingFor(RECHECK))
}

/// Whether the object that we decide from is not the newest: something else is asked for, or on record.
async fn object_is_behind(cx: &Context, object: &NamespaceView) -> Result<bool, Error> {
    let newest = cx.business.get::<BusinessNamespace>(&object.key).await?;
    let decides =
        |view: &NamespaceView| (view.uid.clone(), view.generation, view.status.cluster_namespace.clone());
    Ok(newest.is_none_or(|newest| decides(&newest) != decides(object)))
}

/// What was seen to before the namespace was written, and what is to be put into it.
struct SeenTo {
    access: Access,
    stage: TemplateStage,
    labels: Labels,
    /// Why the cluster does not delete what stands in the place of ours.
    undeleted: Option<String>,
}

/// What stands in a namespace beside its quota.
struct Furnished {
    access: Access,
    template: TemplateState,
    pull: PullPass,
}

/// What its template puts there, then who may use it, then what its pods pull by.
async fn furnish(
    cx: &Context,
    object: &NamespaceView,
    site: &Site,
    seen_to: SeenTo,
) -> Result<Furnished, Error> {
    let SeenTo { access, stage, labels, undeleted: _ } = seen_to;
    let template = template::keep(cx, object, site, &stage, labels).await?;
    let access = match access {
        Access::Unknown | Access::Held => {
            access::provide(AccessPlace { cx, object, reached: &site.reached() }, true).await?
        }
        known => known,
    };
    let mut pull = pull_secret::keep(cx, object, site, stage.pull_secret()).await?;
    let template = template.with_pull_secret(std::mem::take(&mut pull.trouble), object);
    Ok(Furnished { access, template, pull })
}

/// How far the use of the quota is to be believed.
fn counted(
    object: &NamespaceView,
    site: &Site,
    quota: &ClusterQuota,
    sealed: Option<&Sealed>,
) -> UsageRecount {
    let (observed, namespace) = (&site.member.observed, &object.spec.namespace);
    let counted = observed.usage_recount(namespace, quota);
    match confirm::wait(object, quota, sealed, &counted) {
        Some(_) => observed.usage_recount_awaited(namespace, quota),
        None => counted,
    }
}

/// Writes the status of a namespace that is in place, and confirms what can be confirmed.
async fn settle(
    cx: &Context,
    object: &NamespaceView,
    site: &Site,
    plan: &Plan,
    applied: Applied,
    mut seen_to: SeenTo,
) -> Result<PassOutcome, Error> {
    report::done(cx, object, plan);
    seen_to.labels.written = matches!(plan.namespace, NamespaceStep::Mark { cause: Marking::Template, .. });
    let Applied { namespace_uid, quota } = applied;
    let seal = quota.marks.seal.as_deref();
    let sealed = seal.and_then(|seal| site.open(&object.spec.namespace, &namespace_uid, seal));
    let sealed = sealed.map(|opened| opened.sealed).filter(|sealed| sealed.namespace_uid.is_some());
    let is_replaced = plan.origin == Origin::Replaced;
    let counted = counted(object, site, &quota, sealed.as_ref());
    let charge = confirm::charge(object, &quota, sealed.as_ref(), &counted).filter(|_| !is_replaced);
    let recount = confirm::wait(object, &quota, sealed.as_ref(), &counted).filter(|_| !is_replaced);
    let record = record_of(&namespace_uid, plan.origin);
    let confirms = charge.is_some() || object.is_being_transferred();
    let wait = site.settled.err().filter(|_| confirms);
    let charge = charge.filter(|_| wait.is_none());
    let undeleted = seen_to.undeleted.take().filter(|_| is_replaced);
    let Furnished { access, template, pull } = if is_replaced {
        Furnished { access: seen_to.access, template: TemplateState::Unknown, pull: PullPass::default() }
    } else {
        furnish(cx, object, site, seen_to).await?
    };
    let object = pull.issued_for.as_ref().unwrap_or(object);
    let retry =
        undeleted.is_some() || !is_replaced && (access.is_to_be_retried() || template.is_to_be_retried());
    let others = site.member.observed.other_access_at(&object.spec.namespace, &object.uid);
    let (marked, revokes_pull) = (wait.is_none(), pull.revokes);
    let enforced = match recount {
        Some(_) => Enforcement::Counting,
        None if confirm::is_enforced(object, &quota, sealed.as_ref()) => Enforcement::Enforced,
        None => Enforcement::Pending,
    };
    let in_place = InPlace { quota, enforced, charge, marked, others, template, revokes_pull };
    let situation = if is_replaced {
        let message = report::replaced(object, &namespace_uid, undeleted.as_deref());
        Situation::Replaced { message, quota: in_place }
    } else {
        Situation::InPlace(in_place)
    };
    let written = status::write(cx, object, &NamespaceFinding { situation, record, access }).await?;
    let wrote = written.is_some();
    if wrote && is_replaced {
        report::is_replaced(cx, object, &namespace_uid, undeleted.as_deref());
    }
    if object.is_being_transferred() && written.is_some_and(|now| !now.is_being_transferred()) {
        report::transferred(cx, object);
    }
    Ok(match wait.into_iter().chain(recount).min() {
        _ if retry => PassOutcome::Refused,
        Some(wait) => PassOutcome::WaitingFor(wait),
        None if wrote || !plan.is_empty() => PassOutcome::Applied,
        None => PassOutcome::Unchanged,
    })
}

/// Shows why it cannot be; tried again with a growing wait.
async fn refuse(
    cx: &Context,
    object: &NamespaceView,
    refusal: NamespaceRefusal,
    access: Access,
) -> Result<PassOutcome, Error> {
    let NamespaceRefusal { reason, message, record } = refusal;
    let situation = Situation::Refused { reason, message: message.clone() };
    let finding = NamespaceFinding { situation, record, access };
    if status::write(cx, object, &finding).await?.is_some() {
        report::failed(cx, object, message);
    }
    Ok(PassOutcome::Refused)
}
