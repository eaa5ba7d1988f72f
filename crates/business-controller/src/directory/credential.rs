//! The credential in a kubeconfig, and when it expires.

use crate::digest;
use crate::member_cluster::kind::{CredentialInfo, CredentialValidity};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::Value;
use x509_parser::pem::parse_x509_pem;

/// A credential is to be renewed when a quarter of its lifetime is left, or this much of it.
const RENEWAL_SECONDS_MAX: i64 = 30 * 86_400;

/// A service account token or a client certificate: a digest and its lifetime, nothing secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    fingerprint: String,
    /// Seconds since 1970.
    begins: Option<i64>,
    ends: Option<i64>,
}

/// The times in a JSON Web Token.
#[derive(Debug, Deserialize)]
struct Claims {
    iat: Option<i64>,
    exp: Option<i64>,
}

impl Credential {
    /// The credential of a kubeconfig. `None` if it may change by itself (a program or a file), or is a plain word
    /// whose digest could be guessed.
    pub fn of(config: &kube::Config) -> Option<Self> {
        let user = serde_json::to_value(&config.auth_info).ok()?;
        let field = |name: &str| user.get(name).and_then(Value::as_str);
        match (field("token"), field("client-certificate-data")) {
            (Some(token), _) => Self::of_token(token),
            (None, Some(certificate)) => Self::of_certificate(certificate),
            (None, None) => None,
        }
    }

    fn of_token(token: &str) -> Option<Self> {
        let claims = token.split('.').nth(1).filter(|_| token.split('.').count() == 3)?;
        let claims: Claims = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        Some(Self { fingerprint: fingerprint(token.as_bytes()), begins: claims.iat, ends: claims.exp })
    }

    fn of_certificate(base64: &str) -> Option<Self> {
        let pem = BASE64_STANDARD.decode(base64).ok()?;
        let (_, pem) = parse_x509_pem(&pem).ok()?;
        let validity = pem.parse_x509().ok()?.validity.clone();
        let (begins, ends) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        Some(Self { fingerprint: fingerprint(&pem.contents), begins: Some(begins), ends: Some(ends) })
    }

    /// The same, but valid no longer than `ends`.
    #[must_use]
    pub fn at_most(mut self, ends: Option<i64>) -> Self {
        self.ends = self.ends.into_iter().chain(ends).min();
        self
    }

    /// Its description at this time.
    pub fn info(&self, now: i64) -> CredentialInfo {
        let renewal = self.ends.map(|ends| {
            let quarter = self.begins.map_or(i64::MAX, |begins| ends.saturating_sub(begins) / 4);
            ends.saturating_sub(quarter.min(RENEWAL_SECONDS_MAX))
        });
        let validity = match (renewal, self.ends) {
            (_, Some(ends)) if now >= ends => CredentialValidity::Expired,
            (Some(renewal), _) if now >= renewal => CredentialValidity::Expiring,
            _ => CredentialValidity::Valid,
        };
        let expires = self.ends.map(meta::time::rfc3339);
        CredentialInfo { fingerprint: self.fingerprint.clone(), expires, validity }
    }
}

fn fingerprint(bytes: &[u8]) -> String {
    format!("sha256:{}", digest::sha256(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn token(claims: &str) -> kube::Config {
        let token = format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims));
        let mut config = kube::Config::new("https://a".parse().unwrap());
        config.auth_info.token = Some(token.into());
        config
    }

    #[test]
    fn a_token_is_to_be_renewed_in_the_last_quarter_of_its_life() {
        let credential = Credential::of(&token(r#"{"iat": 1000, "exp": 5000}"#)).unwrap();
        let validity = |now| credential.info(now).validity;
        assert_eq!(
            (validity(3999), validity(4000)),
            (CredentialValidity::Valid, CredentialValidity::Expiring)
        );
        assert_eq!(
            (validity(4999), validity(5000)),
            (CredentialValidity::Expiring, CredentialValidity::Expired)
        );
        assert_eq!(credential.info(0).expires.as_deref(), Some("1970-01-01T01:23:20Z"));
        let year = Credential::of(&token(r#"{"iat": 0, "exp": 31536000}"#)).unwrap();
        assert_eq!(
            year.info(31_536_000 - 31 * 86_400).validity,
            CredentialValidity::Valid,
            "a month before, not more"
        );
        let sooner = credential.at_most(Some(3000));
        assert_eq!(
            (sooner.info(2499).validity, sooner.info(2500).validity),
            (CredentialValidity::Valid, CredentialValidity::Expiring)
        );
        assert_eq!(sooner.at_most(Some(9000)).at_most(None).info(3000).validity, CredentialValidity::Expired);
        let endless = Credential::of(&token("{}")).unwrap();
        assert_eq!(
            (endless.info(i64::MAX).validity, endless.info(0).expires),
            (CredentialValidity::Valid, None)
        );
    }

    #[test]
    fn tokens_and_certificates_are_told_apart_and_words_are_not_told() {
        let print = |config: &kube::Config| Credential::of(config).map(|one| one.fingerprint);
        let (one, other) = (print(&token(r#"{"exp": 1}"#)), print(&token(r#"{"exp": 2}"#)));
        assert!(one.is_some() && one != other);
        let mut config = token("{}");
        config.auth_info.token = Some("a-word".to_owned().into());
        assert_eq!(print(&config), None);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap();
        config.auth_info.token = None;
        config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(certificate.pem()));
        assert_eq!(print(&config), Some(fingerprint(certificate.der())));
    }
}
