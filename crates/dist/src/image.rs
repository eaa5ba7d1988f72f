//! The images: a program, its licences and bill of materials, CA certificates, a user that is not root; nothing else.

use crate::licences::{self, ThirdPartyPackage};
use crate::oci::{self, Image, Layer, PlatformImage};
use crate::packages::{Origin, Packages, ResolvedPackages};
use crate::page::{self, NpmPackage};
use crate::platform::Platform;
use crate::programs::{API, BuildEnvironment, BuildMode, CONTROLLER, ExecutionProfiles, Program, SHIPPED};
use crate::sbom::{self, SbomInput};
use crate::source::{LICENCE, Source, VERSION};
use crate::toolchain::Toolchain;
use crate::{OutputDirectory, Platforms, embedded, tell};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use terminal::say;

/// The programs with an image. The command line is shipped as an archive.
pub(crate) const IMAGES: [Program; 2] = [API, CONTROLLER];
/// The user nobody, by the number that other images without a distribution use.
const USER: &str = "65532";
const PEM_LINE: usize = 64;
const MEGABYTE: usize = 1_000_000;

/// What is to be built.
#[derive(clap::Args, Debug)]
pub(crate) struct ImageSettings {
    #[command(flatten)]
    platforms: Platforms,
    #[command(flatten)]
    into: OutputDirectory,
    #[command(flatten)]
    profiles: ExecutionProfiles,
    /// Programs of the dev profile, for this machine: to try what is packed around them.
    #[arg(long)]
    quick: bool,
}

/// The command `image`: builds and packs.
pub(crate) fn run(settings: &ImageSettings) -> Result<()> {
    let source = Source::from_environment()?;
    let mode = if settings.quick { BuildMode::Dev } else { BuildMode::Release };
    let built = build(&settings.platforms, mode, &settings.profiles, &source)?;
    pack(&built, &source, &settings.into.into).map(drop)
}

/// A program that is ready to be shipped.
#[derive(Debug)]
pub(crate) struct Shipped {
    pub(crate) program: Program,
    pub(crate) platform: Platform,
    pub(crate) bytes: Vec<u8>,
    /// Its bill of materials, `CycloneDX`.
    pub(crate) sbom: Vec<u8>,
    /// The licences of third-party packages.
    pub(crate) licences: String,
}

/// An image that was written.
#[derive(Debug)]
pub(crate) struct WrittenImage {
    pub(crate) name: &'static str,
    pub(crate) archive: PathBuf,
    /// The digest of the index, which names the image of every platform.
    pub(crate) digest: String,
}

/// Builds everything that is shipped, for every platform.
pub(crate) fn build(
    platforms: &Platforms,
    mode: BuildMode,
    profiles: &ExecutionProfiles,
    source: &Source,
) -> Result<Vec<Shipped>> {
    let page = page::packages()?;
    if page.is_empty() {
        say::skipped(
            "the console's page is not built: business-api goes without it; `cargo xtask web` builds it",
        );
    }
    let programs = if mode == BuildMode::Dev { &IMAGES[..] } else { &SHIPPED[..] };
    let mut built = Vec::new();
    for environment in build_environments(platforms, mode, profiles)? {
        let directory = environment.build(programs)?;
        let resolved = ResolvedPackages::resolve(environment.platform, &SHIPPED)?;
        let toolchain = Toolchain::of(environment.platform)?;
        for program in programs {
            let packages = resolved.of(*program)?;
            let page = if program.package == API.package { page.as_slice() } else { &[] };
            let finished = directory.join(format!("{}.shipped", program.binary));
            environment.strip_and_embed(
                &directory.join(program.binary),
                &finished,
                &embedded::section(&packages)?,
            )?;
            let bytes = std::fs::read(&finished)?;
            let materials = SbomInput { packages: &packages, page, toolchain: &toolchain };
            built.push(Shipped {
                program: *program,
                platform: environment.platform,
                bytes,
                sbom: sbom::document(materials, source)?,
                licences: licences_of(&packages, page)?,
            });
        }
    }
    Ok(built)
}

/// For each chosen platform; by default for each platform that this machine can build for.
fn build_environments(
    platforms: &Platforms,
    mode: BuildMode,
    profiles: &ExecutionProfiles,
) -> Result<Vec<BuildEnvironment>> {
    let open = |platform| BuildEnvironment::open(platform, mode, profiles);
    if !platforms.chosen.is_empty() {
        return platforms.chosen.iter().copied().map(open).collect();
    }
    let mut environments = Vec::new();
    for platform in
        Platform::ALL.into_iter().filter(|platform| mode == BuildMode::Release || platform.is_here())
    {
        match open(platform) {
            Ok(environment) => environments.push(environment),
            Err(missing) => say::skipped(&format!("{missing:#}")),
        }
    }
    ensure!(!environments.is_empty(), "this machine builds for no platform");
    Ok(environments)
}

fn licences_of(packages: &Packages, page: &[NpmPackage]) -> Result<String> {
    let linked = packages.all.iter().filter(|package| package.origin != Origin::Workspace);
    let linked = linked.map(|package| ThirdPartyPackage {
        name: &package.id.name,
        version: &package.id.version,
        licence: package.licence.as_deref(),
        directory: &package.directory,
    });
    let shown = page.iter().map(|package| ThirdPartyPackage {
        name: &package.name,
        version: &package.version,
        licence: package.licence.as_deref(),
        directory: &package.directory,
    });
    licences::texts(linked.chain(shown))
}

/// Writes an archive and the bills of materials of each image.
pub(crate) fn pack(built: &[Shipped], source: &Source, into: &Path) -> Result<Vec<WrittenImage>> {
    std::fs::create_dir_all(into).with_context(|| format!("create {}", into.display()))?;
    let base = oci::pack(&base()?, source.date)?;
    let mut written = Vec::new();
    for program in IMAGES {
        let labels = labels(program, source)?;
        let mut platforms = Vec::new();
        for shipped in built.iter().filter(|shipped| shipped.program.package == program.package) {
            let own = oci::pack(&own_layer(shipped, source)?, source.date)?;
            platforms.push(PlatformImage {
                platform: shipped.platform,
                layers: vec![base.clone(), own],
                config: config(program, &labels),
            });
            write_sbom(shipped, into)?;
        }
        let names: Vec<String> = platforms.iter().map(|image| image.platform.name()).collect();
        let image = Image {
            reference: VERSION.to_owned(),
            created: source.timestamp()?,
            annotations: labels,
            platforms,
        };
        let archive = image.archive(source.date)?;
        let file = archive_of(into, program);
        std::fs::write(&file, &archive.bytes).with_context(|| format!("write {}", file.display()))?;
        print_summary(program, &names, &archive, &file);
        written.push(WrittenImage { name: program.binary, archive: file, digest: archive.digest });
    }
    Ok(written)
}

/// The path of a program's image archive.
pub(crate) fn archive_of(directory: &Path, program: Program) -> PathBuf {
    directory.join(format!("{}-{VERSION}.tar", program.binary))
}

/// Writes the bill of materials beside the archive.
pub(crate) fn write_sbom(shipped: &Shipped, into: &Path) -> Result<PathBuf> {
    let architecture = shipped.platform.architecture();
    let file = into.join(format!("{}-{VERSION}-linux-{architecture}.cdx.json", shipped.program.binary));
    std::fs::write(&file, &shipped.sbom).with_context(|| format!("write {}", file.display()))?;
    Ok(file)
}

fn print_summary(program: Program, platforms: &[String], archive: &oci::Archive, file: &Path) {
    let size = archive.bytes.len();
    say::line(format_args!(
        "{}:{VERSION} {}: {}.{} MB, {}",
        program.binary,
        platforms.join(", "),
        size / MEGABYTE,
        size % MEGABYTE / (MEGABYTE / 10),
        file.display()
    ));
    say::line(format_args!("  {}", archive.digest));
    tell(&json!({
        "type": "image", "name": program.binary, "version": VERSION, "digest": archive.digest,
        "platforms": platforms, "archive": file, "bytes": size,
    }));
}

/// The layer that is the same in all images: CA certificates, passwd, nsswitch.conf.
fn base() -> Result<Layer> {
    let mut layer = Layer::default();
    layer.file("etc/ssl/certs/ca-certificates.crt", authorities()?);
    layer.file("etc/passwd", format!("root:x:0:0:root:/:\nnonroot:x:{USER}:{USER}:nonroot:/:\n"));
    layer.file("etc/group", format!("root:x:0:\nnonroot:x:{USER}:\n"));
    layer.file("etc/nsswitch.conf", "hosts: files dns\n");
    Ok(layer)
}

/// Mozilla's CA certificates, PEM.
fn authorities() -> Result<String> {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let base64 = STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in base64.as_bytes().chunks(PEM_LINE) {
            text.push_str(std::str::from_utf8(line)?);
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    Ok(text)
}

fn own_layer(shipped: &Shipped, source: &Source) -> Result<Layer> {
    let mut layer = Layer::default();
    layer.program(shipped.program.binary, shipped.bytes.clone());
    layer.file("sbom.cdx.json", shipped.sbom.clone());
    layer.file("licenses/LICENSE", std::fs::read(source.root.join("LICENSE")).context("read LICENSE")?);
    layer.file("licenses/THIRD-PARTY.txt", shipped.licences.clone());
    Ok(layer)
}

/// <https://specs.opencontainers.org/image-spec/annotations/>
fn labels(program: Program, source: &Source) -> Result<Value> {
    Ok(json!({
        "org.opencontainers.image.title": program.binary,
        "org.opencontainers.image.description": program.title,
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.revision": source.revision,
        "org.opencontainers.image.created": source.timestamp()?,
        "org.opencontainers.image.licenses": LICENCE,
    }))
}

fn config(program: Program, labels: &Value) -> Value {
    json!({
        "User": format!("{USER}:{USER}"),
        "Entrypoint": [format!("/{}", program.binary)],
        "WorkingDir": "/",
        "Env": ["PATH=/"],
        "Labels": labels,
    })
}

/// The image archives in a directory.
pub(crate) fn archives(directory: &Path) -> Result<Vec<(Program, PathBuf)>> {
    let there = IMAGES.map(|program| (program, archive_of(directory, program)));
    match there.iter().find(|(_, file)| !file.exists()) {
        Some((_, missing)) => bail!("{} is not there", missing.display()),
        None => Ok(there.into()),
    }
}
