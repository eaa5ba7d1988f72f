/// Helm itself.
mod helm;
/// CRDs of others.
mod foreign;
/// Every choice of values.
mod matrix;
/// What a release has for kubectl.
mod manifests;
/// What single values do.
mod choices;
/// A release of an older chart.
mod older;
/// In place of cert-manager.
mod certificates;
/// In place of a kubelet.
mod pod;
/// Alerts and dashboard.
mod figures;
/// From installation to the end.
mod release;

use anyhow::Result;
use figures::PromQueries;
use helm::Helm;
use instance::layout::Layout;
use instance::{Instance, Options, up};
use terminal::say;

/// The chart on a real kube-apiserver, by the real Helm, with a database that has a certificate.
pub(crate) fn check() -> Result<()> {
    let layout = Layout::of_manifests();
    up::clear(&layout)?;
    let options = Options { bare: true, database_tls: true, ..Options::default() };
    let instance = Instance::start(&layout, &options)?;
    let outcome = tried(&instance);
    instance.stop()?;
    outcome?;
    up::clear(&layout)
}

fn tried(instance: &Instance) -> Result<()> {
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
    let questions = PromQueries::of(kubectl)?;
    say::step("alerts fire when they should, and the dashboard is sound", || {
        questions.check(&instance.layout.path("rules")).and_then(|()| questions.loads())
    })?;
    if foreign {
        release::check(instance, &helm, &archive, &questions)?;
    }
    Ok(())
}
