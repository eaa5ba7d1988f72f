//! What stands in the files of recorded answers.

use serde::Deserialize;
use serde_json::Value;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) request: String,
    /// `user@tenant`; an operator where absent.
    #[serde(default)]
    pub(super) who: String,
    #[serde(rename = "type")]
    pub(super) content: Option<String>,
    pub(super) accept: Option<String>,
    pub(super) send: Option<Value>,
    /// The `resourceVersion` that is sent.
    pub(super) version: Option<Version>,
    /// What later requests call an object whose name was made up.
    pub(super) alias: Option<String>,
    #[serde(default)]
    pub(super) code: u16,
    pub(super) answer: Option<Value>,
    /// Which part of the answer was recorded: a pointer, or pointers by name.
    pub(super) take: Option<Value>,
    /// Lines of a text that was recorded in parts.
    pub(super) contains: Option<Vec<String>>,
    /// Why it cannot be asked.
    pub(super) left_out: Option<String>,
    /// The test that shows what cannot be asked.
    pub(super) shown_by: Option<Shown>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Version {
    /// That of the object as it is.
    Fresh,
    /// One that the object had.
    Stale,
}

/// A test or a step of acceptance.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shown {
    file: String,
    test: String,
}

pub(super) fn lines(group: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(format!("{RECORDED}/{group}.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Line {
    /// What cannot be asked says why, and what is shown elsewhere is there.
    pub(super) fn check_left_out(&self, name: &str) {
        assert!(self.left_out.as_ref().is_some_and(|why| !why.is_empty()), "{name}");
        let Some(Shown { file, test }) = &self.shown_by else { return };
        let text = std::fs::read_to_string(format!("{REPOSITORY}/{file}"));
        assert!(text.is_ok_and(|text| text.contains(&format!("fn {test}("))), "{name}: {file} has no {test}");
    }
}
