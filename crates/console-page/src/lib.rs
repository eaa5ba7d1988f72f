//! The console's files, as `cargo xtask web` built them, compressed into the program.

/// A file of the console, plain and compressed.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// Path below the console's root, such as `assets/index-5a1c.js`.
    pub path: &'static str,
    /// Uncompressed.
    pub plain: &'static [u8],
    /// `Content-Encoding: br`
    pub brotli: &'static [u8],
    /// `Content-Encoding: gzip`
    pub gzip: &'static [u8],
}

/// All files by path; none if the console was not built before the program.
pub const FILES: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/files.rs"));
