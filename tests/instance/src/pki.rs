//! Certificate authorities, certificates and keys as PEM files. Authorities are made once and kept;
//! certificates are made anew by every `up`, so that none runs out.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _, SigningKey as _, date_time_ymd,
};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const CA_YEARS: i32 = 10;
const CERTIFICATE_YEARS: i32 = 1;
/// ecdsa-with-SHA256 (1.2.840.10045.4.3.2), an OBJECT IDENTIFIER of DER.
const ECDSA_WITH_SHA256: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

/// A directory of PEM files `NAME.crt` and `NAME.key`.
#[derive(Clone, Debug)]
pub struct Pki {
    dir: PathBuf,
}

/// Which end of a connection a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Client,
    Server,
    /// A server that also calls its peers.
    Both,
}

impl Pki {
    pub fn open(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self { dir: dir.to_owned() })
    }

    pub fn cert(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.crt"))
    }

    pub fn key(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.key"))
    }

    pub fn public(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.pub"))
    }

    /// Makes an authority unless it is there.
    pub fn authority(&self, name: &str) -> Result<()> {
        if self.cert(name).exists() && self.key(name).exists() {
            return Ok(());
        }
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        valid_for(&mut params, CA_YEARS);
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?;
        secret(&self.key(name), &key.serialize_pem())?;
        std::fs::write(self.cert(name), cert.pem())?;
        Ok(())
    }

    /// Makes a certificate signed by the authority `ca`.
    pub fn issue(&self, ca: &str, name: &str, subject: &CertificateSubject<'_>) -> Result<()> {
        let names: Vec<String> = subject.names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, subject.user);
        for group in subject.groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match subject.usage {
            Use::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Use::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Use::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        valid_for(&mut params, CERTIFICATE_YEARS);
        let ca_key = KeyPair::from_pem(&std::fs::read_to_string(self.key(ca))?)?;
        let issuer = Issuer::from_ca_cert_pem(&std::fs::read_to_string(self.cert(ca))?, ca_key)?;
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &issuer)?;
        secret(&self.key(name), &key.serialize_pem())?;
        std::fs::write(self.cert(name), cert.pem())?;
        Ok(())
    }

    /// Makes a bare key pair unless it is there.
    pub fn key_pair(&self, name: &str, algorithm: &'static rcgen::SignatureAlgorithm) -> Result<KeyPair> {
        if let Ok(pem) = std::fs::read_to_string(self.key(name)) {
            return Ok(KeyPair::from_pem(&pem)?);
        }
        let key = KeyPair::generate_for(algorithm)?;
        secret(&self.key(name), &key.serialize_pem())?;
        std::fs::write(self.public(name), key.public_key_pem())?;
        Ok(key)
    }
}

/// Who a certificate is for.
#[derive(Clone, Copy, Debug)]
pub struct CertificateSubject<'a> {
    pub user: &'a str,
    pub groups: &'a [&'a str],
    /// DNS names and IP addresses of a server.
    pub names: &'a [&'a str],
    pub usage: Use,
}

impl<'a> CertificateSubject<'a> {
    pub fn client(user: &'a str, groups: &'a [&'a str]) -> Self {
        Self { user, groups, names: &[], usage: Use::Client }
    }

    pub fn server(names: &'a [&'a str]) -> Self {
        Self { user: names.first().copied().unwrap_or("server"), groups: &[], names, usage: Use::Server }
    }
}

/// Writes a file that only its owner may read.
pub fn secret(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    let next = path.with_extension("next");
    match std::fs::remove_file(&next) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&next, path).with_context(|| format!("write {}", path.display()))
}

/// The password in a file that only its owner may read, made at the first time.
pub fn password(file: &Path) -> Result<String> {
    if let Ok(known) = std::fs::read_to_string(file) {
        return Ok(known);
    }
    let fresh = random()?;
    secret(file, &fresh)?;
    Ok(fresh)
}

/// Letters and digits that cannot be guessed.
pub fn random() -> Result<String> {
    let mut bytes = [0; 24];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(hex::encode(bytes))
}

fn valid_for(params: &mut CertificateParams, years: i32) {
    let days = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() / 86_400);
    let year = 1970 + i32::try_from(days * 400 / 146_097).unwrap_or_default();
    // A day of January of the year is early enough for any clock that differs.
    params.not_before = date_time_ymd(year.saturating_sub(1), 1, 1);
    params.not_after = date_time_ymd(year.saturating_add(years).saturating_add(1), 1, 1);
}

/// A request for a certificate of this name, base64 of PEM as Kubernetes takes it. Its key is thrown away.
pub fn request(name: &str, group: Option<&str>) -> Result<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(STANDARD.encode(params.serialize_request(&KeyPair::generate()?)?.pem()?))
}

/// As [`request`], for a subject whose names are DER already, whatever they are.
pub fn request_of(names: &[u8]) -> Result<String> {
    let key = KeyPair::generate()?;
    let (version, attributes) = (der(2, &[0]), der(0xa0, &[]));
    let asked = der(0x30, &[version, der(0x30, names), key.subject_public_key_info(), attributes].concat());
    let signature = [vec![0], key.sign(&asked)?].concat();
    let signed = der(0x30, &[asked, der(0x30, ECDSA_WITH_SHA256), der(3, &signature)].concat());
    let mut pem = String::from("-----BEGIN CERTIFICATE REQUEST-----\n");
    for line in STANDARD.encode(signed).as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line)?);
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE REQUEST-----\n");
    Ok(STANDARD.encode(pem))
}

/// A value of DER of less than 64 KiB.
pub fn der(tag: u8, value: &[u8]) -> Vec<u8> {
    let [.., high, low] = value.len().to_be_bytes();
    let mut whole = vec![tag];
    match (high, low) {
        (0, ..0x80) => whole.push(low),
        (0, _) => whole.extend([0x81, low]),
        _ => whole.extend([0x82, high, low]),
    }
    whole.extend(value);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_short_as_der_has_them() {
        let lengths: [(usize, &[u8]); 5] =
            [(0, &[0]), (127, &[127]), (128, &[0x81, 128]), (255, &[0x81, 255]), (256, &[0x82, 1, 0])];
        for (bytes, length) in lengths {
            let value = vec![7; bytes];
            assert_eq!(der(4, &value), [&[4], length, value.as_slice()].concat());
        }
    }

    #[test]
    fn an_authority_is_kept_and_certificates_are_made_anew() {
        let dir = std::env::temp_dir().join(format!("xtask-pki-{}", std::process::id()));
        let pki = Pki::open(&dir).unwrap();
        pki.authority("ca").unwrap();
        let first = std::fs::read(pki.cert("ca")).unwrap();
        pki.issue("ca", "server", &CertificateSubject::server(&["127.0.0.1", "api.example.svc"])).unwrap();
        let issued = std::fs::read(pki.cert("server")).unwrap();
        let pki = Pki::open(&dir).unwrap();
        pki.authority("ca").unwrap();
        pki.issue("ca", "server", &CertificateSubject::server(&["127.0.0.1"])).unwrap();
        assert_eq!(first, std::fs::read(pki.cert("ca")).unwrap());
        assert_ne!(issued, std::fs::read(pki.cert("server")).unwrap());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
