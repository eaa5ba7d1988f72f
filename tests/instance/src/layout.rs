use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// The directory of one instance; `.dev` for `up`, one below it for checks and tests.
#[derive(Clone, Debug)]
pub struct Layout {
    /// All of it lies here.
    pub dir: PathBuf,
    /// Ports are looked for from here on.
    pub first_port: u16,
}

impl Layout {
    /// That of `up`.
    pub fn of_up() -> Self {
        Self { dir: workspace().join(".dev"), first_port: 20_000 }
    }

    /// That of `up --check`.
    pub fn of_check() -> Self {
        Self { dir: workspace().join(".dev/check"), first_port: 21_000 }
    }

    /// That of acceptance.
    pub fn of_accept() -> Self {
        Self { dir: workspace().join(".dev/accept"), first_port: 22_000 }
    }

    /// That of the tests of deploy/.
    pub fn of_manifests() -> Self {
        Self { dir: workspace().join(".dev/manifests"), first_port: 22_500 }
    }

    /// That of measurements.
    pub fn of_bench() -> Self {
        Self { dir: workspace().join(".dev/bench"), first_port: 23_000 }
    }

    /// That of the failover test.
    pub fn of_failover() -> Self {
        Self { dir: workspace().join(".dev/failover"), first_port: 24_000 }
    }

    /// That of the console's tests.
    pub fn of_web() -> Self {
        Self { dir: workspace().join(".dev/web"), first_port: 26_000 }
    }

    /// That of the backup drill.
    pub fn of_drill() -> Self {
        Self { dir: workspace().join(".dev/drill"), first_port: 27_000 }
    }

    /// That of the fleet of controllers.
    pub fn of_fleet() -> Self {
        Self { dir: workspace().join(".dev/fleet"), first_port: 28_000 }
    }

    /// All that are not `up`'s own.
    pub fn of_tests() -> [Self; 8] {
        [
            Self::of_check(),
            Self::of_accept(),
            Self::of_manifests(),
            Self::of_bench(),
            Self::of_failover(),
            Self::of_web(),
            Self::of_drill(),
            Self::of_fleet(),
        ]
    }

    /// What has this name in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Deletes everything but other instances' directories.
    pub fn wipe(&self) -> Result<()> {
        let others = Self::of_tests().map(|other| other.dir);
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let path = entry?.path();
            if others.contains(&path) {
                continue;
            }
            let removed = if path.is_dir() && !path.is_symlink() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
            removed.with_context(|| format!("remove {}", path.display()))?;
        }
        Ok(())
    }

    /// A short name of this directory, for what has to lie elsewhere.
    pub fn short_hash(&self) -> String {
        hash(self.dir.to_string_lossy().as_bytes())
    }
}

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Programs that are not ours, as the command that builds everything has linked them: etcd, kube-apiserver,
/// kube-controller-manager and kubectl.
pub fn bin() -> PathBuf {
    workspace().join(".dev/bin")
}

/// PostgreSQL's programs, linked likewise.
pub fn postgresql() -> Result<PathBuf> {
    let link = workspace().join(".dev/postgresql");
    link.canonicalize().with_context(|| format!("find PostgreSQL's programs by {}", link.display()))
}

/// A whole PostgreSQL, with the programs that Patroni calls.
pub fn postgresql_ha() -> Result<PathBuf> {
    let link = workspace().join(".dev/postgresql-ha");
    link.canonicalize().with_context(|| format!("find PostgreSQL's programs by {}", link.display()))
}

/// The Python of the environment that Patroni is in.
pub fn patroni() -> Result<PathBuf> {
    let link = workspace().join(".dev/patroni");
    let environment =
        link.canonicalize().with_context(|| format!("find Patroni's environment by {}", link.display()))?;
    Ok(environment.join("bin/python"))
}

/// A program of ours: cargo puts all of a profile into one directory.
pub fn program_path(program: &str) -> Result<PathBuf> {
    let me = std::env::current_exe().context("find the own program")?;
    Ok(me.with_file_name(program))
}

/// Sixteen hexadecimal digits that stand for these bytes.
pub fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes).get(..8).unwrap_or_default())
}
