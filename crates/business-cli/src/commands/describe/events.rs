use crate::api::Api;
use crate::failure::Failure;
use crate::paths::escape_segment;
use crate::screen::{Cell, Screen, Table, Tone, left, sanitize};
use business_types::names;
use jiff::Timestamp;
use serde::Deserialize;
use std::fmt::Write as _;
use std::time::Duration;

/// Limit of the events in a description.
const EVENTS_MAX: usize = 10;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The object that events are about.
#[derive(Clone, Debug)]
pub(super) struct EventTarget<'a> {
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    /// Its project; empty for an object without one.
    pub(super) project: &'a str,
    pub(super) uid: &'a str,
}

/// The recent events of an object.
#[derive(Debug)]
pub(super) enum Events {
    /// The newest first.
    Listed(Vec<RecordedEvent>),
    /// The events cannot be listed, and why.
    Unavailable(String),
}

/// An event of the host cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RecordedEvent {
    #[serde(rename = "type")]
    level: String,
    reason: String,
    message: String,
    metadata: EventMetadata,
    event_time: Option<Timestamp>,
    first_timestamp: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    series: Option<EventSeries>,
    involved_object: InvolvedObject,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventMetadata {
    creation_timestamp: Option<Timestamp>,
}

/// The repetitions of an event.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventSeries {
    last_observed_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct InvolvedObject {
    /// Empty for events of a cluster that had no object yet.
    uid: String,
}

impl Events {
    /// Lists the events in the host cluster. A failure does not prevent the description.
    pub(super) async fn list(api: &Api, target: &EventTarget<'_>) -> Self {
        match api.list::<RecordedEvent>(&target.path()).await {
            Ok(events) => Self::Listed(target.latest(events)),
            Err(failure) => Self::Unavailable(why_unavailable(&failure)),
        }
    }

    /// The section of the description.
    pub(super) fn render(&self, screen: Screen, now: Timestamp) -> String {
        let events = match self {
            Self::Listed(events) if events.is_empty() => return "  none is kept\n".to_owned(),
            Self::Listed(events) => events,
            Self::Unavailable(why) => {
                return format!("  {}\n", screen.hanging(&format!("not shown: {}", sanitize(why)), 2));
            }
        };
        let mut table = Table::new(&[left("AGE"), left("TYPE"), left("REASON"), left("MESSAGE")]);
        for event in events.iter().take(EVENTS_MAX) {
            let tone = if event.level == "Normal" { Tone::Plain } else { Tone::High };
            table.row([
                Cell::from(event.last_seen().map_or_else(|| "?".to_owned(), |at| age(at, now))),
                Cell::toned(tone, event.level.as_str()),
                event.reason.as_str().into(),
                event.message.as_str().into(),
            ]);
        }
        let mut text = table.render(screen, "  ");
        let older = events.len().saturating_sub(EVENTS_MAX);
        if older > 0 {
            let _infallible = writeln!(text, "  and {older} older ones");
        }
        text
    }
}

impl RecordedEvent {
    /// When it last happened. Recorders fill different fields; the order is kubectl's.
    fn last_seen(&self) -> Option<Timestamp> {
        let repeated = self.series.as_ref().and_then(|series| series.last_observed_time);
        repeated
            .or(self.last_timestamp)
            .or(self.event_time)
            .or(self.first_timestamp)
            .or(self.metadata.creation_timestamp)
    }
}

impl EventTarget<'_> {
    fn path(&self) -> String {
        let Self { kind, name, project, .. } = self;
        let mut selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
        if !project.is_empty() {
            selector = format!("{selector},involvedObject.namespace={project}");
        }
        format!(
            "/api/v1/namespaces/{}/events?fieldSelector={}",
            names::EVENTS_NAMESPACE,
            escape_segment(&selector)
        )
    }

    /// The events of this object, not of an earlier one of the same name; the newest first.
    fn latest(&self, mut events: Vec<RecordedEvent>) -> Vec<RecordedEvent> {
        events.retain(|event| ["", self.uid].contains(&event.involved_object.uid.as_str()));
        events.sort_by_key(|event| std::cmp::Reverse(event.last_seen()));
        events
    }
}

fn why_unavailable(failure: &Failure) -> String {
    if failure.is_forbidden() {
        return format!(
            "they lie in the namespace {} of the host cluster: it takes the right to list events there, which no role of the \
             platform gives",
            names::EVENTS_NAMESPACE
        );
    }
    if failure.is_not_found() {
        return "this server keeps none: the host cluster's kube-apiserver does, and serves all the rest, too".to_owned();
    }
    failure.to_string()
}

/// How long ago: `90s`, `12m`, `3h`, `2d`.
fn age(then: Timestamp, now: Timestamp) -> String {
    let passed = Duration::try_from(now.duration_since(then)).unwrap_or_default().as_secs();
    let (unit, letter) = match passed {
        0..120 => (1, 's'),
        120..7200 => (MINUTE, 'm'),
        7200..172_800 => (HOUR, 'h'),
        172_800.. => (DAY, 'd'),
    };
    format!("{}{letter}", passed / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: &str = "2026-01-02T12:00:00Z";

    fn event(uid: &str, at: &str, level: &str, message: &str) -> RecordedEvent {
        serde_json::from_value(json!({
            "type": level, "reason": "Told", "message": message, "eventTime": at, "lastTimestamp": null,
            "involvedObject": {"kind": "Project", "name": "web", "uid": uid},
        }))
        .unwrap()
    }

    fn target() -> EventTarget<'static> {
        EventTarget { kind: "Namespace", name: "east-a", project: "web", uid: "1" }
    }

    #[test]
    fn events_of_this_object_are_told_the_last_one_first() {
        let events = target().latest(vec![
            event("1", "2026-01-02T11:00:00.000001Z", "Normal", "made"),
            event("2", "2026-01-02T11:59:00Z", "Normal", "of another one"),
            event("1", "2026-01-02T11:59:30Z", "Warning", "broken\nin \x1b[2Jtwo"),
        ]);
        let shown = Events::Listed(events).render(Screen::plain(true), NOW.parse().unwrap());
        let expected = "  AGE  TYPE     REASON  MESSAGE\n  30s  Warning  Told    broken in \u{fffd}[2Jtwo\n  59m  Normal   Told    made\n";
        assert_eq!(shown, expected);
        let many = (0..12).map(|_| event("1", NOW, "Normal", "x")).collect();
        let shown = Events::Listed(many).render(Screen::plain(true), NOW.parse().unwrap());
        assert!(shown.ends_with("  and 2 older ones\n"), "{shown}");
    }

    #[test]
    fn the_age_of_an_event_is_that_of_its_last_occurrence() {
        let at = |minute: u8| format!("2026-01-02T11:{minute}:00Z");
        let fields = [
            json!({"metadata": {"creationTimestamp": at(10)}}),
            json!({"metadata": {"creationTimestamp": at(50)}, "firstTimestamp": at(20)}),
            json!({"firstTimestamp": at(50), "eventTime": at(30)}),
            json!({"eventTime": at(10), "lastTimestamp": at(40)}),
            json!({"lastTimestamp": at(10), "series": {"count": 2, "lastObservedTime": at(45)}}),
        ];
        let events = fields.map(|event| serde_json::from_value::<RecordedEvent>(event).unwrap()).to_vec();
        let shown = Events::Listed(target().latest(events)).render(Screen::plain(true), NOW.parse().unwrap());
        let ages: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(ages, ["AGE", "15m", "20m", "30m", "40m", "50m"], "{shown}");
    }

    #[test]
    fn what_hides_them_is_told() {
        let shown = |events: Events| events.render(Screen::plain(true), NOW.parse().unwrap());
        assert_eq!(shown(Events::Listed(Vec::new())), "  none is kept\n");
        let unreachable = Failure::Unreachable { server: "https://s".into(), why: "refused".into() };
        assert!(
            shown(Events::Unavailable(why_unavailable(&unreachable)))
                .contains("not shown: https://s cannot be reached")
        );
    }

    #[test]
    fn an_object_is_named_whole() {
        let path = target().path();
        assert!(path.contains("involvedObject.namespace%3Dweb") && !path.contains(' '), "{path}");
    }
}
