use super::candidate::Candidate;
use super::elector::ShareCallbacks;
use super::lease::{self, Leases};
use super::{Share, ShareState, Shares};
use crate::error::Error;
use crate::fence::{InFlightWrites, LeaseTimes};
use crate::fixtures::server::{Link, Passage, Server};
use crate::fixtures::world::times;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};
use tokio_util::sync::CancellationToken;

const SHARDS: u8 = 4;
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tke-business/leases";
const SECRET: &str = "/api/v1/namespaces/tke-business/secrets/business-controller-seal";
/// From the death of a holder to the next write.
const GOAL: Duration = Duration::from_secs(2);

fn lease_duration() -> Duration {
    times().lease_duration
}

/// A write to the clusters of a share.
#[derive(Clone, Debug)]
struct Written {
    share: Share,
    replica: String,
    at: Instant,
    /// Until when it may arrive.
    until: Instant,
    /// Whether its writer relied on nobody else's being under way.
    confirmed: bool,
}

/// What all replicas have written, as the clusters see it.
type Log = Arc<Mutex<Vec<Written>>>;

/// What a replica does in its shares.
#[derive(Debug)]
struct Worker {
    known: Mutex<BTreeSet<Share>>,
    fitness: Fitness,
}

/// Whether a replica can work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fitness {
    #[default]
    Sound,
    /// Never.
    Unready,
    /// It seems so, and it can begin in no share.
    CannotBegin,
}

impl ShareCallbacks for Worker {
    fn ready(&self) -> BoxFuture<'_, ()> {
        let is_ready = self.fitness != Fitness::Unready;
        if is_ready { std::future::ready(()).boxed() } else { std::future::pending().boxed() }
    }

    fn prepare<'a>(&'a self, state: &'a ShareState) -> BoxFuture<'a, ()> {
        if self.fitness == Fitness::CannotBegin {
            return std::future::pending().boxed();
        }
        async move { state.fence.wait_for_renewal().await }.boxed()
    }

    fn started(&self, share: Share) {
        assert!(self.known.lock().unwrap().insert(share), "{share} is forgotten before it is taken again");
    }

    fn stopped(&self, share: Share) {
        self.known.lock().unwrap().remove(&share);
    }
}

/// A process.
struct Replica {
    name: String,
    shares: Arc<Shares>,
    end: CancellationToken,
    candidate: JoinHandle<Result<(), Error>>,
    writer: JoinHandle<()>,
}

struct Fleet {
    server: Server,
    log: Log,
}

impl Fleet {
    fn new() -> Self {
        let server = Server::default();
        server.put(SECRET, &json!({}));
        Self { server, log: Log::default() }
    }

    fn starts(&self, name: &str, link: &Link) -> Replica {
        self.starts_with(name, link, SHARDS)
    }

    fn starts_with(&self, name: &str, link: &Link, shards: u8) -> Replica {
        self.starts_as(name, link, shards, Fitness::Sound)
    }

    fn starts_as(&self, name: &str, link: &Link, shards: u8, fitness: Fitness) -> Replica {
        let shares = Arc::new(Shares::new(shards, times()));
        let client = self.server.client_over(link);
        let leases = Leases::new(client, "tke-business", name.to_owned(), times(), shards);
        let work = Arc::new(Worker { known: Mutex::default(), fitness });
        let mut candidate = Candidate::new(leases, Arc::clone(&shares), work);
        let end = CancellationToken::new();
        let ends = end.clone();
        let candidate = tokio::spawn(async move {
            let ended = candidate.run(&ends).await;
            ends.cancel();
            candidate.retire(Duration::from_secs(10)).await;
            ended
        });
        let writer = tokio::spawn(write(name.to_owned(), Arc::clone(&shares), Arc::clone(&self.log)));
        Replica { name: name.to_owned(), shares, end, candidate, writer }
    }

    fn written(&self) -> Vec<Written> {
        self.log.lock().unwrap().clone()
    }

    /// When each share was written to by somebody first since then.
    fn first_since(&self, since: Instant) -> BTreeMap<Share, Written> {
        let mut first = BTreeMap::new();
        for written in self.written().into_iter().filter(|written| written.at >= since) {
            first.entry(written.share).or_insert(written);
        }
        first
    }

    fn holder(&self, share: Share) -> String {
        let lease = self.server.get(&format!("{LEASES}/{}", lease::share_lease_name(share)));
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    fn holders(&self) -> BTreeMap<Share, String> {
        all().map(|share| (share, self.holder(share))).collect()
    }

    /// Nothing that two replicas have written to one share may have arrived at the same time.
    fn check(&self) {
        let mut under_way: BTreeMap<(Share, String), Written> = BTreeMap::new();
        for one in self.written() {
            for (_, other) in under_way.iter().filter(|((share, _), _)| *share == one.share) {
                assert!(
                    other.replica == one.replica || other.until <= one.at,
                    "two writers: {other:?} and {one:?}"
                );
            }
            let key = (one.share, one.replica.clone());
            if under_way.get(&key).is_none_or(|other| other.until <= one.until) {
                under_way.insert(key, one);
            }
        }
    }
}

fn all() -> impl Iterator<Item = Share> {
    std::iter::once(Share::Fleet).chain((0..SHARDS).map(Share::Clusters))
}

/// Writes to every share again and again, as far as its fence lets it.
#[expect(clippy::infinite_loop, reason = "it is aborted with its process")]
async fn write(name: String, shares: Arc<Shares>, log: Log) {
    let member = InFlightWrites::default();
    loop {
        for state in shares.states() {
            let Some(_guard) = shares.enter(state.share) else { continue };
            let confirmed = state.fence.may_confirm(&member).is_ok();
            let Ok(open) = state.fence.begin_write(&member) else { continue };
            let (at, number) = (Instant::now(), log.lock().unwrap().len());
            let until = at + times().write_deadline;
            let written = Written { share: state.share, replica: name.clone(), at, until, confirmed };
            log.lock().unwrap().push(written);
            sleep(Duration::from_millis(30)).await;
            open.answered();
            // Whoever is killed before has a write under way.
            log.lock().unwrap()[number].until = Instant::now();
        }
        sleep(Duration::from_millis(20)).await;
    }
}

impl Replica {
    fn killed(self) -> String {
        self.candidate.abort();
        self.writer.abort();
        self.name
    }

    /// It does nothing for a while, and then goes on where it was, knowing nothing of the time.
    async fn paused(self, time: Duration) -> String {
        self.candidate.abort();
        self.writer.abort();
        let (shares, log) = (Arc::clone(&self.shares), Log::default());
        sleep(time).await;
        let going_on = tokio::spawn(write(self.name.clone(), shares, Arc::clone(&log)));
        sleep(Duration::from_secs(1)).await;
        going_on.abort();
        let wrote = !log.lock().unwrap().is_empty();
        assert!(!wrote || time < lease_duration(), "it wrote after {time:?}");
        self.name
    }

    /// It is told to end.
    async fn ends(self) -> Result<(), Error> {
        self.end.cancel();
        let ended = self.candidate.await.unwrap();
        self.writer.abort();
        ended
    }
}

#[tokio::test(start_paused = true)]
async fn shares_are_divided_and_handed_over_without_a_gap_and_the_next_holder_is_clean() {
    let (fleet, link) = (Fleet::new(), Link::default());
    let first = fleet.starts("first", &link);
    sleep(Duration::from_secs(30)).await;
    assert!(fleet.holders().values().all(|holder| holder == "first"));
    let (second, joined) = (fleet.starts("second", &link), Instant::now());
    sleep(lease_duration() + Duration::from_secs(14)).await;
    assert!(fleet.holders().values().all(|holder| holder == "first"), "a restart moves nothing");
    sleep(Duration::from_secs(5)).await;
    let holders = fleet.holders();
    let moved: BTreeSet<Share> = all().filter(|share| holders[share] == "second").collect();
    assert!(!moved.is_empty() && moved.len() < holders.len(), "{holders:?}");
    for share in &moved {
        let of: Vec<Written> =
            fleet.written().into_iter().filter(|written| written.share == *share).collect();
        let taken = of.iter().position(|written| written.replica == "second").unwrap();
        assert!(of[taken].confirmed, "the former holder's writes had ended");
        let gap = of[taken].at - of[taken - 1].until;
        assert!(gap < Duration::from_secs(1) && of[taken].at > joined, "{gap:?}");
    }
    // Who ends gives everything back.
    let told = Instant::now();
    second.ends().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(fleet.holders().values().all(|holder| holder == "first"));
    let taken = fleet.first_since(told + Duration::from_millis(100));
    assert!(moved.iter().all(|share| taken[share].replica == "first" && taken[share].confirmed));
    fleet.check();
    first.ends().await.unwrap();
    assert!(fleet.holders().values().all(String::is_empty));
    let left = fleet.server.list(LEASES);
    assert_eq!(left.len(), usize::from(SHARDS) + 1, "nobody is shown as living");
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_replica_had_is_written_to_soon_after_its_lease_and_its_next_holder_waits() {
    let (fleet, link) = (Fleet::new(), Link::default());
    let mut replicas: Vec<Replica> = ["a", "b", "c"].map(|name| fleet.starts(name, &link)).into();
    sleep(Duration::from_mins(2)).await;
    let before = fleet.holders();
    let dead = before[&Share::Fleet].clone();
    let index = replicas.iter().position(|replica| replica.name == dead).unwrap();
    let killed = Instant::now();
    replicas.remove(index).killed();
    sleep(lease_duration() + GOAL).await;
    let after = fleet.holders();
    let taken = fleet.first_since(killed + Duration::from_millis(50));
    for share in all() {
        assert!(before[&share] == dead || before[&share] == after[&share], "nothing else moves");
        assert!(after[&share] != dead);
        if before[&share] == dead {
            let waited = taken[&share].at - killed;
            assert!(waited + times().retry_period > lease_duration(), "{waited:?}");
            assert!(waited <= lease_duration() + GOAL, "{share}: {waited:?}");
            assert!(!taken[&share].confirmed, "its writes may be under way");
        }
    }
    sleep(Duration::from_mins(2)).await;
    fleet.check();
    assert!(fleet.written().iter().rev().take(10).all(|written| written.confirmed));
    assert_eq!(
        fleet.server.find(&format!("{LEASES}/{}", lease::replica_lease_name(&dead))),
        None,
        "it is cleaned up"
    );
}

#[tokio::test(start_paused = true)]
async fn who_cannot_work_is_not_there() {
    let (fleet, link) = (Fleet::new(), Link::default());
    let unready = fleet.starts_as("unready", &link, SHARDS, Fitness::Unready);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fleet.server.list(LEASES).len(), 0);
    let _sound = fleet.starts("sound", &link);
    sleep(Duration::from_mins(2)).await;
    assert!(fleet.holders().values().all(|holder| holder == "sound"));
    unready.ends().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_cannot_begin_in_a_share_gives_it_back_and_others_come_first() {
    let (fleet, link) = (Fleet::new(), Link::default());
    let broken = fleet.starts_as("broken", &link, SHARDS, Fitness::CannotBegin);
    sleep(Duration::from_secs(1)).await;
    assert!(fleet.holders().values().all(|holder| holder == "broken"));
    let (sound, begun) = (fleet.starts("sound", &link), Instant::now());
    sleep(lease_duration() * 2).await;
    let first = fleet.first_since(begun);
    assert!(
        all().all(|share| first.get(&share).is_some_and(|written| written.confirmed)),
        "given back cleanly"
    );
    assert!(fleet.holders().values().all(|holder| holder == "sound"));
    // It is tried again, and each time later.
    sleep(Duration::from_mins(30)).await;
    for share in all() {
        let of = fleet.written().into_iter().filter(|written| written.share == share);
        let times: Vec<Instant> = of.map(|written| written.at).collect();
        let gaps = times.windows(2).map(|two| two[1] - two[0]).filter(|gap| *gap > GOAL);
        let gaps: Vec<Duration> = gaps.collect();
        assert!(gaps.iter().all(|gap| *gap < lease_duration() + GOAL), "{share}: {gaps:?}");
        assert!(gaps.len() <= 4, "{share}: {gaps:?}");
    }
    // Where nobody else is there it goes on trying.
    sound.killed();
    sleep(lease_duration() * 3).await;
    assert!(fleet.holders().values().any(|holder| holder == "broken"));
    fleet.check();
    broken.killed();
}

#[tokio::test(start_paused = true)]
async fn who_cannot_give_a_share_back_cleanly_in_time_does_not_renew_it_any_more() {
    let (fleet, link) = (Fleet::new(), Link::default());
    let first = fleet.starts("first", &link);
    sleep(Duration::from_secs(5)).await;
    first.killed();
    let second = fleet.starts("second", &link);
    sleep(lease_duration() + GOAL).await;
    assert!(fleet.holders().values().all(|holder| holder == "second"));
    // For longer than a process may take to end, the first one's writes may still arrive.
    let told = Instant::now();
    second.ends().await.unwrap();
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    assert!(fleet.holders().values().all(|holder| holder == "second"), "they run out");
    let _third = fleet.starts("third", &link);
    sleep(lease_duration() + GOAL).await;
    assert!(fleet.holders().values().all(|holder| holder == "third"));
    fleet.check();
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_another_number_of_shares_refuses_to_work() {
    let (fleet, link) = (Fleet::new(), Link::default());
    let first = fleet.starts("first", &link);
    sleep(Duration::from_secs(5)).await;
    let other = fleet.starts_with("other", &link, SHARDS * 2);
    let refused = other.candidate.await.unwrap().unwrap_err();
    assert!(
        refused.text().contains("--shards is 8") && refused.text().contains("says 4"),
        "{}",
        refused.text()
    );
    assert!(fleet.written().iter().all(|written| written.replica == "first"));
    // Leases that somebody has deleted make no room for it while a replica lives that says otherwise.
    for share in all() {
        fleet.server.remove(&format!("{LEASES}/{}", lease::share_lease_name(share)));
    }
    let other = fleet.starts_with("another", &link, SHARDS * 2);
    assert!(other.candidate.await.unwrap().is_err());
    assert!(first.candidate.await.unwrap().is_err(), "its leases are gone");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_has_ever_worked_no_share_waits_for_a_former_holder() {
    let (fleet, link) = (Fleet::new(), Link::default());
    fleet.server.remove(SECRET);
    let replicas = ["a", "b"].map(|name| fleet.starts(name, &link));
    while fleet.server.list(LEASES).len() <= usize::from(SHARDS) {
        sleep(Duration::from_millis(1)).await;
    }
    // Whoever has the fleet makes the key before anybody writes.
    fleet.server.put(SECRET, &json!({}));
    sleep(lease_duration()).await;
    let written = fleet.written();
    let shares: BTreeSet<Share> = written.iter().map(|written| written.share).collect();
    assert_eq!(shares.len(), usize::from(SHARDS) + 1);
    assert!(written.iter().all(|written| written.confirmed));
    fleet.check();
    for replica in replicas {
        replica.killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_vanished_does_not_make_its_next_holder_believe_that_nobody_has_worked() {
    let (fleet, link) = (Fleet::new(), Link::default());
    fleet.server.remove(SECRET);
    let first = fleet.starts("first", &link);
    sleep(Duration::from_secs(2)).await;
    assert!(fleet.written().iter().all(|written| written.confirmed), "nobody has ever worked here");
    fleet.server.put(SECRET, &json!({}));
    first.killed();
    for lease in fleet.server.list(LEASES) {
        fleet.server.remove(&format!("{LEASES}/{}", lease["metadata"]["name"].as_str().unwrap()));
    }
    let _second = fleet.starts("second", &link);
    sleep(Duration::from_secs(2)).await;
    let of_second: Vec<Written> =
        fleet.written().into_iter().filter(|written| written.replica == "second").collect();
    assert!(!of_second.is_empty() && of_second.iter().all(|written| !written.confirmed));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_emptied_by_hand_was_not_given_back() {
    let (fleet, link) = (Fleet::new(), Link::default());
    let first = fleet.starts("first", &link);
    sleep(Duration::from_secs(2)).await;
    first.killed();
    for share in all() {
        let path = format!("{LEASES}/{}", lease::share_lease_name(share));
        fleet.server.edit(&path, &json!({ "spec": { "holderIdentity": null } }));
    }
    fleet.server.remove(&format!("{LEASES}/{}", lease::replica_lease_name("first")));
    let second = fleet.starts("second", &link);
    sleep(Duration::from_secs(5)).await;
    let of_second: Vec<Written> =
        fleet.written().into_iter().filter(|written| written.replica == "second").collect();
    assert!(!of_second.is_empty() && of_second.iter().all(|written| !written.confirmed));
    second.killed();
}

#[tokio::test(start_paused = true)]
async fn what_is_at_work_in_a_share_keeps_it_until_it_has_ended() {
    let shares = Shares::new(1, times());
    let state = Arc::clone(shares.state(Share::Clusters(0)));
    assert!(shares.enter(state.share).is_none(), "it is not held");
    state.start();
    let guard = shares.enter(state.share).unwrap();
    assert_eq!(shares.run_in(state.share, async { 1 }).await, Some(1));
    state.begin_drain();
    assert!(shares.enter(state.share).is_none() && !state.is_idle());
    guard.wait_for_drain().await;
    drop(guard);
    assert!(state.is_idle());
    state.stop();
    state.start();
    assert_eq!(shares.held()[&state.share], 2, "another term");
}

#[derive(Clone, Debug)]
enum Fault {
    Kill,
    Pause(u64),
    Passage(Passage, u64),
    End,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Kill),
        (5_u64..40).prop_map(Fault::Pause),
        (1_u64..40).prop_map(|time| Fault::Passage(Passage::Cut, time)),
        (1_u64..20).prop_map(|time| Fault::Passage(Passage::LosesAnswers, time)),
        (100_u64..3_000, 1_u64..20)
            .prop_map(|(slow, time)| { Fault::Passage(Passage::Slow(Duration::from_millis(slow)), time) }),
        Just(Fault::End),
    ]
}

/// Whoever has ended is started again under the same name, as in a pod.
fn restart(fleet: &Fleet, replicas: &mut [(Replica, Link)]) {
    for (replica, link) in replicas.iter_mut().filter(|(replica, _)| replica.candidate.is_finished()) {
        replica.writer.abort();
        *replica = fleet.starts(&replica.name, link);
    }
}

async fn suffer(faults: &[(usize, Fault, u64)]) {
    let fleet = Fleet::new();
    let mut replicas: Vec<(Replica, Link)> = ["a", "b", "c"]
        .map(|name| {
            let link = Link::default();
            (fleet.starts(name, &link), link)
        })
        .into();
    sleep(Duration::from_secs(5)).await;
    for (number, (index, fault, wait)) in faults.iter().enumerate() {
        let (replica, link) = replicas.remove(index % replicas.len());
        // A pod that is made anew has another name.
        let next = format!("replica-{number}");
        let next = match fault {
            Fault::Kill => {
                replica.killed();
                (fleet.starts(&next, &link), link)
            }
            Fault::Pause(time) => {
                replica.paused(Duration::from_secs(*time)).await;
                (fleet.starts(&next, &link), link)
            }
            Fault::Passage(passage, time) => {
                link.is(*passage);
                sleep(Duration::from_secs(*time)).await;
                link.is(Passage::Open);
                (replica, link)
            }
            Fault::End => {
                replica.ends().await.unwrap();
                (fleet.starts(&next, &link), link)
            }
        };
        replicas.push(next);
        restart(&fleet, &mut replicas);
        sleep(Duration::from_secs(*wait)).await;
        restart(&fleet, &mut replicas);
    }
    sleep(Duration::from_mins(2)).await;
    fleet.check();
    let recent = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let written = fleet.first_since(recent);
    let names: BTreeSet<&str> = replicas.iter().map(|(replica, _)| replica.name.as_str()).collect();
    for share in all() {
        assert!(written.get(&share).is_some_and(|written| written.confirmed), "{share} is worked on");
        let holders = replicas.iter().filter(|(replica, _)| replica.shares.holds(share)).count();
        assert_eq!((holders, names.contains(&*fleet.holder(share))), (1, true), "{share}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]
    #[test]
    fn a_share_has_one_writer_whatever_becomes_of_the_replicas(
        faults in proptest::collection::vec((0_usize..3, fault(), 0_u64..40), 1..7),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(suffer(&faults));
    }
}

#[test]
fn a_cluster_is_in_one_share_whatever_it_is_called() {
    let shares = Shares::new(16, LeaseTimes { ..times() });
    let of: BTreeSet<Share> = (0..200).map(|number| shares.of_uid(&format!("uid-{number}"))).collect();
    assert_eq!(of.len(), 16, "each has some");
    assert_eq!(shares.of_uid("11111111-1111-4111-8111-111111111111"), Share::Clusters(4), "recorded");
}
