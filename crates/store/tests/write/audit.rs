use crate::kit::{Bodies, Kit, Object, amounts, q, scope};
use sqlx::Connection as _;
use std::time::{Duration, Instant};
use store::audit::Difference;
use store::hold::Hold;
use store::quota::{Claim, HoldState};
use store::repair::Repair;
use store::{Error, KindId};
use uuid::Uuid;

async fn sample() -> (Kit, Object) {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4 memory=1Gi")).await.unwrap();
    kit.create(Object::project("q", "", "c1: cpu=4")).await.unwrap();
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=3 memory=1Gi")).await.unwrap();
    kit.create(Object::namespace("q", "other", "c1: cpu=1")).await.unwrap();
    kit.check().await;
    (kit, web)
}

async fn corrupt(kit: &Kit, statement: &'static str) {
    let done = sqlx::query(statement).execute(&mut kit.sql().await).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
}

#[tokio::test]
async fn a_corrupt_ledger_row_is_found_named_and_repaired_in_its_scope_alone() {
    let (kit, _web) = sample().await;
    corrupt(&kit, "UPDATE ledger SET allocated = 1, children = 0 WHERE scope = 'p' AND key = 'cpu'").await;
    corrupt(&kit, "DELETE FROM ledger WHERE scope = 'p' AND domain = 'c1' AND key = ''").await;
    let found = kit.audit().await.differences;
    let places: Vec<String> = found
        .iter()
        .map(|difference| match difference {
            Difference::Ledger { row, .. } => row.to_string(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(places, ["p/c1/", "p/c1/cpu"]);
    assert_eq!(kit.store.repair(&kit.access, &Bodies, Some(&scope("q")), Repair::Rebuild).await.unwrap(), []);
    assert_eq!(
        kit.store.repair(&kit.access, &Bodies, Some(&scope("p")), Repair::Rebuild).await.unwrap(),
        found
    );
    kit.check().await;
}

#[tokio::test]
async fn the_audit_by_itself_raises_an_allocation_and_never_lowers_one() {
    let (kit, _web) = sample().await;
    corrupt(&kit, "UPDATE ledger SET allocated = 1 WHERE scope = 'p' AND key = 'cpu'").await;
    corrupt(&kit, "UPDATE ledger SET allocated = hard WHERE scope = 'q' AND key = 'cpu'").await;
    kit.store.repair(&kit.access, &Bodies, Some(&scope("p")), Repair::Raise).await.unwrap();
    kit.store.repair(&kit.access, &Bodies, Some(&scope("q")), Repair::Raise).await.unwrap();
    let left = kit.audit().await.differences;
    assert_eq!(left.iter().map(|d| d.scope().unwrap().name.as_str()).collect::<Vec<_>>(), ["q"]);
    kit.store.repair(&kit.access, &Bodies, Some(&scope("q")), Repair::Rebuild).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn what_a_repair_finds_above_the_limit_is_kept_and_takes_nothing_new() {
    let (kit, _web) = sample().await;
    // the object's body says more than its project has: as after a restore
    let larger =
        "UPDATE objects SET body = replace(body, '\"cpu\":\"3\"', '\"cpu\":\"6\"') WHERE name = 'web'";
    corrupt(&kit, larger).await;
    kit.store.repair(&kit.access, &Bodies, Some(&scope("p")), Repair::Raise).await.unwrap();
    kit.check().await;
    let grown = kit.create(Object::namespace("p", "more", "c1: cpu=1n memory=0")).await;
    assert!(matches!(grown, Err(Error::Refused(_))), "{grown:?}");
}

#[tokio::test]
async fn a_corrupt_body_and_corrupt_columns_are_found_and_named() {
    let (kit, web) = sample().await;
    corrupt(&kit, "UPDATE objects SET deleting = true, tenant = 'u' WHERE name = 'web'").await;
    corrupt(&kit, "UPDATE objects SET body = '{' WHERE name = 'other'").await;
    let found = kit.audit().await.differences;
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(
        told.iter().any(|t| t.starts_with("object p/web") && t.contains("tenant") && t.contains("deleting")),
        "{told:?}"
    );
    assert!(told.iter().any(|t| t.starts_with("object q/other")), "{told:?}");
    assert!(kit.store.repair_object(&kit.access, &Bodies, &web.key()).await.unwrap());
    assert!(!kit.audit().await.differences.iter().any(|d| d.to_string().contains("p/web")));
    let other = Object::namespace("q", "other", "c1:").key();
    assert!(matches!(kit.store.repair_object(&kit.access, &Bodies, &other).await, Err(Error::Corrupt(_))));
    assert!(matches!(
        kit.store.repair(&kit.access, &Bodies, Some(&scope("q")), Repair::Raise).await,
        Err(Error::Corrupt(_))
    ));
}

#[tokio::test]
async fn scopes_in_a_circle_are_found_and_not_repaired() {
    let kit = Kit::new().await;
    kit.create(Object::project("a", "", "c1: cpu=4")).await.unwrap();
    kit.create(Object::project("b", "a", "c1: cpu=4")).await.unwrap();
    kit.create(Object::project("c", "b", "c1: cpu=4")).await.unwrap();
    kit.create(Object::namespace("c", "web", "c1: cpu=4")).await.unwrap();
    let forged = "UPDATE objects SET scope_kind = 1, scope = 'b', body = replace(body, '\"scope\":\"\"', '\"scope\":\"b\"') \
         WHERE name = 'a'";
    corrupt(&kit, forged).await;
    // What is above the limit below would climb for ever.
    let larger =
        "UPDATE objects SET body = replace(body, '\"cpu\":\"4\"', '\"cpu\":\"6\"') WHERE name = 'web'";
    corrupt(&kit, larger).await;
    let circle = Difference::Cycle { scopes: vec![scope("a"), scope("b")] };
    assert_eq!(circle.to_string(), "circle of scopes: a pays b pays a: one of them needs another parent");
    let found = kit.audit().await.differences;
    assert!(found.contains(&circle), "{found:?}");
    let others = found.iter().filter(|difference| **difference != circle);
    assert!(
        others.clone().count() > 0 && others.clone().all(|d| d.scope() == Some(&scope("c"))),
        "{found:?}"
    );
    for name in ["a", "b"] {
        let repaired = kit.store.repair(&kit.access, &Bodies, Some(&scope(name)), Repair::Rebuild).await;
        assert!(matches!(repaired, Err(Error::Corrupt(_))), "{repaired:?}");
    }
    kit.store.repair(&kit.access, &Bodies, Some(&scope("c")), Repair::Raise).await.unwrap();
    assert_eq!(kit.audit().await.differences, [circle]);
}

#[tokio::test]
async fn what_is_above_a_limit_climbs_as_high_as_moves_have_made_the_tree() {
    const TREES: usize = 11;
    const LEVELS: usize = 100;
    let kit = Kit::new().await;
    let name = |tree: usize, level: usize| format!("p-{tree}-{level}");
    let mut roots = Vec::new();
    for level in 0..LEVELS {
        let project = |tree| {
            let parent = level.checked_sub(1).map(|above| name(tree, above)).unwrap_or_default();
            Object::project(&name(tree, level), &parent, "c1: cpu=4")
        };
        let made = futures_util::future::join_all((0..TREES).map(|tree| kit.create(project(tree)))).await;
        let made: Vec<Object> = made.into_iter().map(Result::unwrap).collect();
        if level == 0 {
            roots = made;
        }
    }
    let lowest = name(0, LEVELS - 1);
    kit.create(Object::namespace(&lowest, "web", "c1: cpu=4")).await.unwrap();
    // Each tree goes below the lowest project of the next one.
    for (tree, root) in roots.iter().take(TREES - 1).enumerate() {
        kit.update(root, |root| root.scope = name(tree + 1, LEVELS - 1)).await.unwrap();
    }
    let found = orphan(&lowest, "c1: cpu=1");
    kit.store.hold(&kit.access, &found).await.unwrap();
    kit.check().await;
    let top = name(TREES - 1, 0);
    assert!(kit.ledger().await.contains(&format!("{top}/c1/cpu 0 0 1 4 5")));
    kit.store.write_off(&kit.access, found.uid).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_lost_claim_is_found_and_taken_again() {
    let (kit, web) = sample().await;
    corrupt(&kit, "DELETE FROM claims WHERE place = 'web'").await;
    let claim = Claim { domain: "c1".to_owned(), place: "web".to_owned() };
    assert_eq!(
        kit.audit().await.differences,
        [Difference::Claim { claim, found: None, expected: Some(web.uid) }]
    );
    kit.store.repair(&kit.access, &Bodies, Some(&scope("p")), Repair::Raise).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn an_abandoned_hold_counts_until_it_is_written_off() {
    let (kit, web) = sample().await;
    kit.write(web.abandon("the cluster burnt down")).await.unwrap();
    kit.check().await;
    let claim = Some(Claim { domain: "c1".to_owned(), place: "web".to_owned() });
    let want = Hold {
        uid: web.uid,
        scope: scope("p"),
        claim,
        amounts: web.amounts.clone(),
        state: HoldState::Abandoned,
        reason: "the cluster burnt down".to_owned(),
    };
    assert_eq!(kit.store.holds(&kit.access, Some(&scope("p"))).await.unwrap(), [want]);
    kit.store.write_off(&kit.access, web.uid).await.unwrap();
    assert!(matches!(kit.store.write_off(&kit.access, web.uid).await, Err(Error::NotFound)));
    kit.check().await;
    kit.create(Object::namespace("p", "web", "c1: cpu=4 memory=1Gi")).await.unwrap();
}

#[tokio::test]
async fn an_orphan_is_charged_once_even_above_the_limit() {
    let (kit, _web) = sample().await;
    let orphan = Hold {
        uid: Uuid::new_v4(),
        scope: scope("p"),
        claim: Some(Claim { domain: "c1".to_owned(), place: "lost".to_owned() }),
        amounts: amounts("c1: cpu=2"),
        state: HoldState::Orphaned,
        reason: "no object".to_owned(),
    };
    kit.store.hold(&kit.access, &orphan).await.unwrap();
    kit.store.hold(&kit.access, &orphan).await.unwrap();
    kit.check().await;
    assert!(kit.ledger().await.contains(&"p/c1/cpu 0 0 2 4 5".to_owned()));
    assert_eq!(kit.store.holds(&kit.access, None).await.unwrap(), std::slice::from_ref(&orphan));
    let larger = Hold { amounts: amounts("c1: cpu=7 pods=1"), ..orphan.clone() };
    kit.store.hold(&kit.access, &larger).await.unwrap();
    kit.check().await;
    assert_eq!(kit.store.holds(&kit.access, None).await.unwrap(), [larger]);
    kit.store.write_off(&kit.access, orphan.uid).await.unwrap();
    kit.check().await;
    assert_eq!(orphan.amounts["c1"]["cpu"], q("2"));
    let nowhere = Hold { scope: scope("nobody"), ..orphan };
    assert!(matches!(kit.store.hold(&kit.access, &nowhere).await, Err(Error::NotFound)));
}

/// Uids are what member clusters say.
#[tokio::test]
async fn a_hold_is_replaced_by_none_of_another_place_or_scope() {
    let (kit, _web) = sample().await;
    let claim = |cluster: &str, place: &str| Claim { domain: cluster.to_owned(), place: place.to_owned() };
    let first = Hold { claim: Some(claim("c1", "lost")), ..orphan("p", "c1: cpu=2") };
    kit.store.hold(&kit.access, &first).await.unwrap();
    let elsewhere = Hold { claim: Some(claim("c2", "lost")), amounts: amounts("c2: cpu=1"), ..first.clone() };
    let beside = Hold { claim: Some(claim("c1", "other")), ..first.clone() };
    let nowhere = Hold { claim: None, amounts: amounts("c2: cpu=1"), ..first.clone() };
    let of_another = Hold { scope: scope("q"), ..first.clone() };
    for other in [elsewhere, beside, nowhere, of_another] {
        let refused = kit.store.hold(&kit.access, &other).await;
        assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{other:?}: {refused:?}");
    }
    assert_eq!(kit.store.holds(&kit.access, None).await.unwrap(), [first]);
    kit.check().await;
}

#[tokio::test]
async fn no_hold_has_the_uid_of_an_object_or_takes_its_claim() {
    let (kit, web) = sample().await;
    let claim = |place: &str| Some(Claim { domain: "c1".to_owned(), place: place.to_owned() });
    for (project, claim) in [("q", claim("lost")), ("q", None), ("p", claim("lost")), ("p", claim("web"))] {
        let named = Hold { uid: web.uid, claim, ..orphan(project, "c1: cpu=1") };
        let refused = kit.store.hold(&kit.access, &named).await;
        assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{named:?}: {refused:?}");
    }
    kit.check().await;
    // as an earlier release has let it in
    let held = "INSERT INTO holds (uid, scope_kind, scope, domain, key, amount, carried, place, state, reason) \
         SELECT uid, 1, 'q', 'c1', '', 0, false, 'lost', 'Orphaned', 'found' FROM claims WHERE place = 'web'";
    corrupt(&kit, held).await;
    kit.store.write_off(&kit.access, web.uid).await.unwrap();
    kit.check().await;
    kit.write(web.abandon("the cluster burnt down")).await.unwrap();
    kit.check().await;
}

/// Who has a place of cluster c1.
async fn claimant(kit: &Kit, place: &str) -> Option<Uuid> {
    let query = "SELECT uid FROM claims WHERE domain = 'c1' AND place = $1";
    sqlx::query_scalar(query).bind(place).fetch_optional(&mut kit.sql().await).await.unwrap()
}

#[tokio::test]
async fn an_orphan_at_the_place_of_an_object_is_charged_and_takes_no_claim() {
    let (kit, web) = sample().await;
    let claim = Claim { domain: "c1".to_owned(), place: "web".to_owned() };
    let orphan = Hold {
        uid: Uuid::new_v4(),
        scope: scope("p"),
        claim: Some(claim),
        amounts: amounts("c1: cpu=1"),
        state: HoldState::Orphaned,
        reason: "no object".to_owned(),
    };
    kit.store.hold(&kit.access, &orphan).await.unwrap();
    kit.check().await;
    assert!(kit.ledger().await.contains(&"p/c1/cpu 0 0 2 4 4".to_owned()), "both count");
    assert_eq!(claimant(&kit, "web").await, Some(web.uid));
    kit.store.write_off(&kit.access, orphan.uid).await.unwrap();
    kit.check().await;
    assert_eq!(claimant(&kit, "web").await, Some(web.uid));
    kit.delete(&kit.account(&web, |object| object.deleting = true).await.unwrap()).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn of_several_that_are_held_for_a_place_one_has_the_claim() {
    let (kit, _web) = sample().await;
    let claim = Claim { domain: "c1".to_owned(), place: "lost".to_owned() };
    let holds = [(1, "p"), (2, "q"), (3, "p")].map(|(number, project)| Hold {
        uid: Uuid::from_u128(number),
        claim: Some(claim.clone()),
        ..orphan(project, "c1: cpu=1")
    });
    for hold in &holds {
        kit.store.hold(&kit.access, hold).await.unwrap();
        kit.check().await;
        assert_eq!(claimant(&kit, "lost").await, Some(holds[0].uid));
    }
    for (number, hold) in holds.iter().enumerate() {
        kit.store.write_off(&kit.access, hold.uid).await.unwrap();
        kit.store.repair(&kit.access, &Bodies, None, Repair::Raise).await.unwrap();
        kit.check().await;
        let left = &holds[number + 1..];
        match claimant(&kit, "lost").await {
            Some(next) => assert!(left.iter().any(|hold| hold.uid == next), "{next} is written off"),
            None => assert!(left.is_empty(), "nobody has what is held still"),
        }
    }
}

#[tokio::test]
async fn growth_goes_on_after_the_audit_of_the_same_history_only() {
    let (kit, _web) = sample().await;
    let diverged = store::divergence::DIVERGED;
    corrupt(&kit, "UPDATE rev SET held = true, held_reason = 'history has diverged'").await;
    let hold = kit.store.growth_hold(&kit.access).await.unwrap().unwrap();
    assert!(hold.waits_for_audit());
    for reason in ["investigating", "still investigating"] {
        assert!(kit.store.hold_growth(&kit.access, reason).await.unwrap());
        assert!(!kit.store.release_growth(&kit.access, &hold).await.unwrap(), "an operator holds it by now");
        let held = kit.store.growth_hold(&kit.access).await.unwrap().unwrap();
        assert_eq!(held.reason, format!("{reason}; {diverged}"));
        assert!(!held.waits_for_audit());
    }
    let left = kit.store.resume_growth(&kit.access).await.unwrap();
    assert_eq!(left.as_deref(), Some(diverged), "the operator's hold ends, and the audit is waited for");
    let again = "UPDATE rev SET epoch = gen_random_uuid()";
    corrupt(&kit, again).await;
    assert!(!kit.store.release_growth(&kit.access, &hold).await.unwrap());
    let hold = kit.store.growth_hold(&kit.access).await.unwrap().unwrap();
    assert!(kit.store.release_growth(&kit.access, &hold).await.unwrap());
    assert_eq!(kit.store.growth_hold(&kit.access).await.unwrap(), None);
    kit.create(Object::namespace("q", "b", "c1: cpu=1")).await.unwrap();
}

/// What was compared since the epoch began counts, although older history is compacted all the time.
#[tokio::test]
async fn the_beginning_of_an_epoch_stays_where_it_is_while_history_is_compacted() {
    let (kit, _web) = sample().await;
    kit.store.declare_restored(&kit.access).await.unwrap();
    let hold = kit.store.growth_hold(&kit.access).await.unwrap().unwrap();
    corrupt(&kit, "UPDATE rev SET v = v + 100").await;
    corrupt(&kit, "UPDATE compaction SET compacted = compacted + 100").await;
    assert_eq!(kit.store.growth_hold(&kit.access).await.unwrap(), Some(hold));
}

#[tokio::test]
async fn growth_is_held_with_a_reason_until_it_is_released() {
    let (kit, _web) = sample().await;
    assert_eq!(kit.store.growth_held(&kit.access).await.unwrap(), None);
    assert!(kit.store.hold_growth(&kit.access, "restored").await.unwrap());
    assert_eq!(kit.store.growth_held(&kit.access).await.unwrap().as_deref(), Some("restored"));
    assert!(matches!(kit.create(Object::namespace("q", "b", "c1: cpu=1")).await, Err(Error::Held)));
    assert_eq!(kit.store.resume_growth(&kit.access).await.unwrap(), None);
    kit.create(Object::namespace("q", "b", "c1: cpu=1")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn what_an_operator_says_is_never_taken_for_what_waits_for_an_audit() {
    let (kit, _web) = sample().await;
    for words in [store::divergence::DIVERGED, store::import::IMPORTED, store::import::IMPORTING] {
        for reason in [words.to_owned(), format!("I fear that; {words}")] {
            assert!(kit.store.hold_growth(&kit.access, &reason).await.unwrap());
            let held = kit.store.growth_hold(&kit.access).await.unwrap().unwrap();
            assert_eq!(held.reason, format!("{reason}, says an operator"));
            assert!(!held.waits_for_audit() && !held.is_import());
            assert_eq!(kit.store.resume_growth(&kit.access).await.unwrap(), None);
        }
    }
}

/// Every replica audits: what two have found missing in the same state is missing once.
#[tokio::test]
async fn what_two_have_found_is_repaired_once() {
    let (kit, _web) = sample().await;
    corrupt(&kit, "UPDATE ledger SET allocated = 0 WHERE scope = 'p' AND key = 'cpu'").await;
    let mut counter = kit.sql().await;
    let mut lock = counter.begin().await.unwrap();
    sqlx::raw_sql("SELECT FROM rev FOR UPDATE").execute(&mut *lock).await.unwrap();
    let repairs = [0, 1].map(|_replica| {
        let (store, access) = (kit.store.clone(), kit.access.clone());
        tokio::spawn(async move { store.repair(&access, &Bodies, None, Repair::Raise).await })
    });
    let mut other = kit.sql().await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND application_name = 'store repair' AND wait_event_type = 'Lock'";
    let deadline = Instant::now() + Duration::from_secs(30);
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut other).await.unwrap() < 2 {
        assert!(Instant::now() < deadline, "both have found it, and wait for the counter");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lock.rollback().await.unwrap();
    for repair in repairs {
        repair.await.unwrap().unwrap();
    }
    kit.check().await;
}

fn orphan(project: &str, amounts_of: &str) -> Hold {
    Hold {
        uid: Uuid::new_v4(),
        scope: scope(project),
        claim: None,
        amounts: amounts(amounts_of),
        state: HoldState::Orphaned,
        reason: "found".to_owned(),
    }
}

#[tokio::test]
async fn what_is_above_a_limit_counts_in_every_scope_above_until_it_is_gone() {
    let kit = Kit::new().await;
    let org = kit.create(Object::project("org", "", "c1: cpu=10")).await.unwrap();
    kit.create(Object::project("team", "org", "c1: cpu=6")).await.unwrap();
    let squad = kit.create(Object::project("squad", "team", "c1: cpu=4")).await.unwrap();
    let web = kit.create(Object::namespace("squad", "web", "c1: cpu=3")).await.unwrap();
    let lost = orphan("squad", "c1: cpu=7");
    kit.store.hold(&kit.access, &lost).await.unwrap();
    let cpu = async || -> Vec<String> {
        let rows = kit.ledger().await;
        rows.into_iter().filter(|row| row.contains("/cpu ")).collect()
    };
    // squad has 10 of 4; so team has 6 + 4 of 4 for squad: 10 of 6; so org has 6 + 4
    assert_eq!(cpu().await, ["org/c1/cpu 0 0 1 10 10", "squad/c1/cpu 0 0 2 4 10", "team/c1/cpu 0 0 1 6 10"]);
    kit.check().await;
    let grown = kit.create(Object::project("other", "org", "c1: cpu=1")).await;
    assert!(matches!(grown, Err(Error::Refused(_))), "what runs already is not granted again: {grown:?}");
    let moved = kit.update(&squad, |o| "org".clone_into(&mut o.scope)).await;
    assert!(matches!(moved, Err(Error::Refused(_))), "{moved:?}");
    // what is raised at the bottom was counted above already
    let org = kit.update(&org, |o| o.limit("c1: cpu=20")).await.unwrap();
    let squad = kit.update(&squad, |o| o.limit("c1: cpu=4")).await.unwrap();
    kit.check().await;
    let web = kit.account(&web, |o| o.amounts = amounts("c1: cpu=1")).await.unwrap();
    assert_eq!(cpu().await, ["org/c1/cpu 0 0 1 20 8", "squad/c1/cpu 0 0 2 4 8", "team/c1/cpu 0 0 1 6 8"]);
    kit.check().await;
    kit.store.write_off(&kit.access, lost.uid).await.unwrap();
    assert_eq!(cpu().await, ["org/c1/cpu 0 0 1 20 6", "squad/c1/cpu 0 0 1 4 1", "team/c1/cpu 0 0 1 6 4"]);
    kit.check().await;
    kit.delete(&web).await.unwrap();
    kit.delete(&squad).await.unwrap();
    kit.update(&org, |o| o.limit("c1: cpu=6")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_lost_excess_is_found_and_repaired_once() {
    let kit = Kit::new().await;
    kit.create(Object::project("org", "", "c1: cpu=10")).await.unwrap();
    kit.create(Object::project("team", "org", "c1: cpu=4")).await.unwrap();
    kit.store.hold(&kit.access, &orphan("team", "c1: cpu=6")).await.unwrap();
    corrupt(&kit, "UPDATE ledger SET excess = 0 WHERE scope = 'team' AND key = 'cpu'").await;
    corrupt(&kit, "UPDATE ledger SET allocated = 4000000000 WHERE scope = 'org' AND key = 'cpu'").await;
    assert_eq!(kit.audit().await.differences.len(), 2);
    kit.store.repair(&kit.access, &Bodies, None, Repair::Raise).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn of_a_kind_of_a_later_release_nothing_is_said_and_nothing_repaired() {
    let (kit, _web) = sample().await;
    let later =
        "INSERT INTO objects SELECT 9, '', 'later', gen_random_uuid(), 0, 0, 't', 1, 'p', false, false, '?'";
    corrupt(&kit, later).await;
    corrupt(&kit, "UPDATE ledger SET allocated = hard WHERE scope = 'p' AND key = 'cpu'").await;
    corrupt(&kit, "UPDATE ledger SET allocated = 1 WHERE scope = 'q' AND key = 'cpu'").await;
    let report = kit.audit().await;
    assert_eq!(report.unknown, [(KindId(9), 1)].into());
    let about: Vec<_> =
        report.differences.iter().filter_map(Difference::scope).map(|s| s.name.as_str()).collect();
    assert_eq!(about, ["q"], "of p, which the unknown one pays, there is no verdict");
    for repair in [Repair::Raise, Repair::Rebuild] {
        kit.store.repair(&kit.access, &Bodies, None, repair).await.unwrap();
    }
    assert_eq!(kit.ledger().await[2], "p/c1/cpu 0 0 1 4 4", "and no repair");
    kit.check().await;
}
