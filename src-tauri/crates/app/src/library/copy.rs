//! Copy: gives a model a second name in Cairn's library. Files of another library are copied, which takes a while if
//! the libraries are on different disks.

use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_store::{LayerKind, LibraryWriter, ModelRef, Progress};
use tokio::sync::mpsc;

use crate::library::catalog::{Origin, is_pebble};
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::import::config;
use crate::library::pebble;

/// Shortest time between two progress events.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Capacity of the event channel. A full channel blocks the work.
const EVENT_CAPACITY: usize = 16;

/// Event of a copy.
#[derive(Debug)]
pub enum CopyEvent {
    /// Progress of one blob. Most copies need no blobs.
    Progress(Progress),
    /// The last event: the model has its second name.
    Done(Copied),
    /// The last event: nothing has changed.
    Failed(Error),
}

/// A copied model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The new name, as it is stored.
    pub name: String,
    /// Bytes that were written; 0 for most copies.
    pub copied_bytes: u64,
}

impl ModelLibrary {
    /// Copies the model `source` to `destination`. Replaces an existing model of that name in Cairn's library.
    ///
    /// # Errors
    /// If the model does not exist, a name is invalid or belongs to the built-in model, or on a disk error.
    pub fn copy(&self, source: &str, destination: &str) -> Result<Copied, Error> {
        self.copy_now(source, destination, &mut |_| true)
    }

    /// Copies a model on a blocking thread and sends progress. Dropping the receiver cancels the copy. Must be called
    /// inside a tokio runtime.
    #[must_use]
    pub fn copying(&self, source: String, destination: String) -> mpsc::Receiver<CopyEvent> {
        let (sender, receiver) = mpsc::channel(EVENT_CAPACITY);
        let library = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut reported: Option<Instant> = None;
            let mut watch = |progress: Progress| {
                if reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
                    reported = Some(Instant::now());
                    // A receiver that is behind gets the next event instead.
                    let _ = sender.try_send(CopyEvent::Progress(progress));
                }
                !sender.is_closed()
            };
            let event = match library.copy_now(&source, &destination, &mut watch) {
                Ok(copied) => CopyEvent::Done(copied),
                Err(error) => CopyEvent::Failed(error),
            };
            // The receiver may have been dropped; that is not an error.
            let _ = sender.blocking_send(event);
        });
        receiver
    }

    fn copy_now(
        &self,
        source: &str,
        destination: &str,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Copied, Error> {
        let invalid = |what, name: &str, reason| Error::InvalidName { what, name: name.to_owned(), reason };
        let from = self.catalog.name_of(source).map_err(|reason| invalid("source", source, reason))?;
        let to: ModelRef = destination.parse().map_err(|reason| invalid("destination", destination, reason))?;
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
                let config = config(&pebble::head().gguf).to_json();
                let saved = writer.save(&to, &config, std::slice::from_ref(&layer), true)?;
                Ok(Copied { name: saved.name.to_string(), copied_bytes: layer.size_bytes })
            }
            Some(Origin::Stored(origin, stored)) => {
                let copied = writer()?.copy(origin, &stored.name, &to, watch)?;
                Ok(Copied { name: copied.model.name.to_string(), copied_bytes: copied.copied_bytes })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::import::tests::fixture;

    #[tokio::test]
    async fn copy_from_another_library_reports_progress() {
        let fixture = fixture();
        let contents = vec![7; 300_000];
        let digest = cairn_store::Digest::of(&contents);
        let theirs = fixture.folder.path().join("ollama");
        let manifest = theirs.join("manifests/registry.ollama.ai/library/theirs");
        std::fs::create_dir_all(&manifest).and_then(|()| std::fs::create_dir_all(theirs.join("blobs"))).unwrap();
        std::fs::write(theirs.join("blobs").join(digest.file_name()), contents).unwrap();
        let layer =
            format!(r#"{{"digest":"{digest}","size":300000,"mediaType":"application/vnd.ollama.image.model"}}"#);
        std::fs::write(manifest.join("latest"), format!(r#"{{"layers":[{layer}]}}"#)).unwrap();
        let copy = async |source: &str| {
            let mut events = fixture.app.library().copying(source.to_owned(), "ours".to_owned());
            let (mut progress, mut end) = (0, String::new());
            while let Some(event) = events.recv().await {
                match event {
                    CopyEvent::Progress(now) => {
                        assert!(now.done_bytes <= now.total_bytes && now.total_bytes == 300_000, "{now:?}");
                        progress += 1;
                    }
                    CopyEvent::Done(copied) => end = copied.name,
                    CopyEvent::Failed(error) => end = error.to_string(),
                }
            }
            (progress > 0, end)
        };
        assert_eq!(copy("theirs").await, (true, "ours:latest".to_owned()), "the blobs are copied");
        assert_eq!(copy("ours").await, (false, "ours:latest".to_owned()), "no blobs are copied within a library");
        assert_eq!(copy("none").await, (false, "model \"none\" not found".to_owned()), "the model does not exist");
    }
}
