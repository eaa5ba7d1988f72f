//! The files of a release: images, archives of the command line, bills of materials, manifests, chart, checksums,
//! notes.

use crate::image::{self, IMAGES, Shipped, WrittenImage};
use crate::programs::{BuildMode, ExecutionProfiles, PLUGIN};
use crate::source::{Source, UNKNOWN, VERSION};
use crate::{OutputDirectory, Platforms, chart, oci, tell};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use terminal::say;

const SUMS: &str = "SHA256SUMS";
const NOTES: &str = "RELEASE-NOTES.md";
const READABLE: u32 = 0o644;
/// The manifests, and their sources in deploy/. Objects that need the CRDs of the Prometheus Operator are in a file of
/// their own, so that a cluster without them can apply the rest.
const MANIFESTS: [(&str, ManifestSource); 7] = [
    ("install.yaml", ManifestSource::Directory("deploy/overlays/plain")),
    ("monitoring.yaml", ManifestSource::Component("deploy/components/monitoring")),
    ("member.yaml", ManifestSource::Directory("deploy/member")),
    ("member-shared.yaml", ManifestSource::Directory("deploy/member-shared")),
    ("member-capacity.yaml", ManifestSource::Directory("deploy/member-capacity")),
    ("templates.yaml", ManifestSource::Directory("deploy/templates")),
    ("templates-pulling.yaml", ManifestSource::Directory("deploy/templates-pulling")),
];

/// A directory of deploy/.
#[derive(Clone, Copy, Debug)]
enum ManifestSource {
    /// A kustomization.
    Directory(&'static str),
    /// A kustomize component.
    Component(&'static str),
}

/// Which version, and where its images will be.
#[derive(clap::Args, Debug)]
pub(crate) struct ReleaseSettings {
    /// Must be that of Cargo.toml.
    #[arg(long, value_name = "VERSION")]
    version: String,
    #[command(flatten)]
    naming: RenderSettings,
    /// Push the images there, by skopeo, which has to be logged in.
    #[arg(long)]
    push: bool,
    #[command(flatten)]
    platforms: Platforms,
    #[command(flatten)]
    profiles: ExecutionProfiles,
    #[command(flatten)]
    into: OutputDirectory,
}

/// What manifests are rendered with.
#[derive(clap::Args, Debug)]
struct RenderSettings {
    /// Where the images will be pulled from, for example registry.example.com/business.
    #[arg(long, value_name = "PREFIX")]
    registry: String,
    /// kubectl, which renders the manifests.
    #[arg(long, value_name = "FILE")]
    kubectl: PathBuf,
}

/// What is rendered before there are images.
#[derive(clap::Args, Debug)]
pub(crate) struct ManifestSettings {
    #[command(flatten)]
    naming: RenderSettings,
    #[command(flatten)]
    into: OutputDirectory,
}

/// The command `release`: checks the version and makes all files.
pub(crate) fn run(settings: &ReleaseSettings) -> Result<()> {
    let source = Source::from_environment()?;
    let notes = check(&settings.version, &source)?;
    let into = settings.into.into.as_path();
    if into.exists() {
        std::fs::remove_dir_all(into).with_context(|| format!("empty {}", into.display()))?;
    }
    let built = image::build(&settings.platforms, BuildMode::Release, &settings.profiles, &source)?;
    let images = image::pack(&built, &source, into)?;
    for shipped in built.iter().filter(|shipped| shipped.program.package == PLUGIN.package) {
        write_plugin(shipped, &source, into)?;
        image::write_sbom(shipped, into)?;
    }
    let digests: Vec<_> = images.iter().map(|image| (image.name, image.digest.as_str())).collect();
    write_manifests(&settings.naming, &source, &digests, into)?;
    chart::write(&source, into)?;
    std::fs::write(into.join(NOTES), notes)?;
    let sums = sums(into)?;
    std::fs::write(into.join(SUMS), &sums)?;
    if settings.push {
        images.iter().try_for_each(|image| push(image, &settings.naming.registry))?;
    }
    say::line(format_args!("{VERSION} is in {}:", into.display()));
    sums.lines().for_each(say::line);
    tell(&json!({"type": "release", "version": VERSION, "revision": source.revision, "directory": into}));
    Ok(())
}

/// The command `manifests`: renders them without a release.
pub(crate) fn manifests(settings: &ManifestSettings) -> Result<()> {
    let into = settings.into.into.as_path();
    std::fs::create_dir_all(into).with_context(|| format!("create {}", into.display()))?;
    let stand_in = format!("sha256:{:064x}", 1);
    let digests = IMAGES.map(|program| (program.binary, stand_in.as_str()));
    write_manifests(&settings.naming, &Source::from_environment()?, &digests, into)
}

/// Checks that this version can be released, and returns its notes.
fn check(version: &str, source: &Source) -> Result<String> {
    let version = version.trim_start_matches('v');
    ensure!(version == VERSION, "Cargo.toml says version {VERSION}, not {version}");
    ensure!(
        source.revision != UNKNOWN,
        "which commit is this? A release is made of one: build where git is, or set SOURCE_REVISION"
    );
    let dirty = source.revision.ends_with("-dirty");
    ensure!(!dirty, "the working tree differs from its commit: a release is made of a commit");
    let changelog = std::fs::read_to_string(source.root.join("CHANGELOG.md")).context("read CHANGELOG.md")?;
    notes(&changelog, version)
}

/// The section `## [VERSION] - DATE` of a changelog.
fn notes(changelog: &str, version: &str) -> Result<String> {
    let heading = format!("## [{version}]");
    let (_, rest) = changelog
        .split_once(&heading)
        .with_context(|| format!("CHANGELOG.md has no `{heading} - DATE`: write what is new"))?;
    let (line, rest) = rest.split_once('\n').unwrap_or((rest, ""));
    let date = line.trim().trim_start_matches('-').trim();
    ensure!(is_date(date), "CHANGELOG.md: `{heading}` has no date behind it, as in `{heading} - 2026-01-31`");
    let text = rest.split("\n## ").next().unwrap_or_default();
    // What stands at the end of the file are the targets of its links.
    let text = text.lines().filter(|line| !line.starts_with('[')).collect::<Vec<_>>().join("\n");
    ensure!(!text.trim().is_empty(), "CHANGELOG.md says nothing about {version}");
    Ok(format!("{}\n", text.trim()))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    parts.iter().map(|part| part.len()).eq([4, 2, 2]) && parts.iter().all(digits)
}

/// Writes the archive of the command line.
fn write_plugin(shipped: &Shipped, source: &Source, into: &Path) -> Result<()> {
    let licence = std::fs::read(source.root.join("LICENSE")).context("read LICENSE")?;
    let tar = oci::archive(
        [
            (PLUGIN.binary, 0o755, shipped.bytes.as_slice()),
            ("LICENSE", READABLE, licence.as_slice()),
            ("THIRD-PARTY-LICENSES.txt", READABLE, shipped.licences.as_bytes()),
        ],
        source.date,
    )?;
    let file = into.join(format!("{}-linux-{}.tar.gz", PLUGIN.binary, shipped.platform.architecture()));
    std::fs::write(&file, oci::gzip(&tar)?).with_context(|| format!("write {}", file.display()))
}

/// Writes the manifests, with the images of this version by digest.
fn write_manifests(
    naming: &RenderSettings,
    source: &Source,
    digests: &[(&str, &str)],
    into: &Path,
) -> Result<()> {
    let registry = naming.registry.trim_end_matches('/');
    let images: Vec<_> = digests
        .iter()
        .map(
            |(name, digest)| json!({"name": name, "newName": format!("{registry}/{name}"), "digest": digest}),
        )
        .collect();
    for (file, part) in MANIFESTS {
        let text = render(naming, source, &images, part).with_context(|| format!("render {file}"))?;
        std::fs::write(into.join(file), text).with_context(|| format!("write {file}"))?;
    }
    Ok(())
}

/// Renders a part of deploy/ with these images.
fn render(
    naming: &RenderSettings,
    source: &Source,
    images: &[Value],
    part: ManifestSource,
) -> Result<Vec<u8>> {
    let overlay = source.root.join(".dev/release");
    std::fs::create_dir_all(&overlay)?;
    std::fs::write(overlay.join("kustomization.yaml"), kustomization(part, images).to_string())?;
    let output = Command::new(&naming.kubectl).arg("kustomize").arg(&overlay).output();
    let output = output.with_context(|| format!("start {}", naming.kubectl.display()))?;
    ensure!(output.status.success(), "{part:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}

/// A kustomization in an overlay, two directories below the root.
fn kustomization(part: ManifestSource, images: &[Value]) -> Value {
    let (list, directory) = match part {
        ManifestSource::Directory(directory) => ("resources", directory),
        ManifestSource::Component(directory) => ("components", directory),
    };
    json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        list: [format!("../../{directory}")],
        "images": images,
    })
}

/// Pushes the image unchanged, since the manifests name its digest.
fn push(image: &WrittenImage, registry: &str) -> Result<()> {
    let to = format!("{}/{}:{VERSION}", registry.trim_end_matches('/'), image.name);
    say::step(&format!("{to} pushed"), || {
        let from = format!("oci-archive:{}:{VERSION}", image.archive.display());
        let status = Command::new("skopeo")
            .args(["copy", "--all", "--preserve-digests", "--quiet", &from, &format!("docker://{to}")])
            .stdout(Stdio::null())
            .status()
            .context("start skopeo: install it to push images")?;
        ensure!(status.success(), "{to} cannot be pushed: is skopeo logged in there?");
        Ok(())
    })
}

/// The checksums for `sha256sum --check`.
fn sums(directory: &Path) -> Result<String> {
    let mut lines = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name =
            path.file_name().and_then(|name| name.to_str()).context("a file without a name")?.to_owned();
        let line = format!("{}  {name}\n", oci::sha256(&std::fs::read(&path)?));
        lines.insert(name, line);
    }
    Ok(lines.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-02-01\n\n### Added\n- Two.\n\n## [0.1.0]\n- One.\n\n[0.2.0]: https://example.com\n";

    #[test]
    fn notes_are_those_of_the_version_which_needs_a_date() {
        assert_eq!(notes(CHANGELOG, "0.2.0").unwrap(), "### Added\n- Two.\n");
        assert!(notes(CHANGELOG, "0.1.0").unwrap_err().to_string().contains("no date"));
        assert!(notes(CHANGELOG, "0.3.0").unwrap_err().to_string().contains("write what is new"));
    }

    #[test]
    fn a_release_has_the_version_of_its_sources_and_is_made_of_a_commit() {
        let refused = |version: &str, revision: &str| {
            let source = Source { root: crate::source::root(), revision: revision.to_owned(), date: 0 };
            check(version, &source).unwrap_err().to_string()
        };
        assert!(refused("99.0.0", "c0ffee").contains(&format!("Cargo.toml says version {VERSION}")));
        for version in [VERSION, &format!("v{VERSION}")] {
            assert!(refused(version, "c0ffee-dirty").contains("differs from its commit"), "{version}");
            assert!(refused(version, UNKNOWN).contains("which commit"), "{version}");
        }
    }

    fn read(directory: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::read_to_string(root.join(directory).join("kustomization.yaml")).unwrap()
    }

    #[test]
    fn manifests_are_rendered_as_what_their_sources_are() {
        for (file, part) in MANIFESTS {
            let made = kustomization(part, &[]);
            let (list, directory, kind) = match part {
                ManifestSource::Directory(directory) => ("resources", directory, "Kustomization"),
                ManifestSource::Component(directory) => ("components", directory, "Component"),
            };
            assert_eq!(made[list], json!([format!("../../{directory}")]), "{file}");
            assert!(read(directory).contains(&format!("kind: {kind}\n")), "{file}");
        }
    }

    #[test]
    fn install_and_monitoring_are_the_overlay_for_production() {
        let prod = read("deploy/overlays/prod");
        let parts: Vec<&str> = prod.lines().filter_map(|line| line.strip_prefix("- ")).collect();
        assert_eq!(parts, ["../plain", "../../components/monitoring"]);
        assert!(!read("deploy/overlays/plain").contains("monitoring"));
    }
}
