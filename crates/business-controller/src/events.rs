//! Kubernetes events, at a bounded rate. They are informational: losing one has no effect.

use crate::kinds::{Kind, ObjectKey as _, View};
use business_types::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use prometheus_client::metrics::counter::Counter;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The reporting controller.
const CONTROLLER: &str = "business.tkestack.io/controller";
/// How many events may wait to be sent; more are dropped.
const WAITING_MAX: usize = 1024;
/// How many events may be sent at once after a quiet time.
const BURST: f64 = 50.0;
/// Events per second in the long run.
const RATE: f64 = 5.0;
/// The same event of the same object is sent at most this often.
const REPEAT_AFTER: Duration = Duration::from_mins(10);
/// How many events are remembered for that.
const REMEMBERED_MAX: usize = 4096;
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(5);
/// Kubernetes' own limit of a note.
const NOTE_BYTES_MAX: usize = 1024;

/// The type of an event. Normal ones are dropped first when many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Normal,
    Warning,
}

/// The reason and action of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    level: Level,
    reason: &'static str,
    action: &'static str,
}

impl Topic {
    /// An event of type Normal.
    pub const fn normal(reason: &'static str, action: &'static str) -> Self {
        Self { level: Level::Normal, reason, action }
    }

    /// An event of type Warning.
    pub const fn warning(reason: &'static str, action: &'static str) -> Self {
        Self { level: Level::Warning, reason, action }
    }
}

/// One event to send.
#[derive(Debug)]
struct EventReport {
    regarding: ObjectReference,
    topic: Topic,
    note: String,
}

/// Queues events to be sent.
#[derive(Clone, Debug)]
pub struct Recorder {
    sender: mpsc::Sender<EventReport>,
    dropped: Counter,
}

/// Sends the queued events.
#[derive(Debug)]
pub struct Sender {
    reports: mpsc::Receiver<EventReport>,
    api: Api<Event>,
    instance: String,
    dropped: Counter,
    tokens: f64,
    filled: Instant,
    sent: HashMap<Said, Instant>,
}

/// What identifies a repeated event.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Said {
    uid: String,
    /// A member cluster without an object has no uid.
    name: String,
    reason: &'static str,
    note: String,
}

/// A recorder and its sender. `instance` is the name of this process.
pub fn channel(client: kube::Client, instance: &str, dropped: Counter) -> (Recorder, Sender) {
    let (sender, reports) = mpsc::channel(WAITING_MAX);
    let recorder = Recorder { sender, dropped: dropped.clone() };
    let sender = Sender {
        reports,
        api: Api::namespaced(client, names::EVENTS_NAMESPACE),
        instance: instance.to_owned(),
        dropped,
        tokens: BURST,
        filled: Instant::now(),
        sent: HashMap::new(),
    };
    (recorder, sender)
}

impl Recorder {
    /// Reports something about one of our objects.
    pub fn report<K: Kind>(&self, object: &View<K>, topic: Topic, note: String) {
        let regarding = ObjectReference {
            api_version: Some(names::API_VERSION.to_owned()),
            kind: Some(K::KIND.to_owned()),
            namespace: object.key.namespace().map(str::to_owned),
            name: Some(object.key.name().to_owned()),
            uid: Some(object.uid.clone()),
            ..ObjectReference::default()
        };
        self.take(EventReport { regarding, topic, note });
    }

    /// Reports something about a member cluster without an object.
    pub fn report_cluster(&self, cluster: &str, topic: Topic, note: String) {
        let regarding = ObjectReference {
            api_version: Some(names::API_VERSION.to_owned()),
            kind: Some(names::MEMBER_CLUSTER_KIND.to_owned()),
            name: Some(cluster.to_owned()),
            ..ObjectReference::default()
        };
        self.take(EventReport { regarding, topic, note });
    }

    fn take(&self, report: EventReport) {
        if self.sender.try_send(report).is_err() {
            self.dropped.inc();
        }
    }
}

impl Sender {
    /// Sends until the recorders are gone.
    pub async fn run(mut self) {
        while let Some(report) = self.reports.recv().await {
            if !self.is_due(&report) {
                continue;
            }
            let call = self.send(report);
            match tokio::time::timeout(DEADLINE, call).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(error = crate::error::chain(&error), "cannot send an event");
                }
                Err(_elapsed) => tracing::debug!("an event was not taken in time"),
            }
        }
    }

    /// Whether an event may be sent: the rate allows it, and the same one was not sent shortly before.
    fn is_due(&mut self, report: &EventReport) -> bool {
        let now = Instant::now();
        self.tokens = (self.tokens + now.duration_since(self.filled).as_secs_f64() * RATE).min(BURST);
        self.filled = now;
        let ObjectReference { uid, name, .. } = report.regarding.clone();
        let (uid, name) = (uid.unwrap_or_default(), name.unwrap_or_default());
        let said = Said { uid, name, reason: report.topic.reason, note: report.note.clone() };
        let repeated = self.sent.get(&said).is_some_and(|at| now.duration_since(*at) < REPEAT_AFTER);
        if repeated {
            return false;
        }
        // Half of the burst is reserved for warnings.
        let floor = if report.topic.level == Level::Normal { BURST / 2.0 } else { 1.0 };
        if self.tokens < floor {
            self.dropped.inc();
            return false;
        }
        self.tokens -= 1.0;
        if self.sent.len() >= REMEMBERED_MAX {
            self.sent.retain(|_, at| now.duration_since(*at) < REPEAT_AFTER);
            if self.sent.len() >= REMEMBERED_MAX {
                self.sent.clear();
            }
        }
        self.sent.insert(said, now);
        true
    }

    async fn send(&self, report: EventReport) -> Result<(), kube::Error> {
        let name = report.regarding.name.clone().unwrap_or_default();
        let mut note = report.note;
        note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX));
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", name, uuid::Uuid::new_v4().simple())),
                namespace: Some(names::EVENTS_NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(Timestamp::now())),
            action: Some(report.topic.action.to_owned()),
            reason: Some(report.topic.reason.to_owned()),
            note: Some(note),
            regarding: Some(report.regarding),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if report.topic.level == Level::Normal { "Normal" } else { "Warning" }.to_owned()),
            ..Event::default()
        };
        self.api.create(&PostParams::default(), &event).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::server::Server;

    const ROTATED: Topic = Topic::normal("CredentialsRotated", "Rotate");

    #[tokio::test]
    async fn what_two_clusters_have_in_common_is_told_of_both_and_of_each_once() {
        let (recorder, mut sender) = channel(Server::default().client(), "test", Counter::default());
        for cluster in ["c1", "c2", "c1"] {
            recorder.report_cluster(cluster, ROTATED, "the new credentials are in use".to_owned());
        }
        let mut due = Vec::new();
        while let Ok(report) = sender.reports.try_recv() {
            due.push(sender.is_due(&report));
        }
        assert_eq!(due, [true, true, false]);
    }
}
