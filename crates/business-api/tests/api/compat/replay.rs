//! A group's requests, asked one after the other.

use super::Group;
use super::answer::{Shown, sorted};
use super::line::{Line, Version};
use crate::support::{Answer, Client, World};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const SETTLES: Duration = Duration::from_secs(30);

pub(super) struct Replay {
    world: World,
    by_platform_only: bool,
    /// Names that were made up, by the recorded ones.
    aliases: BTreeMap<String, String>,
}

impl Replay {
    pub(super) async fn start(group: &Group) -> Self {
        let world = group.world().await;
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

    pub(super) async fn prepare(&mut self, line: &Line, group: &str) {
        let answer = self.ask(line).await;
        assert!(answer.code < 300, "{group}: {}: {:#}", line.request, answer.body);
        self.name(line.alias.as_deref(), &answer);
    }

    /// How the answer differs. What follows from a write a moment later is waited for.
    pub(super) async fn compare(&mut self, line: &Line, is_listed: bool) -> Option<String> {
        let begun = Instant::now();
        loop {
            let answer = self.ask(line).await;
            let made = line.answer.as_ref().and_then(|body| body["metadata"]["name"].as_str());
            self.name(made.filter(|name| name.contains("GENERATED")), &answer);
            let differs = self.difference(line, &answer);
            let follows = line.request.starts_with("GET") && !is_listed;
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
        sorted(serde_json::from_str(&text).unwrap())
    }
}
