use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

/// A private key, PKCS #8 as PEM. It is not printed by accident.
#[derive(Clone)]
pub struct KeyPem(String);

impl std::fmt::Debug for KeyPem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPem")
    }
}

impl KeyPem {
    /// For whom it was made.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// A key, and the request for its certificate.
#[derive(Clone, Debug)]
pub struct Made {
    /// EC P-256.
    pub key: KeyPem,
    /// PKCS #10, PEM.
    pub request: String,
}

/// Makes a key for a user who is in a group. The member cluster's policy reads exactly this form of a request: the group,
/// then the user, and nothing else.
pub fn make(user: &str, group: Option<&str>) -> Result<Made, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.distinguished_name.push(DnType::CommonName, user);
    let key = KeyPair::generate()?;
    let request = params.serialize_request(&key)?.pem()?;
    Ok(Made { key: KeyPem(key.serialize_pem()), request })
}
