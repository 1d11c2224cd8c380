//! Delete: unloads a model and removes it from Cairn's library.

use cairn_disk::RealDisk;
use cairn_store::{LayerKind, LibraryError, LibraryWriter};

use crate::library::catalog::Origin;
use crate::library::error::Error;
use crate::library::handle::{InUse, ModelLibrary};
use crate::library::pebble;

/// A deleted model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// Name of the model.
    pub name: String,
    /// Bytes that were freed. Files that other models or pulls use are not removed and not counted.
    pub freed_bytes: u64,
}

impl ModelLibrary {
    /// Deletes a model, and its files that neither another model nor a pull uses. A model with a damaged manifest,
    /// which no list has, can be deleted too.
    ///
    /// # Errors
    /// If the model does not exist, is in a read-only library, or on a disk error.
    pub(crate) fn delete(&self, text: &str, in_use: InUse<'_>) -> Result<Deleted, Error> {
        let invalid = |reason| Error::InvalidName { what: "name", name: text.to_owned(), reason };
        let name = self.catalog.name_of(text).map_err(invalid)?;
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
        // Answers in progress finish first. The system keeps deleted files that are open.
        if let Some(layer) = stored.as_ref().and_then(|stored| stored.manifest.layer(&LayerKind::Model)) {
            self.engine.unload(&layer.digest.hex());
        }
        // Another program that shares the library may have deleted the model first.
        let deleted = deleted.ok_or_else(|| Error::NotFound(text.to_owned()))?;
        Ok(Deleted { name: deleted.name.to_string(), freed_bytes: deleted.freed_bytes })
    }
}
