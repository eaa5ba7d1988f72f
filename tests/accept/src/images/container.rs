//! Runs an image as a kubelet and a container runtime do, with standard Linux programs.

use crate::json::list;
use anyhow::{Context as _, Result, ensure};
use instance::layout;
use instance::process;
use instance::supervisor::Spec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ANY: &str = "0.0.0.0:";
const PROGRAM: Duration = Duration::from_mins(3);
/// Whom mounted Secrets belong to: the group of the pod, `fsGroup`.
const GROUP: u32 = 65532;
/// Makes `$1` a root that is read only, with the devices and /proc that every runtime gives, and becomes the command behind it,
/// which gets no more rights.
const RUN: &str = r#"set -eu; root="$1"; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/dev" "$root/proc"
mount -t tmpfs -o nosuid,noexec,mode=755,size=64k tmpfs "$root/dev"
for device in null zero full random urandom; do
  : > "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -o remount,bind,ro,nosuid,nodev "$root"
exec setpriv --no-new-privs "$@""#;
/// Where it is, since nothing of this machine's environment is left.
const CHROOT: [&str; 2] = ["/usr/sbin/chroot", "/usr/bin/chroot"];

/// What a Deployment says about its container.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    /// Startup, liveness, readiness, in this order.
    pub(super) probes: Vec<Probe>,
}

/// A GET of the kubelet's.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) path: String,
    pub(super) port: u16,
}

impl Pod {
    /// With other ports, since this machine's are shared, and what the kubelet knows of the environment.
    pub(super) fn of(
        deployment: &Value,
        port: impl Fn(u16) -> u16,
        known: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let container = containers.and_then(|all| all.first()).context("a Deployment without a container")?;
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        for variable in list(container, "/env") {
            let name = string(variable, "name")?;
            let given = variable.get("value").and_then(Value::as_str).map(str::to_owned);
            let value = given.or_else(|| known.get(name).cloned());
            env.insert(name.to_owned(), value.with_context(|| format!("nobody knows {name}"))?);
        }
        let service = known.iter().filter(|(name, _)| name.starts_with("KUBERNETES_"));
        env.extend(service.map(|(name, value)| (name.clone(), value.clone())));
        let args = list(container, "/args").filter_map(Value::as_str);
        let args = args.map(|arg| moved(&expanded(arg, &env), &port)).collect::<Result<_>>()?;
        let mut probes = Vec::new();
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let Some(get) = container.get(probe).and_then(|probe| probe.get("httpGet")) else { continue };
            let name = string(get, "port")?;
            let named = list(container, "/ports").find(|port| port.get("name") == get.get("port"));
            let number = named.and_then(|port| port.get("containerPort")?.as_u64());
            let number = number.with_context(|| format!("no port is called {name}"))?;
            probes.push(Probe { path: string(get, "path")?.to_owned(), port: port(number.try_into()?) });
        }
        ensure!(!probes.is_empty(), "a container without probes");
        Ok(Self { args, env: env.into_iter().collect(), probes })
    }
}

/// `$(NAME)` of the environment.
fn expanded(arg: &str, env: &BTreeMap<String, String>) -> String {
    env.iter().fold(arg.to_owned(), |arg, (name, value)| arg.replace(&format!("$({name})"), value))
}

/// An address to listen at, for this machine alone.
fn moved(arg: &str, port: impl Fn(u16) -> u16) -> Result<String> {
    let Some((flag, number)) = arg.split_once(ANY) else { return Ok(arg.to_owned()) };
    let number: u16 = number.parse().with_context(|| format!("{arg}: no port"))?;
    Ok(format!("{flag}127.0.0.1:{}", port(number)))
}

fn string<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value.get(name).and_then(Value::as_str).with_context(|| format!("no {name} in {value}"))
}

/// Unpacks this machine's image of an archive; tells its configuration.
pub(super) fn unpack(archive: &Path, root: &Path) -> Result<Value> {
    std::fs::create_dir_all(root)?;
    let architecture = if cfg!(target_arch = "aarch64") { "linux/arm64" } else { "linux/amd64" };
    let mut dist = Command::new(layout::program_path("dist")?);
    dist.arg("unpack").arg(archive).args(["--platform", architecture, "--into"]).arg(root);
    let output = process::output_within(&mut dist, None, PROGRAM)?;
    ensure!(
        output.status.success(),
        "{} cannot be unpacked: {}",
        archive.display(),
        String::from_utf8_lossy(&output.stdout)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A file that the pod's group reads, as volumes are.
pub(super) fn mount(root: &Path, path: &str, bytes: &[u8]) -> Result<()> {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().context("no directory")?)?;
    std::fs::write(&file, bytes).with_context(|| format!("write {}", file.display()))?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o440))?;
    Ok(chown(&file, None, Some(GROUP))?)
}

/// A container that can be started.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) pod: Pod,
    root: PathBuf,
    user: String,
    entrypoint: Vec<String>,
    /// Of the image.
    env: Vec<String>,
}

impl Container {
    pub(super) fn of(name: &str, root: &Path, config: &Value, pod: Pod) -> Result<Self> {
        let config = config.get("config").context("an image without a configuration")?;
        let strings = |name: &str| list(config, name).filter_map(Value::as_str).map(str::to_owned).collect();
        let user = string(config, "User")?.to_owned();
        let (name, root) = (name.to_owned(), root.to_owned());
        Ok(Self { name, pod, root, user, entrypoint: strings("/Entrypoint"), env: strings("/Env") })
    }

    /// The number of its user, which is that of its group.
    pub(super) fn user(&self) -> &str {
        self.user.split(':').next().unwrap_or_default()
    }

    pub(super) fn spec(&self) -> Spec {
        Spec::new(&self.name, Path::new("unshare")).args(self.command(&self.pod.args))
    }

    fn command(&self, args: &[String]) -> Vec<String> {
        let root = self.root.to_string_lossy().into_owned();
        let chroot = CHROOT.into_iter().find(|file| Path::new(file).exists()).unwrap_or("chroot");
        let mut words: Vec<String> =
            ["--mount", "sh", "-c", RUN, "sh", &root, "env", "-i"].map(str::to_owned).into();
        words.extend(self.env.iter().cloned());
        words.extend(self.pod.env.iter().map(|(name, value)| format!("{name}={value}")));
        words.extend([chroot.to_owned(), format!("--userspec={}", self.user), root]);
        words.extend(self.entrypoint.iter().chain(args).cloned());
        words
    }

    /// The program runs, whatever else is there.
    pub(super) fn says_version(&self) -> Result<()> {
        let args = self.command(&["--version".to_owned()]);
        let output = process::output_within(Command::new("unshare").args(args), None, PROGRAM)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let wanted = format!("{} {}", self.name, env!("CARGO_PKG_VERSION"));
        ensure!(
            said.trim() == wanted,
            "it says `{}`: {}",
            said.trim(),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_deployment_is_read_as_a_kubelet_reads_it() {
        let deployment = json!({"spec": {"template": {"spec": {"containers": [{
            "args": ["run", "--bind=0.0.0.0:6443", "--identity=$(POD_NAME)"],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "DELAY", "value": "1"},
            ],
            "ports": [{"name": "admin", "containerPort": 8080}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "admin"}},
        }]}}}});
        let known = BTreeMap::from([("POD_NAME".to_owned(), "pod-0".to_owned())]);
        let pod = Pod::of(&deployment, |port| port + 1, &known).unwrap();
        assert_eq!(pod.args, ["run", "--bind=127.0.0.1:6444", "--identity=pod-0"]);
        assert_eq!(pod.env.len(), 2);
        assert_eq!((pod.probes[0].path.as_str(), pod.probes[0].port), ("/livez", 8081));
        let error = Pod::of(&deployment, |port| port, &BTreeMap::new()).unwrap_err();
        assert_eq!(error.to_string(), "nobody knows POD_NAME");
    }
}
