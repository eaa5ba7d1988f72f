//! The main job: from POST to usable, for one and for many, beside plain loops in the member cluster.

use crate::load::Sample;
use crate::table::{Table, progress};
use crate::watch::Stream;
use crate::{Servers, objects, process};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use instance::HOST_CLUSTER;
use kit::{Connection, Endpoint};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CLIENTS: usize = 16;
const PATIENCE: Duration = Duration::from_mins(10);
/// Namespaces of a project while the platform is filled.
const FILL_STEP: usize = 500;
const NAMESPACES: &str = "/api/v1/namespaces";
/// What is written in a small and in a large project.
const WRITES: [&str; 4] = ["namespace create", "namespace raise", "namespace delete", "project spec patch"];
const WRITE_ROUNDS: usize = 4;
const WRITES_A_ROUND: usize = 50;
/// Microseconds of each of [`WRITES`].
type Writes = [Vec<u64>; WRITES.len()];

/// The first member cluster's name.
pub(crate) fn first_member(folder: &Path) -> Result<String> {
    members(folder)?.into_iter().next().context("no member cluster")
}

/// A member cluster that can be silent while the platform goes on: any but its own.
pub(crate) fn other_member(folder: &Path) -> Result<String> {
    let other = members(folder)?.into_iter().find(|name| name != HOST_CLUSTER);
    other.context("a member cluster besides the host cluster is needed (--members 1)")
}

/// The member clusters' names, from the files in their folder.
fn members(members: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = std::fs::read_dir(members)
        .with_context(|| format!("read {}", members.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".kubeconfig").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

/// Fills the platform with namespaces, the same number in every cluster, and tells what the programs take then.
pub(crate) async fn fill(target: &Servers, size: usize) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let clusters = members(&target.members)?;
    let begin = Instant::now();
    let mut made = 0;
    while made < size {
        for cluster in &clusters {
            let (project, _) = new_project(&kube, cluster).await?;
            let path = objects::namespaces_path(&project);
            let objects: Vec<Value> =
                (0..FILL_STEP).map(|n| namespace(&project, cluster, &format!("{project}-{n}"))).collect();
            let mut stream = Stream::open(&kube, &format!("{path}?watch=1")).await?;
            send_all(&kube, objects.iter().map(|o| (Method::POST, path.clone(), o.clone())).collect())
                .await?;
            wait_phase(&mut stream, "Available", &mut names(&objects)).await?;
            made += FILL_STEP;
            progress(&format!("{made} namespaces are Available after {} s", begin.elapsed().as_secs()));
        }
    }
    let mut table = Table::default();
    memory(&mut table)?;
    table.print();
    Ok(())
}

/// Measures and prints.
pub(crate) async fn run(target: &Servers, sizes: &[usize]) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let cluster = first_member(&target.members)?;
    let member = Endpoint::from_kubeconfig(&target.members.join(format!("{cluster}.kubeconfig")))?;
    let mut table = Table::default();
    single(&kube, &cluster, &mut table).await?;
    for &size in sizes {
        many(&kube, &member, &cluster, size, &mut table).await?;
    }
    by_project_size(&kube, &member, &cluster, &mut table).await?;
    memory(&mut table)?;
    table.print();
    Ok(())
}

pub(crate) async fn new_project(kube: &Endpoint, cluster: &str) -> Result<(String, Duration)> {
    let name = objects::fresh("job");
    let collection = format!("{}/projects", objects::OURS);
    let mut connection = kube.connect().await?;
    let sent = Instant::now();
    let body = objects::project(&name, &[cluster.to_owned()]);
    let made = connection.json(Method::POST, &collection, &body).await?;
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let path =
        format!("{collection}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={revision}");
    let mut stream = Stream::open(kube, &path).await?;
    while stream.next().await?["object"]["status"]["phase"] != "Active" {}
    Ok((name, sent.elapsed()))
}

/// One project, one namespace at a time.
async fn single(kube: &Endpoint, cluster: &str, table: &mut Table) -> Result<()> {
    progress("one project, one namespace at a time");
    let mut projects = Vec::new();
    let mut namespaces = Vec::new();
    let begin = Instant::now();
    for _ in 0..20 {
        let (project, usable) = new_project(kube, cluster).await?;
        projects.push(u64::try_from(usable.as_micros())?);
        let path = objects::namespaces_path(&project);
        let mut connection = kube.connect().await?;
        let mut stream = Stream::open(kube, &format!("{path}?watch=1")).await?;
        for number in 0..3 {
            let object = namespace(&project, cluster, &format!("{project}-{number}"));
            let sent = Instant::now();
            connection.json(Method::POST, &path, &object).await?;
            wait_phase(&mut stream, "Available", &mut names(std::slice::from_ref(&object))).await?;
            namespaces.push(u64::try_from(sent.elapsed().as_micros())?);
        }
        delete(kube, &format!("{}/projects/{project}", objects::OURS)).await?;
    }
    let projects = Sample::new(projects, begin.elapsed());
    let namespaces = Sample::new(namespaces, begin.elapsed());
    let text = |s: &Sample| format!("p50 {:.0} ms, p99 {:.0} ms", s.quantile_ms(0.5), s.quantile_ms(0.99));
    table.row(
        "a project, POST to Active",
        text(&projects),
        "5.0 s (the old system)".to_owned(),
        None,
        "≤ 0.3 s",
    );
    let goal = "p50 ≤ 0.3 s, p99 ≤ 1 s";
    table.row(
        "a namespace, POST to Available",
        text(&namespaces),
        "5.1 s (the old system)".to_owned(),
        None,
        goal,
    );
    Ok(())
}

pub(crate) fn namespace(project: &str, cluster: &str, name: &str) -> Value {
    let mut object = objects::namespace("business.tkestack.io/v1", "Namespace", project, cluster, name);
    object["metadata"]["annotations"] = json!({});
    object
}

pub(crate) fn names(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().filter_map(|o| o["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

pub(crate) async fn wait_phase(
    stream: &mut Stream,
    phase: &str,
    waiting: &mut BTreeSet<String>,
) -> Result<()> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !waiting.is_empty() {
        let next = tokio::time::timeout_at(deadline, stream.next()).await;
        let event = next.with_context(|| format!("{} objects do not become {phase}", waiting.len()))??;
        let reached =
            event["object"]["status"]["phase"] == phase || (phase == "gone" && event["type"] == "DELETED");
        if reached {
            waiting.remove(event["object"]["metadata"]["name"].as_str().unwrap_or_default());
        }
    }
    Ok(())
}

pub(crate) async fn delete(endpoint: &Endpoint, path: &str) -> Result<()> {
    endpoint.connect().await?.call(Method::DELETE, path, Bytes::new()).await?;
    Ok(())
}

/// Sends every request, `CLIENTS` at a time, each client with a connection of its own.
pub(crate) async fn send_all(endpoint: &Endpoint, requests: Vec<(Method, String, Value)>) -> Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let share: Vec<_> = requests.iter().skip(client).step_by(CLIENTS).cloned().collect();
        let endpoint = endpoint.clone();
        clients.spawn(async move {
            let mut connection: Connection = endpoint.connect().await?;
            for (method, path, body) in share {
                connection.json(method, &path, &body).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(())
}

/// `size` namespaces of one project there and back, beside plain loops in the member cluster.
async fn many(
    kube: &Endpoint,
    member: &Endpoint,
    cluster: &str,
    size: usize,
    table: &mut Table,
) -> Result<()> {
    progress(&format!("{size} namespaces of one project"));
    let (project, _) = new_project(kube, cluster).await?;
    let path = objects::namespaces_path(&project);
    let objects: Vec<Value> =
        (0..size).map(|n| namespace(&project, cluster, &format!("{project}-{n}"))).collect();
    let mut stream = Stream::open(kube, &format!("{path}?watch=1")).await?;
    let begin = Instant::now();
    send_all(kube, objects.iter().map(|o| (Method::POST, path.clone(), o.clone())).collect()).await?;
    wait_phase(&mut stream, "Available", &mut names(&objects)).await?;
    let created = begin.elapsed();

    progress(&format!("{size} namespaces in a plain loop"));
    let plain: Vec<String> = (0..size).map(|n| format!("plain-{project}-{n}")).collect();
    let begin = Instant::now();
    let create = |name: &String| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        (Method::POST, NAMESPACES.to_owned(), object)
    };
    let limit = |name: &String| {
        let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name},
            "spec": {"hard": {"requests.cpu": "100m", "requests.memory": "64Mi"}}});
        (Method::POST, format!("{NAMESPACES}/{name}/resourcequotas"), object)
    };
    send_all(member, plain.iter().map(create).collect()).await?;
    send_all(member, plain.iter().map(limit).collect()).await?;
    let plain_created = begin.elapsed();

    progress(&format!("deleting {size} namespaces"));
    let begin = Instant::now();
    let one = |name: &String| (Method::DELETE, format!("{path}/{name}"), Value::Null);
    send_all(kube, names(&objects).iter().map(one).collect()).await?;
    wait_phase(&mut stream, "gone", &mut names(&objects)).await?;
    let deleted = begin.elapsed();

    progress(&format!("deleting {size} namespaces in a plain loop"));
    let mut watch = Stream::open(member, &format!("{NAMESPACES}?watch=1")).await?;
    let begin = Instant::now();
    let one = |name: &String| (Method::DELETE, format!("{NAMESPACES}/{name}"), Value::Null);
    send_all(member, plain.iter().map(one).collect()).await?;
    wait_phase(&mut watch, "gone", &mut plain.iter().cloned().collect()).await?;
    let plain_deleted = begin.elapsed();
    delete(kube, &format!("{}/projects/{project}", objects::OURS)).await?;

    let rate = |d: Duration| f64::from(u32::try_from(size).unwrap_or(u32::MAX)) / d.as_secs_f64();
    let text = |d: Duration| format!("{:.2} s, {:.0}/s", d.as_secs_f64(), rate(d));
    let measure = format!("{size} namespaces of one project to Available / plain loop");
    table.row(
        &measure,
        text(created),
        text(plain_created),
        Some(rate(created) / rate(plain_created)),
        "≥ 0.20 × at 1,000",
    );
    let measure = format!("deletion of {size} namespaces / plain loop");
    table.row(
        &measure,
        text(deleted),
        text(plain_deleted),
        Some(rate(deleted) / rate(plain_deleted)),
        "≥ 0.50 × at 1,000",
    );
    Ok(())
}

/// The same writes in a project of 10 and of 1,000 namespaces.
async fn by_project_size(kube: &Endpoint, member: &Endpoint, cluster: &str, table: &mut Table) -> Result<()> {
    let mut projects = Vec::new();
    for size in [10, 1000] {
        progress(&format!("a project of {size} namespaces"));
        let (project, _) = new_project(kube, cluster).await?;
        let path = objects::namespaces_path(&project);
        let objects: Vec<Value> =
            (0..size).map(|n| namespace(&project, cluster, &format!("{project}-{n}"))).collect();
        let mut stream = Stream::open(kube, &format!("{path}?watch=1")).await?;
        send_all(kube, objects.iter().map(|o| (Method::POST, path.clone(), o.clone())).collect()).await?;
        wait_phase(&mut stream, "Available", &mut names(&objects)).await?;
        projects.push((project, Writes::default()));
    }
    settle(member).await?;
    // In turns, so that what else the machine does is the same for both.
    for round in 0..WRITE_ROUNDS {
        for (project, times) in &mut projects {
            progress(&format!("writes in {project}, round {}", round + 1));
            writes(kube, cluster, project, round, times).await?;
        }
    }
    for (project, _) in &projects {
        delete(kube, &format!("{}/projects/{project}", objects::OURS)).await?;
    }
    let Ok([(_, small), (_, large)]) = <[_; 2]>::try_from(projects) else { return Ok(()) };
    for (name, (small, large)) in WRITES.iter().zip(small.into_iter().zip(large)) {
        let median = |times| Sample::new(times, Duration::from_secs(1)).quantile_ms(0.5);
        let (small, large) = (median(small), median(large));
        let measure = format!("{name} in a project of 1,000 / of 10 namespaces, p50");
        let text = |ms: f64| format!("{ms:.2} ms");
        table.row(&measure, text(large), text(small), Some(large / small), "≤ 1.2 ×");
    }
    Ok(())
}

/// Waits until a cluster has given each of its namespaces what every namespace gets: that work goes on for a minute
/// after a thousand were made, and would be measured, too.
pub(crate) async fn settle(member: &Endpoint) -> Result<()> {
    let mut connection = member.connect().await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut counts = Vec::new();
        for path in [
            NAMESPACES,
            "/api/v1/serviceaccounts?fieldSelector=metadata.name%3Ddefault",
            "/api/v1/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt",
        ] {
            let list = connection.json(Method::GET, path, &Value::Null).await?;
            counts.push(list["items"].as_array().map_or(0, Vec::len));
        }
        if let [namespaces, rest @ ..] = counts.as_slice()
            && rest.iter().all(|count| count >= namespaces)
        {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the cluster is still at work: {counts:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn writes(
    kube: &Endpoint,
    cluster: &str,
    project: &str,
    round: usize,
    times: &mut Writes,
) -> Result<()> {
    let path = objects::namespaces_path(project);
    let mut connection = kube.connect().await?;
    for number in 0..WRITES_A_ROUND {
        let object = namespace(project, cluster, &format!("{project}-w{round}-{number}"));
        let one = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        let raise = json!({"spec": {"hard": {"requests.cpu": "200m", "requests.memory": "64Mi"}}});
        let patch = json!({"spec": {"displayName": format!("after {round}-{number}")}});
        let steps = [
            (Method::POST, path.clone(), object),
            (Method::PATCH, one.clone(), raise),
            (Method::DELETE, one, Value::Null),
            (Method::PATCH, format!("{}/projects/{project}", objects::OURS), patch),
        ];
        for (times, (method, path, body)) in times.iter_mut().zip(steps) {
            let sent = Instant::now();
            connection.json(method, &path, &body).await?;
            times.push(u64::try_from(sent.elapsed().as_micros())?);
        }
    }
    Ok(())
}

/// Resident memory of both programs as they are now.
fn memory(table: &mut Table) -> Result<()> {
    for (program, goal) in
        [("business-controller", "≤ 300 MB at 10,000 namespaces"), ("business-api", "≤ 200 MB")]
    {
        for bytes in process::resident(program)? {
            let text = format!("{:.0} MB", bytes / 1e6);
            table.row(&format!("resident memory of {program} now"), text, "–".to_owned(), None, goal);
        }
    }
    Ok(())
}
