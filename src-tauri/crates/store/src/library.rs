//! Reader of a model library in Ollama's layout.
//!
//! A damaged model never makes a listing fail: the listing skips the model and reports the reason.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::name::folder;
use crate::{Config, Digest, Layer, LayerKind, Manifest, ModelRef};

/// Maximum size of a manifest. Ollama's largest, of models in a thousand pieces, are below half a megabyte.
const MAX_MANIFEST_BYTES: u64 = 8 << 20;
/// Maximum size of a text layer (template, licence, config).
pub(crate) const MAX_TEXT_BYTES: u64 = 8 << 20;

/// Folder with `manifests` and `blobs`.
#[derive(Debug, Clone)]
pub struct Library {
    root: PathBuf,
}

/// Model of a library.
#[derive(Debug, Clone)]
pub struct StoredModel {
    /// Name, spelled as on disk.
    pub name: ModelRef,
    /// Parsed manifest.
    pub manifest: Manifest,
    /// Modification time of the manifest.
    pub modified_at: SystemTime,
}

/// Models of a library.
#[derive(Debug, Default)]
pub struct Listing {
    /// Readable models, unordered.
    pub models: Vec<StoredModel>,
    /// Entries that are not readable models.
    pub skipped: Vec<SkippedEntry>,
}

impl Listing {
    /// Returns the entries of a folder. A folder that cannot be read is recorded as skipped. A stray file has no entries.
    fn names_in(&mut self, folder: &Path) -> Vec<String> {
        names_in(folder).unwrap_or_else(|error| {
            if !is_absent(&error) {
                self.skipped.push(SkippedEntry { path: folder.to_owned(), reason: error.to_string() });
            }
            Vec::new()
        })
    }
}

/// Availability of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LibraryState {
    /// The library exists and can be read.
    Present,
    /// The library does not exist. Contains the reason. Its disk may not be mounted.
    Absent(String),
    /// The library exists and cannot be read. Contains the reason.
    Unreadable(String),
}

/// Entry that is not a readable model.
#[derive(Debug)]
pub struct SkippedEntry {
    /// File or folder.
    pub path: PathBuf,
    /// Reason why it was skipped.
    pub reason: String,
}

/// Error when reading a library or a part of it.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// I/O error.
    #[error("could not read {}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Damaged manifest.
    #[error("{} is no manifest: {reason}", path.display())]
    Manifest {
        /// Manifest file.
        path: PathBuf,
        /// Why the manifest is invalid.
        reason: String,
    },
    /// Missing or damaged blob that a manifest references.
    #[error("blob {digest} {reason}")]
    Blob {
        /// Digest of the blob.
        digest: Digest,
        /// Fault of the blob, a phrase that continues the message: `is missing`.
        reason: String,
    },
}

impl Library {
    /// Returns the library in the folder `root`. If the folder does not exist, the library is empty.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the library's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Lists all models.
    ///
    /// # Errors
    /// If the library exists and its `manifests` folder cannot be read.
    pub fn list(&self) -> Result<Listing, LibraryError> {
        let mut listing = Listing::default();
        let manifests = self.manifests();
        let hosts = match names_in(&manifests) {
            Ok(hosts) => hosts,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(listing),
            Err(source) => return Err(LibraryError::Io { path: manifests, source }),
        };
        for host in hosts {
            for namespace in listing.names_in(&manifests.join(&host)) {
                for model in listing.names_in(&manifests.join(&host).join(&namespace)) {
                    let folder = manifests.join(&host).join(&namespace).join(&model);
                    for tag in listing.names_in(&folder).into_iter().filter(|tag| !is_temp_file(tag)) {
                        let path = folder.join(&tag);
                        match name_of([&host, &namespace, &model, &tag]) {
                            None => listing.skipped.push(SkippedEntry { path, reason: "no model name".to_owned() }),
                            Some(name) => match read_model(name, &path) {
                                Ok(model) => listing.models.push(model),
                                Err(error) => listing.skipped.push(SkippedEntry { path, reason: error.to_string() }),
                            },
                        }
                    }
                }
            }
        }
        Ok(listing)
    }

    /// Finds a model by name, ignoring ASCII case.
    ///
    /// # Errors
    /// If the model exists and its manifest cannot be read.
    pub fn find(&self, name: &ModelRef) -> Result<Option<StoredModel>, LibraryError> {
        match self.manifest_path(name)? {
            (path, Some(name)) => read_model(name, &path).map(Some),
            (_, None) => Ok(None),
        }
    }

    /// Returns whether the library exists and can be read.
    #[must_use]
    pub fn state(&self) -> LibraryState {
        match fs::read_dir(self.root.join("manifests")) {
            Ok(_) => LibraryState::Present,
            Err(error) if !is_absent(&error) => LibraryState::Unreadable(error.to_string()),
            Err(_) if self.root.is_dir() => LibraryState::Absent("the folder has no `manifests` in it".to_owned()),
            Err(_) if self.root.exists() => LibraryState::Unreadable("it is no folder".to_owned()),
            Err(_) if self.root.is_symlink() => LibraryState::Absent("it is a link that leads to nothing".to_owned()),
            Err(_) => LibraryState::Absent("there is no such folder".to_owned()),
        }
    }

    /// Returns the manifest of a model as it is stored, byte for byte.
    ///
    /// # Errors
    /// If it cannot be read, or is not a regular file of a manifest's size.
    pub fn manifest_bytes(&self, name: &ModelRef) -> Result<Vec<u8>, LibraryError> {
        let (path, _) = self.manifest_path(name)?;
        read_manifest(&path).map(|(bytes, _)| bytes)
    }

    /// Returns the folder of manifests.
    pub(crate) fn manifests(&self) -> PathBuf {
        self.root.join("manifests")
    }

    /// Returns the folder of blobs.
    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// Returns the folder of temporary files. It is beside the folders of [`Staging`](crate::Staging).
    pub(crate) fn temp_files(&self) -> PathBuf {
        self.root.join(".cairn").join("drafts")
    }

    /// Returns the path of a blob, whether it exists or not.
    #[must_use]
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.file_name())
    }

    /// Returns the path of a name's manifest, whether it exists or not. Existing folders keep their spelling. If the manifest
    /// exists, also returns the name in that spelling.
    pub(crate) fn manifest_path(&self, name: &ModelRef) -> Result<(PathBuf, Option<ModelRef>), LibraryError> {
        let mut path = self.manifests();
        let mut spelled = Vec::with_capacity(4);
        let mut exists = true;
        for part in [name.host(), name.namespace(), name.model(), name.tag()] {
            let entries = match names_in(&path) {
                Ok(entries) => entries,
                Err(source) if is_absent(&source) => Vec::new(),
                Err(source) => return Err(LibraryError::Io { path, source }),
            };
            // On a case-sensitive file system several spellings may exist. The exact one has priority.
            let parts = || entries.iter().filter_map(|entry| folder::part(entry));
            let found = parts().find(|entry| entry == part);
            let found = found.or_else(|| parts().find(|entry| entry.eq_ignore_ascii_case(part)));
            exists &= found.is_some();
            let part = found.map_or_else(|| part.to_owned(), std::borrow::Cow::into_owned);
            path.push(&*folder::folder(&part));
            spelled.push(part);
        }
        let name = match spelled.as_slice() {
            [host, namespace, model, tag] if exists => ModelRef::from_parts(host, namespace, model, tag).ok(),
            _ => None,
        };
        Ok((path, name))
    }

    /// Returns the path of a layer's blob.
    ///
    /// # Errors
    /// [`LibraryError::Blob`] if the blob is missing or its length differs from the manifest.
    pub fn blob(&self, layer: &Layer) -> Result<PathBuf, LibraryError> {
        let path = self.blob_path(&layer.digest);
        let blob_error = |reason: String| LibraryError::Blob { digest: layer.digest, reason };
        let metadata = fs::metadata(&path).map_err(|error| blob_error(format!("cannot be read: {error}")))?;
        if !metadata.is_file() {
            return Err(blob_error("is no file".to_owned()));
        }
        if metadata.len() != layer.size_bytes {
            return Err(blob_error(format!(
                "has {} bytes where its manifest says {}",
                metadata.len(),
                layer.size_bytes
            )));
        }
        Ok(path)
    }

    /// Reads a text layer.
    ///
    /// # Errors
    /// As [`Library::blob`], and if the text is too long or not UTF-8.
    pub fn text(&self, layer: &Layer) -> Result<String, LibraryError> {
        let blob_error = |reason: String| LibraryError::Blob { digest: layer.digest, reason };
        let path = self.blob(layer)?;
        if layer.size_bytes > MAX_TEXT_BYTES {
            return Err(blob_error(format!("has {} bytes, too many for a text", layer.size_bytes)));
        }
        fs::read_to_string(path).map_err(|error| blob_error(format!("cannot be read: {error}")))
    }

    /// Reads all text layers of one kind.
    ///
    /// # Errors
    /// As [`Library::text`], and if the texts together are too long: many layers may name one blob.
    pub fn texts(&self, manifest: &Manifest, kind: &LayerKind) -> Result<Vec<String>, LibraryError> {
        let mut texts = Vec::new();
        let mut total_bytes = 0;
        for layer in manifest.layers.iter().filter(|layer| layer.kind == *kind) {
            total_bytes += layer.size_bytes.min(MAX_TEXT_BYTES + 1);
            if total_bytes > MAX_TEXT_BYTES {
                let reason = format!("is one of several texts that together have more than {MAX_TEXT_BYTES} bytes");
                return Err(LibraryError::Blob { digest: layer.digest, reason });
            }
            texts.push(self.text(layer)?);
        }
        Ok(texts)
    }

    /// Reads all text layers of one kind, joined by line breaks. Returns `None` if the manifest has no such layer.
    ///
    /// # Errors
    /// As [`Library::texts`].
    pub fn joined_texts(&self, manifest: &Manifest, kind: &LayerKind) -> Result<Option<String>, LibraryError> {
        let texts = self.texts(manifest, kind)?;
        Ok((!texts.is_empty()).then(|| texts.join("\n")))
    }

    /// Reads the model's config. Returns an empty one if the manifest has no config or the config is damaged.
    #[must_use]
    pub fn config(&self, manifest: &Manifest) -> Config {
        let text = manifest.config.as_ref().and_then(|layer| self.text(layer).ok());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

/// Returns the name of the model whose manifest is at this path of folders.
pub(crate) fn name_of(folders: [&str; 4]) -> Option<ModelRef> {
    let [host, namespace, model, tag] = folders.map(folder::part);
    ModelRef::from_parts(&host?, &namespace?, &model?, &tag?).ok()
}

fn read_model(name: ModelRef, path: &Path) -> Result<StoredModel, LibraryError> {
    let (bytes, modified_at) = read_manifest(path)?;
    let manifest =
        Manifest::parse(&bytes).map_err(|reason| LibraryError::Manifest { path: path.to_owned(), reason })?;
    Ok(StoredModel { name, manifest, modified_at })
}

/// Returns a manifest's bytes and modification time.
pub(crate) fn read_manifest(path: &Path) -> Result<(Vec<u8>, SystemTime), LibraryError> {
    let io = |source| LibraryError::Io { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(io)?;
    if !metadata.is_file() || metadata.len() > MAX_MANIFEST_BYTES {
        let reason = "it is no file of a manifest's size".to_owned();
        return Err(LibraryError::Manifest { path: path.to_owned(), reason });
    }
    let bytes = fs::read(path).map_err(io)?;
    Ok((bytes, metadata.modified().map_err(io)?))
}

/// Returns the sorted names of a folder's entries. Names that are not UTF-8 cannot be part of a model name and are left out.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns whether it is the name of a temporary file of [`cairn_disk`]: a manifest that is or was being written.
pub(crate) fn is_temp_file(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

/// Returns whether the error means that the path does not exist. A name that is too long for the file system cannot exist.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename)
}

#[cfg(test)]
mod tests;
