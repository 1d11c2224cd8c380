//! The handle of the model library. Clones share everything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_runtime::Engine;
use cairn_store::{Digest, Libraries, ModelRef, NameError};

use super::catalog::{Catalog, Model, Opened, Origin};
use super::error::Error;
use super::summary::Summary;
use crate::clock::Clock;
use crate::settings::Settings;

/// Returns the digests that pulls in progress use. Called with the library's lock held, so that the list is current.
pub(crate) type InUse<'a> = &'a (dyn Fn() -> Vec<Digest> + Send + Sync);

/// The models on this machine.
#[derive(Clone)]
pub struct ModelLibrary {
    pub(super) catalog: Arc<Catalog>,
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Clock,
    /// Checks files before they are published, and unloads models that are deleted.
    pub(super) engine: Engine,
}

impl ModelLibrary {
    pub(crate) fn new(settings: &Arc<Settings>, clock: &Clock, engine: &Engine) -> Self {
        Self {
            catalog: Arc::new(Catalog::new(settings, clock.now())),
            settings: Arc::clone(settings),
            clock: clock.clone(),
            engine: engine.clone(),
        }
    }

    /// Lists all models: of the libraries, the built-in one, and opened files; newest first.
    ///
    /// # Errors
    /// If no library can be read.
    pub fn list(&self) -> Result<Vec<Summary>, Error> {
        self.catalog.list()
    }

    /// Makes a model file available under a name until the daemon stops.
    ///
    /// # Errors
    /// If the file cannot be read or is not a GGUF file.
    pub fn open(&self, path: &Path) -> Result<Opened, Error> {
        self.catalog.open(path)
    }

    /// Finds the model that a client calls `text`.
    pub(crate) fn find(&self, text: &str) -> Result<Model, Error> {
        self.catalog.find(text)
    }

    /// Returns the name of the model that a client calls `text`.
    pub(crate) fn name_of(&self, text: &str) -> Result<ModelRef, NameError> {
        self.catalog.name_of(text)
    }

    /// Returns the origin of a model; `None` if it does not exist.
    pub(crate) fn origin(&self, name: &ModelRef) -> Result<Option<Origin<'_>>, Error> {
        self.catalog.origin(name)
    }

    /// Returns the summary of the model that last used this engine key.
    pub(crate) fn by_engine_key(&self, key: &str) -> Option<Summary> {
        self.catalog.by_engine_key(key)
    }

    /// All libraries on disk.
    pub(crate) fn folders(&self) -> &Libraries {
        self.catalog.libraries()
    }

    /// The root folders of all libraries.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        self.libraries().into_iter().map(|library| library.root).collect()
    }
}
