//! A library of models on disk, in Ollama's layout, as it is read.
//!
//! What is wrong with one model is that model's trouble: a list leaves it out and says why, it never fails as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::name::folder;
use crate::{Config, Digest, Layer, LayerKind, Manifest, ModelRef};

/// A manifest longer than this is none. Ollama's largest, of models in a thousand pieces, are below half a megabyte.
const MAX_MANIFEST_BYTES: u64 = 8 << 20;
/// A text layer (template, licence, config) longer than this is none.
pub(crate) const MAX_TEXT_BYTES: u64 = 8 << 20;

/// A folder with `manifests` and `blobs`.
#[derive(Debug, Clone)]
pub struct Library {
    root: PathBuf,
}

/// A model of a library.
#[derive(Debug, Clone)]
pub struct StoredModel {
    /// Its name, spelled as on disk.
    pub name: ModelRef,
    /// What it is made of.
    pub manifest: Manifest,
    /// When its manifest was written.
    pub modified_at: SystemTime,
}

/// What a library holds.
#[derive(Debug, Default)]
pub struct Listing {
    /// Readable models, in no order.
    pub models: Vec<StoredModel>,
    /// What looked like a model and could not be read.
    pub skipped: Vec<Skipped>,
}

impl Listing {
    /// The entries of a folder; one that cannot be read is skipped, and told of. A stray file has no entries.
    fn names_in(&mut self, folder: &Path) -> Vec<String> {
        names_in(folder).unwrap_or_else(|error| {
            if !is_absent(&error) {
                self.skipped.push(Skipped { path: folder.to_owned(), reason: error.to_string() });
            }
            Vec::new()
        })
    }
}

/// Whether a library is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is.
    Present,
    /// It is not, for this reason: the disk that it is on may not be mounted.
    Absent(String),
    /// It is, and cannot be read, for this reason.
    Unreadable(String),
}

/// An entry that is no readable model.
#[derive(Debug)]
pub struct Skipped {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Why a library, or something in it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The system refused.
    #[error("could not read {}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A manifest is damaged.
    #[error("{} is no manifest: {reason}", path.display())]
    Manifest {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A blob that a manifest names is not here, or is not what it should be.
    #[error("blob {digest} {reason}")]
    Blob {
        /// Which one.
        digest: Digest,
        /// What is wrong with it.
        reason: String,
    },
}

impl Library {
    /// The library in the folder `root`, which need not exist: then it is empty.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Everything in it.
    ///
    /// # Errors
    /// Only when there is a library and its folder cannot be read at all.
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
                    for tag in listing.names_in(&folder).into_iter().filter(|tag| !is_draft(tag)) {
                        let path = folder.join(&tag);
                        match name_of([&host, &namespace, &model, &tag]) {
                            None => listing.skipped.push(Skipped { path, reason: "no model name".to_owned() }),
                            Some(name) => match read_model(name, &path) {
                                Ok(model) => listing.models.push(model),
                                Err(error) => listing.skipped.push(Skipped { path, reason: error.to_string() }),
                            },
                        }
                    }
                }
            }
        }
        Ok(listing)
    }

    /// The model of that name in whatever spelling, or `None`.
    ///
    /// # Errors
    /// When there is such a model and its manifest cannot be read.
    pub fn find(&self, name: &ModelRef) -> Result<Option<StoredModel>, LibraryError> {
        match self.manifest_path(name)? {
            (path, Some(name)) => read_model(name, &path).map(Some),
            (_, None) => Ok(None),
        }
    }

    /// Whether it is there.
    #[must_use]
    pub fn state(&self) -> State {
        match fs::read_dir(self.root.join("manifests")) {
            Ok(_) => State::Present,
            Err(error) if !is_absent(&error) => State::Unreadable(error.to_string()),
            Err(_) if self.root.is_dir() => State::Absent("the folder has no `manifests` in it".to_owned()),
            Err(_) if self.root.exists() => State::Unreadable("it is no folder".to_owned()),
            Err(_) if self.root.is_symlink() => State::Absent("it is a link that leads to nothing".to_owned()),
            Err(_) => State::Absent("there is no such folder".to_owned()),
        }
    }

    /// The manifest of a model that is listed, byte for byte.
    ///
    /// # Errors
    /// When it cannot be read, or is no manifest any more.
    pub fn manifest_bytes(&self, name: &ModelRef) -> Result<Vec<u8>, LibraryError> {
        let (path, _) = self.manifest_path(name)?;
        read_manifest(&path).map(|(bytes, _)| bytes)
    }

    /// The folder of manifests.
    pub(crate) fn manifests(&self) -> PathBuf {
        self.root.join("manifests")
    }

    /// The folder of contents.
    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// The folder of contents that are being written, beside those that are being fetched.
    pub(crate) fn drafts(&self) -> PathBuf {
        self.root.join(".cairn").join("drafts")
    }

    /// Where the contents of a digest are, or would be.
    #[must_use]
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.file_name())
    }

    /// Where the manifest of a name is, or would be: folders that are there keep their spelling. Also the name, spelled
    /// so, when there is such a manifest.
    pub(crate) fn manifest_path(&self, name: &ModelRef) -> Result<(PathBuf, Option<ModelRef>), LibraryError> {
        let mut path = self.manifests();
        let mut spelled = Vec::with_capacity(4);
        let mut there = true;
        for part in [name.host(), name.namespace(), name.model(), name.tag()] {
            let entries = match names_in(&path) {
                Ok(entries) => entries,
                Err(source) if is_absent(&source) => Vec::new(),
                Err(source) => return Err(LibraryError::Io { path, source }),
            };
            // The exact spelling wins where a case-sensitive file system holds several.
            let parts = || entries.iter().filter_map(|entry| folder::part(entry));
            let found = parts().find(|entry| entry == part);
            let found = found.or_else(|| parts().find(|entry| entry.eq_ignore_ascii_case(part)));
            there &= found.is_some();
            let part = found.map_or_else(|| part.to_owned(), std::borrow::Cow::into_owned);
            path.push(&*folder::folder(&part));
            spelled.push(part);
        }
        let name = match spelled.as_slice() {
            [host, namespace, model, tag] if there => ModelRef::from_parts(host, namespace, model, tag),
            _ => None,
        };
        Ok((path, name))
    }

    /// The file that holds a layer's contents.
    ///
    /// # Errors
    /// [`LibraryError::Blob`] when it is not there or has another length than the manifest says.
    pub fn blob(&self, layer: &Layer) -> Result<PathBuf, LibraryError> {
        let path = self.blob_path(&layer.digest);
        let wrong = |reason: String| LibraryError::Blob { digest: layer.digest, reason };
        let found = fs::metadata(&path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if !found.is_file() {
            return Err(wrong("is no file".to_owned()));
        }
        if found.len() != layer.size_bytes {
            return Err(wrong(format!("has {} bytes where its manifest says {}", found.len(), layer.size_bytes)));
        }
        Ok(path)
    }

    /// The contents of a layer of text.
    ///
    /// # Errors
    /// As [`Library::blob`], and when it is too long or not UTF-8.
    pub fn text(&self, layer: &Layer) -> Result<String, LibraryError> {
        let wrong = |reason: String| LibraryError::Blob { digest: layer.digest, reason };
        let path = self.blob(layer)?;
        if layer.size_bytes > MAX_TEXT_BYTES {
            return Err(wrong(format!("has {} bytes, too many for a text", layer.size_bytes)));
        }
        fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))
    }

    /// All texts of one kind, `None` where the manifest has no such layer.
    ///
    /// # Errors
    /// As [`Library::text`].
    pub fn texts(&self, manifest: &Manifest, kind: &LayerKind) -> Result<Option<String>, LibraryError> {
        let texts: Vec<String> = manifest
            .layers
            .iter()
            .filter(|layer| layer.kind == *kind)
            .map(|layer| self.text(layer))
            .collect::<Result<_, _>>()?;
        Ok((!texts.is_empty()).then(|| texts.join("\n")))
    }

    /// What the model's publisher says about it; empty when the manifest names no config or the config is damaged.
    #[must_use]
    pub fn config(&self, manifest: &Manifest) -> Config {
        let text = manifest.config.as_ref().and_then(|layer| self.text(layer).ok());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

/// The name of the model whose manifest is in these folders.
pub(crate) fn name_of(folders: [&str; 4]) -> Option<ModelRef> {
    let [host, namespace, model, tag] = folders.map(folder::part);
    ModelRef::from_parts(&host?, &namespace?, &model?, &tag?)
}

fn read_model(name: ModelRef, path: &Path) -> Result<StoredModel, LibraryError> {
    let (bytes, modified_at) = read_manifest(path)?;
    let manifest =
        Manifest::parse(&bytes).map_err(|reason| LibraryError::Manifest { path: path.to_owned(), reason })?;
    Ok(StoredModel { name, manifest, modified_at })
}

/// A manifest's bytes, and when they were written.
pub(crate) fn read_manifest(path: &Path) -> Result<(Vec<u8>, SystemTime), LibraryError> {
    let io = |source| LibraryError::Io { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(io)?;
    if !found.is_file() || found.len() > MAX_MANIFEST_BYTES {
        let reason = "it is no file of a manifest's size".to_owned();
        return Err(LibraryError::Manifest { path: path.to_owned(), reason });
    }
    let bytes = fs::read(path).map_err(io)?;
    Ok((bytes, found.modified().map_err(io)?))
}

/// Names of the entries of a folder, sorted. Names that are not UTF-8 are no part of a model's name and are left out.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Is it the name of a manifest that is being written, or that a killed program was writing? See [`cairn_disk`].
pub(crate) fn is_draft(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

/// Does it say that there is no such file or folder? One whose name is too long for the file system cannot be there.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename)
}

#[cfg(test)]
mod tests;
