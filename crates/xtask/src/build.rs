//! What has to be built before anything runs: programs by cargo, the control plane and the registry by Go, beside each other.

/// Programs of this workspace.
mod rust;

use crate::control_plane::ControlPlane;
use crate::tool::Tool;
use crate::{go, registry};
use anyhow::{Error, Result};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use terminal::say;

pub(crate) use rust::Programs;

const TICK: Duration = Duration::from_secs(1);

/// One thing to be built.
enum Job<'a> {
    Programs(&'a [Programs], Tool),
    ControlPlane(&'a ControlPlane, Tool),
    Registry(Tool),
}

impl Job<'_> {
    fn tool(&self) -> &Tool {
        match self {
            Self::Programs(_, tool) | Self::ControlPlane(_, tool) | Self::Registry(tool) => tool,
        }
    }

    /// The step that people are told.
    fn step(&self) -> &'static str {
        match self {
            Self::Programs(..) => "programs built",
            Self::ControlPlane(..) => "control plane built",
            Self::Registry(_) => "registry built",
        }
    }

    fn run(&self) -> Result<()> {
        match self {
            Self::Programs(programs, tool) => programs.iter().try_for_each(|some| rust::build(some, tool)),
            Self::ControlPlane(plane, tool) => go::build(&plane.module()?, tool),
            Self::Registry(tool) => go::build(&registry::module()?, tool),
        }
    }

    /// Whether everything goes on without it.
    fn is_optional(&self) -> bool {
        matches!(self, Self::Registry(_))
    }
}

/// How a job has ended.
struct Ended {
    job: usize,
    took: Duration,
    outcome: Result<()>,
}

/// Builds what is missing, and tells how far it has come.
pub(crate) fn build(programs: &[Programs], control_plane: Option<&ControlPlane>) -> Result<()> {
    let mut jobs = Vec::new();
    if !rust::prebuilt() {
        jobs.push(Job::Programs(programs, Tool::new("programs", "steps", "cargo")?));
    }
    if let Some(plane) = control_plane.filter(|plane| plane.is_to_be_built()) {
        jobs.push(Job::ControlPlane(plane, Tool::new("control plane", "packages", "go")?));
    }
    if control_plane.is_some() && registry::is_to_be_built() {
        jobs.push(Job::Registry(Tool::new("registry", "packages", "registry")?));
    }
    together(&jobs)
}

/// Runs all jobs at once. When one fails, the others are stopped.
fn together(jobs: &[Job<'_>]) -> Result<()> {
    let mut failed: Option<Error> = None;
    std::thread::scope(|scope| {
        let (ended, endings) = mpsc::channel();
        for (number, job) in jobs.iter().enumerate() {
            let ended = ended.clone();
            scope.spawn(move || {
                let start = Instant::now();
                let outcome = job.run();
                // Nobody listens any more only when this program ends.
                drop(ended.send(Ended { job: number, took: start.elapsed(), outcome }));
            });
        }
        drop(ended);
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        let mut begun = false;
        while !left.is_empty() {
            let ended = match endings.recv_timeout(TICK) {
                Ok(ended) => ended,
                Err(RecvTimeoutError::Timeout) => {
                    tell_progress(left.iter().filter_map(|number| jobs.get(*number)), &mut begun);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            left.retain(|number| *number != ended.job);
            let job = jobs.get(ended.job);
            if let (Err(error), true) = (&ended.outcome, job.is_some_and(Job::is_optional)) {
                let why = error.to_string();
                say::skipped(&format!(
                    "the registry is not built: {}",
                    why.lines().next().unwrap_or_default()
                ));
                continue;
            }
            if failed.is_none() {
                let step = job.map(Job::step).unwrap_or_default();
                say::done(step, ended.took, ended.outcome.as_ref().err());
            }
            if let Err(error) = ended.outcome {
                left.iter().filter_map(|number| jobs.get(*number)).for_each(|job| job.tool().stop());
                failed.get_or_insert(error);
            }
        }
    });
    failed.map_or(Ok(()), Err)
}

fn tell_progress<'a>(left: impl Iterator<Item = &'a Job<'a>>, begun: &mut bool) {
    if !std::mem::replace(begun, true) {
        say::begin(format_args!("building; what the tools say goes to {}", crate::tool::logs().display()));
    }
    let left: Vec<String> = left.map(|job| job.tool().to_string()).collect();
    say::progress(left.join(", "));
}
