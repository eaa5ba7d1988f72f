use super::*;
use futures_util::FutureExt as _;

fn taken(queue: &Queue<&'static str>) -> Option<&'static str> {
    queue.next().now_or_never()
}

#[tokio::test]
async fn a_key_is_queued_once_and_never_at_work_twice() {
    let queue = Queue::new(8);
    queue.add(&"a", "c1", Lane::Urgent);
    queue.add(&"a", "c1", Lane::Later);
    assert_eq!(taken(&queue), Some("a"));
    assert_eq!(taken(&queue), None);
    queue.add(&"a", "c1", Lane::Urgent);
    assert_eq!(taken(&queue), None, "it is at work");
    queue.done(&"a", Requeue::Never);
    assert_eq!(taken(&queue), Some("a"), "it was added while at work");
    queue.done(&"a", Requeue::Never);
    assert_eq!(queue.sizes(), (0, 0));
}

#[tokio::test]
async fn a_group_that_is_full_does_not_hold_up_another() {
    let queue = Queue::new(2);
    for key in ["a1", "a2", "a3"] {
        queue.add(&key, "dead", Lane::Urgent);
    }
    queue.add(&"b1", "alive", Lane::Later);
    let mut first = [taken(&queue), taken(&queue), taken(&queue)];
    first.sort_unstable();
    assert_eq!(first, [Some("a1"), Some("a2"), Some("b1")]);
    assert_eq!(taken(&queue), None, "a3 waits for room in its group");
    queue.done(&"a1", Requeue::Never);
    assert_eq!(taken(&queue), Some("a3"));
}

#[tokio::test]
async fn groups_that_are_full_leave_room_for_all_others() {
    let queue = Queue::new(8);
    for group in 0..FULL_GROUPS {
        for number in 0..10 {
            queue.add(&format!("dead {group} {number}"), format!("dead-{group}").as_str(), Lane::Urgent);
        }
    }
    while queue.next().now_or_never().is_some() {}
    assert_eq!(queue.sizes().1, 8 * FULL_GROUPS);
    for number in 0..3 {
        queue.add(&format!("alive {number}"), "alive", Lane::Later);
    }
    for number in [0, 1] {
        assert_eq!(queue.next().now_or_never(), Some(format!("alive {number}")));
    }
    assert_eq!(queue.next().now_or_never(), None, "it has its part");
    queue.done(&"alive 0".to_owned(), Requeue::Never);
    assert_eq!(queue.next().now_or_never(), Some("alive 2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_takes_access_away_goes_first_and_waits_for_no_failure_before() {
    let queue = Queue::new(1);
    for _failure in 0..8 {
        queue.add(&"failing", "c1", Lane::Urgent);
        assert_eq!(taken(&queue), Some("failing"));
        queue.done(&"failing", Requeue::WithBackoff);
    }
    queue.add(&"later", "c1", Lane::Later);
    queue.add(&"urgent", "c1", Lane::Urgent);
    queue.add(&"failing", "c1", Lane::Access);
    assert_eq!(taken(&queue), Some("failing"));
    queue.done(&"failing", Requeue::WithBackoff);
    assert_eq!(taken(&queue), Some("urgent"));
    queue.done(&"urgent", Requeue::Never);
    tokio::time::advance(RETRY_FLOOR * 2).await;
    assert_eq!(taken(&queue), Some("failing"), "its waits begin anew");
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_could_not_be_begun_comes_back_as_urgent_as_it_was() {
    let queue = Queue::new(1);
    queue.add(&"loses a role", "c1", Lane::Access);
    for is_wanted_for_figures in [false, true] {
        assert_eq!(taken(&queue), Some("loses a role"));
        if is_wanted_for_figures {
            queue.add(&"loses a role", "c1", Lane::Later);
        }
        queue.done(&"loses a role", Requeue::InSameLane(Duration::from_secs(1)));
        queue.add(&"create", "c1", Lane::Urgent);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(taken(&queue), Some("loses a role"));
}

#[tokio::test]
async fn what_somebody_waits_for_goes_before_what_has_time() {
    let queue = Queue::new(1);
    queue.add(&"figures", "c1", Lane::Later);
    queue.add(&"create", "c1", Lane::Urgent);
    assert_eq!(taken(&queue), Some("create"));
    queue.done(&"create", Requeue::Never);
    assert_eq!(taken(&queue), Some("figures"));
}

fn of(owner: &str) -> FlowKey<'_> {
    FlowKey { group: "c1", owner }
}

#[tokio::test]
async fn what_takes_access_away_lets_one_of_a_later_lane_go_after_three() {
    let queue = Queue::new(64);
    for (lane, name) in [(Lane::Access, "a"), (Lane::Urgent, "u"), (Lane::Later, "l")] {
        for number in 0..8 {
            queue.add(&format!("{name}{number}"), of("t"), lane);
        }
    }
    let mut order = Vec::new();
    while let Some(key) = queue.next().now_or_never() {
        order.push(key);
    }
    assert_eq!(
        order.join(" "),
        "a0 a1 a2 u0 a3 a4 a5 u1 a6 a7 u2 l0 u3 u4 u5 l1 u6 u7 l2 l3 l4 l5 l6 l7",
        "three of a lane, then one of what comes after"
    );
}

#[tokio::test]
async fn who_comes_late_waits_for_three_keys_of_an_earlier_lane_at_most() {
    let queue = Queue::new(64);
    for number in 0..20 {
        queue.add(&format!("a{number}"), of("t"), Lane::Access);
    }
    for _alone in 0..10 {
        queue.next().now_or_never().unwrap();
    }
    queue.add(&"figures".to_owned(), of("t"), Lane::Later);
    let order: Vec<String> = (0..4).filter_map(|_| queue.next().now_or_never()).collect();
    assert_eq!(order, ["a10", "a11", "a12", "figures"]);
}

#[tokio::test]
async fn who_has_much_to_do_keeps_no_other_owner_waiting() {
    for lane in [Lane::Access, Lane::Urgent, Lane::Later] {
        let queue = Queue::new(64);
        for number in 0..10 {
            queue.add(&format!("large {number}"), of("large"), lane);
        }
        let small = ["another 0", "another 1", "small 0"];
        for key in small {
            queue.add(&key.to_owned(), of(key.split_once(' ').unwrap().0), lane);
        }
        let order: Vec<String> = (0..6).filter_map(|_| queue.next().now_or_never()).collect();
        assert_eq!(order, ["another 0", "large 0", "small 0", "another 1", "large 1", "large 2"]);
        // Whoever always comes back goes once a round.
        queue.add(&"another 2".to_owned(), of("another"), lane);
        queue.add(&"small 1".to_owned(), of("small"), lane);
        let order: Vec<String> = (0..3).filter_map(|_| queue.next().now_or_never()).collect();
        assert_eq!(order, ["small 1", "another 2", "large 3"]);
    }
}

#[tokio::test]
async fn a_key_that_came_to_another_owner_waits_among_his() {
    let queue = Queue::new(64);
    queue.add(&"a1", of("a"), Lane::Urgent);
    queue.add(&"a2", of("a"), Lane::Urgent);
    queue.add(&"b1", of("b"), Lane::Urgent);
    queue.add(&"a2", of("c"), Lane::Urgent);
    assert_eq!([taken(&queue), taken(&queue), taken(&queue)], [Some("a1"), Some("b1"), Some("a2")]);
    queue.add(&"a1", of("d"), Lane::Urgent);
    queue.add(&"b2", of("d"), Lane::Access);
    assert_eq!([taken(&queue), taken(&queue)], [Some("b2"), None], "a1 is at work");
    for key in ["a1", "a2", "b1", "b2"] {
        queue.done(&key, Requeue::Never);
    }
    assert_eq!((taken(&queue), queue.sizes()), (Some("a1"), (0, 1)));
}

fn waits(queue: &Queue<&'static str>) -> Duration {
    let state = queue.lock();
    state
        .delayed
        .keys()
        .next()
        .map(|(due, _)| due.saturating_duration_since(Instant::now()))
        .unwrap_or_default()
}

fn fail_once(queue: &Queue<&'static str>) -> Duration {
    queue.add(&"a", "c1", Lane::Urgent);
    assert_eq!(taken(queue), Some("a"));
    queue.done(&"a", Requeue::WithBackoff);
    waits(queue)
}

#[tokio::test]
async fn failures_wait_longer_each_time_and_a_success_resets_them() {
    let queue = Queue::new(1);
    let seen: Vec<Duration> = (0..12).map(|_| fail_once(&queue)).collect();
    assert!(seen[0] <= RETRY_FLOOR && seen[3] > seen[0], "{seen:?}");
    assert!(seen[11] <= RETRY_CEILING && seen[11] >= RETRY_CEILING / 2, "{seen:?}");
    queue.add(&"a", "c1", Lane::Urgent);
    assert_eq!(taken(&queue), Some("a"));
    queue.done(&"a", Requeue::Never);
    assert!(fail_once(&queue) <= RETRY_FLOOR);
}

#[tokio::test]
async fn an_event_brings_a_waiting_key_forward() {
    let queue = Queue::new(1);
    queue.add_after(&"a", "c1", Lane::Later, Duration::from_mins(1));
    assert_eq!(taken(&queue), None);
    queue.add(&"a", "c1", Lane::Urgent);
    assert_eq!(taken(&queue), Some("a"));
}

#[tokio::test]
async fn a_delayed_key_becomes_due_by_itself() {
    let queue = Queue::new(1);
    queue.add_after(&"a", "c1", Lane::Later, Duration::from_millis(5));
    assert_eq!(tokio::time::timeout(Duration::from_secs(30), queue.next()).await, Ok("a"));
}

#[tokio::test]
async fn a_pass_that_began_before_is_waited_for_and_no_later_one() {
    let queue = Queue::new(8);
    queue.wait_for_running("c1").now_or_never().unwrap();
    for key in ["a", "b"] {
        queue.add(&key, "c1", Lane::Urgent);
    }
    queue.add(&"other", "c2", Lane::Urgent);
    let (first, other) = (taken(&queue).unwrap(), taken(&queue).unwrap());
    assert_eq!((first, other), ("a", "other"));
    let mut ended = std::pin::pin!(queue.wait_for_running("c1"));
    assert_eq!(ended.as_mut().now_or_never(), None);
    assert_eq!(taken(&queue), Some("b"), "a later one");
    queue.done(&"other", Requeue::Never);
    assert_eq!(ended.as_mut().now_or_never(), None);
    queue.done(&"a", Requeue::Never);
    assert_eq!(ended.now_or_never(), Some(()));
}

#[tokio::test]
async fn a_key_that_is_added_to_another_group_waits_there() {
    let queue = Queue::new(1);
    let is_at_work = |group: &str| queue.wait_for_running(group).now_or_never().is_none();
    queue.add(&"a", "dead", Lane::Urgent);
    queue.add(&"b", "dead", Lane::Urgent);
    assert_eq!(taken(&queue), Some("a"));
    assert_eq!(taken(&queue), None, "its group is full");
    queue.add(&"b", "alive", Lane::Urgent);
    assert_eq!(taken(&queue), Some("b"));
    assert!(is_at_work("dead") && is_at_work("alive"));
    // Of one that is at work the pass stays where it is.
    queue.add(&"a", "other", Lane::Urgent);
    assert!(is_at_work("dead") && !is_at_work("other"));
    queue.done(&"a", Requeue::Never);
    assert_eq!(taken(&queue), Some("a"));
    assert!(!is_at_work("dead") && is_at_work("other"));
    for key in ["a", "b"] {
        queue.done(&key, Requeue::Never);
    }
    assert_eq!(queue.sizes(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_its_time_does_so_in_the_group_that_it_was_added_to_last() {
    let queue = Queue::new(1);
    queue.add(&"a", "dead", Lane::Urgent);
    assert_eq!(taken(&queue), Some("a"));
    queue.add_after(&"b", "dead", Lane::Urgent, Duration::from_secs(1));
    queue.add_after(&"b", "alive", Lane::Urgent, Duration::from_secs(2));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(taken(&queue), Some("b"));
}
