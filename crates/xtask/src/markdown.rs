//! Markdown pages: titles, links and anchors.

use crate::tree;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// A link of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// Line number, from 1.
    pub(crate) line: usize,
    /// The path; empty for the page itself.
    pub(crate) path: &'a str,
    /// The part after `#`; may be empty.
    pub(crate) anchor: &'a str,
}

impl<'a> Link<'a> {
    fn of(line: usize, target: &'a str) -> Self {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        Self { line, path, anchor }
    }

    /// Whether it leads to a file of this repository.
    pub(crate) fn is_ours(self) -> bool {
        !is_elsewhere(self.path)
    }
}

/// Whether it is a URL of another site; those are not checked.
pub(crate) fn is_elsewhere(path: &str) -> bool {
    path.contains("://") || path.starts_with("mailto:")
}

/// The lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// The targets of `[text](target)`.
pub(crate) fn links(text: &str) -> impl Iterator<Item = Link<'_>> {
    prose(text).flat_map(|(number, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.map(move |target| Link::of(number, target))
    })
}

/// The number of titles.
pub(crate) fn titles(text: &str) -> usize {
    prose(text).filter(|(_, line)| line.starts_with("# ")).count()
}

/// The anchors of a page, the same in mdBook and in a viewer of the repository.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let rest = line.trim_start_matches('#');
        (rest.len() < line.len()).then(|| rest.strip_prefix(' ')).flatten()
    });
    let anchors = headings.map(|heading| {
        let anchor = anchor(heading);
        let times = seen.entry(anchor.clone()).or_insert(0_usize);
        *times += 1;
        if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
    });
    anchors.collect()
}

fn anchor(heading: &str) -> String {
    // Only the text of a link counts.
    let mut text = String::new();
    for (at, part) in heading.split("](").enumerate() {
        text.push_str(if at == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) });
    }
    let kept = text.trim().chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || matches!(c, '_' | '-') => Some(c.to_lowercase().next().unwrap_or(c)),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

/// `a/c` of `a/b/../c`.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Pages without exactly one title, and links that lead to no file or heading.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for file in tree::files(root, &["md"])? {
        let text = std::fs::read_to_string(&file)?;
        texts.insert(file, text);
    }
    Ok(texts.iter().flat_map(|(file, text)| problems_in(root, file, text, &texts)).collect())
}

fn problems_in(root: &Path, file: &Path, text: &str, texts: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let shown = file.strip_prefix(root).unwrap_or(file).display();
    for Link { line, path, anchor } in links(text).filter(|link| link.is_ours()) {
        let target = if path.is_empty() {
            file.to_owned()
        } else {
            normalize(&file.parent().unwrap_or(root).join(path))
        };
        let other = if path.is_empty() { Some(text) } else { texts.get(&target).map(String::as_str) };
        if !target.exists() {
            wrong.push(format!("{shown}:{line}: {path} does not exist"));
        } else if !anchor.is_empty() && !other.is_some_and(|other| anchors(other).contains(anchor)) {
            wrong.push(format!("{shown}:{line}: {path} has no heading #{anchor}"));
        }
    }
    let titles = titles(text);
    // The parts of a book are titles, too.
    if titles != 1 && !file.ends_with("SUMMARY.md") {
        wrong.push(format!("{shown}: {titles} titles; one is wanted"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn dead_links_and_second_titles_are_found_outside_code() {
        let root = workspace::root();
        let file = root.join("README.md");
        let text = "# One\n[a](Cargo.toml) [b](nowhere.md) [c](https://example.com/x) [d](#one) [e](#two-b)\n\
                    ```\n# not a title\n```\n# Two\n";
        let wrong = problems_in(&root, &file, text, &BTreeMap::new());
        let told = [
            "README.md:2: nowhere.md does not exist",
            "README.md:2:  has no heading #two-b",
            "README.md: 2 titles; one is wanted",
        ];
        assert_eq!(wrong, told);
    }

    #[test]
    fn headings_are_called_as_where_they_are_shown() {
        let text = "# A `b_c` d: e\n## Same\n## Same\n### See [here](x.md#y), too\n#no heading\n";
        let told = ["a-b_c-d-e", "same", "same-1", "see-here-too"];
        let told: BTreeSet<String> = told.map(str::to_owned).into();
        assert_eq!(anchors(text).len(), 4);
        // `[` and `]` are dropped as any other sign.
        assert_eq!(anchors(text), told);
        assert_eq!(normalize(Path::new("a/b/../../c/./d")), Path::new("c/d"));
    }
}
