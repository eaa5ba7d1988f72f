//! The migrations are compiled in: a new one makes a new library.

#[expect(clippy::print_stdout, reason = "this is how a build script speaks to cargo")]
fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
