use crate::table::{Table, code};
use apiserver::Resource;
use apiserver::resource::ResourceSource;
use apiserver::subresource::{BodySchema, FieldPath, Subresource, SubresourceKind};
use business_api::kinds::{KINDS, StrategyDependencies};
use meta::schema::{ListType, Schema, StringFormat, Type};
use std::collections::BTreeMap;

const INTRODUCTION: &str = "# Fields

Every kind of `business.tkestack.io/v1`, field by field, as `kubectl explain` shows it. [The API](../api.md) says what they mean together.

*Written by*: **author** is whoever may create or change the object. **server** is business-api itself: what a client sends there is
not looked at. `/status` and the like is the subresource that alone writes it; those of the controller's are `/status`, `/finalize` and
`/capacity`, and no role for people holds them. In a path `KEY` stands for a key of a map, `[]` for each item of a list.
";
/// Shapes that Kubernetes has, too, are described once.
const SHARED: &str = "io.k8s.";

type Definitions<'a> = BTreeMap<&'static str, &'a Schema>;

/// The page of all kinds.
pub(crate) fn page() -> String {
    let resources = KINDS.resources(&StrategyDependencies::empty());
    let mut text = INTRODUCTION.to_owned();
    let mut shared = Definitions::new();
    for resource in &resources {
        text.push_str(&kind(resource, &mut shared));
    }
    text.push_str("\n## Shared shapes\n");
    // What they hold may be shared, too.
    let mut told = 0;
    while told < shared.len() {
        told = shared.len();
        let known: Vec<&Schema> = shared.values().copied().collect();
        for schema in known {
            drop(fields_of(schema, &|_| String::new(), &mut shared));
        }
    }
    for (name, schema) in shared.clone() {
        let rows = fields_of(schema, &|_| String::new(), &mut shared);
        text.extend([format!("\n### {}\n\n{}\n\n", short(name), schema.description)]);
        text.push_str(&table(&["field", "type", "meaning"], rows));
    }
    text
}

fn kind<'a>(resource: &'a Resource, shared: &mut Definitions<'a>) -> String {
    let mut text = format!("\n## {}\n\n{}\n\n", resource.gvk.kind, resource.schema.description);
    let place = if resource.namespaced { "in a project" } else { "at cluster scope" };
    let names: Vec<String> = resource.short_names.iter().map(|name| code(name)).collect();
    let verbs: Vec<String> = resource.verbs.iter().map(ToString::to_string).collect();
    text.extend([format!(
        "{}, {place}; short {}; {}.\n\n",
        code(resource.plural),
        names.join(", "),
        verbs.join(", ")
    )]);
    let rows = fields_of(&resource.schema, &|path| writer(resource, path), shared);
    let rows = rows.into_iter().filter(|row| !matches!(row.path.as_str(), "apiVersion" | "kind"));
    text.push_str(&table(&["field", "type", "written by", "meaning"], rows.collect()));
    for subresource in resource.subresources() {
        text.push_str(&of_subresource(resource, subresource));
    }
    text
}

/// What a subresource that acts takes and answers.
fn of_subresource(resource: &Resource, subresource: &Subresource) -> String {
    let SubresourceKind::Handler(handler) = &subresource.kind else { return String::new() };
    let verbs: Vec<String> = subresource.verbs.iter().map(ToString::to_string).collect();
    let mut text =
        format!("\n### {} `/{}`\n\nVerbs: {}.", resource.gvk.kind, subresource.name, verbs.join(", "));
    let mut given: Vec<(&str, &BodySchema)> =
        handler.body().map(|shape| ("Takes", shape)).into_iter().collect();
    given.push(("Answers", handler.answer()));
    for (word, shape) in given {
        text.extend([format!(" {word} {}", shape.kind.kind)]);
        // The kind itself stands above.
        if shape.kind.kind == resource.gvk.kind {
            text.push_str(".\n");
            continue;
        }
        let rows = fields_of(&shape.schema, &|_| String::new(), &mut Definitions::new());
        let framed = |row: &Row| matches!(row.path.as_str(), "apiVersion" | "kind" | "metadata");
        let rows: Vec<Row> = rows.into_iter().filter(|row| !framed(row)).collect();
        text.push_str(":\n\n");
        text.push_str(&table(&["field", "type", "meaning"], rows));
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// One field.
#[derive(Debug)]
struct Row {
    path: String,
    ty: String,
    writer: String,
    meaning: String,
}

fn table(columns: &[&str], rows: Vec<Row>) -> String {
    let mut table = Table::new(columns);
    for Row { path, ty, writer, meaning } in rows {
        let writer = columns.contains(&"written by").then_some(writer);
        table.row([code(&path), ty].into_iter().chain(writer).chain([meaning]));
    }
    table.as_str().to_owned()
}

fn fields_of<'a>(
    schema: &'a Schema,
    writer: &dyn Fn(&[&str]) -> String,
    shared: &mut Definitions<'a>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    append_fields(schema, "", &[], writer, shared, &mut rows);
    rows
}

fn append_fields<'a>(
    schema: &'a Schema,
    shown: &str,
    path: &[&'static str],
    writer: &dyn Fn(&[&str]) -> String,
    shared: &mut Definitions<'a>,
    rows: &mut Vec<Row>,
) {
    match &schema.ty {
        Type::Struct { definition: Some(name), .. } if name.starts_with(SHARED) && !path.is_empty() => {
            shared.insert(name, schema);
        }
        Type::Struct { fields, .. } => {
            for (name, field) in fields {
                let shown = if shown.is_empty() { (*name).to_owned() } else { format!("{shown}.{name}") };
                let path: Vec<&str> = path.iter().copied().chain([*name]).collect();
                let needed = if field.required { " Needed." } else { "" };
                let default = field.schema.default.as_ref();
                let default = default.map(|value| format!(" Default: `{value}`.")).unwrap_or_default();
                rows.push(Row {
                    path: shown.clone(),
                    ty: type_of(&field.schema),
                    writer: writer(&path),
                    meaning: format!("{}{needed}{default}", field.schema.description),
                });
                append_fields(&field.schema, &shown, &path, writer, shared, rows);
            }
        }
        Type::Map { values, .. } => {
            append_fields(values, &format!("{shown}.KEY"), path, writer, shared, rows);
        }
        Type::List { items, .. } => append_fields(items, &format!("{shown}[]"), path, writer, shared, rows),
        _ => {}
    }
}

fn type_of(schema: &Schema) -> String {
    match &schema.ty {
        Type::Struct { definition: Some(name), .. } if name.starts_with(SHARED) => {
            format!("[{0}](#{1})", short(name), short(name).to_lowercase())
        }
        Type::Struct { .. } => "object".to_owned(),
        Type::Map { values, .. } => format!("map of {}", type_of(values)),
        Type::List { items, list } => {
            let by = match list {
                ListType::Map(keys) => format!(", by {}", keys.join(", ")),
                ListType::Set => ", a set".to_owned(),
                ListType::Atomic => String::new(),
            };
            format!("list of {}{by}", type_of(items))
        }
        Type::String(StringFormat::Enum(values)) => values
            .iter()
            .filter(|value| !value.is_empty())
            .map(|value| code(value))
            .collect::<Vec<_>>()
            .join(", "),
        Type::String(StringFormat::Time | StringFormat::MicroTime) => "time".to_owned(),
        Type::String(StringFormat::Bytes) => "base64".to_owned(),
        Type::String(StringFormat::Plain) => "string".to_owned(),
        Type::Integer { .. } => "integer".to_owned(),
        Type::Boolean => "boolean".to_owned(),
        Type::Quantity => "quantity".to_owned(),
        Type::Any => "any".to_owned(),
    }
}

/// `Condition` of `io.k8s.apimachinery.pkg.apis.meta.v1.Condition`.
fn short(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// Who alone writes a field.
fn writer(resource: &Resource, path: &[&str]) -> String {
    let stored = match &resource.source {
        ResourceSource::Stored(stored) => stored,
        ResourceSource::Computed(_) | ResourceSource::Singleton(_) => return "server".to_owned(),
    };
    let holds = |owned: &FieldPath| path.starts_with(owned);
    if path == ["metadata"] {
        return "both".to_owned();
    }
    if stored.server_fields.iter().any(holds) {
        return "server".to_owned();
    }
    let owners = stored.subresources.iter().flat_map(|one| one.paths().iter().map(move |path| (one, path)));
    let owner = owners.filter(|(_, owned)| holds(owned)).max_by_key(|(_, owned)| owned.len());
    owner.map_or_else(|| "author".to_owned(), |(one, _)| format!("`/{}`", one.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_says_who_writes_it() {
        let page = page();
        let says = |field: &str, writer: &str| {
            let line = page.lines().find(|line| line.starts_with(&format!("| `{field}` |"))).unwrap();
            assert!(line.contains(&format!("| {writer} |")), "{line}");
        };
        says("spec.derived", "author");
        says("status.capacity", "`/capacity`");
        says("spec.finalizers", "`/finalize`");
        says("spec.clusterVersion", "server");
        says("status.phase", "`/status`");
    }
}
