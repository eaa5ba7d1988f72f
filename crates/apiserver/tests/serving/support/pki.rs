use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority.
pub(crate) struct Ca(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub(crate) struct Identity {
    chain: String,
    key: String,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn client(&self, name: &str, groups: &[&str]) -> Identity {
        self.issue(name, groups, ExtendedKeyUsagePurpose::ClientAuth, |_| {})
    }

    pub(crate) fn server(&self) -> Identity {
        self.issue("server", &[], ExtendedKeyUsagePurpose::ServerAuth, |_| {})
    }

    pub(crate) fn issue(
        &self,
        name: &str,
        groups: &[&str],
        usage: ExtendedKeyUsagePurpose,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        // A name has each type once; the attribute spelt by its number is another type of the same attribute.
        for (group, ty) in
            groups.iter().zip([DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])])
        {
            params.distinguished_name.push(ty, *group);
        }
        params.extended_key_usages = vec![usage];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity { chain: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Identity {
    pub(crate) fn chain_pem(&self) -> &str {
        &self.chain
    }

    pub(crate) fn key_pem(&self) -> &str {
        &self.key
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.chain.as_bytes()).map(Result::unwrap).collect()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }

    /// The certificate of somebody else with an own key.
    pub(crate) fn stolen(&self) -> Self {
        Self { chain: self.chain.clone(), key: KeyPair::generate().unwrap().serialize_pem() }
    }
}
