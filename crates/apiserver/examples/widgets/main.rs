//! An aggregated API server with two stored kinds, a computed kind, a singleton, a subresource with a handler, and a
//! page.
//!
//! ```text
//! DATABASE_URL=postgres://… cargo run -p apiserver --example widgets -- tls.crt tls.key client-ca.crt
//! ```
//!
//! Callers with a certificate of the client CA may do everything. `docs/library.md` explains the code.

mod colours;
mod inventory;
mod names;
mod paint;
mod summary;
mod widget;
mod workshop;

use anyhow::Context;
use apiserver::authz::{AuthzVerdict, Policy, Right, Ruling};
use apiserver::openapi::ApiInfo;
use apiserver::server::{Server, ServerParts, ServerSettings};
use apiserver::{Api, Caller, RequestInfo};
use runtime::{Clock, Health, Metrics, Tasks, shutdown};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use store::{Kind, Store, Visibility};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

struct EverybodyKnown;

impl Policy for EverybodyKnown {
    fn judge(&self, caller: &Caller, _: &RequestInfo, _: bool) -> Ruling {
        let known = caller.in_group("system:authenticated");
        let verdict = if known { AuthzVerdict::Allow } else { AuthzVerdict::NoOpinion };
        Ruling { verdict, visibility: Ok(Visibility::Everything) }
    }

    fn operator_right(&self) -> Right {
        Right { verb: "operate", group: names::GROUP, resource: "widgets" }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut files = std::env::args().skip(1).map(PathBuf::from);
    let mut file = |what| files.next().with_context(|| format!("an argument is missing: {what}"));
    let mut settings = ServerSettings::new(file("certificate")?, file("key")?);
    settings.authentication.trust.client_ca_file = Some(file("client CA")?);
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;

    let (tasks, metrics, clock) = (Tasks::new(), Metrics::new(), Clock::system());
    Store::migrate(&url).await?;
    let kinds: Vec<Arc<dyn Kind>> = vec![Arc::new(widget::Widgets), Arc::new(workshop::Workshops)];
    let store = Store::open(store::Config::new(url), kinds, &tasks, &metrics)?;
    let number = |plural| store.kind_id(names::GROUP, plural).context("the kind has no number");
    let (widgets, workshops) = (number("widgets")?, number("workshops")?);

    let resources = vec![
        Arc::new(colours::resource(widgets)),
        Arc::new(widget::resource(widgets, workshops)),
        Arc::new(workshop::resource(workshops)),
        Arc::new(summary::resource(widgets)),
    ];
    let routes = vec![inventory::route(store.clone(), widgets)];
    let draining = CancellationToken::new();
    let about = ApiInfo { title: "Widgets".to_owned(), version: "v1".to_owned() };
    let api = Api::new(resources.clone(), store, clock.clone(), draining.clone(), &about)?;
    let parts = ServerParts {
        handler: Arc::new(api),
        resources,
        routes,
        policy: Arc::new(EverybodyKnown),
        kube: None,
        metrics,
        live: Health::new(),
        ready: Health::new(),
        draining,
        clock,
    };
    let serving = Tasks::new();
    serving.spawn("signals", shutdown::on_signal(serving.clone()));
    let listener = TcpListener::bind("127.0.0.1:8443").await?;
    Server::new(settings, parts).await?.run(listener, serving).await?;
    tasks.cancel();
    tasks.join(Duration::from_secs(5)).await?;
    Ok(())
}
