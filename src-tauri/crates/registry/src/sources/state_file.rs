//! The state of sources that survives a restart: names that mirrors resolved, so that a later disagreement with the
//! registry is noticed, and hosts in backoff.
//!
//! ```text
//! {"version":1,
//!  "said":[{"model":"registry.ollama.ai/library/m:latest","mirror":"nas:11434","digest":"sha256:..."}],
//!  "resting":[{"host":"nas:11434","failures":2,"until":1767225600}]}      seconds since 1970
//! ```
//!
//! A background thread rewrites the file after each change. An unreadable file is reported and replaced. A file of a newer
//! version is reported and left unchanged.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cairn_disk::{Disk, DiskError, Mode};
use cairn_store::{Digest, ModelRef};
use serde::{Deserialize, Serialize};

use super::Shared;
use super::backoff::RemainingBackoff;
use crate::Clock;

const VERSION: u32 = 1;

/// The file for the state of [`super::Sources`].
pub struct SourceStateFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The disk of the file.
    pub disk: Arc<dyn Disk>,
    /// Clock for the end times of backoffs.
    pub clock: Clock,
    /// Receives warnings about the file, for the log.
    pub warn: Box<dyn Fn(String) + Send>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    #[serde(rename = "said")]
    resolutions: Vec<MirrorResolution>,
    #[serde(rename = "resting")]
    backoffs: Vec<Backoff>,
}

#[derive(Serialize, Deserialize)]
struct MirrorResolution {
    model: String,
    mirror: String,
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct Backoff {
    host: String,
    failures: u32,
    until: u64,
}

/// The part of the file that all versions have.
#[derive(Deserialize)]
struct Header {
    version: u32,
}

impl SourceStateFile {
    /// Restores the state and starts the thread that writes changes. Blocks while reading.
    pub(super) fn attach(self, shared: &Arc<Shared>) {
        self.remove_temporary_files();
        match self.read() {
            Ok(None) => {}
            Ok(Some(file)) => self.restore(&file, shared),
            Err(ReadError::Newer(version)) => {
                let path = self.path.display();
                return (self.warn)(format!(
                    "{path} has version {version}, which needs a newer Cairn; the file is left unchanged, and the state of \
                     mirrors is not saved"
                ));
            }
            Err(ReadError::Invalid(reason)) => {
                let path = self.path.display();
                (self.warn)(format!(
                    "cannot read {path}: {reason}; the file is replaced, and earlier resolutions by mirrors are lost"
                ));
            }
        }
        let (changed, changes) = mpsc::channel();
        if shared.changed.set(changed).is_err() {
            // A file is already attached.
            return;
        }
        let shared = Arc::downgrade(shared);
        std::thread::Builder::new()
            .name("sources-state".to_owned())
            .spawn(move || self.write_changes(&shared, &changes))
            .expect("the system can start a thread");
    }

    fn write_changes(&self, shared: &Weak<Shared>, changes: &mpsc::Receiver<()>) {
        let mut has_warned = false;
        while changes.recv().is_ok() {
            // One write covers all pending changes.
            while changes.try_recv().is_ok() {}
            let Some(shared) = shared.upgrade() else { return };
            let file = self.file(&shared);
            drop(shared);
            match self.write(&file) {
                Ok(()) => has_warned = false,
                Err(error) if !std::mem::replace(&mut has_warned, true) => {
                    (self.warn)(format!("cannot save the state of mirrors: {error}"));
                }
                Err(_) => {}
            }
        }
    }

    /// Removes temporary files of a killed process: `.<file>.<...>.tmp`. Only one process at a time uses this file.
    fn remove_temporary_files(&self) {
        let Some((folder, name)) = self.path.parent().zip(self.path.file_name().and_then(|name| name.to_str())) else {
            return;
        };
        let is_temporary = |path: &PathBuf| {
            let rest = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('.'));
            let rest = rest.and_then(|rest| rest.strip_prefix(name)).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| rest.ends_with(".tmp"))
        };
        // A missing folder contains no files.
        let paths = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for path in paths.filter(is_temporary) {
            // The next start retries.
            let _ = self.disk.remove(&path);
        }
    }

    fn read(&self) -> Result<Option<File>, ReadError> {
        let bytes = match self.disk.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ReadError::Invalid(error.to_string())),
        };
        let invalid = |error: serde_json::Error| ReadError::Invalid(error.to_string());
        let Header { version } = serde_json::from_slice(&bytes).map_err(invalid)?;
        if version > VERSION {
            return Err(ReadError::Newer(version));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(invalid)
    }

    fn restore(&self, file: &File, shared: &Shared) {
        for resolution in &file.resolutions {
            // Skip an invalid entry and keep the others.
            if let (Ok(name), Ok(digest)) = (resolution.model.parse::<ModelRef>(), resolution.digest.parse::<Digest>())
            {
                shared.remember(name, resolution.mirror.clone(), digest);
            }
        }
        let now = seconds((self.clock)());
        for backoff in &file.backoffs {
            let remaining = Duration::from_secs(backoff.until.saturating_sub(now));
            shared.backoff.restore(&backoff.host, RemainingBackoff { failures: backoff.failures, remaining });
        }
    }

    fn file(&self, shared: &Shared) -> File {
        let resolutions = shared.mirror_resolutions.lock();
        let resolutions = resolutions.iter().map(|(name, (mirror, digest))| MirrorResolution {
            model: name.full(),
            mirror: mirror.clone(),
            digest: digest.to_string(),
        });
        let mut resolutions: Vec<MirrorResolution> = resolutions.collect();
        resolutions.sort_unstable_by(|a, b| a.model.cmp(&b.model));
        let now = seconds((self.clock)());
        let backoff = |(host, backoff): (String, RemainingBackoff)| Backoff {
            host,
            failures: backoff.failures,
            until: now.saturating_add(backoff.remaining.as_secs()),
        };
        File { version: VERSION, resolutions, backoffs: shared.backoff.active().into_iter().map(backoff).collect() }
    }

    fn write(&self, file: &File) -> Result<(), DiskError> {
        if let Some(folder) = self.path.parent().filter(|folder| *folder != Path::new("")) {
            self.disk.create_dir_all(folder)?;
        }
        let bytes = serde_json::to_vec(file).expect("these types have string keys and no floats");
        self.disk.write_atomic(&self.path, &bytes, Mode::Private)
    }
}

enum ReadError {
    Newer(u32),
    Invalid(String),
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
