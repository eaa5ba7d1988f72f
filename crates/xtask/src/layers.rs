//! Rules for dependencies between crates and modules.

use crate::manifest::{self, Dependency};
use crate::{cycles, tree, workspace};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;

/// A crate: the workspace crates that it may use, and the third-party crates that it must not.
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

/// Crates that would delay the start of `cargo xtask`.
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

/// Additional workspace crates that the tests of a crate may use.
struct TestDependencies {
    name: &'static str,
    tests_may_use: &'static [&'static str],
}

const TEST_DEPENDENCIES: &[TestDependencies] = &[
    TestDependencies { name: "business-cli", tests_may_use: &["business-api", "store", "served"] },
    TestDependencies { name: "business-api", tests_may_use: &["served"] },
];

/// A text that must not occur in some files, outside of tests.
struct ForbiddenWord {
    /// The files: those whose path contains this.
    path: &'static str,
    word: &'static str,
    reason: &'static str,
}

const FORBIDDEN_WORDS: &[ForbiddenWord] = &[
    ForbiddenWord {
        path: "crates/meta/src/",
        word: "tkestack",
        reason: "the library knows no kinds of ours",
    },
    ForbiddenWord {
        path: "crates/store/src/",
        word: "tkestack",
        reason: "the library knows no kinds of ours",
    },
    ForbiddenWord {
        path: "crates/apiserver/src/",
        word: "tkestack",
        reason: "the library knows no kinds of ours",
    },
    ForbiddenWord {
        path: "crates/business-controller/src/",
        word: "store::",
        reason: "the controller has no database",
    },
    ForbiddenWord {
        path: "crates/store/src/",
        word: "rev WHERE id",
        reason: "the counter is found by its value: docs/decisions/old-versions.md",
    },
    ForbiddenWord { path: "/validate.rs", word: "kube::Client", reason: "validation is pure" },
    ForbiddenWord { path: "/build.rs", word: "kube::Client", reason: "building is pure" },
    ForbiddenWord {
        path: "/src/",
        word: "tokio::spawn(",
        reason: "runtime::Tasks: every task has a name and an owner",
    },
    ForbiddenWord { path: "/src/", word: "unbounded_channel", reason: "every queue has a bound" },
];

/// Folders that only tests are compiled from.
const TEST_FOLDERS: [&str; 3] = ["/tests/", "/fixtures/", "/scenarios/"];

/// Fails with all violations.
pub(crate) fn check() -> Result<()> {
    let mut wrong = forbidden_dependencies(&packages()?);
    wrong.extend(forbidden_words()?);
    wrong.extend(cycles()?);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The dependencies of our packages, by package name.
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

fn forbidden_dependencies(packages: &Packages) -> Vec<String> {
    let mut wrong = Vec::new();
    for rule in CRATES {
        let Some(dependencies) = packages.get(rule.name) else {
            wrong.push(format!("crate {} is missing", rule.name));
            continue;
        };
        for Dependency { name, is_for_tests } in dependencies {
            let ours = packages.contains_key(name) && name != rule.name;
            // Tests may use what the crate itself must not, but never a crate of ours from above, unless it stands
            // beside.
            let extra = TEST_DEPENDENCIES.iter().find(|extra| *is_for_tests && extra.name == rule.name);
            let extra = extra.is_some_and(|extra| extra.tests_may_use.contains(&name.as_str()));
            let above = ours && !extra && !rule.may_use.contains(&name.as_str());
            if above || (!is_for_tests && rule.must_not_use.contains(&name.as_str())) {
                wrong.push(format!("crate {} must not use {name}", rule.name));
            }
        }
    }
    wrong
}

fn cycles() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for rule in CRATES {
        let source = workspace::root().join("crates").join(rule.name).join("src");
        if source.is_dir() {
            let cycles = cycles::in_crate(&source)?.into_iter();
            wrong.extend(cycles.map(|arrow| format!("crate {}: in a circle: {arrow}", rule.name)));
        }
    }
    Ok(wrong)
}

fn forbidden_words() -> Result<Vec<String>> {
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
            let is_here = |word: &&ForbiddenWord| path.contains(word.path) && has_word(code, word.word);
            for word in FORBIDDEN_WORDS.iter().filter(is_here) {
                wrong.push(format!("{path}:{}: `{}`: {}", number + 1, word.word, word.reason));
            }
        }
    }
    Ok(wrong)
}

/// Whether the word is in the code, and not only the end of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    let continues_name = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    code.match_indices(word).any(|(at, _)| !code.get(..at).is_some_and(continues_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_ends_a_longer_name_is_no_match() {
        assert!(has_word("use store::Store;", "store::"));
        assert!(has_word("watch_store::new(store::at())", "store::"));
        assert!(!has_word("use super::watch_store::Versioned;", "store::"));
    }

    #[test]
    fn a_library_that_uses_a_program_is_found() {
        let mut packages = packages().unwrap();
        assert_eq!(forbidden_dependencies(&packages), Vec::<String>::new());
        let upwards = Dependency { name: "business-api".to_owned(), is_for_tests: true };
        packages.get_mut("store").unwrap().push(upwards);
        assert_eq!(forbidden_dependencies(&packages), ["crate store must not use business-api"]);
    }
}
