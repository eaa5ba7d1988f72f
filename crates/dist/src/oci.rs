//! OCI images: layers, configurations, manifests, and one archive for all. The same contents give the same bytes.

/// Reads images again.
pub(crate) mod read;

use crate::platform::Platform;
use anyhow::Result;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::Write as _;

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The annotation with an image's reference in an archive.
pub(crate) const REFERENCE: &str = "org.opencontainers.image.ref.name";
const BLOBS: &str = "blobs/sha256";
const EVERYBODY_READS: u32 = 0o444;

/// The files of a layer. They belong to root and are read-only.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    files: BTreeMap<String, File>,
}

#[derive(Debug)]
struct File {
    mode: u32,
    bytes: Vec<u8>,
}

impl Layer {
    /// Adds a file that everybody can read.
    pub(crate) fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files.insert(path.to_owned(), File { mode: EVERYBODY_READS, bytes: bytes.into() });
    }

    /// Adds an executable.
    pub(crate) fn program(&mut self, path: &str, bytes: Vec<u8>) {
        self.files.insert(path.to_owned(), File { mode: 0o555, bytes });
    }

    fn tar(&self, date: u64) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        let mut made = Vec::new();
        for (path, file) in &self.files {
            for (end, _) in path.match_indices('/') {
                let directory = path.get(..=end).unwrap_or_default();
                if !made.contains(&directory) {
                    append(&mut tar, directory, 0o755, &[], date)?;
                    made.push(directory);
                }
            }
            append(&mut tar, path, file.mode, &file.bytes, date)?;
        }
        Ok(tar.into_inner()?)
    }
}

/// Appends an entry; a path that ends in a slash is a directory.
fn append(tar: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, bytes: &[u8], date: u64) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    let kind = if path.ends_with('/') { tar::EntryType::Directory } else { tar::EntryType::Regular };
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(date);
    header.set_size(bytes.len().try_into()?);
    tar.append_data(&mut header, path, bytes)?;
    Ok(())
}

/// A tar archive, the same bytes for the same files.
pub(crate) fn archive<'a>(
    files: impl IntoIterator<Item = (&'a str, u32, &'a [u8])>,
    date: u64,
) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, mode, bytes) in files {
        append(&mut tar, path, mode, bytes, date)?;
    }
    Ok(tar.into_inner()?)
}

/// Compresses without a timestamp.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

/// The SHA-256 in hexadecimal, without `sha256:`.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A compressed layer.
#[derive(Clone, Debug)]
pub(crate) struct PackedLayer {
    bytes: Vec<u8>,
    /// The digest of the uncompressed layer (diff ID).
    diff: String,
}

/// Packs a layer whose files are as old as `date`.
pub(crate) fn pack(layer: &Layer, date: u64) -> Result<PackedLayer> {
    let tar = layer.tar(date)?;
    Ok(PackedLayer { diff: sha256(&tar), bytes: gzip(&tar)? })
}

/// The image of one platform.
#[derive(Debug)]
pub(crate) struct PlatformImage {
    pub(crate) platform: Platform,
    pub(crate) layers: Vec<PackedLayer>,
    /// User, entrypoint, labels, as the specification names them.
    pub(crate) config: Value,
}

/// An image of all its platforms.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) reference: String,
    /// RFC 3339.
    pub(crate) created: String,
    pub(crate) annotations: Value,
    pub(crate) platforms: Vec<PlatformImage>,
}

/// An image as one file.
#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) bytes: Vec<u8>,
    /// The digest of the index, which names the image of every platform.
    pub(crate) digest: String,
}

#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds a blob and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = sha256(&bytes);
        let descriptor =
            json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()});
        self.0.insert(digest, bytes);
        descriptor
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().into_bytes())
    }
}

impl Image {
    /// One archive, for `skopeo copy oci-archive:FILE`.
    pub(crate) fn archive(&self, date: u64) -> Result<Archive> {
        let mut blobs = Blobs::default();
        let mut manifests = Vec::new();
        for image in &self.platforms {
            manifests.push(self.manifest(image, &mut blobs));
        }
        let index = json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": self.annotations,
        });
        let mut named = blobs.add_json(INDEX, &index);
        let digest = named.get("digest").and_then(Value::as_str).unwrap_or_default().to_owned();
        annotate(&mut named, json!({REFERENCE: self.reference}));
        let entry = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}).to_string();
        let layout = json!({"imageLayoutVersion": "1.0.0"}).to_string();
        let paths: Vec<(String, Vec<u8>)> =
            blobs.0.into_iter().map(|(digest, bytes)| (format!("{BLOBS}/{digest}"), bytes)).collect();
        let mut files: Vec<(&str, u32, &[u8])> = vec![
            ("oci-layout", EVERYBODY_READS, layout.as_bytes()),
            ("index.json", EVERYBODY_READS, entry.as_bytes()),
            ("blobs/", 0o755, &[]),
            ("blobs/sha256/", 0o755, &[]),
        ];
        files.extend(paths.iter().map(|(path, bytes)| (path.as_str(), EVERYBODY_READS, bytes.as_slice())));
        Ok(Archive { bytes: archive(files, date)?, digest })
    }

    fn manifest(&self, image: &PlatformImage, blobs: &mut Blobs) -> Value {
        let architecture = image.platform.architecture();
        let diffs: Vec<String> = image.layers.iter().map(|layer| format!("sha256:{}", layer.diff)).collect();
        let config = json!({
            "created": self.created,
            "architecture": architecture,
            "os": "linux",
            "config": image.config,
            "rootfs": {"type": "layers", "diff_ids": diffs},
            "history": image.layers.iter().map(|_| json!({"created": self.created})).collect::<Vec<_>>(),
        });
        let config = blobs.add_json(CONFIG, &config);
        let layers: Vec<Value> =
            image.layers.iter().map(|layer| blobs.add(LAYER, layer.bytes.clone())).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers, "annotations": self.annotations,
        });
        let mut descriptor = blobs.add_json(MANIFEST, &manifest);
        if let Some(fields) = descriptor.as_object_mut() {
            fields.insert("platform".to_owned(), json!({"architecture": architecture, "os": "linux"}));
        }
        descriptor
    }
}

fn annotate(descriptor: &mut Value, annotations: Value) {
    if let Some(fields) = descriptor.as_object_mut() {
        fields.insert("annotations".to_owned(), annotations);
    }
}
