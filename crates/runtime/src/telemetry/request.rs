//! The ids of a request in each line that is logged while it is answered. They are formatted only for such a line; a
//! `tracing` span formats its fields when it begins, for every request.

use std::fmt;
use std::sync::Arc;
use tokio::task::futures::TaskLocalFuture;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

tokio::task_local! {
    static CURRENT: RequestIds;
}

/// What identifies a request in logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestIds {
    /// The header `Audit-Id`, which kube-apiserver's audit log has, too.
    pub audit_id: Arc<str>,
    /// The id of its trace, if it is traced.
    pub trace_id: Option<String>,
}

/// Runs the future of a request. Lines that are logged meanwhile have its ids.
pub fn in_request<F: Future>(ids: RequestIds, future: F) -> TaskLocalFuture<RequestIds, F> {
    CURRENT.scope(ids, future)
}

/// How ids stand at the end of a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// ` key="value"`
    Text,
    /// `,"key":"value"}`
    Json,
}

/// Formats lines as `inner` does, with the ids of the current request at their end.
#[derive(Debug)]
pub(super) struct WithIds<F> {
    pub(super) inner: F,
    pub(super) ending: Ending,
}

impl<S, N, F> FormatEvent<S, N> for WithIds<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Ok(ids) = CURRENT.try_with(RequestIds::clone) else {
            return self.inner.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        let end = match self.ending {
            Ending::Text => "\n",
            Ending::Json => "}\n",
        };
        writer.write_str(line.strip_suffix(end).unwrap_or(&line))?;
        for (key, value) in [("audit_id", Some(&*ids.audit_id)), ("trace_id", ids.trace_id.as_deref())] {
            // An event may have the field itself.
            let Some(value) = value.filter(|_| event.metadata().fields().field(key).is_none()) else {
                continue;
            };
            match self.ending {
                Ending::Text => write!(writer, " {key}={value:?}")?,
                Ending::Json => write!(writer, ",\"{key}\":{}", serde_json::Value::from(value))?,
            }
        }
        writer.write_str(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{LogFormat, dispatch};
    use serde_json::Value;
    use std::io;
    use std::sync::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Log {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// The lines of a request, and of what comes after it.
    async fn logged(format: LogFormat) -> Vec<String> {
        let log = Log::default();
        let guard = tracing::dispatcher::set_default(&dispatch(format, "info", log.clone()));
        let ids = RequestIds { audit_id: "a\"b".into(), trace_id: Some("0f".to_owned()) };
        let request = async {
            tracing::warn!(count = 3, "within");
            tokio::task::yield_now().await;
            tracing::warn!(audit_id = "own", "with its own");
        };
        in_request(ids, request).await;
        tracing::warn!("after");
        drop(guard);
        let bytes = log.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn lines_of_a_request_have_its_ids_and_others_have_none() {
        let lines = logged(LogFormat::Text).await;
        assert!(lines[0].ends_with(r#": within count=3 audit_id="a\"b" trace_id="0f""#), "{lines:?}");
        assert!(lines[1].ends_with(r#": with its own audit_id="own" trace_id="0f""#), "{lines:?}");
        assert!(lines[2].ends_with(": after"), "{lines:?}");

        let lines = logged(LogFormat::Json).await;
        let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ids = |line: &Value| [line["audit_id"].clone(), line["trace_id"].clone()];
        assert_eq!((&lines[0]["message"], &lines[0]["count"]), (&"within".into(), &3.into()));
        assert_eq!(ids(&lines[0]), ["a\"b", "0f"]);
        assert_eq!(ids(&lines[1]), ["own", "0f"]);
        assert_eq!(ids(&lines[2]), [Value::Null, Value::Null]);
    }
}
