//! Which models came here from their registry, so that nobody takes one that was made here for one of those.
//!
//! ```text
//! <library>/.cairn/brought/<SHA-256 of the model's name in small letters>    the digest of its manifest as it came
//! ```
//!
//! A model is as it came while its manifest still has that digest. Whatever else is under a name was put there by a user,
//! and only a user replaces it. A lost file here makes a model one of these: it is kept.

use std::path::PathBuf;

use cairn_disk::{Disk, DiskError, Mode, RealDisk};
use cairn_store::{Digest, Library, ModelRef};

/// The folder of what is remembered.
#[derive(Debug, Clone)]
pub(super) struct Brought {
    folder: PathBuf,
}

impl Brought {
    pub(super) fn of(library: &Library) -> Self {
        Self { folder: library.root().join(".cairn").join("brought") }
    }

    /// Writes down that a name's registry said this manifest.
    pub(super) fn note(&self, name: &ModelRef, manifest: &Digest) -> Result<(), DiskError> {
        RealDisk.create_dir_all(&self.folder)?;
        RealDisk.write_atomic(&self.path(name), manifest.to_string().as_bytes(), Mode::Private)
    }

    /// Is what the name stands for here what its registry said?
    pub(super) fn is_as_it_came(&self, name: &ModelRef, manifest: &Digest) -> bool {
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
    fn a_model_is_as_it_came_or_its_users() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().to_owned());
        let brought = Brought::of(&library);
        let (name, came, made) = ("m".parse().unwrap(), Digest::of(b"came"), Digest::of(b"made"));
        assert!(!brought.is_as_it_came(&name, &came), "nothing is known");
        brought.note(&name, &came).unwrap();
        assert!(brought.is_as_it_came(&"M:latest".parse().unwrap(), &came), "names differ in more than case");
        assert!(!brought.is_as_it_came(&name, &made), "another manifest was put there");
        assert!(!brought.is_as_it_came(&"m:other".parse().unwrap(), &came), "another name");
    }
}
