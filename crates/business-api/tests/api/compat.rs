//! Answers that were recorded on the system that this one takes the place of, beside ours. Each is the same, or it stands
//! in docs/differences.md with the reason why not.
//!
//! A line of a group's file is a request with what was answered: whole, or the part that `take` points at. A line without a
//! name prepares what the recorded requests did not do themselves.

mod answer;

use crate::support::{Answer, Client, World};
use answer::Shown;
use business_types::Cluster;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The requests of a group follow upon each other.
#[derive(Clone, Copy)]
struct Group {
    name: &'static str,
    /// The old system knew no roles: whoever had a tenant ruled it. Where it asks who is what, nobody rules but whom a
    /// platform names.
    by_platform_only: bool,
}

const fn group(name: &'static str) -> Group {
    Group { name, by_platform_only: false }
}

/// A kind that is served from now on gets a row, and a file of its name.
const GROUPS: &[Group] = &[
    group("discovery"),
    group("platforms"),
    group("configmaps"),
    Group { by_platform_only: true, ..group("portal") },
    group("basics"),
    group("namespaces"),
];
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");
const DIFFERENCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/differences.md");
const SECTION: &str = "## Beside the recorded answers";
const SETTLES: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Line {
    name: Option<String>,
    #[serde(default)]
    request: String,
    /// `user@tenant`; an operator where absent.
    #[serde(default)]
    who: String,
    #[serde(rename = "type")]
    content: Option<String>,
    accept: Option<String>,
    send: Option<Value>,
    /// The `resourceVersion` that is sent.
    version: Option<Version>,
    /// What later requests call an object whose name was made up.
    alias: Option<String>,
    #[serde(default)]
    code: u16,
    answer: Option<Value>,
    /// Which part of the answer was recorded: a pointer, or pointers by name.
    take: Option<Value>,
    /// Lines of a text that was recorded in parts.
    contains: Option<Vec<String>>,
    /// Why it cannot be asked.
    left_out: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Version {
    /// That of the object as it is.
    Fresh,
    /// One that the object had.
    Stale,
}

struct Replay {
    world: World,
    by_platform_only: bool,
    /// Names that were made up, by the recorded ones.
    aliases: BTreeMap<String, String>,
}

#[tokio::test]
async fn what_was_recorded_is_answered_in_the_same_way_or_differs_on_purpose() {
    let listed = listed();
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for group in GROUPS {
        let lines = group.lines();
        known.extend(lines.iter().filter_map(|line| line.name.clone()));
        let mut replay = Replay::start(group).await;
        for line in lines {
            match (&line.name, &line.left_out) {
                (Some(name), Some(why)) => assert!(!why.is_empty(), "{name}"),
                (Some(name), None) => {
                    let differs = replay.compare(&line, listed.contains(name)).await;
                    wrong.extend(judge(name, listed.contains(name), differs));
                }
                (None, _) => replay.prepare(&line, group.name).await,
            }
        }
    }
    wrong.extend(listed.difference(&known).map(|name| format!("{name}: is listed, and not recorded")));
    assert!(wrong.is_empty(), "{}\n{} in all", wrong.join("\n\n"), wrong.len());
}

fn judge(name: &str, is_listed: bool, differs: Option<String>) -> Option<String> {
    match (is_listed, differs) {
        (false, Some(how)) => Some(format!("{name}: differs, and is not listed:\n{how}")),
        (true, None) => Some(format!("{name}: is listed, and does not differ")),
        (true, Some(_)) | (false, None) => None,
    }
}

/// The names in the second column of the table.
fn listed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(DIFFERENCES).unwrap();
    let section = text.split_once(SECTION).unwrap().1;
    let rows =
        section.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with('|'));
    let cells = rows.skip(2).filter_map(|row| row.split('|').nth(2).map(str::to_owned));
    let mut names = BTreeSet::new();
    for cell in cells {
        for name in cell.split('`').skip(1).step_by(2) {
            assert!(names.insert(name.to_owned()), "{name} is listed twice");
        }
    }
    names
}

impl Group {
    fn lines(self) -> Vec<Line> {
        let text = std::fs::read_to_string(format!("{RECORDED}/{}.jsonl", self.name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Replay {
    async fn start(group: &Group) -> Self {
        let flags = [
            "--tenant-grant",
            "--initial-administrator-tenant=default",
            "--initial-administrator-user=admin",
        ];
        let world = World::with_settings(&flags).await;
        let of = |name: &str, tenant: &str| {
            let cluster = Cluster {
                tenants: vec![tenant.to_owned()],
                version: "1.21.4".to_owned(),
                display_name: format!("Cluster {name}"),
                cluster_type: "Baremetal".to_owned(),
            };
            (name.to_owned(), cluster)
        };
        let main = Cluster {
            tenants: vec!["default".to_owned()],
            version: "1.36.3".to_owned(),
            display_name: "cluster".to_owned(),
            cluster_type: "Imported".to_owned(),
        };
        world.clusters.replace([
            of("cls-a", "acme"),
            of("cls-b", "acme"),
            of("cls-g", "globex"),
            of("other", "default"),
            ("cluster".to_owned(), main),
        ]);
        let default = "/platforms/platform-default";
        crate::support::until("it has begun", async || world.operator().get(default).await.code == 200).await;
        Self { world, by_platform_only: group.by_platform_only, aliases: BTreeMap::new() }
    }

    fn caller(&self, who: &str) -> Client {
        match who.split_once('@') {
            None => self.world.operator(),
            Some((_, "")) => self.world.stranger(),
            Some((user, tenant)) if self.by_platform_only => self.world.member(user, tenant),
            Some((user, tenant)) => self.world.administrator(user, tenant),
        }
    }

    async fn prepare(&mut self, line: &Line, group: &str) {
        let answer = self.ask(line).await;
        assert!(answer.code < 300, "{group}: {}: {:#}", line.request, answer.body);
        self.name(line.alias.as_deref(), &answer);
    }

    /// How the answer differs. What follows from a write a moment later is waited for.
    async fn compare(&mut self, line: &Line, is_listed: bool) -> Option<String> {
        let begun = Instant::now();
        loop {
            let answer = self.ask(line).await;
            let made = line.answer.as_ref().and_then(|body| body["metadata"]["name"].as_str());
            self.name(made.filter(|name| name.contains("GENERATED")), &answer);
            let differs = self.difference(line, &answer);
            let follows = self.by_platform_only && line.request.starts_with("GET") && !is_listed;
            let again = follows && begun.elapsed() < SETTLES;
            if differs.is_none() || !again {
                return differs;
            }
            tokio::task::yield_now().await;
        }
    }

    fn difference(&self, line: &Line, answer: &Answer) -> Option<String> {
        if let Some(parts) = &line.contains {
            let text = answer.body.as_str().unwrap_or_default();
            let missing: Vec<&String> = parts.iter().filter(|part| !text.contains(part.as_str())).collect();
            return (!missing.is_empty()).then(|| format!("  lacks {missing:?}: {text}"));
        }
        let shown = Shown { recorded: line.answer.as_ref(), take: line.take.as_ref() };
        let (theirs, ours) = (shown.theirs(), self.unmade(&shown.ours(answer)));
        let same = line.code == answer.code && theirs == ours;
        (!same).then(|| format!("  recorded {} {theirs}\n  answered {} {ours}", line.code, answer.code))
    }

    async fn ask(&self, line: &Line) -> Answer {
        let (method, path) = line.request.split_once(' ').unwrap();
        let path = self.made(path);
        let mut send = line.send.clone();
        if let (Some(version), Some(body)) = (line.version, &mut send) {
            body["metadata"]["resourceVersion"] = self.version(version, &path).await;
        }
        let content = line.content.as_deref().unwrap_or("application/json");
        let body = send.map(|body| match body {
            Value::String(text) => text,
            body => body.to_string(),
        });
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.caller(&line.who).ask(method, &path, content, line.accept.as_deref(), body).await
    }

    async fn version(&self, version: Version, path: &str) -> Value {
        match version {
            Version::Stale => json!("1"),
            Version::Fresh => {
                self.world.operator().get(path).await.body["metadata"]["resourceVersion"].clone()
            }
        }
    }

    fn name(&mut self, recorded: Option<&str>, answer: &Answer) {
        let made = answer.body["metadata"]["name"].as_str().filter(|_| answer.code == 201);
        if let (Some(recorded), Some(made)) = (recorded, made) {
            self.aliases.insert(recorded.to_owned(), made.to_owned());
        }
    }

    /// With the names that were made up here.
    fn made(&self, path: &str) -> String {
        self.aliases.iter().fold(path.to_owned(), |path, (recorded, made)| path.replace(recorded, made))
    }

    /// With the recorded names.
    fn unmade(&self, shown: &Value) -> Value {
        let text = self
            .aliases
            .iter()
            .fold(shown.to_string(), |text, (recorded, made)| text.replace(made, recorded));
        answer::sorted(serde_json::from_str(&text).unwrap())
    }
}
