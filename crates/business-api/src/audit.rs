//! Compares the quota ledger with the objects: on command for an operator, and all the time in the background.

/// All the time.
mod auditor;
/// What the log knows of differences.
mod logged;
/// The orphans that the controller reports, as holds of the ledger.
mod orphans;
/// What growth waits for.
mod growth;
/// What the status of projects says of the audit.
mod told;

pub use auditor::Auditor;

use crate::config::{Audit, Output};
use crate::kinds::{KINDS, KindTable};
use anyhow::{Context, Result, ensure};
use business_types::{HeldAmount, account};
use runtime::{Metrics, Tasks};
use serde_json::json;
use std::time::Duration;
use store::audit::{Accounts, AuditReport, Difference};
use store::drift::SchemaDifference;
use store::hold::Hold;
use store::quota::{Account, HoldState};
use store::repair::Repair;
use store::{Access, KindId, Revision, Store};

const JOIN_DEADLINE: Duration = Duration::from_secs(10);
/// How long to wait until all objects are read, which takes seconds for a million of them.
const CACHE_DEADLINE: Duration = Duration::from_mins(2);

/// Reads bodies for the store's audit.
#[derive(Clone, Copy, Debug)]
pub struct Books {
    kinds: KindTable,
}

impl Books {
    /// Books of these kinds.
    pub fn new(kinds: KindTable) -> Self {
        Self { kinds }
    }
}

impl Accounts for Books {
    fn account(&self, kind: KindId, body: &[u8]) -> Result<Option<Account>, String> {
        let Some(known) = self.kinds.accounts().find(|known| known.kind == kind) else { return Ok(None) };
        (known.read)(body).map(Some).map_err(|error| error.to_string())
    }
}

/// What `business-api audit` found, and whether it is good.
#[derive(Debug)]
pub struct AuditFinding {
    /// For standard output.
    pub text: String,
    /// Whether ledger and objects agree.
    pub consistent: bool,
}

/// Runs `business-api audit`.
pub async fn run(settings: &Audit) -> Result<AuditFinding> {
    run_with(settings, KINDS).await
}

/// The same for a program with these kinds.
pub async fn run_with(settings: &Audit, kinds: KindTable) -> Result<AuditFinding> {
    let tasks = Tasks::new();
    let store = kinds.open(store::Config::new(&settings.database.database_url), &tasks, &Metrics::new())?;
    let finding = command(&store, &Books::new(kinds), settings).await;
    tasks.cancel();
    tasks.join(JOIN_DEADLINE).await?;
    finding
}

async fn command(store: &Store, books: &Books, settings: &Audit) -> Result<AuditFinding> {
    let access = Access::internal("business-api audit");
    if let Some(uid) = settings.write_off {
        store.write_off(&access, uid).await.with_context(|| format!("write off {uid}"))?;
    }
    if let Some(reason) = &settings.hold {
        let is_held = store.hold_growth(&access, reason.as_str()).await.context("hold growth")?;
        ensure!(
            is_held,
            "an import is under way: it holds growth until it is whole and an audit has compared it"
        );
    }
    let begun = if settings.restored {
        store.declare_restored(&access).await.context("begin a new history")?
    } else {
        Revision::default()
    };
    if settings.go_on {
        store.go_on(&access).await.context("let growth go on")?;
    }
    if settings.repair {
        let report = store.audit(&access, books).await.context("audit")?;
        if !report.differences.is_empty() {
            store.repair(&access, books, None, Repair::Rebuild).await.context("repair")?;
        }
        for difference in &report.differences {
            if let Difference::Object { key, .. } = difference {
                store.repair_object(&access, books, key).await.context("repair an object's row")?;
            }
        }
    }
    let report = store.audit(&access, books).await.context("audit")?;
    let holds = store.holds(&access, None).await.context("read what was given up")?;
    let held = match store.growth_hold(&access).await.context("read whether growth is held")? {
        Some(hold) => {
            let filled = tokio::time::timeout(CACHE_DEADLINE, store.until_filled(begun)).await;
            filled.context("the objects were not read in time")?;
            let told = growth::told(store, &access, books.kinds, hold, &report.differences);
            Some(told.await.context("read what growth waits for")?)
        }
        None => None,
    };
    // Its role may not make a schema to compare with: the rest is told all the same.
    let schema = store.schema_differences().await.map(Option::unwrap_or_default);
    let schema = schema.map_err(|error| error.to_string());
    let audited = Audited { report, holds, held, schema };
    let text = match settings.output {
        Output::Text => audited.text(),
        Output::Json => audited.json(),
    };
    Ok(AuditFinding { text, consistent: audited.consistent() })
}

/// What was read and compared.
struct Audited {
    report: AuditReport,
    holds: Vec<Hold>,
    held: Option<String>,
    /// The differences of the schema, or why it was not compared.
    schema: Result<Vec<SchemaDifference>, String>,
}

impl Audited {
    fn schema_differences(&self) -> &[SchemaDifference] {
        self.schema.as_deref().unwrap_or_default()
    }

    fn consistent(&self) -> bool {
        self.report.differences.is_empty() && self.schema_differences().is_empty()
    }

    fn text(&self) -> String {
        let Self { report, holds, held, schema } = self;
        let mut lines: Vec<String> = report.differences.iter().map(ToString::to_string).collect();
        for hold in holds {
            let HeldAmount { uid, state, cluster_name, namespace, hard, reason } = told::held(hold);
            let amounts: Vec<String> =
                hard.iter().map(|(resource, amount)| format!("{resource}={amount}")).collect();
            lines.push(format!(
                "{state} in {} {}: namespace {namespace:?} of cluster {cluster_name:?} holds {} as {uid} \
                 ({reason})",
                account::scope_word(hold.scope.kind),
                hold.scope.name,
                if amounts.is_empty() { "no amount".to_owned() } else { amounts.join(" ") },
            ));
        }
        if let Some(reason) = held {
            lines.push(format!("growth is held: {reason}"));
        }
        match schema {
            Ok(found) => {
                lines.extend(found.iter().map(|difference| format!("the schema was changed: {difference}")));
            }
            Err(why) => lines.push(format!("the schema was not compared: {why}")),
        }
        for (kind, objects) in &report.unknown {
            lines.push(format!(
                "{objects} objects of kind {} were not compared: this release does not know it",
                kind.0
            ));
        }
        let verdict = match report.differences.len() {
            0 => "ledger and objects agree".to_owned(),
            1 => "1 difference".to_owned(),
            many => format!("{many} differences"),
        };
        lines.push(format!("{verdict}: {} objects at revision {}", report.objects, report.revision));
        lines.join("\n")
    }

    fn json(&self) -> String {
        let Self { report, holds, held, schema } = self;
        let differences: Vec<_> = report
            .differences
            .iter()
            .map(|d| json!({"project": d.scope().map(|scope| &scope.name), "difference": d.to_string()}))
            .collect();
        let holds: Vec<_> = holds
            .iter()
            .map(|hold| {
                let HeldAmount { uid, cluster_name, namespace, hard, reason, .. } = told::held(hold);
                json!({
                    "uid": uid, "project": hold.scope.name, "orphaned": hold.state == HoldState::Orphaned,
                    "reason": reason, "cluster": cluster_name, "namespace": namespace, "hard": hard,
                })
            })
            .collect();
        json!({
            "consistent": self.consistent(),
            "objects": report.objects,
            "revision": report.revision.0,
            "differences": differences,
            "holds": holds,
            "growthHeld": held,
            "schema": self.schema_differences().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "schemaNotCompared": schema.as_ref().err(),
            "unknownKinds": report.unknown.keys().map(|kind| kind.0).collect::<Vec<_>>(),
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind_ids::{NAMESPACE, PROJECT};

    #[test]
    fn the_books_know_their_kinds_and_no_other() {
        let body = br#"{"metadata":{"name":"a","namespace":"p"},"spec":{"clusterName":"c","namespace":"n"}}"#;
        let books = Books::new(KINDS);
        assert!(books.account(NAMESPACE, body).unwrap().unwrap().pays.is_some());
        assert!(books.account(PROJECT, body).unwrap().unwrap().grants.is_some());
        assert_eq!(books.account(KindId(99), body), Ok(None), "a later release's kind is nobody's namespace");
        assert!(books.account(PROJECT, b"{").is_err());
    }
}
