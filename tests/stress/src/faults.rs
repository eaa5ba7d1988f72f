//! Kills replicas, connections, and PostgreSQL itself.

use crate::log_file;
use crate::run::RunSettings;
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::postgres::PgConnection;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use store::testing::Server;

/// The replicas, as processes.
pub(crate) struct Replicas {
    folder: PathBuf,
    url: String,
    stop: PathBuf,
    settings: RunSettings,
    running: Vec<Option<Child>>,
    lives: Vec<usize>,
}

impl Replicas {
    /// Starts them all.
    pub(crate) fn start(folder: &Path, url: &str, settings: &RunSettings) -> Result<Self> {
        let count = settings.replicas;
        let mut replicas = Self {
            folder: folder.to_owned(),
            url: url.to_owned(),
            stop: folder.join("stop"),
            settings: settings.clone(),
            running: (0..count).map(|_| None).collect(),
            lives: vec![0; count],
        };
        for number in 0..count {
            replicas.launch(number)?;
        }
        Ok(replicas)
    }

    fn launch(&mut self, number: usize) -> Result<()> {
        let life = self.lives.get_mut(number).context("no such replica")?;
        *life += 1;
        let seed = self.settings.seed.wrapping_add(u64::try_from(number * 100_000 + *life)?);
        let log = log_file(&self.folder, number, *life);
        let child = Command::new(std::env::current_exe()?)
            .arg("replica")
            .args(["--database-url", &self.url, "--seed", &seed.to_string()])
            .args(["--writers", &self.settings.writers.to_string(), "--watchers", "2"])
            .args(["--leaves", &self.settings.leaves.to_string(), "--retention", "60"])
            .arg("--log")
            .arg(log)
            .arg("--stop")
            .arg(&self.stop)
            .stdin(Stdio::null())
            .spawn()?;
        if let Some(slot) = self.running.get_mut(number) {
            *slot = Some(child);
        }
        Ok(())
    }

    /// Kills one and starts it again.
    fn kill(&mut self, number: usize) -> Result<()> {
        if let Some(mut child) = self.running.get_mut(number).and_then(Option::take) {
            child.kill()?;
            child.wait()?;
        }
        self.launch(number)
    }

    /// Starts those again that have ended by themselves; tells how many.
    pub(crate) fn revive(&mut self) -> Result<usize> {
        let mut ended = 0;
        for number in 0..self.running.len() {
            let child = self.running.get_mut(number).and_then(Option::as_mut);
            if child.is_none_or(|c| matches!(c.try_wait(), Ok(Some(_)))) {
                ended += 1;
                self.launch(number)?;
            }
        }
        Ok(ended)
    }

    /// Asks them to stop and waits until they have.
    pub(crate) fn finish(&mut self) -> Result<()> {
        std::fs::write(&self.stop, "")?;
        for child in self.running.iter_mut().flatten() {
            child.wait()?;
        }
        Ok(())
    }

    /// Every log that was written.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let numbered = self.lives.iter().enumerate();
        numbered
            .flat_map(|(number, lives)| (1..=*lives).map(move |life| (number, life)))
            .map(|(n, l)| log_file(&self.folder, n, l))
            .collect()
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Answers of PostgreSQL that are thrown away, with their connection.
#[derive(Debug)]
pub(crate) struct Cuts {
    one_in: u64,
    random: Mutex<StdRng>,
    count: AtomicU64,
}

impl Cuts {
    /// One answer in `one_in`; none for 0.
    pub(crate) fn new(one_in: u64, seed: u64) -> Self {
        Self { one_in, random: Mutex::new(StdRng::seed_from_u64(seed)), count: AtomicU64::new(0) }
    }

    /// Whether this answer is thrown away.
    pub(crate) fn strikes(&self) -> bool {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let strikes = self.one_in > 0 && random.random_range(0..self.one_in) == 0;
        if strikes {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        strikes
    }

    /// How many were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// How often what was killed.
#[derive(Debug, Default)]
pub(crate) struct Kills {
    /// Connections.
    pub(crate) connections: u64,
    /// Answers thrown away with their connection.
    pub(crate) answers: u64,
    /// Replicas.
    pub(crate) replicas: u64,
    /// PostgreSQL, immediate stop or SIGKILL.
    pub(crate) servers: u64,
}

impl Kills {
    /// All together.
    pub(crate) fn total(&self) -> u64 {
        self.connections + self.answers + self.replicas + self.servers
    }
}

/// Who dies next, by a seed.
pub(crate) struct Reaper {
    random: StdRng,
    strikes: u64,
}

impl Reaper {
    /// The same seed kills in the same order.
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), strikes: 0 }
    }

    /// Kills something.
    pub(crate) async fn strike(
        &mut self,
        server: &mut Server,
        replicas: &mut Replicas,
        admin: &mut Option<PgConnection>,
        kills: &mut Kills,
    ) -> Result<()> {
        self.strikes += 1;
        match self.strikes {
            n if n % 16 == 5 => {
                *admin = None;
                let hard = self.random.random_range(0..2) == 0;
                if hard { server.kill() } else { server.stop() }.map_err(anyhow::Error::from_boxed)?;
                server.launch().await.map_err(anyhow::Error::from_boxed)?;
                kills.servers += 1;
            }
            n if n % 5 == 0 => {
                let number = self.random.random_range(0..replicas.running.len());
                replicas.kill(number)?;
                kills.replicas += 1;
            }
            _ => {
                let Some(connection) = admin else { return Ok(()) };
                let killed = sqlx::query(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
                       AND application_name <> 'test' ORDER BY random() LIMIT 1",
                )
                .execute(connection)
                .await?;
                kills.connections += killed.rows_affected();
            }
        }
        Ok(())
    }
}
