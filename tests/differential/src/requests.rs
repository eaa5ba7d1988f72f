//! Random requests to us and to a twin; answers compared one by one; what differs is shrunk to a replay.

/// A kind with every sort of field.
mod kind;
/// Our library serving it.
mod library;
/// What is asked.
mod target;
/// Random bodies.
mod body;
/// Random requests.
mod plan;
/// Requests for what is not there.
mod odd;
/// Symbols and values.
mod memory;
/// One side.
mod side;
/// Accepted differences.
mod rules;
/// The twins.
mod twin;
/// One case on both sides.
mod pair;

use crate::say;
use anyhow::Result;
use kit::Endpoint;
use library::Library;
use pair::{Pair, Tally};
use plan::Request;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use target::TargetKind;
use tokio::task::JoinSet;

/// Differences that are printed.
const SHOWN_MAX: usize = 20;
/// Cases after which the person who waits is told.
const PROGRESS: u64 = 500;

/// How much.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Kubeconfig of a cluster administrator.
    #[arg(long, default_value = ".dev/kubeconfig")]
    kubeconfig: PathBuf,
    /// Requests in all.
    #[arg(long, default_value_t = 300)]
    count: u64,
    /// Requests of a case.
    #[arg(long, default_value_t = 14)]
    length: usize,
    /// Cases at a time.
    #[arg(long, default_value_t = 16)]
    parallel: u64,
    /// Seed of everything.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this case, with everything it asks.
    #[arg(long)]
    case: Option<u64>,
    /// No controller is at work in the cluster: projects, and deletions that its garbage collector would act on, are
    /// asked, too.
    #[arg(long)]
    quiet_cluster: bool,
}

/// What all workers share.
struct SharedRun {
    args: Args,
    targets: Vec<TargetKind>,
    kube: Endpoint,
    library: Endpoint,
    next: Mutex<u64>,
    tally: Tally,
    start: Instant,
}

/// Runs everything; tells how many cases differ.
pub(crate) async fn run(args: &Args) -> Result<usize> {
    let kube = Endpoint::from_kubeconfig(&args.kubeconfig)?;
    let targets = twin::install(&kube, args.parallel, args.quiet_cluster).await?;
    let library = Library::start().await?;
    let shared = Arc::new(SharedRun {
        args: args.clone(),
        targets,
        kube,
        library: library.endpoint.clone(),
        next: Mutex::new(0),
        tally: Tally::default(),
        start: Instant::now(),
    });
    let mut workers = JoinSet::new();
    for worker in 0..args.parallel {
        workers.spawn(work(Arc::clone(&shared), worker));
    }
    let mut failures = 0;
    while let Some(done) = workers.join_next().await {
        failures += done??;
    }
    library.stop().await?;
    for (rule, times) in shared.tally.rules() {
        say(&format!("accepted {times} times: {rule}"));
    }
    let requests = shared.tally.requests();
    let seconds = shared.start.elapsed().as_secs();
    say(&format!("{requests} requests in {seconds} s, seed {}, {failures} cases differ", args.seed));
    Ok(failures)
}

/// One case after another, in a namespace of the worker's own.
async fn work(shared: Arc<SharedRun>, worker: u64) -> Result<usize> {
    let mut pairs: Vec<Pair> =
        shared.targets.iter().map(|t| Pair::new(t, &shared.library, &shared.kube, worker)).collect();
    let mut failures = 0;
    while let Some(case) = shared.take() {
        let seed = shared.args.seed.wrapping_mul(1_000_003).wrapping_add(case);
        let mut random = StdRng::seed_from_u64(seed);
        // Every fourth case asks business-api.
        let index = if case % 4 == 3 { shared.targets.len() - 1 } else { 0 };
        let Some(pair) = pairs.get_mut(index) else { continue };
        let requests = plan::case(&pair.target, shared.args.length, &mut random);
        let Some(difference) = pair.differ(&requests, &shared.tally).await? else { continue };
        let (requests, difference) = shrink(pair, requests, difference).await?;
        failures += 1;
        if shared.tally.failed() <= SHOWN_MAX {
            say(&format!(
                "case {case} of seed {}, {}:\n{}\n{difference}\n",
                shared.args.seed,
                pair.target.plural,
                replay(&requests)
            ));
        }
    }
    Ok(failures)
}

impl SharedRun {
    /// The next case, as long as there are requests to be sent.
    fn take(&self) -> Option<u64> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(only) = self.args.case {
            return (std::mem::replace(&mut *next, 1) == 0).then_some(only);
        }
        let case = *next;
        *next += 1;
        let requests = self.tally.requests();
        if case > 0 && case.is_multiple_of(PROGRESS) {
            say(&format!("{requests} requests, {} s", self.start.elapsed().as_secs()));
        }
        (requests < self.args.count).then_some(case)
    }
}

fn replay(requests: &[Request]) -> String {
    requests.iter().map(|request| format!("  {request}")).collect::<Vec<_>>().join("\n")
}

/// Leaves requests out as long as a difference stays.
async fn shrink(
    pair: &mut Pair,
    mut requests: Vec<Request>,
    mut difference: String,
) -> Result<(Vec<Request>, String)> {
    let unseen = Tally::default();
    let mut index = 0;
    while index < requests.len() {
        let mut fewer = requests.clone();
        fewer.remove(index);
        match pair.differ(&fewer, &unseen).await? {
            Some(still) => (requests, difference) = (fewer, still),
            None => index += 1,
        }
    }
    Ok((requests, difference))
}
