//! Limits of one audit.

use std::time::Duration;

/// How many clusters, and namespaces of each, are processed at a time: one that is slow does not delay others.
pub(super) const PARALLEL: usize = 8;
/// A cluster whose scan or judgement takes longer counts as not compared. Each of its answers may come in time, and
/// there may be no end of them.
pub(super) const CLUSTER_MAX: Duration = Duration::from_mins(2);
/// The reason that is reported then.
pub(super) const NO_ANSWER: &str = "no answer in time";
