use super::{Bench, Check, DEADLINE, Sight, Verdict, text};
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
/// The limit; and how many writes ask for one unit of it at once.
const HARD: &str = "10";
const ASKING: usize = 40;
const FIT: usize = 10;
/// Writes that are made one after the other.
const ALONE: usize = 50;
/// A write alone takes longer where the disk or a standby is far away.
const SLOW: Duration = Duration::from_millis(50);

const SCHEMA: (&str, &str) = ("the schema", "everything");
const BATCH: (&str, &str) = ("the batch function", "every write: 40 ask at once for one of 10");
const AUDIT: (&str, &str) = ("the audit", "ledger and objects are compared in one state");
const LATENCY: (&str, &str) = ("commit latency", "how long one write alone takes");

/// None of it was tried.
pub(super) fn skipped(reason: &str) -> Vec<Check> {
    [SCHEMA, BATCH, AUDIT, LATENCY].map(|(name, carries)| Sight::skipped(reason).called(name, carries)).into()
}

/// There is no schema to try the rest in.
fn without(schema: Sight) -> Vec<Check> {
    let mut checks = vec![schema.called(SCHEMA.0, SCHEMA.1)];
    let reason = format!("not tried: {}", SCHEMA.0);
    checks.extend(skipped(&reason).into_iter().filter(|check| check.name != SCHEMA.0));
    checks
}

impl Bench {
    /// The store in a schema of its own.
    pub(super) async fn trial(&mut self) -> Vec<Check> {
        let mark = if self.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{mark}options=-csearch_path%3D{}", self.url, self.schema);
        let schema = match at_home(&url, &self.schema).await {
            Ok(()) => migrate(&url).await,
            Err(elsewhere) => elsewhere,
        };
        if schema.verdict != Verdict::Holds {
            return without(schema);
        }
        let mut checks = vec![schema.called(SCHEMA.0, SCHEMA.1)];
        let tasks = Tasks::new();
        let rest = match open(&url, &tasks).await {
            Ok(store) => vec![
                batch(&store).await.called(BATCH.0, BATCH.1),
                audit(&store).await.called(AUDIT.0, AUDIT.1),
                latency(&store).await.called(LATENCY.0, LATENCY.1),
            ],
            Err(sight) => vec![sight.called(BATCH.0, BATCH.1)],
        };
        checks.extend(rest);
        tasks.cancel();
        if tasks.join(DEADLINE).await.is_err() {
            tracing::warn!("the store of the check does not end");
        }
        checks
    }
}

/// Whether sessions at this URL work in the check's own schema. Elsewhere a migration would write into somebody else's.
async fn at_home(url: &str, own: &str) -> Result<(), Sight> {
    let mut session = connect::connect(url, "check")
        .await
        .map_err(|error| refused(connect::sqlstate(&error).as_deref(), &error.to_string()))?;
    let path = text(&mut session, "current_setting('search_path')").await?;
    let schema = text(&mut session, "current_schema()").await?;
    elsewhere(own, path.as_deref(), schema.as_deref()).map_or(Ok(()), Err)
}

/// A session was refused that differs from those before in its `options` only. pgbouncer calls them a violation of the protocol,
/// others a feature that is not supported.
fn refused(code: Option<&str>, why: &str) -> Sight {
    match code {
        Some("08P01" | "0A000") => {
            Sight::skipped(format!("not tried: a proxy refuses `options` ({why}): name the server itself"))
        }
        _ => Sight::broken(why),
    }
}

/// Why nothing can be tried where a session has this search path and works in this schema.
fn elsewhere(own: &str, path: Option<&str>, schema: Option<&str>) -> Option<Sight> {
    if schema == Some(own) {
        None
    } else if path == Some(own) {
        Some(Sight::skipped("not tried: the check has no schema of its own"))
    } else {
        Some(Sight::skipped("not tried: a proxy drops `options`: name the server itself"))
    }
}

async fn migrate(url: &str) -> Sight {
    match tokio::time::timeout(DEADLINE * 4, Store::migrate(url)).await {
        Ok(Ok(())) => Sight::holds("installed, with its functions"),
        Ok(Err(error)) => Sight::broken(error.to_string()),
        Err(_elapsed) => Sight::broken("no answer"),
    }
}

async fn open(url: &str, tasks: &Tasks) -> Result<Store, Sight> {
    let kinds: [Arc<dyn Kind>; 3] =
        [Arc::new(TrialKind("budgets")), Arc::new(TrialKind("uses")), Arc::new(TrialKind("notes"))];
    let config = Config { notify: false, ..Config::new(url) };
    let store = Store::open(config, kinds.into(), tasks, &Metrics::new())
        .map_err(|error| Sight::broken(error.to_string()))?;
    match tokio::time::timeout(DEADLINE, store.until_synced()).await {
        Ok(()) => Ok(store),
        Err(_elapsed) => Err(Sight::broken(format!("the store does not start: {:?}", store.database()))),
    }
}

async fn batch(store: &Store) -> Sight {
    let access = access();
    let budget = write(BUDGETS, "budget");
    if let Err(error) = store.write(&access, budget).await {
        return Sight::broken(error.to_string());
    }
    let asked = (0..ASKING).map(|number| store.write(&access, write(USES, &format!("use-{number}"))));
    let (mut made, mut refused) = (0, 0);
    for outcome in join_all(asked).await {
        match outcome {
            Ok(_revision) => made += 1,
            Err(Error::Refused(_)) => refused += 1,
            Err(error) => return Sight::broken(error.to_string()),
        }
    }
    if (made, refused) != (FIT, ASKING - FIT) {
        return Sight::broken(format!("{made} of {FIT} were granted, {refused} refused"));
    }
    match store.get(&access, &Key::new(BUDGETS, "", "budget"), At::Latest).await {
        Ok(_entry) => Sight::holds(format!("{made} granted, {refused} refused, and read again")),
        Err(error) => Sight::broken(format!("what was written cannot be read: {error}")),
    }
}

async fn audit(store: &Store) -> Sight {
    match store.audit(&access(), &TrialAccounts).await {
        Ok(report) if report.differences.is_empty() => Sight::holds("no difference"),
        Ok(report) => Sight::broken(format!("{} differences", report.differences.len())),
        Err(error) => Sight::broken(error.to_string()),
    }
}

async fn latency(store: &Store) -> Sight {
    let mut times = Vec::with_capacity(ALONE);
    for number in 0..ALONE {
        let begin = Instant::now();
        if let Err(error) = store.write(&access(), write(NOTES, &format!("note-{number}"))).await {
            return Sight::broken(error.to_string());
        }
        times.push(begin.elapsed());
    }
    times.sort();
    let median = times.get(ALONE / 2).copied().unwrap_or_default();
    let slowest = times.last().copied().unwrap_or_default();
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    let found = format!("median {}, slowest of {ALONE} {}", milliseconds(median), milliseconds(slowest));
    if median > SLOW {
        Sight::doubtful(format!("{found}: callers wait as long"))
    } else {
        Sight::holds(found)
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
            let domains = amounts(HARD).into_iter().map(|(domain, hard)| (domain, Limits::new(hard, true)));
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
        assert!(elsewhere("own", Some("own"), Some("own")).is_none());
        let dropped = elsewhere("own", Some("\"$user\", public"), Some("public")).unwrap();
        assert_eq!(dropped.verdict, Skipped);
        assert!(dropped.found.contains("drops `options`"), "{}", dropped.found);
        let dropped = elsewhere("own", Some("\"$user\", public"), None).unwrap();
        assert!(dropped.found.contains("drops `options`"), "{}", dropped.found);
        let missing = elsewhere("own", Some("own"), None).unwrap();
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
        let checks = without(Sight::broken("it cannot be made"));
        let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        assert_eq!(names, [SCHEMA.0, BATCH.0, AUDIT.0, LATENCY.0]);
        assert_eq!(checks[0].verdict, Broken);
        assert!(checks[1..].iter().all(|check| check.verdict == Skipped), "{checks:#?}");
    }
}
