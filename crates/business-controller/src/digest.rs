//! Digests of what was written, to know it again.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// The SHA-256 of what is given, in hexadecimal digits.
pub fn sha256(content: &(impl AsRef<[u8]> + ?Sized)) -> String {
    hex::encode(digest(&SHA256, content.as_ref()))
}

/// The digest of a value, of its JSON.
pub fn of(value: &impl Serialize) -> String {
    // What has no JSON has no content either.
    let text = serde_json::to_vec(value).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(digest(&SHA256, &text))
}
