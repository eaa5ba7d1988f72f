//! What each command does, a file each.

/// Who may do what in a project.
pub(crate) mod access;
/// Completion in shells.
pub(crate) mod completion;
/// Closing a cluster, and opening it again.
pub(crate) mod cordon;
/// Making projects and namespaces.
pub(crate) mod create;
/// Would it fit, and what would let it in.
pub(crate) mod explain;
/// Locking a project, and unlocking it.
pub(crate) mod lock;
/// Who holds what.
pub(crate) mod tree;

use crate::failure::{Failure, Outcome};
use crate::line::{Command, Line};
use crate::screen::Screen;

/// Does what the line says.
pub(crate) async fn run(line: Line, screen: Screen) -> Result<Outcome, Failure> {
    let Line { connection, command, color: _ } = line;
    match command {
        Command::Completion(completion) => completion.run(),
        Command::Tree(tree) => tree.run(&connection.open().await?, screen).await,
        Command::Explain(explain) => explain.run(&connection.open().await?, screen).await,
        Command::Create(create) => create.run(&connection.open().await?).await,
        Command::Access(access) => access.run(&connection.open().await?, screen).await,
        Command::Lock(lock) => lock.run(&connection.open().await?, true).await,
        Command::Unlock(lock) => lock.run(&connection.open().await?, false).await,
        Command::Cordon(cordon) => cordon.run(&connection.open().await?, true).await,
        Command::Uncordon(cordon) => cordon.run(&connection.open().await?, false).await,
    }
}
