//! business-controller
fn main() {}
