use crate::asked::Asked;
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
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

const CODE: &str = "the-code";

/// A provider that logs everybody in as alice: what it is asked it takes apart by itself.
struct StandIn {
    issuer: String,
    asked: Arc<Mutex<Vec<HashMap<String, String>>>>,
}

/// What one answers of.
struct Answering {
    issuer: String,
    key: EncodingKey,
    public: Value,
    lifetime: u64,
    /// The first line of what it answers when it is to take a token back.
    revokes: &'static str,
    nonce: Mutex<String>,
}

impl StandIn {
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
        let answering = Answering { issuer: issuer.clone(), key, public, lifetime, revokes, nonce };
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answering.answer(stream.unwrap(), &seen);
            }
        });
        Self { issuer, asked }
    }
}

impl Answering {
    fn answer(&self, mut stream: TcpStream, seen: &Mutex<Vec<HashMap<String, String>>>) {
        let Some(Asked { path, query, body, .. }) = Asked::read(&stream) else { return };
        let (head, answer) = match &*path {
            "/.well-known/openid-configuration" => ("200 OK".to_owned(), self.metadata()),
            "/keys" => ("200 OK".to_owned(), self.public.clone()),
            "/authorize" => {
                let asked = pairs(&query);
                self.nonce.lock().unwrap().clone_from(&asked["nonce"]);
                let back = format!("{}?code={CODE}&state={}", asked["redirect_uri"], asked["state"]);
                seen.lock().unwrap().push(asked);
                (format!("302 Found\r\nLocation: {back}"), json!({}))
            }
            "/token" => {
                let asked = pairs(&String::from_utf8(body).unwrap());
                let answer = self.token(&asked);
                seen.lock().unwrap().push(asked);
                ("200 OK".to_owned(), answer)
            }
            "/revoke" => {
                seen.lock().unwrap().push(pairs(&String::from_utf8(body).unwrap()));
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
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.issuer, "aud": "kubernetes", "sub": "alice", "iat": now, "exp": now + self.lifetime,
        });
        let refreshed = asked["grant_type"] == "refresh_token";
        if !refreshed {
            claims["nonce"] = json!(*self.nonce.lock().unwrap());
        }
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some("k1".to_owned());
        let id_token = jsonwebtoken::encode(&header, &claims, &self.key).unwrap();
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

/// A person's home, and what the program writes there.
struct Home {
    directory: PathBuf,
    /// Where its shell looks for programs.
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

    /// Logs in; the browser is this test. Standard error at the end.
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
        let exec = &user["user"]["exec"];
        assert_eq!(exec["command"], PROGRAM);
        let args: Vec<&str> =
            exec["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        self.program(&args).output().unwrap()
    }

    fn kubeconfig(&self) -> Value {
        let file = self.directory.join(".kube/config");
        serde_yaml_ng::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    /// How many sessions are kept.
    fn sessions(&self) -> usize {
        let files = std::fs::read_dir(self.directory.join(".kube/cache/business")).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "json")).count()
    }
}

/// What somebody says who has never logged in.
fn first(issuer: &str) -> [&str; 6] {
    ["--issuer", issuer, "--client-id", "kubernetes", "--server", "https://api.test:6443"]
}

/// What a browser is answered, redirects not followed.
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
    let (provider, home) = (StandIn::start(20), Home::new());
    let (code, told) = home.login(&provider.issuer, |back| back.replace("state=", "state=x"));
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("logged in as alice"), "{told}");
    let asked = provider.asked.lock().unwrap().clone();
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
        assert_eq!(provider.asked.lock().unwrap().last().unwrap()["refresh_token"], refresh);
    }
}

#[test]
fn a_token_that_is_good_is_not_refreshed_and_nobody_has_one_without_a_login() {
    let (provider, home) = (StandIn::start(3600), Home::new());
    let (code, told) = home.login(&provider.issuer, str::to_owned);
    assert_eq!(code, 0, "{told}");
    assert!(home.token(&home.kubeconfig()).status.success());
    assert_eq!(provider.asked.lock().unwrap().len(), 2, "the login alone");
    let other = Home::new();
    let output = other.token(&home.kubeconfig());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("log in again"), "{output:?}");
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
    let (provider, home) = (StandIn::start(20), Home::new());
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
        let asked = provider.asked.lock().unwrap().last().unwrap().clone();
        assert_eq!(asked["refresh_token"], "first", "the other one's session is left alone");
    }
}

#[test]
fn contexts_of_one_name_in_two_kubeconfigs_are_two_sessions() {
    let (provider, home) = (StandIn::start(3600), Home::new());
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
    let (provider, home) = (StandIn::start(3600), Home::new());
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
    let clusters = &home.kubeconfig()["clusters"];
    let server = |name: &str| {
        let found = clusters.as_array().unwrap().iter().find(|one| one["name"] == name);
        found.unwrap()["cluster"]["server"].clone()
    };
    assert_eq!((server("business"), server("b")), (json!("https://api.test:6443"), json!("https://b.test")));
}

#[test]
fn a_login_is_repeated_without_a_word() {
    let (provider, home) = (StandIn::start(3600), Home::new());
    let never = home.program(&["login"]).output().unwrap();
    let said = String::from_utf8_lossy(&never.stderr);
    assert!(never.status.code() == Some(2) && said.contains("--issuer and --client-id"), "{never:?}");
    let flags = [&first(&provider.issuer)[..], &["--name", "prod", "--scope", "groups"]].concat();
    assert_eq!(home.login_by(&flags, str::to_owned).0, 0);
    let mut config = home.kubeconfig();
    config["contexts"][0]["context"]["namespace"] = json!("shop");
    std::fs::write(home.directory.join(".kube/config"), config.to_string()).unwrap();
    let (code, told) = home.login_by(&[], str::to_owned);
    assert!(code == 0 && told.contains("the context prod"), "{told}");
    assert_eq!(home.kubeconfig(), config, "all is as it was, the project of the context, too");
    let asked = provider.asked.lock().unwrap().clone();
    assert!(asked[2]["scope"].contains("groups"), "{asked:?}");
    let (code, told) = home.login_by(&["--name", "carol"], str::to_owned);
    assert!(code == 0 && told.contains("the context carol"), "{told}");
    let clusters = &home.kubeconfig()["clusters"];
    assert_eq!(clusters[1]["cluster"], clusters[0]["cluster"]);
}

#[test]
fn a_plugin_that_is_on_path_is_called_by_its_bare_name() {
    let (provider, mut home) = (StandIn::start(3600), Home::new());
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
    let (provider, home) = (StandIn::start(3600), Home::new());
    let args = [&["login", "--print-url", "--timeout", "1ms"][..], &first(&provider.issuer)].concat();
    let output = home.program(&args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("next: call it again") && !said.contains("without you"), "{said}");
}

#[test]
fn a_logout_leaves_nothing_behind() {
    for (answer, told) in [("200 OK", "has taken"), ("503 Service Unavailable", "was not taken back")] {
        let (provider, home) = (StandIn::start_revoking(3600, answer), Home::new());
        assert_eq!(home.login(&provider.issuer, str::to_owned).0, 0);
        let output = home.program(&["logout"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(told), "{said}");
        let asked = provider.asked.lock().unwrap().last().unwrap().clone();
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
