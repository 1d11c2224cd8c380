//! Sharing: what other machines read of this machine's models, as from a registry.
//!
//! Only what libraries hold is given out, the manifest as it was stored and the blob as it is named. Names that begin
//! with no host mean Ollama's registry, as everywhere; a mirror is asked for models of another one by its host.

mod peers;

use std::path::{Path, PathBuf};

use cairn_store::{Digest, ModelRef, NameError, NamePart};

use super::error::Error;
use crate::library;
use crate::transfers::handle::Transfers;
pub use peers::{Peer, Peers, Serving};

/// Whose models are meant by names that say nothing of it.
pub(crate) const DEFAULT_HOST: &str = "registry.ollama.ai";

/// A manifest that is given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedManifest {
    /// As it was stored.
    pub bytes: Vec<u8>,
    /// Of these bytes.
    pub digest: Digest,
}

/// A blob that is given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedBlob {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub size_bytes: u64,
}

/// Which manifest of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The one that the tag means now.
    Tag(String),
    /// The one with this digest, whatever its tag.
    Digest(Digest),
}

impl Reference {
    /// A digest where the text is one, else a tag.
    #[must_use]
    pub fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Tag(text.to_owned()), Self::Digest)
    }
}

/// The name of a model that a client asks for, with the tag that it names.
pub(crate) fn name_of(host: &str, namespace: &str, model: &str, reference: &Reference) -> Result<ModelRef, Error> {
    let tag = match reference {
        Reference::Tag(tag) => tag,
        // The name must be one, whatever tag the digest has.
        Reference::Digest(_) => "latest",
    };
    let invalid = || NameError::Invalid { name: format!("{host}/{namespace}/{model}:{tag}"), part: NamePart::Model };
    Ok(ModelRef::from_parts(host, namespace, model, tag).ok_or_else(invalid)?)
}

/// Is it a link to somewhere outside of the library at `root`? The library's folders may be links themselves.
fn leads_out(blob: &Path, root: &Path) -> bool {
    if !blob.is_symlink() {
        return false;
    }
    let Ok(target) = blob.canonicalize() else { return true };
    let folders = [Some(root), blob.parent()].into_iter().flatten();
    !folders.filter_map(|folder| folder.canonicalize().ok()).any(|folder| target.starts_with(folder))
}

impl Transfers {
    /// Who reads this machine's models.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The manifest of `host/namespace/model` with that reference; `None` when no library has it.
    ///
    /// # Errors
    /// When the name is none, or a library cannot be read.
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

    /// The contents with that digest, if a library has them. A link that leads out of its library is none of its contents:
    /// whoever could write there could have any file of this machine given out by it.
    #[must_use]
    pub fn shared_blob(&self, digest: &Digest) -> Option<SharedBlob> {
        let libraries = self.library.folders();
        std::iter::once(libraries.own()).chain(libraries.others()).find_map(|library| {
            let path = library.blob_path(digest);
            let found = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
            if leads_out(&path, library.root()) {
                tracing::warn!(blob = %path.display(), "a link out of the library is not given to other machines");
                return None;
            }
            Some(SharedBlob { path, size_bytes: found.len() })
        })
    }
}
