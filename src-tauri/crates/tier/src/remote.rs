//! The remote tier: a folder on a file server, or a bucket.
//!
//! The place belongs to others, too. It may be slow, hang for minutes, lose files, or be full of what strangers put there. So:
//!
//! * its files are sealed, and whatever is not what a holder of the same keys wrote under that name is a miss;
//! * every call is made by one of a few threads of its own, has a deadline, and is given up then; nobody joins those threads;
//! * after failures a breaker keeps calls away from it, at first for a minute; only scans, writes and removals try again, never a read
//!   that somebody waits for;
//! * what is there is known from a listing in memory, which scans refresh.
//!
//! Others may keep files of the same format there, under other names: those of an installation with another secret are left alone.
//!
//! Files have the format and the names of the SSD tier's, so that either can be copied to the other. A file is made complete and only
//! where there is none of that name, so that many machines may share a place.
//!
//! **Invariant:** what [`Tier::load`] returns is what [`Tier::save`] was given under that name by a holder of the same keys, and no
//! call takes much longer than the deadlines of [`RemoteOptions`].

mod breaker;
mod bucket;
mod crew;
mod files;
mod folder;
mod names;
mod scan;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::breaker::Breaker;
use self::crew::{Crew, Pending};
use self::names::{Name, Names};
use self::scan::FRONT_BYTES;
use crate::chunk::{Chunk, ChunkId};
use crate::clock::Clock;
use crate::format::{Check, FileKeys, Header, NONCE_BYTES, Packing, decode, encode};
use crate::identity::Namespace;
use crate::tier::{Miss, Place, Stored, Tier, TierError, Wanted};

pub use bucket::Bucket;
pub use files::{Files, Listed};
pub use folder::Folder;

/// How a remote place is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// How rows are stored.
    pub packing: Packing,
    /// How long a call may take that moves next to nothing.
    pub answer: Duration,
    /// What is added for a call that moves bytes: as long as they take at this rate.
    pub bytes_per_s: u64,
    /// How long a listing may take.
    pub list: Duration,
    /// How old a listing may be. Scans in between tell what is known.
    pub relist: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            packing: Packing::default(),
            answer: Duration::from_secs(5),
            bytes_per_s: 4 << 20,
            list: Duration::from_secs(60),
            relist: Duration::from_secs(300),
        }
    }
}

/// Whether a call may be the one that finds out if a place that failed is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    Yes,
    No,
}

/// See the module.
pub struct Remote {
    files: Arc<dyn Files>,
    crew: Crew,
    breaker: Breaker,
    names: Names,
    /// See [`Tier::heard_at`].
    heard_at_ns: Arc<AtomicU64>,
    /// When the names were listed. Held while they are.
    listed_at: Mutex<Option<Duration>>,
    keys: FileKeys,
    options: RemoteOptions,
    nonce: Box<dyn Fn() -> [u8; NONCE_BYTES] + Send + Sync>,
    clock: Arc<dyn Clock>,
}

impl Remote {
    /// Uses a place through threads of its own. Nothing is asked of it yet. `nonce` gives random bytes, other ones each time, on every
    /// machine that shares the place.
    ///
    /// # Errors
    /// Where the system gives no threads, or the machine's bytes are in the other order.
    pub fn open(
        files: Arc<dyn Files>,
        keys: FileKeys,
        options: RemoteOptions,
        clock: Arc<dyn Clock>,
        nonce: impl Fn() -> [u8; NONCE_BYTES] + Send + Sync + 'static,
    ) -> Result<Self, TierError> {
        if cfg!(target_endian = "big") {
            return Err(TierError::Failed("chunks are kept on little-endian machines only".to_owned()));
        }
        let crew = Crew::new(files.threads()).map_err(|error| TierError::Failed(error.to_string()))?;
        Ok(Self {
            crew,
            files,
            breaker: Breaker::default(),
            names: Names::default(),
            heard_at_ns: Arc::default(),
            listed_at: Mutex::default(),
            keys,
            options,
            nonce: Box::new(nonce),
            clock,
        })
    }

    /// The keys of a place that everyone who has this namespace's secret shares: sealed, and checked against malice. Files that are not
    /// sealed are made with [`FileKeys::new`] and [`Check::Keyed`].
    pub fn keys(place: &Namespace) -> FileKeys {
        FileKeys::new(place).checked(Check::Keyed).sealed(place.derive("kvc1 seal"))
    }

    /// Whether it is called at all. Not after it failed, until it has been tried again.
    pub fn is_up(&self) -> bool {
        self.breaker.is_closed()
    }

    /// How long a call may take that moves so many bytes.
    fn within(&self, bytes: u64) -> Duration {
        self.options.answer + Duration::from_millis(bytes.saturating_mul(1000) / self.options.bytes_per_s.max(1))
    }

    /// Has the place called. Every call that is begun is to be ended.
    fn begin<T: Send + 'static>(
        &self,
        may_try: Try,
        within: Duration,
        call: impl FnOnce(&dyn Files) -> Result<T, TierError> + Send + 'static,
    ) -> Result<Pending<T>, TierError> {
        if !self.breaker.admits(self.clock.now(), may_try == Try::Yes) {
            return Err(TierError::Away("the remote place failed, and is left alone for a while".to_owned()));
        }
        let files = Arc::clone(&self.files);
        self.crew
            .begin(within, move || call(files.as_ref()))
            .inspect_err(|_| self.breaker.note(self.clock.now(), false))
    }

    /// What a call gave.
    fn end<T>(&self, call: Pending<T>) -> Result<T, TierError> {
        let result = call.wait();
        // A place that is full answers.
        let went_well = matches!(result, Ok(_) | Err(TierError::Full(_)));
        self.breaker.note(self.clock.now(), went_well);
        result
    }

    fn ask<T: Send + 'static>(
        &self,
        may_try: Try,
        within: Duration,
        call: impl FnOnce(&dyn Files) -> Result<T, TierError> + Send + 'static,
    ) -> Result<T, TierError> {
        self.end(self.begin(may_try, within, call)?)
    }

    fn read(&self, may_try: Try, name: &Name, part: std::ops::Range<u64>) -> Result<Vec<u8>, Miss> {
        let (path, within) = (name.path(), self.within(part.end - part.start));
        let (heard, clock) = (Arc::clone(&self.heard_at_ns), Arc::clone(&self.clock));
        let heard = move || heard.store(clock.now().as_nanos() as u64, Ordering::Relaxed);
        let read = self.ask(may_try, within, move |files| files.read(&path, part, within, &heard))?;
        read.ok_or_else(|| {
            self.names.forget(name);
            Miss::Absent
        })
    }

    /// The file under a name, all of it if it is ours. No more is read than a header says that was checked.
    fn read_file(&self, name: &Name) -> Result<Vec<u8>, Miss> {
        if let Some(bytes) = self.names.file_bytes(name) {
            return self.read(Try::No, name, 0..bytes);
        }
        let mut file = self.read(Try::No, name, 0..FRONT_BYTES)?;
        let bytes = scan::header(&file, name, &self.keys)?.file_bytes;
        let have = file.len() as u64;
        if have < bytes.min(FRONT_BYTES) {
            return Err(Miss::Damaged("it has another length"));
        }
        if have < bytes {
            file.append(&mut self.read(Try::No, name, have..bytes)?);
        }
        file.truncate(bytes as usize);
        Ok(file)
    }

    /// What is there under this chunk's name, if those who could use the chunk can use it.
    fn as_good(&self, name: &Name, header: &Header) -> Result<Option<Header>, TierError> {
        let there = match self.read(Try::Yes, name, 0..FRONT_BYTES) {
            Ok(front) => scan::header(&front, name, &self.keys).ok(),
            Err(Miss::Tier(error)) => return Err(error),
            Err(_) => None,
        };
        let serves = |there: &Header| {
            there.id == header.id && there.class == header.class && (header.flags.lossy || !there.flags.lossy)
        };
        Ok(there.filter(serves))
    }

    /// A name for what has to lie somewhere while it is written.
    fn draft(&self) -> String {
        (self.nonce)().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Tier for Remote {
    fn place(&self) -> Place {
        Place::Remote
    }

    fn scan(&self, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
        scan::scan(self, each)
    }

    fn may_hold(&self, id: &ChunkId) -> bool {
        self.breaker.is_closed() && self.names.may_hold(&Name::of(id))
    }

    fn heard_at(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.heard_at_ns.load(Ordering::Relaxed)))
    }

    fn load(&self, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
        let name = Name::of(&wanted.id);
        let loaded = self.read_file(&name).and_then(|file| decode(&file, &self.keys, wanted));
        if let Err(Miss::Damaged(_) | Miss::Foreign) = loaded {
            self.names.spoil(name);
        }
        loaded
    }

    fn save(&self, chunk: &Chunk) -> Result<Stored, TierError> {
        let name = Name::of(&chunk.head.id);
        let encoded = encode(chunk, self.options.packing, &self.keys, (self.nonce)())?;
        let header = encoded.header().clone();
        let kept = |header: &Header| {
            let stored = header.stored(header.file_bytes);
            let stored = Stored { keys: Some(Arc::clone(&chunk.head.keys)), ..stored };
            self.names.wrote(name, stored.clone());
            stored
        };
        let within = self.within(header.file_bytes);
        // Nothing is sent where it is known to be there.
        if !self.names.is_listed(&name) {
            let (path, file, draft) = (name.path(), encoded.to_vec(), self.draft());
            if self.ask(Try::Yes, within, move |files| files.create(&path, file, &draft, within))? {
                return Ok(kept(&header));
            }
        }
        // Of a file that is spoiled further on, the head may be right.
        if !self.names.is_spoiled(&name)
            && let Some(there) = self.as_good(&name, &header)?
        {
            return Ok(kept(&there));
        }
        let (path, file, draft) = (name.path(), encoded.to_vec(), self.draft());
        self.ask(Try::Yes, within, move |files| files.replace(&path, file, &draft, within))?;
        Ok(kept(&header))
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        let name = Name::of(id);
        let (path, within) = (name.path(), self.options.answer);
        self.ask(Try::Yes, within, move |files| files.remove(&path, within))?;
        self.names.forget(&name);
        Ok(())
    }
}
