use crate::asked::Asked;
use crate::world::{Ended, PROGRAM};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

const SECRETS: &str = "/api/v1/namespaces/tke-business-members/secrets";
const LEAVE: [&str; 3] = ["leave", "east", "--forget"];

/// Code and body.
type Answer = (u16, Value);

/// Stands for a kube-apiserver, business-api behind it.
struct StandIn {
    kubeconfig: PathBuf,
    /// `GET /path`, in their order.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.kubeconfig);
    }
}

impl StandIn {
    /// What `answer` says nothing of is done, and empty. It is told what was asked before.
    fn start(answer: impl Fn(&str, &[String]) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (heard, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (heard, answer) = (Arc::clone(&heard), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), &heard, &*answer));
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
        Self { kubeconfig, asked }
    }

    fn run(&self, args: &[&str]) -> Ended {
        let mut command = Command::new(PROGRAM);
        command.args(args).env("KUBECONFIG", &self.kubeconfig).env("LC_ALL", "C.UTF-8");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The same with this cluster as the member, too.
    fn run_for_member(&self, args: &[&str]) -> Ended {
        self.run(&[args, &["--kubeconfig", self.kubeconfig.to_str().unwrap()]].concat())
    }

    fn asked(&self, verb: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|call| call.starts_with(verb)).cloned().collect()
    }
}

fn serve(
    mut stream: TcpStream,
    heard: &Mutex<Vec<String>>,
    answer: &dyn Fn(&str, &[String]) -> Option<Answer>,
) {
    let Some(Asked { method, path, .. }) = Asked::read(&stream) else { return };
    let call = format!("{method} {path}");
    let mut heard = heard.lock().unwrap();
    let (code, body) = answer(&call, heard.as_slice()).unwrap_or_else(|| (200, done(&call)));
    heard.push(call);
    let body = body.to_string();
    let head = format!("HTTP/1.1 {code} Answer\r\nContent-Type: application/json\r\nConnection: close\r\n");
    // A program that asks for several things at once leaves when the first was refused.
    drop(write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()));
}

fn done(call: &str) -> Value {
    if call.ends_with("/selfsubjectaccessreviews") {
        return json!({"status": {"allowed": true}});
    }
    json!({"metadata": {}, "items": []})
}

fn refused(code: u16, message: &str) -> Answer {
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
        let kube = StandIn::start(move |call, _| {
            (call == get(plural)).then(|| refused(403, &format!("{plural} is forbidden")))
        });
        let left = kube.run(&LEAVE);
        assert_eq!((left.code, left.out.as_str()), (3, ""), "{}", left.err);
        assert_eq!(kube.asked("DELETE"), [""; 0], "{}", left.err);
    }
    let kube = StandIn::start(|call, _| match call {
        "GET /api/v1/namespaces" => Some((200, json!({"items": [{"metadata": {"name": "shop"}}]}))),
        call => (call == get("namespaces")).then(|| refused(403, "namespaces is forbidden")),
    });
    let found = kube.run_for_member(&["discover", "east"]);
    assert_eq!((found.code, found.out.as_str()), (3, ""), "{}", found.err);
}

#[test]
fn a_cluster_is_forgotten_with_the_secret_that_its_record_names() {
    let kube = |has_secret: bool| {
        StandIn::start(move |call, asked| {
            if call == get("memberclusters/east") {
                let gone = asked.iter().any(|call| call.starts_with("DELETE") && call.ends_with("/east"));
                let spec = json!({"credentials": {"secretName": "by-hand"}});
                let record = json!({"metadata": {"name": "east", "uid": "1"}, "spec": spec});
                return Some(if gone { refused(404, "no such cluster") } else { (200, record) });
            }
            let is_secret = call == format!("GET {SECRETS}/by-hand");
            (is_secret && !has_secret).then(|| refused(404, "no such Secret"))
        })
    };
    let elsewhere = kube(false);
    let left = elsewhere.run(&LEAVE);
    assert_eq!(left.code, 1, "{}", left.err);
    assert!(left.err.contains("by --members-namespace"), "{}", left.err);
    assert_eq!(elsewhere.asked("DELETE"), [""; 0]);
    let told = kube(true).run(&[&LEAVE[..], &["-o", "json"]].concat()).json(0);
    assert_eq!(told, json!({"cluster": "east", "cordoned": false, "forgotten": true, "ties": []}));
    let there = kube(true);
    let left = there.run(&LEAVE);
    assert!(
        left.err.contains("its token stay until") && left.err.contains("kubectl delete -k deploy/member")
    );
    assert_eq!(left.expect(0), "cluster east has left\n");
    let record = get("memberclusters/east").replace("GET", "DELETE");
    assert_eq!(there.asked("DELETE"), [format!("DELETE {SECRETS}/by-hand"), record]);
}

#[test]
fn whoever_drains_has_done_what_was_asked_whatever_others_have_there() {
    let kube = StandIn::start(|call, _| {
        let web =
            json!({"metadata": {"name": "web"}, "spec": {"clusters": {"east": {"hard": {"pods": "1"}}}}});
        (call == get("projects")).then(|| (200, json!({"metadata": {}, "items": [web]})))
    });
    let drained = kube.run(&["leave", "east", "--drain", "shop", "--yes"]);
    assert!(drained.err.contains("project shop: its budget on east is given back"), "{}", drained.err);
    assert!(drained.expect(0).contains("leave east --drain web --yes"), "what is left is told");
    for args in [&["leave", "east"][..], &["leave", "east", "--plan"], &LEAVE] {
        assert_eq!(kube.run(args).code, 3, "{args:?}");
    }
}

#[test]
fn what_stands_in_the_way_of_a_join_is_said_before_anything_is_written() {
    let kube = |no_secrets: bool, no_namespace: bool| {
        StandIn::start(move |call, _| match call {
            call if call == get("memberclusters/east") => Some(refused(404, "no such cluster")),
            call if call.starts_with(&format!("GET {SECRETS}/")) => {
                Some(refused(if no_secrets { 403 } else { 404 }, "no Secret for you"))
            }
            "GET /api/v1/namespaces/tke-business-members" if no_namespace => {
                Some(refused(404, "no such namespace"))
            }
            _ => None,
        })
    };
    let join = ["join", "east", "--dry-run"];
    let without_role = kube(true, false).run_for_member(&join);
    assert_eq!(without_role.code, 3, "{}", without_role.err);
    assert!(without_role.err.contains("next: have the Role business-operator"), "{}", without_role.err);
    let elsewhere = kube(false, true).run_for_member(&join);
    assert_eq!(elsewhere.code, 1, "{}", elsewhere.err);
    assert!(elsewhere.err.contains("no namespace tke-business-members"), "{}", elsewhere.err);
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
    assert_eq!(good.asked("PATCH"), [""; 0]);
}

#[test]
fn a_secret_that_rotate_does_not_get_is_looked_for_where_it_may_be() {
    for (code, next) in
        [(403, "have the Role business-operator"), (404, "the chart's members.namespace may be another one")]
    {
        let kube = StandIn::start(move |call, _| {
            call.starts_with(&format!("GET {SECRETS}/")).then(|| refused(code, "no Secret for you"))
        });
        let ended = kube.run_for_member(&["rotate", "east"]);
        assert!(ended.err.contains(&format!("next: {next}")), "{}", ended.err);
    }
}

#[test]
fn a_server_that_is_not_there_is_told_at_once_and_one_that_asks_for_patience_is_asked_again() {
    let kube = StandIn::start(|_, _| Some((503, json!("service unavailable"))));
    let ended = kube.run(&["tree"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.contains("kubectl get apiservice v1.business.tkestack.io"), "{}", ended.err);
    let kube = StandIn::start(|call, asked| {
        let (_, mut busy) = refused(503, "starting");
        busy["details"] = json!({"retryAfterSeconds": 1});
        (call == get("projects") && !asked.contains(&get("projects"))).then_some((503, busy))
    });
    kube.run(&["tree"]).expect(0);
    assert_eq!(kube.asked(&get("projects")).len(), 2);
}
