use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Who issues certificates, for servers and for callers.
#[derive(Debug)]
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Of somebody in groups.
    pub fn caller(&self, name: &str, groups: &[&str]) -> Issued {
        self.issue(name, groups, &[])
    }

    /// Of a server at addresses.
    pub fn server(&self, name: &str, addresses: &[&str]) -> Issued {
        self.issue(name, &[], addresses)
    }

    fn issue(&self, name: &str, groups: &[&str], addresses: &[&str]) -> Issued {
        let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
        let mut params = CertificateParams::new(addresses).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Connects to servers whose certificates are of this authority, as somebody or as nobody.
    pub fn connector(&self, caller: Option<&Issued>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match caller {
            None => builder.with_no_client_auth(),
            Some(caller) => builder.with_client_auth_cert(caller.chain(), caller.private_key()).unwrap(),
        };
        TlsConnector::from(Arc::new(config))
    }
}

impl Issued {
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()]
    }

    pub fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}
