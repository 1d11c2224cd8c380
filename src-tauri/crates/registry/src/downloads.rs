//! The download queue of the process, with one download per digest.
//!
//! [`Downloads::fetch`] returns a [`Subscription`]. Requests for the same digest share one download. When the last
//! subscription is dropped, the download is cancelled, unless one of them was detached. Partial data is kept until it is
//! discarded.

mod queue;

use std::sync::Arc;

use cairn_disk::Disk;
use cairn_store::{Digest, Library, Staging, StagingError};
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};

use crate::BlobSource;
use crate::download::{
    self, BlobProgress, CompletedBlob, DiskSpace, DownloadConfig, DownloadContext, DownloadControl, DownloadError,
    DownloadNotice, DownloadOutcome, DownloadSpec, FetchLimit, Phase, ReadPositions, Throttle, WriteBudget,
};
use queue::{DesiredState, EntryState, Queue, QueueEntry};
pub use queue::{DownloadId, Priority};

/// Capacity of the event channel; a slow receiver loses the oldest events.
const EVENT_CAPACITY: usize = 256;

/// A request to download a blob.
pub struct BlobRequest {
    /// The blob.
    pub digest: Digest,
    /// The size from the manifest.
    pub size_bytes: u64,
    /// The sources, in the order in which they are tried.
    pub sources: Vec<Arc<dyn BlobSource>>,
    /// The priority in the queue.
    pub priority: Priority,
    /// A label for users: the name of the model.
    pub label: String,
    /// Number of leading bytes to download until [`Subscription::raise_limit`]; `None` for the whole blob. A download has
    /// the highest limit of its subscriptions.
    pub limit_bytes: Option<u64>,
}

/// The downloads into one library. Clones share the queue.
#[derive(Clone)]
pub struct Downloads {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<DownloadContext>,
    queue: Mutex<Queue>,
    events: broadcast::Sender<DownloadEvent>,
    runtime: Handle,
}

/// A download in the list.
#[derive(Debug, Clone)]
pub struct DownloadRow {
    /// The id in this process.
    pub id: DownloadId,
    /// The blob.
    pub digest: Digest,
    /// The label from the request.
    pub label: String,
    /// The priority in the queue.
    pub priority: Priority,
    /// The progress.
    pub progress: BlobProgress,
    /// Number of subscriptions.
    pub subscriptions: usize,
    /// Whether it continues without subscriptions.
    pub detached: bool,
    /// The error, if it failed.
    pub error: Option<DownloadError>,
}

/// An event of a download.
#[derive(Debug, Clone)]
pub struct DownloadEvent {
    /// The download.
    pub id: DownloadId,
    /// The blob.
    pub digest: Digest,
    /// The kind of event.
    pub kind: DownloadEventKind,
}

/// The kind of a download event.
#[derive(Debug, Clone)]
pub enum DownloadEventKind {
    /// The download was queued.
    Queued,
    /// The download was started.
    Started,
    /// A message about the running download.
    Notice(DownloadNotice),
    /// The download was paused.
    Paused,
    /// The blob is complete and verified.
    Ready(CompletedBlob),
    /// The download failed and can be resumed.
    Failed(DownloadError),
    /// The download was cancelled, or its last subscription was dropped.
    Cancelled,
}

type Completion = Option<Result<CompletedBlob, DownloadError>>;

/// A subscription to a download. Dropping the last one cancels the download.
pub struct Subscription {
    id: DownloadId,
    inner: Arc<Inner>,
    progress: watch::Receiver<BlobProgress>,
    completion: watch::Receiver<Completion>,
    read_positions: Arc<ReadPositions>,
    limit: Arc<FetchLimit>,
}

impl Downloads {
    /// Creates the download queue of `library`, on the current tokio runtime.
    ///
    /// # Errors
    /// If the library is not writable.
    pub fn new(library: &Library, disk: Arc<dyn Disk>, config: DownloadConfig) -> Result<Self, StagingError> {
        let staging = Staging::open(library, Arc::clone(&disk))?;
        let disk_space = DiskSpace::new(disk, staging.folder().to_owned(), config.reserve_bytes);
        let context = DownloadContext {
            library: library.clone(),
            staging,
            disk_space: Arc::new(disk_space),
            write_budget: Arc::new(WriteBudget::new(config.max_unsynced_bytes)),
            throttle: Arc::new(Throttle::new(config.limit_bytes_per_s)),
            config: Arc::new(config),
        };
        let (events, _) = broadcast::channel(EVENT_CAPACITY);
        let (context, queue, runtime) = (Arc::new(context), Mutex::default(), Handle::current());
        Ok(Self { inner: Arc::new(Inner { context, queue, events, runtime }) })
    }

    /// The staging area for partial downloads and for blobs that are not published yet.
    #[must_use]
    pub fn staging(&self) -> &Staging {
        &self.inner.context.staging
    }

    /// Downloads a blob, or joins its running download. A failed or paused download is resumed.
    #[must_use]
    pub fn fetch(&self, request: BlobRequest) -> Subscription {
        let mut queue = self.inner.queue();
        let BlobRequest { digest, size_bytes, sources, priority, label, limit_bytes } = request;
        let limit = Arc::new(FetchLimit::new(limit_bytes));
        let spec = DownloadSpec { digest, size_bytes, sources, read_positions: Arc::default(), limit };
        let (id, queued) = queue.join(spec, priority, label);
        let entry = queue.entry(id).expect("the entry was just added");
        let (progress, completion) = (entry.progress.subscribe(), entry.completion.subscribe());
        let (read_positions, limit) = (Arc::clone(&entry.spec.read_positions), Arc::clone(&entry.spec.limit));
        if queued {
            self.inner.send_event(id, digest, DownloadEventKind::Queued);
        }
        self.inner.start(&mut queue);
        drop(queue);
        Subscription { id, inner: Arc::clone(&self.inner), progress, completion, read_positions, limit }
    }

    /// Returns all unfinished downloads, in queue order.
    #[must_use]
    pub fn list(&self) -> Vec<DownloadRow> {
        self.inner.queue().entries().iter().map(QueueEntry::row).collect()
    }

    /// Subscribes to events.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<DownloadEvent> {
        self.inner.events.subscribe()
    }

    /// Pauses a download. Subscriptions keep waiting. Returns false if there is no such download.
    pub fn pause(&self, id: DownloadId) -> bool {
        self.inner.set_desired(id, DesiredState::Paused)
    }

    /// Resumes a paused or failed download. Returns false if there is no such download.
    pub fn resume(&self, id: DownloadId) -> bool {
        self.inner.set_desired(id, DesiredState::Running)
    }

    /// Cancels a download and keeps its partial data. Returns false if there is no such download.
    pub fn cancel(&self, id: DownloadId) -> bool {
        self.inner.set_desired(id, DesiredState::Cancelled)
    }

    /// Cancels a download and deletes its partial data. Returns false if there is no such download; use [`Staging::discard`]
    /// for partial data without a download.
    pub fn discard(&self, id: DownloadId) -> bool {
        self.inner.set_desired(id, DesiredState::Discarded)
    }

    /// Moves a download to a position, from 0, among the downloads of its priority. Returns false if there is no such
    /// download.
    pub fn reorder(&self, id: DownloadId, position: usize) -> bool {
        self.inner.queue().reorder(id, position)
    }

    /// Sets the limit on bytes per second of all downloads together.
    pub fn set_cap(&self, bytes_per_s: Option<u64>) {
        self.inner.context.throttle.set(bytes_per_s);
    }

    /// Pauses all downloads and waits until their data is on the disk.
    pub async fn shut_down(&self) {
        let ids: Vec<DownloadId> = self.list().into_iter().map(|row| row.id).collect();
        for id in ids {
            self.pause(id);
        }
        loop {
            let running =
                self.inner.queue().entries().iter().find(|entry| entry.is_running()).map(|e| e.idle.subscribe());
            let Some(mut running) = running else { return };
            // A closed channel means that the download has left the queue.
            let _ = running.wait_for(|idle| *idle).await;
        }
    }
}

impl Subscription {
    /// The id of the download.
    #[must_use]
    pub fn id(&self) -> DownloadId {
        self.id
    }

    /// A receiver of the progress.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<BlobProgress> {
        self.progress.clone()
    }

    /// Prioritizes the bytes from `position`, for which a reader waits.
    pub fn prioritize(&self, position: u64) {
        self.read_positions.add(position);
    }

    /// Requests `bytes` leading bytes of the blob, if the limit was lower; `u64::MAX` for the whole blob.
    pub fn raise_limit(&self, bytes: u64) {
        self.limit.raise(bytes);
    }

    /// Lets the download continue without subscriptions.
    pub fn detach(&self) {
        if let Some(entry) = self.inner.queue().entry(self.id) {
            entry.detached = true;
        }
    }

    /// Waits until the download is complete.
    ///
    /// # Errors
    /// If the download fails or is cancelled.
    pub async fn wait(&mut self) -> Result<CompletedBlob, DownloadError> {
        match self.completion.wait_for(Option::is_some).await {
            Ok(completion) => completion.clone().unwrap_or(Err(DownloadError::Aborted)),
            Err(_) => Err(DownloadError::Aborted),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut queue = self.inner.queue();
        let abandoned = queue.unsubscribe(self.id);
        drop(queue);
        if abandoned {
            self.inner.set_desired(self.id, DesiredState::Cancelled);
        }
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn send_event(&self, id: DownloadId, digest: Digest, kind: DownloadEventKind) {
        // There may be no receiver; that is not an error.
        let _ = self.events.send(DownloadEvent { id, digest, kind });
    }

    /// Sets the desired state of a download. Applies it at once if the download is not running. A running download is
    /// stopped first.
    fn set_desired(self: &Arc<Self>, id: DownloadId, desired: DesiredState) -> bool {
        let mut queue = self.queue();
        let Some(entry) = queue.entry(id) else { return false };
        entry.desired = desired;
        if entry.is_running() {
            entry.stop.send_replace(desired != DesiredState::Running);
        } else {
            self.apply_desired(&mut queue, id);
            self.start(&mut queue);
        }
        true
    }

    /// Applies the desired state of a download that is not running.
    fn apply_desired(&self, queue: &mut Queue, id: DownloadId) {
        let Some(entry) = queue.entry(id) else { return };
        let digest = entry.spec.digest;
        match entry.desired {
            DesiredState::Running => {
                entry.requeue();
                self.send_event(id, digest, DownloadEventKind::Queued);
            }
            DesiredState::Paused => {
                entry.state = EntryState::Paused;
                entry.progress.send_modify(|progress| progress.set_idle(Phase::Paused));
                self.send_event(id, digest, DownloadEventKind::Paused);
            }
            desired @ (DesiredState::Cancelled | DesiredState::Discarded) => {
                if desired == DesiredState::Discarded {
                    // Another process may use it, or it may not exist; neither is an error.
                    let _ = self.context.staging.discard(&digest);
                }
                entry.completion.send_replace(Some(Err(DownloadError::Cancelled)));
                queue.remove(id);
                self.send_event(id, digest, DownloadEventKind::Cancelled);
            }
        }
    }

    /// Starts queued downloads up to the limit.
    fn start(self: &Arc<Self>, queue: &mut Queue) {
        while let Some(entry) = queue.next(self.context.config.max_parallel) {
            let (id, spec) = (entry.id, entry.spec.clone());
            let digest = spec.digest;
            let stop = entry.set_running();
            self.send_event(id, digest, DownloadEventKind::Started);
            let inner = Arc::clone(self);
            let sender = Arc::clone(self);
            let on_notice = Box::new(move |notice| sender.send_event(id, digest, DownloadEventKind::Notice(notice)));
            let mut control = DownloadControl { progress: Arc::clone(&entry.progress), stop, on_notice };
            let context = Arc::clone(&self.context);
            let run = self.runtime.spawn(async move { download::fetch(&context, &spec, &mut control).await });
            self.runtime.spawn(async move {
                // The panic was reported already; the queue continues.
                let outcome = run.await.unwrap_or(Err(DownloadError::Aborted));
                inner.ended(id, outcome);
            });
        }
    }

    fn ended(self: &Arc<Self>, id: DownloadId, outcome: Result<DownloadOutcome, DownloadError>) {
        let mut queue = self.queue();
        let Some(entry) = queue.entry(id) else { return };
        let digest = entry.spec.digest;
        entry.set_stopped();
        match outcome {
            Ok(DownloadOutcome::Completed(ready)) => {
                entry.progress.send_modify(|progress| {
                    progress.set_idle(Phase::Done);
                    (progress.held_bytes, progress.prefix_bytes) = (ready.size_bytes, ready.size_bytes);
                });
                entry.completion.send_replace(Some(Ok(ready.clone())));
                let discard = entry.desired == DesiredState::Discarded;
                queue.remove(id);
                if discard && !ready.present {
                    let _ = self.context.staging.discard(&digest);
                }
                self.send_event(id, digest, DownloadEventKind::Ready(ready));
            }
            Ok(DownloadOutcome::Stopped) => self.apply_desired(&mut queue, id),
            Err(_) if entry.desired != DesiredState::Running => self.apply_desired(&mut queue, id),
            Err(error) => {
                entry.state = EntryState::Failed(error.clone());
                entry.progress.send_modify(|progress| progress.set_idle(Phase::Failed));
                entry.completion.send_replace(Some(Err(error.clone())));
                if entry.subscriptions == 0 && !entry.detached {
                    queue.remove(id);
                }
                self.send_event(id, digest, DownloadEventKind::Failed(error));
            }
        }
        self.start(&mut queue);
    }
}

impl BlobProgress {
    /// Sets the phase of a download that is not running.
    fn set_idle(&mut self, phase: Phase) {
        (self.phase, self.bytes_per_s, self.eta, self.streams) = (phase, 0, None, 0);
    }
}

#[cfg(test)]
mod tests;
