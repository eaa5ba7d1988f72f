//! Programs beside the control plane, each built once per user out of a module of its own. What needs one is skipped where
//! it cannot be built.

use crate::go::{Effort, Module};
use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

/// A program of Go below `tests/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extra {
    /// Its name in `.dev/bin`.
    pub(crate) name: &'static str,
    /// Its directory.
    dir: &'static str,
    /// What people call it.
    pub(crate) what: &'static str,
    /// The step that people are told.
    pub(crate) step: &'static str,
    /// What is built there: the module's own program, or one of a module that it names as a tool.
    package: &'static str,
    tags: &'static str,
    effort: Effort,
}

impl Extra {
    /// A program of ours, in a module of its own.
    const fn own(name: &'static str, what: &'static str, step: &'static str) -> Self {
        Self { name, dir: name, what, step, package: ".", tags: "", effort: Effort::Quick }
    }
}

/// The OCI registry and the identity provider: parts of what `up` runs.
pub(crate) const EXTRAS: [Extra; 2] = [
    Extra::own("registry", "registry", "registry built"),
    Extra::own("oidc", "identity provider", "identity provider built"),
];

/// What deploy/ is tried with.
pub(crate) const DELIVERY: [Extra; 2] = [
    Extra {
        package: "helm.sh/helm/v4/cmd/helm",
        effort: Effort::AsTests,
        ..Extra::own("helm", "Helm", "Helm built")
    },
    Extra {
        package: "github.com/prometheus/prometheus/cmd/promtool",
        // Service discovery needs modules that are not available everywhere; rules do not need it.
        tags: "remove_all_sd",
        ..Extra::own("promtool", "promtool", "promtool built")
    },
];

/// Konnectivity: what reaches member clusters that only dial out.
pub(crate) const TUNNEL: [Extra; 2] = [
    Extra {
        dir: "konnectivity",
        package: "sigs.k8s.io/apiserver-network-proxy/cmd/server",
        ..Extra::own("proxy-server", "tunnel's server", "tunnel's server built")
    },
    Extra {
        dir: "konnectivity",
        package: "sigs.k8s.io/apiserver-network-proxy/cmd/agent",
        ..Extra::own("proxy-agent", "tunnel's agent", "tunnel's agent built")
    },
];

impl Extra {
    fn source(self) -> PathBuf {
        workspace::root().join("tests").join(self.dir)
    }

    fn program(self) -> Result<PathBuf> {
        workspace::cached(self.name, &self.source(), "")
    }

    pub(crate) fn module(self) -> Result<Module> {
        let (tags, values) = (self.tags.to_owned(), String::new());
        let (source, program) = (self.source(), self.program()?);
        let (what, package, effort) = (self.what, self.package, self.effort);
        Ok(Module { what, source, package, tags, values, program, effort })
    }

    pub(crate) fn is_to_be_built(self) -> bool {
        !self.program().is_ok_and(|program| program.exists())
    }

    fn link(self) -> Result<()> {
        let (program, link) = (self.program()?, workspace::dev().join("bin").join(self.name));
        if program.exists() {
            return workspace::link(&program, &link);
        }
        match std::fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Links those that are there into `.dev/bin`.
pub(crate) fn link() -> Result<()> {
    EXTRAS.into_iter().chain(DELIVERY).chain(TUNNEL).try_for_each(Extra::link)
}
