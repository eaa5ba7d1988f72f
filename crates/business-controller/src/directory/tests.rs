use super::*;
use crate::fixtures::server::CLUSTER;
use crate::fixtures::world::{SEEN_MAX, World};
use crate::member::ClusterNamespace;
use crate::member::watch_store::UpdateSource;
use crate::members::Lookup;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use tokio::net::TcpListener;

const UID: &str = "11111111-1111-4111-8111-111111111111";
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(30);
/// A claim of nothing but a time.
const CLAIMS: [&str; 3] = ["eyJleHAiOjF9", "eyJleHAiOjJ9", "eyJleHAiOjN9"];

/// The probe of a cluster that is followed: a list of one name.
const PROBE: &str = "/api/v1/namespaces?kube-system";
const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";
const REVIEWS: &str = "/selfsubjectaccessreviews";

/// A member cluster over HTTP that knows its callers by their tokens.
#[derive(Clone, Debug)]
struct FakeCluster {
    state: Arc<Mutex<FakeClusterState>>,
    port: u16,
}

#[derive(Debug, Default)]
struct FakeClusterState {
    uid: String,
    /// With what each may not do, as `VERB RESOURCE`.
    tokens: BTreeMap<String, Vec<String>>,
    /// Calls that fail, by token and the end of their path.
    failing: Vec<(String, &'static str)>,
    /// By the path of their list.
    objects: BTreeMap<String, Value>,
    calls: Vec<(String, String)>,
}

impl FakeCluster {
    async fn start(uid: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state =
            Arc::new(Mutex::new(FakeClusterState { uid: uid.to_owned(), ..FakeClusterState::default() }));
        let cluster = Self { state, port };
        let serving = cluster.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let cluster = serving.clone();
                let answer = service_fn(move |request| {
                    let cluster = cluster.clone();
                    async move { Ok::<_, Infallible>(cluster.answer(request).await) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(async move { http.serve_connection(TokioIo::new(stream), answer).await });
            }
        });
        cluster
    }

    fn state(&self) -> MutexGuard<'_, FakeClusterState> {
        self.state.lock().unwrap()
    }

    fn lets_in(&self, token: &str, lacking: &[&str]) {
        let lacking = lacking.iter().map(|&right| right.to_owned()).collect();
        self.state().tokens.insert(token.to_owned(), lacking);
    }

    fn fails(&self, token: &str, path: &'static str) {
        self.state().failing.push((token.to_owned(), path));
    }

    fn lets_out(&self, token: &str) {
        self.state().tokens.remove(token);
    }

    /// It holds a quota of ours, of so many pods.
    fn has_quota(&self, revision: u64, pods: &str) {
        let metadata = json!({"name": "web", "namespace": "web", "resourceVersion": revision.to_string()});
        let quota = json!({"metadata": metadata, "spec": {"hard": {"pods": pods}}});
        self.state().objects.insert("/api/v1/resourcequotas".to_owned(), quota);
    }

    /// Who has asked for what since the last time.
    fn calls(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.state().calls)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let token = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
        let query = parts.uri.query().unwrap_or_default();
        let is_probe = query.contains("fieldSelector=metadata.name%3Dkube-system");
        let path = if is_probe { PROBE } else { parts.uri.path() }.to_owned();
        let is_watch = query.contains("watch=true");
        let (code, answer) = {
            let mut state = self.state();
            state.calls.push((token.clone(), path.clone()));
            let fails = |(who, end): &(String, &str)| *who == token && path.ends_with(end);
            match state.tokens.get(&token) {
                Some(_) if state.failing.iter().any(fails) => {
                    (500, json!({"kind": "Status", "code": 500, "reason": "InternalError", "message": "why"}))
                }
                None => {
                    (401, json!({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "no"}))
                }
                Some(lacking) => (200, state.said(&parts.method, &path, &body, lacking)),
            }
        };
        if code == 200 && is_watch {
            std::future::pending::<()>().await;
        }
        Response::builder().status(code).body(Full::new(Bytes::from(answer.to_string()))).unwrap()
    }

    /// As a source lists it with this token.
    fn listed(&self, token: &str) -> ListedCluster {
        let mut config = kube::Config::new(format!("http://127.0.0.1:{}", self.port).parse().unwrap());
        config.auth_info.token = Some(token.to_owned().into());
        ListedCluster {
            name: "c1".to_owned(),
            config,
            fingerprint: format!("{token}@{}", self.port),
            version: String::new(),
            entry: ClusterDescription::imported(),
            agents_end: None,
        }
    }
}

impl FakeClusterState {
    fn said(&self, method: &Method, path: &str, body: &[u8], lacking: &[String]) -> Value {
        if path.ends_with(REVIEWS) && method == Method::POST {
            let mut review: Value = serde_json::from_slice(body).unwrap();
            let asked = &review["spec"]["resourceAttributes"];
            let right =
                format!("{} {}", asked["verb"].as_str().unwrap(), asked["resource"].as_str().unwrap());
            review["status"] = json!({ "allowed": !lacking.contains(&right) });
            return review;
        }
        let kube_system = json!({"metadata": {"name": "kube-system", "uid": self.uid}});
        match path {
            KUBE_SYSTEM => kube_system,
            PROBE => json!({"metadata": {"resourceVersion": "1"}, "items": [kube_system]}),
            "/version" => json!({"gitVersion": "v1.36.0"}),
            _ => {
                let items: Vec<&Value> = self.objects.get(path).into_iter().collect();
                json!({"metadata": {"resourceVersion": "1"}, "items": items})
            }
        }
    }
}

/// A source that lists what it is told; an empty complaint is a name that is not listed.
#[derive(Clone, Debug)]
struct FakeSource {
    listed: Arc<Mutex<Result<ListedCluster, String>>>,
    loads: Arc<AtomicUsize>,
    is_unreadable: Arc<AtomicBool>,
    period: Duration,
}

impl FakeSource {
    fn of(listed: Result<ListedCluster, String>, period: Duration) -> Self {
        let (loads, is_unreadable) = (Arc::default(), Arc::default());
        Self { listed: Arc::new(Mutex::new(listed)), loads, is_unreadable, period }
    }
}

impl DirectorySource for FakeSource {
    fn load(&self) -> BoxFuture<'_, Result<Listing, Error>> {
        let mut listing = Listing::default();
        let told = self.listed.lock().unwrap().clone();
        if told.as_ref().err().is_none_or(|why| !why.is_empty()) {
            listing.add("c1", told.map_err(Error::Config));
        }
        self.loads.fetch_add(1, Ordering::SeqCst);
        let is_unreadable = self.is_unreadable.load(Ordering::SeqCst);
        let unreadable = || Error::Config("it cannot be read".to_owned());
        Box::pin(async move { if is_unreadable { Err(unreadable()) } else { Ok(listing) } })
    }

    fn period(&self) -> Duration {
        self.period
    }
}

/// A controller that follows a cluster.
struct Following {
    world: World,
    source: FakeSource,
    cluster: FakeCluster,
    running: tokio::task::JoinHandle<()>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.running.abort();
    }
}

fn token(number: usize) -> String {
    format!("e30.{}.c2ln", CLAIMS[number])
}

impl Following {
    async fn start() -> Self {
        Self::read_every(LOOK).await
    }

    /// By a source that is read so often.
    async fn read_every(period: Duration) -> Self {
        Self::of(FakeCluster::start(UID).await, period).await
    }

    async fn of(cluster: FakeCluster, period: Duration) -> Self {
        let world = World::new();
        world.cx.members.remove("c1");
        world.knows_cluster(&json!({ "metadata": { "uid": "m" }, "spec": {}, "status": { "uid": UID } }));
        world.cx.objects.member_clusters.begin_list();
        world.catches_up();
        let known = world.stored(CLUSTER);
        world.knows_cluster(&known);
        world.lists_all();
        cluster.lets_in(&token(0), &[]);
        let source = FakeSource::of(Ok(cluster.listed(&token(0))), period);
        let directory = Directory::new(Arc::clone(&world.cx), Box::new(source.clone()), Dialer::default());
        let running = tokio::spawn(directory.run());
        let following = Self { world, source, cluster, running };
        following.until("it is reachable", || following.is_reachable()).await;
        following
    }

    fn tell(&self, listed: Result<ListedCluster, String>) {
        *self.source.listed.lock().unwrap() = listed;
    }

    fn is_reachable(&self) -> bool {
        self.member().is_some_and(|member| member.reach() == Reach::Reachable)
    }

    fn member(&self) -> Option<Arc<Member>> {
        self.world.cx.members.all().into_iter().find(|member| member.name == "c1")
    }

    fn entry(&self) -> DirectoryEntry {
        self.world.cx.objects.member_clusters.memory.directory_entry("c1").unwrap_or_default()
    }

    fn uses(&self, number: usize) -> bool {
        let credential = Credential::of(&self.cluster.listed(&token(number)).config).unwrap().info(0);
        self.entry().credential.is_some_and(|used| used.fingerprint == credential.fingerprint)
    }

    async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let looks = async {
            while !is_so() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, looks).await;
        assert!(ended.is_ok(), "{what}: {:?}", self.entry());
    }

    /// The same, and the cluster answers all the time.
    async fn until_without_a_gap(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        self.until(what, || {
            assert!(self.is_reachable(), "a gap before {what}: {:?}", self.entry());
            is_so()
        })
        .await;
    }
}

#[tokio::test]
async fn credentials_change_without_a_gap() {
    let following = Following::start().await;
    let before = following.member().unwrap();
    following.cluster.lets_in(&token(1), &[]);
    following.tell(Ok(following.cluster.listed(&token(1))));
    following.until_without_a_gap("the new ones are in use", || following.uses(1)).await;
    following.cluster.lets_out(&token(0));
    following.cluster.calls();
    let mut asked = BTreeSet::new();
    following
        .until_without_a_gap("everything is watched by the new ones", || {
            for (who, path) in following.cluster.calls() {
                assert_ne!(who, token(0), "{path}");
                asked.insert(path);
            }
            asked.contains(PROBE)
        })
        .await;
    let after = following.member().unwrap();
    assert!(Arc::ptr_eq(&before, &after), "what is seen of it, and what is under way there, stays");
}

/// What a program of a kubeconfig prints: a client certificate that ends then.
fn print_certificate(path: &Path, until: &str) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap();
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {
            "expirationTimestamp": until,
            "clientCertificateData": certificate.pem(), "clientKeyData": key.serialize_pem(),
        },
    });
    let written = path.with_extension("new");
    std::fs::write(&written, credential.to_string()).unwrap();
    std::fs::rename(written, path).unwrap();
}

#[tokio::test]
async fn a_certificate_that_a_program_has_given_is_asked_for_anew_when_it_has_ended() {
    let (past, future) = ("1970-01-01T00:01:00Z", "2999-01-01T00:00:00Z");
    let following = Following::start().await;
    let path = std::env::temp_dir().join(format!("exec-credential-{}", std::process::id()));
    print_certificate(&path, past);
    let program = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [path],
    });
    // It shows no token.
    following.cluster.lets_in("", &[]);
    let mut listed = following.cluster.listed("");
    listed.config.auth_info.token = None;
    listed.config.auth_info.exec = Some(serde_json::from_value(program).unwrap());
    following.tell(Ok(listed));
    let member = following.member().unwrap();
    let ends = || member.api.client().valid_until().map(|until| until.to_string());
    following.until_without_a_gap("the first is in use", || ends().as_deref() == Some(past)).await;
    print_certificate(&path, future);
    following.until_without_a_gap("the next is in use", || ends().as_deref() == Some(future)).await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn when_the_directory_was_last_read_is_told() {
    let following = Following::start().await;
    let (source, clock) = (&following.source, &following.world.server.clock);
    let read = || following.world.cx.metrics.directory_read.get();
    let loads = || source.loads.load(Ordering::SeqCst);
    let before = clock.unix_seconds();
    assert_eq!(read(), before);
    source.is_unreadable.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let seen = loads();
        following.until("it was tried and applied", || loads() >= seen + 2).await;
        assert_eq!(read(), before, "and cannot be read");
        clock.advance(60_000_000);
    }
    assert!(following.is_reachable(), "what was listed is followed");
    source.is_unreadable.store(false, Ordering::SeqCst);
    following.until("it is read again", || read() == clock.unix_seconds()).await;
}

#[tokio::test]
async fn a_cluster_that_was_moved_is_seen_as_it_is_there_although_its_history_went_back() {
    let cluster = FakeCluster::start(UID).await;
    cluster.has_quota(1_000, "2");
    let following = Following::of(cluster, LOOK).await;
    let member = following.member().unwrap();
    let pods = || member.observed.at("web").1.map(|quota| quota.spec_hard["pods"].to_string());
    assert_eq!(pods().as_deref(), Some("2"));
    // Its new home was made from a snapshot, and the old one still answers.
    let restored = FakeCluster::start(UID).await;
    restored.has_quota(900, "10");
    restored.lets_in(&token(1), &[]);
    following.tell(Ok(restored.listed(&token(1))));
    following.until_without_a_gap("it is seen as it is", || pods().as_deref() == Some("10")).await;
}

#[tokio::test]
async fn wrong_credentials_take_no_working_cluster_away_and_are_told() {
    let following = Following::start().await;
    let other = FakeCluster::start("another").await;
    other.lets_in(&token(1), &[]);
    following.cluster.lets_in(&token(2), &["create namespaces"]);
    let wrong = [
        (Ok(other.listed(&token(1))), "another cluster"),
        (Ok(following.cluster.listed("nobody")), "credentials are refused: 401"),
        (Ok(following.cluster.listed(&token(2))), "may not do there: create namespaces"),
        (Err("no key kubeconfig".to_owned()), "no key kubeconfig"),
    ];
    for (told, why) in wrong {
        following.tell(told);
        let is_told = || following.entry().refused.is_some_and(|told| told.contains(why));
        following.until_without_a_gap(why, is_told).await;
        assert!(following.uses(0), "{why}");
    }
    following.tell(Ok(following.cluster.listed(&token(0))));
    following.until_without_a_gap("they are taken back", || following.entry().refused.is_none()).await;
}

#[tokio::test]
async fn credentials_that_may_not_watch_or_clean_up_are_worse() {
    let following = Following::start().await;
    for (number, right) in [(1, "watch rolebindings"), (2, "delete networkpolicies")] {
        following.cluster.lets_in(&token(number), &[right]);
        following.tell(Ok(following.cluster.listed(&token(number))));
        let why = format!("may not do there: {right}");
        let is_told = || following.entry().refused.is_some_and(|told| told.contains(&why));
        following.until_without_a_gap(right, is_told).await;
        assert!(following.uses(0), "{right}");
    }
}

#[tokio::test]
async fn credentials_that_are_refused_give_way_at_once_to_those_that_are_there() {
    let following = Following::start().await;
    // They may do less, which is more than nothing.
    following.cluster.lets_in(&token(1), &["create namespaces"]);
    following.tell(Ok(following.cluster.listed(&token(1))));
    following.until("they are refused", || following.entry().refused.is_some()).await;
    following.cluster.lets_out(&token(0));
    following.until_without_a_gap("they are in use", || following.uses(1)).await;
}

#[tokio::test]
async fn a_cluster_that_is_left_alone_since_too_much_is_seen_is_not_cut_off() {
    let following = Following::start().await;
    let member = following.member().unwrap();
    let remaining = vec!["x".repeat(SEEN_MAX)];
    let large = ClusterNamespace { name: "web".into(), remaining, ..ClusterNamespace::default() };
    member.observed.upsert_namespace(large, UpdateSource::Watch);
    following.until("it is left alone", || !following.is_reachable()).await;
    following.cluster.lets_in(&token(1), &["create namespaces"]);
    following.tell(Ok(following.cluster.listed(&token(1))));
    let why = "may not do there: create namespaces";
    following.until(why, || following.entry().refused.is_some_and(|told| told.contains(why))).await;
    assert!(following.uses(0) && member.is_evicted());
    following.cluster.lets_in(&token(2), &[]);
    following.tell(Ok(following.cluster.listed(&token(2))));
    following.until("those that are as good are in use", || following.uses(2)).await;
}

#[tokio::test]
async fn an_answer_that_does_not_come_lets_no_worse_credentials_in() {
    let following = Following::start().await;
    // Each is another one, so that it is tried at once.
    let told = [(1, KUBE_SYSTEM, "may not do there: create namespaces"), (2, REVIEWS, "could not be asked")];
    for (number, path, why) in told {
        following.cluster.fails(&token(0), path);
        following.cluster.lets_in(&token(number), &["create namespaces"]);
        following.tell(Ok(following.cluster.listed(&token(number))));
        let is_told = || following.entry().refused.is_some_and(|told| told.contains(why));
        following.until_without_a_gap(why, is_told).await;
        assert!(following.uses(0), "{why}");
    }
}

#[tokio::test]
async fn a_cluster_that_has_left_is_not_registered_anew_from_what_was_listed_before() {
    let following = Following::read_every(Duration::from_hours(1)).await;
    following.tell(Err(String::new()));
    let clusters = &following.world.cx.objects.member_clusters;
    let record = clusters.get(&RootKey::new(None, "c1")).unwrap();
    following.world.server.remove(CLUSTER).unwrap();
    clusters.remove(&record);
    following.world.cx.shares.notify_changed();
    let loads = || following.source.loads.load(Ordering::SeqCst);
    following.until("the list is read anew", || loads() == 2).await;
    following.until("it is let go", || following.entry() == DirectoryEntry::default()).await;
    assert!(following.member().is_none() && following.world.server.find(CLUSTER).is_none());
}

#[tokio::test]
async fn nobody_is_unknown_by_answers_to_what_was_asked_before_the_fleet_was_ours() {
    let world = World::new();
    let (cx, fleet) = (&world.cx, world.cx.shares.state(Share::Fleet));
    fleet.stop();
    let source = FakeSource::of(Err(String::new()), LOOK);
    let mut directory = Directory::new(Arc::clone(cx), Box::new(source), Dialer::default());
    directory.was_read = true;
    directory.queries_running.spawn(async { ClusterAnswers::default() });
    fleet.start();
    directory.refresh().await;
    let mut is_unknown = Vec::new();
    while let Some(answers) = directory.queries_running.join_next().await {
        directory.apply_answers(answers.unwrap()).await;
        directory.sync_sessions();
        is_unknown.push(matches!(cx.members.find("c2", Share::Fleet, fleet.term()), Lookup::Unknown));
    }
    assert_eq!(is_unknown, [false, true]);
}

#[tokio::test]
async fn nobody_is_unknown_whose_record_could_not_be_read() {
    let world = World::new();
    world.cx.members.remove("c1");
    world.knows_cluster(&json!({ "metadata": { "uid": "m" }, "spec": {}, "status": { "uid": UID } }));
    let source = FakeSource::of(Err(String::new()), LOOK);
    let mut directory = Directory::new(Arc::clone(&world.cx), Box::new(source), Dialer::default());
    directory.was_read = true;
    directory.add(FakeCluster::start(UID).await.listed(&token(0)));
    world.server.refuse(&format!("GET {CLUSTER}"));
    directory.refresh().await;
    assert!(matches!(world.cx.member("c1"), Lookup::NotLoaded));
    world.server.forget_faults();
    directory.refresh().await;
    assert!(matches!(world.cx.member("c1"), Lookup::Found(_)));
}

#[tokio::test]
async fn a_second_name_counts_as_unusable_and_not_as_one_that_may_answer_yet() {
    let world = World::new();
    world.knows_cluster(&json!({ "metadata": { "uid": "m" }, "spec": {}, "status": { "uid": UID } }));
    let source = FakeSource::of(Err(String::new()), LOOK);
    let mut directory = Directory::new(Arc::clone(&world.cx), Box::new(source), Dialer::default());
    directory.was_read = true;
    directory.add(ListedCluster { name: "c2".to_owned(), ..FakeCluster::start(UID).await.listed(&token(0)) });
    let counted = |directory: &Directory| {
        directory.update_metrics();
        ["connecting", "unusable"]
            .map(|state| world.cx.metrics.members.get_or_create(&StateLabels { state }).get())
    };
    assert_eq!(counted(&directory), [1, 0]);
    directory.register("c2".to_owned(), UID).await.unwrap();
    assert_eq!(counted(&directory), [0, 1]);
}

#[tokio::test]
async fn until_the_directory_is_read_nobody_is_unlisted() {
    let world = World::new();
    world.knows_cluster(&json!({ "metadata": { "uid": "m" }, "spec": {}, "status": { "uid": UID } }));
    let source = FakeSource::of(Err(String::new()), LOOK);
    let mut directory = Directory::new(Arc::clone(&world.cx), Box::new(source), Dialer::default());
    let mut counted = Vec::new();
    for was_read in [false, true] {
        directory.was_read = was_read;
        directory.update_metrics();
        counted.push(
            ["connecting", "unlisted"]
                .map(|state| world.cx.metrics.members.get_or_create(&StateLabels { state }).get()),
        );
    }
    assert_eq!(counted, [[1, 0], [0, 1]]);
}

/// What was read before of its record may be older than what it was registered as.
#[tokio::test]
async fn a_cluster_is_no_second_name_for_itself() {
    let world = World::new();
    world.knows_cluster(&json!({ "metadata": { "uid": "m" }, "spec": {}, "status": { "uid": UID } }));
    let clusters = &world.cx.objects.member_clusters;
    let record = clusters.get(&RootKey::new(None, "c1")).unwrap();
    clusters.remove(&record);
    let source = FakeSource::of(Err(String::new()), LOOK);
    let mut directory = Directory::new(Arc::clone(&world.cx), Box::new(source), Dialer::default());
    directory.add(FakeCluster::start(UID).await.listed(&token(0)));
    directory.listed.get_mut("c1").unwrap().uid = Some(UID.to_owned());
    directory.refresh_records().await.unwrap();
    assert_eq!(directory.duplicates, BTreeMap::new());
    assert_eq!(directory.listed["c1"].uid.as_deref(), Some(UID));
}

#[tokio::test]
async fn an_answer_to_a_question_at_another_address_registers_nobody() {
    let world = World::new();
    let source = FakeSource::of(Err(String::new()), LOOK);
    let mut directory = Directory::new(Arc::clone(&world.cx), Box::new(source), Dialer::default());
    let (wrong, right) = (FakeCluster::start("another").await, FakeCluster::start(UID).await);
    let answer = |from: &FakeCluster, uid: &str| {
        let query = ClusterQuery { name: "c1".to_owned(), fingerprint: from.listed(&token(0)).fingerprint };
        let answer = ClusterAnswer { query, uid: Some(uid.to_owned()), version: Some(uid.to_owned()) };
        ClusterAnswers { fleet: None, answers: vec![answer] }
    };
    directory.add(wrong.listed(&token(0)));
    let late = answer(&wrong, "another");
    // The Secret was put right before it came.
    directory.add(right.listed(&token(0)));
    directory.apply_answers(late).await;
    assert_eq!((&directory.listed["c1"].uid, directory.listed["c1"].version.as_str()), (&None, ""));
    assert_eq!(world.server.find(CLUSTER), None);
    directory.apply_answers(answer(&right, UID)).await;
    assert_eq!(directory.listed["c1"].uid.as_deref(), Some(UID));
}
