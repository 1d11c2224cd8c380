//! What is known of sources from one program to the next: what mirrors said of names, so that a later disagreement of the
//! registry itself is noticed after a restart too, and which hosts rest.
//!
//! ```text
//! {"version":1,
//!  "said":[{"model":"registry.ollama.ai/library/m:latest","mirror":"nas:11434","digest":"sha256:..."}],
//!  "resting":[{"host":"nas:11434","failures":2,"until":1767225600}]}      seconds since 1970
//! ```
//!
//! The file is written whole, by a thread of its own, whenever something of it changes. One that cannot be read is said and
//! then replaced; one of a newer version is said and left alone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cairn_disk::{Disk, DiskError, Mode};
use cairn_store::{Digest, ModelRef};
use serde::{Deserialize, Serialize};

use super::health::Resting;
use super::{Shared, lock};
use crate::Clock;

const VERSION: u32 = 1;

/// Where it is kept, and by which clock.
pub struct SourceMemory {
    /// The file.
    pub path: PathBuf,
    /// The disk that it is on.
    pub disk: Arc<dyn Disk>,
    /// Waits are written down as times.
    pub clock: Clock,
    /// Told in a line what is wrong with the file, for the log.
    pub tell: Box<dyn Fn(String) + Send>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    said: Vec<Said>,
    resting: Vec<Rest>,
}

#[derive(Serialize, Deserialize)]
struct Said {
    model: String,
    mirror: String,
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct Rest {
    host: String,
    failures: u32,
    until: u64,
}

/// Only this much is looked at in a file whose version is not known.
#[derive(Deserialize)]
struct Header {
    version: u32,
}

impl SourceMemory {
    /// Recalls what was written down, and writes down what changes from now on. Blocks while it reads.
    pub(super) fn serve(self, shared: &Arc<Shared>) {
        self.clear();
        match self.read() {
            Ok(None) => {}
            Ok(Some(file)) => self.recall(&file, shared),
            Err(Unread::Newer(version)) => {
                let path = self.path.display();
                return (self.tell)(format!(
                    "{path} is of version {version}, which only a newer Cairn can read; it is left alone, and nothing is \
                     remembered of mirrors"
                ));
            }
            Err(Unread::Wrong(reason)) => {
                let path = self.path.display();
                (self.tell)(format!(
                    "{path} cannot be read and begins anew; what mirrors said before is forgotten: {reason}"
                ));
            }
        }
        let (changed, changes) = mpsc::channel();
        if shared.changed.set(changed).is_err() {
            // It is kept somewhere already.
            return;
        }
        let known = Arc::downgrade(shared);
        std::thread::Builder::new()
            .name("sources-keep".to_owned())
            .spawn(move || self.keep(&known, &changes))
            .expect("the system can start a thread");
    }

    fn keep(&self, known: &Weak<Shared>, changes: &mpsc::Receiver<()>) {
        let mut said = false;
        while changes.recv().is_ok() {
            // All that happened meanwhile is in one file.
            while changes.try_recv().is_ok() {}
            let Some(shared) = known.upgrade() else { return };
            let file = self.file(&shared);
            drop(shared);
            match self.write(&file) {
                Ok(()) => said = false,
                Err(error) if !std::mem::replace(&mut said, true) => {
                    (self.tell)(format!("what mirrors said is not remembered: {error}"));
                }
                Err(_) => {}
            }
        }
    }

    /// Removes what a program left half-written that was killed: `.<file>.<...>.tmp`. Only one program at a time keeps a
    /// file here.
    fn clear(&self) {
        let Some((folder, name)) = self.path.parent().zip(self.path.file_name().and_then(|name| name.to_str())) else {
            return;
        };
        let half = |path: &PathBuf| {
            let rest = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('.'));
            let rest = rest.and_then(|rest| rest.strip_prefix(name)).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| rest.ends_with(".tmp"))
        };
        // Where there is no folder yet, there is nothing in it.
        let paths = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for path in paths.filter(half) {
            // The next start tries again.
            let _ = self.disk.remove(&path);
        }
    }

    fn read(&self) -> Result<Option<File>, Unread> {
        let bytes = match self.disk.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Unread::Wrong(error.to_string())),
        };
        let wrong = |error: serde_json::Error| Unread::Wrong(error.to_string());
        let Header { version } = serde_json::from_slice(&bytes).map_err(wrong)?;
        if version > VERSION {
            return Err(Unread::Newer(version));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(wrong)
    }

    fn recall(&self, file: &File, shared: &Shared) {
        for said in &file.said {
            // One that makes no sense is no reason to forget the others.
            if let (Ok(name), Ok(digest)) = (said.model.parse::<ModelRef>(), said.digest.parse::<Digest>()) {
                shared.remember(name, said.mirror.clone(), digest);
            }
        }
        let now = seconds((self.clock)());
        for rest in &file.resting {
            let left = Duration::from_secs(rest.until.saturating_sub(now));
            shared.health.recall(&rest.host, Resting { failures: rest.failures, left });
        }
    }

    fn file(&self, shared: &Shared) -> File {
        let said = lock(&shared.said);
        let said = said.iter().map(|(name, (mirror, digest))| Said {
            model: name.full(),
            mirror: mirror.clone(),
            digest: digest.to_string(),
        });
        let mut said: Vec<Said> = said.collect();
        said.sort_unstable_by(|a, b| a.model.cmp(&b.model));
        let now = seconds((self.clock)());
        let rest = |(host, resting): (String, Resting)| Rest {
            host,
            failures: resting.failures,
            until: now.saturating_add(resting.left.as_secs()),
        };
        File { version: VERSION, said, resting: shared.health.resting().into_iter().map(rest).collect() }
    }

    fn write(&self, file: &File) -> Result<(), DiskError> {
        if let Some(folder) = self.path.parent().filter(|folder| *folder != Path::new("")) {
            self.disk.create_dir_all(folder)?;
        }
        let bytes = serde_json::to_vec(file).expect("our own types have string keys and finite numbers");
        self.disk.write_atomic(&self.path, &bytes, Mode::Private)
    }
}

enum Unread {
    Newer(u32),
    Wrong(String),
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
