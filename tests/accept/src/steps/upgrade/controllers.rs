//! Two replicas of the controller, of any two releases: both work, and never on the same share at once.

use anyhow::{Context, Result, bail, ensure};
use instance::Instance;
use instance::fleet::LeaseTimes;
use instance::programs;
use instance::supervisor::Spec;
use instance::wait::{self, Progress};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The one that every instance has, and the one that is there for this step.
pub(super) const FIRST: &str = "business-controller";
pub(super) const SECOND: &str = "business-controller-2";
/// Short, so that nobody waits for what another one has left.
const TIMES: LeaseTimes = LeaseTimes { lease: 6, renew: 4, retry: 1, write: 3 };
/// What each has for itself, and what only the first does.
const OWN: [&str; 5] =
    ["--admin-bind=", "--identity=", "--issuer-", "--signers-kubeconfig=", "--endpoints-kubeconfig="];
const SOON: Duration = Duration::from_mins(3);
/// Between two looks at who works in which share.
const LOOK: Duration = Duration::from_millis(200);
const LEADING: &str = "business_controller_leading{share=\"";

/// Two controllers that run until [`ControllerPair::end`].
pub(super) struct ControllerPair<'a> {
    instance: &'a Instance,
    /// What the first one is where it is alone.
    alone: Spec,
    /// Where they tell how they are.
    ports: BTreeMap<&'static str, u16>,
}

impl<'a> ControllerPair<'a> {
    /// Adds the second one.
    pub(super) fn begin(instance: &'a Instance) -> Result<Self> {
        let supervisor = &instance.supervisor;
        let (_, first_port) = instance.controller_admin_ports.first().context("no controller")?;
        let second_port = supervisor.port(instance.layout.first_port, SECOND, SECOND)?;
        let ports = BTreeMap::from([(FIRST, *first_port), (SECOND, second_port)]);
        let this = Self { instance, alone: supervisor.spec(FIRST)?, ports };
        if let Err(error) = this.start(second_port) {
            this.end()?;
            return Err(error);
        }
        Ok(this)
    }

    fn start(&self, second_port: u16) -> Result<()> {
        let supervisor = &self.instance.supervisor;
        let times = TIMES.args().map(|(key, value)| format!("--{key}={value}"));
        let second = second_of(&self.alone, second_port, &self.instance.layout.short_hash());
        supervisor.change(FIRST, |spec| spec.args.extend(times.clone()))?;
        supervisor.start(second.args(times))?;
        self.ready(FIRST)?;
        self.ready(SECOND)
    }

    /// The first one is alone again, and what it was.
    pub(super) fn end(&self) -> Result<()> {
        let supervisor = &self.instance.supervisor;
        if supervisor.spec(SECOND).is_ok() {
            supervisor.remove(SECOND)?;
        }
        supervisor.change(FIRST, |spec| self.alone.clone_into(spec))?;
        self.ready(FIRST)
    }

    pub(super) fn ready(&self, name: &str) -> Result<()> {
        programs::ready(&self.instance.supervisor, name, self.port(name)?)
    }

    fn port(&self, name: &str) -> Result<u16> {
        self.ports.get(name).copied().with_context(|| format!("no controller is called {name}"))
    }

    /// Waits until each has a part of the work.
    pub(super) fn until_both_work(&self) -> Result<()> {
        wait::until("both controllers have shares", SOON, || {
            let held = [held(self.port(FIRST)?), held(self.port(SECOND)?)];
            let both = held.iter().all(|held| held.as_ref().is_ok_and(|shares| !shares.is_empty()));
            Ok(if both { Progress::Done(()) } else { Progress::Pending(format!("{held:?}")) })
        })
    }

    /// Waits until every share is one controller's, and no other's.
    pub(super) fn until_all_is_shared_out(&self) -> Result<()> {
        wait::until("every share is one controller's", SOON, || {
            let (Ok(first), Ok(second)) = (shares(self.port(FIRST)?), shares(self.port(SECOND)?)) else {
                return Ok(Progress::Pending("one does not answer".to_owned()));
            };
            let holders = |share: &String| {
                [&first, &second].iter().filter(|shares| shares.get(share) == Some(&true)).count()
            };
            let others: Vec<&String> = first.keys().filter(|share| holders(share) != 1).collect();
            let good = !first.is_empty() && others.is_empty();
            Ok(if good { Progress::Done(()) } else { Progress::Pending(format!("others: {others:?}")) })
        })
    }

    /// Looks from now on whether both work in one share.
    pub(super) fn watched(&self) -> Result<LeadershipObserver> {
        let (ports, end) = ((self.port(FIRST)?, self.port(SECOND)?), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&end);
        Ok(LeadershipObserver { end, running: Some(std::thread::spawn(move || look(ports, &told))) })
    }
}

fn second_of(first: &Spec, admin_port: u16, hash: &str) -> Spec {
    let mut second = first.clone();
    SECOND.clone_into(&mut second.name);
    second.args.retain(|arg| !OWN.iter().any(|own| arg.starts_with(*own)));
    second.args([format!("--admin-bind=127.0.0.1:{admin_port}"), format!("--identity={SECOND}-{hash}")])
}

/// Every share, and whether a controller works in it.
fn shares(port: u16) -> Result<BTreeMap<String, bool>> {
    let (code, metrics) = programs::get(port, "/metrics")?;
    ensure!(code == 200, "/metrics answers {code}");
    Ok(leading(&metrics))
}

fn leading(metrics: &str) -> BTreeMap<String, bool> {
    let share = |line: &str| {
        let (share, number) = line.strip_prefix(LEADING)?.split_once("\"}")?;
        Some((share.to_owned(), number.trim() == "1"))
    };
    metrics.lines().filter_map(share).collect()
}

/// Those in which it works.
fn held(port: u16) -> Result<BTreeSet<String>> {
    Ok(shares(port)?.into_iter().filter_map(|(share, is_held)| is_held.then_some(share)).collect())
}

/// Finds shares in which both controllers lead at once.
pub(super) struct LeadershipObserver {
    end: Arc<AtomicBool>,
    running: Option<JoinHandle<BTreeSet<String>>>,
}

impl LeadershipObserver {
    /// Ends it; the error is what it saw.
    pub(super) fn end(mut self) -> Result<()> {
        self.end.store(true, Ordering::Relaxed);
        let running = self.running.take().context("it was ended before")?;
        let Ok(twice) = running.join() else { bail!("who looks at the controllers died") };
        ensure!(twice.is_empty(), "both controllers worked at once in the shares {twice:?}");
        Ok(())
    }
}

impl Drop for LeadershipObserver {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// Shares in which both have worked at once.
fn look((first, second): (u16, u16), end: &AtomicBool) -> BTreeSet<String> {
    // One that does not answer works in none.
    let held = |port| held(port).unwrap_or_default();
    let mut twice = BTreeSet::new();
    while !end.load(Ordering::Relaxed) {
        let (before, others) = (held(first), held(second));
        let both: BTreeSet<String> = before.intersection(&others).cloned().collect();
        if !both.is_empty() {
            // It may have been handed over between the two answers; not there and back.
            twice.extend(both.intersection(&held(first)).cloned());
        }
        std::thread::sleep(LOOK);
    }
    twice
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_second_controller_is_the_first_but_for_what_each_has_for_itself() {
        let first = Spec::new(FIRST, Path::new("/bin/business-controller")).args([
            "run",
            "--namespace=tke-business",
            "--admin-bind=127.0.0.1:1",
            "--identity=business-controller-0f",
            "--issuer-bind=127.0.0.1:2",
            "--signers-kubeconfig=s",
            "--endpoints-kubeconfig=e",
        ]);
        let second = second_of(&first, 3, "0f");
        assert_eq!(second.name, SECOND);
        assert_eq!(
            second.args,
            [
                "run",
                "--namespace=tke-business",
                "--admin-bind=127.0.0.1:3",
                "--identity=business-controller-2-0f"
            ]
        );
    }

    #[test]
    fn who_works_in_which_share_is_read_from_the_metrics() {
        let metrics = "# TYPE business_controller_leading gauge\n\
                       business_controller_leading{share=\"fleet\"} 1\n\
                       business_controller_leading{share=\"07\"} 0\nother{share=\"08\"} 1\n";
        assert_eq!(leading(metrics), BTreeMap::from([("fleet".to_owned(), true), ("07".to_owned(), false)]));
    }
}
