//! `cargo xtask up`, `down` and `login`: build everything and exec the program `instance`.

use crate::build::{self, Programs};
use crate::call;
use crate::control_plane::ControlPlane;
use crate::go_programs;
use crate::patroni;
use crate::postgres;
use crate::web;
use crate::workspace;
use anyhow::Result;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Instant;
use terminal::caller;
use terminal::line::{Postgres, Up};

/// Builds and links what an instance consists of.
pub(crate) fn prepare(programs: &[Programs], control_plane: &ControlPlane) -> Result<()> {
    build::build(programs, Some(control_plane))?;
    control_plane.link()?;
    build::link_plugin()?;
    go_programs::link()?;
    postgres::link()
}

/// Builds and execs `instance up`.
pub(crate) fn up(up: &Up, begun: Instant) -> Result<Infallible> {
    let local = up.kubeconfig.is_none() || up.members > 0;
    let control_plane = if local { ControlPlane::whole() } else { ControlPlane::kubectl() };
    web::on_demand()?;
    build::build(&[Programs::PLATFORM], Some(&control_plane))?;
    control_plane.link()?;
    build::link_plugin()?;
    go_programs::link()?;
    let given = std::env::var_os("DATABASE_URL").is_some_and(|url| !url.is_empty());
    match &up.postgres {
        Some(Postgres::Ha) => patroni::link()?,
        Some(Postgres::Url(_)) => {}
        None if given && !up.check => {}
        None => postgres::link()?,
    }
    call::become_program(&program()?, std::env::args_os().skip(1).chain(caller::spent(begun)))
}

/// Execs `instance` to stop an instance or to log in, without building: a running instance was built before.
pub(crate) fn instance() -> Result<Infallible> {
    let program = program()?;
    if !program.exists() {
        build::build(&[Programs::PLATFORM], None)?;
    }
    call::become_program(&program, std::env::args_os().skip(1))
}

fn program() -> Result<PathBuf> {
    Ok(workspace::built(false)?.join("instance"))
}
