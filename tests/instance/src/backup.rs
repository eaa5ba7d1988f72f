//! A base backup, an archive of WAL, and a restore from both, as an operator of PostgreSQL makes them.

use crate::postgres::Postgres;
use anyhow::{Context, Result, ensure};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// Up to where WAL is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryTarget {
    /// To the end of the archive.
    End,
    /// Up to the last commit before this time, as PostgreSQL writes times.
    Time(String),
}

impl Postgres {
    /// The program that makes base backups: beside the server's own file, where PATH has links to some programs only.
    fn base_backup(&self) -> Result<PathBuf> {
        let server = self.programs.join("postgres").canonicalize()?;
        let found = server.with_file_name("pg_basebackup");
        ensure!(found.is_file(), "no pg_basebackup beside {}", server.display());
        Ok(found)
    }

    /// Where WAL is archived to.
    pub(crate) fn archive(&self) -> PathBuf {
        self.data.with_file_name("archive")
    }

    /// Makes the archive.
    pub(crate) fn make_archive(&self) -> Result<()> {
        let archive = self.archive();
        std::fs::create_dir_all(&archive)?;
        self.give(&archive)
    }

    /// The settings of a server that archives.
    pub(crate) fn archiving(&self) -> [String; 2] {
        let archive = self.archive().display().to_string();
        [
            "archive_mode=on".to_owned(),
            format!("archive_command=test ! -f {archive}/%f && cp %p {archive}/%f"),
        ]
    }

    /// Makes a base backup, while everybody writes.
    pub fn back_up(&self, name: &str) -> Result<PathBuf> {
        let to = self.data.with_file_name(format!("backup-{name}"));
        std::fs::create_dir_all(&to)?;
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o700))?;
        self.give(&to)?;
        let mut command = self.run(&self.base_backup()?);
        command.args(["--checkpoint=fast", "--wal-method=none", "--no-password", "--dbname"]).arg(self.url());
        let output = command.arg("--pgdata").arg(&to).output().context("start pg_basebackup")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pg_basebackup: {}", complaint.trim());
        Ok(to)
    }

    /// Puts a base backup in the place of the data of a server that is down. Started, it replays WAL up to the target and is
    /// a primary then.
    pub fn restore(&self, backup: &Path, target: &RecoveryTarget) -> Result<()> {
        std::fs::remove_dir_all(&self.data).context("remove the lost data")?;
        let copied = std::process::Command::new("cp").arg("-a").arg(backup).arg(&self.data).status()?;
        ensure!(copied.success(), "the backup cannot be copied");
        let signal = self.data.join("recovery.signal");
        std::fs::write(&signal, "")?;
        self.give(&signal)?;
        let mut settings =
            std::fs::OpenOptions::new().append(true).open(self.data.join("postgresql.auto.conf"))?;
        writeln!(settings, "restore_command = 'cp {}/%f %p'", self.archive().display())?;
        writeln!(settings, "recovery_target_action = 'promote'")?;
        if let RecoveryTarget::Time(time) = target {
            writeln!(settings, "recovery_target_time = '{time}'")?;
        }
        Ok(())
    }

    fn give(&self, path: &Path) -> Result<()> {
        if let Some((uid, gid)) = self.user {
            chown(path, Some(uid), Some(gid))?;
        }
        Ok(())
    }
}
