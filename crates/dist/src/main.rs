//! Builds what is shipped. `cargo xtask image` and `cargo xtask release` build this program and call it.
//!
//! ```text
//! source ─▶ programs ─▶ packages ─▶ sbom, licences ─▶ image   ─▶ oci ─▶ target/images
//!  version   cargo       cargo tree   in each program   contents  files
//! ```

/// Version, revision and date.
mod source;
/// The platforms that are built for.
mod platform;
/// Programs, static and stripped.
mod programs;
/// The packages that a program is made of.
mod packages;
/// Versions of Rust's standard library and of the C library.
mod toolchain;
/// The packages of the console's page.
mod page;
/// The bill of materials.
mod sbom;
/// Texts of licences.
mod licences;
/// The list of packages that is embedded in a program.
mod embedded;
/// Layers, manifests, archives.
mod oci;
/// The images.
mod image;
/// Comparison of two builds.
mod compare;
/// The files of a release.
mod release;
/// The Helm chart.
mod chart;

use clap::{Parser, Subcommand, ValueEnum};
use platform::Platform;
use std::path::PathBuf;
use std::process::ExitCode;
use terminal::say::{self, Output};

#[derive(Parser)]
#[command(name = "dist", version, about = "What is shipped.")]
struct Cli {
    #[arg(long, short, global = true, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(subcommand)]
    command: Commands,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Commands {
    /// Build the programs and pack them into images.
    Image(image::ImageSettings),
    /// Build the programs as they are shipped for this machine, to measure them.
    Programs(programs::ProgramSettings),
    /// Write the files of an image into a directory, and print its configuration.
    Unpack(oci::read::UnpackSettings),
    /// Say the first difference of the images in two directories.
    Compare(compare::CompareSettings),
    /// Pack the chart.
    Chart(OutputDirectory),
    /// Render the manifests of a release, with digests that no image has: to try what a cluster says of them.
    Manifests(release::ManifestSettings),
    /// Make everything that one version is.
    Release(release::ReleaseSettings),
}

/// Platforms to build for.
#[derive(clap::Args, Debug)]
struct Platforms {
    /// A platform; all that this machine can build for when none is given.
    #[arg(long = "platform", value_name = "OS/ARCH", value_enum)]
    chosen: Vec<Platform>,
}

/// Where something is to be written.
#[derive(clap::Args, Debug)]
struct OutputDirectory {
    /// The directory to write to.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    say::to(match cli.output {
        Format::Text => Output::Text,
        Format::Json => Output::Json,
    });
    let outcome = match cli.command {
        Commands::Image(settings) => image::run(&settings),
        Commands::Programs(settings) => programs::run(&settings),
        Commands::Unpack(settings) => oci::read::run(&settings),
        Commands::Compare(settings) => compare::run(&settings),
        Commands::Chart(into) => chart::run(&into),
        Commands::Manifests(settings) => release::manifests(&settings),
        Commands::Release(settings) => release::run(&settings),
    };
    // The caller says how the whole run has ended.
    if let Err(error) = &outcome {
        say::line(format_args!("{error:#}"));
    }
    say::exit_code(&outcome.map(|()| None))
}

/// Prints the result as JSON, if the caller asked for that.
fn tell(document: &serde_json::Value) {
    if say::output() == Output::Json {
        print(document);
    }
}

#[expect(clippy::print_stdout, reason = "what is printed is what the command is for")]
fn print(text: impl std::fmt::Display) {
    println!("{text}");
}
