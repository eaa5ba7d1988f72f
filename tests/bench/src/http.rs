//! Creates and reads over HTTPS: directly, through kube-apiserver, and the rivals, in turn.

use crate::load::{AsyncStep, Sample, closed_loop, median};
use crate::objects::ObjectFactory;
use crate::table::{Table, progress};
use crate::{Servers, objects, rival};
use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use kit::{Connection, Endpoint};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Projects that are made ready for a run.
const PROJECTS: usize = 60;

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

const DIRECT: &str = "direct";
const THROUGH: &str = "through kube-apiserver";
const CUSTOM: &str = "custom resource";
const EMPTY: &str = "empty backend through the aggregator";

/// An operation that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    /// Each request creates an object.
    Create,
    /// All read one object.
    Get,
    /// Each request creates an object by server-side apply.
    ApplyNew,
    /// Each client applies its own object again and again.
    ApplySame,
}

const CREATES: &[Operation] = &[Operation::Create];
const ALL: &[Operation] = &[Operation::Create, Operation::Get, Operation::ApplyNew, Operation::ApplySame];

/// A client with the request that it repeats.
struct Client {
    connection: Connection,
    /// The request of an act that repeats one.
    fixed: (String, Bytes),
}

/// One operation of a client.
#[derive(Clone)]
struct ClientOperation {
    act: Operation,
    maker: ObjectFactory,
}

impl AsyncStep<Client> for ClientOperation {
    async fn step(&self, client: &mut Client, _index: usize, _number: usize) -> Result<()> {
        let (method, content, (path, body)) = match self.act {
            Operation::Create => {
                let (path, object) = self.maker.next();
                (Method::POST, JSON, (path, Bytes::from(object.to_string())))
            }
            Operation::Get => (Method::GET, JSON, client.fixed.clone()),
            Operation::ApplyNew => {
                let (path, object) = self.maker.next_named();
                (Method::PATCH, APPLY, applied(&path, &object))
            }
            Operation::ApplySame => (Method::PATCH, APPLY, client.fixed.clone()),
        };
        let answer = client.connection.open_as(method, &path, content, body).await?;
        let status = answer.status();
        let answer = answer.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{:?} {path}: {status}: {}", self.act, String::from_utf8_lossy(&answer));
        Ok(())
    }
}

fn applied(path: &str, object: &Value) -> (String, Bytes) {
    (format!("{path}?fieldManager=bench"), Bytes::from(object.to_string()))
}

/// One of the servers under test.
struct ServerUnderTest {
    name: &'static str,
    endpoint: Endpoint,
    maker: ObjectFactory,
    acts: &'static [Operation],
    samples: BTreeMap<Operation, Vec<Sample>>,
}

impl ServerUnderTest {
    fn new(
        name: &'static str,
        endpoint: &Endpoint,
        maker: ObjectFactory,
        acts: &'static [Operation],
    ) -> Self {
        Self { name, endpoint: endpoint.clone(), maker, acts, samples: BTreeMap::new() }
    }

    async fn measure(&mut self, act: Operation, connections: usize, duration: Duration) -> Result<Sample> {
        let shared = (act == Operation::Get).then(|| self.maker.next_named());
        if let Some((path, object)) = &shared {
            let collection = path.rsplit_once('/').map_or("", |(collection, _)| collection);
            self.endpoint.connect().await?.json(Method::POST, collection, object).await?;
        }
        let start = |_| {
            let (endpoint, maker, shared) = (self.endpoint.clone(), self.maker.clone(), shared.clone());
            async move {
                let fixed = match (act, shared) {
                    (_, Some((path, _))) => (path, Bytes::new()),
                    (Operation::ApplySame, None) => {
                        let (path, object) = maker.next_named();
                        applied(&path, &object)
                    }
                    (_, None) => Default::default(),
                };
                let mut connection = endpoint.connect().await?;
                if act == Operation::ApplySame {
                    let (path, body) = fixed.clone();
                    connection
                        .open_as(Method::PATCH, &path, APPLY, body)
                        .await?
                        .into_body()
                        .collect()
                        .await?;
                }
                anyhow::Ok(Client { connection, fixed })
            }
        };
        let sample =
            closed_loop(connections, duration, start, ClientOperation { act, maker: self.maker.clone() })
                .await?;
        self.samples.entry(act).or_default().push(sample.clone());
        Ok(sample)
    }

    fn median(&self, act: Operation) -> Option<Sample> {
        self.samples.get(&act).cloned().map(median)
    }
}

/// Measures and prints. With `only`, the contenders whose name contains it.
pub(crate) async fn run(target: &Servers, connections: usize, only: &str) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let tenant = Endpoint::from_kubeconfig(&target.tenant_kubeconfig)?;
    progress("installing the rivals");
    rival::install_crd(&kube).await?;
    rival::install_empty_backend(&kube).await?;
    let cluster = crate::job::first_member(&target.members)?;
    let _paused = crate::process::PausedProcesses::controllers()?;
    let run = objects::fresh("bench");
    for number in 0..PROJECTS {
        let body = objects::project(&format!("{run}-{number}"), std::slice::from_ref(&cluster));
        tenant.connect().await?.json(Method::POST, &format!("{}/projects", objects::OURS), &body).await?;
    }
    let ours = {
        let run = run.clone();
        ObjectFactory::new(move |number| {
            let project = format!("{run}-{}", number / objects::PER_PROJECT);
            let name = format!("{run}-{number}");
            let object =
                objects::namespace("business.tkestack.io/v1", "Namespace", &project, &cluster, &name);
            (objects::namespaces_path(&project), object)
        })
    };
    let made = |path: String, api_version: String, kind: &'static str| {
        let run = run.clone();
        ObjectFactory::new(move |number| {
            let name = format!("{run}-{number}");
            (path.clone(), objects::namespace(&api_version, kind, "rival", "c", &name))
        })
    };
    let crd = made(rival::crd_path(), format!("{}/v1", rival::CRD), "Rival");
    let empty = made(rival::empty_path(), format!("{}/v1", rival::EMPTY), "Thing");
    let mut contenders = [
        ServerUnderTest::new(DIRECT, &tenant, ours.clone(), ALL),
        ServerUnderTest::new(THROUGH, &kube, ours, CREATES),
        ServerUnderTest::new(CUSTOM, &kube, crd, ALL),
        ServerUnderTest::new(EMPTY, &kube, empty, CREATES),
    ];
    let duration = Duration::from_secs(target.seconds);
    for round in 1..=target.rounds {
        for contender in contenders.iter_mut().filter(|contender| contender.name.contains(only)) {
            for act in contender.acts {
                progress(&format!("round {round}: {}: {act:?}", contender.name));
                let sample = contender.measure(*act, connections, duration).await?;
                progress(&format!("    {}", sample.text()));
            }
        }
    }
    print(&contenders, connections);
    Ok(())
}

fn print(contenders: &[ServerUnderTest], connections: usize) {
    let rows: [(&str, Operation, &str, &str, &str); 6] = [
        ("create, direct / custom resource", Operation::Create, DIRECT, CUSTOM, "≥ 8 ×, p99 ≤ 25 ms"),
        ("create, through / aggregator's ceiling", Operation::Create, THROUGH, EMPTY, "≥ 0.85 ×"),
        ("create, through / custom resource", Operation::Create, THROUGH, CUSTOM, "≥ 2.2 ×"),
        ("GET by name, direct / custom resource", Operation::Get, DIRECT, CUSTOM, "≥ 4 ×"),
        ("apply that creates, direct / custom resource", Operation::ApplyNew, DIRECT, CUSTOM, "≥ 8 ×"),
        (
            "apply that changes nothing, direct / custom resource",
            Operation::ApplySame,
            DIRECT,
            CUSTOM,
            "≥ 8 ×",
        ),
    ];
    let of =
        |name: &str, act: Operation| contenders.iter().find(|c| c.name == name).and_then(|c| c.median(act));
    let mut table = Table::default();
    for (what, act, ours, rival, goal) in rows {
        let (ours, rival) = (of(ours, act), of(rival, act));
        let ratio = ours.as_ref().zip(rival.as_ref()).map(|(ours, rival)| ours.rate / rival.rate.max(1e-9));
        let text = |sample: Option<Sample>| sample.map_or_else(|| "–".to_owned(), |sample| sample.text());
        table.row(&format!("{what}, {connections} connections"), text(ours), text(rival), ratio, goal);
    }
    table.print();
}
