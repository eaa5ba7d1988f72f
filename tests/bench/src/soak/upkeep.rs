use crate::process;
use anyhow::Result;
use std::collections::BTreeMap;

/// The metrics that are looked at, and what a person calls them.
pub(super) const METRICS: [(&str, &str); 4] = [
    ("process_resident_memory_bytes", "memory, MB"),
    ("process_open_fds", "open files"),
    ("process_threads", "threads"),
    ("process_tasks", "tasks"),
];
/// What memory follows: where these grow, the traffic leaves more behind than is cleared away.
const STOCK: [(&str, &str); 1] = [("store_cache_objects", "objects")];

/// Resource usage of the programs, sample by sample.
#[derive(Debug, Default)]
pub(super) struct ResourceUsage(BTreeMap<(String, &'static str), Vec<f64>>);

/// A value after the warm-up, and at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drift {
    pub(super) early: f64,
    pub(super) late: f64,
}

impl ResourceUsage {
    /// Looks at every running program with one of these names.
    pub(super) async fn look(&mut self, programs: &[&str]) -> Result<()> {
        for admin in process::admin_ports(programs)? {
            // One that is just being started has nothing to tell yet.
            let Ok(text) = process::metrics(admin.port).await else { continue };
            for (metric, name) in METRICS.into_iter().chain(STOCK) {
                let number =
                    text.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse::<f64>().ok());
                if let Some(number) = number {
                    let scaled = if metric.ends_with("_bytes") { number / 1e6 } else { number };
                    self.0
                        .entry((format!("{} {}", admin.program, admin.port), name))
                        .or_default()
                        .push(scaled);
                }
            }
        }
        Ok(())
    }

    /// The memory of each program now, and what it follows.
    pub(super) fn told(&self) -> String {
        let [(_, memory), ..] = METRICS;
        let [(_, objects)] = STOCK;
        let shown = self.0.iter().filter(|((_, name), _)| [memory, objects].contains(name));
        let told = shown.filter_map(|((program, name), looks)| {
            let now = looks.last()?;
            Some(format!("{program} {name} {now:.0}"))
        });
        told.collect::<Vec<_>>().join("; ")
    }

    /// Means of the second and of the last fifth of all looks, by program and quantity.
    pub(super) fn drifts(&self) -> BTreeMap<String, Drift> {
        let mean = |part: &[f64]| {
            #[expect(clippy::cast_precision_loss, reason = "a count of looks")]
            let count = part.len().max(1) as f64;
            part.iter().sum::<f64>() / count
        };
        let drift = |looks: &Vec<f64>| {
            let fifth = (looks.len() / 5).max(1);
            let early = looks.get(fifth..(2 * fifth).min(looks.len())).unwrap_or(looks);
            Drift { early: mean(early), late: mean(looks.get(looks.len() - fifth..).unwrap_or(looks)) }
        };
        self.0.iter().map(|((program, name), looks)| (format!("{program}: {name}"), drift(looks))).collect()
    }
}
