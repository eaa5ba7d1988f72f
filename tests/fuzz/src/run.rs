use crate::{FuzzTarget, Outcome};
use nix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// CPU time that an input may take, and for each of its bytes beyond.
const TIME: Duration = Duration::from_millis(250);
const TIME_PER_BYTE: Duration = Duration::from_nanos(1500);
/// Memory that a large input may take, and for each of its bytes.
const MEMORY_BYTES: u64 = 64 * 1024 * 1024;
const MEMORY_BYTES_PER_BYTE: u64 = 160;
/// Inputs that further ones are made from.
const POOL_MAX: usize = 4096;

thread_local! {
    /// What the last panic said.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics' messages instead of printing them.
pub fn silence_panics() {
    std::panic::set_hook(Box::new(|info| {
        PANIC.with(|panic| panic.replace(info.to_string()));
    }));
}

/// Feeds a target once: what it made of the input, or which promise it broke.
pub fn feed(target: &FuzzTarget, input: &[u8]) -> Result<Outcome, String> {
    let large = input.len() > crate::mutate::BYTES_MAX;
    let before = if large { peak_memory_anew() } else { None };
    let start = cpu_time();
    let fed = catch_unwind(AssertUnwindSafe(|| (target.feed)(input)));
    let took = cpu_time().saturating_sub(start);
    let outcome = fed.map_err(|_panic| format!("panics: {}", PANIC.with(RefCell::take)))??;
    let bytes = u32::try_from(input.len()).unwrap_or(u32::MAX);
    if took > TIME + TIME_PER_BYTE * bytes {
        return Err(format!("takes {took:?} for {bytes} bytes"));
    }
    if let (Some(before), Some(after)) = (before, memory("VmHWM:")) {
        let grown = after.saturating_sub(before);
        if grown > MEMORY_BYTES + MEMORY_BYTES_PER_BYTE * u64::from(bytes) {
            return Err(format!("takes {grown} bytes of memory for {bytes} bytes"));
        }
    }
    Ok(outcome)
}

/// CPU time of this thread: what others do on the machine does not count.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Bytes in a line of `/proc/self/status`.
fn memory(line: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|text| text.strip_prefix(line))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// What is in use now; the peak is counted from here on. Nothing where the system does not tell.
fn peak_memory_anew() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    memory("VmRSS:")
}

/// Inputs that were treated unlike all before them.
#[derive(Debug, Default)]
pub struct Pool {
    inputs: Vec<Vec<u8>>,
    seen: BTreeSet<Outcome>,
}

impl Pool {
    /// Whether an outcome is new; its input is then kept.
    pub fn offer(&mut self, input: &[u8], outcome: Outcome) -> bool {
        if self.inputs.len() >= POOL_MAX || !self.seen.insert(outcome) {
            return false;
        }
        self.inputs.push(input.to_vec());
        true
    }

    /// An input, whichever number comes.
    pub fn get(&self, number: usize) -> &[u8] {
        let index = number.checked_rem(self.inputs.len()).unwrap_or_default();
        self.inputs.get(index).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }
}
