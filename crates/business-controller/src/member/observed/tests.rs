use super::*;
use crate::member::marks::Marks;
use crate::member::recount::RECOUNT;
use meta::quantity::ResourceList;
use std::collections::BTreeSet;

fn quota(revision: u64, used: &str) -> ClusterQuota {
    let amount = |text: &str| ResourceList::from([("pods".to_owned(), text.parse().unwrap())]);
    ClusterQuota {
        resource_version: revision.to_string(),
        spec_hard: amount("5"),
        status_hard: amount("5"),
        status_used: amount(used),
        ..ClusterQuota::default()
    }
}

#[test]
fn figures_of_use_are_told_from_a_change_of_state() {
    let observed = Observed::new(RECOUNT);
    assert_eq!(observed.upsert_quota("n", quota(1, "0"), UpdateSource::Watch), QuotaChange::State);
    assert_eq!(observed.upsert_quota("n", quota(1, "0"), UpdateSource::Watch), QuotaChange::None);
    assert_eq!(observed.upsert_quota("n", quota(2, "3"), UpdateSource::Watch), QuotaChange::UsageOnly);
    let mut edited = quota(3, "3");
    edited.spec_hard.clear();
    assert_eq!(observed.upsert_quota("n", edited, UpdateSource::Watch), QuotaChange::State);
}

#[test]
fn the_watch_repeats_a_write_of_ours_to_who_waits_for_its_word() {
    for is_awaited in [false, true] {
        let observed = Observed::new(RECOUNT);
        observed.upsert_quota("n", quota(1, "0"), UpdateSource::Watch);
        let marks = Marks { seal: Some("2".into()), ..Marks::default() };
        let written = ClusterQuota { marks, ..quota(2, "0") };
        assert_eq!(observed.upsert_quota("n", written.clone(), UpdateSource::OwnWrite), QuotaChange::State);
        let counted = observed.usage_recount("n", &written);
        if is_awaited {
            assert_eq!(observed.usage_recount_awaited("n", &written), counted);
        }
        let told = if is_awaited { QuotaChange::State } else { QuotaChange::None };
        assert_eq!(observed.upsert_quota("n", written, UpdateSource::Watch), told);
    }
}

#[test]
fn what_is_seen_weighs_what_its_texts_do_until_it_is_gone() {
    let observed = Observed::new(RECOUNT);
    let namespace = |name: &str, revision: u64, bytes: usize| ClusterNamespace {
        name: name.into(),
        resource_version: revision.to_string(),
        marks: Marks { seal: Some("s".repeat(bytes)), ..Marks::default() },
        ..Default::default()
    };
    let (small, large) = (namespace("n", 1, 10), namespace("n", 2, 5010));
    observed.upsert_namespace(small, UpdateSource::Watch);
    let light = observed.weight();
    observed.upsert_namespace(large.clone(), UpdateSource::Watch);
    assert_eq!(observed.weight(), light + 5000);
    observed.upsert_namespace(namespace("other", 3, 10), UpdateSource::Watch);
    observed.begin_namespace_list();
    observed.upsert_namespace(large.clone(), UpdateSource::Watch);
    observed.end_namespace_list();
    assert_eq!(observed.weight(), light + 5000, "the other one is not in the list");
    observed.remove_namespace(&large);
    assert_eq!(observed.weight(), 0);
    observed.upsert_quota("n", quota(4, "1"), UpdateSource::Watch);
    assert!(observed.weight() > 300, "{}", observed.weight());
    observed.reset();
    assert_eq!(observed.weight(), 0);
}

#[test]
fn a_list_counts_although_history_went_back() {
    let observed = Observed::new(RECOUNT);
    let amount = |text: &str| quota(1, text).status_used;
    let list = |quotas: &[&ClusterQuota]| {
        observed.begin_quota_list();
        let seen: Vec<QuotaChange> = quotas
            .iter()
            .map(|&quota| observed.upsert_quota("n", quota.clone(), UpdateSource::Watch))
            .collect();
        observed.end_quota_list();
        seen
    };
    let held = || observed.at("n").1.unwrap();
    observed.upsert_quota("n", quota(9, "0"), UpdateSource::Watch);
    observed.upsert_quota("n", quota(10, "0"), UpdateSource::OwnWrite);
    let restored = ClusterQuota { spec_hard: amount("10"), ..quota(7, "0") };
    assert_eq!(list(&[&restored]), [QuotaChange::State], "what was written at 10 is lost");
    assert_eq!(*held(), restored);
    assert_eq!(list(&[&restored]), [QuotaChange::None]);
    let other = ClusterQuota { spec_hard: amount("20"), ..restored };
    assert_eq!(list(&[&other]), [QuotaChange::State], "two histories may have given one revision");
    assert_eq!(observed.upsert_quota("n", quota(8, "0"), UpdateSource::Watch), QuotaChange::State);
    assert_eq!(
        observed.upsert_quota("n", quota(7, "0"), UpdateSource::Watch),
        QuotaChange::None,
        "an event counts in order"
    );
    observed.begin_quota_list();
    let end = observed.end_quota_list();
    assert_eq!((end.is_first, end.gone), (false, BTreeSet::from(["n".to_owned()])));
    assert!(observed.at("n").1.is_none());
    assert_eq!(
        observed.upsert_quota("n", quota(8, "0"), UpdateSource::OwnWrite),
        QuotaChange::None,
        "an answer that is late"
    );
}

#[test]
fn an_answer_does_not_override_the_list_that_has_told_of_it() {
    let observed = Observed::new(RECOUNT);
    let pods = |name: &str| observed.at(name).1.unwrap().spec_hard["pods"].to_string();
    observed.begin_quota_list();
    observed.upsert_quota("n", quota(9, "0"), UpdateSource::Watch);
    // Of the history before this one, and later than all that was seen of that.
    let former = || ClusterQuota { spec_hard: quota(1, "7").status_used, ..quota(50, "0") };
    assert_eq!(observed.upsert_quota("n", former(), UpdateSource::OwnWrite), QuotaChange::None);
    assert_eq!(
        observed.upsert_quota("other", former(), UpdateSource::OwnWrite),
        QuotaChange::State,
        "the list may not come to it"
    );
    assert_eq!((pods("n"), pods("other")), ("5".to_owned(), "7".to_owned()));
    observed.upsert_quota("other", quota(8, "0"), UpdateSource::Watch);
    observed.end_quota_list();
    assert_eq!((pods("n"), pods("other")), ("5".to_owned(), "5".to_owned()));
    assert_eq!(
        observed.upsert_quota("n", former(), UpdateSource::OwnWrite),
        QuotaChange::State,
        "no list is under way"
    );
}

fn namespace(revision: &str) -> ClusterNamespace {
    ClusterNamespace { name: "n".into(), resource_version: revision.into(), ..ClusterNamespace::default() }
}

#[test]
fn how_far_history_has_come_is_what_was_seen_since_the_last_list_began() {
    let observed = Observed::new(RECOUNT);
    observed.upsert_namespace(namespace("5"), UpdateSource::Watch);
    observed.upsert_namespace(namespace("8"), UpdateSource::OwnWrite);
    assert_eq!(observed.highest_namespace_revision(), 8);
    observed.remove_namespace(&namespace("9"));
    assert_eq!(observed.highest_namespace_revision(), 9);
    observed.begin_namespace_list();
    observed.upsert_namespace(namespace("3"), UpdateSource::Watch);
    observed.end_namespace_list();
    assert_eq!(observed.highest_namespace_revision(), 3, "it went back");
}

#[test]
fn a_late_answer_does_not_bring_back_what_the_watch_saw_go() {
    let observed = Observed::new(RECOUNT);
    assert!(observed.upsert_namespace(namespace("5"), UpdateSource::OwnWrite));
    assert!(!observed.upsert_namespace(namespace("5"), UpdateSource::Watch));
    observed.remove_namespace(&namespace("9"));
    assert!(!observed.upsert_namespace(namespace("7"), UpdateSource::OwnWrite));
    assert!(observed.at("n").0.is_none());
    assert!(observed.upsert_namespace(namespace("12"), UpdateSource::Watch));
}

#[test]
fn a_new_connection_does_not_change_how_long_a_cluster_takes_to_count() {
    let recount = Duration::from_secs(10);
    let observed = Observed::new(recount);
    observed.reset();
    let counted = observed.usage_recount("n", &ClusterQuota::default());
    assert_eq!(counted, UsageRecount::Pending { most: ResourceList::new(), left: recount });
}
