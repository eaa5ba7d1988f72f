//! Runs pods without a kubelet: image, arguments, environment, volumes, the token of the `ServiceAccount` and probes come
//! from the object. Volumes are directories, and ports are free ports of this machine.

use crate::json::{list, text};
use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use instance::kubeconfig::{Kubeconfig, token};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::process::ProcessIdentity;
use instance::programs::get;
use instance::wait::{self, Progress};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The address that programs in a pod listen on.
const ALL_ADDRESSES: &str = "0.0.0.0:";
/// How long a Job may run.
const ENDED: Duration = Duration::from_mins(3);
const STOPPED: Duration = Duration::from_mins(3);

/// Runs the pods of a cluster.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// kubectl of the cluster's administrator.
    pub(super) kubectl: &'a Kubectl,
    /// The directory of volumes and logs.
    pub(super) dir: PathBuf,
}

/// A running pod with one container.
#[derive(Debug)]
pub(super) struct Pod {
    name: String,
    child: Child,
    container: Value,
    log: PathBuf,
    /// The port of this machine by the port of the container.
    ports: BTreeMap<u16, u16>,
}

/// A container's command line and environment.
#[derive(Debug, Default)]
struct CommandLine {
    args: Vec<String>,
    env: Vec<(String, String)>,
    ports: BTreeMap<u16, u16>,
}

impl Node<'_> {
    /// Starts the pod of a template in a Deployment or a Job.
    pub(super) fn run(&self, name: &str, namespace: &str, spec: &Value) -> Result<Pod> {
        let dir = self.dir.join(name);
        std::fs::create_dir_all(&dir)?;
        let containers = spec.get("containers").and_then(Value::as_array);
        let [container] = containers.map(Vec::as_slice).unwrap_or_default() else {
            bail!("{name} has not one container");
        };
        let mounts = self.mounts(&dir, namespace, spec, container)?;
        let mut line = self.command_line(name, namespace, container, &mounts)?;
        let kubeconfig = dir.join("kubeconfig");
        self.kubeconfig(namespace, text(spec, "/serviceAccountName"), &kubeconfig)?;
        line.args.push(format!("--kubeconfig={}", kubeconfig.display()));
        let log = dir.join("log");
        let file = File::options().create(true).append(true).open(&log)?;
        let child = Command::new(program(container)?)
            .args(&line.args)
            .env_clear()
            .envs(line.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Pod { name: name.to_owned(), child, container: container.clone(), log, ports: line.ports })
    }

    /// Writes a kubeconfig with a token of the `ServiceAccount`, in place of the token that a kubelet mounts.
    fn kubeconfig(&self, namespace: &str, account: &str, path: &Path) -> Result<()> {
        ensure!(!account.is_empty(), "the pod names no ServiceAccount");
        let like = self.kubectl.json(&["config", "view", "--raw", "--flatten", "--minify"])?;
        let issued = self.kubectl.run(&["create", "token", account, "--namespace", namespace])?;
        Kubeconfig::default().context_like("cluster", &like, &token(issued.trim()))?.write(path)
    }

    /// Writes the volumes; returns the directory of each mount path.
    fn mounts(
        &self,
        dir: &Path,
        namespace: &str,
        spec: &Value,
        container: &Value,
    ) -> Result<Vec<(String, PathBuf)>> {
        let mut mounts = Vec::new();
        for mount in list(container, "/volumeMounts") {
            let name = text(mount, "/name");
            let volume = list(spec, "/volumes").find(|volume| text(volume, "/name") == name);
            let volume = volume.with_context(|| format!("there is no volume {name}"))?;
            let directory = dir.join("volumes").join(name);
            self.write_volume(&directory, namespace, volume).with_context(|| format!("volume {name}"))?;
            mounts.push((text(mount, "/mountPath").to_owned(), directory));
        }
        Ok(mounts)
    }

    fn write_volume(&self, directory: &Path, namespace: &str, volume: &Value) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        let (source, kind, named) = match volume.get("secret") {
            Some(secret) => (secret, "secret", "/secretName"),
            None => {
                (volume.get("configMap").context("it is neither Secret nor ConfigMap")?, "configmap", "/name")
            }
        };
        let object = self.kubectl.json(&["get", kind, text(source, named), "--namespace", namespace])?;
        let data = object.get("data").and_then(Value::as_object).context("it is empty")?;
        let items: BTreeMap<&str, &str> =
            list(source, "/items").map(|item| (text(item, "/key"), text(item, "/path"))).collect();
        for (key, value) in data {
            let path = if items.is_empty() { Some(key.as_str()) } else { items.get(key.as_str()).copied() };
            let Some(path) = path else { continue };
            let value = value.as_str().unwrap_or_default();
            let bytes = if kind == "secret" { STANDARD.decode(value)? } else { value.as_bytes().to_vec() };
            std::fs::write(directory.join(path), bytes)?;
        }
        Ok(())
    }

    fn command_line(
        &self,
        name: &str,
        namespace: &str,
        container: &Value,
        mounts: &[(String, PathBuf)],
    ) -> Result<CommandLine> {
        let mut line = CommandLine::default();
        for variable in list(container, "/env") {
            let value = self.value(name, namespace, variable)?;
            line.env.push((text(variable, "/name").to_owned(), local_path(&value, mounts)));
        }
        for arg in list(container, "/args").filter_map(Value::as_str) {
            let mut arg = arg.to_owned();
            for (name, value) in &line.env {
                arg = arg.replace(&format!("$({name})"), value);
            }
            if let Some((flag, port)) = arg.split_once(ALL_ADDRESSES) {
                let (flag, port) = (flag.to_owned(), port.parse().with_context(|| arg.clone())?);
                let free = free_port()?;
                line.ports.insert(port, free);
                arg = format!("{flag}127.0.0.1:{free}");
            }
            line.args.push(local_flag(&arg, mounts));
        }
        for port in list(container, "/ports") {
            let number =
                port.get("containerPort").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
            ensure!(number.is_some_and(|port| line.ports.contains_key(&port)), "nothing listens at {port}");
        }
        Ok(line)
    }

    /// The value of an environment variable.
    fn value(&self, name: &str, namespace: &str, variable: &Value) -> Result<String> {
        if let Some(value) = variable.get("value").and_then(Value::as_str) {
            return Ok(value.to_owned());
        }
        if text(variable, "/valueFrom/fieldRef/fieldPath") == "metadata.name" {
            return Ok(name.to_owned());
        }
        let reference =
            variable.pointer("/valueFrom/secretKeyRef").with_context(|| format!("what is {variable}?"))?;
        let secret =
            self.kubectl.json(&["get", "secret", text(reference, "/name"), "--namespace", namespace])?;
        let key = text(reference, "/key");
        let value = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
        Ok(String::from_utf8(STANDARD.decode(value.with_context(|| format!("no key {key}"))?)?)?)
    }
}

impl Pod {
    /// Waits until each probe succeeds.
    pub(super) fn ready(&mut self) -> Result<()> {
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let Some(probe) = self.container.get(probe).cloned() else { continue };
            let number =
                |field: &str, default: u64| probe.get(field).and_then(Value::as_u64).unwrap_or(default);
            // A kubelet would give up after so many failures, but this machine may be slow.
            let patience = (number("periodSeconds", 10) * number("failureThreshold", 3)).max(180);
            self.answers(&probe, Duration::from_secs(patience))?;
        }
        Ok(())
    }

    fn answers(&mut self, probe: &Value, patience: Duration) -> Result<()> {
        let (path, port) = (text(probe, "/httpGet/path"), text(probe, "/httpGet/port"));
        let port = self.port(port)?;
        let what = format!("{} answers {path}", self.name);
        wait::until(&what, patience, || {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended ({status}): {}", self.name, self.said());
            }
            Ok(match get(port, path) {
                Ok((code, _)) if (200..400).contains(&code) => Progress::Done(()),
                Ok((code, body)) => Progress::Pending(format!("{code} {}", body.trim())),
                Err(error) => Progress::Pending(error.to_string()),
            })
        })
        .with_context(|| self.said())
    }

    /// The port of this machine for a named port of the container.
    pub(super) fn port(&self, name: &str) -> Result<u16> {
        let named = list(&self.container, "/ports").find(|port| text(port, "/name") == name);
        let number = named
            .and_then(|port| port.get("containerPort")?.as_u64())
            .and_then(|port| u16::try_from(port).ok());
        let found = number.and_then(|port| self.ports.get(&port).copied());
        found.with_context(|| format!("{} has no port {name}", self.name))
    }

    /// Waits until a pod that ends by itself has succeeded.
    pub(super) fn succeeds(mut self) -> Result<()> {
        self.until_ended(ENDED)
    }

    /// Asks the pod to end with SIGTERM and waits.
    pub(super) fn stop(mut self) -> Result<()> {
        let process = ProcessIdentity::of(self.child.id()).context("it has ended")?;
        process.signal(Signal::SIGTERM)?;
        self.until_ended(STOPPED)
    }

    fn until_ended(&mut self, deadline: Duration) -> Result<()> {
        let what = format!("{} ends", self.name);
        wait::until(&what, deadline, || {
            Ok(match self.child.try_wait()? {
                Some(status) if status.success() => Progress::Done(()),
                Some(status) => bail!("{} ended ({status}): {}", self.name, self.said()),
                None => Progress::Pending("it runs".to_owned()),
            })
        })
    }

    fn said(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(10)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The program of one of our images.
fn program(container: &Value) -> Result<PathBuf> {
    let image = text(container, "/image");
    let name = image.rsplit('/').next().unwrap_or(image).split(':').next().unwrap_or_default();
    ensure!(["business-api", "business-controller"].contains(&name), "{image} is none of ours");
    layout::program_path(name)
}

/// Replaces the mount path that a value begins with by the directory of its volume.
fn local_path(value: &str, mounts: &[(String, PathBuf)]) -> String {
    for (path, place) in mounts {
        if let Some(rest) = value.strip_prefix(path.as_str()).filter(|rest| rest.starts_with('/')) {
            return format!("{}{rest}", place.display());
        }
    }
    value.to_owned()
}

fn local_flag(arg: &str, mounts: &[(String, PathBuf)]) -> String {
    match arg.split_once('=') {
        Some((flag, value)) => format!("{flag}={}", local_path(value, mounts)),
        None => arg.to_owned(),
    }
}

/// A port that is free at the moment.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_volumes_are_found_on_this_machine() {
        let mounts = [("/tls".to_owned(), PathBuf::from("/here/tls"))];
        assert_eq!(local_flag("--tls-cert-file=/tls/tls.crt", &mounts), "--tls-cert-file=/here/tls/tls.crt");
        assert_eq!(local_flag("--namespace=/tlsx", &mounts), "--namespace=/tlsx");
        assert_eq!(local_path("/tls/ca.crt", &mounts), "/here/tls/ca.crt");
    }
}
