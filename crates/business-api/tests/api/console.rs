//! What the web console of the system before sends, page by page, and what its user sees.
//!
//! A line of the file is one request, with the headers and the body that a browser sends by way of the gateway. The console
//! shows the `message` of whatever is refused (`says`), in a dialog about rights where the code is 403; of an answer it reads
//! the fields that `sees` points at. A line without a `page` prepares what the console does not do itself.

use crate::support::{Answer, Client, World, member_cluster, until};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const REQUESTS: &str = include_str!("../console/requests.jsonl");
/// Where nobody but operators makes budget out of nothing.
const WITHOUT_GRANT: &str = include_str!("../console/without-grant.jsonl");
/// Every request of the console has these.
const HEADERS: [(&str, &str); 5] = [
    ("accept", "application/json, text/plain, */*"),
    ("x-remote-extra-requestid", "3b241101-e2bb-4255-8caf-4136c566a962"),
    ("origin", "https://console.example"),
    ("referer", "https://console.example/tkestack/project"),
    ("x-requested-with", "XMLHttpRequest"),
];
const JSON: &str = "application/json";
const SETTLES: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// The page, and what somebody does there.
    page: Option<String>,
    who: String,
    request: String,
    /// `application/json`, also where there is no body; `null` for a client that sends none.
    #[serde(default = "json_content", rename = "type")]
    content: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    send: Option<Value>,
    /// The body's `resourceVersion` and `status` are those of the object as it was last read by the page.
    #[serde(default)]
    edits: Edits,
    /// What later lines call an object whose name is made up.
    alias: Option<String>,
    #[serde(default)]
    code: u16,
    says: Option<String>,
    #[serde(default)]
    sees: BTreeMap<String, Value>,
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an optional field")]
fn json_content() -> Option<String> {
    Some(JSON.to_owned())
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Edits {
    #[default]
    Nothing,
    /// What was just read.
    Fresh,
    /// What was read before somebody else wrote.
    Stale,
}

struct Console {
    world: World,
    /// Names that were made up, by their aliases.
    made: BTreeMap<String, String>,
}

#[tokio::test]
async fn the_console_of_old_works_and_shows_what_is_refused() {
    Console::new(&["--tenant-grant"]).await.replay(REQUESTS).await;
}

#[tokio::test]
async fn the_console_says_who_makes_budgets() {
    Console::new(&[]).await.replay(WITHOUT_GRANT).await;
}

impl Console {
    async fn new(flags: &[&str]) -> Self {
        let flags = [flags, &["--initial-administrator-tenant=acme", "--initial-administrator-user=root"]];
        let world = World::with_settings(&flags.concat()).await;
        for name in ["cls-a", "cls-b"] {
            let mut cluster = member_cluster(name, &["acme"]);
            cluster["spec"]["displayName"] = json!(format!("Cluster {name}"));
            cluster["spec"]["type"] = json!("Baremetal");
            world.register(cluster, json!({"version": "1.21.4"})).await;
        }
        let root = world.member("root", "acme");
        until("root rules", async || root.get("/portal").await.body["administrator"] == true).await;
        Self { world, made: BTreeMap::new() }
    }

    async fn replay(mut self, requests: &str) {
        let mut wrong = String::new();
        for line in requests.lines() {
            let line: Line = serde_json::from_str(line).unwrap();
            let answer = self.settled(&line).await;
            let made = answer.body["metadata"]["name"].as_str().filter(|_name| answer.code == 201);
            if let (Some(alias), Some(made)) = (&line.alias, made) {
                self.made.insert(alias.clone(), made.to_owned());
            }
            match &line.page {
                None => assert!(answer.code < 300, "{}: {:#}", line.request, answer.body),
                Some(page) => {
                    for (where_to, expected, seen) in self.differences(&line, &answer) {
                        writeln!(wrong, "{page}: {where_to}\n  expected {expected}\n  seen     {seen}")
                            .unwrap();
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "\n{wrong}");
    }

    /// Asks again what has done nothing: who is a member, and whom he sees, follows upon a write a moment later.
    async fn settled(&self, line: &Line) -> Answer {
        let begun = Instant::now();
        loop {
            let answer = self.ask(line).await;
            let idle = answer.code >= 400 || line.request.starts_with("GET");
            let good = self.differences(line, &answer).is_empty();
            if good || !idle || begun.elapsed() > SETTLES {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Where, what was expected, what is there.
    fn differences(&self, line: &Line, answer: &Answer) -> Vec<(String, Value, Value)> {
        let mut found = Vec::new();
        let mut compare = |at: &str, expected: Value, seen: Value| {
            if expected != seen {
                found.push((at.to_owned(), expected, seen));
            }
        };
        compare("code", json!(line.code), json!(answer.code));
        let says = self.unmade(&json!(answer.body["message"].as_str().filter(|_text| answer.code >= 400)));
        compare("says", json!(line.says), says);
        for (pointer, expected) in &line.sees {
            let seen = answer.body.pointer(pointer).cloned().unwrap_or_default();
            compare(pointer, expected.clone(), self.unmade(&seen));
        }
        found
    }

    async fn ask(&self, line: &Line) -> Answer {
        let (method, path) = line.request.split_once(' ').unwrap();
        let path = self.with_made(path);
        let mut body = line.send.clone();
        if let (Some(body), true) = (&mut body, line.edits != Edits::Nothing) {
            let read = self.world.operator().get(&path).await.expect(200);
            body["metadata"]["resourceVersion"] = match line.edits {
                Edits::Stale => json!("1"),
                Edits::Fresh | Edits::Nothing => read["metadata"]["resourceVersion"].clone(),
            };
            if !read["status"].is_null() && line.page.is_some() {
                body["status"] = read["status"].clone();
            }
        }
        let body = body.map(|body| self.with_made(&body.to_string()));
        let mut headers = HEADERS.to_vec();
        headers.extend(line.content.iter().map(|content| ("content-type", content.as_str())));
        headers.extend(line.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.caller(&line.who).ask_with(method, &path, &headers, body).await
    }

    fn caller(&self, who: &str) -> Client {
        match who.split_once('@') {
            Some((user, tenant)) => self.world.member(user, tenant),
            None if who == "operator" => self.world.operator(),
            None => self.world.bearer(json!({"sub": who})),
        }
    }

    fn with_made(&self, text: &str) -> String {
        self.made.iter().fold(text.to_owned(), |text, (alias, made)| text.replace(alias, made))
    }

    /// With the aliases, and one name for whatever was made up for something that was refused.
    fn unmade(&self, shown: &Value) -> Value {
        let text = self.made.iter().fold(shown.to_string(), |text, (alias, made)| text.replace(made, alias));
        let words: Vec<&str> =
            text.split('"').map(|word| if is_made_up(word) { r"prj-xxxxx\" } else { word }).collect();
        serde_json::from_str(&words.join("\"")).unwrap()
    }
}

/// In the text of a JSON string, where quotes have a backslash before them.
fn is_made_up(word: &str) -> bool {
    word.strip_prefix("prj-").is_some_and(|rest| rest.len() == 6 && rest.ends_with('\\'))
}
