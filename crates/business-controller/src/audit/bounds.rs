//! How many are looked at at a time, and how long one may take.

use std::time::Duration;

/// Clusters at a time, and namespaces of each: one that takes its time keeps no other waiting.
pub(super) const PARALLEL: usize = 8;
/// A cluster that has not shown all that it has within this time, or cannot be judged within it, was not compared. Each of its
/// answers may come in time, and there may be no end of them.
pub(super) const CLUSTER_MAX: Duration = Duration::from_mins(2);
/// Why it was not.
pub(super) const NO_ANSWER: &str = "no answer in time";
