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
    nonce: Mutex<String>,
}

impl StandIn {
    fn start(lifetime: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let pair = KeyPair::generate().unwrap();
        let point = pair.public_key_raw();
        let part = |range: std::ops::Range<usize>| BASE64_URL_SAFE_NO_PAD.encode(&point[range]);
        let public = json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k1",
            "x": part(1..33), "y": part(33..65)}]});
        let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
        let answering =
            Answering { issuer: issuer.clone(), key, public, lifetime, nonce: Mutex::new(String::new()) };
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
            "id_token_signing_alg_values_supported": ["ES256"],
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
        Self { directory }
    }

    fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).env("HOME", &self.directory).env_remove("KUBECONFIG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Logs in; the browser is this test. Standard error at the end.
    fn login(&self, issuer: &str, forge: impl Fn(&str) -> String) -> (i32, String) {
        let server = ["--server", "https://api.test:6443", "--print-url"];
        let args = [&["login", "--issuer", issuer, "--client-id", "kubernetes"][..], &server].concat();
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
        let exec = &config["users"][0]["user"]["exec"];
        assert_eq!(exec["command"], PROGRAM);
        let args: Vec<&str> =
            exec["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        self.program(&args).output().unwrap()
    }

    fn kubeconfig(&self) -> Value {
        let file = self.directory.join(".kube/config");
        serde_yaml_ng::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }
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
