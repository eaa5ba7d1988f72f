//! `cargo xtask up` and `cargo xtask down`.

use crate::instance::{Instance, Options};
use crate::job;
use crate::layout::Layout;
use crate::process::Identity;
use crate::say;
use crate::state::State;
use crate::supervisor::stop_left_behind;
use crate::wait::{self, Seen};
use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A cold start builds programs and the control plane first.
const DETACHED: Duration = Duration::from_hours(1);
const STOPPED: Duration = Duration::from_mins(3);

/// What `up` was asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Up {
    /// Run the whole main job in a directory of its own, stop everything, and say whether it worked.
    #[arg(long)]
    check: bool,
    /// Whom to talk to.
    #[arg(short, long, value_enum, default_value_t, requires = "check")]
    pub(crate) output: say::Output,
    /// Go on in the background once everything runs.
    #[arg(long, conflicts_with = "check")]
    detach: bool,
    /// A cluster you have, instead of a local control plane.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Member clusters besides the host cluster.
    #[arg(long, value_name = "N", default_value_t = 0)]
    members: u8,
    /// Address of this machine as the cluster of --kubeconfig reaches it.
    #[arg(long, value_name = "ADDRESS", requires = "kubeconfig")]
    advertise_address: Option<String>,
    /// Replicas of business-api.
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: u8,
    /// The directory of a test's instance.
    #[arg(long, hide = true, value_name = "NAME")]
    instance: Option<String>,
    /// Only PostgreSQL and the clusters.
    #[arg(long, hide = true)]
    bare: bool,
    /// Time between two audits of the member clusters.
    #[arg(long, hide = true, value_name = "TIME")]
    audit_period: Option<String>,
}

impl Up {
    fn options(&self) -> Options {
        // A check never touches what a running instance uses, and DATABASE_URL may be just that.
        let database_url = std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty() && !self.check);
        Options {
            kubeconfig: self.kubeconfig.clone(),
            members: self.members,
            advertise_address: self.advertise_address.clone(),
            replicas: self.replicas,
            database_url,
            bare: self.bare,
            release: false,
            audit_period: self.audit_period.clone(),
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
pub(crate) fn up(args: &Up) -> Result<()> {
    if args.check {
        return check(&args.options());
    }
    if args.detach {
        return detach(&args.layout()?);
    }
    wait::listen_for_signals()?;
    let start = Instant::now();
    let instance = Instance::start(&args.layout()?, &args.options())?;
    let shown = if args.bare { Ok(()) } else { first_objects(&instance) };
    if let Err(error) = shown {
        instance.stop()?;
        return Err(error);
    }
    guide(&instance, start.elapsed());
    wait::until_interrupted(|| Ok(()))?;
    say::line("stopping; the data stays");
    instance.stop()
}

fn first_objects(instance: &Instance) -> Result<()> {
    say::step("first project and namespace Available", || job::first(instance))
}

/// The main job from an empty directory to an empty directory.
pub(crate) fn check(options: &Options) -> Result<()> {
    wait::listen_for_signals()?;
    let layout = Layout::of_check();
    clear(&layout)?;
    let start = Instant::now();
    let instance = Instance::start(&layout, &Options { members: options.members.max(1), ..options.clone() })?;
    let outcome = job::main_job(&instance);
    let stopped = say::step("everything stopped", || instance.stop());
    outcome.and(stopped)?;
    clear(&layout)?;
    say::line(format_args!("the main job works: {}", say::seconds(start.elapsed())));
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
    let mine = Identity::of(child.id());
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
        let state = State::load(&layout.path("state.json"))?;
        let guided =
            std::fs::read_to_string(layout.path("ready")).is_ok_and(|pid| pid == child.id().to_string());
        Ok(match (state.ready && guided && state.supervisor == mine).then_some(()) {
            Some(()) => Seen::Yes(()),
            None => Seen::NotYet("starting".to_owned()),
        })
    })?;
    show()?;
    say::line("running in the background; `cargo xtask down` stops it");
    Ok(())
}

fn guide(instance: &Instance, took: Duration) {
    let dir = &instance.layout.dir;
    let dir = dir.strip_prefix(std::env::current_dir().unwrap_or_default()).unwrap_or(dir).display();
    say::line(format_args!("up in {}; clusters: {}", say::seconds(took), instance.clusters.join(", ")));
    say::line(format_args!("  export KUBECONFIG={dir}/kubeconfig PATH=\"$PWD/{dir}/bin:$PATH\""));
    if !instance.apis.is_empty() {
        say::line("  kubectl get projects,bns -A -o wide");
        say::line("  kubectl explain project.spec");
        say::line(format_args!("  kubectl --kubeconfig {dir}/tenant.kubeconfig get projects"));
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

/// Stops a running instance, and deletes its data when asked to.
pub(crate) fn down(wipe: bool) -> Result<()> {
    let layout = Layout::of_up();
    stop(&layout)?;
    if wipe {
        for other in [Layout::of_check(), Layout::of_accept(), Layout::of_manifests(), Layout::of_bench()] {
            let state = State::load(&other.path("state.json"))?;
            if state.supervisor.as_ref().is_some_and(Identity::alive) {
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
    let state = State::load(&file)?;
    if let Some(supervisor) = state.supervisor.filter(Identity::alive) {
        supervisor.signal(Signal::SIGTERM)?;
        wait::until("up ended", STOPPED, || {
            Ok(if supervisor.alive() { Seen::NotYet("it is stopping".to_owned()) } else { Seen::Yes(()) })
        })?;
    }
    let mut state = State::load(&file)?;
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
pub(crate) fn clear(layout: &Layout) -> Result<()> {
    let state = State::load(&layout.path("state.json"))?;
    if let Some(other) = state.supervisor.filter(Identity::alive) {
        bail!("process {} is at work in {}", other.pid, layout.dir.display());
    }
    for child in state.children.iter().rev() {
        stop_left_behind(child)?;
    }
    if let Some(dir) = state.postgres_dir.filter(|dir| dir.exists()) {
        std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    layout.wipe()
}
