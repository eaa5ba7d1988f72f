//! What each command does, a file each.

/// Who may do what in a project.
pub(crate) mod access;
/// Completion in shells.
pub(crate) mod completion;
/// Closing a cluster, and opening it again.
pub(crate) mod cordon;
/// Making projects and namespaces.
pub(crate) mod create;
/// Whether something would fit, and what would make it fit.
pub(crate) mod explain;
/// Locking a project, and unlocking it.
pub(crate) mod lock;
/// Logging in at an identity provider.
pub(crate) mod login;
/// Logging out again.
pub(crate) mod logout;
/// The tree of tenants, projects and namespaces.
pub(crate) mod tree;
/// Host and member cluster, for commands that need both.
pub(crate) mod member;
/// Removing a member cluster.
pub(crate) mod leave;
/// Renewing a member cluster's credentials.
pub(crate) mod rotate;
/// Adding a member cluster.
pub(crate) mod join;
/// Namespaces of a cluster that no object manages.
pub(crate) mod discover;
/// Taking over namespaces that exist already.
pub(crate) mod adopt;
/// A pointer to `business-api import`.
pub(crate) mod import;
/// Findings of the audits.
pub(crate) mod audit;
/// Kubeconfigs of namespaces.
pub(crate) mod kubeconfig;
/// Moving a namespace.
pub(crate) mod transfer;
/// Details of one object.
pub(crate) mod describe;
/// The largest holders of resources, and the largest unused amounts.
pub(crate) mod top;

use crate::cli::{Cli, Commands};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;
use clap::CommandFactory as _;
use cordon::CordonAction;
use lock::LockAction;

/// Runs the command.
pub(crate) async fn run(cli: Cli, screen: Screen) -> Result<Outcome, Failure> {
    let Cli { connection, command, color: _ } = cli;
    match command {
        Commands::Completion(completion) => completion.run(),
        Commands::Complete(complete) => complete.run(Cli::command()).await,
        Commands::Login(login) => login.run(&connection).await,
        Commands::Logout(logout) => {
            logout.run(connection.kubeconfig.as_deref(), connection.context.as_deref()).await
        }
        Commands::Token(token) => token.run().await,
        Commands::Tree(tree) => tree.run(&connection.open().await?, screen).await,
        Commands::Top(top) => top.run(&connection.open().await?, screen).await,
        Commands::Describe(describe) => describe.run(&connection.open().await?, screen).await,
        Commands::Move(moved) => moved.run(&connection.open().await?).await,
        Commands::Kubeconfig(kubeconfig) => {
            kubeconfig.run(&connection.open().await?, connection.kubeconfig.as_deref()).await
        }
        Commands::Join(join) => join.run(&connection).await,
        Commands::Rotate(rotate) => rotate.run(&connection).await,
        Commands::Leave(leave) => leave.run(&connection.open().await?, screen).await,
        Commands::Discover(discover) => discover.run(&connection, screen).await,
        Commands::Adopt(adopt) => adopt.run(&connection).await,
        Commands::Import(import) => import.run(),
        Commands::Audit(audit) => audit.run(&connection.open().await?, screen).await,
        Commands::Explain(explain) => explain.run(&connection.open().await?, screen).await,
        Commands::Create(create) => create.run(&connection.open().await?).await,
        Commands::Access(access) => access.run(&connection.open().await?, screen).await,
        Commands::Lock(lock) => lock.run(&connection.open().await?, LockAction::Lock).await,
        Commands::Unlock(lock) => lock.run(&connection.open().await?, LockAction::Unlock).await,
        Commands::Cordon(cordon) => cordon.run(&connection.open().await?, CordonAction::Cordon).await,
        Commands::Uncordon(cordon) => cordon.run(&connection.open().await?, CordonAction::Uncordon).await,
    }
}
