//! business-api
fn main() {}
