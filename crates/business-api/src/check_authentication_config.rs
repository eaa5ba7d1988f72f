use crate::config::CheckAuthenticationConfig;
use anyhow::{Context, Result, anyhow, bail};
use apiserver::authn::issuers::check_file;

/// Says which issuers a file trusts, or what is wrong with the file.
pub fn check(settings: &CheckAuthenticationConfig) -> Result<String> {
    let shown = settings.file.display();
    let bytes = std::fs::read(&settings.file).with_context(|| format!("read {shown}"))?;
    // `serve` compares them in lower case, too, as the keys of a file are.
    let tenant_keys: Vec<String> = settings.tenant_extra_keys.iter().map(|key| key.to_lowercase()).collect();
    let issuers = check_file(&bytes, &tenant_keys, &settings.tenant_issuers)
        .map_err(|why| anyhow!("{shown}: {why}"))?;
    let flags =
        [("--tenant-issuers", &settings.tenant_issuers), ("--cluster-issuers", &settings.cluster_issuers)];
    for (flag, named) in flags {
        let absent: Vec<&str> =
            named.iter().filter(|one| !issuers.contains(one)).map(String::as_str).collect();
        if !absent.is_empty() {
            bail!("{shown}: {flag} names {}, which is no issuer of the file", absent.join(", "));
        }
    }
    let issuers = if issuers.is_empty() { "nobody".to_owned() } else { issuers.join(", ") };
    Ok(format!("{shown} is good; tokens are believed of {issuers}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn examples() -> Vec<String> {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let pages = ["identity.md", "coming-from-tkestack.md"];
        let pages = pages.map(|page| std::fs::read_to_string(docs.join(page)).unwrap());
        let blocks = pages.iter().flat_map(|page| page.split("```yaml\n").skip(1));
        blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_example_of_the_pages_is_what_it_says() {
        let keys = ["business.tkestack.io/tenantid".to_owned()];
        let mut issuers = Vec::new();
        for example in examples() {
            let value: serde_json::Value = serde_yaml_ng::from_str(&example).unwrap();
            if value["kind"] != "AuthenticationConfiguration" {
                continue;
            }
            let named = value["jwt"].as_array().unwrap().iter().map(|one| one["issuer"]["url"].as_str());
            let named: Vec<String> = named.map(|url| url.unwrap().to_owned()).collect();
            let found = check_file(example.as_bytes(), &keys, &named);
            issuers.extend(found.unwrap_or_else(|why| panic!("{why} in\n{example}")));
        }
        assert_eq!(issuers.len(), 7);
    }

    #[test]
    fn who_is_believed_is_said_and_what_is_wrong_too() {
        let file = std::env::temp_dir().join(format!("authentication-{}.yaml", std::process::id()));
        let of = |path: &PathBuf, issuers: &[&str]| CheckAuthenticationConfig {
            file: path.clone(),
            tenant_issuers: issuers.iter().map(|&url| url.to_owned()).collect(),
            cluster_issuers: Vec::new(),
            tenant_extra_keys: vec!["business.tkestack.io/tenantid".to_owned()],
        };
        std::fs::write(&file, examples().first().unwrap()).unwrap();
        assert!(
            check(&of(&file, &["https://sso.example.org"])).unwrap().ends_with("of https://sso.example.org")
        );
        let error = check(&of(&file, &[])).unwrap_err().to_string();
        assert!(error.contains("jwt[0].claimMappings.extra[0].key: Forbidden"), "{error}");
        let capitals = vec!["Business.TKEStack.io/tenantID".to_owned()];
        let settings = CheckAuthenticationConfig { tenant_extra_keys: capitals, ..of(&file, &[]) };
        let error = check(&settings).unwrap_err().to_string();
        assert!(error.contains("jwt[0].claimMappings.extra[0].key: Forbidden"), "{error}");
        let both = ["https://sso.example.org", "https://nope"];
        let error = check(&of(&file, &both)).unwrap_err().to_string();
        assert!(
            error.ends_with("--tenant-issuers names https://nope, which is no issuer of the file"),
            "{error}"
        );
        let settings =
            CheckAuthenticationConfig { cluster_issuers: vec![both[1].to_owned()], ..of(&file, &both[..1]) };
        let error = check(&settings).unwrap_err().to_string();
        assert!(error.contains("--cluster-issuers names https://nope"), "{error}");
        std::fs::remove_file(&file).unwrap();
        assert!(check(&of(&file, &[])).is_err());
    }
}
