use crate::kit::{Kit, Object, q, refused, scope};
use store::Error;
use store::quota::{Shortage, Violation};

/// How an amount is refused.
fn shortage(
    project: &str,
    place: (&str, &str),
    requested: &str,
    [hard, allocated, would_fit]: [&str; 3],
) -> Shortage {
    Shortage {
        scope: scope(project),
        domain: place.0.to_owned(),
        key: place.1.to_owned(),
        requested: q(requested),
        hard: q(hard),
        allocated: q(allocated),
        would_fit: q(would_fit),
    }
}

fn names(violations: &[Violation]) -> Vec<String> {
    violations
        .iter()
        .map(|v| format!("{v:?}").split([' ', '(']).next().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn a_child_is_charged_once_to_its_scope_and_nowhere_above() {
    let kit = Kit::new().await;
    kit.create(Object::project("org", "", "c1: cpu=10 memory=10Gi")).await.unwrap();
    kit.create(Object::project("team", "org", "c1: cpu=4 memory=4Gi")).await.unwrap();
    kit.create(Object::namespace("team", "web", "c1: cpu=500m memory=1Gi")).await.unwrap();
    let want = [
        "org// 0 0 1 - 0",
        "org/c1/ 1 2 1 - 0",
        "org/c1/cpu 0 0 1 10 4",
        "org/c1/memory 0 0 1 10737418240 4294967296",
        "team// 0 0 1 - 0",
        "team/c1/ 1 2 1 - 0",
        "team/c1/cpu 0 0 1 4 0.5",
        "team/c1/memory 0 0 1 4294967296 1073741824",
    ];
    assert_eq!(kit.ledger().await, want);
    kit.check().await;
}

#[tokio::test]
async fn what_fits_exactly_is_granted_and_one_nano_more_is_refused_with_what_would_fit() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    kit.create(Object::namespace("p", "a", "c1: cpu=3500m")).await.unwrap();
    let too_much = refused(kit.create(Object::namespace("p", "b", "c1: cpu=500000001n")).await);
    let told = shortage("p", ("c1", "cpu"), "500000001n", ["4", "3500m", "500m"]);
    assert_eq!(too_much, [Violation::DoesNotFit(told)]);
    kit.create(Object::namespace("p", "b", "c1: cpu=0.5")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_raise_counts_its_own_part_as_free() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=3")).await.unwrap();
    let told = shortage("p", ("c1", "cpu"), "5", ["4", "3", "4"]);
    assert_eq!(refused(kit.update(&web, |o| o.hard("c1: cpu=5")).await), [Violation::DoesNotFit(told)]);
    let web = kit.update(&web, |o| o.hard("c1: cpu=4")).await.unwrap();
    let lowered = kit.update(&web, |o| o.hard("c1: cpu=1")).await.unwrap();
    assert_eq!(kit.ledger().await[2], "p/c1/cpu 0 0 1 4 4", "a main write keeps the high-water mark");
    kit.account(&lowered, |o| o.amounts = crate::kit::amounts("c1: cpu=1")).await.unwrap();
    assert_eq!(kit.ledger().await[2], "p/c1/cpu 0 0 1 4 1", "a confirmation lowers it");
    kit.check().await;
}

#[tokio::test]
async fn a_key_that_the_scope_does_not_limit_is_unlimited_and_still_counted() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    kit.create(Object::namespace("p", "web", "c1: cpu=1 pods=1000000")).await.unwrap();
    assert_eq!(kit.ledger().await[3], "p/c1/pods 0 0 1 - 1000000");
    kit.check().await;
}

#[tokio::test]
async fn a_sum_beyond_the_largest_quantity_is_refused() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1:")).await.unwrap();
    kit.create(Object::namespace("p", "a", "c1: pods=9223372036854775807")).await.unwrap();
    let violations = refused(kit.create(Object::namespace("p", "b", "c1: pods=1")).await);
    assert_eq!(names(&violations), ["DoesNotFit"]);
    kit.check().await;
}

#[tokio::test]
async fn every_key_of_the_scope_must_be_carried_and_all_missing_ones_are_told_at_once() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4 memory=1Gi pods=9")).await.unwrap();
    let violations = refused(kit.create(Object::namespace("p", "web", "c1: cpu=5 secrets=1")).await);
    let missing = |resource: &str| Violation::KeyMissing {
        scope: scope("p"),
        domain: "c1".to_owned(),
        key: resource.to_owned(),
    };
    let told = shortage("p", ("c1", "cpu"), "5", ["4", "0", "4"]);
    assert_eq!(violations, [Violation::DoesNotFit(told), missing("memory"), missing("pods")]);
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=1 memory=0 pods=0")).await.unwrap();
    assert_eq!(
        refused(
            kit.update(&web, |o| o.keys = crate::kit::keys_of(&crate::kit::amounts("c1: cpu=1 pods=0")))
                .await
        ),
        [missing("memory")]
    );
    kit.check().await;
}

#[tokio::test]
async fn a_cluster_that_the_scope_does_not_list_is_refused() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let violations = refused(kit.create(Object::namespace("p", "web", "c2: cpu=1")).await);
    assert_eq!(violations, [Violation::DomainNotListed { scope: scope("p"), domain: "c2".to_owned() }]);
    let violations = refused(kit.create(Object::project("team", "p", "c1: cpu=1; c2:")).await);
    assert_eq!(names(&violations), ["DomainNotListed"]);
    kit.check().await;
}

#[tokio::test]
async fn a_scope_that_is_missing_foreign_terminating_or_locked_takes_nothing_new() {
    let kit = Kit::new().await;
    let violations = refused(kit.create(Object::namespace("p", "web", "c1: cpu=1")).await);
    assert_eq!(violations, [Violation::ScopeMissing { scope: scope("p") }]);
    let p = kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let mut foreign = Object::namespace("p", "web", "c1: cpu=1");
    foreign.tenant = "u".to_owned();
    assert_eq!(refused(kit.create(foreign).await), [Violation::ScopeForeign { scope: scope("p") }]);
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=2")).await.unwrap();

    let p = kit.update(&p, |o| o.locked = true).await.unwrap();
    assert_eq!(names(&refused(kit.create(Object::namespace("p", "b", "c1: cpu=1")).await)), ["ScopeLocked"]);
    assert_eq!(names(&refused(kit.update(&web, |o| o.hard("c1: cpu=3")).await)), ["ScopeLocked"]);
    let web = kit.account(&web, |o| o.amounts = crate::kit::amounts("c1: cpu=1")).await.unwrap();

    let p = kit.update(&p, |o| o.locked = false).await.unwrap();
    kit.update(&p, |o| o.deleting = true).await.unwrap();
    assert_eq!(
        names(&refused(kit.create(Object::namespace("p", "b", "c1: cpu=1")).await)),
        ["ScopeTerminating"]
    );
    let web = kit.update(&web, |_| ()).await.unwrap();
    kit.delete(&web).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_scope_with_children_is_not_deleted() {
    let kit = Kit::new().await;
    let p = kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=1")).await.unwrap();
    let violations = refused(kit.delete(&p).await);
    assert_eq!(violations, [Violation::ScopeInUse { scope: scope("p"), children: 1 }]);
    kit.delete(&web).await.unwrap();
    kit.delete(&p).await.unwrap();
    assert_eq!(kit.ledger().await, [""; 0]);
    kit.check().await;
}

#[tokio::test]
async fn a_limit_is_never_set_below_what_is_allocated() {
    let kit = Kit::new().await;
    let p = kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    kit.create(Object::namespace("p", "web", "c1: cpu=3 pods=5")).await.unwrap();
    let violations = refused(kit.update(&p, |o| o.limit("c1: cpu=2 pods=4")).await);
    let max = "9223372036854775807";
    let told = [
        Violation::BelowAllocated(shortage("p", ("c1", "cpu"), "2", ["4", "3", "3"])),
        Violation::BelowAllocated(shortage("p", ("c1", "pods"), "4", [max, "5", "5"])),
    ];
    assert_eq!(violations, told);
    kit.update(&p, |o| o.limit("c1: cpu=3 pods=5")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_new_limit_needs_every_child_to_carry_its_key() {
    let kit = Kit::new().await;
    let p = kit.create(Object::project("p", "", "c1: cpu=4; c2:")).await.unwrap();
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=3")).await.unwrap();
    kit.create(Object::namespace("p", "elsewhere", "c2: cpu=3")).await.unwrap();
    let violations = refused(kit.update(&p, |o| o.limit("c1: cpu=4 pods=9; c2:")).await);
    let want = Violation::ChildrenLackKey {
        scope: scope("p"),
        domain: "c1".to_owned(),
        key: "pods".to_owned(),
        children: 1,
    };
    assert_eq!(violations, [want]);
    kit.update(&web, |o| o.hard("c1: cpu=3 pods=1")).await.unwrap();
    kit.update(&p, |o| o.limit("c1: cpu=4 pods=9; c2:")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_limit_may_be_dropped_and_comes_back_with_what_was_allocated_meanwhile() {
    let kit = Kit::new().await;
    let p = kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    kit.create(Object::namespace("p", "web", "c1: cpu=3")).await.unwrap();
    let p = kit.update(&p, |o| o.limit("c1:")).await.unwrap();
    kit.create(Object::namespace("p", "big", "c1: cpu=30")).await.unwrap();
    let violations = refused(kit.update(&p, |o| o.limit("c1: cpu=32")).await);
    assert_eq!(names(&violations), ["BelowAllocated"]);
    kit.update(&p, |o| o.limit("c1: cpu=33")).await.unwrap();
    assert_eq!(names(&refused(kit.create(Object::namespace("p", "b", "c1: cpu=1")).await)), ["DoesNotFit"]);
    kit.check().await;
}

#[tokio::test]
async fn a_cluster_in_use_is_not_dropped() {
    let kit = Kit::new().await;
    let p = kit.create(Object::project("p", "", "c1: cpu=4; c2: cpu=1")).await.unwrap();
    kit.create(Object::namespace("p", "web", "c1: cpu=3")).await.unwrap();
    let violations = refused(kit.update(&p, |o| o.limit("c2: cpu=1")).await);
    let want = Violation::DomainInUse { scope: scope("p"), domain: "c1".to_owned(), children: 1 };
    assert_eq!(violations, [want]);
    kit.update(&p, |o| o.limit("c1: cpu=4")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_higher_limit_of_a_child_scope_is_charged_at_once_and_a_lower_one_given_back_at_once() {
    let kit = Kit::new().await;
    kit.create(Object::project("org", "", "c1: cpu=10")).await.unwrap();
    let team = kit.create(Object::project("team", "org", "c1: cpu=4")).await.unwrap();
    assert_eq!(names(&refused(kit.update(&team, |o| o.limit("c1: cpu=11")).await)), ["DoesNotFit"]);
    let team = kit.update(&team, |o| o.limit("c1: cpu=10")).await.unwrap();
    kit.update(&team, |o| o.limit("c1: cpu=1")).await.unwrap();
    assert_eq!(kit.ledger().await[2], "org/c1/cpu 0 0 1 10 1");
    kit.check().await;
}

#[tokio::test]
async fn a_change_of_parent_moves_the_charge_in_one_write() {
    let kit = Kit::new().await;
    kit.create(Object::project("a", "", "c1: cpu=4")).await.unwrap();
    kit.create(Object::project("b", "", "c1: cpu=2")).await.unwrap();
    let team = kit.create(Object::project("team", "a", "c1: cpu=3")).await.unwrap();
    assert_eq!(names(&refused(kit.update(&team, |o| o.scope = "b".to_owned()).await)), ["DoesNotFit"]);
    assert_eq!(names(&refused(kit.update(&team, |o| o.scope = "nobody".to_owned()).await)), ["ScopeMissing"]);
    kit.update(&team, |o| {
        o.scope = "b".to_owned();
        o.limit("c1: cpu=2");
    })
    .await
    .unwrap();
    let ledger = kit.ledger().await;
    assert!(ledger.contains(&"a/c1/cpu 0 0 0 4 0".to_owned()), "{ledger:?}");
    assert!(ledger.contains(&"b/c1/cpu 0 0 1 2 2".to_owned()), "{ledger:?}");
    let parent: String = sqlx::query_scalar("SELECT scope FROM objects WHERE name = 'team'")
        .fetch_one(&mut kit.sql().await)
        .await
        .unwrap();
    assert_eq!(parent, "b");
    kit.check().await;
}

#[tokio::test]
async fn two_changes_of_parent_that_would_close_a_circle_are_not_both_made() {
    let kit = Kit::new().await;
    for _ in 0..8 {
        let a = kit.create(Object::project("a", "", "c1:")).await.unwrap();
        let b = kit.create(Object::project("b", "", "c1:")).await.unwrap();
        let (under_b, under_a) = tokio::join!(
            kit.update(&a, |o| o.scope = "b".to_owned()),
            kit.update(&b, |o| o.scope = "a".to_owned())
        );
        let (child, parent) = match (under_b, under_a) {
            (Ok(a), Err(error)) => (refused_cycle(a, error), b),
            (Err(error), Ok(b)) => (refused_cycle(b, error), a),
            other => panic!("{other:?}"),
        };
        kit.delete(&child).await.unwrap();
        kit.delete(&parent).await.unwrap();
    }
    kit.check().await;
}

#[tokio::test]
async fn a_batch_that_writes_a_child_again_still_knows_its_parent() {
    let kit = Kit::new().await;
    let above = kit.create(Object::project("above", "", "c1:")).await.unwrap();
    let below = kit.create(Object::project("below", "above", "c1:")).await.unwrap();
    // While the first is under way, the others gather.
    let (first, again, circle) = tokio::join!(
        kit.create(Object::note("first")),
        kit.update(&below, |_| ()),
        kit.update(&above, |o| o.scope = "below".to_owned())
    );
    assert!(first.is_ok() && again.is_ok());
    assert_eq!(names(&refused(circle)), ["Cycle"]);
    kit.check().await;
}

fn refused_cycle(done: Object, error: Error) -> Object {
    assert_eq!(names(&refused::<()>(Err(error))), ["Cycle"]);
    done
}

#[tokio::test]
async fn a_scope_is_not_its_own_ancestor_through_any_number_of_others() {
    let kit = Kit::new().await;
    let a = kit.create(Object::project("a", "", "c1:")).await.unwrap();
    kit.create(Object::project("b", "a", "c1:")).await.unwrap();
    kit.create(Object::project("c", "b", "c1:")).await.unwrap();
    assert_eq!(names(&refused(kit.update(&a, |o| o.scope = "c".to_owned()).await)), ["Cycle"]);
    assert_eq!(names(&refused(kit.update(&a, |o| o.scope = "a".to_owned()).await)), ["Cycle"]);
    kit.check().await;
}

#[tokio::test]
async fn nothing_new_lies_below_more_than_a_hundred_scopes() {
    let kit = Kit::new().await;
    let name = |level: usize| format!("p{level}");
    let mut line = vec![kit.create(Object::project(&name(0), "", "c1:")).await.unwrap()];
    for level in 1..=100 {
        line.push(kit.create(Object::project(&name(level), &name(level - 1), "c1:")).await.unwrap());
    }
    assert_eq!(names(&refused(kit.create(Object::project("deeper", "p100", "c1:")).await)), ["Cycle"]);
    assert_eq!(names(&refused(kit.create(Object::namespace("p100", "web", "c1:")).await)), ["Cycle"]);
    kit.create(Object::namespace("p99", "web", "c1:")).await.unwrap();

    // What is there stays, however deep it has come to lie.
    kit.create(Object::project("top", "", "c1:")).await.unwrap();
    kit.update(&line[0], |o| o.scope = "top".to_owned()).await.unwrap();
    kit.update(&line[100], |_| ()).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_missing_ancestor_is_refused() {
    let kit = Kit::new().await;
    kit.create(Object::project("a", "", "c1:")).await.unwrap();
    kit.create(Object::project("b", "a", "c1:")).await.unwrap();
    sqlx::query("DELETE FROM objects WHERE name = 'a'").execute(&mut kit.sql().await).await.unwrap();
    let violations = refused(kit.create(Object::namespace("b", "web", "c1:")).await);
    assert_eq!(violations, [Violation::AncestorMissing { scope: scope("a") }]);
}

#[tokio::test]
async fn a_scope_has_no_more_children_than_it_may() {
    let database = store::testing::database().await.unwrap();
    let mut config = store::Config::new(&database.url);
    config.children_max = 2;
    let kit = Kit::with(config, database).await;
    kit.create(Object::project("p", "", "c1:")).await.unwrap();
    kit.create(Object::namespace("p", "a", "c1:")).await.unwrap();
    kit.create(Object::project("q", "p", "c1:")).await.unwrap();
    let violations = refused(kit.create(Object::namespace("p", "b", "c1:")).await);
    assert_eq!(violations, [Violation::TooManyChildren { scope: scope("p"), children_max: 2 }]);
    kit.check().await;
}

#[tokio::test]
async fn two_objects_never_share_a_cluster_namespace() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1:")).await.unwrap();
    kit.create(Object::project("q", "", "c1:")).await.unwrap();
    let (first, second) = tokio::join!(
        kit.create(Object::namespace("p", "web", "c1:")),
        kit.create(Object::namespace("q", "web", "c1:"))
    );
    let (holder, violations) = match (first, second) {
        (Ok(holder), error @ Err(_)) | (error @ Err(_), Ok(holder)) => (holder, refused(error)),
        other => panic!("{other:?}"),
    };
    assert!(matches!(&violations[..], [Violation::ClaimTaken { holder: uid, .. }] if *uid == holder.uid));
    kit.delete(&holder).await.unwrap();
    kit.create(Object::namespace("q", "web", "c1:")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_status_write_raises_nothing_and_one_of_a_terminating_object_neither() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=1")).await.unwrap();
    assert!(matches!(kit.account(&web, |o| o.hard("c1: cpu=2")).await, Err(Error::NotAdmitted)));
    let web = kit.update(&web, |o| o.deleting = true).await.unwrap();
    assert!(matches!(kit.update(&web, |o| o.hard("c1: cpu=2")).await, Err(Error::NotAdmitted)));
    let web = kit.account(&web, |o| o.amounts = crate::kit::amounts("")).await.unwrap();
    assert_eq!(kit.ledger().await[2], "p/c1/cpu 0 0 1 4 0");
    kit.delete(&web).await.unwrap();
    assert_eq!(kit.ledger().await, ["p/c1/ 1 1 0 - 0", "p/c1/cpu 0 0 0 4 0"]);
    kit.check().await;
}

#[tokio::test]
async fn an_abandoned_charge_still_counts_and_keeps_its_claim_and_its_scope() {
    let kit = Kit::new().await;
    let p = kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=3")).await.unwrap();
    kit.write(web.abandon("the cluster burnt down")).await.unwrap();
    assert_eq!(kit.ledger().await, ["p// 0 0 1 - 0", "p/c1/ 1 1 1 - 0", "p/c1/cpu 0 0 1 4 3"]);
    assert_eq!(names(&refused(kit.create(Object::namespace("p", "b", "c1: cpu=2")).await)), ["DoesNotFit"]);
    assert_eq!(names(&refused(kit.create(Object::namespace("p", "web", "c1: cpu=1")).await)), ["ClaimTaken"]);
    assert_eq!(names(&refused(kit.delete(&p).await)), ["ScopeInUse"]);
    kit.check().await;
}

#[tokio::test]
async fn sixty_four_parallel_creates_of_which_ten_fit_give_exactly_ten() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=10")).await.unwrap();
    let creates = (0..64).map(|n| kit.create(Object::namespace("p", &format!("n{n}"), "c1: cpu=1")));
    let results = futures_util::future::join_all(creates).await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 10);
    for result in results.into_iter().filter(Result::is_err) {
        let told = shortage("p", ("c1", "cpu"), "1", ["10", "10", "0"]);
        assert_eq!(refused(result), [Violation::DoesNotFit(told)]);
    }
    assert_eq!(kit.ledger().await[2], "p/c1/cpu 0 0 10 10 10");
    assert_eq!(kit.events().await.len(), 11);
    kit.check().await;
}

#[tokio::test]
async fn a_scope_and_its_first_children_can_be_made_together() {
    let kit = Kit::new().await;
    let (p, team, web) = tokio::join!(
        kit.create(Object::project("p", "", "c1: cpu=10")),
        kit.create(Object::project("team", "p", "c1: cpu=5")),
        kit.create(Object::namespace("team", "web", "c1: cpu=5"))
    );
    assert!(p.is_ok() && team.is_ok() && web.is_ok(), "{p:?} {team:?} {web:?}");
    kit.check().await;
}

#[tokio::test]
async fn while_held_nothing_grows_and_everything_shrinks() {
    let kit = Kit::new().await;
    let p = kit.create(Object::project("p", "", "c1: cpu=4; c2: cpu=1")).await.unwrap();
    kit.create(Object::project("q", "", "c1: cpu=4")).await.unwrap();
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=2")).await.unwrap();
    let mut sql = kit.sql().await;
    sqlx::query("UPDATE rev SET held = true, held_reason = 'restored'").execute(&mut sql).await.unwrap();
    assert!(matches!(kit.relocate(&web, "q").await, Err(Error::Held)), "it takes of another budget");
    assert!(matches!(kit.create(Object::namespace("p", "b", "c1: cpu=1")).await, Err(Error::Held)));
    assert!(matches!(kit.update(&web, |o| o.hard("c1: cpu=3")).await, Err(Error::Held)));
    assert!(matches!(kit.update(&p, |o| o.limit("c1: cpu=5")).await, Err(Error::Held)));
    kit.create(Object::note("a note")).await.unwrap();
    assert!(matches!(kit.update(&p, |o| o.limit("c1:; c2: cpu=1")).await, Err(Error::Held)));
    let p = kit.update(&p, |o| o.limit("c1: cpu=3; c2: cpu=1")).await.unwrap();
    kit.update(&p, |o| o.limit("c1: cpu=3")).await.expect("a cluster given up is less");
    let web = kit.account(&web, |o| o.amounts = crate::kit::amounts("c1: cpu=1")).await.unwrap();
    kit.delete(&web).await.unwrap();
    sqlx::query("UPDATE rev SET held = false").execute(&mut sql).await.unwrap();
    kit.create(Object::namespace("p", "b", "c1: cpu=1")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn over_commitment_is_impossible_even_by_hand() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let by_hand = sqlx::query("UPDATE ledger SET allocated = hard + 1 WHERE key = 'cpu'")
        .execute(&mut kit.sql().await)
        .await;
    assert!(by_hand.is_err());
}

#[tokio::test]
async fn what_was_found_above_the_limit_shrinks_but_does_not_grow() {
    let kit = Kit::new().await;
    let p = kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let web = kit.create(Object::namespace("p", "web", "c1: cpu=4")).await.unwrap();
    let lower = "UPDATE ledger SET hard = 2000000000, ceiling = 4000000000 WHERE key = 'cpu'";
    sqlx::query(lower).execute(&mut kit.sql().await).await.unwrap();
    assert_eq!(names(&refused(kit.create(Object::namespace("p", "b", "c1: cpu=1n")).await)), ["DoesNotFit"]);
    let web = kit.account(&web, |o| o.amounts = crate::kit::amounts("c1: cpu=3")).await.unwrap();
    let ceiling: String = sqlx::query_scalar("SELECT ceiling::text FROM ledger WHERE key = 'cpu'")
        .fetch_one(&mut kit.sql().await)
        .await
        .unwrap();
    assert_eq!(ceiling, "3000000000");
    kit.account(&web, |o| o.amounts = crate::kit::amounts("c1: cpu=1")).await.unwrap();
    kit.update(&p, |o| o.limit("c1: cpu=5")).await.unwrap();
    kit.create(Object::namespace("p", "b", "c1: cpu=4")).await.unwrap();
}

#[tokio::test]
async fn quantities_are_compared_by_value_in_every_suffix() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: a=1Ki b=1e3 c=1 d=0.5m")).await.unwrap();
    let told = refused(kit.create(Object::namespace("p", "x", "c1: a=1025 b=1001 c=1000.1m d=501u")).await);
    assert_eq!(names(&told), ["DoesNotFit", "DoesNotFit", "DoesNotFit", "DoesNotFit"]);
    let Violation::DoesNotFit(first) = &told[0] else { panic!("{told:?}") };
    assert_eq!(first.would_fit, q("1Ki"));
    kit.create(Object::namespace("p", "x", "c1: a=1024 b=1k c=1000m d=500u")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_key_added_to_a_scope_while_a_child_without_it_is_created_leaves_one_of_both() {
    let kit = Kit::new().await;
    for round in 0..8 {
        let name = format!("p{round}");
        let p = kit.create(Object::project(&name, "", "c1: cpu=4")).await.unwrap();
        let child = Object::namespace(&name, &format!("n{round}"), "c1: cpu=1");
        let (raised, created) = if round % 2 == 0 {
            tokio::join!(kit.update(&p, |o| o.limit("c1: cpu=4 pods=9")), kit.create(child))
        } else {
            let (created, raised) =
                tokio::join!(kit.create(child), kit.update(&p, |o| o.limit("c1: cpu=4 pods=9")));
            (raised, created)
        };
        match (raised, created) {
            (Ok(_), created) => assert_eq!(names(&refused(created)), ["KeyMissing"]),
            (raised, Ok(_)) => assert_eq!(names(&refused(raised)), ["ChildrenLackKey"]),
            other => panic!("{other:?}"),
        }
    }
    kit.check().await;
}

#[tokio::test]
async fn a_cluster_dropped_from_a_scope_while_a_child_is_created_in_it_leaves_one_of_both() {
    let kit = Kit::new().await;
    for round in 0..8 {
        let name = format!("p{round}");
        let p = kit.create(Object::project(&name, "", "c1: cpu=4; c2: cpu=4")).await.unwrap();
        let child = Object::namespace(&name, &format!("n{round}"), "c1: cpu=1");
        let (dropped, created) = if round % 2 == 0 {
            tokio::join!(kit.update(&p, |o| o.limit("c2: cpu=4")), kit.create(child))
        } else {
            let (created, dropped) =
                tokio::join!(kit.create(child), kit.update(&p, |o| o.limit("c2: cpu=4")));
            (dropped, created)
        };
        match (dropped, created) {
            (Ok(_), created) => assert_eq!(names(&refused(created)), ["DomainNotListed"]),
            (dropped, Ok(_)) => assert_eq!(names(&refused(dropped)), ["DomainInUse"]),
            other => panic!("{other:?}"),
        }
    }
    kit.check().await;
}

#[tokio::test]
async fn a_scope_deleted_while_a_child_is_created_leaves_one_of_both() {
    let kit = Kit::new().await;
    for round in 0..8 {
        let name = format!("p{round}");
        let p = kit.create(Object::project(&name, "", "c1:")).await.unwrap();
        let child = Object::namespace(&name, &format!("n{round}"), "c1:");
        let (deleted, created) = if round % 2 == 0 {
            tokio::join!(kit.delete(&p), kit.create(child))
        } else {
            let (created, deleted) = tokio::join!(kit.create(child), kit.delete(&p));
            (deleted, created)
        };
        match (deleted, created) {
            (Ok(_), created) => assert_eq!(names(&refused(created)), ["ScopeMissing"]),
            (deleted, Ok(_)) => assert_eq!(names(&refused(deleted)), ["ScopeInUse"]),
            other => panic!("{other:?}"),
        }
    }
    kit.check().await;
}

#[tokio::test]
async fn a_budget_is_not_handed_out_twice_by_three_replicas() {
    let kit = Kit::new().await;
    let others = [Kit::on(kit.database.clone()).await, Kit::on(kit.database.clone()).await];
    let replicas = [&kit, &others[0], &others[1]];
    kit.create(Object::project("p", "", "c1: cpu=10")).await.unwrap();
    let creates = (0..64).map(|n| {
        let replica = replicas[n % replicas.len()];
        replica.create(Object::namespace("p", &format!("n{n}"), "c1: cpu=1"))
    });
    let results = futures_util::future::join_all(creates).await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 10);
    assert!(results.into_iter().filter(Result::is_err).all(|r| names(&refused(r)) == ["DoesNotFit"]));
    kit.check().await;
}

/// A writer whose sums are false: the program above may be as wrong as it likes.
#[tokio::test]
async fn a_forged_sum_ends_the_transaction() {
    let database = store::testing::database().await.unwrap();
    database.install_former().await.unwrap();
    let kit = Kit::on(database).await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    // one note, whose batch adds 5 of 4 cpu to p and says that nothing grows
    let forged = format!(
        "SELECT apply_batch_former('{}', 1, 10000, false, false, false, ARRAY[1]::smallint[], ARRAY[true], true, false, \
         NULL, ARRAY['c']::\"char\"[], ARRAY[3]::smallint[], ARRAY[''], ARRAY['a'], ARRAY[gen_random_uuid()], \
         ARRAY[0]::bigint[], ARRAY['t'], ARRAY[NULL]::smallint[], ARRAY[NULL]::text[], ARRAY[false], ARRAY[false], \
         ARRAY[NULL]::text[], ARRAY['{{}}'], ARRAY[1]::smallint[], ARRAY['p'], ARRAY[1], ARRAY[NULL]::text[], \
         ARRAY[false], ARRAY[false], ARRAY[1, 1, 1], ARRAY['', 'c1', 'c1'], ARRAY['', '', 'cpu'], ARRAY[0, 0, 2], \
         ARRAY[0, 0, 5000000000], ARRAY[0, 0, 0], ARRAY[0, 0, 0], ARRAY[0, 0, 0], ARRAY[false, false, false], \
         ARRAY[0, 0, 0], ARRAY[false, false, false], ARRAY[NULL, NULL, NULL]::numeric[], ARRAY[false, false, false], \
         ARRAY[false, false, false], ARRAY[0, 0, 0], '{{}}', '{{}}', '{{}}', '{{}}')",
        uuid::Uuid::from_u128(9)
    );
    let refused = sqlx::raw_sql(sqlx::AssertSqlSafe(forged)).execute(&mut kit.sql().await).await.unwrap_err();
    assert!(refused.to_string().contains("ledger_never_over_committed"), "{refused}");
    assert_eq!(kit.ledger().await, ["p/c1/ 1 1 0 - 0", "p/c1/cpu 0 0 0 4 0"], "nothing of it is left");
    assert_eq!(kit.events().await, ["c p"]);
    kit.check().await;
}

#[tokio::test]
async fn writes_that_are_made_together_are_all_made_or_none() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let writes = |cpu: u32| {
        let namespace = |name: &str| Object::namespace("p", name, &format!("c1: cpu={cpu}")).create();
        ["a", "b", "c"].map(namespace).to_vec()
    };
    let before = kit.ledger().await;
    let refused = kit.store.write_together(&kit.access, writes(2), false).await.unwrap();
    let kinds: Vec<bool> = refused.iter().map(Result::is_ok).collect();
    assert_eq!(kinds, [true, true, false], "the third does not fit: {refused:?}");
    let rehearsed = kit.store.write_together(&kit.access, writes(1), true).await.unwrap();
    assert!(rehearsed.iter().all(Result::is_ok), "{rehearsed:?}");
    assert_eq!((kit.ledger().await, kit.events().await), (before, vec!["c p".to_owned()]));
    let made = kit.store.write_together(&kit.access, writes(1), false).await.unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    assert_eq!(kit.events().await, ["c p", "c p/a", "c p/b", "c p/c"]);
    kit.check().await;
}

#[tokio::test]
async fn a_write_of_thousands_of_keys_is_refused_long_before_its_statement_is_given_up() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let keys = |cpu: u8| (0..15000).fold(format!("c1: cpu={cpu}"), |text, n| format!("{text} k{n}=1"));
    let told = refused(kit.create(Object::project("q", "p", &keys(5))).await);
    assert_eq!(names(&told), ["DoesNotFit"]);
    kit.create(Object::project("q", "p", &keys(4))).await.unwrap();
    let told = refused(kit.create(Object::namespace("q", "x", "c1: cpu=1")).await);
    assert_eq!((names(&told)[0].as_str(), told.len()), ("KeyMissing", 15000));
}
