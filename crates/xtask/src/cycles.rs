//! Import cycles between the modules of a crate. Without cycles a crate can be read bottom-up.

use crate::tree;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Modules that only tests are compiled from.
const TEST_MODULES: [&str; 3] = ["tests", "fixtures", "scenarios"];

/// A module by its path in the crate; the crate itself has an empty one.
type Module = Vec<String>;

/// Which modules each module imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// The imports of a crate that are part of cycles, or between cycles, as `a imports b`.
pub(crate) fn in_crate(source: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for file in tree::files(source, &["rs"])? {
        let module = module(file.strip_prefix(source)?);
        if !module.iter().any(|part| TEST_MODULES.contains(&part.as_str())) {
            texts.insert(module, std::fs::read_to_string(&file)?);
        }
    }
    Ok(find_cycles(&texts))
}

fn find_cycles(texts: &BTreeMap<Module, String>) -> Vec<String> {
    let mut imports: Imports =
        texts.iter().map(|(module, text)| (module.clone(), imports(module, text, texts))).collect();
    while let Some(acyclic) = acyclic_module(&imports) {
        imports.remove(&acyclic);
        for imported in imports.values_mut() {
            imported.remove(&acyclic);
        }
    }
    let name = |module: &Module| if module.is_empty() { "the crate".to_owned() } else { module.join("::") };
    let each =
        imports.iter().flat_map(|(module, imported)| imported.iter().map(move |other| (module, other)));
    each.map(|(module, other)| format!("{} imports {}", name(module), name(other))).collect()
}

/// A module that is in no cycle: it imports none of the others, or none of them imports it.
fn acyclic_module(imports: &Imports) -> Option<Module> {
    let is_imported = |module: &Module| imports.values().any(|imported| imported.contains(module));
    let mut all = imports.iter();
    all.find(|(module, imported)| imported.is_empty() || !is_imported(module))
        .map(|(module, _)| module.clone())
}

fn module(file: &Path) -> Module {
    let parts = file.with_extension("");
    let parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| part != "lib" && part != "main").collect()
}

fn imports(module: &Module, text: &str, modules: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let code: Vec<&str> =
        tree::without_tests(text).lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let (before, path) = code.split_at(at);
            let is_use = before.trim_end().ends_with("use");
            let is_within = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            // Outside of `use`, only what is named from the crate's root is told apart from other paths.
            if is_within || !(is_use || start == "crate::") {
                continue;
            }
            let end = if is_use { path.find(';') } else { path.find(|c: char| !is_path_char(c)) };
            for names in expand_use_tree(path.split_at(end.unwrap_or(path.len())).0) {
                found.extend(owner(module, &names, modules).filter(|owner| owner != module));
            }
        }
    }
    found
}

fn is_path_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

/// The paths of a `use`, with braces expanded.
fn expand_use_tree(tree: &str) -> Vec<Vec<String>> {
    let Some((head, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|name| name.trim().to_owned()).collect()];
    };
    let head: Vec<String> =
        head.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let within = split_at_outer_commas(inner).into_iter().flat_map(expand_use_tree);
    within.map(|path| head.iter().cloned().chain(path).collect()).collect()
}

/// Splits at commas outside of braces.
fn split_at_outer_commas(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let is_comma = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    list.split(is_comma).map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The module in which the last name of a path is defined, or that it names.
fn owner(module: &Module, path: &[String], modules: &BTreeMap<Module, String>) -> Option<Module> {
    let mut place = module.clone();
    for name in path {
        match name.as_str() {
            "crate" => place.clear(),
            "super" => drop(place.pop()),
            "self" => {}
            name => {
                place.push(name.to_owned());
                if !modules.contains_key(&place) {
                    place.pop();
                    break;
                }
            }
        }
    }
    modules.contains_key(&place).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles_in(texts: &[(&str, &str)]) -> Vec<String> {
        let texts = texts.iter().map(|(path, text)| (module(Path::new(path)), (*text).to_owned()));
        find_cycles(&texts.collect())
    }

    #[test]
    fn a_circle_is_found_by_way_of_others_too() {
        let circle = [
            ("lib.rs", "mod a; mod b; mod c; mod d;\nuse crate::a::A;\n"),
            ("a.rs", "use crate::{b::{self, B}, d::D};\n"),
            ("b.rs", "// use crate::a::A;\nfn b() -> crate::c::inner::C { todo() }\n"),
            ("c.rs", "use crate::d::D;\n"),
            ("c/inner.rs", "use super::super::a::A;\n"),
            ("d.rs", ""),
        ];
        assert_eq!(cycles_in(&circle), ["a imports b", "b imports c::inner", "c::inner imports a"]);
        assert_eq!(
            cycles_in(&circle.map(|(path, text)| (path, text.split("super").next().unwrap()))),
            [""; 0]
        );
    }

    #[test]
    fn what_tests_import_is_no_circle() {
        let texts = [
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        assert_eq!(cycles_in(&texts), [""; 0]);
    }
}
