//! SHA-256 digests of files outside the libraries, computed in the background.
//!
//! A library's file is named after its digest. Any other file can be replaced at any time, and rows that were computed
//! with the old contents must not be used with the new ones. So rows of a file are cached only after its digest is
//! computed, and only while the file is unchanged: same device, inode, size and times of change. Each request checks
//! this.
//!
//! Digests are stored on disk and survive a restart.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(not(unix))]
use std::time::UNIX_EPOCH;

use cairn_disk::{Disk, Mode, RealDisk};
use cairn_store::{Digest, hash_file};
use serde::{Deserialize, Serialize};

/// Most files whose digests are stored.
const MAX_FILES: usize = 256;

/// Identity of an unchanged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    device: u64,
    inode: u64,
    size_bytes: u64,
    /// Nanoseconds since 1970.
    modified_ns: i64,
    /// Time of the last change of the inode, in nanoseconds since 1970; the creation time on systems without it.
    changed_ns: i64,
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().filter(Metadata::is_file).and_then(|found| Self::from_metadata(&found))
    }

    #[cfg(unix)]
    fn from_metadata(found: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            size_bytes: found.len(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        })
    }

    #[cfg(not(unix))]
    fn from_metadata(found: &Metadata) -> Option<Self> {
        let ns =
            |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_nanos() as i64);
        let (modified_ns, changed_ns) = (ns(found.modified().ok()?)?, ns(found.created().ok()?)?);
        Some(Self { device: 0, inode: 0, size_bytes: found.len(), modified_ns, changed_ns })
    }
}

/// Digest of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct FileDigest {
    identity: Identity,
    /// SHA-256 in hexadecimal digits.
    sha256: String,
}

#[derive(Default)]
struct State {
    digests: HashMap<PathBuf, FileDigest>,
    /// Files that are being read.
    reading: HashMap<PathBuf, Identity>,
}

/// Cache of file digests.
pub(crate) struct FileDigests {
    state: Arc<Mutex<State>>,
    /// Held while a file is read: files are read one at a time, so that they do not slow each other.
    turn: Arc<Mutex<()>>,
    stored_at: PathBuf,
}

impl FileDigests {
    /// Opens the digests in a file, which is created at the first write.
    pub(crate) fn new(stored_at: PathBuf) -> Self {
        // A missing or damaged file only costs time.
        let digests = RealDisk.read(&stored_at).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let state = State { digests: digests.unwrap_or_default(), reading: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)), turn: Arc::default(), stored_at }
    }

    /// Returns the digest of a model's files, if it is known for their current state. Otherwise computes it in the
    /// background.
    pub(crate) fn weights(&self, paths: &[PathBuf]) -> Option<[u8; 32]> {
        let digests: Vec<Option<Digest>> = paths.iter().map(|path| self.digest(path)).collect();
        let digests: Vec<Digest> = digests.into_iter().collect::<Option<_>>()?;
        match digests.as_slice() {
            [] => None,
            [one] => Some(*one.as_bytes()),
            parts => Some(*Digest::of(&parts.iter().flat_map(|part| *part.as_bytes()).collect::<Vec<_>>()).as_bytes()),
        }
    }

    fn digest(&self, path: &Path) -> Option<Digest> {
        let identity = Identity::of(path)?;
        let mut state = self.state.lock();
        if let Some(file) = state.digests.get(path).filter(|file| file.identity == identity) {
            return format!("sha256:{}", file.sha256).parse().ok();
        }
        if state.reading.get(path) == Some(&identity) {
            return None;
        }
        state.reading.insert(path.to_owned(), identity);
        drop(state);
        let (path, state, turn) = (path.to_owned(), Arc::clone(&self.state), Arc::clone(&self.turn));
        let stored_at = self.stored_at.clone();
        let read = move || {
            let turn = turn.lock();
            let digest = File::open(&path).and_then(|file| hash_file(&file, &mut |_| true)).ok().flatten();
            drop(turn);
            let mut state = state.lock();
            state.reading.remove(&path);
            // A file that changed during the read has neither the old nor the new contents.
            if let Some(digest) = digest.filter(|_| Identity::of(&path) == Some(identity)) {
                if state.digests.len() >= MAX_FILES {
                    state.digests.clear();
                }
                state.digests.insert(path, FileDigest { identity, sha256: digest.hex() });
                // If the write fails, the digest is computed again after a restart.
                if let Ok(json) = serde_json::to_vec(&state.digests) {
                    let folder = stored_at.parent().map_or(Ok(()), |folder| RealDisk.create_dir_all(folder));
                    let _ = folder.and_then(|()| RealDisk.write_atomic(&stored_at, &json, Mode::Private));
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("file-digest".to_owned()).spawn(read) {
            tracing::warn!(%error, "cannot compute the digest of a file; its rows are not cached");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn open(&self) -> FileDigests {
            FileDigests::new(self.path("cache/digests.json"))
        }
    }

    /// Returns the digest after all reads have finished.
    fn wait_for_weights(digests: &FileDigests, paths: &[PathBuf]) -> Option<[u8; 32]> {
        let first = digests.weights(paths);
        let until = Instant::now() + Duration::from_secs(20);
        while !digests.state.lock().reading.is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        first.or_else(|| digests.weights(paths))
    }

    fn digest(bytes: &[u8]) -> Option<[u8; 32]> {
        Some(*Digest::of(bytes).as_bytes())
    }

    #[test]
    fn file_digest_is_available_until_the_file_changes() {
        let home = Home(tempfile::tempdir().expect("a temporary folder"));
        let file = home.path("m.gguf");
        let paths = [file.clone()];
        std::fs::write(&file, b"old contents").expect("the folder is writable");
        let digests = home.open();
        assert_eq!(digests.weights(&paths), None, "not available before the read");
        assert_eq!(wait_for_weights(&digests, &paths), digest(b"old contents"), "available after the read");
        assert_eq!(home.open().weights(&paths), digest(b"old contents"), "available after a restart");

        let modified = file.metadata().and_then(|found| found.modified()).expect("the file exists");
        std::fs::write(&file, b"new contents").expect("the folder is writable");
        // Same name, length and modification time: the time of the change itself cannot be set.
        File::options()
            .write(true)
            .open(&file)
            .and_then(|file| file.set_modified(modified))
            .expect("the file is writable");
        if cfg!(unix) {
            assert_eq!(digests.weights(&paths), None, "not available after a change");
            assert_eq!(wait_for_weights(&digests, &paths), digest(b"new contents"), "available after the next read");
        }
        std::fs::write(home.path("other"), b"new contents").expect("the folder is writable");
        std::fs::rename(home.path("other"), &file).expect("the folder is writable");
        assert_eq!(digests.weights(&paths), None, "not available for a replaced file");
    }

    #[test]
    fn digest_of_a_split_model_covers_all_parts() {
        let home = Home(tempfile::tempdir().expect("a temporary folder"));
        let parts = ["a", "b"].map(|name| home.path(name));
        for part in &parts {
            std::fs::write(part, part.as_os_str().as_encoded_bytes()).expect("the folder is writable");
        }
        let digests = home.open();
        let both = wait_for_weights(&digests, &parts).expect("the files were read");
        std::fs::write(&parts[1], b"another").expect("the folder is writable");
        let changed = wait_for_weights(&digests, &parts).expect("the files were read");
        assert_ne!(both, changed, "a changed part changes the digest");
        assert_eq!(
            wait_for_weights(&digests, &parts[..1]),
            digest(parts[0].as_os_str().as_encoded_bytes()),
            "a single file has its own digest"
        );
        assert_eq!(digests.weights(&[home.path("absent")]), None, "a missing file has no digest");
    }
}
