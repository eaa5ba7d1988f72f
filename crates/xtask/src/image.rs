//! `cargo xtask image` and `cargo xtask release`: build the program `dist` and call it.

use crate::build::{self, Programs};
use crate::control_plane::ControlPlane;
use crate::{call, cargo, execution_profile, git, tree, up, web, workspace};
use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::{Path, PathBuf};
use terminal::line;
use terminal::say::{self, Count, Output};

/// The directory of images, below the target directory.
const IMAGES: &str = "images";
/// The directory of the second build. Its path differs from the first one's in length, too.
const SECOND: &str = "another/place";
/// The commit, and <https://reproducible-builds.org/docs/source-date-epoch/>.
const REVISION: &str = "SOURCE_REVISION";
const DATE: &str = "SOURCE_DATE_EPOCH";

fn platform() -> Arg {
    Arg::new("platform")
        .long("platform")
        .value_name("OS/ARCH")
        .action(ArgAction::Append)
        .help("linux/amd64 or linux/arm64, more than once for both; all that this machine can build for when none is given.")
}

fn into() -> Arg {
    Arg::new("into").long("into").value_name("DIR").value_parser(value_parser!(PathBuf))
}

/// `image` and its flags.
pub(crate) fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("image").about("Build the images, as archives of the Open Container Initiative.").args([
        platform(),
        into().help("Where to write them; target/images when not given."),
        flag("check").help("Build them a second time at another place, and say the first difference."),
        flag("try").help("Start what is in them, as deploy/ does, on real parts."),
        flag("quick").help("Put programs of the dev profile in: to try everything around them."),
        line::output(),
    ])
}

/// `release` and its flags.
pub(crate) fn release_command() -> Command {
    let required =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value).required(true);
    Command::new("release")
        .about("Make everything that one version is: images, archives, manifests, checksums.")
        .args([
            required("version", "VERSION")
                .help("Must be that of Cargo.toml, and have an entry with a date in CHANGELOG.md."),
            required("registry", "PREFIX")
                .help("Where the images will be pulled from, for example registry.example.com/business."),
            platform(),
            Arg::new("push")
                .long("push")
                .action(ArgAction::SetTrue)
                .help("Push the images there, by skopeo, which has to be logged in."),
            into().help("Where to write it; target/release-VERSION when not given. It is emptied first."),
            line::output(),
        ])
}

/// Builds the images; tests and compares them if asked to.
pub(crate) fn image(matches: &ArgMatches) -> Result<()> {
    call::listen_for_signals()?;
    prepare()?;
    let into = directory(matches, || workspace::target().map(|target| target.join(IMAGES)))?;
    let mut words = words("image", &into);
    words.extend(platforms(matches));
    words.extend(if matches.get_flag("quick") { vec!["--quick".to_owned()] } else { profiles()? });
    dist(&words)?;
    if matches.get_flag("try") {
        test_images(&into)?;
    }
    if matches.get_flag("check") {
        check_reproducible(matches, &into)?;
    }
    Ok(())
}

/// A step of `test`: images with programs of the dev profile.
pub(crate) fn level() -> Result<Count> {
    prepare()?;
    let into = workspace::target()?.join(IMAGES).join("quick");
    let mut words = words("image", &into);
    words.push("--quick".to_owned());
    dist(&words)?;
    test_images(&into)
}

/// Builds the programs as they are shipped for this machine, with symbols.
pub(crate) fn programs(into: &Path) -> Result<()> {
    let mut words = words("programs", into);
    words.extend(profiles()?);
    dist(&words)
}

/// The same, but they count what they execute, and write it below `counts` when they end.
pub(crate) fn counting_programs(into: &Path, counts: &Path) -> Result<()> {
    let mut words = words("programs", into);
    words.extend(["--counting".to_owned(), text(counts)]);
    dist(&words)
}

/// Makes a release.
pub(crate) fn release(matches: &ArgMatches) -> Result<()> {
    execution_profile::ensure_current()?;
    prepare()?;
    let version = matches.get_one::<String>("version").map(String::as_str).unwrap_or_default();
    let registry = matches.get_one::<String>("registry").map(String::as_str).unwrap_or_default();
    let plane = ControlPlane::kubectl();
    if plane.is_to_be_built() {
        build::build(&[], Some(&plane))?;
    }
    plane.link()?;
    let into =
        directory(matches, || workspace::target().map(|target| target.join(format!("release-{version}"))))?;
    let mut words = words("release", &into);
    words.extend(platforms(matches));
    words.extend(profiles()?);
    words.extend(["--version".to_owned(), version.to_owned(), "--registry".to_owned(), registry.to_owned()]);
    words.extend(matches.get_flag("push").then(|| "--push".to_owned()));
    let kubectl = workspace::dev().join("bin/kubectl");
    words.extend(["--kubectl".to_owned(), text(&kubectl)]);
    dist(&words)
}

/// Builds the console, which business-api includes, and `dist`.
fn prepare() -> Result<()> {
    web::on_demand()?;
    build::build(&[Programs::DIST], None)
}

fn directory(matches: &ArgMatches, usual: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    let given = matches.get_one::<PathBuf>("into").map(std::path::absolute).transpose()?;
    given.map_or_else(usual, Ok)
}

fn words(name: &str, into: &Path) -> Vec<String> {
    vec![name.to_owned(), "--into".to_owned(), text(into)]
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn platforms(matches: &ArgMatches) -> impl Iterator<Item = String> {
    let chosen = matches.get_many::<String>("platform").into_iter().flatten();
    chosen.flat_map(|platform| ["--platform".to_owned(), platform.clone()])
}

fn profiles() -> Result<Vec<String>> {
    let directory = execution_profile::for_build()?;
    Ok(directory.map_or_else(Vec::new, |directory| vec!["--profiles".to_owned(), text(&directory)]))
}

fn dist(words: &[String]) -> Result<()> {
    let mut command = cargo::with_user_environment(workspace::built(false)?.join("dist"));
    command.args(words).envs(source_environment());
    if say::output() == Output::Json {
        command.args(["--output", "json"]);
    }
    let status = call::run_as_group(&mut command)?;
    ensure!(status.success(), "dist {} failed", words.first().map(String::as_str).unwrap_or_default());
    Ok(())
}

/// Runs the images with a real PostgreSQL and a real kube-apiserver.
fn test_images(images: &Path) -> Result<Count> {
    up::prepare(&[Programs::ACCEPT, Programs::DIST], &ControlPlane::whole())?;
    workspace::link(images, &workspace::dev().join(IMAGES))?;
    call::level("image", "accept", &["images"])
}

/// Checks that the same sources in another directory give the same images.
fn check_reproducible(matches: &ArgMatches, first: &Path) -> Result<()> {
    let place = workspace::target()?.join(SECOND);
    say::step("the sources copied to another place", || copy(&place))?;
    let into = place.join(IMAGES);
    let mut second = cargo::cargo();
    second.current_dir(&place).env("CARGO_TARGET_DIR", place.join("target"));
    second.envs(source_environment());
    second.arg("xtask").args(words("image", &into)).args(platforms(matches));
    second.args(matches.get_flag("quick").then_some("--quick"));
    let status = call::run(second.stdout(say::lines()))?;
    ensure!(status.success(), "the images cannot be built a second time, in {}", place.display());
    dist(&["compare".to_owned(), text(first), text(&into)])?;
    std::fs::remove_dir_all(&place).with_context(|| format!("remove {}", place.display()))
}

/// Commit and date: from the environment, else from git, which the second build does not have.
fn source_environment() -> [(&'static str, String); 2] {
    let given = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let revision = given(REVISION).or_else(|| revision().ok()).unwrap_or_else(|| "unknown".to_owned());
    let date = given(DATE)
        .or_else(|| git::text(&["log", "-1", "--format=%ct"]).ok())
        .unwrap_or_else(|| "0".to_owned());
    [(REVISION, revision), (DATE, date)]
}

fn revision() -> Result<String> {
    let commit = git::text(&["rev-parse", "HEAD"])?;
    let changed = !git::text(&["status", "--porcelain"])?.is_empty();
    Ok(if changed { format!("{commit}-dirty") } else { commit })
}

/// Copies the files of the working tree that git tracks or would add.
fn copy(place: &Path) -> Result<()> {
    if place.exists() {
        std::fs::remove_dir_all(place).with_context(|| format!("empty {}", place.display()))?;
    }
    let root = workspace::root();
    let listed = git::text(&["ls-files", "--cached", "--others", "--exclude-standard"])
        .context("a second build is made from what git knows")?;
    for name in listed.lines().filter(|name| root.join(name).exists()) {
        tree::copy(&root.join(name), &place.join(name))?;
    }
    Ok(())
}
