use super::*;
use crate::dial::Dialer;
use crate::fixtures::server::Server;
use crate::issuer::clusters::{ClusterLookup, IssuerSource};
use crate::issuer::worker;
use business_types::issue::IssuedCertificate;
use kube::Client;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use serde_json::json;

/// A CA and the certificates that it has issued, in files.
struct Files {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Files {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("issuer-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(dir.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { dir, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.file(name, "crt"), certificate.pem()).unwrap();
        std::fs::write(self.file(name, "key"), key.serialize_pem()).unwrap();
    }

    fn file(&self, name: &str, ending: &str) -> PathBuf {
        self.dir.join(format!("{name}.{ending}"))
    }

    /// A client that shows a certificate which the CA `of` has issued.
    fn client(&self, port: u16, name: &str, of: &Self) -> Client {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.root_cert =
            Some(vec![CertificateDer::from_pem_file(self.file("ca", "crt")).unwrap().to_vec()]);
        config.auth_info.client_certificate = Some(of.file(name, "crt").display().to_string());
        config.auth_info.client_key = Some(of.file(name, "key").display().to_string());
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

async fn ask(client: &Client, body: String) -> Result<IssuedCertificate, kube::Error> {
    let request = Request::post(ISSUE_PATH)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into_bytes())
        .unwrap();
    client.request(request).await
}

fn code(result: &Result<IssuedCertificate, kube::Error>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        Err(_no_connection) => 0,
        Ok(_) => 200,
    }
}

#[tokio::test]
async fn only_business_api_is_let_in() {
    let (files, strangers) = (Files::new("ours"), Files::new("theirs"));
    files.issue("issuer", ExtendedKeyUsagePurpose::ServerAuth);
    files.issue("business-api", ExtendedKeyUsagePurpose::ClientAuth);
    files.issue("somebody", ExtendedKeyUsagePurpose::ClientAuth);
    strangers.issue("business-api", ExtendedKeyUsagePurpose::ClientAuth);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server::default();
    let source = IssuerSource::Secrets(Box::new(kube::Api::namespaced(server.client(), "tke-business")));
    let (queue, worker) =
        worker::new_queue(ClusterLookup::new(source, server.client(), Dialer::default()), &Metrics::new());
    let identity = IssuerIdentity {
        certificate_file: files.file("issuer", "crt"),
        key_file: files.file("issuer", "key"),
        client_ca_file: files.file("ca", "crt"),
        client_name: "business-api".to_owned(),
    };
    let tasks = runtime::Tasks::new();
    tasks.spawn_draining("clerk", worker.run(tasks.token()));
    tasks.spawn_draining("issuer", run(listener, identity, queue, tasks.token()));

    let body = json!(IssueRequest::default()).to_string();
    let ours = files.client(port, "business-api", &files);
    assert_eq!(code(&ask(&ours, body.clone()).await), 400, "let in, and refused for what it asks");
    assert_eq!(code(&ask(&ours, "x".repeat(BODY_MAX + 1)).await), 400);
    assert_eq!(code(&ask(&files.client(port, "somebody", &files), body.clone()).await), 403);
    assert_eq!(code(&ask(&files.client(port, "business-api", &strangers), body).await), 0);
    tasks.cancel();
    tasks.join(Duration::from_secs(5)).await.unwrap();
}

#[test]
fn the_end_of_the_certificate_that_is_shown_is_read() {
    let files = Files::new("ends");
    files.issue("issuer", ExtendedKeyUsagePurpose::ServerAuth);
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.not_after = date_time_ymd(2001, 9, 9);
    let leaf = params.signed_by(&KeyPair::generate().unwrap(), &files.issuer).unwrap();
    let chain = leaf.pem() + &std::fs::read_to_string(files.file("ca", "crt")).unwrap();
    assert_eq!(end_of(chain.as_bytes()), Some(999_993_600));
    assert_eq!(end_of(&std::fs::read(files.file("issuer", "key")).unwrap()), None);
    assert_eq!(end_of(b""), None);
    let metrics = Metrics::new();
    register(&metrics).set(1);
    assert!(
        metrics.encode().contains("business_controller_issuer_certificate_expiration_timestamp_seconds{} 1")
    );
}
