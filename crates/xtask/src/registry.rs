//! The program of the OCI registry, built once per user (tests/registry). What needs it is skipped where it cannot be built.

use crate::go::{Effort, Module};
use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

fn source() -> PathBuf {
    workspace::root().join("tests/registry")
}

fn program() -> Result<PathBuf> {
    workspace::cached("registry", &source(), "")
}

pub(crate) fn module() -> Result<Module> {
    let (tags, values) = (String::new(), String::new());
    let (source, program) = (source(), program()?);
    Ok(Module { what: "registry", source, tags, values, program, effort: Effort::Quick })
}

pub(crate) fn is_to_be_built() -> bool {
    !program().is_ok_and(|program| program.exists())
}

/// Links it into `.dev/bin`, if it is there.
pub(crate) fn link() -> Result<()> {
    let (program, link) = (program()?, workspace::dev().join("bin/registry"));
    if program.exists() {
        return workspace::link(&program, &link);
    }
    match std::fs::remove_file(&link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
