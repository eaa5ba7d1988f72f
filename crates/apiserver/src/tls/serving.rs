use crate::error::Error;
use arc_swap::ArcSwap;
use runtime::CertificateExpiry;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The serving certificate and its key, from two PEM files that another program renews.
#[derive(Debug)]
pub struct ServingCertificate {
    files: CertificateFiles,
    current: ArcSwap<LoadedCertificate>,
    expiry_metric: CertificateExpiry,
}

#[derive(Debug)]
struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug)]
struct LoadedCertificate {
    pem: (Vec<u8>, Vec<u8>),
    certified: Arc<CertifiedKey>,
    /// When the chain ends, in Unix seconds: the end of the certificate that ends first, which may be an intermediate.
    ends: i64,
}

impl ServingCertificate {
    /// Reads both files.
    pub async fn load(
        certificate: PathBuf,
        key: PathBuf,
        expiry_metric: CertificateExpiry,
    ) -> Result<Self, Error> {
        let files = CertificateFiles { certificate, key };
        let loaded = LoadedCertificate::parse(files.read().await?)?;
        expiry_metric.set(loaded.ends);
        Ok(Self { files, current: ArcSwap::from_pointee(loaded), expiry_metric })
    }

    /// Reads the files again at this interval, for ever, and uses a changed pair if certificate and key match. A
    /// half-written pair is read again later.
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
        let loaded = LoadedCertificate::parse(pem)?;
        self.expiry_metric.set(loaded.ends);
        self.current.store(Arc::new(loaded));
        Ok(true)
    }
}

impl CertificateFiles {
    async fn read(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        Ok((read(&self.certificate).await?, read(&self.key).await?))
    }
}

impl LoadedCertificate {
    fn parse(pem: (Vec<u8>, Vec<u8>)) -> Result<Self, Error> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem.0)
            .collect::<Result<_, _>>()
            .map_err(|error| Error::credentials("serving certificate", error))?;
        if chain.is_empty() {
            return Err(Error::credentials("serving certificate", "no certificate in the file"));
        }
        let ends = chain.iter().filter_map(end_of).min().unwrap_or_default();
        let key = PrivateKeyDer::from_pem_slice(&pem.1)
            .map_err(|error| Error::credentials("serving key", error))?;
        let certified = CertifiedKey::from_der(chain, key, &super::provider())
            .map_err(|error| Error::credentials("serving certificate and key", error))?;
        Ok(Self { pem, certified: Arc::new(certified), ends })
    }
}

fn end_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// When the chain in a PEM file ends, in Unix seconds: the end of the certificate that ends first.
pub fn end_of_pem(pem: &[u8]) -> Option<i64> {
    let ends = CertificateDer::pem_slice_iter(pem).map(|read| end_of(&read.ok()?));
    ends.collect::<Option<Vec<_>>>()?.into_iter().min()
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

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use runtime::Metrics;

    /// Writes a pair that ends in September of a year.
    fn write(dir: &Path, year: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 9, 9);
        std::fs::write(dir.join("tls.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(dir.join("tls.key"), key.serialize_pem()).unwrap();
    }

    #[tokio::test]
    async fn the_end_is_told_anew_when_the_certificate_is_renewed_and_not_when_it_is_broken() {
        let dir = std::env::temp_dir().join(format!("serving-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        write(&dir, 2001);
        let metrics = Metrics::new();
        let end = CertificateExpiry::register(&metrics, "end", "When it ends");
        let certificate =
            ServingCertificate::load(dir.join("tls.crt"), dir.join("tls.key"), end).await.unwrap();
        assert!(metrics.encode().contains("end{} 999993600"), "{}", metrics.encode());
        std::fs::write(dir.join("tls.crt"), "half a certificate").unwrap();
        assert!(certificate.reload().await.is_err());
        write(&dir, 2031);
        let of_another = KeyPair::generate().unwrap().serialize_pem();
        let own = std::fs::read(dir.join("tls.key")).unwrap();
        std::fs::write(dir.join("tls.key"), of_another).unwrap();
        assert!(certificate.reload().await.is_err());
        assert!(metrics.encode().contains("end{} 999993600"), "the one before stays: {}", metrics.encode());
        std::fs::write(dir.join("tls.key"), own).unwrap();
        assert!(certificate.reload().await.unwrap());
        assert!(metrics.encode().contains("end{} 1946678400"), "{}", metrics.encode());
        assert_eq!(end_of_pem(&std::fs::read(dir.join("tls.crt")).unwrap()), Some(1_946_678_400));
        assert_eq!(end_of_pem(&std::fs::read(dir.join("tls.key")).unwrap()), None);
        let renewed =
            [std::fs::read(dir.join("tls.crt")).unwrap(), std::fs::read(dir.join("tls.key")).unwrap()];
        write(&dir, 2021);
        let intermediate = std::fs::read(dir.join("tls.crt")).unwrap();
        let [leaf, key] = &renewed;
        std::fs::write(dir.join("tls.crt"), [&leaf[..], &intermediate[..]].concat()).unwrap();
        std::fs::write(dir.join("tls.key"), key).unwrap();
        assert!(certificate.reload().await.unwrap());
        assert!(metrics.encode().contains("end{} 1631145600"), "{}", metrics.encode());
        assert_eq!(end_of_pem(&std::fs::read(dir.join("tls.crt")).unwrap()), Some(1_631_145_600));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
