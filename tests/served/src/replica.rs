use business_api::config::{Cli, Command};
use business_api::serve::{Listeners, Program, serve_with_metrics};
use clap::Parser as _;
use runtime::{Metrics, Tasks};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Where a replica is found, and what it counts.
#[derive(Clone, Debug)]
pub struct Replica {
    pub api: SocketAddr,
    /// Where it serves one.
    pub console: Option<SocketAddr>,
    pub metrics: Metrics,
}

/// Starts the program with the flags of `serve`, at ports of its own choice; it ends with the tasks.
pub async fn start(flags: Vec<String>, program: Program, tasks: Tasks) -> Replica {
    let line = ["business-api", "serve"].map(str::to_owned).into_iter().chain(flags);
    let Command::Serve(mut settings) = Cli::parse_from(line).command else { panic!("not serve") };
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    (settings.bind, settings.admin_bind, settings.console.console_bind) = (anywhere, anywhere, anywhere);
    let (bound, replica) = oneshot::channel();
    // A runtime of its own, as in a process of its own.
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let outcome = runtime.block_on(async {
            let listeners = Listeners::bind(&settings).await.unwrap();
            let of = |listener: &TcpListener| listener.local_addr().unwrap();
            let (api, console) = (of(&listeners.api), listeners.console.as_ref().map(of));
            let metrics = Metrics::of_process();
            bound.send(Replica { api, console, metrics: metrics.clone() }).unwrap();
            serve_with_metrics(&settings, listeners, program, metrics, tasks).await
        });
        assert!(outcome.is_ok(), "{outcome:?}");
    });
    replica.await.unwrap()
}
