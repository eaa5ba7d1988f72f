use crate::markdown::{is_elsewhere, normalize};
use crate::{tree, workspace};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Copies docs/ for mdBook. Links out of docs/ lead to `source`, or become text without it.
pub(super) fn stage(place: &Path, source: Option<&str>) -> Result<()> {
    if place.exists() {
        std::fs::remove_dir_all(place).with_context(|| format!("remove {}", place.display()))?;
    }
    let docs = workspace::root().join("docs");
    for file in tree::all(&docs)? {
        let page = file.strip_prefix(&docs)?;
        let copy = place.join(page);
        if page.extension().is_some_and(|extension| extension == "md") {
            let dir = Path::new("docs").join(page.parent().unwrap_or(Path::new("")));
            let text = std::fs::read_to_string(&file)?;
            std::fs::create_dir_all(copy.parent().context("no directory")?)?;
            std::fs::write(&copy, replace_external_links(&text, &dir, source))?;
        } else {
            tree::copy(&file, &copy)?;
        }
    }
    Ok(())
}

/// Replaces a page's links out of docs/. `dir` is its directory in the project.
fn replace_external_links(text: &str, dir: &Path, source: Option<&str>) -> String {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        lines.push(if fenced { line.to_owned() } else { replace_links_in_line(line, dir, source) });
    }
    lines.join("\n") + "\n"
}

fn replace_links_in_line(line: &str, dir: &Path, source: Option<&str>) -> String {
    let mut done = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else { break };
        let path = target.split('#').next().unwrap_or_default();
        let place = normalize(&dir.join(path));
        let is_page = path.is_empty() || is_elsewhere(path) || place.starts_with("docs");
        match (is_page, source) {
            // That is what mdBook makes of it.
            (true, _) => {
                done.extend([format!("{before}]({})", target.replace("README.md", "index.md"))]);
            }
            (false, Some(source)) => {
                done.extend([format!("{before}]({source}/{})", place.display())]);
            }
            // The text alone, without the bracket that opened it.
            (false, None) => match before.rsplit_once('[') {
                Some((before, text)) => done.extend([format!("{before}{text}")]),
                None => done.push_str(before),
            },
        }
        rest = after;
    }
    done + rest
}

/// Fails if links of the site lead to no file or no anchor.
pub(super) fn check(site: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    for file in tree::files(site, &["html"])? {
        let name = file.strip_prefix(site)?.display().to_string();
        // Its links are those of other directories.
        if matches!(name.as_str(), "print.html" | "404.html") {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        for target in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            if is_elsewhere(path) {
                continue;
            }
            let other = if path.is_empty() {
                file.clone()
            } else {
                normalize(&file.parent().unwrap_or(site).join(path))
            };
            if !other.exists() {
                wrong.push(format!("{name}: {target} does not exist"));
            } else if !anchor.is_empty() && !path.is_empty() {
                let text = std::fs::read_to_string(&other)?;
                if !text.contains(&format!("id=\"{anchor}\"")) {
                    wrong.push(format!("{name}: {target} has no such place"));
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_docs_lead_to_the_source_or_are_text() {
        let text =
            "[a](api.md#x) and [b](../deploy/README.md#y), [c](https://example.org)\n```\n[d](../x)\n```\n";
        let dir = Path::new("docs");
        let led = replace_external_links(text, dir, Some("https://code.example.org/blob/main"));
        assert!(
            led.starts_with(
                "[a](api.md#x) and [b](https://code.example.org/blob/main/deploy/README.md), [c]"
            )
        );
        assert!(led.ends_with("```\n[d](../x)\n```\n"), "{led}");
        let text = replace_external_links(text, dir, None);
        assert!(text.starts_with("[a](api.md#x) and b, [c](https://example.org)\n"), "{text}");
        let below = replace_external_links(
            "[e](../../crates) [f](../runbooks/README.md#tools)",
            Path::new("docs/tasks"),
            None,
        );
        assert_eq!(below, "e [f](../runbooks/index.md#tools)\n");
    }
}
