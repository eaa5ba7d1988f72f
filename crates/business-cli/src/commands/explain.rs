use crate::api::Api;
use crate::desired::{DesiredObject, NamespaceFlags, ProjectFlags};
use crate::failure::{Failure, Outcome};
use crate::output::{self, OutputFormat};
use crate::screen::{Screen, print};
use clap::{Args, Subcommand};
use serde::Deserialize as _;
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The result for one object.
mod verdict;
/// The limits that have to be raised, level by level.
mod raises;
/// The usage of the levels above.
mod levels;

use verdict::Verdict;

const EXAMPLES: &str = "\
Examples:
  kubectl business explain -f namespace.yaml
  kubectl business explain namespace web -n shop --cluster east --set requests.cpu=8,requests.memory=16Gi
  kubectl business explain project shop --set east:requests.cpu=12
  kubectl business explain -f namespace.yaml -o json | jq '.[].fits'

The server decides, and keeps nothing. Objects of a file are decided one by one, each as if it were alone.";
/// Size limit of a file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Limit of the objects in a file: each is tried by calls of its own.
const OBJECTS_MAX: usize = 200;

/// Say whether something would fit, level by level, and what would let it in
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Explain {
    /// A file with projects and namespaces, YAML or JSON; - is standard input
    #[arg(long, short, value_name = "FILE")]
    filename: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<ExplainCommand>,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t, global = true)]
    output: OutputFormat,
}

#[derive(Debug, Subcommand)]
enum ExplainCommand {
    /// A project, new or changed
    #[command(visible_alias = "prj", after_help = EXAMPLES)]
    Project(ProjectFlags),
    /// A namespace of a project (-n), new or changed
    #[command(visible_alias = "ns", after_help = EXAMPLES)]
    Namespace(NamespaceFlags),
}

impl Explain {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        let mut verdicts = Vec::new();
        for desired in self.desired_objects(api).await? {
            verdicts.push(Verdict::of(api, &desired, self.what.is_some()).await?);
        }
        let all_fit = verdicts.iter().all(Verdict::fits);
        match self.output {
            OutputFormat::Json | OutputFormat::Yaml => {
                let output: Vec<Value> = verdicts.iter().map(Verdict::to_json).collect();
                // A file always gives a list, however many objects it has.
                let output = match (output.as_slice(), &self.what) {
                    ([one], Some(_)) => one.clone(),
                    _ => Value::Array(output),
                };
                output::print_data(self.output, &output)?;
            }
            OutputFormat::Text | OutputFormat::Wide => {
                let shown: Vec<String> = verdicts.iter().map(|verdict| verdict.render(screen)).collect();
                print(shown.join("\n"))?;
            }
        }
        Ok(if all_fit { Outcome::Done } else { Outcome::No })
    }

    async fn desired_objects(&self, api: &Api) -> Result<Vec<DesiredObject>, Failure> {
        match (&self.what, &self.filename) {
            (Some(ExplainCommand::Project(flags)), _) => Ok(vec![flags.new_or_changed(api).await?]),
            (Some(ExplainCommand::Namespace(flags)), _) => Ok(vec![flags.new_or_changed(api).await?]),
            (None, Some(file)) => {
                let mut desired = Vec::new();
                for document in read_documents(file, OBJECTS_MAX)? {
                    desired.push(
                        DesiredObject::of_document(document, &api.project)?
                            .or_change_of_existing(api)
                            .await?,
                    );
                }
                Ok(desired)
            }
            (None, None) => {
                Err(Failure::Usage("say what: -f FILE, project NAME, or namespace NAME".to_owned()))
            }
        }
    }
}

/// The objects of a file, at most so many; a List is taken apart.
pub(crate) fn read_documents(file: &Path, objects_max: usize) -> Result<Vec<Value>, Failure> {
    let failed = |why: String| Failure::File { path: file.to_owned(), why };
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
    };
    read.map_err(|error| failed(error.to_string()))?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(failed(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    let mut documents = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        let value = Value::deserialize(document).map_err(|error| failed(error.to_string()))?;
        match value.get("items").and_then(Value::as_array) {
            Some(items) => documents.extend(items.iter().cloned()),
            None if value.is_null() => {}
            None => documents.push(value),
        }
    }
    if documents.is_empty() {
        return Err(failed("there is no object in it".to_owned()));
    }
    if documents.len() > objects_max {
        return Err(failed(format!(
            "there are {} objects in it; {objects_max} are taken at once",
            documents.len()
        )));
    }
    Ok(documents)
}
