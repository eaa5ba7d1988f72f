//! Digests of what was written, to recognize it later.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// The SHA-256 in hexadecimal.
pub fn sha256(content: &(impl AsRef<[u8]> + ?Sized)) -> String {
    hex::encode(digest(&SHA256, content.as_ref()))
}

/// The SHA-256 of a value's JSON, in base64url.
pub fn of(value: &impl Serialize) -> String {
    // A value without JSON counts as empty.
    let text = serde_json::to_vec(value).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(digest(&SHA256, &text))
}
