//! Scan: the models that other apps keep on this machine, and what they are to us.
//!
//! Only heads of files are read, so that a thousand models take seconds; whether a file's contents are here already is then
//! known where the file is one of a library's, or its name is its digest, as in the cache of the Hugging Face hub. With
//! [`Scan::digests`] the others are read too. Nothing is changed anywhere.

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
use crate::settings::{AppFolder, Keeper};
use walk::{Bounds, Sight, Walk};

/// Between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Reports that may wait for a slow reader before the work waits too.
const WAITING_EVENTS: usize = 16;

/// Where to look, and how closely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// Folders to look through.
    pub folders: Vec<PathBuf>,
    /// Look where other apps keep their models too.
    pub apps: bool,
    /// Read the files, to tell which contents are here.
    pub digests: bool,
}

/// What becomes of a scan.
#[derive(Debug)]
pub enum ScanEvent {
    /// How much has been read, in bytes.
    Progress {
        /// Bytes that were read.
        done_bytes: u64,
        /// Bytes that there are to read.
        total_bytes: u64,
    },
    /// The end.
    Done(Scanned),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Models and what goes with them.
    pub found: Vec<Found>,
    /// Folders that are there and were looked through.
    pub looked: Vec<AppFolder>,
    /// Folders that could not be looked through, each with the reason.
    pub unread: Vec<(PathBuf, String)>,
    /// A folder beyond which nothing was looked at, because it is too deep or there is too much.
    pub cut: Option<PathBuf>,
}

/// A model that another app keeps, or a file that looks like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What an import would call it.
    pub name: String,
    /// The file; the first of them where there are several.
    pub path: PathBuf,
    /// How many files it has.
    pub parts: usize,
    /// Bytes of all of them.
    pub size_bytes: u64,
    /// Who keeps it.
    pub keeper: Keeper,
    /// What it is.
    pub details: Details,
    /// The SHA-256 of the file, where it is known.
    pub digest: Option<Digest>,
    /// What it is to us.
    pub standing: Standing,
}

/// What a file is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// A model that could be imported.
    New,
    /// The contents of this model.
    Here(String),
    /// As long as this model's contents; reading it would tell whether it is them.
    MaybeHere(String),
    /// What makes pictures readable for a model.
    Projector,
    /// Changes to the weights of a model.
    Adapter,
    /// Nothing that can be read, for this reason.
    Broken(String),
}

impl ModelLibrary {
    /// Looks for models on a thread of its own. Dropping the receiver ends it. Must be called inside a tokio runtime.
    #[must_use]
    pub fn scan(&self, scan: Scan) -> mpsc::Receiver<ScanEvent> {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let library = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut scanned = Scanned::default();
            let known = Known::of(&library);
            library.look(&scan, &known, &mut scanned, &mut || !sender.is_closed());
            let mut reported = Instant::now();
            let mut watch = |done_bytes, total_bytes| {
                if reported.elapsed() >= REPORT_EVERY {
                    reported = Instant::now();
                    // A reader that is behind gets the next report instead.
                    let _ = sender.try_send(ScanEvent::Progress { done_bytes, total_bytes });
                }
                !sender.is_closed()
            };
            if scan.digests {
                read_all(&mut scanned.found, &known, &mut watch);
            }
            // Nobody is left to be told when this fails.
            let _ = sender.blocking_send(ScanEvent::Done(scanned));
        });
        receiver
    }

    fn look(&self, scan: &Scan, known: &Known, scanned: &mut Scanned, go_on: &mut dyn FnMut() -> bool) {
        let mut walk = Walk::within(Bounds::default());
        let mut roots: Vec<AppFolder> = Vec::new();
        if scan.apps {
            let apps = self.settings.other_apps.iter();
            roots.extend(apps.filter(|kept| kept.folder.is_dir()).cloned());
        }
        for folder in &scan.folders {
            match std::fs::metadata(folder) {
                Ok(found) if found.is_dir() => {
                    roots.push(AppFolder { keeper: Keeper::Folder, folder: folder.clone() });
                }
                Ok(_) => scanned.unread.push((folder.clone(), "it is no folder".to_owned())),
                Err(error) => scanned.unread.push((folder.clone(), error.to_string())),
            }
        }
        for kept in roots {
            let mut sights = Vec::new();
            for sight in walk.look(&kept.folder, go_on) {
                match sight {
                    Sight::Library(root) => scanned.found.extend(known.library(kept.keeper, &root)),
                    sight => sights.push(sight),
                }
            }
            for sight in whole_models(sights) {
                if !go_on() {
                    return;
                }
                scanned.found.push(known.sight(kept.keeper, sight));
            }
            scanned.looked.push(kept);
        }
        scanned.unread.append(&mut walk.unread);
        scanned.cut = walk.cut;
    }
}

/// Of the parts of a model in several files, the first that is there stands for all.
fn whole_models(sights: Vec<Sight>) -> Vec<Sight> {
    let mut seen = HashSet::new();
    let first = |sight: &Sight| {
        let Sight::File(path, _) = sight else { return true };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match PartName::parse(&name).and_then(|part| part.all().next()) {
            Some(first) => seen.insert(path.with_file_name(first.to_string())),
            None => true,
        }
    };
    let mut sights = sights;
    sights.retain(first);
    sights
}

/// The contents that our libraries have, and the models that have them.
struct Known {
    models: HashMap<Digest, String>,
    lengths: HashMap<u64, String>,
    files: HashMap<(u64, u64), String>,
}

impl Known {
    fn of(library: &ModelLibrary) -> Self {
        let (mut models, mut lengths, mut files) = (HashMap::new(), HashMap::new(), HashMap::new());
        for snapshot in library.catalog.libraries().snapshots() {
            for model in &snapshot.listing.models {
                let Some(layer) = model.manifest.layer(&LayerKind::Model) else { continue };
                let Ok(path) = snapshot.library.blob(layer) else { continue };
                let name = || model.name.to_string();
                models.entry(layer.digest).or_insert_with(name);
                lengths.entry(layer.size_bytes).or_insert_with(name);
                if let Some(place) = place(&path) {
                    files.entry(place).or_insert_with(name);
                }
            }
        }
        Self { models, lengths, files }
    }

    /// What a file is, by its head.
    fn sight(&self, keeper: Keeper, sight: Sight) -> Found {
        match sight {
            Sight::File(path, file) => match head::read(&path) {
                Ok(head) => self.model(keeper, path, &file, &head),
                Err(error) => broken(keeper, path, reason(error)),
            },
            Sight::Dangling(path) | Sight::Library(path) => {
                broken(keeper, path, "it is a link that leads to nothing".to_owned())
            }
        }
    }

    fn model(&self, keeper: Keeper, path: PathBuf, file: &Path, head: &Head) -> Found {
        let parts = head.paths.len();
        let digest = hub_digest(file).filter(|_| parts == 1);
        let standing = match kind(head.gguf.metadata()) {
            Some(standing) => standing,
            None if head.gguf.tensors().is_empty() => Standing::Broken("it has no tensors".to_owned()),
            None => self.standing(file, digest, head.file_bytes, parts),
        };
        Found {
            name: name::of_file(&head.gguf, &path).to_string(),
            path,
            parts,
            size_bytes: head.file_bytes,
            keeper,
            details: Details::of_file(&head.gguf),
            digest,
            standing,
        }
    }

    fn standing(&self, file: &Path, digest: Option<Digest>, size_bytes: u64, parts: usize) -> Standing {
        // An import makes one file of several, which is another.
        if parts > 1 {
            return Standing::New;
        }
        let here = digest.and_then(|digest| self.models.get(&digest));
        let here = here.or_else(|| self.files.get(&place(file)?));
        match (here, self.lengths.get(&size_bytes), digest) {
            (Some(model), _, _) => Standing::Here(model.clone()),
            (None, Some(model), None) => Standing::MaybeHere(model.clone()),
            (None, _, _) => Standing::New,
        }
    }

    /// The models of a library.
    fn library(&self, keeper: Keeper, root: &Path) -> Vec<Found> {
        let library = Library::new(root.to_owned());
        let keeper = if keeper == Keeper::Folder { Keeper::Ollama } else { keeper };
        let Ok(listing) = library.list() else { return Vec::new() };
        let mut found: Vec<Found> = listing
            .models
            .iter()
            .filter_map(|model| {
                let layer = model.manifest.layer(&LayerKind::Model)?;
                let name = model.name.to_string();
                let (path, standing) = match library.blob(layer) {
                    Ok(path) => {
                        let here = self.models.get(&layer.digest);
                        (path, here.map_or(Standing::New, |model| Standing::Here(model.clone())))
                    }
                    Err(error) => (library.blob_path(&layer.digest), Standing::Broken(error.to_string())),
                };
                let details = Details::of_config(&library.config(&model.manifest));
                let (digest, size_bytes) = (Some(layer.digest), model.manifest.size_bytes());
                Some(Found { name, path, parts: 1, size_bytes, keeper, details, digest, standing })
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

/// What the file says it is, when it is no model by itself.
fn kind(metadata: &Metadata) -> Option<Standing> {
    let text = |key: &str| metadata.str(key).ok().flatten().unwrap_or_default();
    match (text("general.type"), text("general.architecture")) {
        ("adapter", _) => Some(Standing::Adapter),
        ("mmproj" | "projector", _) | (_, "clip") => Some(Standing::Projector),
        _ => None,
    }
}

fn broken(keeper: Keeper, path: PathBuf, reason: String) -> Found {
    let size_bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (details, standing) = (Details::default(), Standing::Broken(reason));
    Found { name, path, parts: 1, size_bytes, keeper, details, digest: None, standing }
}

/// Why a head was not read, without the path, which is told beside it.
fn reason(error: Error) -> String {
    match error {
        Error::File { reason, .. } => reason,
        error => error.to_string(),
    }
}

/// The digest of a file of the hub's cache: its large files are called by nothing else.
fn hub_digest(file: &Path) -> Option<Digest> {
    let name = file.file_name()?.to_str()?;
    let is_blob = file.parent()?.file_name()? == "blobs" && name.len() == 64;
    is_blob.then(|| format!("sha256:{name}").parse().ok()).flatten()
}

/// Reads the files whose digest nobody knows.
fn read_all(found: &mut [Found], known: &Known, watch: &mut dyn FnMut(u64, u64) -> bool) {
    let to_read = |found: &Found| {
        found.digest.is_none()
            && found.parts == 1
            && matches!(found.standing, Standing::New | Standing::MaybeHere(_) | Standing::Here(_))
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
                found.standing = known.models.get(&digest).map_or(Standing::New, |m| Standing::Here(m.clone()));
            }
            Err(error) => found.standing = Standing::Broken(error.to_string()),
        }
        before += size_bytes;
    }
}

/// What two names of one file have in common.
#[cfg(unix)]
fn place(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn place(_: &Path) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests;
