//! Signs tokens like the identity provider of an instance, without running it: for any tenant, valid for a year.

use crate::pki::Pki;
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::PublicKeyData as _;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The provider's one client.
pub const AUDIENCE: &str = "kubernetes";
/// The claim with the user's tenant.
pub const TENANT_CLAIM: &str = "tenantid";
const KEY: &str = "id-tokens";
const VALIDITY: Duration = Duration::from_hours(365 * 24);

/// Signs tokens.
#[derive(Debug)]
pub struct TokenIssuer {
    pki: Pki,
    key: EcdsaKeyPair,
    id: String,
    url: String,
    jwks: PathBuf,
}

impl TokenIssuer {
    /// Opens or makes the key and writes its key set to `dir`; `url` is what the provider is called.
    pub fn open(dir: &Path, url: String) -> Result<Self> {
        let pki = Pki::open(dir)?;
        let pair = pki.key_pair(KEY, &rcgen::PKCS_ECDSA_P256_SHA256)?;
        let id = crate::layout::hash(pair.der_bytes());
        let jwks = dir.join("tokens.jwks");
        // An uncompressed point: a byte that says so, then both halves.
        let (x, y) = pair.der_bytes().get(1..).unwrap_or_default().split_at(32);
        let [x, y] = [x, y].map(|half| URL_SAFE_NO_PAD.encode(half));
        let public =
            json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id, "x": x, "y": y});
        std::fs::write(&jwks, serde_json::to_vec_pretty(&json!({"keys": [public]}))?)?;
        let signing = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::from_pkcs8(signing, &pair.serialize_der(), &SystemRandom::new());
        let key = key.map_err(|error| anyhow::anyhow!("the key of tokens: {error}"))?;
        Ok(Self { pki, key, id, url, jwks })
    }

    pub fn jwks(&self) -> &Path {
        &self.jwks
    }

    /// The file of the private key.
    pub fn key(&self) -> PathBuf {
        self.pki.key(KEY)
    }

    pub fn key_id(&self) -> &str {
        &self.id
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A token of a tenant's user.
    pub fn token(&self, user: &str, tenant: Option<&str>, groups: &[&str]) -> Result<String> {
        let now = SystemTime::UNIX_EPOCH.elapsed()?;
        let mut claims = json!({
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": user,
            "groups": groups,
            "iat": now.as_secs(),
            "exp": (now + VALIDITY).as_secs(),
        });
        if let (Some(tenant), Some(claims)) = (tenant, claims.as_object_mut()) {
            claims.insert(TENANT_CLAIM.to_owned(), Value::from(tenant));
        }
        self.sign(&claims)
    }

    /// A token with exactly these claims.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": self.id});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|error| anyhow::anyhow!("sign a token: {error}"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_three_parts_and_the_claims_of_its_tenant() {
        let dir = std::env::temp_dir().join(format!("xtask-token-{}", std::process::id()));
        let token = TokenIssuer::open(&dir, "https://i".to_owned())
            .unwrap()
            .token("anna", Some("acme"), &["tenant-admins"])
            .unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(claims["tenantid"], "acme");
        assert_eq!(URL_SAFE_NO_PAD.decode(parts[2]).unwrap().len(), 64);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
