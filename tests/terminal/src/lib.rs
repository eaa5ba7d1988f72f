//! What a person types, and what he or a program is told: shared by the commands and by the programs they call. It
//! compiles before anything else does, so it has next to no dependencies.

/// Command lines that a command hands on.
pub mod line;
/// Lines for a person, documents for a program.
pub mod say;
/// What a command and the program that it calls tell each other.
pub mod caller;
