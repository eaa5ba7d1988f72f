//! Metrics of the process from the kernel and the async runtime, under the names that Prometheus clients use.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;
use std::fs::read_to_string;

/// Clock ticks per second in `/proc`, on all architectures that we build for.
const TICKS: f64 = 100.0;
/// The unit of memory in `/proc/self/status`.
const KIBIBYTE: u64 = 1024;

/// Reads `/proc` at each scrape. Values that are not available are left out.
#[derive(Debug)]
pub(crate) struct ProcessCollector;

/// Fields of `/proc/self/stat` after the program's name.
struct Stat {
    cpu_seconds: f64,
    /// When the process started, in seconds since boot.
    start_seconds: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        let text = read_to_string("/proc/self/stat").ok()?;
        // The program's name may contain spaces and parentheses.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<f64>().ok();
        Some(Self { cpu_seconds: (number(11)? + number(12)?) / TICKS, start_seconds: number(19)? / TICKS })
    }
}

/// The number after a name at the start of a line of a file.
fn read_number(file: &str, name: &str) -> Option<u64> {
    let text = read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn encode_metric(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    metric: Option<impl EncodeMetric>,
) -> fmt::Result {
    let Some(metric) = metric else { return Ok(()) };
    metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauge = |number: Option<u64>| {
            number.and_then(|number| Some(ConstGauge::new(i64::try_from(number).ok()?)))
        };
        let kibibytes = |name| gauge(read_number("/proc/self/status", name).map(|number| number * KIBIBYTE));
        let (stat, booted) = (Stat::read(), read_number("/proc/stat", "btime"));
        let cpu = stat.as_ref().map(|stat| ConstCounter::new(stat.cpu_seconds));
        #[expect(clippy::cast_precision_loss, reason = "a date")]
        let start =
            stat.zip(booted).map(|(stat, booted)| ConstGauge::new(booted as f64 + stat.start_seconds));
        let files =
            std::fs::read_dir("/proc/self/fd").ok().and_then(|files| u64::try_from(files.count()).ok());
        let tasks = tokio::runtime::Handle::try_current()
            .ok()
            .and_then(|handle| u64::try_from(handle.metrics().num_alive_tasks()).ok());
        let encoder = &mut encoder;
        encode_metric(encoder, "process_cpu", "CPU time of the process", Some(&Unit::Seconds), cpu)?;
        encode_metric(
            encoder,
            "process_start_time",
            "When it started, since 1970",
            Some(&Unit::Seconds),
            start,
        )?;
        encode_metric(
            encoder,
            "process_resident_memory",
            "Resident memory",
            Some(&Unit::Bytes),
            kibibytes("VmRSS:"),
        )?;
        encode_metric(
            encoder,
            "process_virtual_memory",
            "Virtual memory",
            Some(&Unit::Bytes),
            kibibytes("VmSize:"),
        )?;
        encode_metric(encoder, "process_open_fds", "Open files and sockets", None, gauge(files))?;
        let files_max = read_number("/proc/self/limits", "Max open files");
        encode_metric(encoder, "process_max_fds", "How many of them there may be", None, gauge(files_max))?;
        encode_metric(
            encoder,
            "process_threads",
            "Threads",
            None,
            gauge(read_number("/proc/self/status", "Threads:")),
        )?;
        encode_metric(
            encoder,
            "process_tasks",
            "Tasks of the async runtime that have not ended",
            None,
            gauge(tasks),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::Metrics;

    #[tokio::test]
    async fn a_process_tells_what_it_takes() {
        let text = Metrics::of_process().encode();
        let number = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} is missing:\n{text}")).parse().unwrap()
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - number("process_start_time_seconds");
        assert!((-2.0..3600.0).contains(&age), "{age}");
        assert!(number("process_resident_memory_bytes") > 1e6);
        assert!(number("process_virtual_memory_bytes") >= number("process_resident_memory_bytes"));
        assert!(number("process_open_fds") >= 3.0 && number("process_max_fds") >= number("process_open_fds"));
        assert!(number("process_threads") >= 1.0 && number("process_cpu_seconds_total") >= 0.0);
        let idle = number("process_tasks");
        let waiting = tokio::spawn(std::future::pending::<()>());
        assert!(Metrics::of_process().encode().contains(&format!("process_tasks {}", idle + 1.0)));
        waiting.abort();
    }
}
