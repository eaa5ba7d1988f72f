//! Measurements beside their rivals, on an instance of their own (`platform`) or on one that runs already. Every figure
//! is printed with the rival's of the same run.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it does not hold")]

mod table;
mod load;
mod rival;
mod objects;
mod process;
mod http;
mod list;
mod watch;
mod job;
mod access;
mod template;
mod soak;
mod platform;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Where the servers are.
#[derive(Debug, Clone, clap::Args)]
struct Servers {
    /// Kubeconfig of the operator, through kube-apiserver.
    #[arg(long, global = true, default_value = ".dev/kubeconfig")]
    kubeconfig: PathBuf,
    /// Kubeconfig of a tenant administrator, directly to business-api.
    #[arg(long, global = true, default_value = ".dev/tenant.kubeconfig")]
    tenant_kubeconfig: PathBuf,
    /// Folder with a kubeconfig for each member cluster.
    #[arg(long, global = true, default_value = ".dev/members")]
    members: PathBuf,
    /// Rounds a figure; the median is printed.
    #[arg(long, global = true, default_value_t = 3)]
    rounds: usize,
    /// Seconds a measurement.
    #[arg(long, global = true, default_value_t = 4)]
    seconds: u64,
}

#[derive(Debug, Parser)]
#[command(about)]
struct Args {
    #[command(flatten)]
    target: Servers,
    #[command(subcommand)]
    what: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// Starts everything, takes measurements, stops everything.
    Platform(platform::Platform),
    /// Creates and reads over HTTPS, directly and through kube-apiserver.
    Http {
        /// Connections.
        #[arg(long, default_value_t = 64)]
        connections: usize,
        /// Only the contenders whose name contains this.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// From a POST to the event at each of many watchers.
    Watch(watch::Watches),
    /// Whole lists, selectors, tenants.
    List {
        /// Objects to fill in.
        #[arg(long, default_value_t = 20_000)]
        objects: usize,
    },
    /// Memory of the programs when the platform is full.
    Memory {
        /// Namespaces, spread over the clusters.
        #[arg(long, default_value_t = 10_000)]
        namespaces: usize,
    },
    /// The main job: projects and namespaces from POST to usable, and back.
    Job {
        /// Numbers of namespaces.
        #[arg(long, value_delimiter = ',', default_value = "50,200,1000")]
        namespaces: Vec<usize>,
    },
    /// Namespaces with everything that a template and an access list put into them.
    Template {
        /// Namespaces of the project.
        #[arg(long, default_value_t = 1000)]
        namespaces: usize,
    },
    /// A fleet's day: a steady mix of requests and watches while a member comes and goes.
    Soak(soak::Soak),
    /// A role that is given or taken, until the last namespace of the project has it.
    Access {
        /// Namespaces of the project.
        #[arg(long, default_value_t = 1000)]
        namespaces: usize,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.what {
        Measurement::Platform(platform) => tokio::task::block_in_place(|| platform.run()),
        Measurement::Http { connections, only } => http::run(&args.target, connections, &only).await,
        Measurement::Watch(watches) => watch::run(&args.target, watches).await,
        Measurement::List { objects } => list::run(&args.target, objects).await,
        Measurement::Memory { namespaces } => job::fill(&args.target, namespaces).await,
        Measurement::Access { namespaces } => access::run(&args.target, namespaces).await,
        Measurement::Template { namespaces } => template::run(&args.target, namespaces).await,
        Measurement::Soak(soak) => soak.run(&args.target).await,
        Measurement::Job { namespaces } => job::run(&args.target, &namespaces).await,
    }
}
