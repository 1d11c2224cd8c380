//! What is remembered of pulls while no daemon runs: one file for each, in the library that the model is to be in.
//!
//! ```text
//! <library>/.cairn/pulls/<SHA-256 of the model's name in small letters>.json
//! {"version":1,"model":"registry.ollama.ai/library/m:latest","http":false,"insecure":false,"sources":[],
//!  "detached":true,"state":"running","error":null,"position":0,"blobs":[{"digest":"sha256:...","size":123}]}
//! <...>.lock    held by the daemon that works on it
//! ```
//!
//! A newer version's file is left alone. The bytes themselves are the business of the downloads' own journals: a lost file
//! here costs a line in a list and no bytes.
//!
//! **Invariant:** one thread writes all of it, in the order in which it was asked to, so that a disk that takes its time
//! keeps no stream waiting and no older state overwrites a newer one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use cairn_disk::{Disk, DiskError, LockFile, Mode};
use cairn_store::{Digest, Library, ModelRef};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::PullState;
use super::job::{Asked, Job};

const VERSION: u32 = 1;

/// A pull as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Remembered {
    version: u32,
    model: String,
    /// The name was written with `http://`.
    http: bool,
    insecure: bool,
    sources: Vec<String>,
    /// Absent where nobody but users pulled.
    #[serde(default)]
    for_clients: bool,
    pub(super) detached: bool,
    pub(super) state: PullState,
    pub(super) error: Option<String>,
    pub(super) position: usize,
    pub(super) blobs: Vec<Blob>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Blob {
    pub(super) digest: String,
    pub(super) size: u64,
}

/// What is to be done with the files.
enum Task {
    /// Write down how a job stands when its turn comes.
    Write { job: Arc<Job>, position: usize },
    /// Forget a job, and let go of it.
    Remove(Arc<Job>),
    /// Say that everything before this is done.
    Tell(oneshot::Sender<()>),
}

/// The files, and the thread that writes them.
pub(super) struct Journal {
    files: Files,
    tasks: mpsc::Sender<Task>,
}

impl Journal {
    pub(super) fn of(library: &Library, disk: Arc<dyn Disk>) -> Self {
        let files = Files { folder: library.root().join(".cairn").join("pulls"), disk };
        let (tasks, waiting) = mpsc::channel();
        let writing = files.clone();
        std::thread::Builder::new()
            .name("pulls-keep".to_owned())
            .spawn(move || waiting.iter().for_each(|task| writing.perform(task)))
            .expect("the system can start a thread");
        Self { files, tasks }
    }

    /// Writes down soon how a job stands then, unless it is another daemon's.
    pub(super) fn write(&self, job: &Arc<Job>, position: usize) {
        self.ask(Task::Write { job: Arc::clone(job), position });
    }

    /// Forgets a job soon, and lets go of it.
    pub(super) fn remove(&self, job: &Arc<Job>) {
        self.ask(Task::Remove(Arc::clone(job)));
    }

    /// Returns when everything that was asked for before is done.
    pub(super) async fn settled(&self) {
        let (tell, told) = oneshot::channel();
        self.ask(Task::Tell(tell));
        // A thread that panicked has said so, and settles nothing more.
        let _ = told.await;
    }

    fn ask(&self, task: Task) {
        // The thread lives as long as this does, unless it panicked.
        let _ = self.tasks.send(task);
    }

    /// What is remembered, for who starts. Blocks.
    pub(super) fn read(&self) -> Vec<(ModelRef, Asked, LockFile, Remembered)> {
        self.files.read()
    }

    /// Everything that a remembered pull names, of whichever daemon and version. Blocks.
    pub(super) fn named(&self) -> Vec<Digest> {
        let entries = std::fs::read_dir(&self.files.folder).into_iter().flatten().flatten();
        let texts = entries.filter_map(|entry| self.files.disk.read(&entry.path()).ok());
        let digests = |text: Vec<u8>| -> Vec<Digest> {
            String::from_utf8_lossy(&text).split('"').filter_map(|word| word.parse().ok()).collect()
        };
        texts.flat_map(digests).collect()
    }

    /// Forgets a pull that no job was made of. Blocks.
    pub(super) fn forget(&self, name: &ModelRef) {
        self.files.remove(name);
    }
}

/// The folder of what is remembered.
#[derive(Clone)]
struct Files {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Files {
    fn perform(&self, task: Task) {
        match task {
            Task::Write { job, position } => {
                let over = {
                    let view = job.view();
                    // From then on it is only to be forgotten, unless that fails, which is written down anew.
                    view.publishing || view.state == PullState::Done
                };
                if over {
                    return;
                }
                job.claim(|| self.claim(&job.name));
                if !job.is_claimed() {
                    return;
                }
                if let Err(error) = self.write(&job, position) {
                    tracing::warn!(model = %job.name, %error, "the pull will not be remembered when the daemon ends");
                }
            }
            Task::Remove(job) => {
                if job.is_claimed() {
                    self.remove(&job.name);
                }
                job.let_go();
            }
            // Whoever asked may have gone.
            Task::Tell(tell) => drop(tell.send(())),
        }
    }

    /// Keeps other daemons of the library from a model's pull; `None` where one of them has it, or the disk refuses.
    fn claim(&self, name: &ModelRef) -> Option<LockFile> {
        self.disk.create_dir_all(&self.folder).ok()?;
        LockFile::try_acquire(&self.path(name, "lock")).ok()
    }

    fn write(&self, job: &Job, position: usize) -> Result<(), DiskError> {
        let remembered = {
            let view = job.view();
            let blob = |blob: &super::PulledBlob| Blob { digest: blob.digest.to_string(), size: blob.size_bytes };
            Remembered {
                version: VERSION,
                model: job.name.full(),
                http: view.asked.name.insecure(),
                insecure: view.asked.insecure,
                sources: view.asked.sources.clone(),
                for_clients: view.asked.for_clients,
                detached: view.detached,
                state: view.state,
                error: view.error.as_ref().map(ToString::to_string),
                position,
                blobs: view.blobs.iter().map(blob).collect(),
            }
        };
        let bytes = serde_json::to_vec(&remembered).expect("our own types have string keys and finite numbers");
        self.disk.write_atomic(&self.path(&job.name, "json"), &bytes, Mode::Private)
    }

    /// Forgets a model's pull.
    fn remove(&self, name: &ModelRef) {
        let path = self.path(name, "json");
        if path.exists()
            && let Err(error) = self.disk.remove(&path)
        {
            tracing::warn!(%error, "a pull that is over stays in the list of the next start");
        }
    }

    /// Everything that is remembered and that no other daemon works on, in its order. What killed daemons left half-written
    /// is cleared away.
    fn read(&self) -> Vec<(ModelRef, Asked, LockFile, Remembered)> {
        // Where there is no folder, nothing is remembered.
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let mut read = Vec::new();
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // Names with a dot come first: what is half-written is cleared away before anybody has a claim.
        paths.sort_unstable();
        for path in paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => read.extend(self.read_one(&path)),
                // Taking a dead claim and letting go of it removes it.
                Some("lock") if !path.with_extension("json").exists() => drop(LockFile::try_acquire(&path)),
                Some("lock") => {}
                _ => self.clear(&path),
            }
        }
        read.sort_by_key(|(_, _, _, remembered): &(_, _, _, Remembered)| remembered.position);
        read
    }

    fn read_one(&self, path: &Path) -> Option<(ModelRef, Asked, LockFile, Remembered)> {
        let refuse = |reason: String| tracing::warn!(path = %path.display(), reason, "left alone");
        let claim = LockFile::try_acquire(&path.with_extension("lock")).ok()?;
        let bytes = self.disk.read(path).map_err(|error| refuse(error.to_string())).ok()?;
        let version = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok()?.get("version")?.as_u64();
        match version(&bytes) {
            Some(version) if version > u64::from(VERSION) => {
                refuse(format!("it is of version {version}, which only a newer Cairn can read"));
                return None;
            }
            _ => {}
        }
        let remembered: Remembered = serde_json::from_slice(&bytes).map_err(|error| refuse(error.to_string())).ok()?;
        let scheme = if remembered.http { "http://" } else { "" };
        let name: ModelRef =
            format!("{scheme}{}", remembered.model).parse().map_err(|_| refuse("it names no model".to_owned())).ok()?;
        let (insecure, sources) = (remembered.insecure, remembered.sources.clone());
        let asked = Asked { name: name.clone(), insecure, sources, for_clients: remembered.for_clients };
        // One under another name than its model's would be written a second time.
        (self.path(&name, "json") == *path).then_some((name, asked, claim, remembered))
    }

    /// Removes the temporary file of a write that a killed daemon did not finish: `.<hex>.json.<...>.tmp`.
    fn clear(&self, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('.'));
        let Some((hex, _)) = name.and_then(|name| name.split_once(".json.")) else { return };
        // Whoever has the claim may be writing just now.
        if let Ok(_claim) = LockFile::try_acquire(&self.folder.join(format!("{hex}.lock"))) {
            // The next start tries again.
            let _ = self.disk.remove(path);
        }
    }

    fn path(&self, name: &ModelRef, extension: &str) -> PathBuf {
        let key = Digest::of(name.full().to_ascii_lowercase().as_bytes());
        self.folder.join(format!("{}.{extension}", key.hex()))
    }
}

#[cfg(test)]
mod tests;
