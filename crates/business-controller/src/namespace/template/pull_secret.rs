//! The pull secret of a namespace: a password of its own, which the API issues, and which only a Secret of the member
//! cluster keeps. It is replaced before it expires. A password that was issued and never written is revoked when the
//! next one is issued.

use super::pull_secret_memory::PullSecretSpec;
use super::state::{TemplateFailure, TemplateState, Withdrawal};
use super::wanted::WantedPullSecret;
use crate::business::password::IssuedPassword;
use crate::context::Context;
use crate::digest;
use crate::error::{CallFailure, Error};
use crate::kinds::ChangeSource;
use crate::member::pull_objects::{LastWriter, PullAccount, PullSecret};
use crate::member::shared_store::NotListed;
use crate::member::watch_store::UpdateSource;
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::namespace::report;
use crate::namespace::target::Target;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use business_types::names::{
    PULL_PASSWORD_ANNOTATION, PULL_REGISTRY_ANNOTATION, PULL_SECRET, TEMPLATE_LABEL, UID_ANNOTATION,
};
use business_types::namespace::pull_credential::username;
use business_types::{PullCredential, PullCredentialRequest, PullPassword};
use serde_json::{Value, json};

/// What lists of a cluster are called in messages.
const SECRETS: &str = "the Secrets named business-registry";
const ACCOUNTS: &str = "service accounts";
/// If somebody changes the Secret again and again, a new password is issued at most this often.
const REISSUE_SECONDS_MIN: u64 = 60;

/// The desired state of a pull secret.
#[derive(Clone, Copy, Debug)]
pub enum PullSecretGoal<'a> {
    /// There should be none.
    Absent,
    /// As the template says.
    Newest(&'a WantedPullSecret),
    /// Keep what is there, and keep it valid.
    Unchanged,
}

/// The outcome of a pass over a pull secret.
#[derive(Clone, Debug, Default)]
pub struct PullSecretResult {
    pub problem: PullSecretProblem,
    /// The issued password should be revoked.
    pub revokes: bool,
    /// The object after a password was issued for it.
    pub issued_for: Option<NamespaceView>,
}

/// What is wrong with a pull secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PullSecretProblem {
    #[default]
    None,
    /// The objects in the cluster were not listed yet.
    NotListed,
    Failed(TemplateFailure),
}

/// What is known of a pull secret before anything is done.
#[derive(Clone, Copy, Debug)]
struct PullSecretSnapshot<'a> {
    object: &'a NamespaceView,
    project_uid: &'a str,
    host: &'a str,
    secret: Option<&'a PullSecret>,
    now: i64,
}

impl PullSecretSnapshot<'_> {
    /// The credential that the API knows, if it is as desired and not due for renewal.
    fn credential(&self, spec: &PullSecretSpec) -> Option<&PullCredential> {
        let Self { object, project_uid, now, .. } = self;
        let known = object.status.pull_credential.as_ref()?;
        let is_as_asked = known.names == spec.names
            && known.project_uid == **project_uid
            && known.username == username(&object.key.project, &object.key.name);
        let newest = known.passwords.first()?;
        (is_as_asked && *now < newest.is_due_at(jitter_of(&object.uid))).then_some(known)
    }

    /// Whether the Secret is as we have written it, with the newest password.
    fn is_up_to_date(&self, spec: &PullSecretSpec) -> bool {
        let newest = self.credential(spec).and_then(|known| known.passwords.first());
        let (Some(secret), Some(newest)) = (self.secret, newest) else { return false };
        secret.object == self.object.uid
            && !secret.deleting
            && secret.held
            && secret.registry == *self.host
            && secret.password == newest.hash
            && spec.template.as_ref().is_none_or(|template| *template == secret.template)
    }
}

/// A number that spreads the renewals of objects over time; constant for each object (FNV-1a).
fn jitter_of(uid: &str) -> u64 {
    uid.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl PullSecretSpec {
    fn of(wanted: &WantedPullSecret) -> Self {
        let WantedPullSecret { template, names, valid_days, .. } = wanted.clone();
        Self { template: Some(template), names, valid_days }
    }

    /// The spec for renewing what was issued.
    fn renewal_of(known: &PullCredential) -> Self {
        let valid_days = known.passwords.first().and_then(PullPassword::valid_days);
        Self { template: None, names: known.names.clone(), valid_days }
    }

    fn request(&self, object: &NamespaceView, secret: Option<&PullSecret>) -> PullCredentialRequest {
        let in_use = secret.filter(|secret| secret.object == object.uid);
        PullCredentialRequest {
            names: self.names.clone(),
            valid_days: self.valid_days,
            keep: in_use.map(|secret| secret.password.clone()).unwrap_or_default(),
            uid: object.uid.clone(),
        }
    }
}

/// Reconciles the pull secret of a namespace.
pub async fn reconcile(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    goal: PullSecretGoal<'_>,
) -> Result<PullSecretResult, Error> {
    let known = object.status.pull_credential.as_ref();
    let spec = match (goal, known) {
        (PullSecretGoal::Absent, _) => return remove(object, target, known.is_some()).await,
        (PullSecretGoal::Unchanged, None) => return Ok(PullSecretResult::default()),
        (PullSecretGoal::Unchanged, Some(known)) => PullSecretSpec::renewal_of(known),
        (PullSecretGoal::Newest(wanted), _) => PullSecretSpec::of(wanted),
    };
    let Some(host) = cx.registry.pull_host.as_deref() else {
        let message = "pull secret: the controller was not told of a registry (--registry-url)";
        return Ok(PullSecretResult::failed(message, false));
    };
    let (pulls, namespace) = (&target.member.observed.pulls, &object.spec.namespace);
    let secret = match pulls.secrets.in_namespace(namespace) {
        Ok(secrets) => secrets.first().cloned(),
        Err(unlisted) => {
            return Ok(PullSecretResult::unlisted(target, SECRETS, unlisted));
        }
    };
    let snapshot = PullSecretSnapshot {
        object,
        project_uid: &target.project.uid,
        host,
        secret: secret.as_deref(),
        now: cx.clock.unix_seconds(),
    };
    let mut result = PullSecretResult::default();
    if snapshot.is_up_to_date(&spec) {
        cx.objects.namespaces.memory.pull_secrets.set_applied(&object.uid, &spec);
    } else {
        result = provide(cx, target, snapshot, &spec).await?;
    }
    if let (PullSecretGoal::Newest(wanted), PullSecretProblem::None) = (goal, &result.problem) {
        result.problem = reconcile_accounts(target, namespace, Some(wanted.accounts.as_slice())).await?;
    }
    Ok(result)
}

/// Writes the Secret. A new password is issued, unless the newest one was not written yet.
async fn provide(
    cx: &Context,
    target: &Target,
    snapshot: PullSecretSnapshot<'_>,
    spec: &PullSecretSpec,
) -> Result<PullSecretResult, Error> {
    let PullSecretSnapshot { object, host, .. } = snapshot;
    let memory = &cx.objects.namespaces.memory.pull_secrets;
    let newest = snapshot.credential(spec).and_then(|known| known.passwords.first());
    let is_newest = |password: &IssuedPassword| {
        newest.is_some_and(|newest| newest.hash == digest::sha256(&password.password))
    };
    let mut result = PullSecretResult::default();
    let password = if let Some(password) = memory.unwritten(&object.uid).filter(is_newest) {
        password
    } else {
        if let Some(throttled) = throttle(cx, snapshot, spec) {
            return Ok(throttled);
        }
        match issue(cx, snapshot, spec).await? {
            Ok(Issuance { password, issued_for }) => {
                result.issued_for = issued_for;
                password
            }
            Err(refused) => return Ok(PullSecretResult::failed(&refused, true)),
        }
    };
    let namespace = &object.spec.namespace;
    let mut body = body(object, spec, host, &password);
    if let Some(there) = snapshot.secret {
        crate::member::api::set_preconditions(&mut body, &there.uid, &there.resource_version);
    }
    let written = target.member.api.apply_pull_secret(namespace, &body).await;
    match catch_refusal(target, &format!("Secret {PULL_SECRET}"), written)? {
        Ok(there) => {
            if let Some(there) = there {
                target.member.observed.pulls.secrets.upsert(
                    namespace,
                    PULL_SECRET,
                    there,
                    UpdateSource::OwnWrite,
                );
            }
            memory.set_applied(&object.uid, spec);
        }
        Err(refused) => result.problem = PullSecretProblem::Failed(refused),
    }
    Ok(result)
}

/// Reports that somebody has changed the Secret. If the newest password is too young to be replaced, returns the result
/// that says so.
fn throttle(
    cx: &Context,
    snapshot: PullSecretSnapshot<'_>,
    spec: &PullSecretSpec,
) -> Option<PullSecretResult> {
    let PullSecretSnapshot { object, secret, now, .. } = snapshot;
    let newest = snapshot.credential(spec).and_then(|known| known.passwords.first())?;
    let was_applied = cx.objects.namespaces.memory.pull_secrets.was_applied(&object.uid, spec);
    let was_written = was_applied || secret.is_some_and(|secret| secret.password == newest.hash);
    if was_written && newest.is_younger_than(REISSUE_SECONDS_MIN, now) {
        let message =
            format!("Secret {PULL_SECRET} is not as it was written a moment ago: soon it is made anew");
        return Some(PullSecretResult::failed(&message, true));
    }
    if was_applied {
        report::template_restored(cx, object, &[format!("Secret {PULL_SECRET}")]);
    }
    None
}

/// A password, and the object after it was issued.
struct Issuance {
    password: IssuedPassword,
    issued_for: Option<NamespaceView>,
}

/// Has a password issued. The inner error says why the API refuses, for people.
async fn issue(
    cx: &Context,
    snapshot: PullSecretSnapshot<'_>,
    spec: &PullSecretSpec,
) -> Result<Result<Issuance, String>, Error> {
    let object = snapshot.object;
    cx.fence_of(&object.spec.cluster_name).permit()?;
    let request = spec.request(object, snapshot.secret);
    let password = match cx.business.issue_pull_password(object, &request).await {
        Ok(password) => password,
        Err(failure @ (CallFailure::Refused { .. } | CallFailure::NotFound)) => {
            return Ok(Err(format!("pull secret: no password is issued: {failure}")));
        }
        Err(failure) => return Err(failure.into()),
    };
    cx.objects.namespaces.memory.pull_secrets.set_unwritten(&object.uid, &password);
    let now = cx.business.get::<BusinessNamespace>(&object.key).await?;
    let now = now.filter(|now| now.uid == object.uid).ok_or(Error::Behind)?;
    cx.objects.namespaces.upsert(now.clone(), ChangeSource::OwnWrite);
    // A newer generation was not what this pass decided on.
    let issued_for = Some(now).filter(|now| now.generation == object.generation);
    Ok(Ok(Issuance { password, issued_for }))
}

fn body(object: &NamespaceView, spec: &PullSecretSpec, host: &str, password: &IssuedPassword) -> Value {
    let IssuedPassword { username, password } = password;
    let auth = STANDARD.encode(format!("{username}:{password}"));
    let config = json!({
        "auths": { host: { "username": username, "password": password, "auth": auth } },
    });
    let applied = || object.status.template.as_ref().map(|applied| applied.name.clone());
    let template = spec.template.clone().or_else(applied).unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {
            "name": PULL_SECRET,
            "namespace": object.spec.namespace,
            "labels": { TEMPLATE_LABEL: template },
            "annotations": {
                UID_ANNOTATION: object.uid,
                PULL_PASSWORD_ANNOTATION: digest::sha256(password),
                PULL_REGISTRY_ANNOTATION: host,
            },
        },
        "data": { ".dockerconfigjson": STANDARD.encode(config.to_string()) },
    })
}

/// The desired state of a service account's `imagePullSecrets`.
#[derive(Clone, Copy, Debug)]
enum AccountGoal {
    Present,
    /// The template does not list the account. Its owner may have added the Secret, as long as there is one.
    AbsentIfOurs,
    /// The Secret is to be deleted.
    AbsentUnlessForeign,
}

/// Adds the Secret to `imagePullSecrets` of these service accounts, and removes it from others, as far as we have put
/// it there. With `None`, the Secret is to be deleted. Accounts that do not exist yet get it when they appear.
async fn reconcile_accounts(
    target: &Target,
    namespace: &str,
    names: Option<&[String]>,
) -> Result<PullSecretProblem, Error> {
    let accounts = match target.member.observed.pulls.accounts.in_namespace(namespace) {
        Ok(accounts) => accounts,
        Err(NotListed(None)) => return Ok(PullSecretProblem::None),
        Err(unlisted) => return Ok(PullSecretResult::unlisted(target, ACCOUNTS, unlisted).problem),
    };
    let mut problem = PullSecretProblem::None;
    for account in &accounts {
        let goal = match names {
            Some(names) if names.contains(&account.name) => AccountGoal::Present,
            Some(_) => AccountGoal::AbsentIfOurs,
            None => AccountGoal::AbsentUnlessForeign,
        };
        if needs_update(account, goal)
            && let Some(refused) = update_account(target, namespace, &account.name, goal).await?
        {
            problem = problem.and(PullSecretProblem::Failed(refused));
        }
    }
    Ok(problem)
}

/// Whether the Secret has to be added to an account, or removed from it.
fn needs_update(account: &PullAccount, goal: AccountGoal) -> bool {
    let differs = match goal {
        AccountGoal::Present => !account.has_ours,
        AccountGoal::AbsentIfOurs => account.has_ours && account.written_by == LastWriter::Us,
        // A name without its Secret is of no use, whoever has added it.
        AccountGoal::AbsentUnlessForeign => {
            account.has_ours && account.written_by != LastWriter::SomebodyElse
        }
    };
    differs && !account.deleting
}

/// Adds our Secret to a service account, or removes it. Server-side apply would take over the whole list, so the list
/// is read now and written back with the change.
async fn update_account(
    target: &Target,
    namespace: &str,
    name: &str,
    goal: AccountGoal,
) -> Result<Option<TemplateFailure>, Error> {
    let what = format!("ServiceAccount {name}");
    let read = target.member.api.service_account(namespace, name).await.map_err(Error::Member);
    let there = match catch_refusal(target, &what, read)? {
        Ok(Some(there)) => there,
        // It is gone: the watch will tell.
        Ok(None) => return Ok(None),
        Err(refused) => return Ok(Some(refused)),
    };
    let listed = there.image_pull_secrets.iter().flatten().map(|one| one.name.clone());
    let theirs: Vec<String> = listed.filter(|name| name != PULL_SECRET).collect();
    let account = PullAccount::from(there);
    // It is right by now, or not ours to change: the watch will tell.
    if !needs_update(&account, goal) {
        return Ok(None);
    }
    let ours = matches!(goal, AccountGoal::Present).then_some(PULL_SECRET);
    let names: Vec<Value> =
        theirs.iter().map(String::as_str).chain(ours).map(|name| json!({ "name": name })).collect();
    let body = json!({
        "metadata": { "resourceVersion": account.resource_version }, "imagePullSecrets": names,
    });
    let written = target.member.api.patch_service_account(namespace, name, &body).await;
    let written = match written {
        // It has changed since: the watch will tell.
        Err(Error::Member(CallFailure::Conflict(_) | CallFailure::NotFound)) => return Ok(None),
        written => written,
    };
    Ok(match catch_refusal(target, &what, written)? {
        Ok(there) => {
            target.member.observed.pulls.accounts.upsert(namespace, name, there, UpdateSource::OwnWrite);
            None
        }
        Err(refused) => Some(refused),
    })
}

/// Deletes the Secret, and revokes what it opens.
async fn remove(object: &NamespaceView, target: &Target, is_issued: bool) -> Result<PullSecretResult, Error> {
    let mut result = PullSecretResult { revokes: is_issued, ..PullSecretResult::default() };
    let (pulls, namespace) = (&target.member.observed.pulls, &object.spec.namespace);
    let secret = match pulls.secrets.in_namespace(namespace) {
        Ok(secrets) => secrets.into_iter().find(|secret| secret.object == object.uid),
        // Without a valid password the Secret opens nothing. It is deleted when it is seen.
        Err(_unlisted) => return Ok(result),
    };
    if is_issued || secret.is_some() {
        result.problem = reconcile_accounts(target, namespace, None).await?;
    }
    // The Secret is deleted last: while it is there, the accounts that name it are looked for.
    let Some(secret) = secret.filter(|secret| !secret.deleting && result.problem == PullSecretProblem::None)
    else {
        return Ok(result);
    };
    match target.member.api.delete_pull_secret(namespace, &secret.uid).await {
        // Another Secret has taken its place: the watch will tell.
        Err(Error::Member(CallFailure::Conflict(_))) => {}
        deleted => match catch_refusal(target, &format!("Secret {PULL_SECRET}"), deleted)? {
            Ok(()) => pulls.secrets.remove(namespace, PULL_SECRET, &secret),
            Err(refused) => result.problem = PullSecretProblem::Failed(refused),
        },
    }
    Ok(result)
}

/// Deletes the Secret of a namespace that stays in the cluster.
pub async fn withdraw(cx: &Context, object: &NamespaceView, target: &Target) -> Result<Withdrawal, Error> {
    let (pulls, namespace) = (&target.member.observed.pulls, &object.spec.namespace);
    let unlisted = [
        (SECRETS, pulls.secrets.in_namespace(namespace).err()),
        (ACCOUNTS, pulls.accounts.in_namespace(namespace).err()),
    ];
    let mut unlisted = unlisted.into_iter().filter_map(|(what, unlisted)| Some((what, unlisted?)));
    // Without a registry, nobody lists Secrets and accounts.
    if cx.registry.pull_host.is_some()
        && let Some((what, unlisted)) = unlisted.find(|(_, unlisted)| !unlisted.is_forbidden())
    {
        return Ok(Withdrawal::NotListed(unlisted.describe(what)));
    }
    let result = remove(object, target, object.status.pull_credential.is_some()).await?;
    Ok(match result.problem {
        PullSecretProblem::Failed(failure) if failure.retry => Withdrawal::Refused(failure.message),
        PullSecretProblem::None | PullSecretProblem::NotListed | PullSecretProblem::Failed(_) => {
            Withdrawal::Done
        }
    })
}

/// Turns a refusal of the cluster into a failure of the template. Every other error ends the pass.
fn catch_refusal<T>(
    target: &Target,
    what: &str,
    result: Result<T, Error>,
) -> Result<Result<T, TemplateFailure>, Error> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(Error::Member(CallFailure::Refused { code, message })) => {
            let what = format!("cluster {}: {what}", target.member.name);
            Ok(Err(TemplateFailure::refused(&what, code, &message)))
        }
        Err(error) => Err(error),
    }
}

impl PullSecretResult {
    fn failed(message: &str, retry: bool) -> Self {
        let failure = TemplateFailure {
            message: message.to_owned(),
            retry,
            lacks_limits: false,
            has_other_causes: true,
        };
        Self { problem: PullSecretProblem::Failed(failure), ..Self::default() }
    }

    fn unlisted(target: &Target, what: &str, unlisted: NotListed) -> Self {
        match unlisted.describe(what) {
            None => Self { problem: PullSecretProblem::NotListed, ..Self::default() },
            Some(why) => Self::failed(&format!("cluster {} does not list {why}", target.member.name), false),
        }
    }
}

impl PullSecretProblem {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed(mut failure), Self::Failed(more)) => {
                failure.add(&more);
                Self::Failed(failure)
            }
            (Self::None, other) => other,
            (problem, _) => problem,
        }
    }
}

impl TemplateState {
    /// The state of the whole template, with the outcome of its pull secret.
    #[must_use]
    pub fn with_pull_secret(self, problem: PullSecretProblem, object: &NamespaceView) -> Self {
        match (self, problem) {
            (Self::Applied(state), PullSecretProblem::NotListed) => Self::PullSecretUnknown(state),
            (state, PullSecretProblem::None | PullSecretProblem::NotListed) => state,
            (Self::Unknown, PullSecretProblem::Failed(_)) => Self::Unknown,
            (Self::Applied(state), PullSecretProblem::Failed(failure)) => {
                Self::Failed { state: Some(state), failure }
            }
            (Self::Failed { state, failure: first }, PullSecretProblem::Failed(more)) => {
                let mut failure = first;
                failure.add(&more);
                Self::Failed { state, failure }
            }
            (Self::Invalid { state, .. }, PullSecretProblem::Failed(failure)) => {
                Self::Failed { state, failure }
            }
            (
                Self::None | Self::Waiting(_) | Self::NotFound(_) | Self::PullSecretUnknown(_),
                PullSecretProblem::Failed(failure),
            ) => Self::Failed { state: object.status.template.clone(), failure },
        }
    }
}

#[cfg(test)]
mod tests;
