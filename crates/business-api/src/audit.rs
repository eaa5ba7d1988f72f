//! Compares the quota ledger with the objects: on an operator's command, and regularly in the background.

/// The background audit.
mod auditor;
/// Logs each difference once.
mod difference_log;
/// Turns the orphans that the controller reports into holds of the ledger.
mod orphans;
/// What held growth waits for.
mod growth;
/// The audit in the status of projects.
mod project_status;

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
use store::{Access, Error, KindId, Revision, Store};
use uuid::Uuid;

const JOIN_DEADLINE: Duration = Duration::from_secs(10);
/// How long to wait until all objects are read, which takes seconds for a million of them.
const CACHE_DEADLINE: Duration = Duration::from_mins(2);

/// Reads the accounts of objects for the store's audit.
#[derive(Clone, Copy, Debug)]
pub struct AccountReader {
    kinds: KindTable,
}

impl AccountReader {
    /// A reader of these kinds.
    pub fn new(kinds: KindTable) -> Self {
        Self { kinds }
    }
}

impl Accounts for AccountReader {
    fn account(&self, kind: KindId, body: &[u8]) -> Result<Option<Account>, String> {
        let Some(row) = self.kinds.accounts().find(|row| row.kind == kind) else { return Ok(None) };
        (row.read)(body).map(Some).map_err(|error| error.to_string())
    }
}

/// The output of `business-api audit`.
#[derive(Debug)]
pub struct AuditOutput {
    /// For standard output.
    pub text: String,
    /// Whether there are no differences, neither between ledger and objects nor of the schema.
    pub consistent: bool,
}

/// Runs `business-api audit`.
pub async fn run(settings: &Audit) -> Result<AuditOutput> {
    run_with(settings, KINDS).await
}

/// The same for a program with these kinds.
pub async fn run_with(settings: &Audit, kinds: KindTable) -> Result<AuditOutput> {
    let tasks = Tasks::new();
    let store = kinds.open(store::Config::new(&settings.database.database_url), &tasks, &Metrics::new())?;
    let finding = command(&store, &AccountReader::new(kinds), settings).await;
    tasks.cancel();
    tasks.join(JOIN_DEADLINE).await?;
    finding
}

async fn command(store: &Store, account_reader: &AccountReader, settings: &Audit) -> Result<AuditOutput> {
    let access = Access::internal("business-api audit");
    if let Some(uid) = settings.write_off {
        write_off(store, &access, uid).await.with_context(|| format!("write off {uid}"))?;
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
        store.resume_growth(&access).await.context("let growth go on")?;
    }
    if settings.repair {
        repair(store, &access, account_reader).await?;
    }
    let report = store.audit(&access, account_reader).await.context("audit")?;
    let holds = store.holds(&access, None).await.context("read what was given up")?;
    let held = match store.growth_hold(&access).await.context("read whether growth is held")? {
        Some(hold) => {
            let filled = tokio::time::timeout(CACHE_DEADLINE, store.until_filled(begun)).await;
            filled.context("the objects were not read in time")?;
            let explanation =
                growth::explain_hold(store, &access, account_reader.kinds, hold, &report.differences);
            Some(explanation.await.context("read what growth waits for")?)
        }
        None => None,
    };
    // The database role may lack the right to create a schema to compare with. Then the rest is reported all the same.
    let schema = store.schema_differences().await.map(Option::unwrap_or_default);
    let schema = schema.map_err(|error| error.to_string());
    let audited = AuditResult { report, holds, held, schema };
    let text = match settings.output {
        Output::Text => audited.text(),
        Output::Json => audited.json(),
    };
    Ok(AuditOutput { text, consistent: audited.consistent() })
}

/// Repairs what the objects say enough about. Their columns come first: what is above a limit is carried to the scopes
/// that the columns name.
async fn repair(store: &Store, access: &Access, account_reader: &AccountReader) -> Result<()> {
    let report = store.audit(access, account_reader).await.context("audit")?;
    for difference in &report.differences {
        let Difference::Object { key, .. } = difference else { continue };
        match store.repair_object(access, account_reader, key).await {
            // The audit that follows reports what cannot be read. What is gone by now needs no repair.
            Ok(_) | Err(Error::Corrupt(_) | Error::NotFound) => {}
            Err(error) => return Err(error).context("repair an object's row"),
        }
    }
    if !report.differences.is_empty() {
        store.repair(access, account_reader, None, Repair::Rebuild).await.context("repair")?;
    }
    Ok(())
}

/// Writes a hold off. First the orphan that it was made for is removed from the status of its project: otherwise the
/// hold would be made again from there, for ever if the cluster is not compared any more.
async fn write_off(store: &Store, access: &Access, uid: Uuid) -> Result<()> {
    let filled = tokio::time::timeout(CACHE_DEADLINE, store.until_filled(Revision::default())).await;
    filled.context("the objects were not read in time")?;
    let holds = store.holds(access, None).await?;
    let hold = holds.iter().find(|hold| hold.uid == uid);
    let has_removed = project_status::forget_orphans(store, access, uid, hold).await?;
    match store.write_off(access, uid).await {
        Err(Error::NotFound) if has_removed => Ok(()),
        written_off => Ok(written_off?),
    }
}

/// What was read and compared.
struct AuditResult {
    report: AuditReport,
    holds: Vec<Hold>,
    held: Option<String>,
    /// The differences of the schema, or why it was not compared.
    schema: Result<Vec<SchemaDifference>, String>,
}

impl AuditResult {
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
            let HeldAmount { uid, state, cluster_name, namespace, hard, reason } =
                project_status::held_amount(hold);
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
                let HeldAmount { uid, cluster_name, namespace, hard, reason, .. } =
                    project_status::held_amount(hold);
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
        let account_reader = AccountReader::new(KINDS);
        assert!(account_reader.account(NAMESPACE, body).unwrap().unwrap().pays.is_some());
        assert!(account_reader.account(PROJECT, body).unwrap().unwrap().grants.is_some());
        assert_eq!(
            account_reader.account(KindId(99), body),
            Ok(None),
            "a later release's kind is nobody's namespace"
        );
        assert!(account_reader.account(PROJECT, b"{").is_err());
    }
}
