//! Copy: a second name for a model, in our own library.

use cairn_disk::RealDisk;
use cairn_store::{LayerKind, LibraryWriter, ModelRef};

use crate::catalog::{Origin, is_pebble};
use crate::import::config;
use crate::summary::Details;
use crate::{App, Error, pebble};

/// A model that has a second name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The new name, as it is spelled there.
    pub name: String,
    /// Bytes that were written for it; most copies take none.
    pub copied_bytes: u64,
}

impl App {
    /// Gives the model `source` the name `destination` too. A model of our library that has the name gives way.
    ///
    /// # Errors
    /// When there is no such model, when a name is none or belongs to the built-in model, or when the disk refuses.
    pub fn copy(&self, source: &str, destination: &str) -> Result<Copied, Error> {
        let parse =
            |what, name: &str| name.parse::<ModelRef>().map_err(|_| Error::InvalidName { what, name: name.to_owned() });
        let (from, to) = (parse("source", source)?, parse("destination", destination)?);
        if is_pebble(&to) {
            return Err(Error::BuiltIn(pebble::NAME));
        }
        let library = self.catalog.own_library();
        let writer = || LibraryWriter::open(library, &RealDisk);
        match self.catalog.origin(&from)? {
            None => Err(Error::NoSource(source.to_owned())),
            Some(Origin::Opened) => Err(Error::OutsideStore(from.to_string())),
            Some(Origin::BuiltIn) => {
                let writer = writer()?;
                let layer = writer.put(LayerKind::Model, pebble::file())?;
                let config = config(Details::of_file(&pebble::head().gguf)).to_json();
                let saved = writer.save(&to, &config, std::slice::from_ref(&layer), true)?;
                Ok(Copied { name: saved.name.to_string(), copied_bytes: layer.size_bytes })
            }
            Some(Origin::Stored(origin, stored)) => {
                let copied = writer()?.copy(origin, &stored.name, &to, &mut |_| true)?;
                Ok(Copied { name: copied.model.name.to_string(), copied_bytes: copied.copied_bytes })
            }
        }
    }
}
