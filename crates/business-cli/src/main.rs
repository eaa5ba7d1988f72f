//! The program `kubectl-business`.

use std::process::ExitCode;

fn main() -> ExitCode {
    business_cli::run()
}
