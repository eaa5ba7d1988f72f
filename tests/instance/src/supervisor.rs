//! Starts child processes in order, restarts those that die, and stops them in the opposite order.
//! It adopts the children of a killed `up` if their definitions are unchanged, and else stops them first.

use crate::layout;
use crate::ports::Ports;
use crate::process::ProcessIdentity;
use crate::state::{self, InstanceState};
use crate::wait::{self, Progress};
use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use terminal::say;

const TICK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);
const BACKOFF_FLOOR: Duration = Duration::from_millis(100);
const BACKOFF_CEILING: Duration = Duration::from_secs(5);
/// A child that lived this long has recovered: its next death waits the shortest time again.
const STEADY: Duration = Duration::from_secs(30);
/// Deaths in a row after which the start of `up` is given up.
const DEATHS_MAX: u32 = 8;
const LOG_BYTES_MAX: u64 = 64 << 20;
const LOG_TAIL_LINES: usize = 15;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// User and group, when not those of `up`.
    pub user: Option<(u32, u32)>,
    /// The signal that asks it to end.
    pub stop: Signal,
}

impl Spec {
    pub fn new(name: &str, program: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            user: None,
            stop: Signal::SIGTERM,
        }
    }

    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    fn fingerprint(&self) -> String {
        let built = self.program.metadata().and_then(|meta| meta.modified()).ok();
        let program = self.program.display();
        layout::hash(format!("{program} {built:?} {:?} {:?} {:?}", self.args, self.env, self.user).as_bytes())
    }
}

#[derive(Debug)]
struct Running {
    spec: Spec,
    identity: Option<ProcessIdentity>,
    /// Absent for one that was taken over: it is not our child.
    child: Option<std::process::Child>,
    started: Instant,
    deaths: u32,
    next_try: Option<Instant>,
    paused: bool,
}

#[derive(Debug)]
struct SupervisorInner {
    file: PathBuf,
    logs: PathBuf,
    state: InstanceState,
    running: Vec<Running>,
    quiet: bool,
}

/// Owns the children of one directory.
#[derive(Clone, Debug)]
pub struct Supervisor {
    inner: Arc<Mutex<SupervisorInner>>,
    ended: Arc<AtomicBool>,
}

impl Supervisor {
    /// Becomes the supervisor of `dir`, unless another one lives.
    pub fn open(dir: &Path) -> Result<Self> {
        let logs = dir.join("logs");
        std::fs::create_dir_all(&logs)?;
        let file = dir.join("state.json");
        let mut state = InstanceState::load(&file)?;
        if let Some(other) = state.supervisor.as_ref().filter(|other| other.alive()) {
            bail!("`up` is running already, as process {}: `cargo xtask down` stops it", other.pid);
        }
        state.supervisor = ProcessIdentity::current();
        state.ready = false;
        state.save(&file)?;
        let inner = SupervisorInner { file, logs, state, running: Vec::new(), quiet: false };
        let this = Self { inner: Arc::new(Mutex::new(inner)), ended: Arc::default() };
        let watched = this.clone();
        std::thread::spawn(move || {
            while !watched.ended.load(Ordering::Relaxed) {
                watched.lock().tick();
                std::thread::sleep(TICK);
            }
        });
        Ok(this)
    }

    fn lock(&self) -> MutexGuard<'_, SupervisorInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn state<T>(&self, change: impl FnOnce(&mut InstanceState) -> T) -> Result<T> {
        let mut inner = self.lock();
        let result = change(&mut inner.state);
        inner.state.save(&inner.file)?;
        Ok(result)
    }

    /// Whether a living child of a former `up` has this name.
    pub fn left_behind(&self, name: &str) -> bool {
        self.lock().state.children.iter().any(|child| child.name == name && child.identity.alive())
    }

    /// The port of this name, kept from the last time and for the next; `child` listens on it.
    pub fn port(&self, first: u16, name: &str, child: &str) -> Result<u16> {
        let held = self.left_behind(child);
        self.state(|state| {
            let mut ports = Ports::new(first, std::mem::take(&mut state.ports));
            let port = ports.get(name, held);
            ports.all().clone_into(&mut state.ports);
            port
        })?
    }

    /// Starts the child, or takes over the one that a killed `up` left.
    pub fn start(&self, spec: Spec) -> Result<()> {
        self.lock().start(spec)
    }

    /// Stops what a former `up` left and this one has no use for.
    pub fn stop_leftover_children(&self) -> Result<()> {
        let mut inner = self.lock();
        let known: Vec<String> = inner.running.iter().map(|running| running.spec.name.clone()).collect();
        let (keep, strangers) =
            inner.state.children.drain(..).partition::<Vec<_>, _>(|child| known.contains(&child.name));
        inner.state.children = keep;
        for child in strangers.iter().rev() {
            stop_left_behind(child)?;
        }
        inner.save()
    }

    /// Ends the wait for `name` when it dies again and again.
    pub fn check(&self, name: &str) -> Result<()> {
        let inner = self.lock();
        let Some(running) = inner.running.iter().find(|running| running.spec.name == name) else {
            return Ok(());
        };
        if running.deaths >= DEATHS_MAX {
            bail!("{name} does not stay up; the end of {}:\n{}", inner.log(name).display(), inner.tail(name));
        }
        Ok(())
    }

    /// Waits for a condition that `name` has to bring about.
    pub fn wait(
        &self,
        name: &str,
        deadline: Duration,
        mut look: impl FnMut() -> Result<Progress<()>>,
    ) -> Result<()> {
        wait::until(&format!("{name} ready"), deadline, || {
            self.check(name)?;
            look()
        })
        .with_context(|| format!("start {name}; its log is {}", self.lock().log(name).display()))
    }

    /// kill -9, as an accident would do it. The supervisor starts it again.
    pub fn kill(&self, name: &str) -> Result<()> {
        let identity = self.lock().find(name)?.identity.clone();
        identity.context("it is not running")?.signal(Signal::SIGKILL)
    }

    /// Stops a child and leaves it down until [`Supervisor::resume`].
    pub fn pause(&self, name: &str) -> Result<()> {
        let mut inner = self.lock();
        let running = inner.find(name)?;
        running.paused = true;
        running.stop()?;
        inner.save()
    }

    /// kill -9, without a restart until [`Supervisor::resume`].
    pub fn kill_and_pause(&self, name: &str) -> Result<()> {
        let mut inner = self.lock();
        let running = inner.find(name)?;
        running.paused = true;
        running.identity.as_ref().context("it is not running")?.signal(Signal::SIGKILL)
    }

    /// Stops it with SIGSTOP until [`Supervisor::thaw`]: others get no answer.
    pub fn freeze(&self, name: &str) -> Result<()> {
        let mut inner = self.lock();
        inner.find(name)?.identity.as_ref().context("it is not running")?.signal(Signal::SIGSTOP)
    }

    /// Lets it continue.
    pub fn thaw(&self, name: &str) -> Result<()> {
        let mut inner = self.lock();
        inner.find(name)?.identity.as_ref().context("it is not running")?.signal(Signal::SIGCONT)
    }

    pub fn resume(&self, name: &str) -> Result<()> {
        let mut inner = self.lock();
        let logs = inner.logs.clone();
        let running = inner.find(name)?;
        running.paused = false;
        running.spawn(&logs)?;
        inner.save()
    }

    /// The definition of a child.
    pub fn spec(&self, name: &str) -> Result<Spec> {
        Ok(self.lock().find(name)?.spec.clone())
    }

    /// The definitions of all children, in the order of their start.
    pub fn specs(&self) -> Vec<Spec> {
        self.lock().running.iter().map(|running| running.spec.clone()).collect()
    }

    fn is_paused(&self, name: &str) -> Result<bool> {
        Ok(self.lock().find(name)?.paused)
    }

    /// Makes the children what [`Supervisor::specs`] returned before: it removes those that were added, restarts those
    /// that were changed, and resumes those that are paused.
    pub fn restore(&self, specs: &[Spec]) -> Result<()> {
        for added in self.specs().iter().filter(|spec| !specs.iter().any(|kept| kept.name == spec.name)) {
            self.remove(&added.name)?;
        }
        for spec in specs {
            if self.spec(&spec.name)?.fingerprint() != spec.fingerprint() {
                self.change(&spec.name, |current| spec.clone_into(current))?;
            } else if self.is_paused(&spec.name)? {
                self.resume(&spec.name)?;
            }
        }
        // Some may have died often because another one was paused.
        self.lock().running.iter_mut().for_each(|running| running.deaths = 0);
        Ok(())
    }

    /// Restarts a child with a changed definition.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Spec)) -> Result<()> {
        self.pause(name)?;
        {
            let mut inner = self.lock();
            let running = inner.find(name)?;
            change(&mut running.spec);
            // It has not died yet.
            running.deaths = 0;
        }
        self.resume(name)
    }

    /// Goes on with another program in the place of a child's.
    pub fn replace(&self, name: &str, program: &Path) -> Result<()> {
        self.change(name, |spec| program.clone_into(&mut spec.program))
    }

    /// Stops a child for good.
    pub fn remove(&self, name: &str) -> Result<()> {
        let mut inner = self.lock();
        inner.find(name)?.stop()?;
        inner.running.retain(|running| running.spec.name != name);
        inner.save()
    }

    /// The process of a running child.
    pub fn pid(&self, name: &str) -> Option<u32> {
        let mut inner = self.lock();
        inner.find(name).ok()?.identity.as_ref().map(|identity| identity.pid)
    }

    /// Stops all children, the last started first.
    pub fn stop(&self) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        let mut inner = self.lock();
        inner.quiet = true;
        let mut outcome = Ok(());
        while let Some(mut running) = inner.running.pop() {
            outcome = outcome.and(running.stop().with_context(|| format!("stop {}", running.spec.name)));
        }
        inner.state.supervisor = None;
        inner.state.ready = false;
        let saved = inner.save();
        outcome.and(saved)
    }
}

impl SupervisorInner {
    fn find(&mut self, name: &str) -> Result<&mut Running> {
        let found = self.running.iter_mut().find(|running| running.spec.name == name);
        found.with_context(|| format!("no child is called {name}"))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    fn tail(&self, name: &str) -> String {
        let text = std::fs::read(self.log(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LOG_TAIL_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    fn start(&mut self, spec: Spec) -> Result<()> {
        let fingerprint = spec.fingerprint();
        let mut running = Running {
            spec,
            identity: None,
            child: None,
            started: Instant::now(),
            deaths: 0,
            next_try: None,
            paused: false,
        };
        let left = self.state.children.iter().find(|child| child.name == running.spec.name).cloned();
        match left.filter(|child| child.identity.alive()) {
            Some(child) if child.fingerprint == fingerprint => {
                say::line(format_args!("{} is taken over: process {}", child.name, child.identity.pid));
                running.identity = Some(child.identity);
            }
            Some(child) => {
                stop_left_behind(&child)?;
                running.spawn(&self.logs)?;
            }
            None => running.spawn(&self.logs)?,
        }
        self.running.push(running);
        self.save()
    }

    /// Restarts children that died.
    fn tick(&mut self) {
        if self.quiet {
            return;
        }
        let logs = self.logs.clone();
        let mut changed = false;
        for running in &mut self.running {
            changed |= running.tick(&logs);
        }
        if changed && let Err(error) = self.save() {
            say::line(format_args!("state cannot be saved: {error:#}"));
        }
    }

    fn save(&mut self) -> Result<()> {
        let known: Vec<&str> = self.running.iter().map(|running| running.spec.name.as_str()).collect();
        let mut children = self.state.children.clone();
        children.retain(|child| !known.contains(&child.name.as_str()) && child.identity.alive());
        children.extend(self.running.iter().filter_map(Running::to_state));
        self.state.children = children;
        self.state.save(&self.file)
    }
}

impl Running {
    fn to_state(&self) -> Option<state::Child> {
        Some(state::Child {
            name: self.spec.name.clone(),
            identity: self.identity.clone()?,
            fingerprint: self.spec.fingerprint(),
            signal: self.spec.stop.as_str().to_owned(),
        })
    }

    fn spawn(&mut self, logs: &Path) -> Result<()> {
        let log = open_log(&logs.join(format!("{}.log", self.spec.name)))?;
        let mut command = Command::new(&self.spec.program);
        command.args(&self.spec.args).envs(self.spec.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A group of its own: Ctrl-C reaches `up` alone, which stops its children in order.
        command.process_group(0);
        if let Some((uid, gid)) = self.spec.user {
            command.uid(uid).gid(gid).current_dir("/");
        }
        let child = command.spawn().with_context(|| format!("start {}", self.spec.program.display()))?;
        self.identity = ProcessIdentity::of(child.id());
        self.child = Some(child);
        self.started = Instant::now();
        self.next_try = None;
        Ok(())
    }

    fn tick(&mut self, logs: &Path) -> bool {
        let status = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        if self.paused || self.identity.as_ref().is_some_and(ProcessIdentity::alive) {
            return false;
        }
        let now = Instant::now();
        let Some(at) = self.next_try else {
            self.deaths = if self.started.elapsed() > STEADY { 1 } else { self.deaths.saturating_add(1) };
            let doubled = BACKOFF_FLOOR.saturating_mul(1 << self.deaths.min(10));
            let delay = doubled.min(BACKOFF_CEILING);
            let how = status.map_or_else(|| "ended".to_owned(), |status| format!("ended ({status})"));
            say::line(format_args!("{} {how}; started again in {}", self.spec.name, say::seconds(delay)));
            self.identity = None;
            self.next_try = Some(now + delay);
            return true;
        };
        if now < at {
            return false;
        }
        if let Err(error) = self.spawn(logs) {
            say::line(format_args!("{error:#}"));
            self.next_try = Some(now + BACKOFF_CEILING);
        }
        true
    }

    fn stop(&mut self) -> Result<()> {
        let Some(identity) = self.identity.take() else { return Ok(()) };
        let child = &mut self.child;
        identity.stop(self.spec.stop, PATIENCE, || {
            if let Some(child) = child {
                drop(child.try_wait());
            }
        })?;
        self.child = None;
        Ok(())
    }
}

/// Stops a child that a killed `up` left behind.
pub fn stop_left_behind(child: &state::Child) -> Result<()> {
    if child.identity.alive() {
        say::line(format_args!("{} of a former run is stopped: process {}", child.name, child.identity.pid));
    }
    let signal = Signal::from_str(&child.signal).unwrap_or(Signal::SIGTERM);
    child.identity.stop(signal, PATIENCE, || {})
}

fn open_log(path: &Path) -> Result<File> {
    if path.metadata().is_ok_and(|meta| meta.len() > LOG_BYTES_MAX) {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_killed_child_is_started_again_and_all_are_stopped_at_the_end() {
        let dir = directory("supervise");
        let supervisor = Supervisor::open(&dir).unwrap();
        supervisor.start(Spec::new("sleeper", Path::new("/bin/sleep")).args(["600"])).unwrap();
        let first = supervisor.pid("sleeper").unwrap();
        supervisor.kill("sleeper").unwrap();
        let second = wait::until("a new process", Duration::from_mins(1), || {
            Ok(match supervisor.pid("sleeper").filter(|pid| *pid != first) {
                Some(pid) => Progress::Done(pid),
                None => Progress::Pending("the old one".to_owned()),
            })
        })
        .unwrap();
        let second = ProcessIdentity::of(second).unwrap();
        supervisor.stop().unwrap();
        assert!(!second.alive());
        assert!(InstanceState::load(&dir.join("state.json")).unwrap().children.is_empty());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_child_is_changed_into_another_one_and_one_that_is_removed_is_not_started_again() {
        let dir = directory("change");
        let supervisor = Supervisor::open(&dir).unwrap();
        supervisor.start(Spec::new("sleeper", Path::new("/bin/sleep")).args(["600"])).unwrap();
        let first = ProcessIdentity::of(supervisor.pid("sleeper").unwrap()).unwrap();
        supervisor.change("sleeper", |spec| spec.args = vec!["700".to_owned()]).unwrap();
        let second = ProcessIdentity::of(supervisor.pid("sleeper").unwrap()).unwrap();
        assert!(!first.alive() && second.alive());
        assert_eq!(supervisor.spec("sleeper").unwrap().args, ["700"]);
        supervisor.remove("sleeper").unwrap();
        assert!(!second.alive());
        assert!(supervisor.spec("sleeper").is_err());
        supervisor.stop().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn children_become_what_they_were() {
        let dir = directory("restore");
        let supervisor = Supervisor::open(&dir).unwrap();
        let sleeper = |name: &str| Spec::new(name, Path::new("/bin/sleep")).args(["600"]);
        for name in ["paused", "changed"] {
            supervisor.start(sleeper(name)).unwrap();
        }
        let before = supervisor.specs();
        supervisor.pause("paused").unwrap();
        supervisor.change("changed", |spec| spec.args = vec!["700".to_owned()]).unwrap();
        supervisor.start(sleeper("added")).unwrap();
        supervisor.restore(&before).unwrap();
        assert!(supervisor.pid("paused").is_some());
        assert_eq!(supervisor.spec("changed").unwrap().args, ["600"]);
        assert!(supervisor.spec("added").is_err());
        supervisor.stop().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_second_supervisor_of_a_directory_is_refused() {
        let dir = directory("second");
        let first = Supervisor::open(&dir).unwrap();
        assert!(Supervisor::open(&dir).unwrap_err().to_string().contains("running already"));
        first.stop().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
