//! Runs the Playwright tests in tests/web of the console, on a separate instance.

use anyhow::{Context as _, Result, ensure};
use instance::job::{apply, until_available};
use instance::layout::{self, Layout};
use instance::wait;
use instance::{Instance, Options, identity, manifests, up};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use terminal::say::{self, Count};

/// Two more clusters: one that is there, and one that does not answer any more.
const MEMBERS: u8 = 2;
const LOST: &str = "member-2";
const NAMESPACES: [(&str, &str); 3] =
    [("shop", "local-batch"), ("shop-eu", "local-eu-web"), ("data", "member-2-reports")];
/// Several times what all tests take together.
const DEADLINE: Duration = Duration::from_mins(40);
/// Tests of what a platform does not answer at will, beside a stand-in.
const SIMULATED: &str = "@simulated";
const POLL: Duration = Duration::from_millis(100);
const TAKEN: Duration = Duration::from_mins(2);

/// Starts an instance, lets the browser in, and counts the tests.
pub(crate) fn check() -> Result<Count> {
    if !identity::is_there() {
        say::skipped("the identity provider's program is not there: nobody can log in");
        return Ok(Count::default());
    }
    let layout = Layout::of_web();
    up::clear(&layout)?;
    std::fs::create_dir_all(&layout.dir)?;
    let mut count = run(simulated(), &layout)?;
    let instance =
        Instance::start(&layout, &Options { members: MEMBERS, replicas: 2, ..Options::default() })?;
    let outcome = up::first_objects(&instance).and_then(|()| {
        say::step("what the console's tests look at", || objects(&instance))?;
        run(real(&instance)?, &layout)
    });
    let stopped = say::step("everything stopped", || {
        let thawed = instance.supervisor.thaw(&lost());
        instance.stop().and(thawed)
    });
    count.add(outcome?);
    stopped?;
    if count.failed == 0 {
        up::clear(&layout)?;
    }
    Ok(count)
}

fn lost() -> String {
    format!("kube-apiserver-{LOST}")
}

/// Projects at every level, and a namespace that goes while its cluster does not answer.
fn objects(instance: &Instance) -> Result<()> {
    let kubectl = &instance.kubectl;
    for object in manifests::read(&tests().join("objects.yaml"))? {
        wait::until("the object is taken", TAKEN, || {
            Ok(match apply(kubectl, &object) {
                Ok(_) => wait::Progress::Done(()),
                // Projects and namespaces that it needs are not ready yet.
                Err(error) => wait::Progress::Pending(error.to_string()),
            })
        })?;
    }
    for (project, namespace) in NAMESPACES {
        until_available(kubectl, project, namespace)?;
    }
    instance.supervisor.freeze(&lost())?;
    let (project, namespace) = NAMESPACES[2];
    kubectl.run(&["delete", "bns", namespace, "-n", project, "--wait=false"]).map(drop)
}

fn tests() -> PathBuf {
    layout::workspace().join("tests/web")
}

/// What is said of the platform to tests that need a real one.
fn real(instance: &Instance) -> Result<Command> {
    let provider = instance.provider.as_ref().context("no provider")?;
    let origin = provider.consoles.first().context("no console")?;
    let password = std::fs::read_to_string(instance.layout.path("oidc/password"))?;
    let state = instance.layout.path("state.json");
    let restart = format!("node {} {} business-api", quoted(&tests().join("restart.mjs")), quoted(&state));
    let before = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(layout::bin()).chain(std::env::split_paths(&before)))?;
    let mut command = playwright();
    if let Ok(words) = std::env::var("XTASK_WEB") {
        // Those of the files that are named, and no others before them.
        command.args(words.split(' ')).args(["--no-deps", "--workers=1"]);
    }
    command
        .env("PATH", path)
        .env("HOME", instance.layout.path("home"))
        .env("CONSOLE_URL", origin)
        .env("CONSOLE_PASSWORD", password.trim())
        .env("CONSOLE_RESTART", restart)
        .env("CONSOLE_PEOPLE", &instance.layout.dir)
        .env("KUBECONFIG", instance.kubectl.kubeconfig());
    Ok(command)
}

fn simulated() -> Command {
    let mut command = playwright();
    let page = layout::workspace().join("crates/console-page/built");
    // Each worker has a stand-in of its own, so nothing has to wait; what others depend on would run whole.
    command.args(["--grep", SIMULATED, "--no-deps"]).env("DIST", page).env_remove("CONSOLE_URL");
    command
}

fn playwright() -> Command {
    let mut command = Command::new("node");
    let program = ["node_modules/@playwright/test/cli.js", "test", "--reporter=list,json,./failures.ts"];
    command.current_dir(tests()).args(program).stdout(say::lines());
    command
}

/// Runs tests and reads what Playwright has counted.
fn run(mut command: Command, layout: &Layout) -> Result<Count> {
    let report = layout.path("playwright.json");
    let mut child =
        command.env("PLAYWRIGHT_JSON_OUTPUT_NAME", &report).spawn().context("start Playwright")?;
    let end = Instant::now() + DEADLINE;
    while child.try_wait()?.is_none() {
        if wait::interrupted() || Instant::now() > end {
            child.kill()?;
            child.wait()?;
        }
        std::thread::sleep(POLL);
    }
    let told = std::fs::read(&report).context("Playwright has written no report")?;
    std::fs::remove_file(&report)?;
    counted(&serde_json::from_slice(&told)?)
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// A flaky test counts as failed.
fn counted(report: &Value) -> Result<Count> {
    let number = |name: &str| -> Result<usize> {
        let number = report.pointer(&format!("/stats/{name}")).and_then(Value::as_u64);
        Ok(usize::try_from(number.with_context(|| format!("no {name} in the report"))?)?)
    };
    let count = Count { passed: number("expected")?, failed: number("unexpected")? + number("flaky")? };
    let errors = report.get("errors").and_then(Value::as_array).map_or(0, Vec::len);
    ensure!(
        errors == 0 || count.failed > 0,
        "Playwright failed outside a test: {}",
        report.get("errors").unwrap_or(&Value::Null)
    );
    ensure!(count.passed + count.failed > 0, "no test ran");
    say::line(format_args!("      {} left out", number("skipped")?));
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_flaky_has_failed_and_a_report_without_tests_is_none() {
        let stats = |expected: u64, flaky: u64| json!({"stats": {"expected": expected, "unexpected": 1, "flaky": flaky, "skipped": 2}, "errors": []});
        assert_eq!(counted(&stats(3, 1)).unwrap(), Count { passed: 3, failed: 2 });
        let none =
            json!({"stats": {"expected": 0, "unexpected": 0, "flaky": 0, "skipped": 2}, "errors": [{}]});
        assert!(counted(&none).is_err());
    }
}
