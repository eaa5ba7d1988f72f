//! A budget that is used up by namespaces of a cluster. If the database loses some of them, their budget must not be
//! granted again: growth is held until the cluster has been compared and its namespaces count again.

use super::calls::{CallResult, Caller, PROJECTS, namespaces};
use anyhow::{Context, Result, bail, ensure};
use http::Method;
use instance::job::{Hard, namespace, project};
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance};
use kit::Endpoint;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

/// In pods.
pub(crate) const BUDGET: u64 = 10;
const EACH: Hard<'_> = &[("pods", "2")];
const SOON: Duration = Duration::from_mins(1);
const RELEASED: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(200);

/// A project with that budget; what is in it has its name before its own.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    instance: &'a Instance,
    endpoint: &'a Endpoint,
    pub(crate) project: &'static str,
}

/// What was seen until growth went on.
#[derive(Debug)]
pub(crate) struct GrowthWait {
    /// From the beginning until a caller heard that growth is held.
    pub(crate) held: Option<Duration>,
    /// The most that the cluster ever granted.
    pub(crate) most: u64,
}

impl<'a> Budget<'a> {
    /// Makes the project.
    pub(crate) async fn make(
        instance: &'a Instance,
        endpoint: &'a Endpoint,
        project_name: &'static str,
    ) -> Result<Self> {
        let body = project(project_name, None, &[(HOST_CLUSTER, &[("pods", &BUDGET.to_string())])]);
        endpoint.connect().await?.json(Method::POST, PROJECTS, &body).await?;
        Ok(Self { instance, endpoint, project: project_name })
    }

    /// Namespaces that are there in the cluster, with their quota.
    pub(crate) async fn spend(&self, names: &[&str]) -> Result<()> {
        let mut connection = self.endpoint.connect().await?;
        let names: Vec<String> = names.iter().map(|name| format!("{}-{name}", self.project)).collect();
        for name in &names {
            let body = namespace(self.project, HOST_CLUSTER, name, EACH);
            connection.json(Method::POST, &namespaces(self.project), &body).await?;
        }
        block_in_place(|| {
            wait::until("quotas in the cluster", SOON, || {
                let quotas = quotas(self.instance)?;
                let missing = names.iter().find(|name| !quotas.iter().any(|quota| quota.namespace == **name));
                Ok(missing.map_or(Progress::Done(()), |name| Progress::Pending(format!("{name} has none"))))
            })
        })
    }

    /// What the cluster's namespaces of the project may use together.
    pub(crate) fn granted(&self) -> Result<u64> {
        let prefix = format!("{}-", self.project);
        let quotas = block_in_place(|| quotas(self.instance))?;
        Ok(quotas.iter().filter(|quota| quota.namespace.starts_with(&prefix)).map(|quota| quota.pods).sum())
    }

    /// Asks for more than there is until it is refused because of the budget; whatever is granted before is too much.
    pub(crate) async fn until_refused(&self, caller: &mut Caller, begin: Instant) -> Result<GrowthWait> {
        let mut waiting = GrowthWait { held: None, most: 0 };
        for number in 0.. {
            let name = format!("{}-more-{number}", self.project);
            let body = namespace(self.project, HOST_CLUSTER, &name, EACH);
            let result = caller.ask(Method::POST, namespaces(self.project), &name, &body).await?;
            let call = caller.last_call().context("no call was noted")?;
            waiting.most = waiting.most.max(self.granted()?);
            match result {
                // Backends outlive their postmaster for a moment: what they refuse is not refused by the new primary.
                CallResult::Refused if call.code == 403 && waiting.held.is_none() => {}
                CallResult::Refused if call.code == 403 => return Ok(waiting),
                CallResult::Retriable if call.message.contains("growth is held") => {
                    waiting.held.get_or_insert(begin.elapsed());
                }
                CallResult::Retriable | CallResult::Unknown => {}
                CallResult::Done(_) => bail!("{name} was granted out of a budget that is used up"),
                CallResult::Refused | CallResult::Wrong => bail!("{name}: {} {}", call.code, call.message),
            }
            ensure!(
                begin.elapsed() < RELEASED,
                "growth is not held and released within {RELEASED:?}: {}",
                call.message
            );
            tokio::time::sleep(POLL).await;
        }
        Ok(waiting)
    }
}

/// The quota of a namespace in the cluster.
#[derive(Debug)]
pub(crate) struct Quota {
    pub(crate) namespace: String,
    pub(crate) pods: u64,
}

/// All quotas of the host cluster that count pods.
pub(crate) fn quotas(instance: &Instance) -> Result<Vec<Quota>> {
    let list = instance.member(HOST_CLUSTER).json(&["get", "resourcequotas", "-A"])?;
    let items = list.get("items").and_then(Value::as_array).context("no list of quotas")?;
    let quota = |item: &Value| {
        let namespace = item.pointer("/metadata/namespace")?.as_str()?.to_owned();
        let pods = item.pointer("/spec/hard/pods")?.as_str()?.parse().ok()?;
        Some(Quota { namespace, pods })
    };
    Ok(items.iter().filter_map(quota).collect())
}
