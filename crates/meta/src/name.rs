//! Names, labels, annotations: the characters and lengths that Kubernetes allows.
//!
//! Each function returns what is wrong with a value, with the messages of Go; the list is empty for a valid value.

/// The maximum number of bytes of a generated name that come from its base.
pub const GENERATED_BASE_BYTES_MAX: usize = 58;
/// Random characters at the end of a generated name.
pub const GENERATED_SUFFIX_CHARS: usize = 5;
/// The characters of the random suffix: no vowels, and no two that look alike.
pub const GENERATED_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;
const EMPTY: &str = "must be non-empty";

const DNS1123_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1123_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
     start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const KEY_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const CONFIG_MAP_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
     start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// A key of a ConfigMap: at most 253 bytes, and safe as a file name.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, SUBDOMAIN_BYTES_MAX);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if value.is_empty() || !value.bytes().all(fits) {
        wrong.push(CONFIG_MAP_KEY.to_owned());
    }
    match value {
        "." | ".." => wrong.push(format!("must not be '{value}'")),
        _ if value.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// A DNS label of RFC 1123: at most 63 bytes, lower case.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, LABEL_BYTES_MAX);
    if !is_dns1123_label(value) {
        let only_dots = is_dns1123_subdomain(value);
        wrong.push(if only_dots { "must not contain dots" } else { DNS1123_LABEL }.to_owned());
    }
    wrong
}

/// A DNS subdomain of RFC 1123: at most 253 bytes, lower case, dots allowed.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > SUBDOMAIN_BYTES_MAX {
        wrong.push(format!("must be no more than {SUBDOMAIN_BYTES_MAX} characters"));
    }
    if !is_dns1123_subdomain(value) {
        wrong.push(DNS1123_SUBDOMAIN.to_owned());
    }
    wrong
}

/// `name` or `prefix/name`, such as a label key or a finalizer.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {KEY_NAME} {hint}")];
        }
        Some((prefix, name)) => {
            let found = if prefix.is_empty() { vec![EMPTY.to_owned()] } else { dns1123_subdomain(prefix) };
            wrong.extend(found.into_iter().map(|text| format!("prefix part {text}")));
            name
        }
    };
    let length = if name.is_empty() { vec![EMPTY.to_owned()] } else { too_long(name, LABEL_BYTES_MAX) };
    wrong.extend(length.into_iter().map(|text| format!("name part {text}")));
    if !is_key_name(name) {
        wrong.push(format!("name part {KEY_NAME}"));
    }
    wrong
}

/// An annotation's key: a qualified name when written in lower case.
pub fn annotation_key(value: &str) -> Vec<String> {
    qualified_name(&value.to_lowercase())
}

/// A label's value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, LABEL_BYTES_MAX);
    if !value.is_empty() && !is_key_name(value) {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
}

/// A name from `generateName` and random characters of [`GENERATED_ALPHABET`].
pub fn generated(base: &str, random: &str) -> String {
    let end = base.floor_char_boundary(GENERATED_BASE_BYTES_MAX);
    format!("{}{random}", base.get(..end).unwrap_or(base))
}

fn too_long(value: &str, bytes_max: usize) -> Vec<String> {
    if value.len() > bytes_max { vec![format!("must be no more than {bytes_max} bytes")] } else { Vec::new() }
}

fn is_dns1123_label(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    starts_and_ends(value, inner) && value.bytes().all(|byte| inner(byte) || byte == b'-')
}

fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns1123_label)
}

fn is_key_name(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric();
    starts_and_ends(value, inner)
        && value.bytes().all(|byte| inner(byte) || matches!(byte, b'-' | b'_' | b'.'))
}

fn starts_and_ends(value: &str, with: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(|byte| with(*byte)) && bytes.last().is_some_and(|byte| with(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels_or_subdomains() {
        let long = "a".repeat(64);
        for good in ["a", "0", "a-b", "prj-1", "123-abc", &"a".repeat(63)] {
            assert_eq!(dns1123_label(good), Vec::<String>::new(), "{good:?}");
            assert_eq!(dns1123_subdomain(good), Vec::<String>::new(), "{good:?}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a b", "ü", "a\n"] {
            assert_eq!(dns1123_label(bad), [DNS1123_LABEL], "{bad:?}");
            assert_eq!(dns1123_subdomain(bad), [DNS1123_SUBDOMAIN], "{bad:?}");
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label(&long), ["must be no more than 63 bytes"]);
        assert!(dns1123_subdomain("a.b-c.d").is_empty());
        assert_eq!(dns1123_subdomain("a..b"), [DNS1123_SUBDOMAIN]);
        assert_eq!(dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn keys_of_a_config_map_are_file_names() {
        for good in ["a", "a.b_c-D", ".a", "-"] {
            assert_eq!(config_map_key(good), Vec::<String>::new(), "{good:?}");
        }
        assert_eq!(config_map_key("."), ["must not be '.'"]);
        assert_eq!(config_map_key(".."), ["must not be '..'"]);
        assert_eq!(config_map_key("..."), ["must not start with '..'"]);
        assert_eq!(config_map_key(""), [CONFIG_MAP_KEY]);
        assert_eq!(config_map_key("a b"), [CONFIG_MAP_KEY]);
        assert_eq!(config_map_key(&"a".repeat(254)), ["must be no more than 253 bytes"]);
    }

    #[test]
    fn keys_have_an_optional_prefix() {
        for good in ["a", "A.b_c-D", "example.com/My.Name", "1/2"] {
            assert_eq!(qualified_name(good), Vec::<String>::new(), "{good:?}");
        }
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(
            qualified_name("a/"),
            ["name part must be non-empty".to_owned(), format!("name part {KEY_NAME}")]
        );
        assert_eq!(qualified_name("A/b"), [format!("prefix part {DNS1123_SUBDOMAIN}")]);
        assert_eq!(qualified_name("-a"), [format!("name part {KEY_NAME}")]);
        assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert!(qualified_name("a/b/c").concat().starts_with("a valid label key must consist of"));
        assert!(annotation_key("Example.COM/A").is_empty());
    }

    #[test]
    fn label_values_may_be_empty() {
        assert!(label_value("").is_empty() && label_value("a.B_c-1").is_empty());
        assert_eq!(label_value("a/b"), [LABEL_VALUE]);
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn generated_names_fit_a_label() {
        assert_eq!(generated("prj-", "bcdfg"), "prj-bcdfg");
        assert_eq!(generated(&"a".repeat(80), "bcdfg").len(), 63);
        assert!(generated(&"ü".repeat(80), "bcdfg").len() <= 63);
    }
}
