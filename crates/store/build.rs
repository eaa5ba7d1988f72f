//! The migrations are compiled in: a new one makes a new library.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
