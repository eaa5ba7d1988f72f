//! Programs beside the control plane, each built once per user out of a module of its own. What needs one is skipped where
//! it cannot be built.

use crate::go::{Effort, Module};
use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

/// A program of Go below `tests/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extra {
    /// Its directory, and its name in `.dev/bin`.
    pub(crate) name: &'static str,
    /// What people call it.
    pub(crate) what: &'static str,
    /// The step that people are told.
    pub(crate) step: &'static str,
}

/// The OCI registry, and who people are.
pub(crate) const EXTRAS: [Extra; 2] = [
    Extra { name: "registry", what: "registry", step: "registry built" },
    Extra { name: "oidc", what: "identity provider", step: "identity provider built" },
];

impl Extra {
    fn source(self) -> PathBuf {
        workspace::root().join("tests").join(self.name)
    }

    fn program(self) -> Result<PathBuf> {
        workspace::cached(self.name, &self.source(), "")
    }

    pub(crate) fn module(self) -> Result<Module> {
        let (tags, values) = (String::new(), String::new());
        let (source, program) = (self.source(), self.program()?);
        Ok(Module { what: self.what, source, tags, values, program, effort: Effort::Quick })
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
    EXTRAS.into_iter().try_for_each(Extra::link)
}
