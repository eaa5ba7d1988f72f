use super::kind::{
    AllocatableResult, AuditResult, CredentialValidity, DirectoryEntry, ListingState, MemberClusterView,
};
use super::usage::ClusterUsage;
use crate::member::Reach;
use crate::shares::{Share, lease};
use business_types::condition::{
    self, BOUNDED, CAPACITY_DERIVED, CREDENTIALS_VALID, FALSE, REACHABLE, READY, REGISTERED, TERMINATING,
    TRUE, UNKNOWN, reason,
};
use business_types::{Condition, CredentialInUse, MemberClusterStatus};
use meta::quantity::ResourceList;

/// How many tenants a message names.
const TOLD_MAX: usize = 5;

/// What is known of a cluster.
#[derive(Debug)]
pub struct ClusterObservation {
    /// `None` while it is not followed here.
    pub reach: Option<Reach>,
    /// `None` before the directory was read.
    pub directory: Option<DirectoryEntry>,
    /// `None` if this replica has not audited it.
    pub audit: Option<AuditResult>,
    pub usage: ClusterUsage,
    /// Its share.
    pub share: Share,
    /// `None` if the nodes were not read.
    pub nodes: Option<AllocatableResult>,
}

/// The status that follows from what is known. `now` is RFC 3339.
pub fn next(object: &MemberClusterView, observation: &ClusterObservation, now: &str) -> MemberClusterStatus {
    let (old, usage) = (&object.status, &observation.usage);
    let version = observation.directory.as_ref().map(|directory| directory.version.clone());
    let mut status = MemberClusterStatus {
        uid: old.uid.clone(),
        version: version.filter(|version| !version.is_empty()).unwrap_or_else(|| old.version.clone()),
        // Empty where nothing is derived from nodes.
        allocatable: allocatable(object, observation),
        // Written by its own subresource only.
        capacity: old.capacity.clone(),
        granted: usage.granted.clone(),
        consumed: usage.consumed.clone(),
        namespaces: i64::try_from(usage.namespaces).unwrap_or(i64::MAX),
        lease: lease::share_lease_name(observation.share),
        comparison: match observation.audit.clone() {
            Some(audit) => audit.into_comparison(),
            None => old.comparison.clone(),
        },
        credential: credential(old.credential.as_ref(), observation, now),
        observed_generation: Some(object.generation),
        conditions: old.conditions.clone(),
    };
    let registered = registered(object, observation);
    let reachable = reachable(observation);
    let ready = [&registered, &reachable].into_iter().find(|condition| !condition.is_true());
    let ready = match ready {
        Some(missing) => Condition::new(READY, &missing.status, &missing.reason, &missing.message),
        None => Condition::new(READY, TRUE, reason::READY, ""),
    };
    let terminating = object.is_deleting().then(|| match usage.in_use() {
        Some(why) => Condition::new(TERMINATING, TRUE, reason::IN_USE, why),
        None => Condition::new(TERMINATING, TRUE, reason::DELETING, ""),
    });
    if object.spec.derived.is_empty() {
        status.conditions.retain(|condition| condition.type_ != CAPACITY_DERIVED);
    }
    let credentials = observation.directory.as_ref().and_then(credentials_valid);
    if observation.directory.is_some() && credentials.is_none() {
        status.conditions.retain(|condition| condition.type_ != CREDENTIALS_VALID);
    }
    let others = terminating.into_iter().chain(capacity_derived(object, observation)).chain(credentials);
    for condition in [registered, reachable, ready, bounded(usage)].into_iter().chain(others) {
        condition::set(&mut status.conditions, condition.at(object.generation), now);
    }
    status
}

fn registered(object: &MemberClusterView, observation: &ClusterObservation) -> Condition {
    let no = |reason: &str, message: String| Condition::new(REGISTERED, FALSE, reason, message);
    match observation.directory.as_ref().map(|directory| &directory.listed) {
        Some(ListingState::DuplicateName(other)) => {
            no(reason::SECOND_NAME, format!("cluster {other} is the same cluster under another name"))
        }
        _ if !object.status.uid.is_empty() => Condition::new(REGISTERED, TRUE, reason::REGISTERED, ""),
        Some(ListingState::Unusable(why)) => no(reason::UNUSABLE, why.clone()),
        Some(ListingState::NotListed) => no(reason::NOT_LISTED, "the directory does not list it".to_owned()),
        Some(ListingState::Listed) | None => no(reason::NOT_SEEN, "it has not answered yet".to_owned()),
    }
}

fn reachable(observation: &ClusterObservation) -> Condition {
    let unreachable = |reason: &str, message: &str| Condition::new(REACHABLE, FALSE, reason, message);
    match (&observation.reach, observation.directory.as_ref().map(|directory| &directory.listed)) {
        (Some(Reach::Reachable), _) => Condition::new(REACHABLE, TRUE, reason::REACHABLE, ""),
        (Some(Reach::Unreachable { since, reason }), _) => {
            unreachable(reason::UNREACHABLE, &format!("no answer since {since}: {reason}"))
        }
        (None, Some(ListingState::Unusable(why))) => unreachable(reason::UNUSABLE, why),
        (None, Some(ListingState::NotListed)) => {
            unreachable(reason::NOT_LISTED, "the directory does not list it")
        }
        (Some(Reach::Connecting) | None, _) => Condition::new(REACHABLE, UNKNOWN, reason::PENDING, ""),
    }
}

/// The credential in use; unchanged before the directory was read.
fn credential(
    old: Option<&CredentialInUse>,
    observation: &ClusterObservation,
    now: &str,
) -> Option<CredentialInUse> {
    let Some(directory) = &observation.directory else { return old.cloned() };
    let used = directory.credential.as_ref()?;
    let before = old.filter(|old| old.fingerprint == used.fingerprint);
    Some(CredentialInUse {
        fingerprint: used.fingerprint.clone(),
        expires: used.expires.clone().unwrap_or_default(),
        since: before.map_or_else(|| now.to_owned(), |before| before.since.clone()),
    })
}

/// `None` if nothing is known of the credential.
fn credentials_valid(directory: &DirectoryEntry) -> Option<Condition> {
    let no = |reason: &str, message: String| Condition::new(CREDENTIALS_VALID, FALSE, reason, message);
    if let Some(why) = &directory.refused {
        let message = format!("the newest credentials are not used, those before them go on: {why}");
        return Some(no(reason::CREDENTIALS_REFUSED, message));
    }
    let used = directory.credential.as_ref()?;
    let at = used.expires.as_deref().unwrap_or_default();
    Some(match used.validity {
        CredentialValidity::Valid => Condition::new(CREDENTIALS_VALID, TRUE, reason::CREDENTIALS_IN_USE, ""),
        CredentialValidity::Expiring => no(reason::CREDENTIALS_EXPIRING, format!("they end at {at}")),
        CredentialValidity::Expired => no(reason::CREDENTIALS_EXPIRED, format!("they have ended at {at}")),
    })
}

fn allocatable(object: &MemberClusterView, observation: &ClusterObservation) -> ResourceList {
    match &observation.nodes {
        _ if object.spec.derived.is_empty() => ResourceList::new(),
        Some(Ok(allocatable)) => allocatable.clone(),
        Some(Err(_)) | None => object.status.allocatable.clone(),
    }
}

fn capacity_derived(object: &MemberClusterView, observation: &ClusterObservation) -> Option<Condition> {
    let seen = observation.nodes.as_ref().filter(|_| !object.spec.derived.is_empty())?;
    Some(match seen {
        Ok(_) => Condition::new(CAPACITY_DERIVED, TRUE, reason::DERIVED, ""),
        Err(why) => {
            let message = format!("status.capacity stays as it was: {why}");
            Condition::new(CAPACITY_DERIVED, FALSE, reason::NODES_UNKNOWN, message)
        }
    })
}

fn bounded(usage: &ClusterUsage) -> Condition {
    if usage.unbounded.is_empty() {
        return Condition::new(BOUNDED, TRUE, reason::BOUNDED, "");
    }
    let named: Vec<&str> = usage.unbounded.iter().take(TOLD_MAX).map(String::as_str).collect();
    let more = usage.unbounded.len().saturating_sub(TOLD_MAX);
    let rest = if more > 0 { format!(" and {more} more tenants") } else { String::new() };
    let message = format!("without a ceiling here: {}{rest}", named.join(", "));
    Condition::new(BOUNDED, FALSE, reason::UNBOUNDED, message)
}

/// Whether two statuses differ only in usage figures, which may wait.
pub fn differ_in_figures_only(old: &MemberClusterStatus, new: &MemberClusterStatus) -> bool {
    let MemberClusterStatus { granted, consumed, namespaces, allocatable, .. } = old.clone();
    *old == MemberClusterStatus { granted, consumed, namespaces, allocatable, ..new.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{ObjectKey as _, RootKey};
    use crate::member_cluster::kind::CredentialInfo;
    use business_types::ClusterComparison;

    fn told(object: &MemberClusterView, observation: &ClusterObservation, type_: &str) -> (String, String) {
        let status = next(object, observation, "2026-01-01T00:00:00Z");
        let condition = condition::find(&status.conditions, type_).unwrap().clone();
        (condition.status, condition.reason)
    }

    fn observation(reach: Option<Reach>, listed: ListingState) -> ClusterObservation {
        let directory =
            Some(DirectoryEntry { listed, version: "v1".to_owned(), ..DirectoryEntry::default() });
        ClusterObservation {
            reach,
            directory,
            audit: None,
            usage: ClusterUsage::default(),
            share: Share::Clusters(3),
            nodes: None,
        }
    }

    #[test]
    fn a_cluster_is_ready_when_it_is_registered_and_answers() {
        let key = RootKey::new(None, "c1");
        let new = MemberClusterView { key, generation: 2, ..MemberClusterView::default() };
        let mut known = new.clone();
        known.status.uid = "u".to_owned();
        let is =
            |object: &MemberClusterView, observation: &ClusterObservation, status: &str, reason: &str| {
                assert_eq!(told(object, observation, READY), (status.to_owned(), reason.to_owned()));
            };
        is(&known, &observation(Some(Reach::Reachable), ListingState::Listed), TRUE, "Ready");
        is(&known, &observation(Some(Reach::Connecting), ListingState::Listed), UNKNOWN, "Pending");
        is(&known, &observation(None, ListingState::NotListed), FALSE, "NotListed");
        is(&new, &observation(None, ListingState::DuplicateName("c0".to_owned())), FALSE, "SecondName");
        is(
            &new,
            &observation(None, ListingState::Unusable("locked".to_owned())),
            FALSE,
            "KubeconfigUnusable",
        );
        let status = next(&known, &observation(None, ListingState::Listed), "2026-01-01T00:00:00Z");
        assert_eq!(
            (status.version.as_str(), status.observed_generation, status.uid.as_str()),
            ("v1", Some(2), "u")
        );
        assert_eq!(status.lease, "business-controller-03");
    }

    #[test]
    fn a_credential_keeps_its_time_and_tells_its_end() {
        let used = |fingerprint: &str, validity| CredentialInfo {
            fingerprint: fingerprint.to_owned(),
            expires: Some("2027-01-01T00:00:00Z".to_owned()),
            validity,
        };
        let with = |credential, refused: Option<&str>| {
            let mut observation = observation(Some(Reach::Reachable), ListingState::Listed);
            let directory = observation.directory.get_or_insert_default();
            (directory.credential, directory.refused) = (Some(credential), refused.map(str::to_owned));
            observation
        };
        let mut object = MemberClusterView::default();
        let valid = with(used("a", CredentialValidity::Valid), None);
        object.status = next(&object, &valid, "2026-01-01T00:00:00Z");
        assert_eq!(told(&object, &valid, CREDENTIALS_VALID).0, TRUE);
        let since = |observation: &ClusterObservation| {
            next(&object, observation, "2026-02-02T00:00:00Z").credential.unwrap().since
        };
        assert_eq!(since(&valid), "2026-01-01T00:00:00Z");
        assert_eq!(since(&with(used("b", CredentialValidity::Valid), None)), "2026-02-02T00:00:00Z");
        for (observation, reason) in [
            (with(used("a", CredentialValidity::Expiring), None), "CredentialsExpiring"),
            (with(used("a", CredentialValidity::Expired), None), "CredentialsExpired"),
            (with(used("a", CredentialValidity::Valid), Some("another cluster")), "CredentialsRefused"),
        ] {
            assert_eq!(told(&object, &observation, CREDENTIALS_VALID), (FALSE.to_owned(), reason.to_owned()));
        }
        let unread = ClusterObservation { directory: None, ..observation(None, ListingState::Listed) };
        assert_eq!(next(&object, &unread, "").credential, object.status.credential);
        let unlisted = next(&object, &observation(None, ListingState::NotListed), "");
        assert!(unlisted.credential.is_none());
        assert!(condition::find(&unlisted.conditions, CREDENTIALS_VALID).is_none());
    }

    #[test]
    fn what_was_compared_stays_until_it_is_compared_again() {
        let part = |revision| ClusterComparison { revision, ..ClusterComparison::default() };
        let mut object = MemberClusterView::default();
        object.status.comparison = Some(part(7));
        let after = |audit| {
            let observation = ClusterObservation { audit, ..observation(None, ListingState::Listed) };
            next(&object, &observation, "2026-01-01T00:00:00Z").comparison
        };
        assert_eq!(after(None), Some(part(7)));
        assert_eq!(after(Some(AuditResult::Compared(part(9)))), Some(part(9)));
        assert_eq!(after(Some(AuditResult::NothingToCompare)), None);
    }
}
