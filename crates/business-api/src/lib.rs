//! The API server of business.tkestack.io/v1: what is ours on top of `apiserver` and `store`.
//!
//! ```text
//! config ─▶ serve ─▶ kinds ─▶ policy, roster  ─▶ strategy, clusters ─▶ refusal
//!  flags    wiring   table     who sees what      what differs by kind   what is denied, and what would fit
//! ```

/// The command line.
pub mod config;
/// The numbers of the kinds in the store.
pub mod numbers;
/// The roles, and what they may do with the objects of each kind.
pub mod rights;
/// Who has which role.
pub mod roles;
/// How accounts are read.
pub mod accounts;
/// What is kept from the store's own watch.
pub mod follow;
/// Callers that wait to be told that their roles have changed.
pub mod role_changes;
/// The names under which people are given roles.
pub mod people;
/// The people to whom the objects of a kind give roles.
pub mod roster;
/// How full the projects are.
pub mod levels;
/// How old the knowledge of people's roles may be.
pub mod freshness;
/// Who may do what, and what he sees.
pub mod policy;
/// The member clusters that the controller makes known.
pub mod clusters;
/// Which of them the API is aggregated in.
pub mod host_cluster;
/// Certificates for member clusters.
pub mod certificates;
/// What differs by kind.
pub mod strategy;
/// The answer to a write that the quota rules refused.
pub mod refusal;
/// Who puts tokens into `spec.finalizers`, and who takes them out.
pub mod finalizers;
/// The table of kinds.
pub mod kinds;
/// A small file of secrets that is read again when it changes.
mod followed;
/// Who may do what in the registry.
pub mod token_server;
/// What is served beside the kinds.
pub mod registry_routes;
/// The web console: its files, login, and the session in a browser's cookies.
pub mod console;
/// Compares the quota ledger with the objects.
pub mod audit;
/// The object that is made at the start, if it is missing.
pub mod initial;
/// Takes over what a TKE installation has.
pub mod import;
/// Looks at a file of issuers.
pub mod issuers;
/// Whether an installation works.
pub mod installed;
/// The serving certificate, where nobody else issues it.
pub mod own_certificate;
/// Whether a server will do.
pub mod check_database;
/// Puts the program together.
pub mod serve;

use config::{Cli, Command};
use std::process::ExitCode;
use std::time::Duration;

/// How long `migrate` waits for a database that is starting.
const MIGRATE_DEADLINE: Duration = Duration::from_mins(1);
/// How long the server's tasks may take to end once told.
const JOIN_DEADLINE: Duration = Duration::from_mins(2);
/// The exit code of an audit that found something, of a plan of which something is to be decided, and of a database that will
/// not do.
const FOUND: u8 = 2;

/// Does what the command line says.
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
            say(&installed::check(&settings).await?);
            Ok(ExitCode::SUCCESS)
        }
        Command::IssueCertificate(settings) => {
            say(&own_certificate::issue(&settings, &runtime::Clock::system()).await?);
            Ok(ExitCode::SUCCESS)
        }
        Command::RegistryKeys(settings) => {
            say(&token_server::keys::TokenKeys::load(&settings.file)?.jwks());
            Ok(ExitCode::SUCCESS)
        }
        Command::CheckAuthenticationConfig(settings) => {
            say(&issuers::check(&settings)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::CheckDatabase(settings) => {
            let finding = check_database::run(&settings).await?;
            say(&finding.text);
            Ok(if finding.fit { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
        }
        Command::Audit(settings) => {
            let finding = audit::run(&settings).await?;
            say(&finding.text);
            Ok(if finding.consistent { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
        }
        Command::Import(settings) => {
            let told = import::run(&settings).await?;
            say(&told.text);
            Ok(if told.needs_decision { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
        }
    }
}

#[expect(clippy::print_stdout, reason = "what is said is what the command is for")]
fn say(text: &str) {
    println!("{text}");
}
