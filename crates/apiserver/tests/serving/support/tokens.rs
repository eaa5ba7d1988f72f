use super::{AUDIENCE, ISSUER};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PublicKeyData};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Signs tokens with ES256.
pub(crate) struct Signer {
    id: String,
    key: KeyPair,
}

impl Signer {
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), key: KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap() }
    }

    /// Its public key in a JSON web key set with other keys.
    pub(crate) fn key_set(&self) -> String {
        let public = self.key.der_bytes();
        let (x, y) = public[1..].split_at(32);
        let jwk = json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": BASE64_URL_SAFE_NO_PAD.encode(x), "y": BASE64_URL_SAFE_NO_PAD.encode(y),
        });
        let secret = json!({"kty": "oct", "kid": "secret", "alg": "HS256", "k": "c2VjcmV0"});
        let unknown = json!({"kty": "new", "kid": "unknown"});
        json!({ "keys": [secret, unknown, jwk] }).to_string()
    }

    /// A valid token of a tenant's administrator, with changed claims.
    pub(crate) fn token(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = claims();
        change(&mut claims);
        self.sign(&json!({"alg": "ES256", "typ": "JWT", "kid": self.id}), &claims)
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let key = any_supported_type(&PrivateKeyDer::Pkcs8(self.key.serialize_der().into())).unwrap();
        let signer = key.choose_scheme(&[rustls::SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
        let signature = fixed(&signer.sign(message.as_bytes()).unwrap());
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Encodes header and claims, without a signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": [AUDIENCE, "other"], "sub": "alice", "groups": ["tenant-admins", "system:masters"],
        "tenantid": "acme", "exp": now() + 600, "nbf": now() - 5,
    })
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Converts the two DER integers of a signature to the 64 bytes of a token.
fn fixed(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut signature = Vec::new();
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let number = &rest[2..2 + length];
        let number = &number[number.iter().take_while(|byte| **byte == 0).count()..];
        signature.extend(std::iter::repeat_n(0, 32 - number.len()));
        signature.extend(number);
        rest = &rest[2 + length..];
    }
    signature
}
