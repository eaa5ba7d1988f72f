//! The pull secret of a namespace: a password of its own, which the API issues and only a Secret of the member cluster keeps.
//! It is replaced while it is good. What was issued and not written is forgotten with the next one.

use super::pull_memory::PullOrder;
use super::state::{TemplateState, Undone, Withdrawal};
use super::wanted::WantedPullSecret;
use crate::business::password::IssuedPassword;
use crate::context::Context;
use crate::digest;
use crate::error::{CallFailure, Error};
use crate::kinds::ChangeSource;
use crate::member::pull_objects::{LastWriter, PullAccount, PullSecret};
use crate::member::shared_store::NotListed;
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::namespace::report;
use crate::namespace::site::Site;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use business_types::names::{
    PULL_PASSWORD_ANNOTATION, PULL_REGISTRY_ANNOTATION, PULL_SECRET, TEMPLATE_LABEL, UID_ANNOTATION,
};
use business_types::namespace::pull_credential::username;
use business_types::{PullCredential, PullCredentialRequest, PullPassword};
use serde_json::{Value, json};

/// What somebody changes again and again has a new password this often at most.
const PAUSE_SECONDS: i64 = 60;

/// What is to become of a pull secret.
#[derive(Clone, Copy, Debug)]
pub enum PullAim<'a> {
    /// There is to be none.
    Gone,
    /// As the template says.
    Newest(&'a WantedPullSecret),
    /// What is there stays as it is, and good.
    AsItIs,
}

/// What a pass has left of a pull secret.
#[derive(Clone, Debug, Default)]
pub struct PullPass {
    pub trouble: PullTrouble,
    /// Nothing may be pulled by it any more.
    pub revokes: bool,
    /// The object as it is since a password was issued for it.
    pub issued_for: Option<NamespaceView>,
}

/// What is wrong with a pull secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PullTrouble {
    #[default]
    None,
    /// Nothing is known yet of what is in the cluster.
    Unseen,
    Undone(Undone),
}

/// What is known of the pull secret of a namespace before anything is done.
#[derive(Clone, Copy, Debug)]
struct PullSight<'a> {
    object: &'a NamespaceView,
    project_uid: &'a str,
    host: &'a str,
    secret: Option<&'a PullSecret>,
    now: i64,
}

impl PullSight<'_> {
    /// What the API knows, if it is what is asked for and does not have to be replaced yet.
    fn credential(&self, order: &PullOrder) -> Option<&PullCredential> {
        let Self { object, project_uid, now, .. } = self;
        let known = object.status.pull_credential.as_ref()?;
        let is_as_asked = known.names == order.names
            && known.project_uid == **project_uid
            && known.username == username(&object.key.project, &object.key.name);
        let newest = known.passwords.first()?;
        (is_as_asked && *now < newest.is_due_at(spread(&object.uid))).then_some(known)
    }

    /// Whether the Secret is there as we have put it there, with the newest password.
    fn is_right(&self, order: &PullOrder) -> bool {
        let newest = self.credential(order).and_then(|known| known.passwords.first());
        let (Some(secret), Some(newest)) = (self.secret, newest) else { return false };
        secret.object == self.object.uid
            && !secret.deleting
            && secret.held
            && secret.registry == *self.host
            && secret.password == newest.hash
            && order.template.as_ref().is_none_or(|template| *template == secret.template)
    }
}

/// A number of its own for each object, the same for ever.
fn spread(uid: &str) -> u64 {
    uid.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl PullOrder {
    fn of(wanted: &WantedPullSecret) -> Self {
        let WantedPullSecret { template, names, valid_days, .. } = wanted.clone();
        Self { template: Some(template), names, valid_days }
    }

    /// More of the same.
    fn again(known: &PullCredential) -> Self {
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

/// Makes the pull secret of a namespace what it is to be.
pub async fn keep(
    cx: &Context,
    object: &NamespaceView,
    site: &Site,
    aim: PullAim<'_>,
) -> Result<PullPass, Error> {
    let known = object.status.pull_credential.as_ref();
    let order = match (aim, known) {
        (PullAim::Gone, _) => return remove(object, site, known.is_some()).await,
        (PullAim::AsItIs, None) => return Ok(PullPass::default()),
        (PullAim::AsItIs, Some(known)) => PullOrder::again(known),
        (PullAim::Newest(wanted), _) => PullOrder::of(wanted),
    };
    let Some(host) = cx.registry.pull_host.as_deref() else {
        let message = "pull secret: the controller was not told of a registry (--registry-url)";
        return Ok(PullPass::undone(message, false));
    };
    let (pulls, namespace) = (&site.member.observed.pulls, &object.spec.namespace);
    let secret = match pulls.secrets.in_namespace(namespace) {
        Ok(secrets) => secrets.first().cloned(),
        Err(unlisted) => {
            return Ok(PullPass::unlisted(site, "the Secrets named business-registry", unlisted));
        }
    };
    let sight = PullSight {
        object,
        project_uid: &site.project.uid,
        host,
        secret: secret.as_deref(),
        now: cx.clock.unix_seconds(),
    };
    let mut pass = PullPass::default();
    if sight.is_right(&order) {
        cx.objects.namespaces.memory.pulls.is_right(&object.uid, &order);
    } else {
        pass = provide(cx, site, sight, &order).await?;
    }
    if let (PullAim::Newest(wanted), PullTrouble::None) = (aim, &pass.trouble) {
        pass.trouble = give(site, namespace, Some(wanted.accounts.as_slice())).await?;
    }
    Ok(pass)
}

/// Writes the Secret, with a new password unless one waits to be written.
async fn provide(
    cx: &Context,
    site: &Site,
    sight: PullSight<'_>,
    order: &PullOrder,
) -> Result<PullPass, Error> {
    let PullSight { object, host, .. } = sight;
    let memories = &cx.objects.namespaces.memory.pulls;
    let newest = sight.credential(order).and_then(|known| known.passwords.first());
    let is_newest = |password: &IssuedPassword| {
        newest.is_some_and(|newest| newest.hash == digest::sha256(&password.password))
    };
    let mut pass = PullPass::default();
    let password = if let Some(password) = memories.unwritten(&object.uid).filter(is_newest) {
        password
    } else {
        if let Some(wait) = drifted(cx, sight, order) {
            return Ok(wait);
        }
        match issue(cx, sight, order).await? {
            Ok(Issuance { password, issued_for }) => {
                pass.issued_for = issued_for;
                password
            }
            Err(refused) => return Ok(PullPass::undone(&refused, true)),
        }
    };
    let namespace = &object.spec.namespace;
    let mut body = body(object, order, host, &password);
    if let Some(there) = sight.secret {
        crate::member::api::set_preconditions(&mut body, &there.uid, &there.resource_version);
    }
    let written = site.member.api.apply_pull_secret(namespace, &body).await;
    match told(site, &format!("Secret {PULL_SECRET}"), written)? {
        Ok(there) => {
            if let Some(there) = there {
                site.member.observed.pulls.secrets.upsert(namespace, PULL_SECRET, there, false);
            }
            memories.is_right(&object.uid, order);
        }
        Err(refused) => pass.trouble = PullTrouble::Undone(refused),
    }
    Ok(pass)
}

/// Tells that somebody has changed what was right. Who does so again and again has to wait for the next password.
fn drifted(cx: &Context, sight: PullSight<'_>, order: &PullOrder) -> Option<PullPass> {
    let PullSight { object, secret, now, .. } = sight;
    let newest = sight.credential(order).and_then(|known| known.passwords.first())?;
    let was_right = cx.objects.namespaces.memory.pulls.was_right(&object.uid, order);
    let was_written = was_right || secret.is_some_and(|secret| secret.password == newest.hash);
    if was_written && newest.is_younger_than(PAUSE_SECONDS, now) {
        let message =
            format!("Secret {PULL_SECRET} is not as it was written a moment ago: soon it is made anew");
        return Some(PullPass::undone(&message, true));
    }
    if was_right {
        report::template_restored(cx, object, &[format!("Secret {PULL_SECRET}")]);
    }
    None
}

/// A password, and the object as it is since.
struct Issuance {
    password: IssuedPassword,
    issued_for: Option<NamespaceView>,
}

/// The inner error is for people: the API does not issue it.
async fn issue(
    cx: &Context,
    sight: PullSight<'_>,
    order: &PullOrder,
) -> Result<Result<Issuance, String>, Error> {
    let object = sight.object;
    cx.fence_of(&object.spec.cluster_name).permit()?;
    let request = order.request(object, sight.secret);
    let password = match cx.business.issue_pull_password(object, &request).await {
        Ok(password) => password,
        Err(failure @ (CallFailure::Refused { .. } | CallFailure::NotFound)) => {
            return Ok(Err(format!("pull secret: no password is issued: {failure}")));
        }
        Err(failure) => return Err(failure.into()),
    };
    cx.objects.namespaces.memory.pulls.issued(&object.uid, &password);
    let now = cx.business.get::<BusinessNamespace>(&object.key).await?;
    let now = now.filter(|now| now.uid == object.uid).ok_or(Error::Behind)?;
    cx.objects.namespaces.upsert(now.clone(), ChangeSource::OwnWrite);
    // Of another generation was not decided.
    let issued_for = Some(now).filter(|now| now.generation == object.generation);
    Ok(Ok(Issuance { password, issued_for }))
}

fn body(object: &NamespaceView, order: &PullOrder, host: &str, password: &IssuedPassword) -> Value {
    let IssuedPassword { username, password } = password;
    let auth = STANDARD.encode(format!("{username}:{password}"));
    let config = json!({
        "auths": { host: { "username": username, "password": password, "auth": auth } },
    });
    let applied = || object.status.template.as_ref().map(|applied| applied.name.clone());
    let template = order.template.clone().or_else(applied).unwrap_or_default();
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

/// Whether pods of an account are to pull by our Secret.
#[derive(Clone, Copy, Debug)]
enum AccountAim {
    HasIt,
    /// The template does not list the account. Its owner may have put the Secret there himself, as long as there is one.
    NotOurs,
    /// The Secret goes.
    Withdrawn,
}

/// Puts the Secret among the pull secrets of these service accounts, and takes it off others, as far as it is we who put it
/// there. `None`: the Secret goes. Accounts that are not there yet get it when they come.
async fn give(site: &Site, namespace: &str, names: Option<&[String]>) -> Result<PullTrouble, Error> {
    let accounts = match site.member.observed.pulls.accounts.in_namespace(namespace) {
        Ok(accounts) => accounts,
        Err(NotListed(None)) => return Ok(PullTrouble::None),
        Err(unlisted) => return Ok(PullPass::unlisted(site, "service accounts", unlisted).trouble),
    };
    let mut trouble = PullTrouble::None;
    for account in &accounts {
        let aim = match names {
            Some(names) if names.contains(&account.name) => AccountAim::HasIt,
            Some(_) => AccountAim::NotOurs,
            None => AccountAim::Withdrawn,
        };
        if is_wrong(account, aim)
            && let Some(refused) = turn(site, namespace, &account.name, aim).await?
        {
            trouble = trouble.and(PullTrouble::Undone(refused));
        }
    }
    Ok(trouble)
}

/// Whether our Secret is to come to an account's, or to be taken off.
fn is_wrong(account: &PullAccount, aim: AccountAim) -> bool {
    let is_other = match aim {
        AccountAim::HasIt => !account.has_ours,
        AccountAim::NotOurs => account.has_ours && account.written_by == LastWriter::Us,
        // A name without its Secret is of no use, whoever has put it there.
        AccountAim::Withdrawn => account.has_ours && account.written_by != LastWriter::SomebodyElse,
    };
    is_other && !account.deleting
}

/// Adds our Secret to a service account's, or takes it off. The list is one to Kubernetes, whoever has put what into it, so it
/// is written as it was read, which is now.
async fn turn(site: &Site, namespace: &str, name: &str, aim: AccountAim) -> Result<Option<Undone>, Error> {
    let what = format!("ServiceAccount {name}");
    let read = site.member.api.service_account(namespace, name).await.map_err(Error::Member);
    let there = match told(site, &what, read)? {
        Ok(Some(there)) => there,
        // The watch tells that it is gone.
        Ok(None) => return Ok(None),
        Err(refused) => return Ok(Some(refused)),
    };
    let listed = there.image_pull_secrets.iter().flatten().map(|one| one.name.clone());
    let theirs: Vec<String> = listed.filter(|name| name != PULL_SECRET).collect();
    let account = PullAccount::from(there);
    // It is as it should be by now, or not ours to change: the watch tells.
    if !is_wrong(&account, aim) {
        return Ok(None);
    }
    let ours = matches!(aim, AccountAim::HasIt).then_some(PULL_SECRET);
    let names: Vec<Value> =
        theirs.iter().map(String::as_str).chain(ours).map(|name| json!({ "name": name })).collect();
    let body = json!({
        "metadata": { "resourceVersion": account.resource_version }, "imagePullSecrets": names,
    });
    let written = site.member.api.patch_service_account(namespace, name, &body).await;
    let written = match written {
        // It is another one by now: the watch tells.
        Err(Error::Member(CallFailure::Conflict(_) | CallFailure::NotFound)) => return Ok(None),
        written => written,
    };
    Ok(match told(site, &what, written)? {
        Ok(there) => {
            site.member.observed.pulls.accounts.upsert(namespace, name, there, false);
            None
        }
        Err(refused) => Some(refused),
    })
}

/// Takes the Secret away, and with it what it opens.
async fn remove(object: &NamespaceView, site: &Site, is_issued: bool) -> Result<PullPass, Error> {
    let mut pass = PullPass { revokes: is_issued, ..PullPass::default() };
    let (pulls, namespace) = (&site.member.observed.pulls, &object.spec.namespace);
    let secret = match pulls.secrets.in_namespace(namespace) {
        Ok(secrets) => secrets.into_iter().find(|secret| secret.object == object.uid),
        // Without its password it opens nothing; it goes when it is seen.
        Err(_unlisted) => return Ok(pass),
    };
    if is_issued || secret.is_some() {
        pass.trouble = give(site, namespace, None).await?;
    }
    // As long as it is there, what names it is looked for.
    let Some(secret) = secret.filter(|secret| !secret.deleting && pass.trouble == PullTrouble::None) else {
        return Ok(pass);
    };
    match site.member.api.delete_pull_secret(namespace, &secret.uid).await {
        // Another one is in its place by now: the watch tells.
        Err(Error::Member(CallFailure::Conflict(_))) => {}
        deleted => match told(site, &format!("Secret {PULL_SECRET}"), deleted)? {
            Ok(()) => pulls.secrets.remove(namespace, PULL_SECRET, &secret),
            Err(refused) => pass.trouble = PullTrouble::Undone(refused),
        },
    }
    Ok(pass)
}

/// Takes it away from a namespace that stays.
pub async fn withdraw(cx: &Context, object: &NamespaceView, site: &Site) -> Result<Withdrawal, Error> {
    let (pulls, namespace) = (&site.member.observed.pulls, &object.spec.namespace);
    let unlisted =
        [pulls.secrets.in_namespace(namespace).err(), pulls.accounts.in_namespace(namespace).err()];
    // Without a registry nobody lists them.
    if cx.registry.pull_host.is_some() && unlisted.iter().flatten().any(|unlisted| !unlisted.is_forbidden()) {
        return Ok(Withdrawal::Unseen);
    }
    let pass = remove(object, site, object.status.pull_credential.is_some()).await?;
    Ok(match pass.trouble {
        PullTrouble::Undone(undone) if undone.retry => Withdrawal::Refused(undone.message),
        PullTrouble::None | PullTrouble::Unseen | PullTrouble::Undone(_) => Withdrawal::Done,
    })
}

/// What the cluster refuses is told; every other failure ends the pass.
fn told<T>(site: &Site, what: &str, result: Result<T, Error>) -> Result<Result<T, Undone>, Error> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(Error::Member(CallFailure::Refused { code, message })) => {
            let what = format!("cluster {}: {what}", site.member.name);
            Ok(Err(Undone::refused(&what, code, &message)))
        }
        Err(error) => Err(error),
    }
}

impl PullPass {
    fn undone(message: &str, retry: bool) -> Self {
        let undone = Undone { message: message.to_owned(), retry, limits: false, others: true };
        Self { trouble: PullTrouble::Undone(undone), ..Self::default() }
    }

    fn unlisted(site: &Site, what: &str, NotListed(error): NotListed) -> Self {
        match error {
            None => Self { trouble: PullTrouble::Unseen, ..Self::default() },
            Some(failure) => {
                let cluster = &site.member.name;
                Self::undone(&format!("cluster {cluster} does not list {what}: {}", failure.text), false)
            }
        }
    }
}

impl PullTrouble {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Undone(mut undone), Self::Undone(more)) => {
                undone.add(&more);
                Self::Undone(undone)
            }
            (Self::None, other) => other,
            (trouble, _) => trouble,
        }
    }
}

impl TemplateState {
    /// The state of all of a template, after what became of its pull secret.
    #[must_use]
    pub fn with_pull_secret(self, trouble: PullTrouble, object: &NamespaceView) -> Self {
        match (self, trouble) {
            (Self::Applied(state), PullTrouble::Unseen) => Self::ButPullSecret(state),
            (state, PullTrouble::None | PullTrouble::Unseen) => state,
            (Self::Unknown, PullTrouble::Undone(_)) => Self::Unknown,
            (Self::Applied(state), PullTrouble::Undone(undone)) => {
                Self::Undone { state: Some(state), undone }
            }
            (Self::Undone { state, undone: first }, PullTrouble::Undone(more)) => {
                let mut undone = first;
                undone.add(&more);
                Self::Undone { state, undone }
            }
            (Self::Invalid { state, .. }, PullTrouble::Undone(undone)) => Self::Undone { state, undone },
            (
                Self::None | Self::Waiting(_) | Self::Missing(_) | Self::ButPullSecret(_),
                PullTrouble::Undone(undone),
            ) => Self::Undone { state: object.status.template.clone(), undone },
        }
    }
}

#[cfg(test)]
mod tests;
