//! An OCI registry that stores files. business-api issues its tokens, and gets its notifications of changes.

use crate::layout::{self, Layout};
use crate::pki::{Pki, password, secret};
use crate::programs;
use crate::supervisor::{Spec, Supervisor};
use crate::wait::Progress;
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub const NAME: &str = "registry";
const READY: Duration = Duration::from_mins(2);

/// The registry of an instance.
#[derive(Clone, Debug)]
pub struct Registry {
    pub port: u16,
    /// What tokens are signed with.
    pub key: PathBuf,
    /// The controller's name and password.
    pub controller: PathBuf,
    /// The registry's own name and password, by which it tells of changes.
    pub events: PathBuf,
    dir: PathBuf,
}

/// The way to business-api.
#[derive(Clone, Copy, Debug)]
pub struct TokenServer<'a> {
    pub url: &'a str,
    /// The authority of its certificate.
    pub authority: &'a Path,
}

/// Its program, which is there where it could be built.
fn program() -> PathBuf {
    layout::bin().join("registry")
}

pub fn is_there() -> bool {
    program().exists()
}

impl Registry {
    /// Makes its secrets.
    pub fn prepare(layout: &Layout, port: u16) -> Result<Self> {
        let dir = layout.path(NAME);
        std::fs::create_dir_all(dir.join("data"))?;
        let pki = Pki::open(&layout.path("pki"))?;
        pki.key_pair("registry-tokens", &rcgen::PKCS_ECDSA_P256_SHA256)?;
        let account = |user: &str| -> Result<PathBuf> {
            let file = dir.join(format!("{user}.credentials"));
            let password = password(&dir.join(format!("{user}.password")))?;
            secret(&file, &format!("{user}:{password}\n"))?;
            Ok(file)
        };
        let (controller, events) = (account("controller")?, account("registry")?);
        Ok(Self { port, key: pki.key("registry-tokens"), controller, events, dir })
    }

    /// `HOST:PORT`, as images are named.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.host())
    }

    /// Writes its configuration.
    pub fn spec(&self, tokens: TokenServer<'_>) -> Result<Spec> {
        let keys = self.dir.join("jwks.json");
        let printed = Command::new(layout::program_path("business-api")?)
            .arg("registry-keys")
            .arg(&self.key)
            .output()?;
        let complaint = String::from_utf8_lossy(&printed.stderr);
        ensure!(printed.status.success(), "business-api registry-keys: {}", complaint.trim());
        std::fs::write(&keys, printed.stdout)?;
        let events = std::fs::read_to_string(&self.events)?;
        let authorization = format!("Basic {}", BASE64_STANDARD.encode(events.trim_end()));
        let TokenServer { url, authority } = tokens;
        // JSON is YAML.
        let configuration = json!({
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": true}},
            "storage": {
                "filesystem": {"rootdirectory": self.dir.join("data")},
                "delete": {"enabled": true},
            },
            "http": {"addr": self.host(), "secret": password(&self.dir.join("http.secret"))?},
            "auth": {"token": {
                "realm": format!("{url}/registry/token"),
                "service": "registry",
                "issuer": "business-api",
                "jwks": keys,
                "signingalgorithms": ["ES256"],
            }},
            "notifications": {"endpoints": [{
                "name": "business-api",
                "url": format!("{url}/registry/events"),
                "headers": {"Authorization": [authorization]},
                "timeout": "5s",
                "threshold": 5,
                "backoff": "5s",
                "ignoredmediatypes": ["application/octet-stream"],
                "ignore": {"actions": ["pull"]},
            }]},
        });
        let file = self.dir.join("config.yml");
        secret(&file, &configuration.to_string())?;
        let mut spec =
            Spec::new(NAME, &program()).args(["serve".to_owned(), file.to_string_lossy().into_owned()]);
        spec.env = vec![
            ("SSL_CERT_FILE".to_owned(), authority.to_string_lossy().into_owned()),
            ("OTEL_TRACES_EXPORTER".to_owned(), "none".to_owned()),
        ];
        Ok(spec)
    }

    /// Gives the bytes back that no manifest names any more. The registry must not run meanwhile: what is just being pushed
    /// would be taken for garbage.
    pub fn collect_garbage(&self) -> Result<()> {
        if !self.dir.join("data/docker").exists() {
            return Ok(());
        }
        let mut command = Command::new(program());
        command.arg("garbage-collect").arg(self.dir.join("config.yml")).stdin(Stdio::null());
        let output = command.output().context("start the registry's garbage collection")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the registry's garbage collection: {}", complaint.trim());
        Ok(())
    }

    pub fn wait(&self, supervisor: &Supervisor) -> Result<()> {
        supervisor.wait(NAME, READY, || {
            Ok(match programs::get(self.port, "/v2/") {
                Ok((401, _)) => Progress::Done(()),
                Ok((code, text)) => Progress::Pending(format!("/v2/ answers {code}: {}", text.trim())),
                Err(error) => Progress::Pending(error.to_string()),
            })
        })
    }
}
