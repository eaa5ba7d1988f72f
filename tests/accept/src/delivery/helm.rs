//! Runs Helm as a user would.

use anyhow::{Context, Result, bail, ensure};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::manifests::NAMESPACE;
use instance::process;
use serde::Deserialize as _;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_mins(5);
/// The name of the release.
pub(super) const RELEASE: &str = "business";

/// The helm command with a kubeconfig.
#[derive(Debug)]
pub(super) struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// The path of a values file below tests/accept/deploy/values.
pub(super) fn values(name: &str) -> String {
    let path = layout::workspace().join(format!("tests/accept/deploy/values/{name}.yaml"));
    path.to_string_lossy().into_owned()
}

pub(super) fn chart() -> String {
    layout::workspace().join("deploy/chart").to_string_lossy().into_owned()
}

impl Helm {
    /// Nothing if helm could not be built.
    pub(super) fn find(kubectl: &Kubectl, home: &Path) -> Option<Self> {
        let program = layout::bin().join("helm");
        let (kubeconfig, home) = (kubectl.kubeconfig().to_owned(), home.to_owned());
        program.exists().then_some(Self { program, kubeconfig, home })
    }

    fn output(&self, namespace: &str, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(args).args(["--namespace", namespace]);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home);
        for (name, folder) in [
            ("HELM_CACHE_HOME", "helm/cache"),
            ("HELM_CONFIG_HOME", "helm/config"),
            ("HELM_DATA_HOME", "helm/data"),
        ] {
            command.env(name, self.home.join(folder));
        }
        process::output_within(&mut command, None, DEADLINE)
    }

    pub(super) fn run(&self, args: &[&str]) -> Result<String> {
        self.run_in(NAMESPACE, args)
    }

    fn run_in(&self, namespace: &str, args: &[&str]) -> Result<String> {
        let output = self.output(namespace, args)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm {}: {}", args.join(" "), complaint.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it and returns its stderr; success is the error.
    pub(super) fn refused(&self, args: &[&str]) -> Result<String> {
        let output = self.output(NAMESPACE, args)?;
        if output.status.success() {
            bail!("helm {} should have been refused", args.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Renders the chart with a values file.
    pub(super) fn template(&self, name: &str) -> Result<Vec<Value>> {
        let text = self.run(&["template", RELEASE, &chart(), "--values", &values(name)])?;
        objects(&text).with_context(|| format!("what the chart renders to with {name}"))
    }

    /// Renders a chart for a release in a namespace, with values from `--set`.
    pub(super) fn template_with(&self, namespace: &str, chart: &str, set: &[&str]) -> Result<Vec<Value>> {
        let set: Vec<&str> = set.iter().flat_map(|one| ["--set", one]).collect();
        let args = [&["template", RELEASE, chart], set.as_slice()].concat();
        objects(&self.run_in(namespace, &args)?).with_context(|| args.join(" "))
    }

    /// The hooks of the release.
    pub(super) fn hooks(&self) -> Result<Vec<Value>> {
        objects(&self.run(&["get", "hooks", RELEASE])?)
    }
}

fn objects(text: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let object = Value::deserialize(document)?;
        if !object.is_null() {
            objects.push(object);
        }
    }
    Ok(objects)
}
