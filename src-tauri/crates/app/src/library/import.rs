//! Import: makes a model of Cairn's library from a file on this machine.
//!
//! The engine checks the file before anything is written. If a later step fails, what was written is removed.

pub(crate) mod merge;
pub(crate) mod name;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_gguf::Gguf;
use cairn_store::{Config, ImportMethod, ImportedBlob, Layer, Library, LibraryWriter, ModelRef, Progress, WriteError};
use tokio::sync::mpsc;

use crate::library::catalog::{has_chat_template, is_pebble};
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::summary::Details;
use crate::library::{head, pebble, template};

/// Shortest time between two progress events.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Capacity of the event channel. A full channel blocks the work.
const EVENT_CAPACITY: usize = 16;

/// Request to import a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Import {
    /// Path of the file.
    pub path: PathBuf,
    /// Name of the model; `None` for the name in the file's metadata, or else the file name.
    pub name: Option<String>,
    /// How the file is imported.
    pub taking: ImportMode,
    /// Replace an existing model of that name.
    pub force: bool,
}

/// How a file is imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImportMode {
    /// The file stays, and is cloned if the file system can, or else copied.
    #[default]
    Copy,
    /// The file gets a hard link in the library and becomes read-only.
    Link,
    /// The file is removed after the import.
    Move,
}

/// Event of an import.
#[derive(Debug)]
pub enum ImportEvent {
    /// Progress.
    Progress(Progress),
    /// The last event: the model exists.
    Done(Imported),
    /// The last event: nothing has changed.
    Failed(Error),
}

/// An imported model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Name of the model.
    pub name: String,
    /// Bytes of the model's file.
    pub size_bytes: u64,
    /// How the file was imported.
    pub way: ImportMethod,
    /// Whether the file and all its parts were removed.
    pub moved: bool,
    /// Why the file was not removed although a move was requested.
    pub kept: Option<String>,
    /// Whether the file has a chat template.
    pub has_chat_template: bool,
    /// Why the chat template cannot be used.
    pub template_problem: Option<String>,
}

impl ModelLibrary {
    /// Imports a file on a blocking thread and sends progress. Dropping the receiver cancels the import. Must be
    /// called inside a tokio runtime.
    #[must_use]
    pub fn import(&self, import: Import) -> mpsc::Receiver<ImportEvent> {
        let (sender, receiver) = mpsc::channel(EVENT_CAPACITY);
        let library = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut reported = Instant::now();
            let mut watch = |progress: Progress| {
                if reported.elapsed() >= REPORT_EVERY {
                    reported = Instant::now();
                    // A receiver that is behind gets the next event instead.
                    let _ = sender.try_send(ImportEvent::Progress(progress));
                }
                !sender.is_closed()
            };
            let event = match library.import_now(&import, &mut watch) {
                Ok(imported) => ImportEvent::Done(imported),
                Err(error) => ImportEvent::Failed(error),
            };
            // The receiver may have been dropped; that is not an error.
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
            self.check_owner(path, import.taking)?;
        }
        self.engine.check(&import.path)?;
        let library = self.catalog.own_library();
        let reserve_bytes = self.settings.downloads.reserve_bytes();
        let writer = LibraryWriter::open(library, &RealDisk)?.with_reserve(reserve_bytes);
        let mut pending_moves = Vec::new();
        let ImportedBlob { layer, method: way } = match (head.paths.len(), import.taking) {
            (0 | 1, ImportMode::Move) => {
                let (imported, pending_move) = writer.import_for_move(&import.path, watch)?;
                pending_moves.push(pending_move);
                imported
            }
            (0 | 1, taking) => writer.import_file(&import.path, taking == ImportMode::Link, watch)?,
            (_, ImportMode::Link) => return Err(Error::Unsupported("a hard link to a model in several files")),
            (_, taking) => {
                let parts = head.paths.iter().filter(|_| taking == ImportMode::Move);
                pending_moves = parts.map(|part| writer.prepare_move(part)).collect::<Result<_, _>>()?;
                merge::import_merged(&writer, &head, &import.path, watch)?
            }
        };
        let config = config(&head.gguf).to_json();
        let saved = writer.save(&name, &config, std::slice::from_ref(&layer), import.force);
        let saved = saved.inspect_err(|_| remove_imported(&writer, &layer, &way))?;
        let mut kept = None;
        for pending_move in pending_moves {
            match pending_move.finish(&writer, &layer) {
                Ok(()) => {}
                // The published file has other contents than its name says.
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
            moved: import.taking == ImportMode::Move && kept.is_none(),
            kept,
            has_chat_template: has_chat_template(&head.gguf),
            template_problem: template::check_file(&head.gguf).err().map(|error| error.to_string()),
        })
    }

    /// Refuses files of Cairn's own library, and moves out of other libraries.
    fn check_owner(&self, path: &Path, taking: ImportMode) -> Result<(), Error> {
        let within = |library: &Library| {
            let root = library.root().canonicalize();
            matches!((root, path.canonicalize()), (Ok(root), Ok(file)) if file.starts_with(&root))
        };
        if within(self.catalog.own_library()) {
            return Err(Error::OwnFile(path.to_owned()));
        }
        match self.catalog.libraries().others().find(|library| within(library)) {
            Some(library) if taking == ImportMode::Move => {
                Err(Error::LibraryFile { path: path.to_owned(), root: library.root().to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Refuses names that a new model cannot have, before any work is done. A name in Cairn's library is checked by the
    /// writer, which can compare the models.
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

/// Removes an imported layer after a failure. A file that became read-only for a link stays read-only, because another
/// program may rely on it.
fn remove_imported(writer: &LibraryWriter<'_>, layer: &Layer, way: &ImportMethod) {
    if *way != ImportMethod::Present {
        writer.remove_unreferenced(layer);
    }
}

/// Returns a config as Ollama writes it. It names the capability of an embedding model, so that lists show it without
/// reading the file.
pub(crate) fn config(gguf: &Gguf) -> Config {
    let details = Details::of_file(gguf);
    let embeds = cairn_runtime::is_embedding_model(head::as_loaded(gguf).metadata());
    Config {
        capabilities: embeds.then(|| vec!["embedding".to_owned()]),
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
