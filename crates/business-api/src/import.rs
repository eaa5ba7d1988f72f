//! `business-api import`: takes over what a TKE installation has. A plan is made first, by rules that are pure; then it is
//! written, when told to.
//!
//! ```text
//! source ─▶ record ─▶ check ─▶ mend ─▶ relations ─▶ limits ─▶ plan ─▶ report
//!  dump,     key,      one      what it   one and      what they    │
//!  etcd      value     object   can be    another      add up to    └▶ apply
//! ```

/// Where the objects are read from.
pub mod source;
/// What TKE keeps of one object.
pub mod record;
/// What is imported.
pub mod candidate;
/// The kinds that can be imported.
pub mod rows;
/// One record: whether it can come.
pub mod check;
/// One object: what it can be here.
pub mod mend;
/// The object that the program makes itself.
pub mod own;
/// Objects on their way into the plan.
pub mod draft;
/// How objects relate to each other.
pub mod relations;
/// What they add up to.
pub mod limits;
/// What there is to say of an object.
pub mod finding;
/// What an import would do.
pub mod plan;
/// The plan for people and programs.
pub mod report;
/// Writes it.
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

/// What `business-api import` has to say.
#[derive(Debug)]
pub struct ImportReport {
    /// For standard output.
    pub text: String,
    /// Whether somebody should look at it before it is applied.
    pub to_be_decided: bool,
}

/// Runs `business-api import`.
pub async fn run(settings: &Import) -> Result<ImportReport> {
    run_with(settings, KINDS).await
}

/// The same for a program with these kinds.
pub async fn run_with(settings: &Import, kinds: KindTable) -> Result<ImportReport> {
    let tasks = Tasks::new();
    let store = kinds.open(store::Config::new(&settings.database.database_url), &tasks, &Metrics::new())?;
    let told = command(&store, settings, kinds).await;
    tasks.cancel();
    tasks.join(JOIN_DEADLINE).await?;
    told
}

async fn command(store: &Store, settings: &Import, kinds: KindTable) -> Result<ImportReport> {
    let access = Access::internal("business-api import");
    let records = source::read(&settings.source).await?;
    if settings.apply {
        store.until_written(&access).await.context("wait for what is being written")?;
    }
    let mut present = store.present(&access).await.context("read what is in the database")?;
    // Clusters register by themselves, and templates are there from the first day: nothing in the source conflicts with
    // either.
    present.retain(|there| ![MEMBER_CLUSTER, NAMESPACE_TEMPLATE].contains(&there.key.kind));
    let rules = candidate::MendRules { forbidden: settings.forbidden() };
    let plan = plan::plan(kinds, &rules, records, &present);
    drop(present);
    if !settings.apply {
        return Ok(told(&plan, Stage::Planned, settings.output));
    }
    let progress = apply::progress(store, &access).await?;
    apply::check(&plan, progress, settings.into_existing)?;
    let wrote = apply::apply(store, &access, &plan, progress).await?;
    let stage = if wrote { Stage::Applied } else { Stage::Unchanged };
    Ok(ImportReport { to_be_decided: false, ..told(&plan, stage, settings.output) })
}

fn told(plan: &Plan, stage: Stage, output: Output) -> ImportReport {
    let text = match output {
        Output::Text => report::text(plan, stage),
        Output::Json => report::json_text(plan, stage),
    };
    ImportReport { text, to_be_decided: plan.is_to_be_decided() }
}

#[cfg(test)]
mod tests;
