use rand::RngExt;
use rand::rngs::StdRng;

/// Bytes of an input, but for those that are made large.
pub const BYTES_MAX: usize = 4096;
/// Bytes of a large one: the limit of a request's body.
pub const LARGE_BYTES_MAX: usize = 3 * 1024 * 1024;

const COMMON: [&str; 40] = [
    "",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1e999",
    "1.5",
    "null",
    "true",
    "\"\"",
    "{}",
    "[]",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\ud800",
    "\0",
    "\u{fffd}",
    "\u{1f600}",
    "\u{202e}",
    "%",
    "%00",
    "%2F",
    "%25",
    "/",
    "..",
    "\n",
    "\r\n",
    " ",
    "&",
    "=",
];

fn below(limit: usize, random: &mut StdRng) -> usize {
    if limit == 0 { 0 } else { random.random_range(0..limit) }
}

/// A new input out of an old one and, at times, out of another.
pub fn mutated(base: &[u8], other: &[u8], words: &[&str], random: &mut StdRng) -> Vec<u8> {
    let mut input = base.to_vec();
    for _ in 0..=below(4, random) {
        once(&mut input, other, words, random);
    }
    input.truncate(BYTES_MAX);
    input
}

fn once(input: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut StdRng) {
    let at = below(input.len() + 1, random);
    let length = below(8, random) + 1;
    match random.random_range(0..13) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << below(8, random);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.random_range(0..=255);
            }
        }
        2 => input.insert(at, random.random_range(0..=255)),
        3 => drop(input.drain(at..(at + length).min(input.len()))),
        4..7 => put(input, at, word(words, random).as_bytes()),
        7 => put(input, at, word(&COMMON, random).as_bytes()),
        8 => {
            // A word in place of what stands there.
            let word = word(words, random).as_bytes();
            let end = (at + word.len()).min(input.len());
            drop(input.splice(at..end, word.iter().copied()));
        }
        9 => {
            let piece = piece(other, random);
            put(input, at, &piece);
        }
        10 => {
            let piece = piece(input, random);
            put(input, at, &piece);
        }
        11 => input.truncate(at),
        _ => {
            // The head of one, the tail of the other.
            input.truncate(at);
            input.extend_from_slice(other.get(below(other.len(), random)..).unwrap_or_default());
        }
    }
}

fn word<'a>(words: &[&'a str], random: &mut StdRng) -> &'a str {
    words.get(below(words.len(), random)).copied().unwrap_or_default()
}

fn piece(from: &[u8], random: &mut StdRng) -> Vec<u8> {
    let start = below(from.len(), random);
    let end = (start + 1 + below(64, random)).min(from.len());
    from.get(start..end).unwrap_or_default().to_vec()
}

fn put(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    drop(input.splice(at..at, bytes.iter().copied()));
}

/// A large input: a piece of a small one again and again, between its head and its tail.
pub fn enlarged(base: &[u8], random: &mut StdRng) -> Vec<u8> {
    let size = 1_usize << random.random_range(13..22);
    let size = size.min(LARGE_BYTES_MAX);
    let start = below(base.len(), random);
    let end = (start + 1 + below(40, random)).min(base.len());
    let piece = base.get(start..end).unwrap_or_default();
    let mut input = base.get(..start).unwrap_or_default().to_vec();
    if piece.is_empty() {
        return input;
    }
    while input.len() + piece.len() < size {
        input.extend_from_slice(piece);
    }
    input.extend_from_slice(base.get(end..).unwrap_or_default());
    input
}
