use crate::error::Error;
use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The serving certificate and its key, from two PEM files that somebody else renews.
#[derive(Debug)]
pub struct ServingCertificate {
    files: Files,
    current: ArcSwap<Loaded>,
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug)]
struct Loaded {
    pem: (Vec<u8>, Vec<u8>),
    certified: Arc<CertifiedKey>,
    /// The certificate's end, in seconds since 1970.
    ends: i64,
}

impl ServingCertificate {
    /// Reads both files.
    pub async fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, Error> {
        let files = Files { certificate, key };
        let loaded = Loaded::parse(files.read().await?)?;
        Ok(Self { files, current: ArcSwap::from_pointee(loaded) })
    }

    /// Looks at the files for ever and takes over what fits together. A half-written pair is looked at again.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub(crate) async fn follow(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            match self.reload().await {
                Ok(true) => {
                    tracing::info!(file = %self.files.certificate.display(), "serving certificate reloaded");
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the serving certificate stays as it is"),
            }
        }
    }

    async fn reload(&self) -> Result<bool, Error> {
        let pem = self.files.read().await?;
        if self.current.load().pem == pem {
            return Ok(false);
        }
        self.current.store(Arc::new(Loaded::parse(pem)?));
        Ok(true)
    }
}

impl Files {
    async fn read(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        Ok((read(&self.certificate).await?, read(&self.key).await?))
    }
}

impl Loaded {
    fn parse(pem: (Vec<u8>, Vec<u8>)) -> Result<Self, Error> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem.0)
            .collect::<Result<_, _>>()
            .map_err(|error| Error::credentials("serving certificate", error))?;
        if chain.is_empty() {
            return Err(Error::credentials("serving certificate", "no certificate in the file"));
        }
        let leaf = chain.first().and_then(|leaf| X509Certificate::from_der(leaf).ok());
        let ends = leaf.map_or(0, |(_, leaf)| leaf.validity().not_after.timestamp());
        let key = PrivateKeyDer::from_pem_slice(&pem.1)
            .map_err(|error| Error::credentials("serving key", error))?;
        let certified = CertifiedKey::from_der(chain, key, &super::provider())
            .map_err(|error| Error::credentials("serving certificate and key", error))?;
        Ok(Self { pem, certified: Arc::new(certified), ends })
    }
}

/// When it ends, for whoever has to see to it in time.
impl Collector for ServingCertificate {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (name, help) = (
            "apiserver_serving_certificate_expiration_timestamp_seconds",
            "When the serving certificate ends",
        );
        let ends = ConstGauge::new(self.current.load().ends);
        ends.encode(encoder.encode_descriptor(name, help, None, ends.metric_type())?)
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().certified))
    }
}

/// Reads a whole file; the error names it.
pub(crate) async fn read(path: &Path) -> Result<Vec<u8>, Error> {
    tokio::fs::read(path).await.map_err(|source| Error::Read { path: path.to_owned(), source })
}
