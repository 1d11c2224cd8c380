//! Journal of pulls, which survives the daemon: one file for each job, in the library that the model is pulled into.
//!
//! ```text
//! <library>/.cairn/pulls/<SHA-256 of the model's name in lower case>.json
//! {"version":1,"model":"registry.ollama.ai/library/m:latest","http":false,"insecure":false,"sources":[],
//!  "detached":true,"state":"running","error":null,"position":0,"blobs":[{"digest":"sha256:...","size":123}]}
//! <...>.lock    held by the daemon that runs the job
//! ```
//!
//! A file of a newer version is ignored. Partial blobs have journals of their own: if a file here is lost, the job
//! disappears from the list, but no bytes are lost.
//!
//! **Invariant:** one thread writes all files, in the order of the requests. So a slow disk blocks no task, and no
//! older state overwrites a newer one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use cairn_disk::{Disk, DiskError, LockFile, Mode};
use cairn_store::{Digest, Library, ModelRef};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::PullState;
use super::job::{Job, PullRequest};

const VERSION: u32 = 1;

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedPull {
    version: u32,
    model: String,
    /// Whether the name was written with `http://`.
    http: bool,
    insecure: bool,
    sources: Vec<String>,
    /// Missing in files of versions without the mirror.
    #[serde(default)]
    for_clients: bool,
    /// Missing in files of versions without the check.
    #[serde(default)]
    force: bool,
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

/// A request to the writing thread.
enum Task {
    /// Write the state that the job then has.
    Write { job: Arc<Job>, position: usize },
    /// Remove the file of a job and release its claim.
    Remove(Arc<Job>),
    /// Acknowledge that all earlier tasks are done.
    Flush(oneshot::Sender<()>),
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
            .name("pull-journal".to_owned())
            .spawn(move || waiting.iter().for_each(|task| writing.perform(task)))
            .expect("the system can start a thread");
        Self { files, tasks }
    }

    /// Queues a write of the job's state, unless another daemon holds its claim.
    pub(super) fn write(&self, job: &Arc<Job>, position: usize) {
        self.send(Task::Write { job: Arc::clone(job), position });
    }

    /// Queues the removal of a job's file and the release of its claim.
    pub(super) fn remove(&self, job: &Arc<Job>) {
        self.send(Task::Remove(Arc::clone(job)));
    }

    /// Waits until all earlier tasks are done.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        self.send(Task::Flush(done));
        // A thread that panicked drops the sender.
        let _ = flushed.await;
    }

    fn send(&self, task: Task) {
        // The thread lives as long as `self`, unless it panicked.
        let _ = self.tasks.send(task);
    }

    /// Reads all jobs that no other daemon runs, at the start of the daemon. Blocks.
    pub(super) fn read(&self) -> Vec<(ModelRef, PullRequest, LockFile, SavedPull)> {
        self.files.read()
    }

    /// Returns all digests in the files of any daemon and version. Blocks.
    pub(super) fn digests(&self) -> Vec<Digest> {
        let entries = std::fs::read_dir(&self.files.folder).into_iter().flatten().flatten();
        let texts = entries.filter_map(|entry| self.files.disk.read(&entry.path()).ok());
        let digests = |text: Vec<u8>| -> Vec<Digest> {
            String::from_utf8_lossy(&text).split('"').filter_map(|word| word.parse().ok()).collect()
        };
        texts.flat_map(digests).collect()
    }

    /// Removes the file of a model that has no job. Blocks.
    pub(super) fn forget(&self, name: &ModelRef) {
        self.files.remove(name);
    }
}

/// The folder of the files.
#[derive(Clone)]
struct Files {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Files {
    fn perform(&self, task: Task) {
        match task {
            Task::Write { job, position } => {
                let is_finished = {
                    let view = job.view();
                    // The file will be removed next. If publishing fails, the job is written again.
                    view.publishing || view.state == PullState::Done
                };
                if is_finished {
                    return;
                }
                job.claim(|| self.claim(&job.name));
                if !job.is_claimed() {
                    return;
                }
                if let Err(error) = self.write(&job, position) {
                    tracing::warn!(model = %job.name, %error, "cannot store the pull, so a restart loses it");
                }
            }
            Task::Remove(job) => {
                if job.is_claimed() {
                    self.remove(&job.name);
                }
                job.release_claim();
            }
            // The receiver may have been dropped.
            Task::Flush(done) => drop(done.send(())),
        }
    }

    /// Locks a model's pull against other daemons of the library. `None` if another daemon holds the lock, or the disk
    /// fails.
    fn claim(&self, name: &ModelRef) -> Option<LockFile> {
        self.disk.create_dir_all(&self.folder).ok()?;
        LockFile::try_acquire(&self.path(name, "lock")).ok()
    }

    fn write(&self, job: &Job, position: usize) -> Result<(), DiskError> {
        let saved = {
            let view = job.view();
            let blob = |blob: &super::PulledBlob| Blob { digest: blob.digest.to_string(), size: blob.size_bytes };
            SavedPull {
                version: VERSION,
                model: job.name.full(),
                http: view.request.name.insecure(),
                insecure: view.request.insecure,
                sources: view.request.sources.clone(),
                for_clients: view.request.for_clients,
                force: view.request.force,
                detached: view.detached,
                state: view.state,
                error: view.error.as_ref().map(ToString::to_string),
                position,
                blobs: view.blobs.iter().map(blob).collect(),
            }
        };
        let bytes = serde_json::to_vec(&saved).expect("our own types have string keys and finite numbers");
        self.disk.write_atomic(&self.path(&job.name, "json"), &bytes, Mode::Private)
    }

    /// Removes the file of a model's pull.
    fn remove(&self, name: &ModelRef) {
        let path = self.path(name, "json");
        if path.exists()
            && let Err(error) = self.disk.remove(&path)
        {
            tracing::warn!(%error, "cannot remove the record of a finished pull; the next daemon will list it");
        }
    }

    /// Reads all jobs that no other daemon runs, in their order. Removes temporary files of killed daemons.
    fn read(&self) -> Vec<(ModelRef, PullRequest, LockFile, SavedPull)> {
        // Without a folder, no job is stored.
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let mut read = Vec::new();
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // Names with a dot sort first: temporary files are removed before any claim is taken.
        paths.sort_unstable();
        for path in paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => read.extend(self.read_job(&path)),
                // Acquiring and dropping a stale lock removes its file.
                Some("lock") if !path.with_extension("json").exists() => drop(LockFile::try_acquire(&path)),
                Some("lock") => {}
                _ => self.remove_temporary(&path),
            }
        }
        read.sort_by_key(|(_, _, _, saved): &(_, _, _, SavedPull)| saved.position);
        read
    }

    fn read_job(&self, path: &Path) -> Option<(ModelRef, PullRequest, LockFile, SavedPull)> {
        let refuse = |reason: String| tracing::warn!(path = %path.display(), reason, "ignored a file of the journal");
        let claim = LockFile::try_acquire(&path.with_extension("lock")).ok()?;
        let bytes = self.disk.read(path).map_err(|error| refuse(error.to_string())).ok()?;
        let version = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok()?.get("version")?.as_u64();
        match version(&bytes) {
            Some(version) if version > u64::from(VERSION) => {
                refuse(format!("version {version} is newer than this program"));
                return None;
            }
            _ => {}
        }
        let saved: SavedPull = serde_json::from_slice(&bytes).map_err(|error| refuse(error.to_string())).ok()?;
        let scheme = if saved.http { "http://" } else { "" };
        let name: ModelRef =
            format!("{scheme}{}", saved.model).parse().map_err(|_| refuse("invalid model name".to_owned())).ok()?;
        let request = PullRequest {
            name: name.clone(),
            insecure: saved.insecure,
            sources: saved.sources.clone(),
            for_clients: saved.for_clients,
            force: saved.force,
        };
        // The job would be written to another file than this one.
        (self.path(&name, "json") == *path).then_some((name, request, claim, saved))
    }

    /// Removes the temporary file of an unfinished write: `.<hex>.json.<...>.tmp`.
    fn remove_temporary(&self, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('.'));
        let Some((hex, _)) = name.and_then(|name| name.split_once(".json.")) else { return };
        // The daemon that holds the claim may be writing the file.
        if let Ok(_claim) = LockFile::try_acquire(&self.folder.join(format!("{hex}.lock"))) {
            // The next start retries.
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
