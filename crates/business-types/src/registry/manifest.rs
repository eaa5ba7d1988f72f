//! Names of manifests by digest, for manifests without a tag.

use super::validation::is_repository_component;
use std::fmt;
use std::str::FromStr;

/// The maximum number of manifests in `status.untagged` of an object.
pub const UNTAGGED_MAX: usize = 256;
/// The last word of a list that was cut off: more manifests were pushed than are listed.
pub const AND_MORE: &str = "more";

/// `REPOSITORY@DIGEST`, which always refers to the same content. Both parts are safe in URL paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestName {
    repository: String,
    digest: String,
}

impl ManifestName {
    /// `None` if one of them is invalid by the OCI distribution specification.
    pub fn new(repository: &str, digest: &str) -> Option<Self> {
        let fits = repository.split('/').all(is_repository_component) && is_digest(digest);
        fits.then(|| Self { repository: repository.to_owned(), digest: digest.to_owned() })
    }

    /// Its repository.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest of its content.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl fmt::Display for ManifestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repository, self.digest)
    }
}

/// The error for a text that is not the name of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidManifestName;

impl FromStr for ManifestName {
    type Err = InvalidManifestName;

    fn from_str(text: &str) -> Result<Self, InvalidManifestName> {
        let (repository, digest) = text.split_once('@').ok_or(InvalidManifestName)?;
        Self::new(repository, digest).ok_or(InvalidManifestName)
    }
}

/// Whether a text is a valid digest. Digests in manifests must be checked: the author of a manifest can write any text
/// there.
pub fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    !algorithm.is_empty()
        && algorithm.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && (32..=128).contains(&hex.len())
        && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_no_path() {
        let hex = "0123456789abcdef".repeat(4);
        assert!(is_digest(&format!("sha256:{hex}")));
        let bad =
            ["", "sha256:", "sha256:../../x", &hex, &format!("sha256:{hex}/.."), &format!("SHA256:{hex}")];
        for bad in bad {
            assert!(!is_digest(bad), "{bad}");
        }
    }

    #[test]
    fn a_manifest_is_named_by_repository_and_digest() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let text = format!("acme/shop/app@{digest}");
        let name: ManifestName = text.parse().unwrap();
        assert_eq!((name.repository(), name.digest(), name.to_string()), ("acme/shop/app", &*digest, text));
        for bad in ["", "acme/../x", "acme//x", "Acme/x", "/acme"] {
            assert_eq!(format!("{bad}@{digest}").parse::<ManifestName>(), Err(InvalidManifestName), "{bad}");
        }
        assert_eq!(AND_MORE.parse::<ManifestName>(), Err(InvalidManifestName));
        assert_eq!("acme/shop@latest".parse::<ManifestName>(), Err(InvalidManifestName));
    }
}
