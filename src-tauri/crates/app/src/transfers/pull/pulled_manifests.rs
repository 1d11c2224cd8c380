//! Records which manifests were pulled, to tell pulled models from locally created ones of the same name.
//!
//! ```text
//! <library>/.cairn/brought/<SHA-256 of the model's name in lower case>    the digest of the pulled manifest
//! ```
//!
//! A model is unchanged while its manifest has that digest. Any other manifest was created by a user, and only a user
//! may replace it. A model whose record is lost counts as locally created, which is safe.

use std::path::PathBuf;

use cairn_disk::{Disk, DiskError, Mode, RealDisk};
use cairn_store::{Digest, Library, ModelRef};

/// The folder of the records.
#[derive(Debug, Clone)]
pub(super) struct PulledManifests {
    folder: PathBuf,
}

impl PulledManifests {
    pub(super) fn of(library: &Library) -> Self {
        Self { folder: library.root().join(".cairn").join("brought") }
    }

    /// Records the manifest that a name's registry supplied.
    pub(super) fn record(&self, name: &ModelRef, manifest: &Digest) -> Result<(), DiskError> {
        RealDisk.create_dir_all(&self.folder)?;
        RealDisk.write_atomic(&self.path(name), manifest.to_string().as_bytes(), Mode::Private)
    }

    /// Whether the manifest under a name is the one that its registry supplied.
    pub(super) fn is_unchanged(&self, name: &ModelRef, manifest: &Digest) -> bool {
        RealDisk.read(&self.path(name)).is_ok_and(|noted| noted == manifest.to_string().as_bytes())
    }

    fn path(&self, name: &ModelRef) -> PathBuf {
        self.folder.join(Digest::of(name.full().to_ascii_lowercase().as_bytes()).hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulled_manifest_is_unchanged_until_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().to_owned());
        let manifests = PulledManifests::of(&library);
        let (name, pulled, created) = ("m".parse().unwrap(), Digest::of(b"pulled"), Digest::of(b"created"));
        assert!(!manifests.is_unchanged(&name, &pulled), "no record");
        manifests.record(&name, &pulled).unwrap();
        assert!(manifests.is_unchanged(&"M:latest".parse().unwrap(), &pulled), "names are case-insensitive");
        assert!(!manifests.is_unchanged(&name, &created), "another manifest");
        assert!(!manifests.is_unchanged(&"m:other".parse().unwrap(), &pulled), "another name");
    }
}
