use super::{Check, DEADLINE, Finding, Sessions, Verdict, query_text};
use crate::audit::Accounts;
use crate::model::{Change, Growth, NewState, Write};
use crate::read::At;
use crate::{Access, Attributes, Config, Error, Key, Kind, KindId, ScopeRole, Store, connect};
use futures_util::future::join_all;
use quota::{Account, Amounts, Grants, Limits, Scope, ScopeKind};
use runtime::{Metrics, Tasks};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

const BUDGETS: KindId = KindId(1);
const USES: KindId = KindId(2);
const NOTES: KindId = KindId(3);
const SCOPE: ScopeKind = ScopeKind(1);
const DOMAIN: &str = "d";
const RESOURCE: &str = "units";
/// The limit of units.
const LIMIT: &str = "10";
/// How many writes ask for one unit each at the same time.
const REQUESTS: usize = 40;
/// How many of them fit.
const GRANTED: usize = 10;
/// How many writes are made one after the other.
const SINGLE_WRITES: usize = 50;
/// A single write that takes longer is slow: the disk or a standby is far away.
const SLOW_MIN: Duration = Duration::from_millis(50);

const SCHEMA: (&str, &str) = ("the schema", "everything");
const BATCH: (&str, &str) = ("the batch function", "every write: 40 ask at once for one of 10");
const AUDIT: (&str, &str) = ("the audit", "ledger and objects are compared in one state");
const LATENCY: (&str, &str) = ("commit latency", "how long one write alone takes");

/// All checks of this module, as skipped.
pub(super) fn skipped(reason: &str) -> Vec<Check> {
    [SCHEMA, BATCH, AUDIT, LATENCY]
        .map(|(name, carries)| Finding::skipped(reason).into_check(name, carries))
        .into()
}

/// The checks of this module when there is no schema for them.
fn without(schema: Finding) -> Vec<Check> {
    let mut checks = vec![schema.into_check(SCHEMA.0, SCHEMA.1)];
    let reason = format!("not tried: {}", SCHEMA.0);
    checks.extend(skipped(&reason).into_iter().filter(|check| check.name != SCHEMA.0));
    checks
}

impl Sessions {
    /// Checks the store in a schema of its own.
    pub(super) async fn trial(&mut self) -> Vec<Check> {
        let mark = if self.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{mark}options=-csearch_path%3D{}", self.url, self.schema);
        let schema = match in_own_schema(&url, &self.schema).await {
            Ok(()) => migrate(&url).await,
            Err(finding) => finding,
        };
        if schema.verdict != Verdict::Holds {
            return without(schema);
        }
        let mut checks = vec![schema.into_check(SCHEMA.0, SCHEMA.1)];
        let tasks = Tasks::new();
        let rest = match open(&url, &tasks).await {
            Ok(store) => vec![
                batch(&store).await.into_check(BATCH.0, BATCH.1),
                audit(&store).await.into_check(AUDIT.0, AUDIT.1),
                latency(&store).await.into_check(LATENCY.0, LATENCY.1),
            ],
            Err(finding) => vec![finding.into_check(BATCH.0, BATCH.1)],
        };
        checks.extend(rest);
        tasks.cancel();
        if tasks.join(DEADLINE).await.is_err() {
            tracing::warn!("the store of the check does not end");
        }
        checks
    }
}

/// Fails unless sessions at this URL work in the check's own schema. Otherwise a migration would write into another
/// one.
async fn in_own_schema(url: &str, own: &str) -> Result<(), Finding> {
    let mut session = connect::connect(url, "check")
        .await
        .map_err(|error| refused(connect::sqlstate(&error).as_deref(), &error.to_string()))?;
    let path = query_text(&mut session, "current_setting('search_path')").await?;
    let schema = query_text(&mut session, "current_schema()").await?;
    wrong_schema(own, path.as_deref(), schema.as_deref()).map_or(Ok(()), Err)
}

/// A session was refused that differs from the earlier ones only in its `options`. pgbouncer calls these a protocol
/// violation, other proxies an unsupported feature.
fn refused(code: Option<&str>, why: &str) -> Finding {
    match code {
        Some("08P01" | "0A000") => {
            Finding::skipped(format!("not tried: a proxy refuses `options` ({why}): name the server itself"))
        }
        _ => Finding::broken(why),
    }
}

/// Why nothing can be checked in a session with this search path and this current schema; `None` if it can.
fn wrong_schema(own: &str, path: Option<&str>, schema: Option<&str>) -> Option<Finding> {
    if schema == Some(own) {
        None
    } else if path == Some(own) {
        Some(Finding::skipped("not tried: the check has no schema of its own"))
    } else {
        Some(Finding::skipped("not tried: a proxy drops `options`: name the server itself"))
    }
}

async fn migrate(url: &str) -> Finding {
    match tokio::time::timeout(DEADLINE * 4, Store::migrate(url)).await {
        Ok(Ok(())) => Finding::holds("installed, with its functions"),
        Ok(Err(error)) => Finding::broken(error.to_string()),
        Err(_elapsed) => Finding::broken("no answer"),
    }
}

async fn open(url: &str, tasks: &Tasks) -> Result<Store, Finding> {
    let kinds: [Arc<dyn Kind>; 3] =
        [Arc::new(TrialKind("budgets")), Arc::new(TrialKind("uses")), Arc::new(TrialKind("notes"))];
    let config = Config { notify: false, ..Config::new(url) };
    let store = Store::open(config, kinds.into(), tasks, &Metrics::new())
        .map_err(|error| Finding::broken(error.to_string()))?;
    match tokio::time::timeout(DEADLINE, store.until_synced()).await {
        Ok(()) => Ok(store),
        Err(_elapsed) => Err(Finding::broken(format!("the store does not start: {:?}", store.database()))),
    }
}

async fn batch(store: &Store) -> Finding {
    let access = access();
    let budget = write(BUDGETS, "budget");
    if let Err(error) = store.write(&access, budget).await {
        return Finding::broken(error.to_string());
    }
    let requests = (0..REQUESTS).map(|number| store.write(&access, write(USES, &format!("use-{number}"))));
    let (mut made, mut refused) = (0, 0);
    for outcome in join_all(requests).await {
        match outcome {
            Ok(_revision) => made += 1,
            Err(Error::Refused(_)) => refused += 1,
            Err(error) => return Finding::broken(error.to_string()),
        }
    }
    if (made, refused) != (GRANTED, REQUESTS - GRANTED) {
        return Finding::broken(format!("{made} of {GRANTED} were granted, {refused} refused"));
    }
    match store.get(&access, &Key::new(BUDGETS, "", "budget"), At::Latest).await {
        Ok(_entry) => Finding::holds(format!("{made} granted, {refused} refused, and read again")),
        Err(error) => Finding::broken(format!("what was written cannot be read: {error}")),
    }
}

async fn audit(store: &Store) -> Finding {
    match store.audit(&access(), &TrialAccounts).await {
        Ok(report) if report.differences.is_empty() => Finding::holds("no difference"),
        Ok(report) => Finding::broken(format!("{} differences", report.differences.len())),
        Err(error) => Finding::broken(error.to_string()),
    }
}

async fn latency(store: &Store) -> Finding {
    let mut times = Vec::with_capacity(SINGLE_WRITES);
    for number in 0..SINGLE_WRITES {
        let begin = Instant::now();
        if let Err(error) = store.write(&access(), write(NOTES, &format!("note-{number}"))).await {
            return Finding::broken(error.to_string());
        }
        times.push(begin.elapsed());
    }
    times.sort();
    let median = times.get(SINGLE_WRITES / 2).copied().unwrap_or_default();
    let slowest = times.last().copied().unwrap_or_default();
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    let found =
        format!("median {}, slowest of {SINGLE_WRITES} {}", milliseconds(median), milliseconds(slowest));
    if median > SLOW_MIN {
        Finding::doubtful(format!("{found}: callers wait as long"))
    } else {
        Finding::holds(found)
    }
}

fn access() -> Access {
    Access::internal("check")
}

/// A new object, whose body is its name.
fn write(kind: KindId, name: &str) -> Write {
    let state = NewState { body: format!("\"{name}\""), account: account_of(kind) };
    let key = Key::new(kind, "", name);
    Write { key, uid: Uuid::new_v4(), change: Change::Create(state), growth: Growth::Free, hold: None }
}

fn account_of(kind: KindId) -> Account {
    let scope = Scope::new(SCOPE, "budget");
    let amounts = |amount: &str| -> Amounts {
        let list = amount.parse().map(|amount| (RESOURCE.to_owned(), amount)).into_iter().collect();
        BTreeMap::from([(DOMAIN.to_owned(), list)])
    };
    let tenant = "t".to_owned();
    match kind {
        BUDGETS => {
            let domains = amounts(LIMIT).into_iter().map(|(domain, hard)| (domain, Limits::new(hard, true)));
            Account {
                tenant,
                grants: Some(Grants { scope, domains: domains.collect() }),
                ..Account::default()
            }
        }
        USES => Account {
            tenant,
            pays: Some(scope),
            costs: amounts("1"),
            carries: BTreeMap::from([(DOMAIN.to_owned(), vec![RESOURCE.to_owned()])]),
            ..Account::default()
        },
        _ => Account { tenant, ..Account::default() },
    }
}

#[derive(Debug)]
struct TrialKind(&'static str);

impl Kind for TrialKind {
    fn group(&self) -> &'static str {
        "check"
    }

    fn resource(&self) -> &str {
        self.0
    }

    fn stands_for(&self) -> Option<ScopeRole> {
        (self.0 == "budgets").then_some(ScopeRole { scope: SCOPE, required: true })
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn attributes(&self, _body: &[u8]) -> Attributes {
        Attributes { tenant: Some("t".into()), ..Attributes::default() }
    }
}

struct TrialAccounts;

impl Accounts for TrialAccounts {
    fn account(&self, kind: KindId, _body: &[u8]) -> Result<Option<Account>, String> {
        Ok(Some(account_of(kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Broken, Skipped};
    use super::*;

    #[test]
    fn nothing_is_tried_in_a_schema_of_somebody_else() {
        assert!(wrong_schema("own", Some("own"), Some("own")).is_none());
        let dropped = wrong_schema("own", Some("\"$user\", public"), Some("public")).unwrap();
        assert_eq!(dropped.verdict, Skipped);
        assert!(dropped.found.contains("drops `options`"), "{}", dropped.found);
        let dropped = wrong_schema("own", Some("\"$user\", public"), None).unwrap();
        assert!(dropped.found.contains("drops `options`"), "{}", dropped.found);
        let missing = wrong_schema("own", Some("own"), None).unwrap();
        assert_eq!(missing.verdict, Skipped);
        assert!(!missing.found.contains("proxy"), "{}", missing.found);
    }

    #[test]
    fn a_proxy_that_refuses_options_says_nothing_of_the_server() {
        let why = "unsupported startup parameter in options: search_path";
        assert_eq!(["08P01", "0A000"].map(|code| refused(Some(code), why).verdict), [Skipped, Skipped]);
        assert!(refused(Some("08P01"), why).found.contains(why));
        assert_eq!([Some("53300"), None].map(|code| refused(code, "full").verdict), [Broken, Broken]);
    }

    #[test]
    fn without_a_schema_each_check_is_named_once() {
        let checks = without(Finding::broken("it cannot be made"));
        let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        assert_eq!(names, [SCHEMA.0, BATCH.0, AUDIT.0, LATENCY.0]);
        assert_eq!(checks[0].verdict, Broken);
        assert!(checks[1..].iter().all(|check| check.verdict == Skipped), "{checks:#?}");
    }
}
