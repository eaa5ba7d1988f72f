//! kube-rs's watcher, reflector and store against the server: lists in pages and as a stream, changes, and a network
//! that is away for longer than the server remembers.

mod project;
mod proxy;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser as _;
use futures_util::StreamExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config, ResourceExt as _};
use project::{Project, project};
use proxy::TestProxy;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(50);
/// Small, so that a few objects take several pages.
const PAGE: u32 = 2;
const OBJECTS: usize = 5;

/// What the compaction itself does.
const COMPACT: &str = "UPDATE compaction SET compacted = $1 WHERE id = 1 AND compacted < $1";

/// The same tests for one way to the server.
#[derive(Debug, clap::Parser)]
struct Args {
    /// Whom to ask, and as whom.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The server's database, to make it forget.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let file = kube::config::Kubeconfig::read_from(&args.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await?;
    let api = Api::<Project>::all(Client::try_from(config.clone())?);
    for streaming in [false, true] {
        follows(&api, streaming).await.with_context(|| format!("streaming lists: {streaming}"))?;
        relists(&api, &config, &args.database_url, streaming)
            .await
            .with_context(|| format!("after a partition, streaming lists: {streaming}"))?;
    }
    metadata_only(&api).await.context("metadata only")
}

fn options(mark: &str, streaming: bool) -> watcher::Config {
    let options = watcher::Config::default().labels(&format!("mark={mark}"));
    if streaming { options.streaming_lists() } else { options.page_size(PAGE) }
}

/// A store kept by a reflector, and how often it was filled anew.
struct ReflectedStore {
    store: Store<Project>,
    list_count: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl ReflectedStore {
    async fn start(api: Api<Project>, options: watcher::Config) -> Result<Self> {
        let (store, writer) = reflector::store();
        let list_count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&list_count);
        let stream = watcher(api, options)
            .default_backoff()
            .inspect(move |event| {
                if matches!(event, Ok(watcher::Event::InitDone)) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            })
            .reflect(writer);
        let task = tokio::spawn(async move { stream.for_each(|_event| std::future::ready(())).await });
        tokio::time::timeout(PATIENCE, store.wait_until_ready())
            .await
            .context("the store is not ready")??;
        Ok(Self { store, list_count, task })
    }

    fn held(&self) -> BTreeMap<String, String> {
        self.store.state().iter().map(|object| named(object.as_ref())).collect()
    }

    /// Waits until the store holds exactly what the server lists.
    async fn agrees(&self, api: &Api<Project>, mark: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let listed = listed(api, mark).await?;
            let held = self.held();
            if held == listed {
                return Ok(());
            }
            ensure!(Instant::now() < end, "the store holds {held:?}, the server lists {listed:?}");
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for ReflectedStore {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Name and resourceVersion.
fn named(object: &Project) -> (String, String) {
    (object.name_any(), version(object))
}

fn version(object: &Project) -> String {
    object.resource_version().unwrap_or_default()
}

async fn listed(api: &Api<Project>, mark: &str) -> Result<BTreeMap<String, String>> {
    let list = api.list(&ListParams::default().labels(&format!("mark={mark}"))).await?;
    Ok(list.items.iter().map(named).collect())
}

async fn create(api: &Api<Project>, name: &str, mark: &str) -> Result<Project> {
    Ok(api.create(&PostParams::default(), &project(name, mark)).await?)
}

/// Deletes what a test made; the controller may be at it already, or done.
async fn clear(api: &Api<Project>, mark: &str) -> Result<()> {
    for name in listed(api, mark).await?.into_keys() {
        match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            other => drop(other?),
        }
    }
    Ok(())
}

fn fresh(prefix: &str) -> String {
    format!("{prefix}-{:08x}", rand::random::<u32>())
}

/// The store follows what is created, changed and deleted.
async fn follows(api: &Api<Project>, streaming: bool) -> Result<()> {
    let mark = fresh("follow");
    for number in 0..OBJECTS {
        create(api, &format!("{mark}-{number}"), &mark).await?;
    }
    let reflected = ReflectedStore::start(api.clone(), options(&mark, streaming)).await?;
    reflected.agrees(api, &mark).await?;
    ensure!(reflected.store.len() == OBJECTS, "the store holds {} objects", reflected.store.len());
    create(api, &format!("{mark}-new"), &mark).await?;
    let changed = Patch::Merge(json!({"spec": {"displayName": "changed"}}));
    api.patch(&format!("{mark}-0"), &PatchParams::default(), &changed).await?;
    let unmarked = Patch::Merge(json!({"metadata": {"labels": {"mark": null}}}));
    api.patch(&format!("{mark}-1"), &PatchParams::default(), &unmarked).await?;
    api.delete(&format!("{mark}-2"), &DeleteParams::default()).await?;
    reflected.agrees(api, &mark).await?;
    let key = reflector::ObjectRef::new(&format!("{mark}-0"));
    let shown = reflected.store.get(&key).context("the changed object is not in the store")?;
    ensure!(shown.spec.display_name == "changed", "the store shows {:?}", shown.spec);
    api.delete(&format!("{mark}-1"), &DeleteParams::default()).await?;
    clear(api, &mark).await
}

/// The network is away while the server forgets what happened: the watcher lists again and the store agrees.
async fn relists(api: &Api<Project>, config: &Config, database: &str, streaming: bool) -> Result<()> {
    let mark = fresh("relist");
    let proxy = TestProxy::new(authority(config)?).await?;
    let mut through = config.clone();
    through.cluster_url = format!("https://127.0.0.1:{}", proxy.port).parse()?;
    let gone = create(api, &format!("{mark}-gone"), &mark).await?;
    create(api, &format!("{mark}-stays"), &mark).await?;
    let reflected =
        ReflectedStore::start(Api::all(Client::try_from(through)?), options(&mark, streaming)).await?;
    reflected.agrees(api, &mark).await?;
    proxy.cut();
    api.delete(&gone.name_any(), &DeleteParams::default()).await?;
    absent(api, &gone.name_any()).await?;
    let new = create(api, &format!("{mark}-new"), &mark).await?;
    forget(api, database, &version(&gone), &version(&new)).await?;
    proxy.mend();
    reflected.agrees(api, &mark).await?;
    let list_count = reflected.list_count.load(Ordering::Relaxed);
    ensure!(list_count >= 2, "the store was filled {list_count} times: nothing was forgotten");
    drop(reflected);
    clear(api, &mark).await
}

fn authority(config: &Config) -> Result<String> {
    let url = &config.cluster_url;
    let host = url.host().context("the server has no name")?;
    Ok(format!("{host}:{}", url.port_u16().unwrap_or(443)))
}

async fn absent(api: &Api<Project>, name: &str) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while api.get_opt(name).await?.is_some() {
        ensure!(Instant::now() < end, "{name} is still there");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Compacts the history up to now, and waits until a watch from `since` is refused.
async fn forget(api: &Api<Project>, database: &str, since: &str, until: &str) -> Result<()> {
    let pool = sqlx::PgPool::connect(database).await.context("connect to the database")?;
    sqlx::query(COMPACT).bind(until.parse::<i64>()?).execute(&pool).await?;
    pool.close().await;
    let end = Instant::now() + PATIENCE;
    while !is_forgotten(api, since).await? {
        ensure!(Instant::now() < end, "the server still remembers {since}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

async fn is_forgotten(api: &Api<Project>, since: &str) -> Result<bool> {
    let mut events = api.watch(&WatchParams::default(), since).await?.boxed();
    Ok(match tokio::time::timeout(PATIENCE, events.next()).await?.context("the watch ended")?? {
        WatchEvent::Error(status) if status.code == 410 => true,
        WatchEvent::Error(status) => bail!("the watch ended with {status:?}"),
        _ => false,
    })
}

/// What needs no spec asks for metadata only.
async fn metadata_only(api: &Api<Project>) -> Result<()> {
    let mark = fresh("meta");
    create(api, &mark, &mark).await?;
    let partial: Api<PartialObjectMeta<Project>> = Api::all(api.clone().into_client());
    let mut events = watcher(partial, options(&mark, true)).default_backoff().applied_objects().boxed();
    let object = tokio::time::timeout(PATIENCE, events.next()).await?.context("the watch ended")??;
    ensure!(object.name_any() == mark, "the watch shows {}", object.name_any());
    clear(api, &mark).await
}
