/// The helm command.
mod helm;
/// CRDs of other projects.
mod foreign;
/// The chart with many combinations of values.
mod matrix;
/// The manifests of a release that people apply with kubectl.
mod manifests;
/// The effect of single values.
mod choices;
/// The upgrade from an older chart.
mod older;
/// Does what cert-manager does.
mod certificates;
/// Does what a kubelet does.
mod pod;
/// Alert rules and the dashboard.
mod figures;
/// A release from install to uninstall.
mod release;

use anyhow::Result;
use figures::PromQueries;
use helm::Helm;
use instance::layout::Layout;
use instance::{Instance, Options, up};
use terminal::say;

/// Tests the chart with the real helm on a real kube-apiserver, and with a PostgreSQL that uses TLS.
pub(crate) fn check() -> Result<()> {
    let layout = Layout::of_manifests();
    up::clear(&layout)?;
    let options = Options { bare: true, database_tls: true, ..Options::default() };
    let instance = Instance::start(&layout, &options)?;
    let outcome = run_all(&instance);
    instance.stop()?;
    outcome?;
    up::clear(&layout)
}

fn run_all(instance: &Instance) -> Result<()> {
    let kubectl = &instance.kubectl;
    let Some(helm) = Helm::find(kubectl, &instance.layout.path("home")) else {
        say::skipped("Helm's program is not there: the chart is not tried");
        return Ok(());
    };
    let foreign =
        say::step("CRDs of cert-manager, Prometheus and Gateway API", || foreign::install(kubectl))?;
    say::step("the manifests of a release are accepted", || {
        manifests::check(kubectl, &instance.layout.path("manifests"), foreign)
    })?;
    say::step("the chart with every choice of values is accepted", || {
        matrix::check(kubectl, &helm, foreign)
    })?;
    let archive =
        say::step("its archive is the same", || matrix::packaged(&helm, &instance.layout.path("charts")))?;
    say::step("the chart is what kustomize makes", || matrix::same_as_kustomize(kubectl, &helm))?;
    say::step("single values do what they say, and no more", || {
        choices::check(&helm, &instance.layout.path("built"))
    })?;
    say::step("a release of a chart with fewer values is upgraded", || {
        older::check(kubectl, &helm, &instance.layout.path("older"))
    })?;
    let queries = PromQueries::of(kubectl)?;
    say::step("alerts fire when they should, and the dashboard is sound", || {
        queries.check_rules(&instance.layout.path("rules")).and_then(|()| queries.check_dashboard())
    })?;
    if foreign {
        release::check(instance, &helm, &archive, &queries)?;
    }
    Ok(())
}
