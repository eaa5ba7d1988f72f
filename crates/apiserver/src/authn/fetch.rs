use crate::error::Error;
use crate::tls::serving::read;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The error of rustls about a certificate whose CA is not trusted.
const UNKNOWN_AUTHORITY: &str = "UnknownIssuer";
/// The largest response that is accepted.
const SIZE_LIMIT: usize = 1024 * 1024;

/// The CAs that are trusted for the servers of an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IssuerAuthorities {
    /// Those of the operating system.
    #[default]
    System,
    /// Those of a PEM file, read at each fetch.
    File(PathBuf),
    /// Those in this PEM text.
    Pem(String),
}

/// Sends a request to a server of an issuer, without retries. The URL must be https, or plain HTTP on this machine. The
/// response must come within 10 s and have at most 1 MiB. Redirects are not followed.
pub async fn send(
    request: Request<Vec<u8>>,
    authorities: &IssuerAuthorities,
) -> Result<Response<Vec<u8>>, Error> {
    let uri = request.uri().clone();
    let failed = |why: &dyn Display| Error::Issuer { url: uri.to_string(), why: why.to_string() };
    let local = matches!(uri.host(), Some("127.0.0.1" | "localhost" | "[::1]"));
    if uri.scheme_str() != Some("https") && !local {
        return Err(failed(&"issuers are asked by https"));
    }
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(client_config(authorities).await?)
        .https_or_http()
        .enable_http1()
        .build();
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let asked = async {
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let (head, body) =
            client.request(request).await.map_err(|error| failed(&with_ca_hint(&error)))?.into_parts();
        let body = Limited::new(body, SIZE_LIMIT).collect().await.map_err(|error| failed(&error))?;
        Ok(Response::from_parts(head, body.to_bytes().to_vec()))
    };
    tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(|_elapsed| Err(failed(&"no answer in time")))
}

/// An error with its causes, and with a hint where the CA is not trusted.
fn with_ca_hint(error: &dyn std::error::Error) -> String {
    let text = runtime::error_chain(error);
    if text.contains(UNKNOWN_AUTHORITY) {
        return format!(
            "{text}; a CA of its own is named by issuer.certificateAuthority of the file, or by --jwt-ca-file"
        );
    }
    text
}

async fn client_config(authorities: &IssuerAuthorities) -> Result<rustls::ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    let pem = match authorities {
        IssuerAuthorities::System => None,
        IssuerAuthorities::File(path) => Some(read(path).await?),
        IssuerAuthorities::Pem(pem) => Some(pem.clone().into_bytes()),
    };
    if let Some(pem) = pem {
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| Error::credentials("issuer's CA", error))?;
            roots.add(certificate).map_err(|error| Error::credentials("issuer's CA", error))?;
        }
    } else {
        let (_added, _ignored) =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let config = rustls::ClientConfig::builder_with_provider(crate::tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::credentials("TLS", error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
