//! Faults of controllers.

use anyhow::Result;
use instance::Instance;
use instance::fleet::cable_of;

/// What happens to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fault {
    /// kill -9.
    Kill,
    /// SIGSTOP for longer than its leases, then SIGCONT.
    Pause,
    /// Nothing gets through between it and kube-apiserver; it still reaches the members.
    Partition,
    /// SIGTERM, and a start once others have its clusters: each in turn.
    Restart,
    /// One more begins.
    Add,
}

impl Fault {
    pub(crate) const ALL: [Self; 5] = [Self::Kill, Self::Pause, Self::Partition, Self::Restart, Self::Add];

    /// For the table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Pause => "SIGSTOP beyond the lease, SIGCONT",
            Self::Partition => "cut off from kube-apiserver, not from members",
            Self::Restart => "SIGTERM, and a start when others have taken over",
            Self::Add => "one more replica",
        }
    }

    /// Whether its shares are left to run out.
    pub(crate) fn orphans(self) -> bool {
        matches!(self, Self::Kill | Self::Pause | Self::Partition)
    }

    pub(crate) fn strike(self, instance: &Instance, controller: &str) -> Result<()> {
        let supervisor = &instance.supervisor;
        match self {
            Self::Kill => supervisor.kill_and_pause(controller),
            Self::Pause => supervisor.freeze(controller),
            Self::Partition => supervisor.freeze(&cable_of(controller)),
            Self::Restart => supervisor.pause(controller),
            Self::Add => supervisor.resume(controller),
        }
    }

    /// It is there again.
    pub(crate) fn mend(self, instance: &Instance, controller: &str) -> Result<()> {
        let supervisor = &instance.supervisor;
        match self {
            Self::Kill | Self::Restart => supervisor.resume(controller),
            Self::Pause => supervisor.thaw(controller),
            Self::Partition => supervisor.thaw(&cable_of(controller)),
            Self::Add => Ok(()),
        }
    }
}
