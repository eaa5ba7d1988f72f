//! The programs of a local control plane: those of the machine if their versions fit, the others in one program that is
//! built once per user (tests/controlplane).

use crate::go::{Effort, Module};
use crate::workspace;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use terminal::say;

/// The version of Kubernetes that is built.
pub(crate) const VERSION: &str = "v1.36.3";
/// The variable with the directory of envtest's programs.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A program of the control plane.
#[derive(Clone, Copy, Debug)]
struct Component {
    name: &'static str,
    /// The build tag that leaves it out.
    tag: &'static str,
    version: &'static [&'static str],
    /// Output of `version` that is accepted.
    fits: &'static [&'static str],
}

const KUBECTL: Component = Component {
    name: "kubectl",
    tag: "without_kubectl",
    version: &["version", "--client"],
    fits: &["Client Version: v1.36."],
};
const COMPONENTS: [Component; 4] = [
    Component { name: "etcd", tag: "without_etcd", version: &["--version"], fits: &["etcd Version: 3.6."] },
    Component {
        name: "kube-apiserver",
        tag: "without_apiserver",
        version: &["--version"],
        fits: &["Kubernetes v1.36."],
    },
    // Always our own build: it has only the controllers that a cluster without nodes needs.
    Component { name: "kube-controller-manager", tag: "without_controllers", version: &[], fits: &[] },
    KUBECTL,
];

/// Which programs are taken from the machine and which are built.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    found: Vec<(Component, PathBuf)>,
    built: Vec<Component>,
    effort: Effort,
}

impl ControlPlane {
    /// All of it.
    pub(crate) fn whole() -> Self {
        Self::of(&COMPONENTS, &places(), fits)
    }

    /// All of it, optimized: for benchmarks.
    pub(crate) fn measured() -> Self {
        Self { effort: Effort::Full, ..Self::whole() }
    }

    /// Only kubectl, in any version, for a cluster of the user.
    pub(crate) fn kubectl() -> Self {
        Self::of(&[KUBECTL], &places(), |_, file| !is_ours(file))
    }

    fn of(
        components: &[Component],
        places: &[PathBuf],
        is_usable: impl Fn(&Component, &Path) -> bool,
    ) -> Self {
        let mut this = Self { found: Vec::new(), built: Vec::new(), effort: Effort::Quick };
        for component in components {
            match workspace::find(component.name, places.iter().cloned(), |file| is_usable(component, file)) {
                Some(file) => this.found.push((*component, file)),
                None => this.built.push(*component),
            }
        }
        this
    }

    /// The path of the built program; it may exist already.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        let effort = if self.effort == Effort::Full { "optimised," } else { "" };
        workspace::cached("controlplane", &source(), &format!("{effort}{}", self.tags()))
    }

    /// The Go module, with linker values for the versions.
    pub(crate) fn module(&self) -> Result<Module> {
        let set = "-X k8s.io/component-base/version";
        let minor = VERSION.split('.').nth(1).unwrap_or_default();
        let values = format!("{set}.gitVersion={VERSION} {set}.gitMajor=1 {set}.gitMinor={minor}");
        let (source, tags, program) = (source(), self.tags(), self.program()?);
        let (what, package, effort) = ("local control plane", ".", self.effort);
        Ok(Module { what, source, package, tags, values, program, effort })
    }

    pub(crate) fn is_to_be_built(&self) -> bool {
        !self.built.is_empty() && !self.program().is_ok_and(|program| program.exists())
    }

    /// The build tags of the programs that are left out.
    pub(crate) fn tags(&self) -> String {
        let is_built = |component: &&Component| !self.built.iter().any(|built| built.name == component.name);
        COMPONENTS.iter().filter(is_built).map(|component| component.tag).collect::<Vec<_>>().join(",")
    }

    /// Links all programs into `.dev/bin`.
    pub(crate) fn link(&self) -> Result<()> {
        let bin = workspace::dev().join("bin");
        std::fs::create_dir_all(&bin)?;
        for (component, file) in &self.found {
            say::line(format_args!("      {} of this machine is used: {}", component.name, file.display()));
            workspace::link(file, &bin.join(component.name))?;
        }
        let program = self.program()?;
        self.built.iter().try_for_each(|component| workspace::link(&program, &bin.join(component.name)))
    }
}

pub(crate) fn source() -> PathBuf {
    workspace::root().join("tests/controlplane")
}

fn places() -> Vec<PathBuf> {
    std::env::var_os(ASSETS).map(PathBuf::from).into_iter().chain(workspace::path()).collect()
}

/// Whether it is a link to a program that was built here, since `.dev/bin` may be on PATH.
fn is_ours(file: &Path) -> bool {
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    target.starts_with(workspace::cache()) || file.starts_with(workspace::dev())
}

fn fits(component: &Component, file: &Path) -> bool {
    if component.fits.is_empty() || is_ours(file) {
        return false;
    }
    let said = Command::new(file).args(component.version).output();
    said.is_ok_and(|said| {
        let text = String::from_utf8_lossy(&said.stdout);
        component.fits.iter().any(|fits| text.contains(fits))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn programs_of_the_machine_are_used_where_their_versions_fit() {
        let dir = std::env::temp_dir().join(format!("xtask-parts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, says: &str| {
            let file = dir.join(name);
            std::fs::write(&file, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("etcd", "etcd Version: 3.6.4");
        write("kube-apiserver", "Kubernetes v1.36.0");
        write("kube-controller-manager", "Kubernetes v1.36.0");
        write("kubectl", "Client Version: v1.32.4");
        let plane = ControlPlane::of(&COMPONENTS, std::slice::from_ref(&dir), fits);
        let names: Vec<&str> = plane.found.iter().map(|(component, _)| component.name).collect();
        assert_eq!(names, ["etcd", "kube-apiserver"]);
        assert_eq!(plane.tags(), "without_etcd,without_apiserver");
        let only_kubectl = ControlPlane::of(&[KUBECTL], std::slice::from_ref(&dir), |_, file| !is_ours(file));
        assert_eq!((only_kubectl.found.len(), only_kubectl.built.len()), (1, 0));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
