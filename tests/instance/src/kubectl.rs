//! Runs kubectl as a user would.

use crate::process;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Some commands wait without an end of their own, such as `delete`.
const DEADLINE: Duration = Duration::from_mins(5);

/// kubectl with a kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    /// Flags for impersonation.
    acting: &'static [&'static str],
}

impl Kubectl {
    /// `home` holds the discovery cache, so that no other cluster's is used.
    pub fn new(program: &Path, kubeconfig: &Path, home: &Path) -> Self {
        Self {
            program: program.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            home: home.to_owned(),
            acting: &[],
        }
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    #[must_use]
    pub fn with_kubeconfig(&self, kubeconfig: &Path) -> Self {
        Self { kubeconfig: kubeconfig.to_owned(), ..self.clone() }
    }

    /// Acts as another user.
    #[must_use]
    pub fn acting(&self, acting: &'static [&'static str]) -> Self {
        Self { acting, ..self.clone() }
    }

    /// The command, for a caller who wants to keep it running.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.acting).args(args).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home);
        command.env("KUBECACHEDIR", self.home.join("kube-cache"));
        command.env_remove("KUBECTL_EXTERNAL_DIFF").stdin(Stdio::null());
        command
    }

    /// Runs it; returns the output even if it fails.
    pub fn output(&self, args: &[&str], input: Option<&str>) -> Result<Output> {
        process::output_within(&mut self.command(args), input, DEADLINE)
            .with_context(|| format!("kubectl {}", args.join(" ")))
    }

    /// Runs it and returns its stdout; its stderr is the error.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        text(args, &self.output(args, None)?)
    }

    /// Applies manifests.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        let args = ["apply", "--server-side", "--force-conflicts", "--field-manager=xtask", "-f", "-"];
        text(&args, &self.output(&args, Some(manifests))?)
    }

    /// Feeds `input` to a command that reads from `-`.
    pub fn feed(&self, args: &[&str], input: &str) -> Result<String> {
        text(args, &self.output(args, Some(input))?)
    }

    /// `kubectl get … -o json`.
    pub fn json(&self, args: &[&str]) -> Result<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        let text = self.run(&args)?;
        serde_json::from_str(&text).with_context(|| format!("output of kubectl {}", args.join(" ")))
    }

    /// As [`Kubectl::json`] with `--ignore-not-found`: nothing when nothing is printed.
    pub fn json_or_nothing(&self, args: &[&str]) -> Result<Option<Value>> {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        let text = self.run(&args)?;
        Ok(if text.trim().is_empty() { None } else { Some(serde_json::from_str(&text)?) })
    }

    /// Runs it and returns its stderr; success is the error.
    pub fn refused(&self, args: &[&str], input: Option<&str>) -> Result<String> {
        let output = self.output(args, input)?;
        if output.status.success() {
            let printed = String::from_utf8_lossy(&output.stdout);
            bail!("kubectl {} should have been refused; it printed: {printed}", args.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn text(args: &[&str], output: &Output) -> Result<String> {
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("kubectl {}: {}", args.join(" "), complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
