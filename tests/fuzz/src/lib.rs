//! Every parser of the platform, fed with what nobody should send.
//!
//! A target takes any bytes. It must not panic, must end soon, must not eat memory, and where something can be written
//! again it must come back the same. What it answers is summed up in an [`Outcome`]; an input with a new one is
//! worth keeping, and further inputs are made from it.

/// What is fed.
pub mod targets;
/// New inputs from old ones.
pub mod mutate;
/// Inputs that are kept in the repository.
pub mod corpus;
/// Feeds a target and watches it.
pub mod run;

use std::hash::{DefaultHasher, Hasher as _};

/// What a target made of an input, as a number: equal for inputs that it treats alike.
pub type Outcome = u64;

/// A parser.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Its name, and that of its directory in the corpus.
    pub name: &'static str,
    /// Feeds it once. An error is a broken promise.
    pub feed: fn(&[u8]) -> Result<Outcome, String>,
    /// Pieces that its inputs are made of.
    pub words: &'static [&'static str],
    /// Whether it takes inputs up to the limit of a body.
    pub large: bool,
}

/// What a text looks like: its letters without numbers and what stands in quotes.
pub fn shape(text: &str) -> Outcome {
    let mut hasher = DefaultHasher::new();
    let mut quoted = false;
    for byte in text.bytes().take(160) {
        match byte {
            b'"' | b'`' | b'\'' => quoted = !quoted,
            b'0'..=b'9' => {}
            _ if quoted => {}
            other => hasher.write_u8(other),
        }
    }
    hasher.finish()
}

/// An outcome out of several.
pub fn outcome(parts: impl std::hash::Hash) -> Outcome {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// A broken promise.
pub fn ensure(holds: bool, broken: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(broken()) }
}
