use crate::http_request::HttpRequest;
use crate::world::{CommandOutput, PROGRAM};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

const SECRETS: &str = "/api/v1/namespaces/tke-business-members/secrets";
const LEAVE: [&str; 3] = ["leave", "east", "--forget"];
/// The uid of the fake cluster.
const UID: &str = "1";

/// Code and body.
type Response = (u16, Value);

/// A fake kube-apiserver with business-api behind it.
struct FakeApiServer {
    server: String,
    kubeconfig: PathBuf,
    /// `GET /path` of each request, in order.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Drop for FakeApiServer {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.kubeconfig);
    }
}

impl FakeApiServer {
    /// `answer` gets a request and the requests before it; for `None`, the default response is sent.
    fn start(answer: impl Fn(&str, &[String]) -> Option<Response> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), &log, &*answer));
            }
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        let kubeconfig = std::env::temp_dir().join(format!("business-stand-in-{}", uuid::Uuid::new_v4()));
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        Self { server, kubeconfig, requests }
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        let mut command = Command::new(PROGRAM);
        command.args(args).env("KUBECONFIG", &self.kubeconfig).env("LC_ALL", "C.UTF-8");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        CommandOutput {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Runs a command with this server as the member cluster, too.
    fn run_for_member(&self, args: &[&str]) -> CommandOutput {
        self.run(&[args, &["--kubeconfig", self.kubeconfig.to_str().unwrap()]].concat())
    }

    fn requests(&self, verb: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|call| call.starts_with(verb)).cloned().collect()
    }
}

fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<String>>,
    answer: &dyn Fn(&str, &[String]) -> Option<Response>,
) {
    let Some(HttpRequest { method, path, .. }) = HttpRequest::read(&stream) else { return };
    let call = format!("{method} {path}");
    let mut log = log.lock().unwrap();
    let (code, body) = answer(&call, log.as_slice()).unwrap_or_else(|| (200, default_response(&call)));
    log.push(call);
    let body = body.to_string();
    let head = format!("HTTP/1.1 {code} Answer\r\nContent-Type: application/json\r\nConnection: close\r\n");
    // A program that asks for several things at once leaves when the first was refused.
    drop(write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()));
}

fn default_response(call: &str) -> Value {
    match call {
        call if call.ends_with("/selfsubjectaccessreviews") => json!({"status": {"allowed": true}}),
        call if call == get("memberclusters/east") => east(UID),
        "GET /api/v1/namespaces/kube-system" => json!({"metadata": {"uid": UID}}),
        _ => json!({"metadata": {}, "items": []}),
    }
}

/// The `MemberCluster` east, with the uid of this cluster.
fn east(uid: &str) -> Value {
    json!({"metadata": {"name": "east", "uid": "record"}, "status": {"uid": uid}})
}

fn failure(code: u16, message: &str) -> Response {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}),
    )
}

/// `GET /path` of our group.
fn get(path: &str) -> String {
    format!("GET /apis/business.tkestack.io/v1/{path}")
}

#[test]
fn what_may_not_be_listed_ties_a_cluster_and_holds_namespaces() {
    for plural in ["tenants", "projects", "namespaces"] {
        let kube = FakeApiServer::start(move |call, _| {
            (call == get(plural)).then(|| failure(403, &format!("{plural} is forbidden")))
        });
        let left = kube.run(&LEAVE);
        assert_eq!((left.code, left.out.as_str()), (3, ""), "{}", left.err);
        assert_eq!(kube.requests("DELETE"), [""; 0], "{}", left.err);
    }
    let kube = FakeApiServer::start(|call, _| match call {
        "GET /api/v1/namespaces" => Some((200, json!({"items": [{"metadata": {"name": "shop"}}]}))),
        call => (call == get("namespaces")).then(|| failure(403, "namespaces is forbidden")),
    });
    let found = kube.run_for_member(&["discover", "east"]);
    assert_eq!((found.code, found.out.as_str()), (3, ""), "{}", found.err);
}

#[test]
fn a_cluster_is_forgotten_with_the_secret_that_its_record_names() {
    let kube = |has_secret: bool| {
        FakeApiServer::start(move |call, requests| {
            if call == get("memberclusters/east") {
                let gone = requests.iter().any(|call| call.starts_with("DELETE") && call.ends_with("/east"));
                let spec = json!({"credentials": {"secretName": "by-hand"}});
                let record = json!({"metadata": {"name": "east", "uid": "1"}, "spec": spec});
                return Some(if gone { failure(404, "no such cluster") } else { (200, record) });
            }
            let is_secret = call == format!("GET {SECRETS}/by-hand");
            (is_secret && !has_secret).then(|| failure(404, "no such Secret"))
        })
    };
    let elsewhere = kube(false);
    let left = elsewhere.run(&LEAVE);
    assert_eq!(left.code, 1, "{}", left.err);
    assert!(left.err.contains("by --members-namespace"), "{}", left.err);
    assert_eq!(elsewhere.requests("DELETE"), [""; 0]);
    let left = kube(true).run(&[&LEAVE[..], &["-o", "json"]].concat());
    assert!(left.err.contains("its token stay until"), "whoever reads JSON is told, too: {}", left.err);
    let told = left.json(0);
    assert_eq!(told, json!({"cluster": "east", "cordoned": false, "forgotten": true, "ties": []}));
    let there = kube(true);
    let left = there.run(&LEAVE);
    assert!(
        left.err.contains("its token stay until") && left.err.contains("kubectl delete -k deploy/member")
    );
    assert_eq!(left.expect(0), "cluster east has left\n");
    let record = get("memberclusters/east").replace("GET", "DELETE");
    assert_eq!(there.requests("DELETE"), [format!("DELETE {SECRETS}/by-hand"), record]);
}

#[test]
fn whoever_drains_has_done_what_was_asked_whatever_others_have_there() {
    let kube = FakeApiServer::start(|call, _| {
        let web =
            json!({"metadata": {"name": "web"}, "spec": {"clusters": {"east": {"hard": {"pods": "1"}}}}});
        if call == get("projects/shop") {
            return Some((200, web));
        }
        (call == get("projects")).then(|| (200, json!({"metadata": {}, "items": [web]})))
    });
    let drained = kube.run(&["leave", "east", "--drain", "shop", "--yes"]);
    assert!(drained.err.contains("project shop: its budget on east is given back"), "{}", drained.err);
    assert!(drained.expect(0).contains("leave east --drain web --yes"), "what is left is told");
    for args in [&["leave", "east"][..], &["leave", "east", "--plan"], &LEAVE] {
        assert_eq!(kube.run(args).code, 3, "{args:?}");
    }
    let kept = kube.run(&LEAVE);
    for part in ["is cordoned", "is not forgotten: what stands in the plan goes first"] {
        assert!(kept.err.contains(part), "{}", kept.err);
    }
    assert_eq!(kube.requests("DELETE"), [""; 0], "nothing is forgotten while something is charged");
}

#[test]
fn who_sees_nothing_is_not_told_that_all_is_well() {
    let nothing = FakeApiServer::start(|_, _| None);
    let audited = nothing.run(&["audit"]);
    assert_eq!((audited.code, audited.out.as_str()), (3, ""), "{}", audited.err);
    assert!(audited.err.contains("nothing was looked at"), "{}", audited.err);
    assert_eq!(nothing.run(&["audit", "-o", "json"]).json(3)["consistent"], false);
    for looks in ["tree", "top"] {
        let ended = nothing.run(&[looks]);
        assert!(ended.code == 0 && ended.err.contains("no project is there for you"), "{}", ended.err);
    }
}

#[test]
fn a_project_that_is_not_there_stops_a_drain_before_anything_is_changed() {
    let kube = FakeApiServer::start(|call, _| {
        (call == get("projects/shop")).then(|| failure(404, "no such project"))
    });
    let drained = kube.run(&["leave", "east", "--drain", "shop", "--yes"]);
    assert_eq!((drained.code, kube.requests("PATCH")), (1, Vec::new()), "{}", drained.err);
    let nothing = FakeApiServer::start(|_, _| None).run(&["leave", "east", "--drain", "shop", "--yes"]);
    assert!(nothing.err.contains("project shop: it has no budget on east"), "{}", nothing.err);
}

#[test]
fn a_hold_keeps_a_budget_and_says_how_it_goes() {
    let kube = FakeApiServer::start(|call, _| {
        let hold = json!({"uid": "u1", "clusterName": "east", "namespace": "lost", "hard": {"pods": "2"}});
        let shop = json!({
            "metadata": {"name": "shop"}, "spec": {"clusters": {"east": {"hard": {"pods": "4"}}}},
            "status": {"ledger": {"held": [hold]}},
        });
        match call {
            call if call == get("projects/shop") => Some((200, shop)),
            call if call == get("projects/shop").replace("GET", "PATCH") => {
                let (code, mut why) = failure(422, "can NOT remove cluster \"east\": 1 children use it");
                why["details"] = json!({"causes": [{"field": "spec.clusters"}]});
                Some((code, why))
            }
            _ => None,
        }
    });
    let drained = kube.run(&["leave", "east", "--drain", "shop", "--yes"]);
    assert_eq!(drained.code, 3, "{}", drained.err);
    assert!(drained.err.contains("next: it goes by an audit, or business-api audit --write-off u1"));
}

#[test]
fn a_cluster_is_forgotten_in_the_host_cluster_alone() {
    let direct = FakeApiServer::start(|call, _| {
        let ceiling = json!({"spec": {"clusters": {"east": {"hard": {"pods": "1"}}}}});
        match call {
            "GET /api/v1" => Some((404, json!({"paths": ["/apis", "/healthz"]}))),
            call => (call == get("tenants")).then(|| (200, json!({"metadata": {}, "items": [ceiling]}))),
        }
    });
    let left = direct.run(&LEAVE);
    assert_eq!(left.code, 3, "{}", left.err);
    assert!(left.err.contains("next: name the host cluster's context: --context"), "{}", left.err);
    let drained = direct.run(&[&LEAVE[..], &["--drain", "shop", "--yes"]].concat());
    assert_eq!(drained.code, 3, "{}", drained.err);
    assert_eq!((direct.requests("PATCH"), direct.requests("DELETE")), (Vec::new(), Vec::new()));
    let joined = direct.run_for_member(&["join", "east", "--dry-run"]);
    assert!(joined.err.contains("is no kube-apiserver"), "{}", joined.err);
}

#[test]
fn what_stands_in_the_way_of_a_join_is_said_before_anything_is_written() {
    let kube = |no_secrets: bool, no_namespace: bool| {
        FakeApiServer::start(move |call, _| match call {
            call if call == get("memberclusters/east") => Some(failure(404, "no such cluster")),
            call if call.starts_with(&format!("GET {SECRETS}/")) => {
                Some(failure(if no_secrets { 403 } else { 404 }, "no Secret for you"))
            }
            "GET /api/v1/namespaces/tke-business-members" if no_namespace => {
                Some(failure(404, "no such namespace"))
            }
            _ => None,
        })
    };
    let join = ["join", "east", "--dry-run"];
    let without_role = kube(true, false).run_for_member(&join);
    assert_eq!(without_role.code, 3, "{}", without_role.err);
    assert!(without_role.err.contains("next: have the Role business-operator"), "{}", without_role.err);
    let elsewhere = kube(false, true).run_for_member(&join);
    assert_eq!(elsewhere.code, 3, "{}", elsewhere.err);
    let told =
        "error: the host cluster has no namespace tke-business-members\n  next: --members-namespace is";
    assert!(elsewhere.err.contains(told), "{}", elsewhere.err);
    let good = kube(false, false);
    let (own, named) = (
        good.run_for_member(&join),
        good.run_for_member(&[&join[..], &["--server", "https://east.example.org"]].concat()),
    );
    assert!(own.err.contains("a controller in a pod does not reach"), "{}", own.err);
    assert!(!named.err.contains("a controller in a pod"), "{}", named.err);
    for ended in [own, named] {
        assert!(ended.expect(0).starts_with("cluster east can be joined"));
    }
    assert_eq!(good.requests("PATCH"), [""; 0]);
}

#[test]
fn what_a_tunnel_needs_of_its_cluster_is_read_before_anything_is_written() {
    let kube = FakeApiServer::start(|call, _| match call {
        "GET /api/v1/namespaces/default/configmaps/kube-root-ca.crt" => {
            Some(failure(403, "User \"eve\" cannot get resource \"configmaps\""))
        }
        call if call == get("memberclusters/east") => Some(failure(404, "no such cluster")),
        call => call.starts_with(&format!("GET {SECRETS}/")).then(|| failure(404, "no such Secret")),
    });
    let refused = kube.run_for_member(&["join", "east", "--tunnel", "tunnel.example.org", "--no-wait"]);
    assert_eq!(refused.code, 3, "{}", refused.err);
    assert!(refused.err.contains("cannot get resource \"configmaps\""), "{}", refused.err);
    assert_eq!(kube.requests("PATCH"), [""; 0]);
}

#[test]
fn a_secret_that_rotate_does_not_get_is_looked_for_where_it_may_be() {
    for (code, next) in
        [(403, "have the Role business-operator"), (404, "the chart's members.namespace may be another one")]
    {
        let kube = FakeApiServer::start(move |call, _| {
            call.starts_with(&format!("GET {SECRETS}/")).then(|| failure(code, "no Secret for you"))
        });
        let ended = kube.run_for_member(&["rotate", "east"]);
        assert!(ended.err.contains(&format!("next: {next}")), "{}", ended.err);
    }
}

/// A Secret with a kubeconfig.
fn kubeconfig_secret(kubeconfig: &str) -> Response {
    let data = json!({"kubeconfig": BASE64_STANDARD.encode(kubeconfig)});
    (200, json!({"metadata": {"resourceVersion": "1"}, "data": data}))
}

/// The Secret that `join` makes.
fn secret_of_join() -> Response {
    let kubeconfig = json!({
        "current-context": "east", "clusters": [{"name": "east", "cluster": {"server": "https://east"}}],
        "contexts": [{"name": "east", "context": {"cluster": "east", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "old"}}],
    });
    kubeconfig_secret(&kubeconfig.to_string())
}

fn new_token() -> Response {
    (200, json!({"status": {"token": "new", "expirationTimestamp": "2099-01-01T00:00:00Z"}}))
}

#[test]
fn a_secret_that_cannot_be_written_is_a_matter_of_the_members_role() {
    let kube = FakeApiServer::start(|call, _| match call {
        call if call == format!("GET {SECRETS}/cluster-east") => Some(secret_of_join()),
        call if call == format!("PATCH {SECRETS}/cluster-east") => Some(failure(403, "no Secret for you")),
        call => call.ends_with("/token").then(new_token),
    });
    for command in ["join", "rotate"] {
        let ended = kube.run_for_member(&[command, "east"]);
        assert_eq!(ended.code, 3, "{command}: {}", ended.err);
        assert!(ended.err.contains("next: have the Role business-operator"), "{command}: {}", ended.err);
    }
}

#[test]
fn nobody_is_asked_to_take_back_what_is_refused_already() {
    const KUBE_SYSTEM: &str = "GET /api/v1/namespaces/kube-system";
    // Of the token "new".
    const DIGEST: &str = "sha256:11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437";
    for (code, told) in [
        (401, "; the old ones are refused\n"),
        (200, "; the old ones are not of join or rotate: who made them has to take them back\n"),
        (403, "; the old ones are not of join or rotate: who made them has to take them back\n"),
    ] {
        // Somebody has deleted the Secrets of all tokens before: none is left to revoke.
        let kube = FakeApiServer::start(move |call, requests| match call {
            call if call == format!("GET {SECRETS}/cluster-east") => Some(secret_of_join()),
            call if call.ends_with("/token") => Some(new_token()),
            call if call == get("memberclusters/east") => {
                let credential = json!({"fingerprint": DIGEST, "since": "2026-01-01T00:00:00Z"});
                let mut cluster = east(UID);
                cluster["status"]["credential"] = credential;
                Some((200, cluster))
            }
            // First the administrator asks which cluster it is.
            KUBE_SYSTEM if requests.iter().any(|call| call == KUBE_SYSTEM) && code != 200 => {
                Some(failure(code, "not with this token"))
            }
            _ => None,
        });
        let rotated = kube.run_for_member(&["rotate", "east"]).expect(0);
        assert!(rotated.ends_with(told), "{code}: {rotated}");
    }
}

#[test]
fn a_kept_kubeconfig_that_takes_no_token_is_told_before_there_is_one() {
    for (kubeconfig, why) in [("[", "cannot be used"), ("{}", "its current context has no user")] {
        let kube = FakeApiServer::start(move |call, _| match call {
            call if call == format!("GET {SECRETS}/cluster-east") => Some(kubeconfig_secret(kubeconfig)),
            call => call.ends_with("/token").then(new_token),
        });
        let ended = kube.run_for_member(&["rotate", "east"]);
        assert_eq!(ended.code, 1, "{}", ended.err);
        for part in ["the kubeconfig kept in the Secret", why, "`kubectl business join` makes it anew"] {
            assert!(ended.err.contains(part), "{part}: {}", ended.err);
        }
        assert!(!ended.err.contains("name one with --kubeconfig"), "{}", ended.err);
        assert_eq!(kube.requests("POST"), [""; 0], "no token is left behind");
    }
}

#[test]
fn a_server_that_is_not_there_is_told_at_once_and_one_that_asks_for_patience_is_asked_again() {
    let kube = FakeApiServer::start(|_, _| Some((503, json!("service unavailable"))));
    let ended = kube.run(&["tree"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.contains("kubectl get apiservice v1.business.tkestack.io"), "{}", ended.err);
    let kube = FakeApiServer::start(|call, requests| {
        let (_, mut busy) = failure(503, "starting");
        busy["details"] = json!({"retryAfterSeconds": 1});
        (call == get("projects") && !requests.contains(&get("projects"))).then_some((503, busy))
    });
    kube.run(&["tree"]).expect(0);
    assert_eq!(kube.requests(&get("projects")).len(), 2);
}

/// A join with several obstacles, for the record of refusals.
pub(crate) fn blocked_join() -> CommandOutput {
    let kube = FakeApiServer::start(|call, _| match call {
        "GET /version" => Some((200, json!({"major": "1", "minor": "28", "gitVersion": "v1.28.4"}))),
        "GET /api/v1/namespaces/tke-business-members" => Some(failure(404, "no such namespace")),
        call if call == get("memberclusters") => {
            let west = json!({"metadata": {"name": "west"}, "status": {"uid": UID}});
            Some((200, json!({"metadata": {}, "items": [west]})))
        }
        call if call == get("memberclusters/east") => Some(failure(404, "no such cluster")),
        call => call.starts_with(&format!("GET {SECRETS}/")).then(|| failure(404, "no such Secret")),
    });
    let ended = kube.run_for_member(&["join", "east", "--server", "https://east.example.org:6443"]);
    assert_eq!(kube.requests("PATCH"), [""; 0], "{}", ended.err);
    let err = ended.err.replace(&kube.server, "https://east.example.org:6443");
    CommandOutput { err, ..ended }
}

#[test]
fn a_join_leaves_changed_roles_of_people_and_takes_away_what_a_shared_cluster_must_not_have() {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    const BINDING: &str =
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/business-confine-people";
    for (shared, code) in [(false, 200), (true, 200), (true, 404)] {
        let kube = FakeApiServer::start(move |call, _| {
            let selects = |label: &str| {
                let labels = json!({"matchLabels": {format!("rbac.authorization.k8s.io/{label}"): "true"}});
                json!({"aggregationRule": {"clusterRoleSelectors": [labels]}})
            };
            match call.strip_prefix(&format!("GET {ROLES}/business%3A")) {
                Some("admin") => return Some((200, json!({"rules": []}))),
                Some("edit") => return Some((200, selects("aggregate-to-less"))),
                Some("view") => return Some((200, selects("aggregate-to-view"))),
                Some(_) => return Some(failure(404, "no such role")),
                None => {}
            }
            let unknown = call == get("memberclusters/east")
                || call.starts_with(&format!("GET {SECRETS}/"))
                || (call == format!("DELETE {BINDING}") && code == 404);
            if call.ends_with("/token") {
                return Some(new_token());
            }
            unknown.then(|| failure(404, "not found"))
        });
        let join = ["join", "east", "--server", "https://east.example.org", "--no-wait", "--shared"];
        let ended = kube.run_for_member(join.get(..if shared { 6 } else { 5 }).unwrap());
        assert!(ended.err.contains("they stay so: business:admin, business:edit\n"), "{}", ended.err);
        let applied = kube.requests(&format!("PATCH {ROLES}/business%3A"));
        let wanted = ["view", "offered%3Aview"].map(|name| format!("PATCH {ROLES}/business%3A{name}"));
        assert_eq!(applied, wanted);
        let deleted = if shared { vec![format!("DELETE {BINDING}")] } else { Vec::new() };
        assert_eq!(kube.requests("DELETE"), deleted);
        let made = ended.expect(0);
        assert!(made.starts_with("cluster east joined"), "{made}");
    }
}

/// A file for `adopt`.
struct AdoptFile(PathBuf);

impl Drop for AdoptFile {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

impl AdoptFile {
    fn new() -> Self {
        Self::with(&["web".to_owned()])
    }

    /// With these namespaces, as a list.
    fn with(namespaces: &[String]) -> Self {
        let path = std::env::temp_dir().join(format!("business-take-{}", uuid::Uuid::new_v4()));
        let items: Vec<Value> = namespaces
            .iter()
            .map(|namespace| {
                json!({
                    "apiVersion": "business.tkestack.io/v1", "kind": "Namespace", "metadata": {"namespace": "shop"},
                    "spec": {"clusterName": "east", "namespace": namespace, "hard": {"pods": "1"}},
                })
            })
            .collect();
        std::fs::write(&path, json!({ "items": items }).to_string()).unwrap();
        Self(path)
    }

    fn args(&self) -> [&str; 3] {
        ["adopt", "-f", self.0.to_str().unwrap()]
    }
}

#[test]
fn what_stands_in_another_cluster_is_not_taken_for_what_is_in_the_named_one() {
    let take = AdoptFile::new();
    let adopt = take.args();
    let commands = [&["discover", "east"][..], &adopt, &["rotate", "east"]];
    let operators = "User \"bob\" cannot get resource \"memberclusters\": this is for operators";
    for (code, answer, told, next) in [
        (
            200,
            east("another"),
            "leads to another cluster than east stands for",
            "name that cluster's by --kubeconfig",
        ),
        (200, east(""), "has not looked at cluster east yet", "`kubectl business describe cluster east`"),
        (403, failure(403, operators).1, "this is for operators", "ask an operator"),
    ] {
        let kube = FakeApiServer::start(move |call, _| {
            (call == get("memberclusters/east")).then(|| (code, answer.clone()))
        });
        for command in commands {
            let ended = kube.run_for_member(command);
            assert_eq!((ended.code, ended.out.as_str()), (3, ""), "{command:?}: {}", ended.err);
            assert!(ended.err.contains(told), "{command:?}: {}", ended.err);
            assert!(ended.err.contains(&format!("next: {next}")), "{command:?}: {}", ended.err);
        }
        for verb in ["POST", "PATCH"] {
            assert_eq!(kube.requests(verb), [""; 0], "nothing is written");
        }
    }
}

#[test]
fn what_is_there_is_taken() {
    let take = AdoptFile::new();
    let kube = FakeApiServer::start(|call, _| {
        let there = json!({"metadata": {}, "items": [{"metadata": {"name": "web"}}]});
        (call == "GET /api/v1/namespaces").then_some((200, there))
    });
    let taken = kube.run_for_member(&take.args()).expect(0);
    assert!(taken.starts_with("1 namespace is taken"), "{taken}");
    assert_eq!(kube.requests("POST"), [get("namespaces").replace("GET", "POST")]);
}

#[test]
fn what_is_off_limits_is_neither_offered_nor_taken() {
    let take = AdoptFile::new();
    let kube = FakeApiServer::start(|call, _| {
        let labels = json!({"business.tkestack.io/off-limits": "true"});
        let namespaces =
            json!([{"metadata": {"name": "web", "labels": labels}}, {"metadata": {"name": "free"}}]);
        (call == "GET /api/v1/namespaces").then(|| (200, json!({"metadata": {}, "items": namespaces})))
    });
    let offered = kube.run_for_member(&["discover", "east"]).expect(0);
    assert!(offered.contains("free") && !offered.contains("web"), "{offered}");
    let refused = kube.run_for_member(&take.args());
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("namespace web is off limits"), "{}", refused.err);
    assert_eq!(kube.requests("POST"), [""; 0]);
}

#[test]
fn as_many_are_taken_at_once_as_the_server_takes() {
    let mut namespaces: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
    let all = AdoptFile::with(&namespaces);
    namespaces.push("n1000".to_owned());
    let one_more = AdoptFile::with(&namespaces);
    let there: Vec<Value> = namespaces.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    let there = json!({"metadata": {}, "items": there});
    let kube =
        FakeApiServer::start(move |call, _| (call == "GET /api/v1/namespaces").then(|| (200, there.clone())));
    let taken = kube.run_for_member(&all.args()).expect(0);
    assert!(taken.starts_with("1000 namespaces are taken"), "{taken}");
    let refused = kube.run_for_member(&one_more.args());
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("1001 objects in it; 1000 are taken at once"), "{}", refused.err);
    assert_eq!(kube.requests("POST"), [get("namespaces").replace("GET", "POST")]);
}

#[test]
fn adopt_and_join_are_rehearsed_by_the_flag_of_the_other_commands() {
    let take = AdoptFile::new();
    let (adopt, join) = (take.args(), ["join", "east"]);
    let kube = FakeApiServer::start(|call, _| {
        let there = json!({"metadata": {}, "items": [{"metadata": {"name": "web"}}]});
        (call == "GET /api/v1/namespaces").then_some((200, there))
    });
    for dry_run in ["--dry-run", "--dry-run=server"] {
        let told = kube.run_for_member(&[&adopt[..], &[dry_run]].concat()).expect(0);
        assert_eq!(told, "1 namespace would be taken\n");
        let told = kube.run_for_member(&[&join[..], &[dry_run]].concat()).expect(0);
        assert!(told.starts_with("cluster east can be joined"), "{told}");
    }
    for command in [&adopt[..], &join] {
        let client = kube.run_for_member(&[command, &["--dry-run=client"]].concat());
        assert!(client.code == 2 && client.err.contains("`create` alone"), "{command:?}: {}", client.err);
    }
    assert_eq!(kube.requests("PATCH"), [""; 0]);
}

#[test]
fn a_list_that_always_promises_one_more_page_is_not_read_for_ever() {
    let take = AdoptFile::new();
    let kube = FakeApiServer::start(|call, _| {
        let more = json!({"metadata": {"continue": "more"}, "items": []});
        (call == "GET /api/v1/namespaces").then_some((200, more))
    });
    let ended = kube.run_for_member(&take.args());
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.contains("/api/v1/namespaces does not end within 500 pages"), "{}", ended.err);
    assert_eq!(kube.requests("GET /api/v1/namespaces").len(), 501, "with that of kube-system");
}

#[test]
fn a_member_cluster_that_refuses_is_no_matter_of_the_platforms_roles() {
    for (code, message, exit, next) in [
        (401, "Unauthorized", 1, "has no credentials there"),
        (403, "User \"system:anonymous\" cannot get path \"/version\"", 1, "has no credentials there"),
        (403, "User \"eve\" cannot get path \"/version\"", 3, "has no rights for this there"),
    ] {
        let kube = FakeApiServer::start(move |call, _| match call {
            "GET /version" => Some(failure(code, message)),
            call if call == get("memberclusters/east") => Some(failure(404, "no such cluster")),
            call => call.starts_with(&format!("GET {SECRETS}/")).then(|| failure(404, "no such Secret")),
        });
        let ended = kube.run_for_member(&["join", "east"]);
        assert_eq!(ended.code, exit, "{}", ended.err);
        assert!(ended.err.contains("next: it is the member cluster that refuses"), "{}", ended.err);
        assert!(ended.err.contains(next), "{}", ended.err);
        assert!(!ended.err.contains("kubectl business login"), "{}", ended.err);
    }
}

#[test]
fn what_did_not_come_in_time_is_told_with_what_is_so_now() {
    let kube = FakeApiServer::start(|call, _| match call {
        call if call == format!("GET {SECRETS}/cluster-east") => Some(secret_of_join()),
        call if call.ends_with("/token") => Some(new_token()),
        call if call == get("namespaces/shop/namespaces") => {
            let web = json!({"metadata": {"name": "east-web"}, "spec": {"clusterName": "east"}});
            Some((200, json!({"metadata": {}, "items": [web]})))
        }
        _ => None,
    });
    let rotated = kube.run_for_member(&["rotate", "east", "--timeout", "0s"]);
    let drained = kube.run(&["leave", "east", "--drain", "shop", "--yes", "--timeout", "0s"]);
    for (ended, next) in
        [(rotated, "the controller goes on with the old ones"), (drained, "they are still being deleted")]
    {
        assert_eq!(ended.code, 4, "{}", ended.err);
        assert!(ended.err.contains(&format!("next: {next}")), "{}", ended.err);
        assert!(!ended.err.contains("without you"), "{}", ended.err);
    }
}

#[test]
fn who_has_named_no_project_is_told_how() {
    let kube = FakeApiServer::start(|call, _| {
        call.contains("/v1/namespaces/").then(|| failure(404, "projects \"default\" not found"))
    });
    let next = "next: no project was named: -n PROJECT";
    let ended = kube.run(&["kubeconfig", "east-web"]);
    assert!(ended.code == 1 && ended.err.contains(next), "{}", ended.err);
    assert!(ended.err.contains("kubectl config set-context --current --namespace=PROJECT"), "{}", ended.err);
    let named = kube.run(&["kubeconfig", "east-web", "-n", "shop"]);
    assert!(named.code == 1 && !named.err.contains(next), "{}", named.err);
}

#[test]
fn what_is_only_printed_needs_a_project_that_was_named() {
    let kube = FakeApiServer::start(|_, _| None);
    let create = ["create", "ns", "web", "--cluster", "east", "--hard", "pods=1", "--dry-run=client"];
    let ended = kube.run(&[&create[..], &["-o", "yaml"]].concat());
    assert_eq!((ended.code, ended.out.as_str()), (2, ""), "it would lie in project default: {}", ended.err);
    assert!(ended.err.contains("no project was named: -n PROJECT"), "{}", ended.err);
    let named = kube.run(&[&create[..], &["-o", "yaml", "-n", "shop"]].concat()).expect(0);
    assert!(named.contains("namespace: shop"), "{named}");
}

#[test]
fn whoever_enters_a_namespace_is_told_how_to_come_back() {
    let kube = FakeApiServer::start(|call, _| {
        let issued = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "east/front",
            "clusters": [{"name": "east/front", "cluster": {"server": "https://east"}}],
            "contexts": [{"name": "east/front", "context": {"cluster": "east/front", "user": "east/front"}}],
            "users": [{"name": "east/front", "user": {"token": "t"}}],
        });
        call.ends_with("/certificate").then_some((200, issued))
    });
    let merge = ["kubeconfig", "east-front", "-n", "web", "--merge"];
    let first = kube.run(&merge);
    let told = "the current context is east/front; `kubectl config use-context c` leads back";
    assert!(first.err.contains(told), "{}", first.err);
    first.expect(0);
    let again = kube.run(&[&merge[..], &["--context", "c"]].concat());
    assert!(again.code == 0 && !again.err.contains("leads back"), "it was so before: {}", again.err);
}

#[test]
fn no_certificate_is_signed_for_a_file_that_stays() {
    let kube = FakeApiServer::start(|_, _| None);
    let file = kube.kubeconfig.with_extension("mine");
    std::fs::write(&file, "text").unwrap();
    let ended = kube.run(&["kubeconfig", "east-front", "-n", "web", "--file", file.to_str().unwrap()]);
    let kept = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((ended.code, kept.as_str()), (1, "text"), "{}", ended.err);
    assert!(ended.err.contains("an earlier kubeconfig of a namespace"), "{}", ended.err);
    let requests = kube.requests("GET");
    assert!(!requests.iter().any(|call| call.contains("/certificate")), "{requests:?}");
}

#[test]
fn kubeconfigs_of_several_namespaces_lie_beside_each_other_in_one_file() {
    // As business-api writes them: every name is CLUSTER/NAMESPACE.
    let kube = FakeApiServer::start(|call, _| {
        let name = call.strip_suffix("/certificate")?.rsplit('/').next()?.replace('-', "/");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": format!("https://{name}")}}],
            "users": [{"name": name, "user": {"token": name}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        });
        Some((200, config))
    });
    for name in ["c1-a", "c1-b", "c2-a", "c1-b"] {
        let ended = kube.run(&["--context", "c", "kubeconfig", name, "-n", "shop", "--merge"]);
        assert_eq!(ended.code, 0, "{}", ended.err);
    }
    let text = std::fs::read_to_string(&kube.kubeconfig).unwrap();
    let config: Value = serde_yaml_ng::from_str(&text).unwrap();
    for (list, own) in [("clusters", "c"), ("users", "u"), ("contexts", "c")] {
        let entries = config[list].as_array().unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names, [own, "c1/a", "c2/a", "c1/b"], "{list}");
    }
    assert_eq!(config["current-context"], "c1/b");
}
