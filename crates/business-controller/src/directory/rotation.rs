//! Rotation of credentials of a followed cluster. New credentials are tried while those in use stay in use, until the
//! new ones have shown that they lead to the same cluster and allow as much. If they do not, that is reported.

use super::listing::ListedCluster;
use super::new_credentials::{CredentialTrial, NewCredentials, TrialState};
use super::{Directory, QUERY_PERIOD};
use crate::error::CallFailure;
use crate::events::Topic;
use crate::member::{Member, MemberApi, Reach};
use crate::member_cluster::kind::CredentialValidity;
use crate::metrics::StateLabels;
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

/// Deadline of checking the rights.
const DEADLINE: Duration = Duration::from_secs(5);
const RBAC: &str = "rbac.authorization.k8s.io";
/// The rights that the controller needs in a member cluster: for namespaces with their quota, roles of people, and
/// objects of templates.
const REQUIRED_RIGHTS: [RequiredRight; 8] = [
    RequiredRight::any("", "namespaces", &["get", "list", "watch", "create", "patch", "delete"]),
    RequiredRight::any("", "resourcequotas", &["get", "list", "watch", "create", "patch", "delete"]),
    RequiredRight::any(RBAC, "rolebindings", &["get", "list", "watch", "create", "patch", "delete"]),
    // One of three roles that the same rule allows to bind.
    RequiredRight { name: AccessRole::View.name(), ..RequiredRight::any(RBAC, "clusterroles", &["bind"]) },
    RequiredRight::any("", "limitranges", &["list", "watch", "create", "patch", "delete"]),
    RequiredRight::any(
        "networking.k8s.io",
        "networkpolicies",
        &["list", "watch", "create", "patch", "delete"],
    ),
    RequiredRight {
        name: PULL_SECRET,
        ..RequiredRight::any("", "secrets", &["list", "watch", "create", "patch", "delete"])
    },
    RequiredRight::any("", "serviceaccounts", &["list", "watch", "patch"]),
];

/// Verbs that a credential needs for a resource.
struct RequiredRight {
    group: &'static str,
    plural: &'static str,
    /// Only for the object of this name; for all if it is empty.
    name: &'static str,
    verbs: &'static [&'static str],
}

impl RequiredRight {
    const fn any(group: &'static str, plural: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { group, plural, name: "", verbs }
    }
}

const REFUSED: Topic = Topic::warning("CredentialsRefused", "Rotate");
const ROTATED: Topic = Topic::normal("CredentialsRotated", "Rotate");

impl Directory {
    /// Takes a changed kubeconfig of a followed cluster as new credentials to try.
    pub(super) fn offer_new_credentials(&mut self, one: ListedCluster) {
        let Some(tracked) = self.listed.get_mut(&one.name) else { return };
        tracked.entry = one.entry.clone();
        let is_known = |known: &NewCredentials| known.listed.fingerprint == one.fingerprint;
        if !tracked.new_credentials.as_ref().is_some_and(is_known) {
            tracing::info!(cluster = one.name, "new credentials of a member cluster are tried");
            tracked.new_credentials = Some(NewCredentials { listed: one, trial: TrialState::Due });
        }
    }

    /// Tries all new credentials that are due. After a failed probe, all are.
    pub(super) fn try_new_credentials(&mut self, probe_failed: bool) {
        let mut unusable = Vec::new();
        for (name, tracked) in &mut self.listed {
            let (Some(new_credentials), Some(followed)) = (&mut tracked.new_credentials, &tracked.followed)
            else {
                continue;
            };
            let member = Arc::clone(&followed.member);
            let answers = member.reach() == Reach::Reachable || member.is_evicted();
            let waits = !probe_failed && answers;
            match new_credentials.trial {
                TrialState::UnderWay => continue,
                TrialState::Ended(at) if waits && at.elapsed() < QUERY_PERIOD => continue,
                TrialState::Due | TrialState::Ended(_) => {}
            }
            new_credentials.trial = TrialState::Ended(Instant::now());
            match self.dialer.client(new_credentials.listed.config.clone()) {
                Ok(client) => {
                    new_credentials.trial = TrialState::UnderWay;
                    let (name, fingerprint) = (name.clone(), new_credentials.listed.fingerprint.clone());
                    let api = MemberApi::for_unidentified_cluster(client.clone(), self.cx.fleet());
                    self.trials.spawn(async move {
                        let verdict = trial(&member, &api).await;
                        CredentialTrial { name, fingerprint, client, verdict }
                    });
                }
                Err(error) => unusable.push((name.clone(), error.text())),
            }
        }
        for (name, why) in unusable {
            self.refuse_new_credentials(&name, why);
        }
    }

    /// Applies the result of a trial: new credentials that are good replace those in use.
    pub(super) fn apply_trial(&mut self, tried: CredentialTrial) {
        let CredentialTrial { name, fingerprint, client, verdict } = tried;
        let new_credentials = self.listed.get_mut(&name).and_then(|tracked| tracked.new_credentials.as_mut());
        // The name may be listed with another kubeconfig by now.
        let Some(new_credentials) =
            new_credentials.filter(|new_credentials| new_credentials.listed.fingerprint == fingerprint)
        else {
            return;
        };
        new_credentials.trial = TrialState::Ended(Instant::now());
        match verdict {
            Ok(()) => self.use_new_credentials(&name, client),
            Err(why) => self.refuse_new_credentials(&name, why),
        }
    }

    fn use_new_credentials(&mut self, name: &str, client: Client) {
        let Some(tracked) = self.listed.get_mut(name) else { return };
        let (Some(NewCredentials { listed, .. }), Some(followed)) =
            (tracked.new_credentials.take(), &tracked.followed)
        else {
            return;
        };
        followed.member.set_client(client.clone());
        tracked.credential = listed.credential();
        (tracked.client, tracked.fingerprint, tracked.refused) = (client, listed.fingerprint, None);
        tracked.client_since = Instant::now();
        if !listed.version.is_empty() {
            tracked.version = listed.version;
        }
        tracing::info!(cluster = name, "new credentials of a member cluster are in use");
        self.cx.report_cluster(name, ROTATED, "the new credentials are in use".to_owned());
    }

    /// Records that new credentials are not used; those in use stay.
    pub(super) fn refuse_new_credentials(&mut self, name: &str, why: String) {
        let followed = self.listed.get_mut(name).filter(|tracked| tracked.followed.is_some());
        let Some(tracked) = followed else { return };
        if tracked.refused.as_ref() != Some(&why) {
            tracing::error!(cluster = name, error = why, "new credentials of a member cluster are not used");
            let note = format!("the new credentials are not used, those before them go on: {why}");
            self.cx.report_cluster(name, REFUSED, note);
            tracked.refused = Some(why);
        }
    }

    pub(super) fn update_credential_metrics(&self) {
        let now = self.cx.clock.unix_seconds();
        // Each credential is counted by the replica that uses it.
        let followed = || self.listed.values().filter(|tracked| tracked.followed.is_some());
        let validity = |validity: CredentialValidity| {
            let ages = followed().filter_map(|tracked| Some(tracked.credential.as_ref()?.info(now).validity));
            ages.filter(|one| *one == validity).count()
        };
        let refused = followed().filter(|tracked| tracked.refused.is_some()).count();
        let states = [
            ("valid", validity(CredentialValidity::Valid)),
            ("expiring", validity(CredentialValidity::Expiring)),
            ("expired", validity(CredentialValidity::Expired)),
            ("refused", refused),
        ];
        for (state, count) in states {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.cx.metrics.credentials.get_or_create(&StateLabels { state }).set(count);
        }
    }
}

/// Checks that a client leads to the member's cluster and has all rights there that the client in use has. If that one
/// is refused, or does not reach the cluster any more, it may have fewer.
async fn trial(member: &Member, new: &MemberApi) -> Result<(), String> {
    match new.cluster_uid().await {
        Ok(uid) if uid == member.uid => {}
        Ok(uid) => {
            let known = &member.uid;
            return Err(format!("they lead to another cluster: kube-system has uid {uid}, not {known}"));
        }
        Err(failure) => return Err(failure.to_string()),
    }
    let missing = missing_rights(&new.client()).await.map_err(|failure| failure.to_string())?;
    if missing.is_empty()
        || is_unreachable_with_current(member).await
        || member.api.has_refused_credentials().await
    {
        return Ok(());
    }
    let unknown = |failure: CallFailure| {
        format!("they may do less than is needed, and those in use could not be asked: {failure}")
    };
    let before = missing_rights(&member.api.client()).await.map_err(unknown)?;
    let lost: Vec<&str> = missing.difference(&before).map(String::as_str).collect();
    if lost.is_empty() { Ok(()) } else { Err(format!("they may not do there: {}", lost.join(", "))) }
}

/// Whether the cluster is not reached with the credentials in use. An evicted cluster may answer all the same.
async fn is_unreachable_with_current(member: &Member) -> bool {
    let is_unreachable = matches!(member.reach(), Reach::Unreachable { .. });
    is_unreachable && !(member.is_evicted() && member.verify_identity().await.is_ok())
}

/// The required rights that are not allowed.
async fn missing_rights(client: &Client) -> Result<BTreeSet<String>, CallFailure> {
    let each = REQUIRED_RIGHTS.iter().flat_map(|right| right.verbs.iter().map(move |verb| (right, *verb)));
    let asked = each.map(|(right, verb)| async move {
        let allowed = allowed(client, right, verb).await?;
        let described = || format!("{verb} {} {}", right.plural, right.name).trim_end().to_owned();
        Ok::<_, CallFailure>((!allowed).then(described))
    });
    match tokio::time::timeout(DEADLINE, try_join_all(asked)).await {
        Ok(answers) => Ok(answers?.into_iter().flatten().collect()),
        Err(_elapsed) => Err(CallFailure::deadline(DEADLINE)),
    }
}

async fn allowed(client: &Client, right: &RequiredRight, verb: &str) -> Result<bool, CallFailure> {
    let text = |word: &str| Some(word.to_owned());
    let attributes = ResourceAttributes {
        group: text(right.group),
        resource: text(right.plural),
        name: text(right.name),
        verb: text(verb),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    match Api::all(client.clone()).create(&PostParams::default(), &review).await {
        Ok(review) => Ok(review.status.is_some_and(|status| status.allowed)),
        // A server without access reviews only refuses calls that are not allowed. For an unknown path it answers in
        // plain text.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(error) => Err(error.into()),
    }
}
