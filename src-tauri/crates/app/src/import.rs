//! Import: a model file on this machine becomes a model of our library.
//!
//! The file is checked as the engine would load it before anything is written. What has been brought in when a later step
//! fails is taken out again.

pub(crate) mod merge;
mod name;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_store::{Brought, Config, Layer, LibraryWriter, ModelRef, Progress, Way};
use tokio::sync::mpsc;

use crate::catalog::{has_chat_template, is_pebble};
use crate::summary::Details;
use crate::{App, Error, head, pebble};

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
    /// Give the file a second name in the store, and make it read-only, in place of copying it.
    pub link: bool,
    /// Replace a model that has the name.
    pub force: bool,
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
    pub way: Way,
    /// Whether the file says how a conversation becomes a prompt.
    pub has_chat_template: bool,
}

impl App {
    /// Imports a file on a thread of its own, and tells how far it has come. Dropping the receiver interrupts it. Must be
    /// called inside a tokio runtime.
    #[must_use]
    pub fn import(&self, import: Import) -> mpsc::Receiver<ImportEvent> {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let app = self.clone();
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
            let event = match app.import_now(&import, &mut watch) {
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
        self.engine.check(&import.path)?;
        let library = self.catalog.own_library();
        let writer = LibraryWriter::open(library, &RealDisk)?;
        let Brought { layer, way } = match head.paths.len() {
            0 | 1 => writer.bring(&import.path, import.link, watch)?,
            _ if import.link => return Err(Error::Unsupported("a hard link to a model in several files")),
            _ => merge::bring(&writer, &head, &import.path, watch)?,
        };
        let config = config(Details::of_file(&head.gguf)).to_json();
        let saved = writer.save(&name, &config, std::slice::from_ref(&layer), import.force);
        let saved = saved.inspect_err(|_| give_back(&writer, &layer, &way))?;
        tracing::info!(model = %saved.name, ?way, bytes = layer.size_bytes, "imported");
        Ok(Imported {
            name: saved.name.to_string(),
            size_bytes: layer.size_bytes,
            way,
            has_chat_template: has_chat_template(&head.gguf),
        })
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
fn give_back(writer: &LibraryWriter<'_>, layer: &Layer, way: &Way) {
    if *way != Way::Present {
        writer.forget(layer);
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
