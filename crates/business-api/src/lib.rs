//! The API server of business.tkestack.io/v1, on top of the crates `apiserver` and `store`.
//!
//! ```text
//! config ─▶ serve ─▶ kinds ─▶ policy, role_bindings  ─▶ strategy, clusters  ─▶ refusal
//!  flags    start    table     who may see and do what   what differs by kind   why a write is refused
//! ```

/// The command line.
pub mod config;
/// The ids of the kinds in the store.
pub mod kind_ids;
/// The roles in tenants, and their rights to the objects of each kind.
pub mod rights;
/// Finds the roles of callers.
pub mod roles;
/// How the account of a stored object is read.
pub mod accounts;
/// Indices in memory, filled from the store's watch.
pub mod follow;
/// Notifies callers that their roles have changed.
pub mod role_changes;
/// The keys of users, groups and service accounts that have roles.
pub mod subjects;
/// The roles that the objects of a kind give to subjects.
pub mod role_bindings;
/// What is allocated of the limits of scopes.
pub mod allocations;
/// How stale the roles of a replica may be.
pub mod freshness;
/// Authorization: what a caller may do, and what they see.
pub mod policy;
/// The registered member clusters.
pub mod clusters;
/// The cluster that the API is aggregated in.
pub mod host_cluster;
/// Certificates for member clusters.
pub mod certificates;
/// What differs by kind.
pub mod strategy;
/// The answer to a write that the quota rules refuse.
pub mod refusal;
/// Who may set and remove tokens in `spec.finalizers`.
pub mod finalizers;
/// The table of kinds.
pub mod kinds;
/// A small file of secrets that is read again when it changes.
mod reloaded_file;
/// Who may do what in the registry.
pub mod token_server;
/// What is served beside the kinds.
pub mod registry_routes;
/// The web console: its files, login, and the session in a browser's cookies.
pub mod console;
/// Compares the quota ledger with the objects.
pub mod audit;
/// Creates the Platform of the first administrator at the start.
pub mod initial;
/// Imports the objects of a TKE installation.
pub mod import;
/// `check-authentication-config`: validates a file of token issuers.
pub mod check_authentication_config;
/// `check-installation`: whether an installation works.
pub mod check_installation;
/// `issue-certificate`: issues the serving certificate, where nobody else does.
pub mod issue_certificate;
/// `check-database`: whether a database server is fit.
pub mod check_database;
/// Starts and ends the parts of the program.
pub mod serve;

use config::{Cli, Command};
use std::process::ExitCode;
use std::time::Duration;

/// How long `migrate` waits for a database that is starting.
const MIGRATE_DEADLINE: Duration = Duration::from_mins(1);
/// How long the server's tasks may take to end after the signal.
const JOIN_DEADLINE: Duration = Duration::from_mins(2);
/// The exit code of an audit that found differences, of an import plan with open decisions, and of a database that is
/// not fit.
const FOUND: u8 = 2;

/// Runs the command of the command line.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(settings) => {
            let tasks = runtime::Tasks::new();
            let listeners = serve::Listeners::bind(&settings).await?;
            tasks.spawn_draining("signals", runtime::shutdown::on_signal(tasks.clone()));
            let outcome = serve::serve(&settings, listeners, serve::Program::default(), tasks.clone()).await;
            tasks.cancel();
            tasks.join(JOIN_DEADLINE).await?;
            outcome.map(|()| ExitCode::SUCCESS)
        }
        Command::Migrate(database) => {
            serve::migrate(&database.database_url, Some(MIGRATE_DEADLINE)).await.map(|()| ExitCode::SUCCESS)
        }
        Command::CheckInstallation(settings) => {
            print(&check_installation::check(&settings).await?);
            Ok(ExitCode::SUCCESS)
        }
        Command::IssueCertificate(settings) => {
            print(&issue_certificate::issue(&settings, &runtime::Clock::system()).await?);
            Ok(ExitCode::SUCCESS)
        }
        Command::RegistryKeys(settings) => {
            print(&token_server::keys::TokenKeys::load(&settings.file)?.jwks());
            Ok(ExitCode::SUCCESS)
        }
        Command::CheckAuthenticationConfig(settings) => {
            print(&check_authentication_config::check(&settings)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::CheckDatabase(settings) => {
            let finding = check_database::run(&settings).await?;
            print(&finding.text);
            Ok(if finding.fit { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
        }
        Command::Audit(settings) => {
            let finding = audit::run(&settings).await?;
            print(&finding.text);
            Ok(if finding.consistent { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
        }
        Command::Import(settings) => {
            let report = import::run(&settings).await?;
            print(&report.text);
            Ok(if report.needs_decision { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
        }
    }
}

#[expect(clippy::print_stdout, reason = "the output is what the command is for")]
fn print(text: &str) {
    println!("{text}");
}
