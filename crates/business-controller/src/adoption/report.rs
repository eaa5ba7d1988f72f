//! The output of `discover` and `adopt`, for people and for programs. Pure.

use super::adopt::Adopted;
use super::discover::{Discovered, Proposal};
use super::mapping::MappingError;
use crate::config::{Adopt, Output};
use meta::quantity::ResourceList;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The output of `discover`.
pub fn discovered(discovered: &Discovered, output: Output) -> String {
    match output {
        Output::Text => file(discovered),
        Output::Json => {
            let namespaces: Vec<Value> = discovered.proposals.iter().map(json_of).collect();
            json!({ "cluster": discovered.cluster, "namespaces": namespaces }).to_string()
        }
    }
}

/// The mapping file. A namespace whose project is not known is commented out.
fn file(discovered: &Discovered) -> String {
    let mut out = format!(
        "# Namespaces of cluster {} that nobody manages. One a line; what stands behind a # is passed over.\n\
         # Taken with: business-controller adopt -f FILE",
        discovered.cluster
    );
    for proposal in &discovered.proposals {
        let behind = if proposal.entry.project.is_empty() { "# " } else { "" };
        let _always = write!(out, "\n{behind}{}  # {}", proposal.entry.to_line(), known(proposal));
    }
    out
}

/// The comment of a line: what a person wants to know before deciding.
fn known(proposal: &Proposal) -> String {
    let mut known = vec![match (proposal.quotas, proposal.used.is_empty()) {
        (0, _) => "no quota, so its use is not known".to_owned(),
        (_, true) => "nothing counted in its quota".to_owned(),
        (_, false) => format!("uses {}", amounts(&proposal.used)),
    }];
    if !proposal.lacks.is_empty() {
        known.push(format!("its project also limits {}", proposal.lacks.join(" ")));
    }
    if !proposal.labels.is_empty() {
        let labels: Vec<String> =
            proposal.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        known.push(format!("labels {}", labels.join(" ")));
    }
    known.join("; ")
}

fn amounts(list: &ResourceList) -> String {
    let amounts: Vec<String> = list.iter().map(|(key, amount)| format!("{key}={amount}")).collect();
    amounts.join(" ")
}

fn json_of(proposal: &Proposal) -> Value {
    let Proposal { entry, quotas, used, lacks, labels } = proposal;
    let project = Some(&entry.project).filter(|project| !project.is_empty());
    json!({
        "namespace": entry.namespace, "project": project, "name": entry.name, "hard": entry.hard,
        "quotas": quotas, "used": used, "lacks": lacks, "labels": labels,
    })
}

/// The output of `adopt`.
pub fn adopted(settings: &Adopt, adopted: &Adopted) -> String {
    match settings.output {
        Output::Text => adopted_text(settings, adopted),
        Output::Json => {
            let (namespaces, wrong) = match adopted {
                Adopted::All(number) => (*number, &[][..]),
                Adopted::None(wrong) => (0, wrong.as_slice()),
            };
            let wrong: Vec<Value> = wrong
                .iter()
                .map(|MappingError { line, field, why }| json!({ "line": line, "field": field, "why": why }))
                .collect();
            let accepted = matches!(adopted, Adopted::All(_));
            json!({
                "accepted": accepted, "dryRun": settings.dry_run, "namespaces": namespaces, "wrong": wrong,
            })
            .to_string()
        }
    }
}

fn adopted_text(settings: &Adopt, adopted: &Adopted) -> String {
    match adopted {
        Adopted::All(number) if settings.dry_run => format!("{number} namespaces would be adopted"),
        Adopted::All(number) => format!("{number} namespaces are adopted"),
        Adopted::None(wrong) => {
            let file = settings.file.display();
            let lines: Vec<String> = wrong.iter().map(|wrong| format!("{file}:{wrong}\n")).collect();
            format!("{}nothing is adopted", lines.concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adoption::mapping;
    use crate::config::{Cli, Command};
    use crate::fixtures::unmanaged::{self, assert_recorded};
    use clap::Parser as _;

    fn settings(flags: &str) -> Adopt {
        let line = format!("business-controller adopt -f shop.yaml {flags}");
        match Cli::parse_from(line.split_whitespace()).command {
            Command::Adopt(settings) => *settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_is_as_recorded_and_its_text_is_a_file_for_adopt() {
        let found = unmanaged::discovered();
        let text = discovered(&found, Output::Text);
        assert_recorded("discover.txt", &text);
        assert_recorded("discover.json", &discovered(&found, Output::Json));
        let entries = mapping::parse(&text, &[]).unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry.namespace.as_str()).collect();
        assert_eq!(names, ["bare", "web"], "what has no project is passed over");
    }

    #[test]
    fn what_becomes_of_a_file_is_said_as_recorded() {
        let wrong =
            |line, field: &str, why: &str| MappingError { line, field: field.into(), why: why.into() };
        let none = Adopted::None(vec![
            wrong(3, "", "it is no item of a list on one line, - {…}"),
            wrong(7, "hard[pods]", "project=shop cluster=c1 resource=pods requested=9 fits=4"),
        ]);
        let mut text = String::new();
        let mut json = String::new();
        for (flags, outcome) in [("", &Adopted::All(4)), ("--dry-run", &Adopted::All(4)), ("", &none)] {
            writeln!(text, "{}", adopted(&settings(flags), outcome)).unwrap();
            writeln!(json, "{}", adopted(&settings(&format!("-o json {flags}")), outcome)).unwrap();
        }
        assert_recorded("adopt.txt", text.trim_end());
        assert_recorded("adopt.json", json.trim_end());
    }
}
