use crate::cluster::{Cluster, selects};
use crate::request::{Query, Target};
use crate::state::Change;
use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body_util::BodyExt as _;
use http_body_util::StreamBody;
use hyper::body::Frame;
use meta::object::Object;
use meta::status::Status;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A watch goes on for so long unless it is asked for less.
const LONGEST: Duration = Duration::from_mins(10);
/// Between two bookmarks.
const BOOKMARK: Duration = Duration::from_secs(30);

/// Whether objects are asked for, or only their metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    Metadata,
}

impl Form {
    /// What `Accept` asks for.
    pub fn of(accept: &str) -> Self {
        if accept.contains("as=PartialObjectMetadata") { Self::Metadata } else { Self::Whole }
    }

    /// An object in this form.
    pub fn object(self, object: &Object) -> Value {
        match self {
            Self::Whole => object.clone().into_value(),
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object.get(&["metadata"]),
            }),
        }
    }

    /// A list in this form.
    pub fn list(self, target: &Target, revision: u64, objects: &[Arc<Object>]) -> Value {
        let (kind, version) = match self {
            Self::Whole => (format!("{}List", target.kind.name()), target.kind.gvk().api_version()),
            Self::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        };
        let items: Vec<Value> = objects.iter().map(|object| self.object(object)).collect();
        let metadata = json!({"resourceVersion": revision.to_string()});
        json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items})
    }
}

/// One watch.
pub struct WatchStream {
    cluster: Arc<Cluster>,
    target: Target,
    query: Query,
    form: Form,
    /// The revision that was told last; none before everything that is there was told.
    sent_revision: Option<u64>,
    newest: watch::Receiver<u64>,
    bookmark: Instant,
    end: Instant,
    ended: bool,
}

impl std::fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStream").field("target", &self.target).finish_non_exhaustive()
    }
}

impl WatchStream {
    /// From the revision that the query names, or from what is there. 410 when history does not go back so far.
    pub fn new(cluster: &Arc<Cluster>, target: Target, query: Query, form: Form) -> Result<Self, Status> {
        let sent_revision = query.resource_version.filter(|revision| *revision > 0);
        if sent_revision.is_some_and(|revision| cluster.since(revision, &target).is_none()) {
            return Err(expired());
        }
        let now = Instant::now();
        let end = now + query.watch_timeout.unwrap_or(LONGEST).min(LONGEST);
        let newest = cluster.newest();
        let cluster = Arc::clone(cluster);
        Ok(Self {
            cluster,
            target,
            query,
            form,
            sent_revision,
            newest,
            bookmark: now + BOOKMARK,
            end,
            ended: false,
        })
    }

    /// Its events, a line each.
    pub fn body(self) -> http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible> {
        StreamBody::new(self.stream()).boxed_unsync()
    }

    fn stream(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        stream::unfold(self, |mut this| async move {
            let lines = this.next().await?;
            Some((Ok(Frame::data(Bytes::from(lines))), this))
        })
    }

    async fn next(&mut self) -> Option<String> {
        while !self.ended {
            self.newest.borrow_and_update();
            let lines = self.new_events();
            if !lines.is_empty() {
                return Some(lines);
            }
            tokio::select! {
                changed = self.newest.changed() => self.ended = changed.is_err(),
                () = tokio::time::sleep_until(self.end) => self.ended = true,
                () = tokio::time::sleep_until(self.bookmark), if self.query.bookmarks => {
                    self.bookmark = Instant::now() + BOOKMARK;
                    return Some(self.mark());
                }
            }
        }
        None
    }

    fn new_events(&mut self) -> String {
        let Some(sent_revision) = self.sent_revision else {
            let (revision, objects) = self.cluster.list(&self.target, &self.query);
            self.sent_revision = Some(revision);
            return objects.iter().map(|object| self.line("ADDED", object)).collect();
        };
        let Some((revision, changes)) = self.cluster.since(sent_revision, &self.target) else {
            self.ended = true;
            let event = json!({"type": "ERROR", "object": expired()});
            return format!("{event}\n");
        };
        self.sent_revision = Some(revision);
        changes.iter().filter_map(|change| self.event(change)).collect()
    }

    fn event(&self, change: &Change) -> Option<String> {
        let [before, after] = [&change.before, &change.after]
            .map(|object| object.as_ref().is_some_and(|object| selects(&self.query, object)));
        let what = match (before, after) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        Some(self.line(what, &change.last))
    }

    fn line(&self, what: &str, object: &Object) -> String {
        format!("{}\n", json!({"type": what, "object": self.form.object(object)}))
    }

    fn mark(&self) -> String {
        let mut mark = Object::default();
        mark.set(&["kind"], self.target.kind.name().into());
        mark.set(&["apiVersion"], self.target.kind.gvk().api_version().into());
        let revision = self.sent_revision.unwrap_or_default().to_string();
        mark.set(&["metadata", "resourceVersion"], revision.into());
        self.line("BOOKMARK", &mark)
    }
}

fn expired() -> Status {
    Status::expired("too old resource version")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Operation;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn an_object_that_loses_its_label_is_gone_for_whoever_selects_by_it() {
        let cluster = Arc::new(Cluster::new("one"));
        let all = Target::of("/api/v1/namespaces").unwrap();
        let revision = cluster.list(&all, &query("")).0;
        let watch = query(&format!("watch=1&labelSelector=ours&resourceVersion={revision}"));
        let mut follower = WatchStream::new(&cluster, all.clone(), watch, Form::Whole).unwrap();
        let write = |act: &Operation, path: &str, body: Value| {
            let target = Target::of(path).unwrap();
            cluster.write(&target, act, &query(""), &Bytes::from(body.to_string())).unwrap();
        };
        write(&Operation::Create, "/api/v1/namespaces", json!({"metadata": {"name": "other"}}));
        write(
            &Operation::Create,
            "/api/v1/namespaces",
            json!({"metadata": {"name": "a", "labels": {"ours": ""}}}),
        );
        write(&Operation::Merge, "/api/v1/namespaces/a", json!({"metadata": {"annotations": {"b": "c"}}}));
        write(&Operation::Merge, "/api/v1/namespaces/a", json!({"metadata": {"labels": {"ours": null}}}));
        let lines = follower.next().await.unwrap();
        let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["ADDED", "MODIFIED", "DELETED"]);
        assert!(events.iter().all(|event| event["object"]["metadata"]["name"] == "a"));
    }
}
