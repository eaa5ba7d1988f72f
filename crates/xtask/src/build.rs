//! Builds what an instance needs, concurrently: programs by cargo; control plane, registry and identity provider by Go.

/// Programs of this workspace.
mod rust;

use crate::call;
use crate::control_plane::ControlPlane;
use crate::go;
use crate::go_programs::{DELIVERY_PROGRAMS, GoProgram, PLATFORM_PROGRAMS, TUNNEL_PROGRAMS};
use crate::tool::Tool;
use anyhow::{Error, Result};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use terminal::say;

pub(crate) use rust::{Programs, link_plugin};

const TICK: Duration = Duration::from_secs(1);

/// One build.
enum Job<'a> {
    Programs(&'a [Programs], Tool),
    ControlPlane(&'a ControlPlane, Tool),
    GoProgram(GoProgram, Tool),
}

impl Job<'_> {
    fn tool(&self) -> &Tool {
        match self {
            Self::Programs(_, tool) | Self::ControlPlane(_, tool) | Self::GoProgram(_, tool) => tool,
        }
    }

    /// Its name for people.
    fn what(&self) -> &'static str {
        match self {
            Self::Programs(..) => "programs",
            Self::ControlPlane(..) => "control plane",
            Self::GoProgram(extra, _) => extra.what,
        }
    }

    /// The text when it is done.
    fn step(&self) -> &'static str {
        match self {
            Self::Programs(..) => "programs built",
            Self::ControlPlane(..) => "control plane built",
            Self::GoProgram(extra, _) => extra.step,
        }
    }

    fn run(&self) -> Result<()> {
        match self {
            Self::Programs(programs, tool) => programs.iter().try_for_each(|some| rust::build(some, tool)),
            Self::ControlPlane(plane, tool) => go::build(&plane.module()?, tool),
            Self::GoProgram(extra, tool) => go::build(&extra.module()?, tool),
        }
    }

    /// Whether a failure is only a warning.
    fn is_optional(&self) -> bool {
        matches!(self, Self::GoProgram(..))
    }
}

/// The result of a job.
struct JobResult {
    job: usize,
    took: Duration,
    outcome: Result<()>,
}

/// Builds what is missing, and prints progress.
pub(crate) fn build(programs: &[Programs], control_plane: Option<&ControlPlane>) -> Result<()> {
    let mut jobs = Vec::new();
    if !rust::prebuilt() {
        jobs.push(Job::Programs(programs, Tool::new("programs", "steps", "cargo")?));
    }
    if let Some(plane) = control_plane.filter(|plane| plane.is_to_be_built()) {
        jobs.push(Job::ControlPlane(plane, Tool::new("control plane", "packages", "go")?));
    }
    let missing = PLATFORM_PROGRAMS.into_iter().filter(|extra| extra.is_to_be_built());
    for extra in missing.take_while(|_| control_plane.is_some()) {
        jobs.push(Job::GoProgram(extra, Tool::new(extra.what, "packages", extra.name)?));
    }
    run_all(&jobs)
}

/// Builds the programs that test deploy/, if possible.
pub(crate) fn delivery() -> Result<()> {
    build_go_programs(&DELIVERY_PROGRAMS)
}

/// Builds the tunnel to member clusters, if possible.
pub(crate) fn tunnel() -> Result<()> {
    build_go_programs(&TUNNEL_PROGRAMS)
}

fn build_go_programs(wanted: &[GoProgram]) -> Result<()> {
    let mut jobs = Vec::new();
    for missing in wanted.iter().copied().filter(|extra| extra.is_to_be_built()) {
        jobs.push(Job::GoProgram(missing, Tool::new(missing.what, "packages", missing.name)?));
    }
    run_all(&jobs)
}

/// Runs all jobs concurrently. If one fails, or time is out, the others are stopped.
fn run_all(jobs: &[Job<'_>]) -> Result<()> {
    let mut failed: Option<Error> = None;
    std::thread::scope(|scope| {
        let (ended, endings) = mpsc::channel();
        for (number, job) in jobs.iter().enumerate() {
            let ended = ended.clone();
            scope.spawn(move || {
                let start = Instant::now();
                let outcome = job.run();
                // This fails only when the program ends.
                drop(ended.send(JobResult { job: number, took: start.elapsed(), outcome }));
            });
        }
        drop(ended);
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        let mut begun = false;
        let stop = |left: &[usize]| {
            left.iter().filter_map(|number| jobs.get(*number)).for_each(|job| job.tool().stop());
        };
        while !left.is_empty() {
            let ended = match endings.recv_timeout(TICK) {
                Ok(ended) => ended,
                Err(RecvTimeoutError::Timeout) if call::is_out_of_time() => {
                    stop(&left);
                    continue;
                }
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
                let what = job.map(Job::what).unwrap_or_default();
                let why = why.lines().next().unwrap_or_default();
                say::skipped(&format!("the {what} is not built: {why}"));
                continue;
            }
            if failed.is_none() {
                let step = job.map(Job::step).unwrap_or_default();
                say::done(step, ended.took, ended.outcome.as_ref().err());
            }
            if let Err(error) = ended.outcome {
                stop(&left);
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
