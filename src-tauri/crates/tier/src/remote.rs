//! The remote tier: a folder on a file server, or a bucket.
//!
//! The server is not trusted and not reliable: it may be slow, hang for minutes, lose files, or contain files of
//! strangers. Therefore:
//!
//! * Files are encrypted. Any file that a holder of the same keys did not write under that name is a miss.
//! * A few dedicated threads make all calls. Each call has a deadline after which it is abandoned. The threads are
//!   never joined.
//! * After failures a circuit breaker stops calls, at first for a minute. Only scans, writes and removals probe again,
//!   never a read that a restore waits for.
//! * The known files are listed in memory. Scans refresh the listing.
//!
//! Installations with another secret may store files in the same folder under other names. Their files are left
//! untouched.
//!
//! Files have the format and names of the SSD tier, so they can be copied between the two. A file is created
//! atomically and only if the name is free, so many machines may share a folder or bucket.
//!
//! **Invariant:** [`Tier::load`] returns only what a holder of the same keys passed to [`Tier::save`] under that name.
//! No call takes much longer than the timeouts of [`RemoteOptions`].

#[cfg_attr(not(feature = "cloud"), path = "remote/no_bucket.rs")]
mod bucket;
mod circuit_breaker;
mod file_store;
mod folder;
mod listing;
mod request_pool;
mod scan;

#[cfg(all(test, feature = "cloud"))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use self::circuit_breaker::CircuitBreaker;
use self::listing::{ChunkFileName, Listing};
use self::request_pool::{PendingRequest, RequestPool};
use self::scan::FRONT_BYTES;
use crate::chunk::{Chunk, ChunkId};
use crate::clock::Clock;
use crate::format::{Checksum, FileKeys, Header, NONCE_BYTES, Packing, decode, encode};
use crate::identity::Namespace;
use crate::tier::{ChunkRequest, Miss, StoredChunk, Tier, TierError, TierKind};

pub use bucket::Bucket;
pub use file_store::{FileEntry, FileStore};
pub use folder::SharedFolder;

/// Options of a remote tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Compression of rows.
    pub packing: Packing,
    /// Timeout of a call that transfers next to nothing.
    pub response_timeout: Duration,
    /// Minimum transfer rate. It extends the timeout of calls that transfer bytes.
    pub min_bytes_per_s: u64,
    /// Timeout of a listing.
    pub list_timeout: Duration,
    /// Minimum time between listings. Scans in between use the last one.
    pub list_interval: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            packing: Packing::default(),
            response_timeout: Duration::from_secs(5),
            min_bytes_per_s: 4 << 20,
            list_timeout: Duration::from_secs(60),
            list_interval: Duration::from_secs(300),
        }
    }
}

/// Whether a call may probe a server that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Allowed,
    Forbidden,
}

/// Tier on an untrusted file server or bucket. Files are encrypted.
pub struct RemoteTier {
    files: Arc<dyn FileStore>,
    pool: RequestPool,
    breaker: CircuitBreaker,
    names: Listing,
    /// See [`Tier::last_response_at`].
    last_response_ns: Arc<AtomicU64>,
    /// Time of the last listing. Locked during a listing.
    listed_at: Mutex<Option<Duration>>,
    keys: FileKeys,
    options: RemoteOptions,
    nonce: Box<dyn Fn() -> [u8; NONCE_BYTES] + Send + Sync>,
    clock: Arc<dyn Clock>,
}

impl RemoteTier {
    /// Opens a remote tier with its own threads. Makes no call yet. `nonce` must return unique random bytes, also
    /// across the machines that share the tier.
    ///
    /// # Errors
    /// If no threads can be created, or the machine is big-endian.
    pub fn open(
        files: Arc<dyn FileStore>,
        keys: FileKeys,
        options: RemoteOptions,
        clock: Arc<dyn Clock>,
        nonce: impl Fn() -> [u8; NONCE_BYTES] + Send + Sync + 'static,
    ) -> Result<Self, TierError> {
        if cfg!(target_endian = "big") {
            return Err(TierError::Failed("chunks are supported only on little-endian machines".to_owned()));
        }
        let pool = RequestPool::new(files.threads()).map_err(|error| TierError::Failed(error.to_string()))?;
        Ok(Self {
            pool,
            files,
            breaker: CircuitBreaker::default(),
            names: Listing::default(),
            last_response_ns: Arc::default(),
            listed_at: Mutex::default(),
            keys,
            options,
            nonce: Box::new(nonce),
            clock,
        })
    }

    /// Derives the keys for a namespace that several installations share: encrypted, with keyed checksums. For
    /// unencrypted files use [`FileKeys::new`] with [`Checksum::Keyed`].
    pub fn keys(namespace: &Namespace) -> FileKeys {
        FileKeys::new(namespace).with_checksum(Checksum::Keyed).with_encryption(namespace.derive("kvc1 seal"))
    }

    /// Returns whether calls are made. After failures no calls are made until a probe succeeds.
    pub fn is_up(&self) -> bool {
        self.breaker.is_closed()
    }

    /// Returns the timeout of a call that transfers this many bytes.
    fn timeout(&self, bytes: u64) -> Duration {
        self.options.response_timeout
            + Duration::from_millis(bytes.saturating_mul(1000) / self.options.min_bytes_per_s.max(1))
    }

    /// Starts a call. Every started call must be finished with `end`.
    fn begin<T: Send + 'static>(
        &self,
        may_try: Probe,
        within: Duration,
        call: impl FnOnce(&dyn FileStore) -> Result<T, TierError> + Send + 'static,
    ) -> Result<PendingRequest<T>, TierError> {
        if !self.breaker.admits(self.clock.now(), may_try == Probe::Allowed) {
            return Err(TierError::Unavailable(
                "the remote tier failed recently and is not called for a while".to_owned(),
            ));
        }
        let files = Arc::clone(&self.files);
        self.pool
            .begin(within, move || call(files.as_ref()))
            .inspect_err(|_| self.breaker.note(self.clock.now(), false))
    }

    /// Waits for a call and records its result.
    fn end<T>(&self, call: PendingRequest<T>) -> Result<T, TierError> {
        let result = call.wait();
        // A full server responds, so it counts as a success.
        let went_well = matches!(result, Ok(_) | Err(TierError::Full(_)));
        self.breaker.note(self.clock.now(), went_well);
        result
    }

    fn ask<T: Send + 'static>(
        &self,
        may_try: Probe,
        within: Duration,
        call: impl FnOnce(&dyn FileStore) -> Result<T, TierError> + Send + 'static,
    ) -> Result<T, TierError> {
        self.end(self.begin(may_try, within, call)?)
    }

    fn read(&self, may_try: Probe, name: &ChunkFileName, part: std::ops::Range<u64>) -> Result<Vec<u8>, Miss> {
        let (path, within) = (name.path(), self.timeout(part.end - part.start));
        let (heard, clock) = (Arc::clone(&self.last_response_ns), Arc::clone(&self.clock));
        let heard = move || heard.store(clock.now().as_nanos() as u64, Ordering::Relaxed);
        let read = self.ask(may_try, within, move |files| files.read(&path, part, within, &heard))?;
        read.ok_or_else(|| {
            self.names.forget(name);
            Miss::Absent
        })
    }

    /// Reads a whole file. Reads no more than the size in a verified header.
    fn read_file(&self, name: &ChunkFileName) -> Result<Vec<u8>, Miss> {
        if let Some(bytes) = self.names.file_bytes(name) {
            return self.read(Probe::Forbidden, name, 0..bytes);
        }
        let mut file = self.read(Probe::Forbidden, name, 0..FRONT_BYTES)?;
        let bytes = scan::header(&file, name, &self.keys)?.file_bytes;
        let have = file.len() as u64;
        if have < bytes.min(FRONT_BYTES) {
            return Err(Miss::Damaged("the file has another length than its header says"));
        }
        if have < bytes {
            file.append(&mut self.read(Probe::Forbidden, name, have..bytes)?);
        }
        file.truncate(bytes as usize);
        Ok(file)
    }

    /// Returns the header of the stored file if it serves every request that the new chunk would serve.
    fn equivalent_file(&self, name: &ChunkFileName, header: &Header) -> Result<Option<Header>, TierError> {
        let existing = match self.read(Probe::Allowed, name, 0..FRONT_BYTES) {
            Ok(front) => scan::header(&front, name, &self.keys).ok(),
            Err(Miss::Tier(error)) => return Err(error),
            Err(_) => None,
        };
        let serves = |existing: &Header| {
            existing.id == header.id && existing.class == header.class && (header.flags.lossy || !existing.flags.lossy)
        };
        Ok(existing.filter(serves))
    }

    /// Returns a random name for a temporary file.
    fn draft(&self) -> String {
        hex::encode((self.nonce)())
    }
}

impl Tier for RemoteTier {
    fn kind(&self) -> TierKind {
        TierKind::Remote
    }

    fn scan(&self, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
        scan::scan(self, each)
    }

    fn may_contain(&self, id: &ChunkId) -> bool {
        self.breaker.is_closed() && self.names.may_contain(&ChunkFileName::of(id))
    }

    fn last_response_at(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.last_response_ns.load(Ordering::Relaxed)))
    }

    fn load(&self, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
        let name = ChunkFileName::of(&wanted.id);
        let loaded = self.read_file(&name).and_then(|file| decode(&file, &self.keys, wanted));
        if let Err(Miss::Damaged(_) | Miss::Foreign) = loaded {
            self.names.spoil(name);
        }
        loaded
    }

    fn save(&self, chunk: &Chunk) -> Result<StoredChunk, TierError> {
        let name = ChunkFileName::of(&chunk.head.id);
        let encoded = encode(chunk, self.options.packing, &self.keys, (self.nonce)())?;
        let header = encoded.header().clone();
        let record_saved = |header: &Header| {
            let stored = header.stored(header.file_bytes);
            let stored = StoredChunk { keys: Some(Arc::clone(&chunk.head.keys)), ..stored };
            self.names.wrote(name, stored.clone());
            stored
        };
        let within = self.timeout(header.file_bytes);
        // A file that is known to exist is not sent again.
        if !self.names.is_listed(&name) {
            let (path, file, draft) = (name.path(), encoded.to_vec(), self.draft());
            if self.ask(Probe::Allowed, within, move |files| files.create(&path, file, &draft, within))? {
                return Ok(record_saved(&header));
            }
        }
        // The header of a damaged file may be intact.
        if !self.names.is_spoiled(&name)
            && let Some(existing) = self.equivalent_file(&name, &header)?
        {
            return Ok(record_saved(&existing));
        }
        let (path, file, draft) = (name.path(), encoded.to_vec(), self.draft());
        self.ask(Probe::Allowed, within, move |files| files.replace(&path, file, &draft, within))?;
        Ok(record_saved(&header))
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        let name = ChunkFileName::of(id);
        let (path, within) = (name.path(), self.options.response_timeout);
        self.ask(Probe::Allowed, within, move |files| files.remove(&path, within))?;
        self.names.forget(&name);
        Ok(())
    }
}
