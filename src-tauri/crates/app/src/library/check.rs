//! Check: reads blobs and compares them with their digests.
//!
//! This finds all damage since a model was stored. Whether the numbers in an intact file are finite is another check:
//! see [`verify`](crate::library::verify()).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_store::{BlobDefect, Digest, LayerKind, Library, LibraryState, LibraryWriter, ModelRef, StoredModel};
use tokio::sync::mpsc;

use crate::library::catalog::Origin;
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;

/// Shortest time between two progress events.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Capacity of the event channel. A full channel blocks the work.
const EVENT_CAPACITY: usize = 16;

/// Request for a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Names of models; empty for all blobs of all libraries.
    pub models: Vec<String>,
    /// Whether to remove damaged blobs of Cairn's library, so that the next pull downloads them again.
    pub discard: bool,
}

/// Event of a check.
#[derive(Debug)]
pub enum CheckEvent {
    /// Progress.
    Progress {
        /// Bytes read.
        done_bytes: u64,
        /// Bytes in total.
        total_bytes: u64,
    },
    /// The last event.
    Done(Checked),
    /// The last event: the check failed.
    Failed(Error),
}

/// Result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of models.
    pub models: usize,
    /// Number of blobs. Shared blobs are read and counted once.
    pub contents: usize,
    /// Bytes of all blobs.
    pub bytes: u64,
    /// Damaged blobs.
    pub flawed: Vec<DamagedBlob>,
    /// Unreadable manifests and folders, each with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// A damaged blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedBlob {
    /// Root of the library.
    pub library: PathBuf,
    /// Whether the library is Cairn's own.
    pub own: bool,
    /// Digest, `sha256:...`.
    pub digest: String,
    /// Purpose, for example `model`; empty if no model uses the blob.
    pub kind: String,
    /// The defect.
    pub flaw: BlobDefect,
    /// Models that use the blob.
    pub models: Vec<String>,
    /// Whether the blob was removed.
    pub discarded: bool,
}

/// Blobs to read, by library and digest.
type ToRead<'a> = BTreeMap<(PathBuf, Digest), BlobToRead<'a>>;

struct BlobToRead<'a> {
    library: &'a Library,
    expected_bytes: Option<u64>,
    kind: String,
    models: Vec<String>,
}

impl ModelLibrary {
    /// Checks models on a blocking thread and sends progress. Dropping the receiver cancels the check. Must be called
    /// inside a tokio runtime.
    #[must_use]
    pub fn check(&self, check: Check) -> mpsc::Receiver<CheckEvent> {
        let (sender, receiver) = mpsc::channel(EVENT_CAPACITY);
        let library = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut reported = Instant::now();
            let mut watch = |done_bytes, total_bytes| {
                if reported.elapsed() >= REPORT_EVERY {
                    reported = Instant::now();
                    // A receiver that is behind gets the next event instead.
                    let _ = sender.try_send(CheckEvent::Progress { done_bytes, total_bytes });
                }
                !sender.is_closed()
            };
            let event = match library.check_now(&check, &mut watch) {
                Ok(Some(checked)) => CheckEvent::Done(checked),
                Ok(None) => return,
                Err(error) => CheckEvent::Failed(error),
            };
            // The receiver may have been dropped; that is not an error.
            let _ = sender.blocking_send(event);
        });
        receiver
    }

    /// Returns `None` if the check was cancelled.
    fn check_now(&self, check: &Check, watch: &mut dyn FnMut(u64, u64) -> bool) -> Result<Option<Checked>, Error> {
        let mut checked = Checked::default();
        let mut to_read = ToRead::new();
        match check.models.is_empty() {
            true => self.gather_all(&mut to_read, &mut checked),
            false => self.gather(&check.models, &mut to_read, &mut checked)?,
        }
        let length = |(_, digest): &(PathBuf, Digest), contents: &BlobToRead<'_>| {
            std::fs::metadata(contents.library.blob_path(digest)).map_or(0, |found| found.len())
        };
        let total_bytes: u64 = to_read.iter().map(|(key, contents)| length(key, contents)).sum();
        (checked.contents, checked.bytes) = (to_read.len(), total_bytes);
        let mut before = 0;
        for (key, contents) in to_read {
            let here = length(&key, &contents);
            let (library, digest) = key;
            let mut watch = |done: u64| watch(before + done.min(here), total_bytes);
            let Some(outcome) = contents.library.verify_blob(&digest, contents.expected_bytes, &mut watch) else {
                return Ok(None);
            };
            before += here;
            if let Err(flaw) = outcome {
                tracing::warn!(library = %library.display(), %digest, %flaw, "a blob is damaged");
                let own = self.catalog.libraries().is_own(contents.library);
                let discarded = check.discard
                    && own
                    && matches!(flaw, BlobDefect::Contents { .. } | BlobDefect::Length { .. })
                    && LibraryWriter::open(contents.library, &RealDisk)?.discard(&digest)?;
                let (kind, models, digest) = (contents.kind, contents.models, digest.to_string());
                checked.flawed.push(DamagedBlob { library, own, digest, kind, flaw, models, discarded });
            }
        }
        Ok(Some(checked))
    }

    /// Collects the blobs of these models.
    fn gather<'a>(&'a self, names: &[String], to_read: &mut ToRead<'a>, checked: &mut Checked) -> Result<(), Error> {
        for text in names {
            let name: ModelRef = text.parse()?;
            match self.catalog.origin(&name)? {
                None => return Err(Error::NotFound(text.clone())),
                Some(Origin::Opened) => return Err(Error::OutsideStore(name.to_string())),
                // The built-in model is part of the program and needs no check.
                Some(Origin::BuiltIn) => checked.models += 1,
                Some(Origin::Stored(library, stored)) => add(library, &stored, to_read, checked),
            }
        }
        Ok(())
    }

    /// Collects all blobs of all libraries.
    fn gather_all<'a>(&'a self, to_read: &mut ToRead<'a>, checked: &mut Checked) {
        for snapshot in self.catalog.libraries().snapshots() {
            let library = snapshot.library;
            for model in &snapshot.listing.models {
                add(library, model, to_read, checked);
            }
            if let LibraryState::Unreadable(reason) = snapshot.state {
                checked.skipped.push((library.root().to_owned(), reason));
                continue;
            }
            checked.skipped.extend(snapshot.listing.skipped.into_iter().map(|skipped| (skipped.path, skipped.reason)));
            let contents = library.blob_digests().unwrap_or_else(|error| {
                checked.skipped.push((library.root().to_owned(), error.to_string()));
                Vec::new()
            });
            for digest in contents {
                let unnamed = BlobToRead { library, expected_bytes: None, kind: String::new(), models: Vec::new() };
                to_read.entry((library.root().to_owned(), digest)).or_insert(unnamed);
            }
        }
    }
}

fn add<'a>(library: &'a Library, model: &StoredModel, to_read: &mut ToRead<'a>, checked: &mut Checked) {
    checked.models += 1;
    for layer in model.manifest.layers.iter().chain(&model.manifest.config) {
        let contents = to_read.entry((library.root().to_owned(), layer.digest)).or_insert_with(|| BlobToRead {
            library,
            expected_bytes: Some(layer.size_bytes),
            kind: word(&layer.kind),
            models: Vec::new(),
        });
        let name = model.name.to_string();
        if !contents.models.contains(&name) {
            contents.models.push(name);
        }
    }
}

/// Returns the purpose of a blob as a word.
fn word(kind: &LayerKind) -> String {
    let word = match kind {
        LayerKind::Model => "model",
        LayerKind::Template => "template",
        LayerKind::System => "system",
        LayerKind::Params => "params",
        LayerKind::License => "license",
        LayerKind::Messages => "messages",
        kind if *kind == LayerKind::config() => "config",
        LayerKind::Other(media_type) => media_type.rsplit(['.', '/']).next().unwrap_or_default(),
    };
    word.to_owned()
}
