//! The mapping file: a YAML list with one item per line, so that every error has a line. Pure.
//!
//! ```text
//! - {cluster: c1, namespace: web, project: shop, name: c1-web, hard: {pods: "10"}}  # what is known of it
//! # - {cluster: c1, namespace: old, project: "", name: c1-old, hard: {}}  # a line that is passed over
//! ```

use business_types::{NamespaceSpec, names, validation};
use meta::quantity::ResourceList;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of a file.
pub const FILE_BYTES_MAX: usize = 2 << 20;
/// Most bytes of a line.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Most lines of a file: all of them are one transaction.
pub const ENTRIES_MAX: usize = 1000;
const FIELDS: [&str; 5] = ["cluster", "namespace", "project", "name", "hard"];

/// One namespace of a member cluster, and the object that is to be created for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingEntry {
    /// Its line in the file, from 1.
    pub line: usize,
    /// The member cluster.
    pub cluster: String,
    /// Its name there.
    pub namespace: String,
    /// The project that is to be charged.
    pub project: String,
    /// Its name in the project.
    pub name: String,
    /// Its limits.
    pub hard: ResourceList,
}

/// An error in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MappingError {
    /// The line, from 1.
    pub line: usize,
    /// The field; empty for the whole line.
    pub field: String,
    /// The message.
    pub why: String,
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, why } = self;
        if field.is_empty() { write!(f, "{line}: {why}") } else { write!(f, "{line}: {field}: {why}") }
    }
}

/// Parses a file. All errors are returned together.
pub fn parse(text: &str, forbidden: &[String]) -> Result<Vec<MappingEntry>, Vec<MappingError>> {
    let (mut entries, mut wrong) = (Vec::new(), Vec::new());
    if text.len() > FILE_BYTES_MAX {
        let why = format!("the file is longer than {FILE_BYTES_MAX} bytes");
        return Err(vec![MappingError { line: 1, field: String::new(), why }]);
    }
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') || text == "---" {
            continue;
        }
        match entry(line, text, forbidden) {
            Ok(entry) => entries.push(entry),
            Err(more) => wrong.extend(more),
        }
    }
    wrong.extend(duplicates(&entries));
    if entries.len() > ENTRIES_MAX {
        let line = entries.get(ENTRIES_MAX).map_or(1, |entry| entry.line);
        let why = format!("more than {ENTRIES_MAX} namespaces: take them in several files");
        wrong.push(MappingError { line, field: String::new(), why });
    }
    wrong.sort();
    if wrong.is_empty() { Ok(entries) } else { Err(wrong) }
}

fn entry(line: usize, text: &str, forbidden: &[String]) -> Result<MappingEntry, Vec<MappingError>> {
    let at = |field: &str, why: String| MappingError { line, field: field.to_owned(), why };
    let item = text.strip_prefix("- ").filter(|_| text.len() <= LINE_BYTES_MAX);
    let item = item.ok_or_else(|| vec![at("", "it is no item of a list on one line, - {…}".to_owned())])?;
    // Parsed as YAML first, where a duplicate key is an error.
    let value = serde_yaml_ng::from_str::<serde_yaml_ng::Value>(item)
        .and_then(|yaml| serde_json::to_value(yaml).map_err(serde::ser::Error::custom));
    let value = value.map_err(|error| vec![at("", format!("it is no YAML: {error}"))])?;
    let Value::Object(map) = value else {
        return Err(vec![at("", format!("it is no map of {}", FIELDS.join(", ")))]);
    };
    let mut wrong: Vec<MappingError> = map
        .keys()
        .filter(|key| !FIELDS.contains(&key.as_str()))
        .map(|key| at(key, format!("there is no such field; there are {}", FIELDS.join(", "))))
        .collect();
    let mut text = |field: &str| match map.get(field) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::String(_)) | None => {
            wrong.push(at(field, "it is missing".to_owned()));
            String::new()
        }
        Some(other) => {
            wrong.push(at(field, format!("it is a text, not {other}")));
            String::new()
        }
    };
    let mut entry = MappingEntry {
        line,
        cluster: text("cluster"),
        namespace: text("namespace"),
        project: text("project"),
        name: if map.contains_key("name") { text("name") } else { String::new() },
        hard: ResourceList::new(),
    };
    if entry.name.is_empty() {
        entry.name = names::derived_name(&entry.cluster, &entry.namespace).unwrap_or_default();
    }
    if wrong.is_empty() {
        match hard(&map) {
            Ok(list) => entry.hard = list,
            Err(why) => wrong.push(at("hard", why)),
        }
    }
    if wrong.is_empty() {
        wrong.extend(check(&entry, forbidden));
    }
    if wrong.is_empty() { Ok(entry) } else { Err(wrong) }
}

/// An amount may also be a YAML number.
fn hard(map: &Map<String, Value>) -> Result<ResourceList, String> {
    match map.get("hard") {
        None | Some(Value::Null) => Ok(ResourceList::new()),
        Some(Value::Object(list)) => list
            .iter()
            .map(|(key, amount)| {
                let text = match amount {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let amount = text.parse().map_err(|error| format!("{key}: {text:?}: {error}"))?;
                Ok((key.clone(), amount))
            })
            .collect(),
        Some(other) => Err(format!("it is a map of amounts, not {other}")),
    }
}

/// Checks the rules of the server for such a namespace, with the field names of the file.
fn check(entry: &MappingEntry, forbidden: &[String]) -> Vec<MappingError> {
    let spec = NamespaceSpec {
        cluster_name: entry.cluster.clone(),
        namespace: entry.namespace.clone(),
        hard: entry.hard.clone(),
        ..NamespaceSpec::default()
    };
    let mut wrong: Vec<MappingError> = validation::namespace(&spec, forbidden)
        .into_iter()
        .map(|error| MappingError {
            line: entry.line,
            field: field_of(&error.field).to_owned(),
            why: error.message,
        })
        .collect();
    for (field, value) in [("project", &entry.project), ("name", &entry.name)] {
        let bad = meta::name::dns1123_label(value);
        wrong.extend(bad.into_iter().map(|why| MappingError {
            line: entry.line,
            field: field.to_owned(),
            why,
        }));
    }
    wrong
}

/// The field of the file for a field of the object.
pub fn field_of(field: &str) -> &str {
    match field {
        "metadata.name" => "name",
        "metadata.namespace" => "project",
        "spec.clusterName" => "cluster",
        "spec.namespace" => "namespace",
        other => other.strip_prefix("spec.").unwrap_or(other),
    }
}

fn duplicates(entries: &[MappingEntry]) -> Vec<MappingError> {
    let (mut places, mut objects) = (BTreeMap::new(), BTreeMap::new());
    let mut wrong = Vec::new();
    for entry in entries {
        let first = [
            ("namespace", places.insert((&entry.cluster, &entry.namespace), entry.line)),
            ("name", objects.insert((&entry.project, &entry.name), entry.line)),
        ];
        for (field, line) in first {
            if let Some(other) = line {
                let why = format!("it stands in line {other} already");
                wrong.push(MappingError { line: entry.line, field: field.to_owned(), why });
            }
        }
    }
    wrong
}

impl MappingEntry {
    /// Its line without the newline.
    pub fn to_line(&self) -> String {
        let Self { cluster, namespace, project, name, hard, line: _ } = self;
        let quoted = |text: &str| json!(text).to_string();
        let amounts: Vec<String> = hard
            .iter()
            .map(|(key, amount)| format!("{}: {}", quoted(key), quoted(&amount.to_string())))
            .collect();
        format!(
            "- {{cluster: {}, namespace: {}, project: {}, name: {}, hard: {{{}}}}}",
            quoted(cluster),
            quoted(namespace),
            quoted(project),
            quoted(name),
            amounts.join(", ")
        )
    }

    /// The object to create. Its annotation is the operator's consent to the adoption.
    pub fn object(&self) -> Value {
        json!({
            "apiVersion": names::API_VERSION, "kind": names::NAMESPACE_KIND,
            "metadata": {
                "name": self.name, "namespace": self.project,
                "annotations": { (names::ADOPT_ANNOTATION): "true" },
            },
            "spec": { "clusterName": self.cluster, "namespace": self.namespace, "hard": self.hard },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wrong(text: &str) -> Vec<String> {
        parse(text, &["kube-*".to_owned()]).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let hard = [
            ("pods".to_owned(), "10".parse().unwrap()),
            ("requests.cpu".to_owned(), "500m".parse().unwrap()),
        ];
        let entry = MappingEntry {
            line: 2,
            cluster: "c1".into(),
            namespace: "web".into(),
            project: "p".into(),
            name: "web".into(),
            hard: hard.into(),
        };
        let text = format!("# a comment\n{}  # used: 3\n\n", entry.to_line());
        assert_eq!(parse(&text, &[]).unwrap(), [entry]);
        let short = "- {cluster: c1, namespace: web, project: p, hard: {pods: 3}}";
        let read = parse(short, &[]).unwrap();
        assert_eq!((read[0].name.as_str(), read[0].hard["pods"]), ("c1-web", "3".parse().unwrap()));
    }

    fn entries() -> impl Strategy<Value = Vec<MappingEntry>> {
        let name = "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?";
        let amount = (0_u32..5_000, prop::sample::select(vec!["", "m", "Ki", "Gi", "k"]));
        let hard = prop::collection::btree_map("(requests[.])?[a-z]{1,9}", amount, 0..4);
        let entry = (name, name, name, hard).prop_map(|(cluster, project, name, hard)| {
            let amount =
                |(key, (n, unit)): (String, (u32, &str))| (key, format!("{n}{unit}").parse().unwrap());
            let hard = hard.into_iter().map(amount).collect();
            MappingEntry { cluster, project, name, hard, ..MappingEntry::default() }
        });
        prop::collection::vec(entry, 0..20).prop_map(|mut entries| {
            for (entry, line) in entries.iter_mut().zip(1..) {
                // Each place and each name once.
                let (namespace, name) = (format!("n{line}"), format!("{}-{line}", entry.name));
                *entry = MappingEntry { line, namespace, name, ..std::mem::take(entry) };
            }
            entries
        })
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_back(entries in entries(), comment in "[ -~]{0,40}") {
            let lines = entries.iter().map(|entry| format!("{}  # {comment}", entry.to_line()));
            let text = lines.collect::<Vec<_>>().join("\n");
            match parse(&text, &[]) {
                Ok(read) => prop_assert_eq!(read, entries),
                // Not every amount and every resource is one that the server takes; what is wrong is never the form.
                Err(wrong) => prop_assert!(wrong.iter().all(|wrong| wrong.field.starts_with("hard[")), "{:?}", wrong),
            }
        }

        #[test]
        fn whatever_is_in_the_file_the_line_that_is_told_is_there(text in "(- [{]|[}]|cluster: |a, |namespace: |#|\\n|\\PC){0,60}") {
            if let Err(wrong) = parse(&text, &[]) {
                prop_assert!(wrong.iter().all(|wrong| wrong.line >= 1 && wrong.line <= text.lines().count().max(1)));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_field() {
        let text = "- {cluster: c1, namespace: web, project: p}\nnonsense\n- [a]\n\
                    - {cluster: c1, namespace: kube-x, project: p, hard: {pods: '-1'}}\n\
                    - {cluster: c1, project: P, extra: 1}\n- {cluster: c1, namespace: web, project: q, hard: {pods: x}}\n\
                    - {cluster: c1, namespace: web, project: q}\n\
                    - {cluster: c1, namespace: w, project: p, hard: {pods: 1, pods: 9}}\n";
        let told = wrong(text);
        let starts = [
            "2: it is no item",
            "3: it is no map",
            "4: hard[pods]:",
            "4: namespace:",
            "5: extra:",
            "5: namespace:",
            "6: hard: pods",
            "7: namespace: it stands in line 1",
            "8: it is no YAML: hard: duplicate entry",
        ];
        assert_eq!(told.len(), starts.len(), "{told:#?}");
        for (told, start) in told.iter().zip(starts) {
            assert!(told.starts_with(start), "{told} is not {start}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let lines = (0..=ENTRIES_MAX).map(|n| format!("- {{cluster: c, namespace: n{n}, project: p}}"));
        let many = lines.collect::<Vec<_>>().join("\n");
        assert!(wrong(&many)[0].starts_with("1001: more than 1000"));
        assert!(wrong(&"#".repeat(FILE_BYTES_MAX + 1))[0].contains("longer"));
        assert!(wrong(&format!("- {{cluster: {}}}", "x".repeat(LINE_BYTES_MAX)))[0].contains("no item"));
    }
}
