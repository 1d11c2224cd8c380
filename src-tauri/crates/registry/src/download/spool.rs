//! Disk I/O of a download, in three threads, so that streams do not wait for the disk.
//!
//! The *writer* writes received bytes in large pieces. The *syncer* syncs them and records them in the journal. The *hasher*
//! computes the digest in order, usually from the page cache. Only the [`WriteBudget`] slows down streams; it limits the
//! bytes that a crash would lose.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use cairn_disk::PartialFile;
use cairn_store::{Digest, Ranges, StagedBlob, StagingError};
use parking_lot::{Condvar, Mutex, MutexGuard};
use sha2::Digest as _;
use tokio::sync::{Semaphore, watch};

use super::error::DownloadError;

/// Maximum size of a write.
const PIECE_BYTES: usize = 1 << 20;
/// Maximum bytes that the writer takes from its queue at once.
const BATCH_BYTES: usize = 4 << 20;
/// Size of the hasher's reads; fits in the cache of a core.
const HASH_BYTES: usize = 256 << 10;
/// Written bytes are synced when they reach this size,
const SYNC_BYTES: u64 = 2 << 20;
/// or after this time,
const SYNC_AFTER: Duration = Duration::from_millis(500);
/// or at this interval while streams wait for the write budget.
const SYNC_TICK: Duration = Duration::from_millis(50);

/// Limit on unsynced bytes of all downloads in the process. A killed process loses received bytes that are not in a
/// journal.
#[derive(Debug)]
pub(crate) struct WriteBudget {
    semaphore: Semaphore,
    total: u32,
}

impl WriteBudget {
    pub(crate) fn new(total_bytes: u32) -> Self {
        let total_bytes = total_bytes.max(1);
        Self { semaphore: Semaphore::new(total_bytes as usize), total: total_bytes }
    }

    /// Bytes that can be acquired now.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.semaphore.available_permits()
    }

    /// Returns the most bytes that a stream may acquire at once. The limit lets streams alternate.
    pub(super) fn max_acquire_bytes(&self) -> usize {
        (self.total as usize / 4).clamp(1, PIECE_BYTES)
    }
}

/// Progress of the disk I/O.
#[derive(Debug, Clone, Default)]
pub(super) struct SpoolStatus {
    /// Length of the written prefix.
    pub(super) prefix_bytes: u64,
    /// All written ranges.
    pub(super) written: Ranges,
    /// Length of the hashed prefix.
    pub(super) hashed_bytes: u64,
    /// The digest, once all bytes are hashed.
    pub(super) digest: Option<Digest>,
    /// The error that stopped the spool.
    pub(super) failed: Option<DownloadError>,
}

/// Check of the free space after each sync.
pub(super) type SpaceCheck = Box<dyn Fn() -> Result<(), DownloadError> + Send>;

/// The threads and their shared data.
pub(super) struct Spool {
    shared: Arc<SpoolShared>,
    write_budget: Arc<WriteBudget>,
    threads: Vec<JoinHandle<()>>,
    syncer: Option<JoinHandle<StagedBlob>>,
    view: watch::Receiver<SpoolStatus>,
}

struct SpoolShared {
    state: Mutex<State>,
    to_write: Condvar,
    to_sync: Condvar,
    to_hash: Condvar,
    view: watch::Sender<SpoolStatus>,
    /// Unsynced bytes that trigger a sync.
    sync_bytes: u64,
    /// Acquired and released bytes of the write budget.
    acquired: AtomicU64,
    released: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(u64, Bytes)>,
    written: Ranges,
    unsynced: Ranges,
    /// No more bytes will be queued.
    closing: bool,
    /// The digest is not needed.
    skip_hash: bool,
    /// All queued bytes are written.
    drained: bool,
    failed: bool,
}

impl Spool {
    /// Starts the threads for a blob.
    pub(super) fn start(
        staged: StagedBlob,
        size_bytes: u64,
        write_budget: Arc<WriteBudget>,
        space_check: SpaceCheck,
    ) -> Self {
        let written = staged.durable().clone();
        let (sender, view) = watch::channel(SpoolStatus { written: written.clone(), ..SpoolStatus::default() });
        let state = Mutex::new(State { written, ..State::default() });
        let (acquired, released) = (AtomicU64::new(0), AtomicU64::new(0));
        let (to_write, to_sync, to_hash) = (Condvar::new(), Condvar::new(), Condvar::new());
        let sync_bytes = SYNC_BYTES.min(u64::from(write_budget.total) / 4);
        let shared =
            Arc::new(SpoolShared { state, sync_bytes, to_write, to_sync, to_hash, view: sender, acquired, released });
        let (file, same_file) = (staged.file(), staged.file());
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work).expect("the system can start a thread")
        };
        let (writer, hasher, syncing) = (Arc::clone(&shared), Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            spawn("download-write", Box::new(move || writer.write(&*file))),
            spawn("download-hash", Box::new(move || hasher.hash(&*same_file, size_bytes))),
        ];
        let budget = Arc::clone(&write_budget);
        let syncer = std::thread::Builder::new()
            .name("download-sync".to_owned())
            .spawn(move || syncing.sync(staged, &budget, &space_check))
            .expect("the system can start a thread");
        Self { shared, write_budget, threads, syncer: Some(syncer), view }
    }

    pub(super) fn view(&self) -> watch::Receiver<SpoolStatus> {
        self.view.clone()
    }

    /// Waits until the budget has `bytes` bytes, at most [`WriteBudget::max_acquire_bytes`].
    pub(super) async fn acquire(&self, bytes: usize) {
        // The semaphore is never closed.
        if let Ok(permit) = self.write_budget.semaphore.acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX)).await {
            permit.forget();
            self.shared.acquired.fetch_add(bytes as u64, Ordering::SeqCst);
        }
    }

    /// Releases budget of bytes that are not written.
    pub(super) fn release(&self, bytes: usize) {
        self.shared.released.fetch_add(bytes as u64, Ordering::SeqCst);
        self.write_budget.semaphore.add_permits(bytes);
    }

    /// Queues new bytes for writing. Their budget must have been acquired.
    pub(super) fn write(&self, at: u64, bytes: Bytes) {
        self.shared.lock().queue.push_back((at, bytes));
        self.shared.to_write.notify_one();
    }

    /// Writes and syncs all queued bytes without waiting for the digest. Blocks.
    pub(super) fn stop(mut self) -> Option<StagedBlob> {
        self.close();
        for thread in self.threads.drain(..) {
            // A panic was reported already.
            let _ = thread.join();
        }
        self.syncer.take().and_then(|syncer| syncer.join().ok())
    }

    fn close(&self) {
        let mut state = self.shared.lock();
        state.closing = true;
        state.skip_hash = true;
        drop(state);
        self.shared.notify_all();
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.close();
    }
}

impl SpoolShared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn notify_all(&self) {
        [&self.to_write, &self.to_sync, &self.to_hash].into_iter().for_each(|condvar| {
            condvar.notify_all();
        });
    }

    fn fail(&self, error: impl Into<DownloadError>) {
        self.lock().failed = true;
        let error = error.into();
        self.view.send_modify(|view| view.failed = view.failed.take().or(Some(error)));
        self.notify_all();
    }

    fn write(&self, file: &dyn PartialFile) {
        let mut buffer = Vec::with_capacity(PIECE_BYTES);
        loop {
            let mut batch = Vec::new();
            let mut state = self.lock();
            while state.queue.is_empty() && !state.closing && !state.failed {
                self.to_write.wait(&mut state);
            }
            let mut taken = 0;
            while taken < BATCH_BYTES
                && let Some((at, bytes)) = state.queue.pop_front()
            {
                taken += bytes.len();
                batch.push((at, bytes));
            }
            if state.failed || batch.is_empty() {
                state.drained = true;
                drop(state);
                return self.notify_all();
            }
            drop(state);
            batch.sort_unstable_by_key(|(at, _)| *at);
            let written: Ranges = batch.iter().map(|(at, bytes)| *at..*at + bytes.len() as u64).collect();
            if let Err(error) = write_batch(file, &batch, &mut buffer) {
                self.fail(StagingError::from(error));
                continue;
            }
            let mut state = self.lock();
            for range in written.iter() {
                state.written.insert(range.clone());
                state.unsynced.insert(range.clone());
            }
            let due = state.unsynced.total_bytes() >= self.sync_bytes;
            let written = state.written.clone();
            drop(state);
            self.view.send_modify(|view| view.written = written);
            self.to_hash.notify_one();
            if due {
                self.to_sync.notify_one();
            }
        }
    }

    fn sync(&self, mut staged: StagedBlob, write_budget: &WriteBudget, space_check: &SpaceCheck) -> StagedBlob {
        let sync_bytes = self.sync_bytes;
        loop {
            let mut state = self.lock();
            let mut waited = Duration::ZERO;
            loop {
                let due = state.unsynced.total_bytes() >= sync_bytes || waited >= SYNC_AFTER;
                let streams_wait = waited >= SYNC_TICK && write_budget.semaphore.available_permits() == 0;
                if state.failed || state.drained || (!state.unsynced.is_empty() && (due || streams_wait)) {
                    break;
                }
                let empty = state.unsynced.is_empty();
                if self.to_sync.wait_for(&mut state, SYNC_TICK).timed_out() {
                    waited = if empty { Duration::ZERO } else { waited + SYNC_TICK };
                }
            }
            let unsynced = std::mem::take(&mut state.unsynced);
            if state.failed || (state.drained && unsynced.is_empty()) {
                // Streams end before the spool is closed, so no budget is acquired after that.
                while !state.closing {
                    self.to_sync.wait(&mut state);
                }
                self.settle(write_budget);
                return staged;
            }
            drop(state);
            // Do not release the budget of lost bytes, so that streams stop until they see the error.
            if let Err(error) = staged.commit(&unsynced) {
                self.fail(error);
                continue;
            }
            let bytes = unsynced.total_bytes();
            self.released.fetch_add(bytes, Ordering::SeqCst);
            write_budget.semaphore.add_permits(usize::try_from(bytes).unwrap_or(0));
            if let Err(error) = space_check() {
                self.fail(error);
            }
        }
    }

    /// Releases the budget of bytes that could not be written.
    fn settle(&self, write_budget: &WriteBudget) {
        let (acquired, released) = (self.acquired.load(Ordering::SeqCst), self.released.load(Ordering::SeqCst));
        write_budget.semaphore.add_permits(usize::try_from(acquired.saturating_sub(released)).unwrap_or(0));
    }

    fn hash(&self, file: &dyn PartialFile, size_bytes: u64) {
        let mut hash = sha2::Sha256::new();
        let mut buffer = vec![0; HASH_BYTES];
        let mut done = 0;
        loop {
            let mut state = self.lock();
            while state.written.prefix_bytes() == done && done < size_bytes && !state.skip_hash && !state.failed {
                self.to_hash.wait(&mut state);
            }
            let prefix = state.written.prefix_bytes().min(size_bytes);
            if state.failed || (state.skip_hash && done < size_bytes) {
                return;
            }
            drop(state);
            while done < prefix {
                let want = usize::try_from(prefix - done).unwrap_or(usize::MAX).min(HASH_BYTES);
                let piece = buffer.get_mut(..want).unwrap_or_default();
                match file.read_at(done, piece) {
                    Ok(count) if count == want => hash.update(&*piece),
                    Ok(_) => return self.fail(DownloadError::Aborted),
                    Err(error) => return self.fail(StagingError::from(error)),
                }
                done += want as u64;
                self.view.send_modify(|view| (view.prefix_bytes, view.hashed_bytes) = (prefix, done));
                if self.lock().skip_hash {
                    return;
                }
            }
            if done == size_bytes {
                let digest = Digest::of_hash(hash);
                return self.view.send_modify(|view| view.digest = Some(digest));
            }
        }
    }
}

/// Writes sorted pieces. Merges adjacent pieces.
fn write_batch(
    file: &dyn PartialFile,
    batch: &[(u64, Bytes)],
    buffer: &mut Vec<u8>,
) -> Result<(), cairn_disk::DiskError> {
    let mut rest = batch;
    while let Some(((at, first), after)) = rest.split_first() {
        let mut end = *at + first.len() as u64;
        let mut follow = 0;
        for (next, bytes) in after {
            if *next != end || (end - at) as usize + bytes.len() > PIECE_BYTES {
                break;
            }
            end += bytes.len() as u64;
            follow += 1;
        }
        if follow == 0 {
            file.write_at(*at, first)?;
        } else {
            buffer.clear();
            let run = rest.get(..=follow).unwrap_or_default();
            run.iter().for_each(|(_, bytes)| buffer.extend_from_slice(bytes));
            file.write_at(*at, buffer)?;
        }
        rest = rest.get(follow + 1..).unwrap_or_default();
    }
    Ok(())
}
