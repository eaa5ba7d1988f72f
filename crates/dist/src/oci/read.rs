//! Reads image archives, and checks each blob against its digest.

use crate::oci::{self, INDEX, LAYER, MANIFEST};
use crate::platform::Platform;
use crate::{OutputDirectory, print};
use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// What is unpacked, and where to.
#[derive(clap::Args, Debug)]
pub(crate) struct UnpackSettings {
    /// The archive of an image.
    archive: PathBuf,
    #[arg(long, value_enum)]
    platform: Platform,
    #[command(flatten)]
    into: OutputDirectory,
}

/// The command `unpack`: writes the files and prints the configuration.
pub(crate) fn run(settings: &UnpackSettings) -> Result<()> {
    let image = UnpackedImage::open(&settings.archive, settings.platform)?;
    std::fs::create_dir_all(&settings.into.into)?;
    for (path, entry) in &image.files {
        let to = settings.into.into.join(path);
        write(&to, entry, path.ends_with('/')).with_context(|| format!("write {}", to.display()))?;
    }
    print(&image.config);
    Ok(())
}

fn write(to: &Path, entry: &Entry, is_directory: bool) -> std::io::Result<()> {
    if is_directory {
        std::fs::create_dir_all(to)?;
    } else {
        std::fs::write(to, &entry.bytes)?;
    }
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(entry.mode))
}

/// The file system and configuration of an image.
#[derive(Debug)]
pub(crate) struct UnpackedImage {
    pub(crate) config: Value,
    /// The entries by path; paths of directories end in a slash.
    pub(crate) files: BTreeMap<String, Entry>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mode: u32,
    pub(crate) bytes: Vec<u8>,
}

type Blobs = BTreeMap<String, Vec<u8>>;

impl UnpackedImage {
    /// The image of a platform in an archive.
    pub(crate) fn open(archive: &Path, platform: Platform) -> Result<Self> {
        let bytes = std::fs::read(archive).with_context(|| format!("read {}", archive.display()))?;
        Self::read(&bytes, platform).with_context(|| archive.display().to_string())
    }

    pub(crate) fn read(archive: &[u8], platform: Platform) -> Result<Self> {
        let mut blobs = Blobs::new();
        for (path, entry) in entries(archive)? {
            blobs.insert(path, entry.bytes);
        }
        let outer = blobs.get("index.json").context("no index.json: this is no archive of an image")?;
        let outer = serde_json::from_slice(outer)?;
        let index = json_of(&blobs, only(&outer, "manifests")?, INDEX)?;
        let wanted = |manifest: &&Value| {
            manifest.pointer("/platform/architecture").and_then(Value::as_str)
                == Some(platform.architecture())
        };
        let manifest = list(&index, "manifests").find(wanted);
        let manifest = manifest.with_context(|| format!("it has no image for {}", platform.name()))?;
        let manifest = json_of(&blobs, manifest, MANIFEST)?;
        let config: Value =
            serde_json::from_slice(blob(&blobs, manifest.get("config").context("no config")?)?)?;
        let mut files = BTreeMap::new();
        let diffs = config.pointer("/rootfs/diff_ids").context("no diff_ids")?;
        let diffs = diffs.as_array().into_iter().flatten();
        for (layer, diff) in list(&manifest, "layers").zip(diffs) {
            ensure!(media_type(layer) == LAYER, "a layer of an unknown kind: {layer}");
            let mut tar = Vec::new();
            GzDecoder::new(blob(&blobs, layer)?).read_to_end(&mut tar)?;
            let found = format!("sha256:{}", oci::sha256(&tar));
            ensure!(diff.as_str() == Some(&found), "a layer holds {found}, not {diff}");
            files.extend(entries(&tar)?);
        }
        Ok(Self { config, files })
    }
}

/// The entries of a tar archive. Paths that lead out of it are refused.
fn entries(tar: &[u8]) -> Result<BTreeMap<String, Entry>> {
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(tar).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(inside, "{} leads out of the archive", path.display());
        let mut name = path.to_str().context("a name that is no text")?.trim_end_matches('/').to_owned();
        match entry.header().entry_type() {
            tar::EntryType::Directory => name.push('/'),
            tar::EntryType::Regular => {}
            other => bail!("{name} is neither a file nor a directory but {other:?}"),
        }
        let mode = entry.header().mode()?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        found.insert(name, Entry { mode, bytes });
    }
    Ok(found)
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn only<'a>(value: &'a Value, name: &str) -> Result<&'a Value> {
    match value.get(name).and_then(Value::as_array).map(Vec::as_slice) {
        Some([one]) => Ok(one),
        _ => bail!("one of {name} is expected"),
    }
}

fn media_type(descriptor: &Value) -> &str {
    descriptor.get("mediaType").and_then(Value::as_str).unwrap_or_default()
}

fn json_of(blobs: &Blobs, descriptor: &Value, kind: &str) -> Result<Value> {
    ensure!(media_type(descriptor) == kind, "{kind} is expected: {descriptor}");
    Ok(serde_json::from_slice(blob(blobs, descriptor)?)?)
}

fn blob<'a>(blobs: &'a Blobs, descriptor: &Value) -> Result<&'a [u8]> {
    let digest =
        descriptor.get("digest").and_then(Value::as_str).and_then(|digest| digest.strip_prefix("sha256:"));
    let digest = digest.with_context(|| format!("no digest: {descriptor}"))?;
    let bytes =
        blobs.get(&format!("blobs/sha256/{digest}")).with_context(|| format!("{digest} is missing"))?;
    ensure!(oci::sha256(bytes) == digest, "{digest} has other bytes than its name says");
    let size = descriptor.get("size").and_then(Value::as_u64);
    ensure!(size == Some(bytes.len().try_into()?), "{digest} has another size than {size:?}");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::{Image, Layer, PlatformImage};
    use serde_json::json;

    fn image(date: u64) -> Vec<u8> {
        let mut layer = Layer::default();
        layer.file("etc/ssl/certs/ca.crt", "certificates");
        layer.program("tool", b"program".to_vec());
        let platforms = Platform::ALL.map(|platform| PlatformImage {
            platform,
            layers: vec![oci::pack(&layer, date).unwrap()],
            config: json!({"User": "65532:65532"}),
        });
        let image = Image {
            reference: "1.0.0".to_owned(),
            created: "2026-01-01T00:00:00Z".to_owned(),
            annotations: json!({}),
            platforms: platforms.into(),
        };
        image.archive(date).unwrap().bytes
    }

    #[test]
    fn what_was_put_in_is_read_and_every_build_makes_the_same_bytes() {
        let bytes = image(1_700_000_000);
        assert_eq!(bytes, image(1_700_000_000));
        assert_ne!(bytes, image(1_700_000_001));
        let read = UnpackedImage::read(&bytes, Platform::Arm64).unwrap();
        let names: Vec<&str> = read.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["etc/", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca.crt", "tool"]);
        assert_eq!(read.files["tool"], Entry { mode: 0o555, bytes: b"program".to_vec() });
        assert_eq!(read.config.pointer("/config/User"), Some(&json!("65532:65532")));
    }

    #[test]
    fn a_byte_that_was_changed_is_found() {
        let mut bytes = image(0);
        // In the last blob, whichever that is.
        let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[at] ^= 1;
        let mut errors =
            Platform::ALL.into_iter().filter_map(|platform| UnpackedImage::read(&bytes, platform).err());
        assert!(errors.any(|error| error.to_string().contains("other bytes")));
    }
}
