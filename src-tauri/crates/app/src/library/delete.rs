//! Delete: takes a model out of memory and out of our library.

use cairn_disk::RealDisk;
use cairn_store::{LayerKind, LibraryError, LibraryWriter, ModelRef};

use crate::library::catalog::Origin;
use crate::library::error::Error;
use crate::library::handle::{InUse, ModelLibrary};
use crate::library::pebble;

/// A model that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// Its name.
    pub name: String,
    /// Bytes of disk that are free now. Those of files that other models have, or models on their way
    /// count on, are not among them.
    pub freed_bytes: u64,
}

impl ModelLibrary {
    /// Deletes a model, and those of its files that neither another model of the library nor a pull uses. One whose manifest is damaged, which
    /// is in no list, goes too.
    ///
    /// # Errors
    /// When there is no such model, when it is not ours to delete, or when the disk refuses.
    pub(crate) fn delete(&self, text: &str, in_use: InUse<'_>) -> Result<Deleted, Error> {
        let invalid = |_| Error::InvalidName { what: "name", name: text.to_owned() };
        let name: ModelRef = text.parse().map_err(invalid)?;
        let own = self.catalog.own_library();
        let damaged = matches!(own.find(&name), Err(LibraryError::Manifest { .. }));
        let stored = match self.catalog.origin(&name) {
            Ok(None) => return Err(Error::NotFound(text.to_owned())),
            Ok(Some(Origin::BuiltIn)) => return Err(Error::BuiltIn(pebble::NAME)),
            Ok(Some(Origin::Opened)) => return Err(Error::OutsideStore(name.to_string())),
            Ok(Some(Origin::Stored(library, stored))) => {
                if !self.catalog.libraries().is_own(library) {
                    let (name, root) = (stored.name.to_string(), library.root().to_owned());
                    return Err(Error::ReadOnlyLibrary { name, root });
                }
                Some(stored)
            }
            Err(_) if damaged => None,
            Err(error) => return Err(error),
        };
        let deleted = LibraryWriter::open(own, &RealDisk)?.with_pinned_blobs(in_use()).delete(&name)?;
        // Answers that are being computed end first; the system keeps a deleted file for those who have it open.
        if let Some(layer) = stored.as_ref().and_then(|stored| stored.manifest.layer(&LayerKind::Model)) {
            self.engine.unload(&layer.digest.hex());
        }
        // Another program that shares the library may have been faster.
        let deleted = deleted.ok_or_else(|| Error::NotFound(text.to_owned()))?;
        Ok(Deleted { name: deleted.name.to_string(), freed_bytes: deleted.freed_bytes })
    }
}
