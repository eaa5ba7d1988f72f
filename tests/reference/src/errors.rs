use crate::table::{Table, code};
use anyhow::{Context, Result};
use business_types::refusal::REASONS;
use std::path::Path;

const INTRODUCTION: &str = "# Errors

Every refusal is a `Status` of Kubernetes: `code`, `reason`, `message` for people, and in `details.causes` each violation for programs.
[Refusals](../api.md#refusals) says which code wins where there are several.

## Codes

| code | means | what to do |
| --- | --- | --- |
| 400 | the request cannot be read | mend it: the message has the field's path |
| 401 | the credential is good for nobody | log in again; why is in the log of business-api at debug |
| 403 | the caller may not, or an amount does not fit | the causes say which; [below](#reasons) |
| 404 | it is not there, or not for this caller | `kubectl business tree` shows what there is for you |
| 409 | somebody else was faster, or something stands in the way | read again and repeat; [below](#reasons) |
| 410 | a watch or a list is too old, or the database has another history than before | list again: every informer does |
| 422 | a field is wrong | the causes name each one |
| 429 | too much at once | come again after `Retry-After` |
| 500 | something broke here | the log of business-api has the `audit_id` of the answer's header `Audit-Id` |
| 503 | no database that takes writes, nobody who can say who you are or what you may do, or [growth is held](../operations/database.md#growth-that-is-held) | come again after `Retry-After` |
| 504 | whether the write was done is not known: the database did not answer in time | read before you repeat; it has no `Retry-After` on purpose |

## Reasons

What stands in `details.causes[].reason` beside Kubernetes' own `FieldValue…`. `message` of the cause holds `key=value` pairs, separated by one
space. In paths `R` is a resource, `C` a cluster.
";
const RECORDED: &str = "crates/business-cli/tests/output/refusals.txt";

/// The page.
pub(crate) fn page() -> Result<String> {
    let mut table = Table::new(&["reason", "code", "when", "field", "keys", "what to do"]);
    for reason in &REASONS {
        let list = |words: &mut dyn Iterator<Item = &str>| words.map(code).collect::<Vec<_>>().join(", ");
        table.row([
            code(reason.name),
            reason.code.to_string(),
            reason.when.to_owned(),
            list(&mut reason.fields.split(", ")),
            reason.keys.join(", "),
            without_placeholders(reason.next),
        ]);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recorded =
        std::fs::read_to_string(root.join(RECORDED)).with_context(|| format!("read {RECORDED}"))?;
    Ok(format!(
        "{INTRODUCTION}\n{}\n## As people read them\n\nWhat `kubectl business` says: recorded by its tests from the real server. \
         Behind `#` stands the exit code.\n\n```text\n{}\n```\n",
        table.as_str(),
        recorded.trim_end()
    ))
}

/// `{project}` is PROJECT for whoever reads it in a book.
fn without_placeholders(next: &str) -> String {
    let mut text = String::new();
    for (at, part) in next.split(['{', '}']).enumerate() {
        if at % 2 == 0 { text.push_str(part) } else { text.push_str(&part.to_uppercase()) }
    }
    text
}
