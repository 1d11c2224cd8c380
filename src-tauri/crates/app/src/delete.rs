//! Delete: takes a model out of memory and out of our library.

use cairn_disk::RealDisk;
use cairn_store::{LayerKind, LibraryWriter, ModelRef};

use crate::catalog::Origin;
use crate::{App, Error, pebble};

impl App {
    /// Deletes a model, and those of its files that no other model of the library has.
    ///
    /// # Errors
    /// When there is no such model, when it is not ours to delete, or when the disk refuses.
    pub fn delete(&self, text: &str) -> Result<(), Error> {
        let name: ModelRef = text.parse()?;
        let (library, stored) = match self.catalog.origin(&name)? {
            None => return Err(Error::NotFound(text.to_owned())),
            Some(Origin::BuiltIn) => return Err(Error::BuiltIn(pebble::NAME)),
            Some(Origin::Opened) => return Err(Error::OutsideStore(name.to_string())),
            Some(Origin::Stored(library, stored)) => (library, stored),
        };
        if library.root() != self.catalog.own_library().root() {
            let (name, root) = (stored.name.to_string(), library.root().to_owned());
            return Err(Error::ReadOnlyLibrary { name, root });
        }
        LibraryWriter::open(library, &RealDisk)?.delete(&name)?;
        // Answers that are being computed end first; the system keeps a deleted file for those who have it open.
        if let Some(layer) = stored.manifest.layer(&LayerKind::Model) {
            self.engine.unload(&layer.digest.hex());
        }
        Ok(())
    }
}
