use request::{Ending, WithIds};
use tracing::{Dispatch, dispatcher};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Log lines of requests.
mod request;

pub use request::{RequestIds, in_request};

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Text for a person.
    Text,
}

impl std::str::FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            other => Err(format!("log format is json or text, not {other}")),
        }
    }
}

/// Sets up logging to standard error. `filter` is a `tracing` directive list such as `info,store=debug`.
/// A second call in one process changes nothing.
pub fn init(format: LogFormat, filter: &str) {
    if let Err(error) = dispatcher::set_global_default(dispatch(format, filter, std::io::stderr)) {
        tracing::debug!(%error, "logging was set up before");
    }
}

fn dispatch<W>(format: LogFormat, filter: &str, writer: W) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_writer(writer).with_env_filter(filter);
    match format {
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true);
            Dispatch::new(builder.map_event_format(|inner| WithIds { inner, ending: Ending::Json }).finish())
        }
        LogFormat::Text => {
            let builder = builder.with_ansi(false);
            Dispatch::new(builder.map_event_format(|inner| WithIds { inner, ending: Ending::Text }).finish())
        }
    }
}
