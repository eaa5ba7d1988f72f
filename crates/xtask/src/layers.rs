//! The dependencies between crates and modules: which may use which.

use crate::manifest::{self, Dependency};
use crate::{circles, tree, workspace};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;

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

/// What `cargo xtask` would have to wait for before its first line.
const HEAVY: &[&str] =
    &["serde", "serde_json", "tokio", "rcgen", "sha2", "sqlx", "axum", "kube", "k8s-openapi"];

const CRATES: &[Crate] = &[
    Crate { name: "meta", may_use: &[], must_not_use: IO },
    Crate { name: "runtime", may_use: &[], must_not_use: &["kube", "k8s-openapi", "sqlx"] },
    Crate { name: "quota", may_use: &["meta"], must_not_use: IO },
    Crate { name: "store", may_use: &["meta", "quota", "runtime"], must_not_use: HTTP },
    Crate { name: "apiserver", may_use: &["meta", "quota", "store", "runtime"], must_not_use: &["sqlx"] },
    Crate { name: "business-types", may_use: &["meta", "quota"], must_not_use: IO },
    Crate { name: "console-page", may_use: &[], must_not_use: IO },
    Crate { name: "kubeconfig", may_use: &[], must_not_use: &["sqlx", "axum", "reqwest"] },
    Crate {
        name: "business-api",
        may_use: &[
            "meta",
            "quota",
            "store",
            "apiserver",
            "business-types",
            "console-page",
            "kubeconfig",
            "runtime",
        ],
        must_not_use: &[],
    },
    Crate {
        name: "business-controller",
        may_use: &["meta", "quota", "business-types", "kubeconfig", "runtime"],
        must_not_use: &["sqlx", "axum"],
    },
    // It knows the API as everybody else does; its tests run beside the real server.
    Crate {
        name: "business-cli",
        may_use: &["meta", "business-types", "kubeconfig"],
        must_not_use: &["sqlx", "axum", "reqwest"],
    },
    Crate { name: "dist", may_use: &["terminal"], must_not_use: IO },
    Crate { name: "terminal", may_use: &[], must_not_use: HEAVY },
    Crate { name: "xtask", may_use: &["terminal"], must_not_use: HEAVY },
    Crate { name: "instance", may_use: &["terminal"], must_not_use: IO },
    // Its load goes on while it does other things.
    Crate {
        name: "accept",
        may_use: &["terminal", "instance", "kit"],
        must_not_use: &["axum", "hyper", "kube", "k8s-openapi", "sqlx"],
    },
];

/// A program that the tests of a crate run beside it.
struct Beside {
    name: &'static str,
    tests_may_use: &'static [&'static str],
}

const BESIDE: &[Beside] = &[
    Beside { name: "business-cli", tests_may_use: &["business-api", "store", "served"] },
    Beside { name: "business-api", tests_may_use: &["served"] },
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
    Word {
        path: "crates/store/src/",
        word: "rev WHERE id",
        reason: "the counter is found by its value: docs/decisions/old-versions.md",
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

/// Folders that only tests are compiled from.
const TEST_FOLDERS: [&str; 3] = ["/tests/", "/fixtures/", "/scenarios/"];

/// Fails with every arrow that points the wrong way.
pub(crate) fn check() -> Result<()> {
    let mut wrong = arrows(&packages()?);
    wrong.extend(words()?);
    wrong.extend(circles()?);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Our packages by name, which is their directory's.
type Packages = BTreeMap<String, Vec<Dependency>>;

fn packages() -> Result<Packages> {
    let mut packages = Packages::new();
    for parent in ["crates", "tests"] {
        for entry in std::fs::read_dir(workspace::root().join(parent))? {
            let dir = entry?.path();
            let file = dir.join("Cargo.toml");
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let name =
                dir.file_name().and_then(|name| name.to_str()).context("a directory without a name")?;
            packages.insert(name.to_owned(), manifest::dependencies(&text));
        }
    }
    Ok(packages)
}

fn arrows(packages: &Packages) -> Vec<String> {
    let mut wrong = Vec::new();
    for rule in CRATES {
        let Some(dependencies) = packages.get(rule.name) else {
            wrong.push(format!("crate {} is missing", rule.name));
            continue;
        };
        for Dependency { name, is_for_tests } in dependencies {
            let ours = packages.contains_key(name) && name != rule.name;
            // Tests may use what the crate itself must not, but never a crate of ours from above, unless it stands beside.
            let beside = BESIDE.iter().find(|beside| *is_for_tests && beside.name == rule.name);
            let beside = beside.is_some_and(|beside| beside.tests_may_use.contains(&name.as_str()));
            let above = ours && !beside && !rule.may_use.contains(&name.as_str());
            if above || (!is_for_tests && rule.must_not_use.contains(&name.as_str())) {
                wrong.push(format!("crate {} must not use {name}", rule.name));
            }
        }
    }
    wrong
}

fn circles() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for rule in CRATES {
        let source = workspace::root().join("crates").join(rule.name).join("src");
        if source.is_dir() {
            let circles = circles::of(&source)?.into_iter();
            wrong.extend(circles.map(|arrow| format!("crate {}: in a circle: {arrow}", rule.name)));
        }
    }
    Ok(wrong)
}

fn words() -> Result<Vec<String>> {
    let root = workspace::root();
    let mut wrong = Vec::new();
    for file in tree::files(&root.join("crates"), &["rs"])? {
        let path = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        let is_for_tests =
            path.ends_with("/tests.rs") || TEST_FOLDERS.iter().any(|folder| path.contains(folder));
        if path.contains("crates/xtask/") || is_for_tests {
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

    #[test]
    fn a_library_that_uses_a_program_is_found() {
        let mut packages = packages().unwrap();
        assert_eq!(arrows(&packages), Vec::<String>::new());
        let upwards = Dependency { name: "business-api".to_owned(), is_for_tests: true };
        packages.get_mut("store").unwrap().push(upwards);
        assert_eq!(arrows(&packages), ["crate store must not use business-api"]);
    }
}
