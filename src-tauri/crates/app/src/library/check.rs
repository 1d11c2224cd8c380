//! Check: reads the contents of models, and tells which are not what their names say.
//!
//! A name is the SHA-256 of what it names, so this finds every damage there can be since a model came here. What the numbers
//! in a sound file are like is another question: see [`crate::verify`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cairn_disk::RealDisk;
use cairn_store::{BlobDefect, Digest, LayerKind, Library, LibraryState, LibraryWriter, ModelRef, StoredModel};
use tokio::sync::mpsc;

use crate::library::catalog::Origin;
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;

/// Between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Reports that may wait for a slow reader before the work waits too.
const WAITING_EVENTS: usize = 16;

/// What is to be checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Names of models; none means everything that the libraries hold.
    pub models: Vec<String>,
    /// Remove damaged contents of our own library, so that the next pull fetches them anew.
    pub discard: bool,
}

/// What becomes of a check.
#[derive(Debug)]
pub enum CheckEvent {
    /// How far it has come, in bytes.
    Progress {
        /// Bytes that were read.
        done_bytes: u64,
        /// Bytes that there are to read.
        total_bytes: u64,
    },
    /// The end.
    Done(Checked),
    /// The end: it could not be begun.
    Failed(Error),
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// How many models were looked at.
    pub models: usize,
    /// How many contents they have together. What several have is counted, and read, once.
    pub contents: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Those that are not what they should be.
    pub flawed: Vec<Flawed>,
    /// Manifests and folders that cannot be read, each with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// Contents that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flawed {
    /// The library that has them.
    pub library: PathBuf,
    /// Whether that is our own.
    pub own: bool,
    /// Their name, `sha256:...`.
    pub digest: String,
    /// What they are for, `model` for instance; empty when no model has them.
    pub kind: String,
    /// What is wrong with them.
    pub flaw: BlobDefect,
    /// Models that have them.
    pub models: Vec<String>,
    /// Whether they were removed.
    pub discarded: bool,
}

/// Contents that are to be read: where, and what is known of them.
type ToRead<'a> = BTreeMap<(PathBuf, Digest), Contents<'a>>;

struct Contents<'a> {
    library: &'a Library,
    expected_bytes: Option<u64>,
    kind: String,
    models: Vec<String>,
}

impl ModelLibrary {
    /// Checks models on a thread of its own, and tells how far it has come. Dropping the receiver ends it. Must be called
    /// inside a tokio runtime.
    #[must_use]
    pub fn check(&self, check: Check) -> mpsc::Receiver<CheckEvent> {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let library = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut reported = Instant::now();
            let mut watch = |done_bytes, total_bytes| {
                if reported.elapsed() >= REPORT_EVERY {
                    reported = Instant::now();
                    // A reader that is behind gets the next report instead.
                    let _ = sender.try_send(CheckEvent::Progress { done_bytes, total_bytes });
                }
                !sender.is_closed()
            };
            let event = match library.check_now(&check, &mut watch) {
                Ok(Some(checked)) => CheckEvent::Done(checked),
                Ok(None) => return,
                Err(error) => CheckEvent::Failed(error),
            };
            // Nobody is left to be told when this fails.
            let _ = sender.blocking_send(event);
        });
        receiver
    }

    /// `None` when it was interrupted.
    fn check_now(&self, check: &Check, watch: &mut dyn FnMut(u64, u64) -> bool) -> Result<Option<Checked>, Error> {
        let mut checked = Checked::default();
        let mut to_read = ToRead::new();
        match check.models.is_empty() {
            true => self.gather_all(&mut to_read, &mut checked),
            false => self.gather(&check.models, &mut to_read, &mut checked)?,
        }
        let length = |(_, digest): &(PathBuf, Digest), contents: &Contents<'_>| {
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
                tracing::warn!(library = %library.display(), %digest, %flaw, "contents are not what they should be");
                let own = self.catalog.libraries().is_own(contents.library);
                let discarded = check.discard
                    && own
                    && matches!(flaw, BlobDefect::Contents { .. } | BlobDefect::Length { .. })
                    && LibraryWriter::open(contents.library, &RealDisk)?.discard(&digest)?;
                let (kind, models, digest) = (contents.kind, contents.models, digest.to_string());
                checked.flawed.push(Flawed { library, own, digest, kind, flaw, models, discarded });
            }
        }
        Ok(Some(checked))
    }

    /// The contents of these models.
    fn gather<'a>(&'a self, names: &[String], to_read: &mut ToRead<'a>, checked: &mut Checked) -> Result<(), Error> {
        for text in names {
            let name: ModelRef = text.parse()?;
            match self.catalog.origin(&name)? {
                None => return Err(Error::NotFound(text.clone())),
                Some(Origin::Opened) => return Err(Error::OutsideStore(name.to_string())),
                // It is part of this program, and as sound as that.
                Some(Origin::BuiltIn) => checked.models += 1,
                Some(Origin::Stored(library, stored)) => add(library, &stored, to_read, checked),
            }
        }
        Ok(())
    }

    /// Everything that the libraries hold, whether or not a model has it.
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
                let unnamed = Contents { library, expected_bytes: None, kind: String::new(), models: Vec::new() };
                to_read.entry((library.root().to_owned(), digest)).or_insert(unnamed);
            }
        }
    }
}

fn add<'a>(library: &'a Library, model: &StoredModel, to_read: &mut ToRead<'a>, checked: &mut Checked) {
    checked.models += 1;
    for layer in model.manifest.layers.iter().chain(&model.manifest.config) {
        let contents = to_read.entry((library.root().to_owned(), layer.digest)).or_insert_with(|| Contents {
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

/// What contents are for, in a word.
fn word(kind: &LayerKind) -> String {
    let known = match kind {
        LayerKind::Model => "model",
        LayerKind::Template => "template",
        LayerKind::System => "system",
        LayerKind::Params => "params",
        LayerKind::License => "license",
        LayerKind::Messages => "messages",
        kind if *kind == LayerKind::config() => "config",
        LayerKind::Other(media_type) => media_type.rsplit(['.', '/']).next().unwrap_or_default(),
    };
    known.to_owned()
}
