use serde_json::Value;
use std::collections::BTreeSet;

const DESCRIPTION_MAX: usize = 60;

/// What krew's own validation looks at (`validate-krew-manifest`).
#[test]
fn the_krew_manifest_is_valid_when_its_places_are_filled() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/krew/business.yaml");
    let template = std::fs::read_to_string(file).unwrap();
    let sum = "0123456789abcdef".repeat(4);
    let mut filled = template.replace("@VERSION@", "v1.2.3").replace("@URL@", "https://releases.example.org");
    for platform in ["LINUX_AMD64", "LINUX_ARM64", "DARWIN_ARM64"] {
        filled = filled.replace(&format!("@SHA256_{platform}@"), &sum);
    }
    assert!(!filled.contains('@'), "a place is not filled: {filled}");
    let manifest: Value = serde_yaml_ng::from_str(&filled).unwrap();
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(
        (manifest["kind"].as_str(), manifest["metadata"]["name"].as_str()),
        (Some("Plugin"), Some("business"))
    );
    let spec = &manifest["spec"];
    let short = spec["shortDescription"].as_str().unwrap();
    assert!(!short.is_empty() && short.len() <= DESCRIPTION_MAX && !short.contains(['\n', '\r']), "{short}");
    let mut selectors = BTreeSet::new();
    for platform in spec["platforms"].as_array().unwrap() {
        let labels = &platform["selector"]["matchLabels"];
        assert!(["linux", "darwin", "windows"].contains(&labels["os"].as_str().unwrap()), "{labels}");
        assert!(selectors.insert(labels.to_string()), "two archives for {labels}");
        assert!(platform["uri"].as_str().unwrap().starts_with("https://"), "{platform}");
        let hex = platform["sha256"].as_str().unwrap();
        assert!(hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hex}");
        assert_eq!(platform["bin"], "kubectl-business", "kubectl finds its plugins by their names");
    }
    let fields: BTreeSet<&str> = spec.as_object().unwrap().keys().map(String::as_str).collect();
    let known = ["caveats", "description", "homepage", "platforms", "shortDescription", "version"];
    assert!(fields.iter().all(|field| known.contains(field)), "{fields:?}");
}
