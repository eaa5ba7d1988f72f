use super::CertificateIssuer;
use anyhow::Context as _;
use business_types::issue::{ISSUE_PATH, IssueRequest, IssuedCertificate};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use kube::Client;
use kube::core::Status as Refused;
use meta::status::Status;
use std::path::PathBuf;
use std::time::Duration;

/// A call that takes longer has failed. The controller's own deadline is shorter.
const DEADLINE: Duration = Duration::from_secs(25);
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
const RETRY_AFTER_SECONDS: u32 = 2;

/// Where the controller issues certificates, and the client certificate that it accepts.
#[derive(Clone, Debug)]
pub struct ControllerIssuer {
    /// Its URL, such as `https://business-issuer.tke-business.svc`.
    pub url: String,
    /// CA of its serving certificate, PEM.
    pub ca_file: PathBuf,
    /// The client certificate, PEM.
    pub certificate_file: PathBuf,
    /// The key of the client certificate, PEM.
    pub key_file: PathBuf,
}

impl ControllerIssuer {
    /// A new client for each call: calls are rare, and the files may have been renewed.
    fn client(&self) -> anyhow::Result<Client> {
        let mut config = kube::Config::new(self.url.parse().context("--issuer-url")?);
        let ca = std::fs::read(&self.ca_file).with_context(|| format!("read {}", self.ca_file.display()))?;
        let authorities = apiserver::tls::certificates(&ca).context("--issuer-ca-file")?;
        config.root_cert = Some(authorities);
        config.auth_info.client_certificate = Some(self.certificate_file.display().to_string());
        config.auth_info.client_key = Some(self.key_file.display().to_string());
        config.connect_timeout = Some(CONNECT_DEADLINE);
        config.default_retry = false;
        Client::try_from(config).context("connect to the controller")
    }

    async fn call(&self, request: IssueRequest) -> Result<IssuedCertificate, Status> {
        let client = self.client().map_err(|error| unavailable(&format!("{error:#}")))?;
        let body = serde_json::to_vec(&request).map_err(|error| unavailable(&error.to_string()))?;
        let post = http::Request::post(ISSUE_PATH)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| unavailable(&error.to_string()))?;
        match tokio::time::timeout(DEADLINE, client.request(post)).await {
            Ok(Ok(issued)) => Ok(issued),
            Ok(Err(kube::Error::Api(refused))) => Err(answer_for_caller(&refused)),
            Ok(Err(error)) => Err(unavailable(&format!("{:#}", anyhow::Error::from(error)))),
            Err(_elapsed) => Err(Status::timeout("the controller does not answer", RETRY_AFTER_SECONDS)),
        }
    }
}

impl CertificateIssuer for ControllerIssuer {
    fn issue(&self, request: IssueRequest) -> BoxFuture<'_, Result<IssuedCertificate, Status>> {
        self.call(request).boxed()
    }
}

/// Logs the reason, which is about the installation, and does not tell it to the caller.
fn unavailable(why: &str) -> Status {
    tracing::error!(why, "the controller cannot be asked for certificates");
    Status::unavailable("the controller cannot be reached: it issues the certificates", RETRY_AFTER_SECONDS)
}

/// Passes on what the controller says about the member cluster, but not that it refuses this program's requests.
fn answer_for_caller(refused: &Refused) -> Status {
    let why = || refused.message.clone();
    match refused.code {
        422 => Status::failure(422, "Invalid", why()),
        504 => Status::failure(504, "Timeout", why()).retry_after(RETRY_AFTER_SECONDS),
        503 => Status::unavailable(why(), RETRY_AFTER_SECONDS),
        _ => unavailable(&format!("{} {}", refused.code, refused.message)),
    }
}
