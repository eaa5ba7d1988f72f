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
/// Logging in at an identity provider.
pub(crate) mod login;
/// Logging out again.
pub(crate) mod logout;
/// Who holds what.
pub(crate) mod tree;
/// The two clusters of commands about one.
pub(crate) mod member;
/// A cluster leaves.
pub(crate) mod leave;
/// A cluster's credentials are renewed.
pub(crate) mod rotate;
/// A cluster joins.
pub(crate) mod join;
/// What nobody holds.
pub(crate) mod discover;
/// Taking over what is there already.
pub(crate) mod adopt;
/// Where the former system is imported.
pub(crate) mod import;
/// What the audits have found.
pub(crate) mod audit;
/// Entering a namespace in its cluster.
pub(crate) mod kubeconfig;
/// Moving a namespace.
pub(crate) mod transfer;
/// One object in plain words.
pub(crate) mod describe;
/// Who holds most, who idles most.
pub(crate) mod top;

use crate::failure::{Failure, Outcome};
use crate::line::{Command, Line};
use crate::screen::Screen;
use clap::CommandFactory as _;

/// Does what the line says.
pub(crate) async fn run(line: Line, screen: Screen) -> Result<Outcome, Failure> {
    let Line { connection, command, color: _ } = line;
    match command {
        Command::Completion(completion) => completion.run(),
        Command::Complete(complete) => complete.run(Line::command()).await,
        Command::Login(login) => login.run(&connection).await,
        Command::Logout(logout) => {
            logout.run(connection.kubeconfig.as_deref(), connection.context.as_deref()).await
        }
        Command::Token(token) => token.run().await,
        Command::Tree(tree) => tree.run(&connection.open().await?, screen).await,
        Command::Top(top) => top.run(&connection.open().await?, screen).await,
        Command::Describe(describe) => describe.run(&connection.open().await?, screen).await,
        Command::Move(moved) => moved.run(&connection.open().await?).await,
        Command::Kubeconfig(kubeconfig) => {
            kubeconfig.run(&connection.open().await?, connection.kubeconfig.as_deref()).await
        }
        Command::Join(join) => join.run(&connection).await,
        Command::Rotate(rotate) => rotate.run(&connection).await,
        Command::Leave(leave) => leave.run(&connection.open().await?, screen).await,
        Command::Discover(discover) => discover.run(&connection, screen).await,
        Command::Adopt(adopt) => adopt.run(&connection).await,
        Command::Import(import) => import.run(),
        Command::Audit(audit) => audit.run(&connection.open().await?, screen).await,
        Command::Explain(explain) => explain.run(&connection.open().await?, screen).await,
        Command::Create(create) => create.run(&connection.open().await?).await,
        Command::Access(access) => access.run(&connection.open().await?, screen).await,
        Command::Lock(lock) => lock.run(&connection.open().await?, true).await,
        Command::Unlock(lock) => lock.run(&connection.open().await?, false).await,
        Command::Cordon(cordon) => cordon.run(&connection.open().await?, true).await,
        Command::Uncordon(cordon) => cordon.run(&connection.open().await?, false).await,
    }
}
