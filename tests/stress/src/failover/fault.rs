//! The faults of PostgreSQL under Patroni, and their repairs.

use anyhow::{Context, Result};
use instance::Instance;
use instance::patroni::{DCS, PatroniCluster, PatroniNode, Role};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes that are written at a time to a disk that is to be full.
const BALLAST_CHUNK: usize = 1 << 20;
const BALLAST: &str = "ballast";

/// One kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fault {
    /// A planned switchover.
    Switchover,
    /// kill -9 of the primary's postmaster.
    KillPrimary,
    /// kill -9 of the primary's node: Patroni and PostgreSQL.
    KillNode,
    /// kill -9 of the synchronous standby's node.
    KillStandby,
    /// The primary is cut off: from clients, from standbys, from the etcd.
    CutNetwork,
    /// The etcd of Patroni is gone.
    LoseDcs,
    /// The disk of the primary is full.
    FillDisk,
    /// The primary's node dies without synchronous standby, and commits are lost.
    LoseCommits,
}

impl Fault {
    /// All, those that lose nothing first.
    pub(crate) const ALL: [Self; 8] = [
        Self::Switchover,
        Self::KillPrimary,
        Self::KillNode,
        Self::KillStandby,
        Self::CutNetwork,
        Self::LoseDcs,
        Self::FillDisk,
        Self::LoseCommits,
    ];

    /// For the table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Switchover => "switchover",
            Self::KillPrimary => "kill -9 of the primary",
            Self::KillNode => "kill -9 of the primary's node",
            Self::KillStandby => "kill -9 of the synchronous standby's node",
            Self::CutNetwork => "network of the primary cut",
            Self::LoseDcs => "Patroni's etcd gone",
            Self::FillDisk => "disk of the primary full",
            Self::LoseCommits => "asynchronous failover, commits lost",
        }
    }

    /// For how long it lasts: a leader's claim ends after twenty seconds.
    pub(crate) fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Self::Switchover => 8,
            Self::KillPrimary | Self::KillStandby => 15,
            Self::KillNode | Self::LoseCommits => 35,
            Self::CutNetwork | Self::LoseDcs | Self::FillDisk => 45,
        })
    }
}

/// A failure that lasts.
#[derive(Debug)]
pub(crate) struct ActiveFault {
    fault: Fault,
    /// The node that failed.
    pub(crate) node: PatroniNode,
}

impl ActiveFault {
    /// Causes the fault.
    pub(crate) fn inject(fault: Fault, instance: &Instance) -> Result<Self> {
        let cluster = cluster(instance)?;
        let role = if fault == Fault::KillStandby { Role::Synchronous } else { Role::Leader };
        let node = cluster.node(role)?.clone();
        let supervisor = &instance.supervisor;
        match fault {
            Fault::Switchover => cluster.switchover()?,
            Fault::KillPrimary => node.kill_postgres()?,
            Fault::KillNode | Fault::KillStandby | Fault::LoseCommits => {
                supervisor.kill_and_pause(&node.name)?;
                node.kill_postgres()?;
            }
            Fault::CutNetwork => {
                // A cable is cut for what comes in; this is the one thing that would still go out.
                cluster.set_failsafe(false)?;
                supervisor.freeze(node.cable.as_deref().context("no cable")?)?;
            }
            Fault::LoseDcs => supervisor.pause(DCS)?,
            Fault::FillDisk => fill(&node)?,
        }
        Ok(Self { fault, node })
    }

    /// Repairs it as an operator does.
    pub(crate) fn recover(&self, instance: &Instance) -> Result<()> {
        let (node, supervisor) = (&self.node, &instance.supervisor);
        match self.fault {
            Fault::Switchover | Fault::KillPrimary => Ok(()),
            Fault::KillNode | Fault::KillStandby | Fault::LoseCommits => supervisor.resume(&node.name),
            Fault::CutNetwork => {
                supervisor.thaw(node.cable.as_deref().context("no cable")?)?;
                cluster(instance)?.set_failsafe(true)
            }
            Fault::LoseDcs => supervisor.resume(DCS),
            Fault::FillDisk => Ok(std::fs::remove_file(ballast(node))?),
        }
    }
}

/// The nodes of an instance that has several.
pub(crate) fn cluster(instance: &Instance) -> Result<&PatroniCluster> {
    instance.patroni.as_ref().context("PostgreSQL has one node")
}

fn ballast(node: &PatroniNode) -> PathBuf {
    node.dir.join(BALLAST)
}

/// Writes until there is no room.
fn fill(node: &PatroniNode) -> Result<()> {
    let mut file = std::fs::File::create(ballast(node))?;
    let chunk = vec![0; BALLAST_CHUNK];
    loop {
        match file.write(&chunk) {
            Ok(_written) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
