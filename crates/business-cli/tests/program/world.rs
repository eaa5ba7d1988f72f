use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use business_api::serve::Program;
use serde_json::{Value, json};
use served::Installation;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use store::testing::{self, Database};

const GROUP: &str = "/apis/business.tkestack.io/v1";
const DEADLINE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-business");

/// A server, and a kubeconfig with a context for each user.
pub(crate) struct World {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) directory: PathBuf,
    operator: kube::Client,
    _installation: Installation,
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Standard output; the exit code has to be this.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    pub(crate) fn json(self, code: i32) -> Value {
        serde_json::from_str(&self.expect(code)).unwrap()
    }
}

impl World {
    /// A server whose cluster `east` has room for 100 pods and 40 cores, of which tenant acme may have 50 and 20.
    pub(crate) async fn new() -> Self {
        let world = Self::start(testing::database().await.unwrap()).await;
        until("the server is ready", || world.run("operator", &["tree"]).code == 0);
        let cluster = json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "MemberCluster", "metadata": {"name": "east"},
            "spec": {"tenants": ["*"], "hard": {"pods": "100", "requests.cpu": "40"}},
        });
        world.post("/memberclusters", &cluster).await.unwrap();
        let tenant = json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "Tenant", "metadata": {"name": "acme"},
            "spec": {"displayName": "Acme", "administrators": [{"kind": "User", "name": "alice"}],
                     "clusters": {"east": {"hard": {"pods": "50", "requests.cpu": "20"}}}},
        });
        let begun = Instant::now();
        while world.post("/tenants", &tenant).await.is_err() {
            assert!(begun.elapsed() < DEADLINE, "in time: the cluster is known");
            tokio::time::sleep(PAUSE).await;
        }
        world
    }

    /// With a project shop, a project web below it, and a namespace in each.
    pub(crate) async fn with_projects() -> Self {
        let world = Self::new().await;
        let run = |args: &[&str]| world.run("alice", args).expect(0);
        run(&["create", "project", "shop", "--hard", "east:pods=40,requests.cpu=10"]);
        run(&["create", "project", "web", "--parent", "shop", "--hard", "east:pods=20,requests.cpu=8"]);
        run(&[
            "create",
            "namespace",
            "front",
            "-n",
            "web",
            "--cluster",
            "east",
            "--hard",
            "pods=12,requests.cpu=6500m",
        ]);
        run(&[
            "create",
            "namespace",
            "cart",
            "-n",
            "shop",
            "--cluster",
            "east",
            "--hard",
            "pods=5,requests.cpu=1",
        ]);
        world.figures().await;
        world
    }

    /// Writes the usage that a controller would report.
    async fn figures(&self) {
        let given = |pods: &str, cpu: &str| json!({"east": {"used": {"pods": pods, "requests.cpu": cpu}}});
        let used = |pods: &str, cpu: &str| json!({"phase": "Available", "used": {"pods": pods, "requests.cpu": cpu}});
        for (path, status) in [
            ("/tenants/acme", json!({"clusters": given("40", "10"), "projects": 2, "namespaces": 2})),
            ("/projects/shop", json!({"phase": "Active", "clusters": given("25", "9")})),
            ("/projects/web", json!({"phase": "Active", "clusters": given("12", "6500m")})),
            ("/namespaces/web/namespaces/east-front", used("3", "1250m")),
            ("/namespaces/shop/namespaces/east-cart", used("0", "0")),
        ] {
            self.patch(&format!("{path}/status"), &json!({ "status": status })).await;
        }
    }

    /// Makes an object as an operator.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, kube::Error> {
        self.send("POST", path, "application/json", body).await
    }

    /// Changes an object as an operator.
    pub(crate) async fn patch(&self, path: &str, body: &Value) {
        self.send("PATCH", path, "application/merge-patch+json", body).await.unwrap();
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let request = http::Request::builder().method(method).uri(format!("{GROUP}{path}"));
        let request = request.header(http::header::CONTENT_TYPE, content);
        self.operator.request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    async fn start(database: Database) -> Self {
        let installation = Installation::new(database);
        let address = installation.serve(Program::default(), &[]).await.api;
        let operator = installation.authority.caller("root", &["system:masters"]);
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        let operator = json!({
            "client-certificate-data": encoded(&operator.certificate), "client-key-data": encoded(&operator.key),
        });
        let person = |name: &str, groups: &[&str]| json!({"token": installation.signer.token(json!({"sub": name, "groups": groups, "tenantid": "acme"}))});
        let alice = person("alice", &["tenant-admins"]);
        let users =
            [("operator", operator), ("alice", alice), ("bob", person("bob", &[])), ("nobody", json!({}))];
        let entry = |name: &str| json!({"name": name, "context": {"cluster": "test", "user": name, "namespace": "web"}});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "alice",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://{address}"), "certificate-authority-data": encoded(&installation.authority.pem),
            }}],
            "contexts": users.iter().map(|(name, _)| entry(name)).collect::<Vec<_>>(),
            "users": users.iter().map(|(name, user)| json!({"name": name, "user": user})).collect::<Vec<_>>(),
        });
        let directory = installation.directory.clone();
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let file = kube::config::Kubeconfig::read_from(&kubeconfig).unwrap();
        let options =
            kube::config::KubeConfigOptions { context: Some("operator".to_owned()), ..Default::default() };
        let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
        Self { kubeconfig, directory, operator: config.try_into().unwrap(), _installation: installation }
    }

    /// Runs the program as a user.
    pub(crate) fn run(&self, who: &str, args: &[&str]) -> CommandOutput {
        self.feed(who, args, None)
    }

    /// Runs the program with this standard input.
    pub(crate) fn feed(&self, who: &str, args: &[&str], input: Option<&str>) -> CommandOutput {
        let mut command = Command::new(PROGRAM);
        command
            .args(["--context", who])
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("LC_ALL", "C.UTF-8");
        command.env_remove("COLUMNS").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, input.unwrap_or_default().as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        CommandOutput {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// Polls a condition; fails the test when it does not come true in time.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "in time: {what}");
        std::thread::sleep(PAUSE);
    }
}
