//! One case on both sides.

use super::plan::Request;
use super::rules::{self, Case};
use super::side::{Side, SideAnswer};
use super::target::TargetKind;
use anyhow::Result;
use kit::Endpoint;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often both sides are emptied, at most.
const ROUNDS: usize = 5;
/// How often, and how far apart, an answer that may be a moment old is asked for again.
const LAGS: usize = 200;
const LAG: Duration = Duration::from_millis(50);

/// Of the next case. It begins with the time, so that what another run has left has other names.
static NUMBER: LazyLock<AtomicU64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    AtomicU64::new(since.as_secs() % 1_000_000 * 100_000)
});

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    requests: AtomicU64,
    failures: AtomicUsize,
    rules: Mutex<BTreeMap<&'static str, u64>>,
}

impl Tally {
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// One more case that differs; how many there are.
    pub(crate) fn failed(&self) -> usize {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn rules(&self) -> BTreeMap<&'static str, u64> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn asked(&self, rules: &[&'static str]) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut all = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in rules {
            *all.entry(rule).or_default() += 1;
        }
    }
}

/// Both sides of a kind.
pub(crate) struct Pair {
    pub(crate) target: TargetKind,
    ours: Side,
    theirs: Side,
    namespace: String,
}

impl Pair {
    pub(crate) fn new(target: &TargetKind, library: &Endpoint, kube: &Endpoint, worker: u64) -> Self {
        let [ours, theirs] = target.groups;
        let own = if target.namespaced { library } else { kube };
        Self {
            target: target.clone(),
            ours: Side::new(own.clone(), ours),
            theirs: Side::new(kube.clone(), theirs),
            namespace: if target.namespaced { super::twin::namespace(worker) } else { String::new() },
        }
    }

    /// Where and how both sides differ, if they do.
    pub(crate) async fn differ(&mut self, requests: &[Request], tally: &Tally) -> Result<Option<String>> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        for side in [&mut self.ours, &mut self.theirs] {
            side.memory.begin(number, &self.namespace);
        }
        let mut found = None;
        for (index, request) in requests.iter().enumerate() {
            let case = Case { target: &self.target, earlier: requests.get(..index).unwrap_or_default() };
            let mut tries = if request.may_lag() { LAGS } else { 0 };
            let before = (self.ours.memory.clone(), self.theirs.memory.clone());
            let (ours, theirs, settled) = loop {
                (self.ours.memory, self.theirs.memory) = before.clone();
                let (ours, theirs) = tokio::try_join!(self.ours.ask(request), self.theirs.ask(request))?;
                let (mut mine, mut other) = (ours.clone(), theirs.clone());
                let settled = rules::settle(&case, request, &mut mine, &mut other);
                if settled.is_some() || tries == 0 {
                    break ((ours, mine), (theirs, other), settled);
                }
                tries -= 1;
                tokio::time::sleep(LAG).await;
            };
            tally.asked(settled.as_deref().unwrap_or_default());
            if settled.is_none() {
                found = Some(format!("request {index}:{}", show(&ours.1, &theirs.1)));
                break;
            }
            // From here on they would tell of different objects.
            let goes_on = |answer: &SideAnswer| answer.body["metadata"]["continue"].is_string();
            if goes_on(&ours.0) != goes_on(&theirs.0)
                || ours.0.succeeded() != theirs.0.succeeded()
                || self.ours.memory.seen() != self.theirs.memory.seen()
                || ours.0.body != theirs.0.body && is_write(request)
            {
                break;
            }
        }
        self.clear(requests).await?;
        Ok(found)
    }

    /// Removes what the case has made, on both sides.
    async fn clear(&mut self, requests: &[Request]) -> Result<()> {
        if !requests.iter().any(is_write) {
            return Ok(());
        }
        for side in [&mut self.ours, &mut self.theirs] {
            for _round in 0..ROUNDS {
                if empty(side, &self.target).await? {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Takes what there is away; whether there was nothing.
async fn empty(side: &mut Side, target: &TargetKind) -> Result<bool> {
    side.ask(&target.confine(Request::new("DELETE", target.collection()))).await?;
    let objects = side.ask(&target.confine(Request::new("GET", target.collection()))).await?;
    let left = objects.body["items"].as_array().cloned().unwrap_or_default();
    for object in &left {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = target.object(name);
        let free = r#"{"metadata":{"finalizers":null}}"#;
        side.ask(&Request::new("PATCH", &path).text("application/merge-patch+json", free)).await?;
        if !target.deletes {
            let mut object = object.clone();
            object["spec"]["finalizers"] = Value::Array(Vec::new());
            object["metadata"] =
                json!({"name": format!("<<name:{name}>>"), "resourceVersion": format!("<<rv:{name}>>")});
            side.ask(&Request::new("PUT", format!("{path}/finalize")).json(&object)).await?;
        }
    }
    Ok(objects.succeeded() && left.is_empty())
}

fn is_write(request: &Request) -> bool {
    !matches!(request.method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}

/// Characters of a value that are shown.
const SHOWN_CHARACTERS: usize = 400;

fn show(ours: &SideAnswer, theirs: &SideAnswer) -> String {
    let mut lines = Vec::new();
    let mut line = |what: &str, ours: &str, theirs: &str| {
        if ours != theirs {
            let cut = |text: &str| text.chars().take(SHOWN_CHARACTERS).collect::<String>();
            lines.push(format!("\n  {what}\n    ours   {}\n    theirs {}", cut(ours), cut(theirs)));
        }
    };
    line("code", &ours.code.to_string(), &theirs.code.to_string());
    line("headers", &format!("{:?}", ours.headers), &format!("{:?}", theirs.headers));
    line("warnings", &format!("{:?}", ours.warnings), &format!("{:?}", theirs.warnings));
    line("form", ours.form, theirs.form);
    for (path, ours, theirs) in differences("", &ours.body, &theirs.body) {
        line(&path, &ours, &theirs);
    }
    lines.concat()
}

/// The innermost places where two values differ.
fn differences(path: &str, ours: &Value, theirs: &Value) -> Vec<(String, String, String)> {
    let absent = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), Value::to_string);
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter()
                .flat_map(|key| {
                    let path = format!("{path}/{key}");
                    match (a.get(key), b.get(key)) {
                        (Some(a), Some(b)) => differences(&path, a, b),
                        (a, b) => vec![(path, absent(a), absent(b))],
                    }
                })
                .collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .flat_map(|(i, (a, b))| differences(&format!("{path}/{i}"), a, b))
            .collect(),
        (a, b) if a == b => Vec::new(),
        (a, b) => vec![(format!("body {path}"), a.to_string(), b.to_string())],
    }
}
