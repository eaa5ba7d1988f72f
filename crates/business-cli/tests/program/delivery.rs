use serde_json::Value;
use std::collections::BTreeSet;

const DESCRIPTION_MAX: usize = 60;

/// What krew's own validation looks at (`validate-krew-manifest`), on what `cargo xtask krew` writes.
#[test]
fn krew_takes_the_manifest_that_a_release_is_given() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../xtask/src/krew/filled.yaml");
    let manifest: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
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
        let files = platform["files"].as_array().unwrap();
        assert!(files.iter().any(|file| file["from"] == platform["bin"] && file["to"] == "."), "{files:?}");
        assert!(files.iter().all(|file| file["from"].is_string() && file["to"].is_string()), "{files:?}");
        let fields: BTreeSet<&str> = platform.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, BTreeSet::from(["bin", "files", "selector", "sha256", "uri"]));
        let keys: Vec<&String> = labels.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["arch", "os"]);
    }
    let version = spec["version"].as_str().unwrap().strip_prefix('v').unwrap();
    assert_eq!(version.split('.').filter(|part| part.parse::<u32>().is_ok()).count(), 3, "{version}");
    let fields: BTreeSet<&str> = spec.as_object().unwrap().keys().map(String::as_str).collect();
    let known = ["caveats", "description", "homepage", "platforms", "shortDescription", "version"];
    assert!(fields.iter().all(|field| known.contains(field)), "{fields:?}");
}
