//! Runs histories on both sides, compares after every step, and shrinks what differs.

use crate::custom::{self, GROUP};
use crate::history::{Action, HistoryStep, history};
use crate::ours::{Ours, StepResult};
use crate::{Args, say, shape};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use kit::{Connection, Endpoint};
use meta::schema::Schema;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Differences that are printed.
const SHOWN_MAX: usize = 10;

/// Runs everything; tells how many histories differ.
pub(crate) async fn run(args: &Args) -> Result<usize> {
    let endpoint = Endpoint::from_kubeconfig(&args.kubeconfig)?;
    let mut schemas = Vec::new();
    for number in 0..args.schemas {
        let schema = shape::schema(args.seed, number);
        let plural = custom::plural(args.seed, number);
        install(&endpoint, &schema, &plural).await?;
        schemas.push((Arc::new(schema), plural));
    }
    let places = Arc::new(Semaphore::new(args.parallel));
    let mut runs = JoinSet::new();
    for number in 0..args.histories {
        let Some((schema, plural)) = schemas.get(usize::try_from(number % args.schemas.max(1))?).cloned()
        else {
            continue;
        };
        let seed = args.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let (endpoint, places, steps) = (endpoint.clone(), Arc::clone(&places), args.steps);
        runs.spawn(async move {
            let _place = places.acquire_owned().await?;
            let mut random = StdRng::seed_from_u64(seed);
            let steps = history(&schema, steps, &mut random);
            let mut rival = ReferenceServer { connection: endpoint.connect().await?, plural, seed, lives: 0 };
            let Some(difference) = differ(&schema, &steps, &mut rival).await? else {
                return anyhow::Ok(None);
            };
            let (steps, difference) = shrink(&schema, steps, difference, &mut rival).await?;
            Ok(Some(format!("history {seed} of {}:\n{}\n{difference}", rival.plural, replay(&steps))))
        });
    }
    let (mut failures, mut compared) = (0, 0_usize);
    let begun = Instant::now();
    while let Some(done) = runs.join_next().await {
        compared += 1;
        if compared.is_multiple_of(1000) {
            say(&format!("{compared} histories, {} s", begun.elapsed().as_secs()));
        }
        if let Some(text) = done?? {
            failures += 1;
            if failures <= SHOWN_MAX {
                say(&text);
            }
        }
    }
    Ok(failures)
}

fn replay(steps: &[HistoryStep]) -> String {
    steps.iter().map(|step| format!("  {}: {:?}", step.manager, step.action)).collect::<Vec<_>>().join("\n")
}

async fn install(endpoint: &Endpoint, schema: &Schema, plural: &str) -> Result<()> {
    let mut connection = endpoint.connect().await?;
    let definition = custom::definition(schema, plural);
    connection.ensure("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let path = format!("/apis/{GROUP}/v1/{plural}");
    let deadline = Instant::now() + Duration::from_mins(2);
    while !connection.call(Method::GET, &path, Bytes::new()).await?.0.is_success() {
        if Instant::now() > deadline {
            bail!("{plural} is not served");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The custom resource refuses a null that the merge itself has made.
const NULLED: StepResult = StepResult::Refused(422, Vec::new());

/// Where and how both sides differ, if they do.
async fn differ(
    schema: &Schema,
    steps: &[HistoryStep],
    rival: &mut ReferenceServer,
) -> Result<Option<String>> {
    rival.lives += 1;
    let name = format!("h{}-{}", rival.seed, rival.lives);
    let mut ours = Ours::new(schema, &custom::kind(&rival.plural), &name);
    let mut found = None;
    for (number, step) in steps.iter().enumerate() {
        let mine = normal(ours.step(step));
        let theirs = rival.step(&name, step).await?;
        if theirs == NULLED {
            // What an apply empties becomes null there, and a custom resource's validation refuses that; a built-in
            // kind reads null as absent, and so do we.
            break;
        }
        let theirs = normal(theirs);
        if mine != theirs {
            found = Some(format!("step {number}:\n  ours   {mine:?}\n  theirs {theirs:?}"));
            break;
        }
    }
    rival.forget(&name).await?;
    Ok(found)
}

/// Leaves steps out as long as a difference stays.
async fn shrink(
    schema: &Schema,
    mut steps: Vec<HistoryStep>,
    mut difference: String,
    rival: &mut ReferenceServer,
) -> Result<(Vec<HistoryStep>, String)> {
    let mut index = 0;
    while index < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(index);
        match differ(schema, &fewer, rival).await? {
            Some(still) => (steps, difference) = (fewer, still),
            None => index += 1,
        }
    }
    Ok((steps, difference))
}

/// Without what must differ: identity and times.
fn normal(answer: StepResult) -> StepResult {
    let mut object = match answer {
        StepResult::Stored(object) => object,
        // The managers stand in random order there.
        StepResult::Refused(code, mut fields) => {
            fields.sort();
            return StepResult::Refused(code, fields);
        }
    };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "creationTimestamp", "resourceVersion", "generation", "selfLink"] {
            metadata.remove(field);
        }
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        // Their order depends on times in whole seconds.
        if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
            entries.sort_by_key(|e| format!("{}/{}/{}", e["operation"], e["manager"], e["subresource"]));
        }
    }
    StepResult::Stored(object)
}

/// The custom resource on the real server.
struct ReferenceServer {
    connection: Connection,
    plural: String,
    seed: u64,
    lives: u64,
}

impl ReferenceServer {
    fn path(&self, name: &str) -> String {
        format!("/apis/{GROUP}/v1/namespaces/default/{}/{name}", self.plural)
    }

    async fn step(&mut self, name: &str, step: &HistoryStep) -> Result<StepResult> {
        let (path, manager) = (self.path(name), step.manager);
        match &step.action {
            Action::Apply { parts, force } => {
                let mut document = parts.clone();
                document["apiVersion"] = json!(format!("{GROUP}/v1"));
                document["kind"] = json!(custom::kind(&self.plural));
                document["metadata"]["name"] = json!(name);
                document["metadata"]["namespace"] = json!("default");
                let path = format!("{path}?fieldManager={manager}&force={force}");
                self.send(Method::PATCH, &path, "application/apply-patch+yaml", &document).await
            }
            Action::Update(parts) => {
                let (status, body) = self.connection.call(Method::GET, &path, Bytes::new()).await?;
                if status == StatusCode::NOT_FOUND {
                    return Ok(StepResult::Refused(404, Vec::new()));
                }
                let mut live: Value = serde_json::from_slice(&body)?;
                replace(&mut live, "spec", parts.get("spec"))?;
                let metadata = live.get_mut("metadata").context("no metadata")?;
                for field in ["labels", "finalizers"] {
                    replace(metadata, field, parts["metadata"].get(field))?;
                }
                self.send(Method::PUT, &format!("{path}?fieldManager={manager}"), "application/json", &live)
                    .await
            }
            Action::Patch(parts) => {
                let path = format!("{path}?fieldManager={manager}");
                self.send(Method::PATCH, &path, "application/merge-patch+json", parts).await
            }
            Action::PatchStatus(parts) => {
                let path = format!("{path}/status?fieldManager={manager}");
                self.send(Method::PATCH, &path, "application/merge-patch+json", parts).await
            }
        }
    }

    async fn send(&mut self, method: Method, path: &str, content: &str, body: &Value) -> Result<StepResult> {
        let response = self.connection.open_as(method, path, content, Bytes::from(body.to_string())).await?;
        let code = response.status();
        let answer: Value = serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
        if code.is_success() {
            return Ok(StepResult::Stored(answer));
        }
        let message = answer["message"].as_str().unwrap_or_default();
        if code == StatusCode::UNPROCESSABLE_ENTITY && !message.contains("\"null\"") {
            bail!("{path}: {message}");
        }
        let causes = answer["details"]["causes"].as_array().into_iter().flatten();
        let fields = causes
            .filter(|cause| cause["reason"] == "FieldManagerConflict")
            .filter_map(|cause| cause["field"].as_str().map(str::to_owned));
        Ok(StepResult::Refused(code.as_u16(), fields.collect()))
    }

    async fn forget(&mut self, name: &str) -> Result<()> {
        let path = self.path(name);
        let nothing = json!({"metadata": {"finalizers": null}});
        self.send(Method::PATCH, &path, "application/merge-patch+json", &nothing).await?;
        self.connection.call(Method::DELETE, &path, Bytes::new()).await?;
        Ok(())
    }
}

fn replace(parent: &mut Value, field: &str, value: Option<&Value>) -> Result<()> {
    let map = parent.as_object_mut().context("not an object")?;
    match value {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
    Ok(())
}
