//! Go programs besides the control plane, each in a module of its own and built once per user. Tests that need one are
//! skipped if it cannot be built.

use crate::go::{Effort, Module};
use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

/// A Go program below `tests/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoProgram {
    /// Its name in `.dev/bin`.
    pub(crate) name: &'static str,
    /// Its directory.
    dir: &'static str,
    /// Its name for people.
    pub(crate) what: &'static str,
    /// The text when it is built.
    pub(crate) step: &'static str,
    /// The package to build: the module's own program, or a tool that the module names.
    package: &'static str,
    tags: &'static str,
    effort: Effort,
}

impl GoProgram {
    /// A program of ours, in a module of its own.
    const fn own(name: &'static str, what: &'static str, step: &'static str) -> Self {
        Self { name, dir: name, what, step, package: ".", tags: "", effort: Effort::Quick }
    }
}

/// The programs of `up`: OCI registry and identity provider.
pub(crate) const PLATFORM_PROGRAMS: [GoProgram; 2] = [
    GoProgram::own("registry", "registry", "registry built"),
    GoProgram::own("oidc", "identity provider", "identity provider built"),
];

/// The programs that test deploy/.
pub(crate) const DELIVERY_PROGRAMS: [GoProgram; 2] = [
    GoProgram {
        package: "helm.sh/helm/v4/cmd/helm",
        effort: Effort::AsTests,
        ..GoProgram::own("helm", "Helm", "Helm built")
    },
    GoProgram {
        package: "github.com/prometheus/prometheus/cmd/promtool",
        // Service discovery needs modules that are not available everywhere; rules do not need it.
        tags: "remove_all_sd",
        ..GoProgram::own("promtool", "promtool", "promtool built")
    },
];

/// Konnectivity, the tunnel to member clusters that only dial out.
pub(crate) const TUNNEL_PROGRAMS: [GoProgram; 2] = [
    GoProgram {
        dir: "konnectivity",
        package: "sigs.k8s.io/apiserver-network-proxy/cmd/server",
        ..GoProgram::own("proxy-server", "tunnel's server", "tunnel's server built")
    },
    GoProgram {
        dir: "konnectivity",
        package: "sigs.k8s.io/apiserver-network-proxy/cmd/agent",
        ..GoProgram::own("proxy-agent", "tunnel's agent", "tunnel's agent built")
    },
];

impl GoProgram {
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

/// Links the programs that exist into `.dev/bin`.
pub(crate) fn link() -> Result<()> {
    PLATFORM_PROGRAMS
        .into_iter()
        .chain(DELIVERY_PROGRAMS)
        .chain(TUNNEL_PROGRAMS)
        .try_for_each(GoProgram::link)
}
