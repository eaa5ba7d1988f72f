use crate::reloaded_file::ReloadedFile;
use anyhow::{Context, Result, ensure};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use std::path::Path;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// Private keys from a file: the first signs, and all are published. So a key is rotated in three steps: append the new
/// one and give the key set to the registry; move it to the front; remove the old one.
#[derive(Clone, Debug)]
pub struct TokenKeys(ReloadedFile<KeyFile>);

struct KeyFile {
    id: String,
    signing: EncodingKey,
    jwks: String,
}

impl std::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyFile").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TokenKeys {
    /// Reads the file.
    pub fn load(file: &Path) -> Result<Self> {
        Ok(Self(ReloadedFile::load(file, KeyFile::parse)?))
    }

    /// Reloads the file whenever it has changed. Never returns.
    pub async fn follow(self) {
        self.0.follow().await;
    }

    /// Signs a token with these claims.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, jsonwebtoken::errors::Error> {
        let read = self.0.current();
        let keys = &read.value;
        let header = Header { kid: Some(keys.id.clone()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, &keys.signing)
    }

    /// The public keys, as a JSON web key set.
    pub fn jwks(&self) -> String {
        self.0.current().value.jwks.clone()
    }
}

impl KeyFile {
    fn parse(pem: &str) -> Result<Self> {
        let mut keys = Vec::new();
        let mut public = Vec::new();
        for block in pem_blocks(pem) {
            let key = EncodingKey::from_ec_pem(block.as_bytes()).context("a private key cannot be read")?;
            public.push(public_key(&key)?);
            keys.push(key);
        }
        let first = keys.into_iter().next().zip(public.first().and_then(|jwk| jwk.common.key_id.clone()));
        let (signing, id) = first.context("there is no PKCS #8 key (BEGIN PRIVATE KEY)")?;
        let jwks = serde_json::to_string(&JwkSet { keys: public })?;
        Ok(Self { id, signing, jwks })
    }
}

/// The private keys in a file of PEM blocks.
fn pem_blocks(pem: &str) -> impl Iterator<Item = String> {
    pem.split(BEGIN).skip(1).filter_map(|rest| {
        let (body, _) = rest.split_once(END)?;
        Some(format!("{BEGIN}{body}{END}\n"))
    })
}

/// The public key, with its thumbprint as key id.
fn public_key(key: &EncodingKey) -> Result<Jwk> {
    let mut jwk =
        Jwk::from_encoding_key(key, Algorithm::ES256).context("ES256 needs a key on the curve P-256")?;
    let AlgorithmParameters::EllipticCurve(parameters) = &jwk.algorithm else {
        anyhow::bail!("ES256 needs a key on the curve P-256");
    };
    ensure!(parameters.curve == EllipticCurve::P256, "ES256 needs a key on the curve P-256");
    jwk.common.key_id = Some(jwk.thumbprint(ThumbprintHash::SHA256)?);
    jwk.common.public_key_use = Some(PublicKeyUse::Signature);
    Ok(jwk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{DecodingKey, Validation, decode};
    use rcgen::KeyPair;
    use serde_json::{Value, json};

    fn pem() -> String {
        KeyPair::generate().unwrap().serialize_pem()
    }

    fn keys(pem: &str) -> TokenKeys {
        TokenKeys(ReloadedFile::of_text(pem, KeyFile::parse))
    }

    fn verify(jwks: &str, token: &str) -> Option<Value> {
        let set: JwkSet = serde_json::from_str(jwks).unwrap();
        let id = jsonwebtoken::decode_header(token).unwrap().kid.unwrap();
        let key = DecodingKey::from_jwk(set.find(&id)?).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        Some(decode::<Value>(token, &key, &validation).unwrap().claims)
    }

    #[test]
    fn a_key_is_exchanged_without_a_token_that_the_registry_does_not_know() {
        let (old, new) = (pem(), pem());
        let keys = keys(&old);
        let (sign, claims) = (|| keys.sign(&json!({"a": 1})).unwrap(), Some(json!({"a": 1})));
        let by_old = sign();
        let mut told = keys.jwks();
        assert_eq!(verify(&told, &by_old), claims);
        assert!(!told.contains("\"d\""), "no private half: {told}");
        for (file, knows_both) in [(format!("{old}{new}"), true), (format!("{new}{old}"), true), (new, false)]
        {
            keys.0.update(file);
            // A registry that was told before the step, and one that is told after it.
            assert_eq!(verify(&told, &sign()), claims);
            told = keys.jwks();
            assert_eq!(verify(&told, &sign()), claims);
            assert_eq!(verify(&told, &by_old).is_some(), knows_both);
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_changes_nothing() {
        let keys = keys(&pem());
        let before = keys.jwks();
        let other_curve = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap().serialize_pem();
        for wrong in [
            String::new(),
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----".to_owned(),
            other_curve,
        ] {
            keys.0.update(wrong);
            assert_eq!(keys.jwks(), before);
        }
        assert!(TokenKeys::load(Path::new("/nonexistent")).is_err());
    }
}
