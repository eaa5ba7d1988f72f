//! What one side has said about objects: symbols to values for requests, values to symbols for answers.

use super::plan::Request;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Stands for a name that a server has made.
const GENERATED: &str = "GENERATED";

/// The values of one case on one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    group: &'static str,
    /// Of the case; part of all its names.
    number: u64,
    pub(crate) namespace: String,
    /// In the order of their first appearance.
    uids: Vec<String>,
    revisions: Vec<u64>,
    generated: Vec<String>,
    /// By name without the case's prefix: uid, and revisions as they were seen.
    objects: BTreeMap<String, (String, Vec<String>)>,
    list: String,
    token: String,
}

impl Memory {
    pub(crate) fn new(group: &'static str) -> Self {
        Self { group, ..Self::default() }
    }

    /// Forgets everything: another case begins.
    pub(crate) fn begin(&mut self, number: u64, namespace: &str) {
        *self = Self { number, namespace: namespace.to_owned(), ..Self::new(self.group) };
    }

    /// How much was seen: two sides that have seen the same number of everything tell of the same objects.
    pub(crate) fn seen(&self) -> [usize; 3] {
        [self.uids.len(), self.revisions.len(), self.generated.len()]
    }

    fn prefix(&self) -> String {
        format!("c{}-", self.number)
    }

    /// Puts values in for symbols.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, tail)) = rest.split_once("<<") {
            out.push_str(before);
            let Some((symbol, after)) = tail.split_once(">>") else {
                rest = tail;
                out.push_str("<<");
                continue;
            };
            // `<&>` and the like stand in values.
            match self.value(symbol) {
                Some(value) => out.push_str(&value),
                None => out.extend(["<<", symbol, ">>"]),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }

    fn value(&self, symbol: &str) -> Option<String> {
        let revisions = |name: &str| self.objects.get(name).map(|(_, revisions)| revisions);
        Some(match symbol.split_once(':').unwrap_or((symbol, "")) {
            ("G", _) => self.group.to_owned(),
            ("ns", _) => self.namespace.clone(),
            ("case", _) => format!("c{}", self.number),
            ("list", _) => self.list.clone(),
            ("cont", _) => self.token.clone(),
            ("name", "long") => format!("{}{}", self.prefix(), "l".repeat(70)),
            ("name", name) if name.starts_with(GENERATED) => {
                let index = name.trim_start_matches(GENERATED).parse::<usize>().ok()?;
                self.generated.get(index)?.clone()
            }
            ("name", name) => format!("{}{name}", self.prefix()),
            ("uid", name) => self.objects.get(name).map(|(uid, _)| uid.clone()).unwrap_or_default(),
            ("rv", name) => revisions(name).and_then(|all| all.last()).cloned().unwrap_or_default(),
            ("rv0", name) => revisions(name).and_then(|all| all.first()).cloned().unwrap_or_default(),
            _ => return None,
        })
    }

    /// The first events of a watch that begins with the present state come in any order.
    pub(crate) fn sort_initial(&self, request: &Request, events: &mut Value) {
        let from = request.parameter("resourceVersion").map(|text| self.fill(text)).unwrap_or_default();
        let initial = matches!(from.as_str(), "" | "0") || request.parameter("sendInitialEvents").is_some();
        let Some(events) = events.as_array_mut() else { return };
        // Bookmarks come when they please, but for the one that ends the initial events.
        events.retain(|event| {
            event["type"] != "BOOKMARK" || !event["object"]["metadata"]["annotations"].is_null()
        });
        if initial {
            let name = |event: &Value| {
                let object = &event["object"];
                let whole = &object["metadata"]["name"];
                let row = &object["rows"][0]["cells"][0];
                if whole.is_null() { row.to_string() } else { whole.to_string() }
            };
            events.sort_by_key(|event| (event["type"] != "ADDED", name(event)));
        }
    }

    /// Learns what an answer tells, and puts symbols in.
    pub(crate) fn rewrite(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                if let Some(details) = map.get("details") {
                    self.refused_name(details);
                    self.gone(details);
                }
                if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
                    self.metadata(metadata);
                }
                // A row's cells may name what its object tells.
                if let Some(object) = map.get_mut("object") {
                    self.rewrite(object);
                }
                for (key, value) in map.iter_mut().filter(|(key, _)| *key != "object") {
                    match value {
                        Value::String(text) => *text = self.words(text, key == "message"),
                        Value::Array(cells) if key == "cells" => self.cells(cells),
                        other => self.rewrite(other),
                    }
                }
            }
            Value::Array(list) => {
                for value in list {
                    match value {
                        Value::String(text) => *text = self.words(text, false),
                        other => self.rewrite(other),
                    }
                }
            }
            Value::String(text) => *text = self.words(text, true),
            _ => {}
        }
    }

    /// What was deleted may tell its uid only then.
    fn gone(&mut self, details: &Value) {
        let uid = details["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && !self.uids.iter().any(|known| known == uid) {
            self.uids.push(uid.to_owned());
        }
    }

    /// A name that was made and then refused.
    fn refused_name(&mut self, details: &Value) {
        let name = details["name"].as_str().unwrap_or_default();
        let causes = details["causes"].as_array().into_iter().flatten();
        let made = causes.count() > 0;
        let own = name.strip_prefix(&self.prefix()).unwrap_or(name);
        let generated = name.len() == 63
            || own.len() == 6 && own.starts_with('g')
            || ["g.", "G-"].iter().any(|p| own.starts_with(p));
        if made && generated && !self.generated.iter().any(|known| known == name) {
            self.generated.push(name.to_owned());
        }
    }

    /// The last cell is an age.
    fn cells(&mut self, cells: &mut [Value]) {
        for cell in cells.iter_mut() {
            self.rewrite(cell);
        }
        if let Some(age) = cells.last_mut() {
            *age = json!("AGE");
        }
    }

    fn metadata(&mut self, metadata: &mut Map<String, Value>) {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, uid, revision) = (text("name"), text("uid"), text("resourceVersion"));
        let (prefix, token) = (text("generateName"), text("continue"));
        if !token.is_empty() {
            self.token = token;
            metadata.insert("continue".to_owned(), json!("TOKEN"));
        }
        if !prefix.is_empty() && !name.is_empty() && !uid.is_empty() && !self.generated.contains(&name) {
            let kept = prefix.get(..58).unwrap_or(&prefix);
            if name.strip_prefix(kept).is_some_and(|suffix| suffix.len() == 5) {
                self.generated.push(name.clone());
            }
        }
        if uid.is_empty() && name.is_empty() {
            metadata.retain(|key, value| key != "creationTimestamp" || !value.is_null());
            if !revision.is_empty() {
                metadata.insert("resourceVersion".to_owned(), json!(self.snapshot(&revision)));
            }
            return;
        }
        if !uid.is_empty() && !self.uids.contains(&uid) {
            self.uids.push(uid.clone());
        }
        // A dry run there gives back the 0 that it was sent.
        if !revision.is_empty() && revision != "0" {
            let own = name.strip_prefix(&self.prefix()).unwrap_or(&name).to_owned();
            let known = self.objects.entry(own).or_default();
            if known.0 != uid {
                *known = (uid, Vec::new());
            }
            if known.1.last() != Some(&revision) {
                known.1.push(revision.clone());
            }
            metadata.insert("resourceVersion".to_owned(), json!(self.revision(&revision)));
        }
        for key in ["creationTimestamp", "deletionTimestamp"] {
            if metadata.get(key).is_some_and(Value::is_string) {
                metadata.insert(key.to_owned(), json!("TIME"));
            }
        }
        tidy_managers(metadata);
    }

    /// An object's revision: its number among those seen, and its place in their order.
    fn revision(&mut self, text: &str) -> String {
        let Ok(value) = text.parse::<u64>() else { return text.to_owned() };
        let index = self.revisions.iter().position(|known| *known == value).unwrap_or_else(|| {
            self.revisions.push(value);
            self.revisions.len() - 1
        });
        let below = self.revisions.iter().take(index).filter(|known| **known < value).count();
        format!("revision {index}, after {below}")
    }

    /// A list's revision: not below any object's.
    fn snapshot(&mut self, text: &str) -> String {
        text.clone_into(&mut self.list);
        let newest = self.revisions.iter().max().copied().unwrap_or_default();
        match text.parse::<u64>() {
            Ok(value) if value >= newest => "SNAPSHOT".to_owned(),
            Ok(_) => "OLD SNAPSHOT".to_owned(),
            Err(_) => text.to_owned(),
        }
    }

    /// A text without what differs by side and case.
    pub(crate) fn words(&self, text: &str, revisions: bool) -> String {
        let mut out = text.to_owned();
        for (index, name) in self.generated.iter().enumerate() {
            out = out.replace(name, &format!("{GENERATED}{index}"));
        }
        for (index, uid) in self.uids.iter().enumerate() {
            out = out.replace(uid, &format!("UID{index}"));
        }
        out = out.replace(&self.prefix(), "").replace(&format!("c{}", self.number), "CASE");
        if !self.namespace.is_empty() {
            out = out.replace(&self.namespace, "NS");
        }
        out = out.replace(self.group, "G");
        let versions = out.to_lowercase().contains("version");
        if revisions && versions { self.numbers(&out) } else { out }
    }

    /// Revisions within a message.
    fn numbers(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut digits = String::new();
        for character in text.chars().chain(std::iter::once('\n')) {
            if character.is_ascii_digit() {
                digits.push(character);
                continue;
            }
            if !digits.is_empty() {
                let known = digits.parse::<u64>().ok().filter(|_| digits.len() > 1);
                let known = known.and_then(|value| self.revisions.iter().position(|other| *other == value));
                match known {
                    Some(index) => out.extend(["REVISION", &index.to_string()]),
                    None if out.ends_with("current: ") || (out.ends_with(" (") && character == ')') => {
                        out.push_str("NOW");
                    }
                    None => out.push_str(&digits),
                }
                digits.clear();
            }
            out.push(character);
        }
        out.pop();
        out
    }
}

/// Times in whole seconds order the entries.
fn tidy_managers(metadata: &mut Map<String, Value>) {
    let Some(Value::Array(entries)) = metadata.get_mut("managedFields") else { return };
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        if entry.get("time").is_some_and(Value::is_string) {
            entry.insert("time".to_owned(), json!("TIME"));
        }
    }
    entries.sort_by_key(|e| {
        format!("{}/{}/{}/{}", e["operation"], e["manager"], e["subresource"], e["apiVersion"])
    });
}
