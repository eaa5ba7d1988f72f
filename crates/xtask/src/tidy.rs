//! Checks of the repository: unreachable files, long files, dead links, sources that pages name and that do not exist,
//! invariants without a test.

use crate::{markdown, tree, workspace};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 800;
/// Concatenated, so that this file does not match.
const UNFINISHED: [&str; 3] = [concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];

/// Fails with all problems.
pub(crate) fn check() -> Result<()> {
    let root = workspace::root();
    let mut wrong = Vec::new();
    let sources = tree::files(&root, &["rs"])?;
    for file in &sources {
        let text = std::fs::read_to_string(file)?;
        let lines = text.lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{}: {lines} lines; {LINES_MAX} are allowed", shown(&root, file)));
        }
        for (number, line) in text.lines().enumerate() {
            for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
                wrong.push(format!("{}:{}: {word}", shown(&root, file), number + 1));
            }
        }
    }
    wrong.extend(unreachable(&root, &sources)?);
    wrong.extend(markdown::problems(&root)?);
    wrong.extend(missing_sources(&root, &sources)?);
    wrong.extend(invariants(&root, &sources)?);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn shown(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// Rust files that no `mod` leads to.
fn unreachable(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<PathBuf> = sources.iter().filter(|file| is_root(file)).cloned().collect();
    while let Some(file) = waiting.pop() {
        if !file.exists() || !reached.insert(file.clone()) {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        let dir = file.parent().unwrap_or(root);
        let below = if is_root(&file) { dir.to_owned() } else { file.with_extension("") };
        for line in text.lines() {
            let Some(name) = module(line) else { continue };
            waiting.push(below.join(format!("{name}.rs")));
            waiting.push(below.join(name).join("mod.rs"));
        }
    }
    let lost = sources.iter().filter(|file| !reached.contains(*file));
    Ok(lost.map(|file| format!("{}: no `mod` leads here", shown(root, file))).collect())
}

/// Whether it is the root file of a cargo target.
fn is_root(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let dir = file.parent().and_then(Path::file_name).and_then(|dir| dir.to_str()).unwrap_or_default();
    let package =
        |levels: usize| file.ancestors().nth(levels).is_some_and(|dir| dir.join("Cargo.toml").exists());
    match (dir, name) {
        ("src", "main.rs" | "lib.rs") | ("tests" | "benches" | "examples", _) => package(2),
        (_, "build.rs") => package(1),
        // tests/NAME/main.rs is a test of its own.
        (_, "main.rs") => package(3) || package(1),
        ("bin", _) => package(3),
        _ => false,
    }
}

/// The name in `mod name;`.
fn module(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    let rest = rest.strip_prefix("pub(super) ").unwrap_or(rest);
    rest.strip_prefix("mod ")?.strip_suffix(';')
}

/// Rust files in backticks that the documentation names and that do not exist.
fn missing_sources(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for page in tree::files(&root.join("docs"), &["md"])? {
        let text = std::fs::read_to_string(&page)?;
        for (number, line) in text.lines().enumerate() {
            let missing = source_names(line).filter(|name| !sources.iter().any(|file| file.ends_with(name)));
            let place = |name| format!("{}:{}: there is no file `{name}`", shown(root, &page), number + 1);
            wrong.extend(missing.map(place));
        }
    }
    Ok(wrong)
}

/// The names of Rust files in backticks, except patterns such as `src/NAME.rs` and `src/*.rs`.
fn source_names(line: &str) -> impl Iterator<Item = &str> {
    let is_path_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/_-.".contains(c);
    code_spans(line).filter(move |word| {
        Path::new(word).extension().is_some_and(|e| e == "rs") && word.chars().all(is_path_char)
    })
}

/// What is in backticks on a line of Markdown.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Each entry of docs/invariants.md names tests, or files of tests, that exist.
fn invariants(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>> {
    let file = root.join("docs/invariants.md");
    let Ok(text) = std::fs::read_to_string(&file) else {
        return Ok(vec!["docs/invariants.md is missing".to_owned()]);
    };
    let mut functions = BTreeSet::new();
    for source in sources {
        let text = std::fs::read_to_string(source)?;
        functions.extend(text.lines().filter_map(function).map(str::to_owned));
    }
    let mut wrong = Vec::new();
    for (number, tests) in entries(&text) {
        let names: Vec<&str> = tests.iter().flat_map(|line| code_spans(line)).collect();
        if names.is_empty() {
            wrong.push(format!("docs/invariants.md:{number}: no test is named"));
        }
        for name in names {
            let test = name.rsplit("::").next().unwrap_or(name);
            let file = sources.iter().any(|source| source.ends_with(name));
            if !file && !functions.contains(test) {
                wrong.push(format!("docs/invariants.md:{number}: there is no test `{name}`"));
            }
        }
    }
    Ok(wrong)
}

/// The entries of the page: the line on which each begins, and its lines from `- Tests:` on.
fn entries(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut entries: Vec<(usize, Vec<&str>)> = Vec::new();
    let (mut inside, mut tests) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let begins = line.starts_with("* **");
        if begins {
            entries.push((number + 1, Vec::new()));
        }
        inside = begins || inside && line.starts_with(' ');
        tests = inside && !begins && (tests || line.starts_with("  - Tests:"));
        if tests && let Some((_, lines)) = entries.last_mut() {
            lines.push(line);
        }
    }
    entries
}

/// The name of a function that starts on this line.
fn function(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_and_function_names_are_read() {
        assert_eq!(module("pub(crate) mod store;"), Some("store"));
        assert_eq!(module("mod tests {"), None);
        assert_eq!(function("    async fn it_works() {"), Some("it_works"));
    }

    #[test]
    fn names_of_sources_are_read() {
        let line = "`a/b.rs` and `c.rs`, like `src/NAME.rs`, `*.rs` and `cargo run x.rs`";
        assert_eq!(source_names(line).collect::<Vec<_>>(), ["a/b.rs", "c.rs"]);
    }

    #[test]
    fn an_entry_without_a_test_and_a_test_that_is_not_there_are_found() {
        let text = "text with `code`\n* **One.**\n  - Enforced by: `not_a_test`\n  - Tests:\n    - a `b.rs`: `c`,\n      `d`\n\
                    * **Two** `x`.\n\ntext\n";
        let names =
            |lines: &[&str]| lines.join(" ").split('`').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
        let found: Vec<(usize, String)> =
            entries(text).into_iter().map(|(number, lines)| (number, names(&lines))).collect();
        assert_eq!(found, [(2, "b.rs c d".to_owned()), (7, String::new())]);
        let root = workspace::root();
        let sources = tree::files(&root, &["rs"]).unwrap();
        assert_eq!(invariants(&root, &sources).unwrap(), Vec::<String>::new());
    }
}
