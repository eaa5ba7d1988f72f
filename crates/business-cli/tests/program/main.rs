//! Tests of the program, against the real server on a real database.

/// A test server, and kubeconfigs for it.
#[cfg(test)]
mod world;
/// Requests that a fake server reads.
#[cfg(test)]
mod http_request;
/// The program on a pseudo-terminal.
#[cfg(test)]
mod terminal;
/// Commands that read: tree, top, explain, describe, audit.
#[cfg(test)]
mod looking;
/// Commands that write: create, access, lock, cordon, move.
#[cfg(test)]
mod acting;
/// Error messages.
#[cfg(test)]
mod refusals;
/// Credential plugins that do not end.
#[cfg(test)]
mod plugin;
/// Commands against a fake kube-apiserver: join, rotate, leave, adopt.
#[cfg(test)]
mod clusters;
/// Logins at a fake identity provider.
#[cfg(test)]
mod login;
/// The manifest for krew.
#[cfg(test)]
mod delivery;
/// Shell completion.
#[cfg(test)]
mod completion;
/// Exit codes and output for scripts.
#[cfg(test)]
mod programs;
/// Speed of `tree`.
#[cfg(test)]
mod speed;
