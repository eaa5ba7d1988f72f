//! `business-api import`: takes over the objects of a TKE installation. It makes a plan first, without side effects.
//! With `--apply` it writes the plan.
//!
//! ```text
//! source ─▶ record ─▶ check ─▶ convert ─▶ relations ─▶ limits ─▶ plan ─▶ report
//!  dump,     key,      one      into our   between     sums and    │
//!  etcd      value     record   objects    objects     limits      └▶ apply
//! ```

/// The sources of records: a dump or etcd.
pub mod source;
/// A record: one object as TKE keeps it.
pub mod record;
/// Candidates: objects that may be imported.
pub mod candidate;
/// The kinds that can be imported.
pub mod rows;
/// Checks one record.
pub mod check;
/// Converts one object of TKE into one of ours.
pub mod convert;
/// The platform that the program creates itself.
pub mod own_platform;
/// The draft of a plan.
pub mod draft;
/// Rules between objects.
pub mod relations;
/// Sums and limits.
pub mod limits;
/// Findings about objects.
pub mod finding;
/// The plan of an import.
pub mod plan;
/// The report of a plan, for people and programs.
pub mod report;
/// Writes a plan.
pub mod apply;

use crate::config::{Import, Output};
use crate::kind_ids::{MEMBER_CLUSTER, NAMESPACE_TEMPLATE};
use crate::kinds::{KINDS, KindTable};
use anyhow::{Context, Result};
use plan::Plan;
use report::Stage;
use runtime::{Metrics, Tasks};
use std::time::Duration;
use store::{Access, Store};

const JOIN_DEADLINE: Duration = Duration::from_secs(10);

/// The output of `business-api import`.
#[derive(Debug)]
pub struct ImportReport {
    /// For standard output.
    pub text: String,
    /// Whether somebody should decide before the plan is applied.
    pub needs_decision: bool,
}

/// Runs `business-api import`.
pub async fn run(settings: &Import) -> Result<ImportReport> {
    run_with(settings, KINDS).await
}

/// The same for a program with these kinds.
pub async fn run_with(settings: &Import, kinds: KindTable) -> Result<ImportReport> {
    let tasks = Tasks::new();
    let store = kinds.open(store::Config::new(&settings.database.database_url), &tasks, &Metrics::new())?;
    let report = command(&store, settings, kinds).await;
    tasks.cancel();
    tasks.join(JOIN_DEADLINE).await?;
    report
}

async fn command(store: &Store, settings: &Import, kinds: KindTable) -> Result<ImportReport> {
    let access = Access::internal("business-api import");
    let records = source::read(&settings.source).await?;
    if settings.apply {
        store.until_written(&access).await.context("wait for what is being written")?;
    }
    let mut present = store.existing_objects(&access).await.context("read what is in the database")?;
    // Member clusters register by themselves, and templates may exist before the import: nothing in the source
    // conflicts with either.
    present.retain(|there| ![MEMBER_CLUSTER, NAMESPACE_TEMPLATE].contains(&there.key.kind));
    let holds = store.holds(&access, None).await.context("read what is held")?;
    let convert_settings = candidate::ConvertSettings { forbidden: settings.forbidden() };
    let plan = plan::plan(kinds, &convert_settings, records, &present, &holds);
    drop(present);
    if !settings.apply {
        return Ok(build_report(&plan, Stage::Planned, settings.output));
    }
    let progress = apply::progress(store, &access).await?;
    apply::ensure_applicable(&plan, progress, settings.into_existing)?;
    let wrote = apply::apply(store, &access, &plan, progress).await?;
    let stage = if wrote { Stage::Applied } else { Stage::Unchanged };
    Ok(ImportReport { needs_decision: false, ..build_report(&plan, stage, settings.output) })
}

fn build_report(plan: &Plan, stage: Stage, output: Output) -> ImportReport {
    let text = match output {
        Output::Text => report::text(plan, stage),
        Output::Json => report::json_text(plan, stage),
    };
    ImportReport { text, needs_decision: plan.needs_decision() }
}

#[cfg(test)]
mod tests;
