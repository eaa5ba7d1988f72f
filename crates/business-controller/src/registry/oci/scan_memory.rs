//! The memory of scans. What one scan keeps has a bound, but the scans of many objects run at once: all but one of them
//! keep little.

use crate::error::Error;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Names of repositories, tags, manifests and blobs that any scan may keep. Each takes some 300 bytes.
pub const SMALL_MAX: usize = if cfg!(test) { 100 } else { 10_000 };

/// What all scans keep together.
#[derive(Debug)]
pub struct ScanMemory {
    /// Who has it may keep more than little.
    large: Semaphore,
    /// Prefixes below which much was found. Their next scan begins only when it may keep that.
    large_prefixes: Mutex<HashSet<String>>,
}

/// What one scan keeps, until it is dropped.
#[derive(Debug)]
pub struct ScanRoom<'a> {
    memory: &'a ScanMemory,
    prefix: String,
    large: Option<SemaphorePermit<'a>>,
    /// Names that are kept until the end of the scan.
    kept: usize,
    /// The greatest number of names so far.
    most: usize,
}

impl Default for ScanMemory {
    fn default() -> Self {
        Self { large: Semaphore::new(1), large_prefixes: Mutex::default() }
    }
}

impl ScanMemory {
    /// Begins a scan below a prefix. [`Error::MeasurementBusy`] while there is no room for it.
    pub fn begin(&self, prefix: &str) -> Result<ScanRoom<'_>, Error> {
        let mut room = ScanRoom { memory: self, prefix: prefix.to_owned(), large: None, kept: 0, most: 0 };
        if self.large_prefixes().contains(prefix) {
            room.enlarge()?;
        }
        Ok(room)
    }

    /// Forgets a prefix that has no content any more.
    pub fn forget(&self, prefix: &str) {
        self.large_prefixes().remove(prefix);
    }

    fn large_prefixes(&self) -> MutexGuard<'_, HashSet<String>> {
        self.large_prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScanRoom<'_> {
    /// The scan keeps this many names until its end. Fails as [`ScanRoom::hold`] does.
    pub fn keep(&mut self, names: usize) -> Result<(), Error> {
        self.kept = names;
        self.hold(0)
    }

    /// The scan has this many more names in memory now. [`Error::MeasurementBusy`] while there is no room for them.
    pub fn hold(&mut self, names: usize) -> Result<(), Error> {
        self.most = self.most.max(self.kept.saturating_add(names));
        if self.most <= SMALL_MAX || self.large.is_some() {
            return Ok(());
        }
        self.memory.large_prefixes().insert(self.prefix.clone());
        self.enlarge()
    }

    fn enlarge(&mut self) -> Result<(), Error> {
        if self.large.is_none() {
            let permit = self.memory.large.try_acquire().map_err(|_taken| Error::MeasurementBusy)?;
            self.large = Some(permit);
        }
        Ok(())
    }

    /// The scan is complete.
    pub fn complete(self) {
        if self.most <= SMALL_MAX {
            self.memory.forget(&self.prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_busy<T>(result: &Result<T, Error>) -> bool {
        matches!(result, Err(Error::MeasurementBusy))
    }

    #[test]
    fn all_scans_but_one_keep_little() {
        let memory = ScanMemory::default();
        let mut large = memory.begin("t/large").unwrap();
        large.keep(SMALL_MAX).unwrap();
        large.hold(1).unwrap();
        let mut other = memory.begin("t/other").unwrap();
        other.hold(SMALL_MAX).unwrap();
        assert!(is_busy(&other.hold(SMALL_MAX + 1)));
        drop(other);
        assert!(is_busy(&memory.begin("t/other")), "it is known to be large");
        large.complete();
        assert!(is_busy(&memory.begin("t/large").and_then(|held| memory.begin("t/other").map(|_| held))));
        let mut small = memory.begin("t/other").unwrap();
        small.keep(SMALL_MAX).unwrap();
        small.complete();
        let _large = memory.begin("t/large").unwrap();
        assert!(memory.begin("t/other").is_ok(), "it has become small");
    }
}
