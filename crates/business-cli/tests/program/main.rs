//! The program as people and programs call it, beside the real server on a real database.

/// A server of one's own, and kubeconfigs for it.
#[cfg(test)]
mod world;
/// What a stand-in for a server was asked.
#[cfg(test)]
mod http_request;
/// The program on a terminal, and what is to be seen there.
#[cfg(test)]
mod terminal;
/// Who holds what, and would it fit.
#[cfg(test)]
mod looking;
/// Making, locking, giving access.
#[cfg(test)]
mod acting;
/// What a person reads when the answer is no.
#[cfg(test)]
mod refusals;
/// What the cluster around the server answers.
#[cfg(test)]
mod clusters;
/// Logging in at a provider.
#[cfg(test)]
mod login;
/// How it comes to people.
#[cfg(test)]
mod delivery;
/// What may stand next on a command line, as shells ask for it.
#[cfg(test)]
mod completion;
/// What a program sees: exit codes and JSON.
#[cfg(test)]
mod programs;
/// How long it takes.
#[cfg(test)]
mod speed;
