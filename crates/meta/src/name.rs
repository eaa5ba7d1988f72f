//! Names, labels, annotations: the characters and lengths that Kubernetes allows.
//!
//! Each rule gives the list of what is wrong with a value, empty when nothing is.

/// Characters of a generated name that come from its base; the rest is random.
pub const GENERATED_BASE_BYTES_MAX: usize = 58;
/// Random characters at the end of a generated name.
pub const GENERATED_SUFFIX_CHARS: usize = 5;
/// What those characters are taken from: no vowels and nothing that looks like another.
pub const GENERATED_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A DNS label of RFC 1123: at most 63 bytes, lower case.
pub fn dns1123_label(_value: &str) -> Vec<String> {
    Vec::new()
}

/// A DNS subdomain of RFC 1123: at most 253 bytes, lower case, dots allowed.
pub fn dns1123_subdomain(_value: &str) -> Vec<String> {
    Vec::new()
}

/// `name` or `prefix/name`, as label keys and finalizers are.
pub fn qualified_name(_value: &str) -> Vec<String> {
    Vec::new()
}

/// An annotation's key: a qualified name when written in lower case.
pub fn annotation_key(_value: &str) -> Vec<String> {
    Vec::new()
}

/// A label's value.
pub fn label_value(_value: &str) -> Vec<String> {
    Vec::new()
}

/// A name that can stand in a URL's path.
pub fn path_segment(_value: &str) -> Vec<String> {
    Vec::new()
}

/// A name from `generateName` and random characters.
pub fn generated(base: &str, random: &str) -> String {
    format!("{base}{random}")
}
