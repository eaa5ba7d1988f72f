//! Scans and removals against the program `registry` of distribution, which `REGISTRY_PROGRAM` names.

use crate::fence::{Fence, Moment};
use crate::fixtures::world::times;
use crate::registry::backend::{Backend, Content, ProvideResult, RegistryPlace, RemovalProgress};
use crate::registry::oci::OciRegistry;
use crate::registry::oci::client::{RegistryClient, RegistryEndpoint};
use business_types::registry::{RegistryBackend, RegistryProvenance, RegistryRecord};
use ring::digest::{SHA256, digest};
use serde_json::json;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A registry process that ends with the test.
struct Program {
    child: Child,
    directory: PathBuf,
    address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

impl Program {
    async fn start(program: &str) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let directory = std::env::temp_dir().join(format!("registry-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&directory).unwrap();
        let settings = json!({
            "version": "0.1", "log": {"level": "error"}, "http": {"addr": address.to_string()},
            "storage": {"filesystem": {"rootdirectory": directory.join("data")}, "delete": {"enabled": true}},
        });
        let file = directory.join("config.yml");
        std::fs::write(&file, settings.to_string()).unwrap();
        let child =
            Command::new(program).arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let registry = Self { child: child.unwrap(), directory, address };
        let begun = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the registry does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        registry
    }

    /// Sends a request. Returns the status code and the location.
    async fn send(&self, method: &str, path: &str, content: &str, body: &[u8]) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: {content}\r\n\
             Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap_or_default();
        (answer.split_whitespace().nth(1).unwrap().to_owned(), location.trim().to_owned())
    }

    async fn blob(&self, repository: &str, content: &[u8]) -> String {
        let (code, at) = self.send("POST", &format!("/v2/{repository}/blobs/uploads/"), "", b"").await;
        assert_eq!(code, "202");
        let at = at.trim_start_matches(&format!("http://{}", self.address)).to_owned();
        let digest = digest_of(content);
        let (code, _) =
            self.send("PUT", &format!("{at}&digest={digest}"), "application/octet-stream", content).await;
        assert_eq!(code, "201");
        digest
    }

    async fn push(&self, repository: &str, tag: &str, layer: &[u8]) -> usize {
        let (config, layer_digest) = (self.blob(repository, b"{}").await, self.blob(repository, layer).await);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": 2},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer_digest,
                        "size": layer.len()}],
        });
        let body = manifest.to_string();
        let path = format!("/v2/{repository}/manifests/{tag}");
        let media = "application/vnd.oci.image.manifest.v1+json";
        assert_eq!(self.send("PUT", &path, media, body.as_bytes()).await.0, "201");
        body.len()
    }
}

fn digest_of(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().fold("sha256:".to_owned(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

fn place() -> RegistryPlace {
    RegistryPlace {
        content: Content::Images,
        uid: "u".to_owned(),
        tenant: "acme".to_owned(),
        name: "web".to_owned(),
        project: "p".to_owned(),
        display_name: String::new(),
        untagged: std::collections::BTreeSet::new(),
    }
}

#[tokio::test]
#[ignore = "needs the program registry: REGISTRY_PROGRAM"]
async fn content_is_measured_and_removed_in_a_real_registry() {
    let program = Program::start(&std::env::var("REGISTRY_PROGRAM").unwrap()).await;
    let site = RegistryEndpoint { url: format!("http://{}", program.address), ..RegistryEndpoint::default() };
    let fence = Arc::new(Fence::new(times()));
    fence.acquired(Moment::now(), true);
    let registry = OciRegistry::new(RegistryClient::new(site).await.unwrap(), Arc::clone(&fence));
    let (place, provenance) = (place(), RegistryProvenance::Made);
    let record = RegistryRecord { backend: RegistryBackend::Oci, provenance, uid: String::new() };
    for neighbour in ["acme/web-x/a", "acme/webb/a", "acme/a/b", "zeta/web/a", "acme/web.y/z"] {
        program.push(neighbour, "v1", b"neighbour").await;
    }
    assert_eq!(registry.provide(&place, false).await.unwrap(), ProvideResult::Provided(record.clone()));

    let (repositories, tags) = (60_usize, 3_usize);
    let mut kept = b"{}".len();
    for repository in 0..repositories {
        for tag in 0..tags {
            let layer = format!("layer {repository} {tag}");
            // If a page of the catalogue ends at the repository of such a tag, the next page has an entry that is no
            // repository.
            let tag = if tag == 0 { "_manifests".to_owned() } else { format!("v{tag}") };
            // A path component may begin with a digit.
            let name = format!("acme/web/{repository}r");
            kept += program.push(&name, &tag, layer.as_bytes()).await + layer.len();
        }
    }
    let begun = Instant::now();
    let measured = registry.measure(&place).await.unwrap();
    let first = begun.elapsed();
    let bytes = measured.as_ref().map(|measured| measured.bytes);
    assert_eq!(bytes, Some(u64::try_from(kept).unwrap()));
    let begun = Instant::now();
    assert_eq!(registry.measure(&place).await.unwrap(), measured);
    println!("{} manifests: measured in {first:?}, again in {:?}", repositories * tags, begun.elapsed());

    let begun = Instant::now();
    fence.acquired(Moment::now(), true);
    assert!(matches!(registry.remove(&place, &record, true).await.unwrap(), RemovalProgress::InProgress(_)));
    println!("removed in {:?}", begun.elapsed());
    assert_eq!(registry.remove(&place, &record, true).await.unwrap(), RemovalProgress::Done);
    let neighbour = registry.measure(&RegistryPlace { name: "web-x".to_owned(), ..place }).await.unwrap();
    assert!(neighbour.is_some_and(|kept| kept.bytes > 0), "the neighbours are untouched");
}
