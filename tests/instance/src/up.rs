//! `cargo xtask up` and `cargo xtask down`.

use crate::demo;
use crate::identity;
use crate::job;
use crate::layout::Layout;
use crate::manifests;
use crate::patroni::{self, HaOptions};
use crate::platform::{Instance, Options};
use crate::process::ProcessIdentity;
use crate::state::InstanceState;
use crate::supervisor::stop_left_behind;
use crate::wait::{self, Progress};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use terminal::caller::Caller;
use terminal::line::{Postgres, Up};
use terminal::say;

const DETACHED: Duration = Duration::from_mins(10);
const STOPPED: Duration = Duration::from_mins(3);

/// What `up` was asked for, and what only tests ask for.
#[derive(Clone, Debug)]
pub struct UpArgs {
    /// What a person can ask for.
    pub up: Up,
    /// The directory of a test's instance.
    pub instance: Option<String>,
    /// Time between two audits of the member clusters.
    pub audit_period: Option<String>,
    /// Time within which member clusters count use again.
    pub quota_recount: Option<String>,
}

impl UpArgs {
    fn options(&self) -> Options {
        // A check never touches what a running instance uses, and DATABASE_URL may be just that.
        let variable = std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty() && !self.up.check);
        let database_url = match &self.up.postgres {
            Some(Postgres::Url(url)) => Some(url.clone()),
            Some(Postgres::Ha) => None,
            None => variable,
        };
        let ha = (self.up.postgres == Some(Postgres::Ha)).then(HaOptions::default);
        Options {
            kubeconfig: self.up.kubeconfig.clone(),
            members: self.up.members,
            advertise_address: self.up.advertise_address.clone(),
            replicas: self.up.replicas,
            controllers: self.up.controllers,
            fleet: None,
            database_url,
            database_tls: false,
            archives: false,
            ha,
            bare: false,
            audit_period: self.audit_period.clone(),
            quota_recount: self.quota_recount.clone(),
        }
    }

    fn layout(&self) -> Result<Layout> {
        match self.instance.as_deref() {
            None => Ok(Layout::of_up()),
            Some("accept") => Ok(Layout::of_accept()),
            Some(other) => bail!("there is no instance {other}"),
        }
    }
}

/// Runs `up` in one of its three ways.
pub fn up(asked: &UpArgs, caller: &Caller) -> Result<()> {
    if asked.up.check {
        return check(&asked.options(), caller);
    }
    if asked.up.detach {
        return detach(&asked.layout()?);
    }
    wait::listen_for_signals()?;
    let instance = Instance::start(&asked.layout()?, &asked.options())?;
    if let Err(error) = first_objects(&instance) {
        instance.stop()?;
        return Err(error);
    }
    guide(&instance, caller.elapsed());
    wait::until_interrupted();
    say::line("stopping; the data stays");
    instance.stop()
}

/// What `up` shows once everything runs.
pub fn first_objects(instance: &Instance) -> Result<()> {
    say::step("the default template applied", || {
        manifests::apply(&instance.kubectl, &manifests::render(&instance.kubectl, "deploy/templates")?)
    })?;
    say::step("two tenants, their people and a namespace Available", || demo::make(instance))
}

/// The main job from an empty directory to an empty directory.
fn check(options: &Options, caller: &Caller) -> Result<()> {
    wait::listen_for_signals()?;
    let layout = Layout::of_check();
    clear(&layout)?;
    let instance = Instance::start(&layout, &Options { members: options.members.max(1), ..options.clone() })?;
    let outcome = job::main_job(&instance);
    let stopped = say::step("everything stopped", || instance.stop());
    outcome.and(stopped)?;
    clear(&layout)?;
    say::line(format_args!("the main job works: {}", say::seconds(caller.elapsed())));
    Ok(())
}

/// Starts `up` again in the background and shows its lines until it is ready.
fn detach(layout: &Layout) -> Result<()> {
    wait::listen_for_signals()?;
    std::fs::create_dir_all(layout.path("logs"))?;
    let path = layout.path("logs/up.log");
    let log = File::options().create(true).append(true).open(&path)?;
    let mut shown = BufReader::new(File::open(&path)?);
    shown.seek(SeekFrom::End(0))?;
    let me = std::env::current_exe()?;
    let args = std::env::args_os().skip(1).filter(|arg| arg != "--detach");
    let mut child = Command::new(me)
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    let mine = ProcessIdentity::of(child.id());
    let mut show = move || -> Result<()> {
        let mut text = Vec::new();
        shown.read_to_end(&mut text)?;
        String::from_utf8_lossy(&text).lines().for_each(say::line);
        Ok(())
    };
    wait::until("up", DETACHED, || {
        show()?;
        if let Some(status) = child.try_wait()? {
            show()?;
            bail!("up ended ({status}); its lines are in {}", path.display());
        }
        let state = InstanceState::load(&layout.path("state.json"))?;
        let guided =
            std::fs::read_to_string(layout.path("ready")).is_ok_and(|pid| pid == child.id().to_string());
        Ok(match (state.ready && guided && state.supervisor == mine).then_some(()) {
            Some(()) => Progress::Done(()),
            None => Progress::Pending("starting".to_owned()),
        })
    })?;
    show()?;
    say::line("running in the background; `cargo xtask down` stops it");
    Ok(())
}

fn guide(instance: &Instance, took: Duration) {
    let dir = &instance.layout.dir;
    let dir = dir.strip_prefix(std::env::current_dir().unwrap_or_default()).unwrap_or(dir);
    let password = dir.join(identity::NAME).join("password");
    let dir = dir.display();
    say::line(format_args!("up in {}; clusters: {}", say::seconds(took), instance.clusters.join(", ")));
    say::line(format_args!("  export KUBECONFIG={dir}/kubeconfig PATH=\"$PWD/.dev/bin:$PATH\""));
    say::line("  kubectl get tenants,projects,bns -A");
    say::line(
        "  kubectl business tree --namespaces                 # who holds what; `kubectl business --help` has the rest",
    );
    say::line("  kubectl explain project.spec");
    say::line(format_args!("  kubectl --kubeconfig {dir}/tenant.kubeconfig get projects"));
    if let Some(provider) = &instance.provider {
        if let Some(origin) = provider.consoles.first() {
            say::line(format_args!(
                "  console: {origin}/console/; everybody's password is in {}",
                password.display()
            ));
        }
        let people = identity::PEOPLE.map(|person| person.name).join(", ");
        say::line(format_args!("  cargo xtask login alice; there are {people}"));
    }
    if let Some(cluster) = &instance.patroni {
        say::line(format_args!("  {}   # who leads PostgreSQL", cluster.show()));
    }
    if let Some(registry) = &instance.registry {
        say::line(format_args!(
            "  registry: {}; a name and a password for it is a RegistryCredential",
            registry.host()
        ));
    }
    for cluster in &instance.clusters {
        say::line(format_args!("  kubectl --kubeconfig {dir}/members/{cluster}.kubeconfig get namespaces"));
    }
    say::line(format_args!("logs are in {dir}/logs; Ctrl-C or `cargo xtask down` stops everything"));
    let ready = std::fs::write(instance.layout.path("ready"), std::process::id().to_string());
    if let Err(error) = ready {
        say::line(format_args!("{dir}/ready cannot be written: {error}"));
    }
}

/// Logs somebody in at a running instance, and says how he goes on.
pub fn login(person: &str) -> Result<()> {
    let layout = Layout::of_up();
    ensure!(
        InstanceState::load(&layout.path("state.json"))?.ready,
        "nothing is running: `cargo xtask up` first"
    );
    let file = identity::login(&layout, person)?;
    let here = std::env::current_dir().unwrap_or_default();
    let file = file.strip_prefix(here).unwrap_or(&file).display();
    say::line(format_args!("{person} is logged in; tokens are refreshed as long as the platform runs"));
    say::line(format_args!("  export KUBECONFIG={file} PATH=\"$PWD/.dev/bin:$PATH\""));
    say::line("  kubectl get projects                       # through kube-apiserver");
    say::line("  kubectl --context direct get projects      # directly at business-api");
    say::line("  kubectl --context direct get --raw /whoami");
    Ok(())
}

/// Stops a running instance, and deletes its data when asked to.
pub fn down(wipe: bool) -> Result<()> {
    let layout = Layout::of_up();
    stop(&layout)?;
    if wipe {
        for other in Layout::of_tests() {
            let state = InstanceState::load(&other.path("state.json"))?;
            if state.supervisor.as_ref().is_some_and(ProcessIdentity::alive) {
                bail!("a check or test is running in {}: nothing is deleted", other.dir.display());
            }
            clear(&other)?;
            if other.dir.exists() {
                std::fs::remove_dir_all(&other.dir)?;
            }
        }
        clear(&layout)?;
        say::line("all data deleted");
    }
    Ok(())
}

fn stop(layout: &Layout) -> Result<()> {
    let file = layout.path("state.json");
    if !file.exists() {
        say::line("nothing is running");
        return Ok(());
    }
    let state = InstanceState::load(&file)?;
    if let Some(supervisor) = state.supervisor.filter(ProcessIdentity::alive) {
        supervisor.signal(Signal::SIGTERM)?;
        wait::until("up ended", STOPPED, || {
            Ok(if supervisor.alive() {
                Progress::Pending("it is stopping".to_owned())
            } else {
                Progress::Done(())
            })
        })?;
    }
    let mut state = InstanceState::load(&file)?;
    for child in std::mem::take(&mut state.children).iter().rev() {
        stop_left_behind(child)?;
    }
    state.supervisor = None;
    state.ready = false;
    state.save(&file)?;
    say::line("stopped");
    Ok(())
}

/// Makes an instance's directory empty: what a killed one left running is stopped first.
pub fn clear(layout: &Layout) -> Result<()> {
    let state = InstanceState::load(&layout.path("state.json"))?;
    if let Some(other) = state.supervisor.filter(ProcessIdentity::alive) {
        bail!("process {} is at work in {}", other.pid, layout.dir.display());
    }
    for child in state.children.iter().rev() {
        stop_left_behind(child)?;
    }
    if let Some(dir) = state.postgres_dir.filter(|dir| dir.exists()) {
        patroni::remove_disks(&dir)?;
        std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    layout.wipe()
}
