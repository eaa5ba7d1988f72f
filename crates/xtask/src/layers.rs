//! The arrows between crates and modules: what may know what.

use crate::{layout, tree};
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One crate: the workspace crates it may use, and the outside crates it must not.
struct Crate {
    name: &'static str,
    may_use: &'static [&'static str],
    must_not_use: &'static [&'static str],
}

const HTTP: &[&str] =
    &["axum", "hyper", "hyper-util", "http", "kube", "k8s-openapi", "tower", "tower-http", "reqwest"];
const IO: &[&str] = &[
    "axum",
    "hyper",
    "hyper-util",
    "http",
    "kube",
    "k8s-openapi",
    "tower",
    "tower-http",
    "reqwest",
    "tokio",
    "sqlx",
];

const CRATES: &[Crate] = &[
    Crate { name: "meta", may_use: &[], must_not_use: IO },
    Crate { name: "runtime", may_use: &[], must_not_use: &["kube", "k8s-openapi", "sqlx"] },
    Crate { name: "quota", may_use: &["meta"], must_not_use: IO },
    Crate { name: "store", may_use: &["meta", "quota", "runtime"], must_not_use: HTTP },
    Crate { name: "apiserver", may_use: &["meta", "quota", "store", "runtime"], must_not_use: &["sqlx"] },
    Crate { name: "business-types", may_use: &["meta", "quota"], must_not_use: IO },
    Crate {
        name: "business-api",
        may_use: &["meta", "quota", "store", "apiserver", "business-types", "runtime"],
        must_not_use: &[],
    },
    Crate {
        name: "business-controller",
        may_use: &["meta", "quota", "business-types", "runtime"],
        must_not_use: &["sqlx", "axum"],
    },
    Crate { name: "xtask", may_use: &[], must_not_use: &["sqlx", "axum"] },
];

/// Words that must not stand in some files, outside their tests.
struct Word {
    /// Files whose path contains this.
    path: &'static str,
    word: &'static str,
    reason: &'static str,
}

const WORDS: &[Word] = &[
    Word { path: "crates/meta/src/", word: "tkestack", reason: "the library knows no kinds of ours" },
    Word { path: "crates/store/src/", word: "tkestack", reason: "the library knows no kinds of ours" },
    Word { path: "crates/apiserver/src/", word: "tkestack", reason: "the library knows no kinds of ours" },
    Word {
        path: "crates/business-controller/src/",
        word: "store::",
        reason: "the controller has no database",
    },
    Word { path: "/validate.rs", word: "kube::Client", reason: "validation is pure" },
    Word { path: "/build.rs", word: "kube::Client", reason: "building is pure" },
    Word {
        path: "/src/",
        word: "tokio::spawn(",
        reason: "runtime::Tasks: every task has a name and an owner",
    },
    Word { path: "/src/", word: "unbounded_channel", reason: "every queue has a bound" },
];

/// Fails with every arrow that points the wrong way.
pub(crate) fn check() -> Result<()> {
    let mut wrong = arrows(&metadata()?);
    wrong.extend(words()?);
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{}", wrong.join("\n"));
}

fn metadata() -> Result<Value> {
    let output = layout::cargo().args(["metadata", "--format-version=1", "--no-deps"]).output()?;
    serde_json::from_slice(&output.stdout).context("read cargo metadata")
}

fn arrows(metadata: &Value) -> Vec<String> {
    let packages: Vec<&Value> =
        metadata.get("packages").and_then(Value::as_array).into_iter().flatten().collect();
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let ours: Vec<String> = packages.iter().map(|package| text(package, "name")).collect();
    let mut wrong = Vec::new();
    for rule in CRATES {
        let Some(package) = packages.iter().find(|package| text(package, "name") == rule.name) else {
            wrong.push(format!("crate {} is missing", rule.name));
            continue;
        };
        for dependency in package.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
            let name = text(dependency, "name");
            // Tests may use what the crate itself must not, but never a crate of ours from above.
            let test_only = dependency.get("kind").and_then(Value::as_str) == Some("dev");
            let above = ours.contains(&name) && name != rule.name && !rule.may_use.contains(&name.as_str());
            if above || (!test_only && rule.must_not_use.contains(&name.as_str())) {
                wrong.push(format!("crate {} must not use {name}", rule.name));
            }
        }
    }
    wrong
}

fn words() -> Result<Vec<String>> {
    let root = layout::workspace();
    let mut wrong = Vec::new();
    for file in tree::files(&root.join("crates"), &["rs"])? {
        let path = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        if path.contains("crates/xtask/") || path.ends_with("/tests.rs") || path.contains("/tests/") {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        for (number, line) in tree::without_tests(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in WORDS.iter().filter(|word| path.contains(word.path) && code.contains(word.word)) {
                wrong.push(format!("{path}:{}: `{}`: {}", number + 1, word.word, word.reason));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_library_that_uses_a_program_is_found() {
        let mut metadata = metadata().unwrap();
        assert_eq!(arrows(&metadata), Vec::<String>::new());
        let packages = metadata["packages"].as_array_mut().unwrap();
        let store = packages.iter_mut().find(|package| package["name"] == "store").unwrap();
        store["dependencies"].as_array_mut().unwrap().push(json!({"name": "business-api", "kind": "dev"}));
        assert_eq!(arrows(&metadata), ["crate store must not use business-api"]);
    }
}
