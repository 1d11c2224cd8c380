//! What files outside the libraries contain: their SHA-256, found in the background.
//!
//! A library's file has its digest for a name. Any other file can be replaced at any time, and what was computed with the old
//! contents must not be found for the new. So a file's prefixes are kept only once its contents are known, as long as the file is as
//! it was when they were read: same device, inode, length and times of change. That is looked at for each request.
//!
//! What is known outlives a restart, since the same file is as good then.

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

/// Files that are remembered.
const MAX_FILES: usize = 256;

/// By what a file that has not been changed is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    device: u64,
    inode: u64,
    size_bytes: u64,
    /// Nanoseconds since 1970.
    modified_ns: i64,
    /// As above: when anything of it was changed, the time before too. Where the system does not tell, when it was made.
    changed_ns: i64,
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().filter(Metadata::is_file).and_then(|found| Self::told(&found))
    }

    #[cfg(unix)]
    fn told(found: &Metadata) -> Option<Self> {
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
    fn told(found: &Metadata) -> Option<Self> {
        let ns =
            |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_nanos() as i64);
        let (modified_ns, changed_ns) = (ns(found.modified().ok()?)?, ns(found.created().ok()?)?);
        Some(Self { device: 0, inode: 0, size_bytes: found.len(), modified_ns, changed_ns })
    }
}

/// A file whose contents were read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    identity: Identity,
    /// SHA-256 in hexadecimal digits.
    sha256: String,
}

#[derive(Default)]
struct State {
    known: HashMap<PathBuf, Known>,
    /// Being read now.
    reading: HashMap<PathBuf, Identity>,
}

/// See the module.
pub(crate) struct Outside {
    state: Arc<Mutex<State>>,
    /// Held while a file is read: one at a time, so that they do not slow each other.
    turn: Arc<Mutex<()>>,
    remembered: PathBuf,
}

impl Outside {
    /// With what is remembered in a file, which is made at the first need.
    pub(crate) fn new(remembered: PathBuf) -> Self {
        // One that is missing or spoiled costs time only.
        let known = RealDisk.read(&remembered).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let state = State { known: known.unwrap_or_default(), reading: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)), turn: Arc::default(), remembered }
    }

    /// What stands for the contents of a model's files, if they are known as they are now; else that is found out for the next time.
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
        if let Some(known) = state.known.get(path).filter(|known| known.identity == identity) {
            return format!("sha256:{}", known.sha256).parse().ok();
        }
        if state.reading.get(path) == Some(&identity) {
            return None;
        }
        state.reading.insert(path.to_owned(), identity);
        drop(state);
        let (path, state, turn) = (path.to_owned(), Arc::clone(&self.state), Arc::clone(&self.turn));
        let remembered = self.remembered.clone();
        let read = move || {
            let turn = turn.lock();
            let digest = File::open(&path).and_then(|file| hash_file(&file, &mut |_| true)).ok().flatten();
            drop(turn);
            let mut state = state.lock();
            state.reading.remove(&path);
            // One that was changed meanwhile is neither the old nor the new.
            if let Some(digest) = digest.filter(|_| Identity::of(&path) == Some(identity)) {
                if state.known.len() >= MAX_FILES {
                    state.known.clear();
                }
                state.known.insert(path, Known { identity, sha256: digest.hex() });
                // Where it cannot be written, it is found out again after a restart.
                if let Ok(json) = serde_json::to_vec(&state.known) {
                    let folder = remembered.parent().map_or(Ok(()), |folder| RealDisk.create_dir_all(folder));
                    let _ = folder.and_then(|()| RealDisk.write_atomic(&remembered, &json, Mode::Private));
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("file-digest".to_owned()).spawn(read) {
            tracing::warn!(%error, "a file's contents are not looked at, so its prefixes are not kept");
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

        fn open(&self) -> Outside {
            Outside::new(self.path("cache/digests.json"))
        }
    }

    /// What is known once what is being read has been read.
    fn soon(outside: &Outside, paths: &[PathBuf]) -> Option<[u8; 32]> {
        let first = outside.weights(paths);
        let until = Instant::now() + Duration::from_secs(20);
        while !outside.state.lock().reading.is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        first.or_else(|| outside.weights(paths))
    }

    fn digest(bytes: &[u8]) -> Option<[u8; 32]> {
        Some(*Digest::of(bytes).as_bytes())
    }

    #[test]
    fn a_file_is_known_after_it_was_read_and_until_it_is_changed() {
        let home = Home(tempfile::tempdir().expect("a temporary folder"));
        let file = home.path("m.gguf");
        let paths = [file.clone()];
        std::fs::write(&file, b"old contents").expect("it is writable");
        let outside = home.open();
        assert_eq!(outside.weights(&paths), None, "not before it was read, and nobody waits for that");
        assert_eq!(soon(&outside, &paths), digest(b"old contents"), "then it is known");
        assert_eq!(home.open().weights(&paths), digest(b"old contents"), "after a restart too");

        let modified = file.metadata().and_then(|found| found.modified()).expect("it is there");
        std::fs::write(&file, b"new contents").expect("it is writable");
        // Same name, length and time: the time of the change itself cannot be set.
        File::options().write(true).open(&file).and_then(|file| file.set_modified(modified)).expect("it is ours");
        if cfg!(unix) {
            assert_eq!(outside.weights(&paths), None, "what was changed is not known");
            assert_eq!(soon(&outside, &paths), digest(b"new contents"), "until it was read");
        }
        std::fs::write(home.path("other"), b"new contents").expect("it is writable");
        std::fs::rename(home.path("other"), &file).expect("it is writable");
        assert_eq!(outside.weights(&paths), None, "another file of that name is another file");
    }

    #[test]
    fn all_parts_of_a_model_count() {
        let home = Home(tempfile::tempdir().expect("a temporary folder"));
        let parts = ["a", "b"].map(|name| home.path(name));
        for part in &parts {
            std::fs::write(part, part.as_os_str().as_encoded_bytes()).expect("it is writable");
        }
        let outside = home.open();
        let both = soon(&outside, &parts).expect("they were read");
        std::fs::write(&parts[1], b"another").expect("it is writable");
        let changed = soon(&outside, &parts).expect("they were read");
        assert_ne!(both, changed, "one part is another");
        assert_eq!(soon(&outside, &parts[..1]), digest(parts[0].as_os_str().as_encoded_bytes()), "one is itself");
        assert_eq!(outside.weights(&[home.path("absent")]), None, "what is not there is not known");
    }
}
