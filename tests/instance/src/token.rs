//! The issuer of tenants' tokens on this machine: a key, its key set as a file, and signed tokens.

use crate::pki::Pki;
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{PublicKeyData as _, SigningKey as _};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub const ISSUER: &str = "https://tokens.business.invalid";
pub const AUDIENCE: &str = "business-api";
const VALIDITY: Duration = Duration::from_hours(365 * 24);

/// Signs tokens.
#[derive(Debug)]
pub struct TokenIssuer {
    key: rcgen::KeyPair,
    id: String,
    jwks: PathBuf,
}

impl TokenIssuer {
    /// Opens or makes the key and writes its key set to `dir`.
    pub fn open(dir: &Path) -> Result<Self> {
        let key = Pki::open(dir)?.key_pair("tokens", &rcgen::PKCS_ED25519)?;
        let id = crate::layout::hash(key.der_bytes());
        let jwks = dir.join("tokens.jwks");
        let x = URL_SAFE_NO_PAD.encode(key.der_bytes());
        let public = json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": id, "x": x});
        std::fs::write(&jwks, serde_json::to_vec_pretty(&json!({"keys": [public]}))?)?;
        Ok(Self { key, id, jwks })
    }

    pub fn jwks(&self) -> &Path {
        &self.jwks
    }

    /// A token of a tenant's user.
    pub fn token(&self, user: &str, tenant: Option<&str>, groups: &[&str]) -> Result<String> {
        let now = SystemTime::UNIX_EPOCH.elapsed()?;
        let mut claims = json!({
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "groups": groups,
            "iat": now.as_secs(),
            "exp": (now + VALIDITY).as_secs(),
        });
        if let (Some(tenant), Some(claims)) = (tenant, claims.as_object_mut()) {
            claims.insert("tenantid".to_owned(), Value::from(tenant));
        }
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": self.id});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes())?);
        Ok(format!("{signed}.{signature}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_three_parts_and_the_claims_of_its_tenant() {
        let dir = std::env::temp_dir().join(format!("xtask-token-{}", std::process::id()));
        let token = TokenIssuer::open(&dir).unwrap().token("anna", Some("acme"), &["tenant-admins"]).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(claims["tenantid"], "acme");
        assert_eq!(URL_SAFE_NO_PAD.decode(parts[2]).unwrap().len(), 64);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
