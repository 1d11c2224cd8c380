//! The disk side of a download: three threads, so that no stream waits for a disk.
//!
//! The *writer* takes what came and writes it in large pieces; the *keeper* syncs what was written and notes it in the
//! journal; the *hasher* follows the front of what was written and computes the digest, reading what the system still has
//! in memory. Streams are slowed down by [`Credits`] alone, which bound what a crash would lose.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use cairn_disk::Partial;
use cairn_store::{Digest, Ranges, StagedBlob, StagingError};
use sha2::Digest as _;
use tokio::sync::{Semaphore, watch};

use super::error::DownloadError;

/// The most bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;
/// The most bytes that the writer takes from its queue before it writes.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes that the hasher reads at once: few enough to stay in a core's own cache.
const HASH_BYTES: usize = 256 << 10;
/// What was written is synced when it is this much,
const KEEP_BYTES: u64 = 2 << 20;
/// or after this long,
const KEEP_AFTER: Duration = Duration::from_millis(500);
/// or sooner when streams wait for it.
const KEEP_TICK: Duration = Duration::from_millis(50);

/// How many bytes may be on their way to the disk, of all downloads of the process: what came and is in no journal is
/// lost when the process is killed.
#[derive(Debug)]
pub(crate) struct Credits {
    semaphore: Semaphore,
    total: u32,
}

impl Credits {
    pub(crate) fn new(total_bytes: u32) -> Self {
        let total_bytes = total_bytes.max(1);
        Self { semaphore: Semaphore::new(total_bytes as usize), total: total_bytes }
    }

    /// How many bytes could be paid for now.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.semaphore.available_permits()
    }

    /// How many bytes may be paid for at once, so that streams take turns.
    pub(super) fn most_bytes(&self) -> usize {
        (self.total as usize / 4).clamp(1, PIECE_BYTES)
    }
}

/// How far the disk has come.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Bytes from the first on that are written.
    pub(super) prefix_bytes: u64,
    /// Which bytes are written.
    pub(super) written: Ranges,
    /// Bytes whose digest is computed.
    pub(super) hashed_bytes: u64,
    /// The digest of the whole, once it is computed.
    pub(super) digest: Option<Digest>,
    /// The disk refused; nothing more happens.
    pub(super) failed: Option<DownloadError>,
}

/// Asked after each sync: whether there is still room.
pub(super) type Room = Box<dyn Fn() -> Result<(), DownloadError> + Send>;

/// The threads, and what they share.
pub(super) struct Spool {
    board: Arc<Board>,
    credits: Arc<Credits>,
    threads: Vec<JoinHandle<()>>,
    keeper: Option<JoinHandle<StagedBlob>>,
    view: watch::Receiver<View>,
}

struct Board {
    state: Mutex<State>,
    to_write: Condvar,
    to_keep: Condvar,
    to_hash: Condvar,
    view: watch::Sender<View>,
    /// So many written bytes are worth a sync.
    keep_bytes: u64,
    /// Bytes that streams paid for, and that were given back.
    paid: AtomicU64,
    returned: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(u64, Bytes)>,
    written: Ranges,
    unkept: Ranges,
    /// No more bytes come.
    closing: bool,
    /// The digest is not wanted any more.
    hashless: bool,
    /// All that came is written.
    drained: bool,
    failed: bool,
}

impl Spool {
    /// Starts the threads for a blob.
    pub(super) fn start(staged: StagedBlob, size_bytes: u64, credits: Arc<Credits>, room: Room) -> Self {
        let written = staged.held().clone();
        let (sender, view) = watch::channel(View { written: written.clone(), ..View::default() });
        let state = Mutex::new(State { written, ..State::default() });
        let (paid, returned) = (AtomicU64::new(0), AtomicU64::new(0));
        let (to_write, to_keep, to_hash) = (Condvar::new(), Condvar::new(), Condvar::new());
        let keep_bytes = KEEP_BYTES.min(u64::from(credits.total) / 4);
        let board = Arc::new(Board { state, keep_bytes, to_write, to_keep, to_hash, view: sender, paid, returned });
        let (file, same_file) = (staged.file(), staged.file());
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work).expect("the system can start a thread")
        };
        let (writing, hashing, keeping) = (Arc::clone(&board), Arc::clone(&board), Arc::clone(&board));
        let threads = vec![
            spawn("download-write", Box::new(move || writing.write(&*file))),
            spawn("download-hash", Box::new(move || hashing.hash(&*same_file, size_bytes))),
        ];
        let paying = Arc::clone(&credits);
        let keeper = std::thread::Builder::new()
            .name("download-keep".to_owned())
            .spawn(move || keeping.keep(staged, &paying, &room))
            .expect("the system can start a thread");
        Self { board, credits, threads, keeper: Some(keeper), view }
    }

    pub(super) fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// Waits until `bytes` more may be on their way, which must be at most [`Credits::most_bytes`].
    pub(super) async fn pay(&self, bytes: usize) {
        // The semaphore is never closed.
        if let Ok(permit) = self.credits.semaphore.acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX)).await {
            permit.forget();
            self.board.paid.fetch_add(bytes as u64, Ordering::SeqCst);
        }
    }

    /// Gives back what was paid for bytes that are not written.
    pub(super) fn refund(&self, bytes: usize) {
        self.board.returned.fetch_add(bytes as u64, Ordering::SeqCst);
        self.credits.semaphore.add_permits(bytes);
    }

    /// Hands over bytes that are new and paid for.
    pub(super) fn write(&self, at: u64, bytes: Bytes) {
        self.board.lock().queue.push_back((at, bytes));
        self.board.to_write.notify_one();
    }

    /// Writes and keeps what came, without waiting for the digest, unless it is computed already. Blocks.
    pub(super) fn stop(mut self) -> Option<StagedBlob> {
        self.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        self.keeper.take().and_then(|keeper| keeper.join().ok())
    }

    fn close(&self) {
        let mut state = self.board.lock();
        state.closing = true;
        state.hashless = true;
        drop(state);
        self.board.ring();
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        [&self.to_write, &self.to_keep, &self.to_hash].into_iter().for_each(Condvar::notify_all);
    }

    fn fail(&self, error: impl Into<DownloadError>) {
        self.lock().failed = true;
        let error = error.into();
        self.view.send_modify(|view| view.failed = view.failed.take().or(Some(error)));
        self.ring();
    }

    fn write(&self, file: &dyn Partial) {
        let mut buffer = Vec::with_capacity(PIECE_BYTES);
        loop {
            let mut batch = Vec::new();
            let mut state = self.lock();
            while state.queue.is_empty() && !state.closing && !state.failed {
                state = self.to_write.wait(state).unwrap_or_else(PoisonError::into_inner);
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
                return self.ring();
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
                state.unkept.insert(range.clone());
            }
            let due = state.unkept.total_bytes() >= self.keep_bytes;
            let written = state.written.clone();
            drop(state);
            self.view.send_modify(|view| view.written = written);
            self.to_hash.notify_one();
            if due {
                self.to_keep.notify_one();
            }
        }
    }

    fn keep(&self, mut staged: StagedBlob, credits: &Credits, room: &Room) -> StagedBlob {
        let keep_bytes = self.keep_bytes;
        loop {
            let mut state = self.lock();
            let mut waited = Duration::ZERO;
            loop {
                let due = state.unkept.total_bytes() >= keep_bytes || waited >= KEEP_AFTER;
                let pressed = waited >= KEEP_TICK && credits.semaphore.available_permits() == 0;
                if state.failed || state.drained || (!state.unkept.is_empty() && (due || pressed)) {
                    break;
                }
                let empty = state.unkept.is_empty();
                let (next, timeout) =
                    self.to_keep.wait_timeout(state, KEEP_TICK).unwrap_or_else(PoisonError::into_inner);
                state = next;
                if timeout.timed_out() {
                    waited = if empty { Duration::ZERO } else { waited + KEEP_TICK };
                }
            }
            let unkept = std::mem::take(&mut state.unkept);
            if state.failed || (state.drained && unkept.is_empty()) {
                // Streams end before anybody closes, so from then on nobody pays any more.
                while !state.closing {
                    state = self.to_keep.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                self.settle(credits);
                return staged;
            }
            drop(state);
            // Bytes that could not be kept stay on their way, so that no more come for them while streams are told.
            if let Err(error) = staged.keep(&unkept) {
                self.fail(error);
                continue;
            }
            let bytes = unkept.total_bytes();
            self.returned.fetch_add(bytes, Ordering::SeqCst);
            credits.semaphore.add_permits(usize::try_from(bytes).unwrap_or(0));
            if let Err(error) = room() {
                self.fail(error);
            }
        }
    }

    /// Squares accounts: what was paid for bytes that a failing disk did not take is nobody's.
    fn settle(&self, credits: &Credits) {
        let (paid, returned) = (self.paid.load(Ordering::SeqCst), self.returned.load(Ordering::SeqCst));
        credits.semaphore.add_permits(usize::try_from(paid.saturating_sub(returned)).unwrap_or(0));
    }

    fn hash(&self, file: &dyn Partial, size_bytes: u64) {
        let mut hash = sha2::Sha256::new();
        let mut buffer = vec![0; HASH_BYTES];
        let mut done = 0;
        loop {
            let mut state = self.lock();
            while state.written.prefix_bytes() == done && done < size_bytes && !state.hashless && !state.failed {
                state = self.to_hash.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let prefix = state.written.prefix_bytes().min(size_bytes);
            if state.failed || (state.hashless && done < size_bytes) {
                return;
            }
            drop(state);
            while done < prefix {
                let want = usize::try_from(prefix - done).unwrap_or(usize::MAX).min(HASH_BYTES);
                let piece = buffer.get_mut(..want).unwrap_or_default();
                match file.read_at(done, piece) {
                    Ok(count) if count == want => hash.update(&*piece),
                    Ok(_) => return self.fail(DownloadError::Ended),
                    Err(error) => return self.fail(StagingError::from(error)),
                }
                done += want as u64;
                self.view.send_modify(|view| (view.prefix_bytes, view.hashed_bytes) = (prefix, done));
                if self.lock().hashless {
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

/// Writes pieces, sorted by place: those that follow on each other in one go.
fn write_batch(file: &dyn Partial, batch: &[(u64, Bytes)], buffer: &mut Vec<u8>) -> Result<(), cairn_disk::DiskError> {
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
