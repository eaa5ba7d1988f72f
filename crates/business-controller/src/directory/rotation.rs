//! New credentials of a cluster that is followed. They are tried beside those in use, which go on until the new ones
//! have shown that they lead to the same cluster and allow what the old ones allow. New ones that do not are told.

use super::listing::Listed;
use super::successor::{Successor, Trial, TrialState};
use super::{ASK_PERIOD, Directory};
use crate::error::CallFailure;
use crate::events::Topic;
use crate::member::{Member, MemberApi, Reach};
use crate::member_cluster::kind::CredentialAge;
use crate::outcome::StateLabels;
use business_types::access::AccessRole;
use business_types::names::PULL_SECRET;
use futures_util::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Asking for rights must not take longer.
const DEADLINE: Duration = Duration::from_secs(5);
const RBAC: &str = "rbac.authorization.k8s.io";
/// What the work in a member cluster takes: a namespace with its quota, people's roles, and what templates put into it.
const NEEDED: [Needed; 8] = [
    Needed::any("", "namespaces", &["get", "list", "watch", "create", "patch", "delete"]),
    Needed::any("", "resourcequotas", &["get", "list", "watch", "create", "patch", "delete"]),
    Needed::any(RBAC, "rolebindings", &["list", "create", "patch", "delete"]),
    // Of three roles that are given in the same rule.
    Needed { name: AccessRole::View.name(), ..Needed::any(RBAC, "clusterroles", &["bind"]) },
    Needed::any("", "limitranges", &["list", "patch"]),
    Needed::any("networking.k8s.io", "networkpolicies", &["list", "patch"]),
    Needed { name: PULL_SECRET, ..Needed::any("", "secrets", &["list", "create", "patch", "delete"]) },
    Needed::any("", "serviceaccounts", &["list", "patch"]),
];

/// Verbs that a credential needs for a resource.
struct Needed {
    group: &'static str,
    plural: &'static str,
    /// Of this object alone; of all where it is empty.
    name: &'static str,
    verbs: &'static [&'static str],
}

impl Needed {
    const fn any(group: &'static str, plural: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { group, plural, name: "", verbs }
    }
}

const REFUSED: Topic = Topic::warning("CredentialsRefused", "Rotate");
const ROTATED: Topic = Topic::normal("CredentialsRotated", "Rotate");

impl Directory {
    /// What is listed for a name that is followed has changed.
    pub(super) fn succeed(&mut self, one: Listed) {
        let Some(held) = self.listed.get_mut(&one.name) else { return };
        held.entry = one.entry.clone();
        let is_known = |known: &Successor| known.listed.fingerprint == one.fingerprint;
        if !held.successor.as_ref().is_some_and(is_known) {
            tracing::info!(cluster = one.name, "new credentials of a member cluster are tried");
            held.successor = Some(Successor { listed: one, trial: TrialState::Due });
        }
    }

    /// Tries those of which it is time.
    pub(super) fn try_successors(&mut self, doubted: bool) {
        let mut unusable = Vec::new();
        for (name, held) in &mut self.listed {
            let (Some(successor), Some(followed)) = (&mut held.successor, &held.followed) else { continue };
            let member = Arc::clone(&followed.member);
            let answers = member.reach() == Reach::Reachable || member.is_set_aside();
            let waits = !doubted && answers;
            match successor.trial {
                TrialState::UnderWay => continue,
                TrialState::Ended(at) if waits && at.elapsed() < ASK_PERIOD => continue,
                TrialState::Due | TrialState::Ended(_) => {}
            }
            successor.trial = TrialState::Ended(Instant::now());
            match self.dialer.client(successor.listed.config.clone()) {
                Ok(client) => {
                    successor.trial = TrialState::UnderWay;
                    let (name, fingerprint) = (name.clone(), successor.listed.fingerprint.clone());
                    let api = MemberApi::for_questions(client.clone(), self.cx.fleet());
                    self.trials.spawn(async move {
                        let verdict = trial(&member, &api).await;
                        Trial { name, fingerprint, client, verdict }
                    });
                }
                Err(error) => unusable.push((name.clone(), error.text())),
            }
        }
        for (name, why) in unusable {
            self.refuse_successor(&name, why);
        }
    }

    /// Credentials that are as good as those in use take their place.
    pub(super) fn judge(&mut self, tried: Trial) {
        let Trial { name, fingerprint, client, verdict } = tried;
        let successor = self.listed.get_mut(&name).and_then(|held| held.successor.as_mut());
        // Meanwhile something else may be listed.
        let Some(successor) = successor.filter(|successor| successor.listed.fingerprint == fingerprint)
        else {
            return;
        };
        successor.trial = TrialState::Ended(Instant::now());
        match verdict {
            Ok(()) => self.switch(&name, client),
            Err(why) => self.refuse_successor(&name, why),
        }
    }

    fn switch(&mut self, name: &str, client: Client) {
        let Some(held) = self.listed.get_mut(name) else { return };
        let (Some(Successor { listed, .. }), Some(followed)) = (held.successor.take(), &held.followed) else {
            return;
        };
        followed.member.switch(client.clone());
        held.credential = listed.credential();
        (held.client, held.fingerprint, held.refused) = (client, listed.fingerprint, None);
        if !listed.version.is_empty() {
            held.version = listed.version;
        }
        tracing::info!(cluster = name, "new credentials of a member cluster are in use");
        self.cx.events.report_cluster(name, ROTATED, "the new credentials are in use".to_owned());
    }

    /// What is listed is not used, and what is in use goes on.
    pub(super) fn refuse_successor(&mut self, name: &str, why: String) {
        let followed = self.listed.get_mut(name).filter(|held| held.followed.is_some());
        let Some(held) = followed else { return };
        if held.refused.as_ref() != Some(&why) {
            tracing::error!(cluster = name, error = why, "new credentials of a member cluster are not used");
            let note = format!("the new credentials are not used, those before them go on: {why}");
            self.cx.events.report_cluster(name, REFUSED, note);
            held.refused = Some(why);
        }
    }

    pub(super) fn count_credentials(&self) {
        let now = self.cx.clock.unix_seconds();
        // Each is counted by the replica that uses it.
        let followed = || self.listed.values().filter(|held| held.followed.is_some());
        let age = |age: CredentialAge| {
            let ages = followed().filter_map(|held| Some(held.credential.as_ref()?.sight(now).age));
            ages.filter(|one| *one == age).count()
        };
        let refused = followed().filter(|held| held.refused.is_some()).count();
        let states = [
            ("valid", age(CredentialAge::Valid)),
            ("expiring", age(CredentialAge::Expiring)),
            ("expired", age(CredentialAge::Expired)),
            ("refused", refused),
        ];
        for (state, count) in states {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.cx.metrics.credentials.get_or_create(&StateLabels { state }).set(count);
        }
    }
}

/// Whether a client leads to the member's cluster and may do there what the one in use may. Where that one is refused, or does not
/// lead there any more, it may be less.
async fn trial(member: &Member, new: &MemberApi) -> Result<(), String> {
    match new.cluster_uid().await {
        Ok(uid) if uid == member.uid => {}
        Ok(uid) => {
            let known = &member.uid;
            return Err(format!("they lead to another cluster: kube-system has uid {uid}, not {known}"));
        }
        Err(failure) => return Err(failure.to_string()),
    }
    let lacking = lacking(&new.client()).await.map_err(|failure| failure.to_string())?;
    if lacking.is_empty() || is_cut_off(member).await || member.api.is_locked_out().await {
        return Ok(());
    }
    let unknown = |failure: CallFailure| {
        format!("they may do less than is needed, and those in use could not be asked: {failure}")
    };
    let before = self::lacking(&member.api.client()).await.map_err(unknown)?;
    let lost: Vec<&str> = lacking.difference(&before).map(String::as_str).collect();
    if lost.is_empty() { Ok(()) } else { Err(format!("they may not do there: {}", lost.join(", "))) }
}

/// Whether it is not reached by the credentials in use. One that is left alone since too much is seen may answer all the same.
async fn is_cut_off(member: &Member) -> bool {
    let is_unreachable = matches!(member.reach(), Reach::Unreachable { .. });
    is_unreachable && !(member.is_set_aside() && member.is_the_one().await.is_ok())
}

/// What is needed and not allowed.
async fn lacking(client: &Client) -> Result<BTreeSet<String>, CallFailure> {
    let each = NEEDED.iter().flat_map(|needed| needed.verbs.iter().map(move |verb| (needed, *verb)));
    let asked = each.map(|(needed, verb)| async move {
        let allowed = allowed(client, needed, verb).await?;
        let lacking = || format!("{verb} {} {}", needed.plural, needed.name).trim_end().to_owned();
        Ok::<_, CallFailure>((!allowed).then(lacking))
    });
    match tokio::time::timeout(DEADLINE, try_join_all(asked)).await {
        Ok(answers) => Ok(answers?.into_iter().flatten().collect()),
        Err(_elapsed) => Err(CallFailure::deadline(DEADLINE)),
    }
}

async fn allowed(client: &Client, needed: &Needed, verb: &str) -> Result<bool, CallFailure> {
    let text = |word: &str| Some(word.to_owned());
    let attributes = ResourceAttributes {
        group: text(needed.group),
        resource: text(needed.plural),
        name: text(needed.name),
        verb: text(verb),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    match Api::all(client.clone()).create(&PostParams::default(), &review).await {
        Ok(review) => Ok(review.status.is_some_and(|status| status.allowed)),
        // A server without reviews says by its refusals what is allowed. Of a path that it does not have it says so in plain text.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(error) => Err(error.into()),
    }
}
