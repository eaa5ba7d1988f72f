use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use serde_json::{Value, json};
use std::time::SystemTime;

pub const ISSUER: &str = "https://issuer.test";
pub const AUDIENCE: &str = "business-api";
const LIFETIME_SECONDS: u64 = 3600;
const KEY_ID: &str = "k1";

/// Who signs the tokens of people.
#[derive(Debug)]
pub struct Signer(KeyPair);

impl Default for Signer {
    fn default() -> Self {
        Self(KeyPair::generate().unwrap())
    }
}

impl Signer {
    /// Its public half, as an issuer publishes it.
    pub fn key_set(&self) -> Value {
        key_set(&self.0)
    }

    /// A token of these claims; what is not among them of issuer, audience and times is added.
    pub fn token(&self, claims: Value) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let mut whole = json!({"iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + LIFETIME_SECONDS});
        let Value::Object(claims) = claims else { panic!("claims are an object") };
        whole.as_object_mut().unwrap().extend(claims);
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(KEY_ID.to_owned());
        let key = EncodingKey::from_ec_pem(self.0.serialize_pem().as_bytes()).unwrap();
        jsonwebtoken::encode(&header, &whole, &key).unwrap()
    }
}

/// The public half of a P-256 key as a key set.
pub fn key_set(key: &KeyPair) -> Value {
    let point = key.public_key_raw();
    let part = |range: std::ops::Range<usize>| BASE64_URL_SAFE_NO_PAD.encode(&point[range]);
    json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": KEY_ID,
        "x": part(1..33), "y": part(33..65)}]})
}
