//! Sharing: serves the models of this machine to other machines, as a registry.
//!
//! Only manifests and blobs of libraries are served. A name without a host belongs to Ollama's registry. Clients of a
//! mirror state the host of another registry.

mod peers;

use std::path::{Path, PathBuf};

use cairn_store::{Digest, ModelRef};

use super::error::Error;
use crate::library;
use crate::transfers::Transfers;
pub use peers::{Peer, Peers, Serving};

/// The registry of names without a host.
pub(crate) const DEFAULT_HOST: &str = "registry.ollama.ai";

/// A manifest of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedManifest {
    /// The stored bytes.
    pub bytes: Vec<u8>,
    /// Digest of `bytes`.
    pub digest: Digest,
}

/// A blob of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedBlob {
    /// The file.
    pub path: PathBuf,
    /// Size of the file.
    pub size_bytes: u64,
}

/// Selects a manifest of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The manifest of a tag.
    Tag(String),
    /// The manifest with a digest.
    Digest(Digest),
}

impl Reference {
    /// Parses a digest, or else a tag.
    #[must_use]
    pub fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Tag(text.to_owned()), Self::Digest)
    }
}

/// Builds the name of a model from a client's request.
pub(crate) fn name_of(host: &str, namespace: &str, model: &str, reference: &Reference) -> Result<ModelRef, Error> {
    let tag = match reference {
        Reference::Tag(tag) => tag,
        // Any valid tag will do, because the digest selects the manifest.
        Reference::Digest(_) => "latest",
    };
    Ok(ModelRef::from_parts(host, namespace, model, tag)?)
}

/// Whether a blob is a symbolic link out of the library at `root`. Folders of the library may be links themselves.
fn is_link_out(blob: &Path, root: &Path) -> bool {
    if !blob.is_symlink() {
        return false;
    }
    let Ok(target) = blob.canonicalize() else { return true };
    let folders = [Some(root), blob.parent()].into_iter().flatten();
    !folders.filter_map(|folder| folder.canonicalize().ok()).any(|folder| target.starts_with(folder))
}

impl Transfers {
    /// Statistics of the clients of this registry.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Returns the manifest of `host/namespace/model` with a reference; `None` if no library has it.
    ///
    /// # Errors
    /// If the name is invalid, or a library cannot be read.
    pub fn shared_manifest(
        &self,
        host: &str,
        namespace: &str,
        model: &str,
        reference: &Reference,
    ) -> Result<Option<SharedManifest>, Error> {
        let libraries = self.library.folders();
        let name = name_of(host, namespace, model, reference)?;
        let found = match reference {
            Reference::Tag(_) => libraries.find(&name).map_err(library::Error::from)?,
            Reference::Digest(digest) => libraries.snapshots().into_iter().find_map(|snapshot| {
                let models = snapshot.listing.models.into_iter();
                let mut same = models.filter(|model| model.name.same_repository(&name));
                Some((snapshot.library, same.find(|model| model.manifest.digest == *digest)?))
            }),
        };
        let Some((library, stored)) = found else { return Ok(None) };
        let bytes = library.manifest_bytes(&stored.name).map_err(library::Error::from)?;
        Ok(Some(SharedManifest { digest: Digest::of(&bytes), bytes }))
    }

    /// Returns the file of a blob, if a library has it. Links out of the library are not followed: otherwise an
    /// attacker with write access to the library could publish any file of this machine.
    #[must_use]
    pub fn shared_blob(&self, digest: &Digest) -> Option<SharedBlob> {
        let libraries = self.library.folders();
        std::iter::once(libraries.own()).chain(libraries.others()).find_map(|library| {
            let path = library.blob_path(digest);
            let found = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
            if is_link_out(&path, library.root()) {
                tracing::warn!(blob = %path.display(), "refused to serve a link that leads out of the library");
                return None;
            }
            Some(SharedBlob { path, size_bytes: found.len() })
        })
    }
}
