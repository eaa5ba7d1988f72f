use crate::http_request::HttpRequest;
use crate::world::PROGRAM;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

const CODE: &str = "the-code";
/// How many seconds a token lasts that is refreshed as soon as somebody needs one.
const SOON_OVER: u64 = 29;

/// A fake `OpenID` Connect provider that logs everybody in as alice.
struct FakeProvider {
    issuer: String,
    requests: Arc<Mutex<Vec<HashMap<String, String>>>>,
    key: EncodingKey,
    refresh_answer: RefreshAnswer,
}

/// The response to a refresh in place of a new token: status line and body.
type RefreshAnswer = Arc<Mutex<Option<(&'static str, Value)>>>;

/// The state of the provider's server thread.
struct ProviderServer {
    issuer: String,
    key: EncodingKey,
    public: Value,
    lifetime: u64,
    /// The status line of a response to a revocation.
    revokes: &'static str,
    refresh_answer: RefreshAnswer,
    nonce: Mutex<String>,
}

impl FakeProvider {
    fn start(lifetime: u64) -> Self {
        Self::start_revoking(lifetime, "200 OK")
    }

    fn start_revoking(lifetime: u64, revokes: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let pair = KeyPair::generate().unwrap();
        let point = pair.public_key_raw();
        let part = |range: std::ops::Range<usize>| BASE64_URL_SAFE_NO_PAD.encode(&point[range]);
        let public = json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k1",
            "x": part(1..33), "y": part(33..65)}]});
        let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
        let nonce = Mutex::new(String::new());
        let refresh_answer = RefreshAnswer::default();
        let refusing = Arc::clone(&refresh_answer);
        let (issuing, signing) = (issuer.clone(), key.clone());
        let server = ProviderServer {
            issuer: issuing,
            key: signing,
            public,
            lifetime,
            revokes,
            refresh_answer: refusing,
            nonce,
        };
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                server.answer(stream.unwrap(), &log);
            }
        });
        Self { issuer, requests: asked, key, refresh_answer }
    }

    /// Sets the response to a refresh from now on.
    fn answer_refresh_with(&self, refresh: &str, id_token: Option<String>) {
        let mut answer = json!({"access_token": "a", "token_type": "Bearer", "refresh_token": refresh});
        if let Some(token) = id_token {
            answer["id_token"] = json!(token);
        }
        *self.refresh_answer.lock().unwrap() = Some(("200 OK", answer));
    }

    fn last_refresh_token(&self) -> String {
        self.requests.lock().unwrap().last().unwrap()["refresh_token"].clone()
    }
}

/// The claims of a token for this subject.
fn claims(issuer: &str, subject: &str, lifetime: u64) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    json!({"iss": issuer, "aud": "kubernetes", "sub": subject, "iat": now, "exp": now + lifetime})
}

fn signed(claims: &Value, key: &EncodingKey, id: &str) -> String {
    let mut header = Header::new(Algorithm::ES256);
    header.kid = Some(id.to_owned());
    jsonwebtoken::encode(&header, claims, key).unwrap()
}

impl ProviderServer {
    fn answer(&self, mut stream: TcpStream, log: &Mutex<Vec<HashMap<String, String>>>) {
        let Some(HttpRequest { path, query, body, .. }) = HttpRequest::read(&stream) else { return };
        let (head, answer) = match &*path {
            "/.well-known/openid-configuration" => ("200 OK".to_owned(), self.metadata()),
            "/keys" => ("200 OK".to_owned(), self.public.clone()),
            "/authorize" => {
                let asked = pairs(&query);
                self.nonce.lock().unwrap().clone_from(&asked["nonce"]);
                let back = format!("{}?code={CODE}&state={}", asked["redirect_uri"], asked["state"]);
                log.lock().unwrap().push(asked);
                (format!("302 Found\r\nLocation: {back}"), json!({}))
            }
            "/token" => {
                let asked = pairs(&String::from_utf8(body).unwrap());
                let refusal = self.refresh_answer.lock().unwrap().clone();
                let refusal = refusal.filter(|_| asked["grant_type"] == "refresh_token");
                let (head, answer) = refusal.unwrap_or_else(|| ("200 OK", self.token(&asked)));
                log.lock().unwrap().push(asked);
                (head.to_owned(), answer)
            }
            "/revoke" => {
                log.lock().unwrap().push(pairs(&String::from_utf8(body).unwrap()));
                (self.revokes.to_owned(), json!({}))
            }
            _ => ("404 Not Found".to_owned(), json!({})),
        };
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {head}\r\nContent-Type: application/json\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
    }

    fn metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        json!({
            "issuer": self.issuer, "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
            "jwks_uri": at("/keys"), "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"], "revocation_endpoint": at("/revoke"),
        })
    }

    fn token(&self, asked: &HashMap<String, String>) -> Value {
        let mut claims = claims(&self.issuer, "alice", self.lifetime);
        let refreshed = asked["grant_type"] == "refresh_token";
        if !refreshed {
            claims["nonce"] = json!(*self.nonce.lock().unwrap());
        }
        let id_token = signed(&claims, &self.key, "k1");
        let refresh = if refreshed { "second" } else { "first" };
        json!({"access_token": "a", "token_type": "Bearer", "id_token": id_token, "refresh_token": refresh})
    }
}

/// `a=b&c=d`
fn pairs(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| {
        let (mut bytes, mut rest) = (Vec::new(), text.bytes());
        while let Some(byte) = rest.next() {
            match byte {
                b'%' => {
                    let hex = [rest.next().unwrap(), rest.next().unwrap()];
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
                }
                b'+' => bytes.push(b' '),
                other => bytes.push(other),
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

/// A user's home directory.
struct Home {
    directory: PathBuf,
    /// PATH of the program.
    path: PathBuf,
}

impl Drop for Home {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

impl Home {
    fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("business-cli-home-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).unwrap();
        Self { directory, path: PathBuf::from("/nowhere") }
    }

    fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).env("HOME", &self.directory).env("PATH", &self.path).env_remove("KUBECONFIG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Logs in; this test is the browser. Returns exit code and standard error.
    fn login(&self, issuer: &str, forge: impl Fn(&str) -> String) -> (i32, String) {
        self.login_by(&first(issuer), forge)
    }

    fn login_by(&self, flags: &[&str], forge: impl Fn(&str) -> String) -> (i32, String) {
        let args = [&["login", "--print-url"][..], flags].concat();
        let mut child = self.program(&args).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .find_map(|line| line.unwrap().trim().strip_prefix("http").map(|rest| format!("http{rest}")));
        let back = get(&url.unwrap());
        let back = back.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap().to_owned();
        assert!(get("http://127.0.0.1:1/").is_empty() || back.starts_with("http://127.0.0.1:"));
        let forged = forge(&back);
        if forged != back {
            assert!(get(&forged).starts_with("HTTP/1.1 404"), "a browser of another login is not heard");
        }
        assert!(get(&back).starts_with("HTTP/1.1 200"));
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        (child.wait().unwrap().code().unwrap(), rest.join("\n"))
    }

    fn token(&self, config: &Value) -> std::process::Output {
        self.token_of(&config["users"][0])
    }

    fn token_of(&self, user: &Value) -> std::process::Output {
        self.plugin_of(user).output().unwrap()
    }

    /// What kubectl calls for a token.
    fn plugin_of(&self, user: &Value) -> Command {
        let exec = &user["user"]["exec"];
        assert_eq!(exec["command"], PROGRAM);
        let args: Vec<&str> =
            exec["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        self.program(&args)
    }

    fn kubeconfig(&self) -> Value {
        let file = self.directory.join(".kube/config");
        serde_yaml_ng::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    fn write(&self, config: &Value) {
        let directory = self.directory.join(".kube");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config"), config.to_string()).unwrap();
    }

    /// The files of the stored sessions.
    fn session_files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.directory.join(".kube/cache/business")).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
    }

    /// The number of stored sessions.
    fn sessions(&self) -> usize {
        self.session_files().len()
    }

    /// As if all that was logged in was so long ago that its tokens have ended.
    fn outlive_tokens(&self) {
        for file in self.session_files() {
            let mut session: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            session["ends"] = json!(1);
            std::fs::write(file, session.to_string()).unwrap();
        }
    }
}

/// The flags of a first login.
fn first(issuer: &str) -> [&str; 6] {
    ["--issuer", issuer, "--client-id", "kubernetes", "--server", "https://api.test:6443"]
}

/// The response to a GET; redirects are not followed.
fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let Ok(mut stream) = TcpStream::connect(host) else { return String::new() };
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.replace("\r\n", "\n")
}

#[test]
fn a_login_writes_a_context_whose_tokens_are_fresh() {
    let (provider, home) = (FakeProvider::start(SOON_OVER), Home::new());
    let (code, told) = home.login(&provider.issuer, |back| back.replace("state=", "state=x"));
    assert_eq!(code, 0, "{told}");
    let unasked = "https://api.test:6443 could not be asked who that is there";
    assert!(told.contains("logged in at http://127.0.0.1") && told.contains(unasked), "{told}");
    assert!(!told.contains("logged in as"), "the provider's name is not the server's: {told}");
    let asked = provider.requests.lock().unwrap().clone();
    assert_eq!(
        (asked[0]["code_challenge_method"].as_str(), asked[0]["response_type"].as_str()),
        ("S256", "code")
    );
    assert!(asked[0]["scope"].contains("offline_access"), "{asked:?}");
    assert!(asked[1]["code"] == CODE && asked[1]["code_verifier"].len() >= 43, "{asked:?}");
    let config = home.kubeconfig();
    assert_eq!(
        (&config["current-context"], &config["clusters"][0]["cluster"]["server"]),
        (&json!("business"), &json!("https://api.test:6443"))
    );
    let files = ["config", "cache/business"].map(|name| home.directory.join(".kube").join(name));
    for file in [files[0].clone(), std::fs::read_dir(&files[1]).unwrap().next().unwrap().unwrap().path()] {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "{} is its owner's alone", file.display());
    }
    // It ends so soon that it has to be refreshed, each time with the refresh token of the time before.
    for refresh in ["first", "second"] {
        let output = home.token(&config);
        let credential: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(credential["kind"], "ExecCredential", "{}", String::from_utf8_lossy(&output.stderr));
        assert!(credential["status"]["token"].as_str().unwrap().starts_with("ey"));
        assert_eq!(provider.requests.lock().unwrap().last().unwrap()["refresh_token"], refresh);
    }
}

#[test]
fn a_token_that_is_good_is_not_refreshed_and_nobody_has_one_without_a_login() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    let (code, told) = home.login(&provider.issuer, str::to_owned);
    assert_eq!(code, 0, "{told}");
    assert!(home.token(&home.kubeconfig()).status.success());
    assert_eq!(provider.requests.lock().unwrap().len(), 2, "the login alone");
    let other = Home::new();
    let output = other.token(&home.kubeconfig());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("log in again"), "{output:?}");
}

#[test]
fn nobody_logs_in_again_for_what_the_provider_has_not_refused() {
    let (provider, home) = (FakeProvider::start(SOON_OVER), Home::new());
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    let config = home.kubeconfig();
    for (head, body, has_ended) in [
        ("400 Bad Request", json!({"error": "invalid_grant"}), true),
        ("401 Unauthorized", json!({"error": "invalid_client"}), true),
        ("502 Bad Gateway", json!("a page of a proxy"), false),
        ("500 Internal Server Error", json!({"error": "server_error"}), false),
        ("429 Too Many Requests", json!({"error": "slow_down"}), false),
        ("503 Service Unavailable", json!({"error": "temporarily_unavailable"}), false),
    ] {
        *provider.refresh_answer.lock().unwrap() = Some((head, body));
        let output = home.token(&config);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said.contains("log in again"), has_ended, "{said}");
        assert_eq!(said.contains("next: try again; the session is kept"), !has_ended, "{said}");
    }
    *provider.refresh_answer.lock().unwrap() = None;
    assert!(home.token(&config).status.success());
}

#[test]
fn a_new_refresh_token_is_kept_whatever_comes_with_it() {
    let (provider, home) = (FakeProvider::start(SOON_OVER), Home::new());
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    let config = home.kubeconfig();
    let unknown = EncodingKey::from_ec_pem(KeyPair::generate().unwrap().serialize_pem().as_bytes()).unwrap();
    let token = |subject, key, id| Some(signed(&claims(&provider.issuer, subject, SOON_OVER), key, id));
    let mut before = "first";
    for (refresh, id_token, code, says) in [
        ("none", None, 0, ""),
        ("early", token("alice", &unknown, "k2"), 1, "next: try again; the session is kept"),
        ("else", token("eve", &provider.key, "k1"), 1, "somebody else): log in again"),
    ] {
        provider.answer_refresh_with(refresh, id_token);
        let output = home.token(&config);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(says), "{refresh}: {said}");
        assert_eq!(provider.last_refresh_token(), before);
        before = refresh;
    }
    *provider.refresh_answer.lock().unwrap() = None;
    assert!(home.token(&config).status.success());
    assert_eq!(provider.last_refresh_token(), before);
}

/// A provider may take a refresh token that comes twice for a stolen one, and end the session.
#[test]
fn of_many_who_need_a_token_at_once_one_refreshes_it() {
    let (provider, home) = (FakeProvider::start(SOON_OVER), Home::new());
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    let fresh = signed(&claims(&provider.issuer, "alice", 3600), &provider.key, "k1");
    provider.answer_refresh_with("second", Some(fresh.clone()));
    let config = home.kubeconfig();
    let ask = |_| home.plugin_of(&config["users"][0]).spawn().unwrap();
    let asking: Vec<Child> = (0..8).map(ask).collect();
    for child in asking {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let credential: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(credential["status"]["token"], json!(fresh));
    }
    let asked = provider.requests.lock().unwrap().clone();
    let refreshes = asked.iter().filter(|one| one.contains_key("refresh_token")).count();
    assert_eq!(refreshes, 1, "{asked:?}");
}

#[test]
fn a_provider_that_gives_no_new_token_ends_the_session_with_the_last_one() {
    let (provider, home) = (FakeProvider::start(SOON_OVER), Home::new());
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    provider.answer_refresh_with("second", None);
    home.outlive_tokens();
    let output = home.token(&home.kubeconfig());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("no new ID token"), "{said}");
    assert!(said.contains("log in again"), "{said}");
}

/// A server that always sends this response, but 404 to `SelfSubjectReviews` if it is a 200.
fn fake_server(head: &'static str, answer: Value) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(HttpRequest { method, path, .. }) = HttpRequest::read(&stream) else { continue };
            log.lock().unwrap().push(format!("{method} {path}"));
            let is_review = path.ends_with("/selfsubjectreviews") && head.starts_with("200");
            let (head, answer) =
                if is_review { ("404 Not Found", "{}".to_owned()) } else { (head, answer.to_string()) };
            let head = format!("HTTP/1.1 {head}\r\nContent-Type: application/json\r\nConnection: close\r\n");
            write!(stream, "{head}Content-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    });
    (address, asked)
}

#[test]
fn a_login_says_whom_the_server_takes_somebody_for() {
    let who = json!({"kind": "SelfSubjectReview", "status": {"userInfo": {"username": "id-a:alice"}}});
    let refused = json!({"kind": "Status", "status": "Failure", "code": 401, "message": "Unauthorized"});
    for (head, answer, code, says) in [
        ("200 OK", who, 0, "logged in as id-a:alice for http://"),
        ("401 Unauthorized", refused, 1, "does it accept the issuer http://"),
        ("503 Service Unavailable", json!("a page of a proxy"), 0, "could not be asked who that is there"),
    ] {
        let (provider, home) = (FakeProvider::start(3600), Home::new());
        let (server, asked) = fake_server(head, answer);
        let flags = ["--issuer", &provider.issuer, "--client-id", "kubernetes", "--server", &server];
        let (ended, told) = home.login_by(&flags, str::to_owned);
        assert!(ended == code && told.contains(says), "{told}");
        assert!(!told.contains("refresh token"), "{told}");
        assert_eq!(home.kubeconfig()["current-context"], "business", "it is written in any case");
        let first = asked.lock().unwrap()[0].clone();
        assert_eq!(first, "POST /apis/authentication.k8s.io/v1/selfsubjectreviews");
        assert_eq!(asked.lock().unwrap().last().unwrap() == "GET /whoami", code == 0 && head == "200 OK");
    }
}

#[test]
fn a_provider_without_tls_elsewhere_is_refused() {
    let args = ["login", "--issuer", "http://sso.example.org", "--client-id", "x", "--server", "https://x"];
    let output = Home::new().program(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("asked by https"), "{output:?}");
}

#[test]
fn each_context_has_a_session_of_its_own() {
    let (provider, home) = (FakeProvider::start(SOON_OVER), Home::new());
    for name in ["alice", "carol"] {
        let flags = [&first(&provider.issuer)[..], &["--name", name]].concat();
        let (code, told) = home.login_by(&flags, str::to_owned);
        assert_eq!(code, 0, "{told}");
    }
    assert_eq!(home.sessions(), 2);
    let config = home.kubeconfig();
    for user in config["users"].as_array().unwrap() {
        let output = home.token_of(user);
        assert!(output.status.success(), "{output:?}");
        let asked = provider.requests.lock().unwrap().last().unwrap().clone();
        assert_eq!(asked["refresh_token"], "first", "the other one's session is left alone");
    }
}

#[test]
fn contexts_of_one_name_in_two_kubeconfigs_are_two_sessions() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    let other = home.directory.join("other").display().to_string();
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    let flags = [&first(&provider.issuer)[..], &["--kubeconfig", &other]].concat();
    for _again in 0..2 {
        assert_eq!(home.login_by(&flags, str::to_owned).0, 0);
        assert_eq!(home.sessions(), 2);
    }
    let output = home.program(&["logout", "--kubeconfig", &other]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(home.token(&home.kubeconfig()).status.success(), "the one of the other kubeconfig goes on");
}

#[test]
fn a_login_to_the_cluster_of_another_context_does_not_take_the_place_of_the_one_before() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    let mut config = home.kubeconfig();
    let admin = json!({"name": "b-admin", "context": {"cluster": "b", "user": "admin"}});
    config["contexts"].as_array_mut().unwrap().push(admin);
    let cluster = json!({"name": "b", "cluster": {"server": "https://b.test"}});
    config["clusters"].as_array_mut().unwrap().push(cluster);
    config["users"].as_array_mut().unwrap().push(json!({"name": "admin", "user": {"token": "t"}}));
    std::fs::write(home.directory.join(".kube/config"), config.to_string()).unwrap();
    let refused = home.program(&["login", "--context", "b-admin"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("--name says"), "{refused:?}");
    let (code, told) = home.login_by(&["--context", "b-admin", "--name", "b"], str::to_owned);
    assert!(code == 0 && told.contains("the context b of"), "{told}");
    let config = home.kubeconfig();
    assert_eq!(server(&config, "business"), "https://api.test:6443");
    assert_eq!(server(&config, "b"), "https://b.test");
}

/// The server of a context.
fn server(config: &Value, context: &str) -> String {
    let named = |list: &str, name: &Value| {
        let entries = config[list].as_array().unwrap();
        entries.iter().find(|one| one["name"] == *name).unwrap().clone()
    };
    let cluster = named("contexts", &json!(context))["context"]["cluster"].clone();
    named("clusters", &cluster)["cluster"]["server"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_of_no_login_is_not_replaced() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "admin@prod",
        "contexts": [{"name": "admin@prod", "context": {"cluster": "prod", "user": "prod"}}],
        "clusters": [{"name": "prod", "cluster": {"server": "https://prod.test"}}],
        "users": [{"name": "prod", "user": {"client-key-data": "a2V5"}}],
    });
    home.write(&config);
    let flags = [&first(&provider.issuer)[..], &["--name", "prod"]].concat();
    assert_eq!(home.login_by(&flags, str::to_owned).0, 0);
    let written = home.kubeconfig();
    assert_eq!(written["users"][0], config["users"][0], "its key is there still");
    assert_eq!(server(&written, "admin@prod"), "https://prod.test");
    assert_eq!(server(&written, "prod"), "https://api.test:6443");
    let args = [&["login", "--name", "admin@prod"][..], &first(&provider.issuer)].concat();
    let refused = home.program(&args).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("delete-context admin@prod"), "{said}");
    assert_eq!(home.kubeconfig(), written);
}

#[test]
fn a_login_of_another_day_is_for_the_cluster_that_it_was_for() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    let mut config = home.kubeconfig();
    let member = json!({"name": "c1/a", "context": {"cluster": "c1/a", "user": "c1/a"}});
    config["contexts"].as_array_mut().unwrap().push(member);
    let cluster = json!({"name": "c1/a", "cluster": {"server": "https://c1.test"}});
    config["clusters"].as_array_mut().unwrap().push(cluster);
    config["current-context"] = json!("c1/a");
    home.write(&config);
    let flags = ["--issuer", &provider.issuer, "--client-id", "kubernetes", "-n", "shop"];
    let (code, told) = home.login_by(&flags, str::to_owned);
    assert!(code == 0 && told.contains("for https://api.test:6443; the context business"), "{told}");
    let config = home.kubeconfig();
    assert_eq!(server(&config, "business"), "https://api.test:6443");
    assert_eq!(server(&config, "c1/a"), "https://c1.test");
    let own = config["contexts"].as_array().unwrap().iter().find(|one| one["name"] == "business");
    assert_eq!(own.unwrap()["context"]["namespace"], "shop");
    let refused = home.program(&["login", "--as", "eve"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn of_several_kubeconfigs_the_one_that_has_the_context_is_written() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    let [absent, first_file, second] = ["absent", "a", "b"].map(|name| home.directory.join(name));
    let other = json!({"apiVersion": "v1", "kind": "Config", "current-context": ""});
    std::fs::write(&first_file, other.to_string()).unwrap();
    let flags = [&first(&provider.issuer)[..], &["--kubeconfig", second.to_str().unwrap()]].concat();
    assert_eq!(home.login_by(&flags, str::to_owned).0, 0);
    let listed = std::env::join_paths([&absent, &first_file, &second]).unwrap();
    let run = |args: &[&str]| home.program(args).env("KUBECONFIG", &listed).output().unwrap();
    let never = run(&["login", "--timeout", "1ms", "--print-url"]);
    let said = String::from_utf8_lossy(&never.stderr);
    assert_eq!(never.status.code(), Some(4), "the context of the second file is known: {said}");
    let output = run(&["logout"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(&*second.to_string_lossy()), "{said}");
    assert!(!std::fs::read_to_string(&second).unwrap().contains("business-login/"), "it is taken out");
    assert_eq!(std::fs::read_to_string(&first_file).unwrap(), other.to_string(), "nothing of it is there");
    let nobody = run(&["tree"]);
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert!(nobody.status.code() == Some(1) && said.contains("there is none, or nothing in it"), "{said}");
}

#[test]
fn what_cannot_be_written_is_told_of_before_anybody_logs_in() {
    let home = Home::new();
    std::fs::create_dir(home.directory.join(".kube")).unwrap();
    std::os::unix::fs::symlink("absent", home.directory.join(".kube/config")).unwrap();
    let args = [&["login", "--print-url", "--timeout", "1ms"][..], &first("http://127.0.0.1:1")].concat();
    let output = home.program(&args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("a link to what is not there"), "{said}");
}

#[test]
fn a_session_that_has_ended_is_told_of_as_the_plugin_does() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    std::fs::remove_dir_all(home.directory.join(".kube/cache")).unwrap();
    let output = home.program(&["tree"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = "error: nobody is logged in: log in again with `kubectl business login --name business`\n";
    assert_eq!(said, told);
}

#[test]
fn a_provider_is_asked_by_the_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://user:secret@{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let head: Vec<String> = head.take_while(|line| !line.is_empty()).collect();
        write!(stream, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").unwrap();
        head.join("\n")
    });
    let args = ["login", "--issuer", "https://sso.test", "--client-id", "x", "--server", "https://x"];
    let home = Home::new();
    let mut command = home.program(&args);
    command.env_remove("NO_PROXY").env_remove("no_proxy").env("HTTPS_PROXY", &proxy);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("by the proxy http://127.0.0.1:"), "{said}");
    assert!(!said.contains("secret"), "{said}");
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("CONNECT sso.test:443 HTTP/1.1\n"), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ="), "{asked}");
}

#[test]
fn a_login_is_repeated_without_a_word() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    let never = home.program(&["login"]).output().unwrap();
    let said = String::from_utf8_lossy(&never.stderr);
    assert!(never.status.code() == Some(2) && said.contains("--issuer and --client-id"), "{never:?}");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let more = ["--name", "prod", "--scope", "groups", "--listen-port", &port];
    let flags = [&first(&provider.issuer)[..], &more].concat();
    assert_eq!(home.login_by(&flags, str::to_owned).0, 0);
    let mut config = home.kubeconfig();
    config["contexts"][0]["context"]["namespace"] = json!("shop");
    std::fs::write(home.directory.join(".kube/config"), config.to_string()).unwrap();
    let (code, told) = home.login_by(&[], str::to_owned);
    assert!(code == 0 && told.contains("the context prod"), "{told}");
    assert_eq!(home.kubeconfig(), config, "all is as it was, the project of the context, too");
    let asked = provider.requests.lock().unwrap().clone();
    assert!(asked[2]["scope"].contains("groups"), "{asked:?}");
    assert_eq!(asked[2]["redirect_uri"], format!("http://127.0.0.1:{port}/callback"));
    let (code, told) = home.login_by(&["--name", "carol"], str::to_owned);
    assert!(code == 0 && told.contains("the context carol"), "{told}");
    let clusters = &home.kubeconfig()["clusters"];
    assert_eq!(clusters[1]["cluster"], clusters[0]["cluster"]);
}

#[test]
fn a_plugin_that_is_on_path_is_called_by_its_bare_name() {
    let (provider, mut home) = (FakeProvider::start(3600), Home::new());
    home.path = home.directory.join("bin");
    std::fs::create_dir(&home.path).unwrap();
    std::os::unix::fs::symlink(PROGRAM, home.path.join("kubectl-business")).unwrap();
    assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
    let exec = home.kubeconfig()["users"][0]["user"]["exec"].clone();
    assert_eq!(exec["command"], "kubectl-business");
    assert!(exec["installHint"].as_str().unwrap().contains("PATH"), "{exec}");
    std::fs::remove_file(home.path.join("kubectl-business")).unwrap();
    std::fs::write(home.path.join("kubectl-business"), "another program").unwrap();
    assert_eq!(home.login_by(&[], str::to_owned).0, 0);
    assert_eq!(home.kubeconfig()["users"][0]["user"]["exec"]["command"], PROGRAM);
}

#[test]
fn nobody_who_does_not_log_in_is_told_that_it_goes_on() {
    let (provider, home) = (FakeProvider::start(3600), Home::new());
    let args = [&["login", "--print-url", "--timeout", "1ms"][..], &first(&provider.issuer)].concat();
    let output = home.program(&args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("next: call it again") && !said.contains("without you"), "{said}");
    assert!(said.contains("--listen-port"), "{said}");
}

#[test]
fn a_logout_leaves_nothing_behind() {
    for (answer, told) in [("200 OK", "has taken"), ("503 Service Unavailable", "was not taken back")] {
        let (provider, home) = (FakeProvider::start_revoking(3600, answer), Home::new());
        assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
        let output = home.program(&["logout"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(told), "{said}");
        let asked = provider.requests.lock().unwrap().last().unwrap().clone();
        let [token, hint, client] = ["token", "token_type_hint", "client_id"].map(|key| asked[key].as_str());
        assert_eq!((token, hint, client), ("first", "refresh_token", "kubernetes"));
        assert_eq!(home.sessions(), 0);
        let config = home.kubeconfig();
        for list in ["contexts", "users", "clusters"] {
            assert_eq!(config[list], json!([]), "{list}");
        }
        assert_eq!(config["current-context"], Value::Null);
        let again = home.program(&["logout"]).output().unwrap();
        assert_eq!(again.status.code(), Some(2), "{again:?}");
    }
}
