//! Import: a model file on this machine becomes a model of our library.
//!
//! The file is checked as the engine would load it before anything is written. What has been brought in when a later step
//! fails is taken out again.

pub(crate) mod merge;
pub(crate) mod name;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_store::{Config, ImportMethod, ImportedBlob, Layer, Library, LibraryWriter, ModelRef, Progress, WriteError};
use tokio::sync::mpsc;

use crate::library::catalog::{has_chat_template, is_pebble};
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::summary::Details;
use crate::library::{head, pebble};

/// Between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Reports that may wait for a slow reader before the work waits too.
const WAITING_EVENTS: usize = 16;

/// A file that is to become a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Import {
    /// Where it is.
    pub path: PathBuf,
    /// What the model is to be called; `None` takes the name that the file gives itself, or the file's own.
    pub name: Option<String>,
    /// What becomes of the file.
    pub taking: Taking,
    /// Replace a model that has the name.
    pub force: bool,
}

/// What becomes of a file that is imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Taking {
    /// It stays as it is: shared where the file system can, else copied.
    #[default]
    Copy,
    /// It gets a second name in the store, and is made read-only.
    Link,
    /// It is gone once the model is there.
    Move,
}

/// What becomes of an import.
#[derive(Debug)]
pub enum ImportEvent {
    /// How far it has come.
    Progress(Progress),
    /// The end: there is such a model.
    Done(Imported),
    /// The end: nothing has changed.
    Failed(Error),
}

/// A model that came from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The name to run it by.
    pub name: String,
    /// Bytes of the model's file.
    pub size_bytes: u64,
    /// How it came into the store.
    pub way: ImportMethod,
    /// Whether the file is gone, with all its parts.
    pub moved: bool,
    /// Why it is still there although it was to be moved.
    pub kept: Option<String>,
    /// Whether the file says how a conversation becomes a prompt.
    pub has_chat_template: bool,
}

impl ModelLibrary {
    /// Imports a file on a thread of its own, and tells how far it has come. Dropping the receiver interrupts it. Must be
    /// called inside a tokio runtime.
    #[must_use]
    pub fn import(&self, import: Import) -> mpsc::Receiver<ImportEvent> {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let library = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut reported = Instant::now();
            let mut watch = |progress: Progress| {
                if reported.elapsed() >= REPORT_EVERY {
                    reported = Instant::now();
                    // A reader that is behind gets the next report instead.
                    let _ = sender.try_send(ImportEvent::Progress(progress));
                }
                !sender.is_closed()
            };
            let event = match library.import_now(&import, &mut watch) {
                Ok(imported) => ImportEvent::Done(imported),
                Err(error) => ImportEvent::Failed(error),
            };
            // Nobody is left to be told when this fails.
            let _ = sender.blocking_send(event);
        });
        receiver
    }

    fn import_now(&self, import: &Import, watch: &mut dyn FnMut(Progress) -> bool) -> Result<Imported, Error> {
        let head = head::read(&import.path)?;
        let name = match &import.name {
            Some(text) => text.parse()?,
            None => name::of_file(&head.gguf, &import.path),
        };
        self.check_free(&name, import.force)?;
        for path in &head.paths {
            self.check_whose(path, import.taking)?;
        }
        self.engine.check(&import.path)?;
        let library = self.catalog.own_library();
        let reserve_bytes = self.settings.downloads.reserve_bytes();
        let writer = LibraryWriter::open(library, &RealDisk)?.with_reserve(reserve_bytes);
        let mut pending_moves = Vec::new();
        let ImportedBlob { layer, method: way } = match (head.paths.len(), import.taking) {
            (0 | 1, Taking::Move) => {
                let (brought, pending_move) = writer.import_for_move(&import.path, watch)?;
                pending_moves.push(pending_move);
                brought
            }
            (0 | 1, taking) => writer.import_file(&import.path, taking == Taking::Link, watch)?,
            (_, Taking::Link) => return Err(Error::Unsupported("a hard link to a model in several files")),
            (_, taking) => {
                let parts = head.paths.iter().filter(|_| taking == Taking::Move);
                pending_moves = parts.map(|part| writer.prepare_move(part)).collect::<Result<_, _>>()?;
                merge::bring(&writer, &head, &import.path, watch)?
            }
        };
        let config = config(Details::of_file(&head.gguf)).to_json();
        let saved = writer.save(&name, &config, std::slice::from_ref(&layer), import.force);
        let saved = saved.inspect_err(|_| give_back(&writer, &layer, &way))?;
        let mut kept = None;
        for pending_move in pending_moves {
            match pending_move.finish(&writer, &layer) {
                Ok(()) => {}
                // The contents that have the digest's name are others now.
                Err(error @ WriteError::SourceChanged(_)) if way == ImportMethod::Moved => {
                    writer.delete(&saved.name)?;
                    return Err(error.into());
                }
                Err(error) => kept = Some(error.to_string()),
            }
        }
        tracing::info!(model = %saved.name, ?way, bytes = layer.size_bytes, "imported");
        Ok(Imported {
            name: saved.name.to_string(),
            size_bytes: layer.size_bytes,
            way,
            moved: import.taking == Taking::Move && kept.is_none(),
            kept,
            has_chat_template: has_chat_template(&head.gguf),
        })
    }

    /// Refuses files that belong to a library: our own has them, and from another's nothing is taken away.
    fn check_whose(&self, path: &Path, taking: Taking) -> Result<(), Error> {
        let within = |library: &Library| {
            let root = library.root().canonicalize();
            matches!((root, path.canonicalize()), (Ok(root), Ok(file)) if file.starts_with(&root))
        };
        if within(self.catalog.own_library()) {
            return Err(Error::OwnFile(path.to_owned()));
        }
        match self.catalog.libraries().others().find(|library| within(library)) {
            Some(library) if taking == Taking::Move => {
                Err(Error::LibraryFile { path: path.to_owned(), root: library.root().to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Refuses names that a new model cannot have, before any work is done for it. A name in the library itself is left
    /// to its writer, which knows whether the model is the same.
    fn check_free(&self, name: &ModelRef, force: bool) -> Result<(), Error> {
        if is_pebble(name) {
            return Err(Error::BuiltIn(pebble::NAME));
        }
        match self.catalog.elsewhere(name)? {
            Some((spelled, root)) if !force => Err(Error::NameElsewhere { name: spelled.to_string(), root }),
            _ => Ok(()),
        }
    }
}

/// Takes out again what was brought in for nothing. A file that was made read-only for a link stays so: whether somebody
/// else relies on it is not known.
fn give_back(writer: &LibraryWriter<'_>, layer: &Layer, way: &ImportMethod) {
    if *way != ImportMethod::Present {
        writer.remove_unreferenced(layer);
    }
}

/// A config as Ollama writes it.
pub(crate) fn config(details: Details) -> Config {
    Config {
        model_format: details.format,
        model_family: details.family,
        model_families: Some(details.families),
        model_type: details.parameter_size,
        file_type: details.quantization,
        context_length: details.context_length,
        embedding_length: details.embedding_length,
        ..Config::default()
    }
}

#[cfg(test)]
pub(crate) mod tests;
