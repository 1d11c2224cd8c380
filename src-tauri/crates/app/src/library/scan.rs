//! Scan: finds models of other apps on this machine, and compares them with the libraries.
//!
//! Only heads of files are read, so that a thousand models take seconds. The digest of a file is then available if the
//! file is a library's, or is named after its digest, as in the cache of the Hugging Face hub. With [`Scan::digests`]
//! the other files are read completely. Nothing is changed on disk.

mod walk;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_gguf::Metadata;
use cairn_gguf::split::PartName;
use cairn_store::{Digest, LayerKind, Library, hash_file};
use tokio::sync::mpsc;

use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::head;
use crate::library::head::Head;
use crate::library::import::name;
use crate::library::summary::Details;
use crate::settings::{AppFolder, ModelApp};
use walk::{Bounds, Candidate, Walk};

/// Shortest time between two progress events.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Capacity of the event channel. A full channel blocks the work.
const EVENT_CAPACITY: usize = 16;

/// Request for a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// Folders to scan.
    pub folders: Vec<PathBuf>,
    /// Whether to scan the folders of other apps too.
    pub apps: bool,
    /// Whether to read files completely, to compare their digests.
    pub digests: bool,
}

/// Event of a scan.
#[derive(Debug)]
pub enum ScanEvent {
    /// Progress of the digests.
    Progress {
        /// Bytes read.
        done_bytes: u64,
        /// Bytes in total.
        total_bytes: u64,
    },
    /// The last event.
    Done(Scanned),
}

/// Result of a scan.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Models, projectors, adapters and broken files.
    pub found: Vec<Found>,
    /// Folders that were scanned.
    pub looked: Vec<AppFolder>,
    /// Folders that could not be scanned, each with the reason.
    pub unread: Vec<(PathBuf, String)>,
    /// First folder that was skipped because it is too deep or the scan has too many entries.
    pub cut: Option<PathBuf>,
}

/// A file that a scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Name that an import would use.
    pub name: String,
    /// The file; the first part of a split model.
    pub path: PathBuf,
    /// Number of files.
    pub parts: usize,
    /// Bytes of all files.
    pub size_bytes: u64,
    /// The app that stores it.
    pub source_app: ModelApp,
    /// Details of the model.
    pub details: Details,
    /// SHA-256 of the file, if it is available.
    pub digest: Option<Digest>,
    /// Relation to the libraries.
    pub status: FoundStatus,
}

/// Relation of a found file to the libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundStatus {
    /// A model that can be imported.
    New,
    /// The same contents as this model.
    Here(String),
    /// The same size as this model. Only the digest can decide.
    MaybeHere(String),
    /// A projector, which encodes images for a model.
    Projector,
    /// An adapter.
    Adapter,
    /// A file that cannot be read, with the reason.
    Broken(String),
}

impl ModelLibrary {
    /// Scans for models on a blocking thread. Dropping the receiver cancels the scan. Must be called inside a tokio
    /// runtime.
    #[must_use]
    pub fn scan(&self, scan: Scan) -> mpsc::Receiver<ScanEvent> {
        let (sender, receiver) = mpsc::channel(EVENT_CAPACITY);
        let library = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut scanned = Scanned::default();
            let local = LocalModels::of(&library);
            library.look(&scan, &local, &mut scanned, &mut || !sender.is_closed());
            let mut reported = Instant::now();
            let mut watch = |done_bytes, total_bytes| {
                if reported.elapsed() >= REPORT_EVERY {
                    reported = Instant::now();
                    // A receiver that is behind gets the next event instead.
                    let _ = sender.try_send(ScanEvent::Progress { done_bytes, total_bytes });
                }
                !sender.is_closed()
            };
            if scan.digests {
                read_all(&mut scanned.found, &local, &mut watch);
            }
            // The receiver may have been dropped; that is not an error.
            let _ = sender.blocking_send(ScanEvent::Done(scanned));
        });
        receiver
    }

    fn look(&self, scan: &Scan, local: &LocalModels, scanned: &mut Scanned, should_continue: &mut dyn FnMut() -> bool) {
        let mut walk = Walk::with_bounds(Bounds::default());
        let mut roots: Vec<AppFolder> = Vec::new();
        if scan.apps {
            let apps = self.settings.other_apps.iter();
            roots.extend(apps.filter(|kept| kept.folder.is_dir()).cloned());
        }
        for folder in &scan.folders {
            match std::fs::metadata(folder) {
                Ok(found) if found.is_dir() => {
                    roots.push(AppFolder { source_app: ModelApp::Folder, folder: folder.clone() });
                }
                Ok(_) => scanned.unread.push((folder.clone(), "it is not a folder".to_owned())),
                Err(error) => scanned.unread.push((folder.clone(), error.to_string())),
            }
        }
        for kept in roots {
            let mut candidates = Vec::new();
            for candidate in walk.look(&kept.folder, should_continue) {
                match candidate {
                    Candidate::Library(root) => scanned.found.extend(local.library(kept.source_app, &root)),
                    candidate => candidates.push(candidate),
                }
            }
            for candidate in whole_models(candidates) {
                if !should_continue() {
                    return;
                }
                scanned.found.push(local.classify(kept.source_app, candidate));
            }
            scanned.looked.push(kept);
        }
        scanned.unread.append(&mut walk.unread);
        scanned.cut = walk.cut;
    }
}

/// Keeps only the first existing part of each split model.
fn whole_models(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut seen = HashSet::new();
    let first = |candidate: &Candidate| {
        let Candidate::File(path, _) = candidate else { return true };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match PartName::parse(&name).and_then(|part| part.all().next()) {
            Some(first) => seen.insert(path.with_file_name(first.to_string())),
            None => true,
        }
    };
    let mut candidates = candidates;
    candidates.retain(first);
    candidates
}

/// Models of all libraries, by digest, size and file.
struct LocalModels {
    models: HashMap<Digest, String>,
    lengths: HashMap<u64, String>,
    files: HashMap<(u64, u64), String>,
}

impl LocalModels {
    fn of(library: &ModelLibrary) -> Self {
        let (mut models, mut lengths, mut files) = (HashMap::new(), HashMap::new(), HashMap::new());
        for snapshot in library.catalog.libraries().snapshots() {
            for model in &snapshot.listing.models {
                let Some(layer) = model.manifest.layer(&LayerKind::Model) else { continue };
                let Ok(path) = snapshot.library.blob(layer) else { continue };
                let name = || model.name.to_string();
                models.entry(layer.digest).or_insert_with(name);
                lengths.entry(layer.size_bytes).or_insert_with(name);
                if let Some(identity) = file_identity(&path) {
                    files.entry(identity).or_insert_with(name);
                }
            }
        }
        Self { models, lengths, files }
    }

    /// Classifies a file by its head.
    fn classify(&self, source_app: ModelApp, candidate: Candidate) -> Found {
        match candidate {
            Candidate::File(path, file) => match head::read(&path) {
                Ok(head) => self.model(source_app, path, &file, &head),
                Err(error) => broken(source_app, path, reason(error)),
            },
            Candidate::Dangling(path) | Candidate::Library(path) => {
                broken(source_app, path, "it is a link that leads to nothing".to_owned())
            }
        }
    }

    fn model(&self, source_app: ModelApp, path: PathBuf, file: &Path, head: &Head) -> Found {
        let parts = head.paths.len();
        let digest = hub_digest(file).filter(|_| parts == 1);
        let status = match kind(head.gguf.metadata()) {
            Some(status) => status,
            None if head.gguf.tensors().is_empty() => FoundStatus::Broken("it has no tensors".to_owned()),
            None => self.status(file, digest, head.file_bytes, parts),
        };
        Found {
            name: name::of_file(&head.gguf, &path).to_string(),
            path,
            parts,
            size_bytes: head.file_bytes,
            source_app,
            details: Details::of_file(&head.gguf),
            digest,
            status,
        }
    }

    fn status(&self, file: &Path, digest: Option<Digest>, size_bytes: u64, parts: usize) -> FoundStatus {
        // An import merges several files into one with another digest.
        if parts > 1 {
            return FoundStatus::New;
        }
        let here = digest.and_then(|digest| self.models.get(&digest));
        let here = here.or_else(|| self.files.get(&file_identity(file)?));
        match (here, self.lengths.get(&size_bytes), digest) {
            (Some(model), _, _) => FoundStatus::Here(model.clone()),
            (None, Some(model), None) => FoundStatus::MaybeHere(model.clone()),
            (None, _, _) => FoundStatus::New,
        }
    }

    /// Returns the models of a library in Ollama's layout.
    fn library(&self, source_app: ModelApp, root: &Path) -> Vec<Found> {
        let library = Library::new(root.to_owned());
        let source_app = if source_app == ModelApp::Folder { ModelApp::Ollama } else { source_app };
        let Ok(listing) = library.list() else { return Vec::new() };
        let mut found: Vec<Found> = listing
            .models
            .iter()
            .filter_map(|model| {
                let layer = model.manifest.layer(&LayerKind::Model)?;
                let name = model.name.to_string();
                let (path, status) = match library.blob(layer) {
                    Ok(path) => {
                        let here = self.models.get(&layer.digest);
                        (path, here.map_or(FoundStatus::New, |model| FoundStatus::Here(model.clone())))
                    }
                    Err(error) => (library.blob_path(&layer.digest), FoundStatus::Broken(error.to_string())),
                };
                let details = Details::of_config(&library.config(&model.manifest));
                let (digest, size_bytes) = (Some(layer.digest), model.manifest.size_bytes());
                Some(Found { name, path, parts: 1, size_bytes, source_app, details, digest, status })
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

/// Returns the status of a file that is not a model by itself, from its metadata.
fn kind(metadata: &Metadata) -> Option<FoundStatus> {
    let text = |key: &str| metadata.str(key).ok().flatten().unwrap_or_default();
    match (text("general.type"), text("general.architecture")) {
        ("adapter", _) => Some(FoundStatus::Adapter),
        ("mmproj" | "projector", _) | (_, "clip") => Some(FoundStatus::Projector),
        _ => None,
    }
}

fn broken(source_app: ModelApp, path: PathBuf, reason: String) -> Found {
    let size_bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (details, status) = (Details::default(), FoundStatus::Broken(reason));
    Found { name, path, parts: 1, size_bytes, source_app, details, digest: None, status }
}

/// Returns the reason of an error without the path, which is reported separately.
fn reason(error: Error) -> String {
    match error {
        Error::File { reason, .. } => reason,
        error => error.to_string(),
    }
}

/// Returns the digest of a file in the hub's cache, whose large files are named after their digest.
fn hub_digest(file: &Path) -> Option<Digest> {
    let name = file.file_name()?.to_str()?;
    let is_blob = file.parent()?.file_name()? == "blobs" && name.len() == 64;
    is_blob.then(|| format!("sha256:{name}").parse().ok()).flatten()
}

/// Computes missing digests.
fn read_all(found: &mut [Found], local: &LocalModels, watch: &mut dyn FnMut(u64, u64) -> bool) {
    let to_read = |found: &Found| {
        found.digest.is_none()
            && found.parts == 1
            && matches!(found.status, FoundStatus::New | FoundStatus::MaybeHere(_) | FoundStatus::Here(_))
    };
    let total_bytes: u64 = found.iter().filter(|found| to_read(found)).map(|found| found.size_bytes).sum();
    let mut before = 0;
    for found in found.iter_mut().filter(|found| to_read(found)) {
        let size_bytes = found.size_bytes;
        let mut watch = |done: u64| watch(before + done.min(size_bytes), total_bytes);
        match File::open(&found.path).and_then(|file| hash_file(&file, &mut watch)) {
            Ok(None) => return,
            Ok(Some(digest)) => {
                found.digest = Some(digest);
                found.status = local.models.get(&digest).map_or(FoundStatus::New, |m| FoundStatus::Here(m.clone()));
            }
            Err(error) => found.status = FoundStatus::Broken(error.to_string()),
        }
        before += size_bytes;
    }
}

/// Identity of a file, equal for all its hard links.
#[cfg(unix)]
fn file_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn file_identity(_: &Path) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests;
