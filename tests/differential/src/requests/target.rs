//! What is asked: a kind of ours and its twin.

use super::plan::Request;
use serde_json::{Value, json};

/// A kind that stands on both sides.
#[derive(Clone, Debug)]
pub(crate) struct TargetKind {
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    /// Group here and there.
    pub(crate) groups: [&'static str; 2],
    pub(crate) namespaced: bool,
    /// Whether deletions can be compared: our kinds wait for their controller, which is not there.
    pub(crate) deletes: bool,
    /// Whether a garbage collector is at work.
    pub(crate) collected: bool,
    /// Properties of `spec` as its JSON schema has them, for bodies.
    pub(crate) spec: Value,
}

impl TargetKind {
    /// Path of the collection.
    pub(crate) fn collection(&self) -> String {
        let namespace = if self.namespaced { "namespaces/<<ns>>/" } else { "" };
        format!("/apis/<<G>>/v1/{namespace}{}", self.plural)
    }

    /// Path of an object.
    pub(crate) fn object(&self, name: &str) -> String {
        format!("{}/<<name:{name}>>", self.collection())
    }

    /// Keeps a request for a collection within the case: a namespace of its own does, or a label.
    pub(crate) fn confine(&self, mut request: Request) -> Request {
        if self.namespaced {
            return request;
        }
        match request.query.iter_mut().find(|(name, _)| *name == "labelSelector") {
            Some((_, selector)) => *selector = format!("case=<<case>>,{selector}"),
            None => request.query.push(("labelSelector", "case=<<case>>".to_owned())),
        }
        request
    }

    /// Labels that every object of a case has.
    pub(crate) fn labels(&self) -> Value {
        if self.namespaced { json!({}) } else { json!({"case": "<<case>>"}) }
    }
}
