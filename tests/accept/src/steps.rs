//! Tests the platform's guarantees through kubectl with real components. Each step is one function.

/// The state before the first step, which is restored after a failed one.
mod baseline;
/// Processes that run beside a step.
mod background;
/// What a user of kubectl expects.
mod verbs;
/// Requests above the quota, and refunds.
mod quota;
/// Changes in a cluster that the platform did not make.
mod drift;
/// What is in a cluster without an object.
mod orphan;
/// What lists the clusters for the controller.
mod directory;
/// A member cluster that only dials out.
mod tunnel;
/// New credentials of a member cluster.
mod rotation;
/// A member cluster, PostgreSQL or a replica is gone for a while.
mod outage;
/// Whole trees.
mod tree;
/// Migration from another system.
mod coming;
/// Upgrade and rollback of a release.
mod upgrade;
/// kill -9 in the middle.
mod crash;
/// What a tenant may see and do.
mod tenant;
/// Ceilings of tenants.
mod budgets;
/// What follows the nodes of a cluster.
mod capacity;
/// What namespaces are given beside their quota.
mod templates;
/// People in the clusters themselves.
mod access;
/// The policies of member clusters.
mod policies;
/// People who log in.
mod login;
/// `kubectl business`.
mod command_line;
/// The same tokens for kube-apiserver and for us.
mod parity;
/// What must be refused.
mod input;
/// kube-controller-manager and our kinds.
mod collector;
/// `kubectl wait`.
mod waiting;
/// `kubectl get -w`.
mod watching;
/// `kubectl apply --server-side`.
mod applying;
/// `kubectl apply --prune`.
mod pruning;
/// Other people's programs.
mod clients;
/// An OCI registry, its clients, and what they may do.
mod registry;
/// The same requests to custom resources.
mod differential;
/// Transfers of namespaces to another project.
mod moving;
/// Adoption of existing namespaces.
mod adopting;
/// Plain HTTP through `kubectl proxy`.
mod proxy;

use anyhow::{Result, ensure};
use background::Background;
use baseline::Baseline;
use instance::layout::{self, Layout};
use instance::{Instance, Options};
use instance::{demo, process, up, wait};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use terminal::say::{self, Count};

type Step = fn(&Instance) -> Result<()>;

const STEPS: &[(&str, Step)] = &[
    // First, since it wants a database that holds nothing.
    (
        "TKE's database is imported out of etcd, and the clusters' namespaces stay what they are",
        coming::coming,
    ),
    ("kubectl's verbs do what a user expects", verbs::verbs),
    ("kubectl watches, edits, explains and describes", verbs::conveniences),
    ("over-asking is refused with the explanation and changes nothing", quota::over_asking),
    ("64 creates in parallel of which 10 fit", quota::parallel_creates),
    ("raise, then lower: the refund waits for the cluster", quota::raise_and_lower),
    ("what somebody changes in the cluster is repaired or reported", drift::drift),
    ("a cluster's namespace without an object is held against its project until it is gone", orphan::orphan),
    ("a namespace goes to another project and back, and its cluster sees its marks change", moving::moving),
    ("namespaces that nobody manages are discovered, adopted together, and released", adopting::adopting),
    ("the tenant's administrator rules his tenant and sees no other", tenant::tenant),
    ("budgets come from the top: a cluster, a tenant, its projects", budgets::budgets),
    ("what may be granted of a cluster follows its nodes, up and down", capacity::capacity),
    ("a template lets people begin, changes in waves, and cannot be taken away", templates::templates),
    ("a member enters his namespace with a certificate, and no other, until he is no member", access::access),
    (
        "roles of access lists open the clusters, from the project above, too, until they are taken",
        access::roles,
    ),
    ("policies of a cluster keep access and quota ours, and us within them", policies::policies),
    (
        "people log in with the identity provider, and are the same through kube-apiserver and directly",
        login::login,
    ),
    ("kube-apiserver and business-api take the bearers of the same tokens for the same", parity::parity),
    (
        "kubectl business shows the tree, explains, makes, gives access, enters a namespace, and joins a cluster",
        command_line::command_line,
    ),
    ("kubectl business logs in at the provider, and gets fresh tokens by itself", command_line::enters),
    ("kubectl business finds namespaces that nobody manages, and takes them over", command_line::takes),
    ("kubectl business drains a cluster, forgets it, and it comes back as a new one", command_line::leaves),
    ("bad input is refused with the field's path and nothing is stored", input::input),
    ("the garbage and namespace controllers of Kubernetes work with our kinds", collector::collector),
    ("kubectl waits for conditions, fields, creation and deletion", waiting::waiting),
    ("kubectl watches in every form of output", watching::watching),
    ("kubectl applies on the server's side, and moves there and back", applying::applying),
    ("kubectl prunes by selector, by project and by ApplySet", pruning::pruning),
    ("client-go works unmodified, as do Argo CD's and Flux's ways", clients::client_go),
    ("Argo CD and Flux work for one tenant, by a service account and no more", clients::gitops),
    ("Helm installs, upgrades, rolls back and uninstalls", clients::helm),
    ("Python's client works unmodified", clients::python),
    (
        "images and charts go into the registry and out of it, by the rights in their project",
        registry::registry,
    ),
    ("kube-rs's reflector follows, through a partition and a forgotten history", clients::kube_rs),
    ("server-side apply agrees with a custom resource", clients::apply_differential),
    ("answers agree with those of custom resources", differential::requests),
    ("a member cluster that only dials out is reached through a tunnel", tunnel::tunnel),
    (
        "a cluster's credentials are rotated under load without a gap, and wrong ones take nothing away",
        rotation::rotation,
    ),
    ("a member cluster stops and comes back", outage::member),
    ("a tree with 50 namespaces in two clusters is deleted in order", tree::tree),
    ("a replica is killed under load", outage::replica),
    ("PostgreSQL is down for a while", outage::postgres),
    ("releases change under load, come back, and start before their database", upgrade::upgrade),
    ("every process killed -9 in the middle of things", crash::crash),
    ("the books balance at the end", books),
];

/// Often, so that nobody waits for an audit; and an audit that is wrong in the middle of things shows.
const AUDIT_PERIOD: &str = "1s";
/// No step has pods that a cluster could count too late.
const QUOTA_RECOUNT: &str = "3s";
const START: Duration = Duration::from_mins(10);
/// How long a program may run that ends by itself within seconds.
const PROGRAM: Duration = Duration::from_mins(5);
const AUDITED: Duration = Duration::from_mins(3);

/// Runs all steps on an instance of their own.
pub(crate) fn run() -> Result<Count> {
    let layout = Layout::of_accept();
    up::clear(&layout)?;
    let options = Options {
        members: 1,
        replicas: 2,
        audit_period: Some(AUDIT_PERIOD.to_owned()),
        quota_recount: Some(QUOTA_RECOUNT.to_owned()),
        ..Options::default()
    };
    say::step("`up` is killed -9 once it runs", || killed_up(&layout, &options))?;
    let instance = Instance::start(&layout, &options)?;
    let outcome = run_steps(&instance);
    let stopped = say::step("everything stopped", || instance.stop());
    let count = outcome?;
    stopped?;
    if count.failed == 0 {
        up::clear(&layout)?;
    }
    Ok(count)
}

fn run_steps(instance: &Instance) -> Result<Count> {
    demo::clear(instance)?;
    let mut baseline = Baseline::of(instance)?;
    let mut count = Count { passed: 1, failed: 0 };
    let only = std::env::var("XTASK_ACCEPT").unwrap_or_default();
    let chosen = |what: &str| only.split(',').any(|word| what.contains(word));
    for (what, step) in STEPS.iter().filter(|(what, _)| chosen(what)) {
        let outcome = say::step(what, || step(instance));
        if let Err(error) = &outcome {
            count.failed += 1;
            say::line(format_args!("      {error:#}"));
        } else {
            count.passed += 1;
        }
        if wait::interrupted() {
            break;
        }
        if outcome.is_err() {
            restore(instance, &mut baseline);
        }
    }
    Ok(count)
}

/// Restores the instance after a failed step. A failure is only printed: the run has failed already.
fn restore(instance: &Instance, baseline: &mut Baseline) {
    let what = "what the failed step has changed is restored";
    if let Err(error) = say::step(what, || baseline.restore(instance)) {
        say::line(format_args!("      {error:#}"));
    }
}

/// Starts `up` as a process of its own and kills it: the next one takes its children over.
fn killed_up(layout: &Layout, options: &Options) -> Result<()> {
    let log = layout.path("logs/up.log");
    std::fs::create_dir_all(layout.path("logs"))?;
    let out = std::fs::File::create(&log)?;
    let mut command = Command::new(layout::program_path("instance")?);
    command
        .args(["up", "--instance", "accept", "--members", &options.members.to_string()])
        .args(["--replicas", &options.replicas.to_string(), "--audit-period", AUDIT_PERIOD])
        .args(["--quota-recount", QUOTA_RECOUNT])
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out);
    let mut running = Background::spawn(&mut command)?;
    let child = running.child()?;
    let end = Instant::now() + START;
    let ready = layout.path("ready");
    while !std::fs::read_to_string(&ready).is_ok_and(|pid| pid == child.id().to_string()) {
        let alive = child.try_wait()?.is_none();
        let shown = || std::fs::read_to_string(&log).unwrap_or_default();
        ensure!(alive && Instant::now() < end && !wait::interrupted(), "up did not get ready:\n{}", shown());
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(running);
    Ok(())
}

/// Runs a program to its end.
fn output(command: &mut Command) -> Result<Output> {
    process::output_within(command, None, PROGRAM)
}

/// What a program printed holds all of these.
fn contains(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    Ok(())
}

/// `business-api audit`.
fn audit(instance: &Instance) -> Result<Output> {
    audit_with(instance, &[])
}

fn audit_with(instance: &Instance, args: &[&str]) -> Result<Output> {
    let mut command = Command::new(layout::program_path("business-api")?);
    command.args(["audit", "-o", "text"]).args(args).env("DATABASE_URL", &instance.database_url);
    output(&mut command)
}

/// Ledger, objects, statuses and clusters agree.
pub(crate) fn books(instance: &Instance) -> Result<()> {
    wait::until("the audit finds nothing", AUDITED, || {
        let output = audit(instance)?;
        Ok(if output.status.success() {
            wait::Progress::Done(())
        } else {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            wait::Progress::Pending(format!("{out}{err}"))
        })
    })
}
