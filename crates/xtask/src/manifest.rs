//! Parses the dependencies in our Cargo.toml files, in the forms that this workspace uses.

/// A dependency of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether it is a dev-dependency.
    pub(crate) is_for_tests: bool,
}

/// All dependencies in the text of a Cargo.toml.
pub(crate) fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut table = None;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = Table::of(header);
            if let Some(Table { is_for_tests, only: Some(name) }) = &table {
                found.push(Dependency { name: name.clone(), is_for_tests: *is_for_tests });
            }
            continue;
        }
        let Some(Table { is_for_tests, only: None }) = &table else { continue };
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let key = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
        let name = renamed(value).unwrap_or(key).to_owned();
        found.push(Dependency { name, is_for_tests: *is_for_tests });
    }
    found
}

/// A table of dependencies.
struct Table {
    is_for_tests: bool,
    /// The dependency of a section such as `[dependencies.serde]`.
    only: Option<String>,
}

impl Table {
    fn of(header: &str) -> Option<Self> {
        // Those of `[target.'cfg(unix)'.dependencies]` count like all others.
        let header = header.rsplit_once("'.").map_or(header, |(_, rest)| rest);
        let (kind, only) = header.split_once('.').map_or((header, None), |(kind, name)| (kind, Some(name)));
        let is_for_tests = match kind {
            "dependencies" | "build-dependencies" => false,
            "dev-dependencies" => true,
            _ => return None,
        };
        Some(Self { is_for_tests, only: only.map(str::to_owned) })
    }
}

/// The name in `{ package = "…" }`.
fn renamed(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("package")?;
    rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_in_every_form() {
        let text = r#"
[package]
name = "sample"
[dependencies]
# none = "1"
serde.workspace = true
store = { workspace = true, features = ["testing"] }
json = { package = "serde_json", version = "1" }
[target.'cfg(unix)'.dependencies]
nix = "0.31"
[dependencies.tokio]
version = "1"
[dev-dependencies]
proptest = "1"
[lints]
workspace = true
"#;
        let found = dependencies(text);
        let names: Vec<&str> = found.iter().map(|dependency| dependency.name.as_str()).collect();
        assert_eq!(names, ["serde", "store", "serde_json", "nix", "tokio", "proptest"]);
        let tests: Vec<bool> = found.iter().map(|dependency| dependency.is_for_tests).collect();
        assert_eq!(tests, [false, false, false, false, false, true]);
    }
}
