//! All downloads of the process: one for each digest, whoever asks, in a queue that people can see and order.
//!
//! [`Downloads::fetch`] gives a [`Subscription`]. Who else asks for the same digest joins the same download; when the last
//! subscription is dropped it is cancelled, unless one of them was detached. What came is kept in any case, until somebody
//! discards it.

mod queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cairn_disk::Disk;
use cairn_store::{Digest, Library, Staging, StagingError};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};

use crate::BlobSource;
use crate::download::{
    self, BlobProgress, Config, Credits, DownloadError, Notice, Outcome, Phase, Place, Ready, Reins, Room, Throttle,
    Wanted, Wishes,
};
pub use queue::{DownloadId, Priority};
use queue::{Entry, Queue, Standing, Wish};

/// Events that a slow listener may lag behind.
const EVENTS_KEPT: usize = 256;

/// A blob to fetch.
pub struct FetchBlob {
    /// Which one.
    pub digest: Digest,
    /// Its size, as its manifest says.
    pub size_bytes: u64,
    /// Who may have it, in the order in which they are asked.
    pub sources: Vec<Arc<dyn BlobSource>>,
    /// Its place in the queue.
    pub priority: Priority,
    /// What it is for, for people: the name of a model.
    pub label: String,
}

/// The downloads into one library.
#[derive(Clone)]
pub struct Downloads {
    hub: Arc<Hub>,
}

struct Hub {
    place: Arc<Place>,
    queue: Mutex<Queue>,
    events: broadcast::Sender<DownloadEvent>,
    runtime: Handle,
}

/// One line of the list of downloads.
#[derive(Debug, Clone)]
pub struct DownloadRow {
    /// Names it in this process.
    pub id: DownloadId,
    /// The blob.
    pub digest: Digest,
    /// What it is for.
    pub label: String,
    /// Its place in the queue.
    pub priority: Priority,
    /// How far it has come.
    pub progress: BlobProgress,
    /// How many wait for it.
    pub subscriptions: usize,
    /// It goes on without any.
    pub detached: bool,
    /// Why it failed, where it did.
    pub error: Option<DownloadError>,
}

/// Something that happened to a download.
#[derive(Debug, Clone)]
pub struct DownloadEvent {
    /// Which download.
    pub id: DownloadId,
    /// Its blob.
    pub digest: Digest,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum EventKind {
    /// It is in the queue, new or again.
    Queued,
    /// It runs.
    Started,
    /// It goes on, but there is something to say.
    Notice(Notice),
    /// It is paused.
    Paused,
    /// The blob is ready.
    Ready(Ready),
    /// It failed, and can be resumed.
    Failed(DownloadError),
    /// It was cancelled, or nobody wanted it any more.
    Cancelled,
}

type Ended = Option<Result<Ready, DownloadError>>;

/// A share in a download. Dropping it says that the blob is not wanted here any more.
pub struct Subscription {
    id: DownloadId,
    hub: Arc<Hub>,
    progress: watch::Receiver<BlobProgress>,
    ended: watch::Receiver<Ended>,
    wishes: Arc<Wishes>,
}

impl Downloads {
    /// Those into `library`, to run on the runtime that this is called in. Nothing runs yet.
    ///
    /// # Errors
    /// When the library cannot be written to.
    pub fn new(library: &Library, disk: Arc<dyn Disk>, config: Config) -> Result<Self, StagingError> {
        let staging = Staging::open(library, Arc::clone(&disk))?;
        let room = Room::new(disk, staging.folder().to_owned(), config.reserve_bytes);
        let place = Place {
            library: library.clone(),
            staging,
            room: Arc::new(room),
            credits: Arc::new(Credits::new(config.unkept_bytes)),
            throttle: Arc::new(Throttle::new(config.cap_bytes_per_s)),
            config: Arc::new(config),
        };
        let (events, _) = broadcast::channel(EVENTS_KEPT);
        let (place, queue, runtime) = (Arc::new(place), Mutex::default(), Handle::current());
        Ok(Self { hub: Arc::new(Hub { place, queue, events, runtime }) })
    }

    /// Where blobs lie until they are published, and partials until they are whole.
    #[must_use]
    pub fn staging(&self) -> &Staging {
        &self.hub.place.staging
    }

    /// Fetches a blob, or joins whoever does. One that failed or was paused goes on.
    #[must_use]
    pub fn fetch(&self, wanted: FetchBlob) -> Subscription {
        let mut queue = self.hub.queue();
        let FetchBlob { digest, size_bytes, sources, priority, label } = wanted;
        let wanted = Wanted { digest, size_bytes, sources, wishes: Arc::default() };
        let (id, queued) = queue.join(wanted, priority, label);
        let entry = queue.entry(id).expect("it was just joined");
        let (progress, ended) = (entry.progress.subscribe(), entry.ended.subscribe());
        let wishes = Arc::clone(&entry.wanted.wishes);
        if queued {
            self.hub.tell(id, digest, EventKind::Queued);
        }
        self.hub.start(&mut queue);
        drop(queue);
        Subscription { id, hub: Arc::clone(&self.hub), progress, ended, wishes }
    }

    /// All downloads that are not over, in the order of the queue.
    #[must_use]
    pub fn list(&self) -> Vec<DownloadRow> {
        self.hub.queue().entries().iter().map(Entry::row).collect()
    }

    /// What happens to downloads from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<DownloadEvent> {
        self.hub.events.subscribe()
    }

    /// Stops a download until it is resumed; whoever subscribed goes on waiting. False where there is no such download.
    pub fn pause(&self, id: DownloadId) -> bool {
        self.hub.wish(id, Wish::Pause)
    }

    /// Lets a paused or failed download go on. False where there is no such download.
    pub fn resume(&self, id: DownloadId) -> bool {
        self.hub.wish(id, Wish::Go)
    }

    /// Ends a download and keeps what came. False where there is no such download.
    pub fn cancel(&self, id: DownloadId) -> bool {
        self.hub.wish(id, Wish::Cancel)
    }

    /// Ends a download and throws away what came. False where there is no such download; what is kept of one that is not
    /// in the list is for [`Staging::discard`].
    pub fn discard(&self, id: DownloadId) -> bool {
        self.hub.wish(id, Wish::Discard)
    }

    /// Moves a download to a place in the queue, counted from 0, among those of its priority. False where there is no such
    /// download.
    pub fn reorder(&self, id: DownloadId, position: usize) -> bool {
        self.hub.queue().reorder(id, position)
    }

    /// Sets the limit of bytes per second of all downloads together.
    pub fn set_cap(&self, bytes_per_s: Option<u64>) {
        self.hub.place.throttle.set(bytes_per_s);
    }

    /// Stops all downloads, so that nothing of what came is lost, and waits until they have.
    pub async fn shut_down(&self) {
        let ids: Vec<DownloadId> = self.list().into_iter().map(|row| row.id).collect();
        for id in ids {
            self.pause(id);
        }
        loop {
            let running =
                self.hub.queue().entries().iter().find(|entry| entry.is_running()).map(|e| e.idle.subscribe());
            let Some(mut running) = running else { return };
            // Its sender lives as long as the download is in the queue.
            let _ = running.wait_for(|idle| *idle).await;
        }
    }
}

impl Subscription {
    /// Names the download.
    #[must_use]
    pub fn id(&self) -> DownloadId {
        self.id
    }

    /// How far it has come, to be watched.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<BlobProgress> {
        self.progress.clone()
    }

    /// Somebody reads and waits for the bytes from `position` on: a little is fetched from there soon.
    pub fn want(&self, position: u64) {
        self.wishes.add(position);
    }

    /// Lets the download go on when nobody is subscribed any more.
    pub fn detach(&self) {
        if let Some(entry) = self.hub.queue().entry(self.id) {
            entry.detached = true;
        }
    }

    /// Waits until the blob is ready, or will not be.
    ///
    /// # Errors
    /// Whatever is in the way.
    pub async fn done(&mut self) -> Result<Ready, DownloadError> {
        match self.ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Err(DownloadError::Ended)),
            Err(_) => Err(DownloadError::Ended),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut queue = self.hub.queue();
        let abandoned = queue.leave(self.id);
        drop(queue);
        if abandoned {
            self.hub.wish(self.id, Wish::Cancel);
        }
    }
}

impl Hub {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, id: DownloadId, digest: Digest, kind: EventKind) {
        // Nobody need listen.
        let _ = self.events.send(DownloadEvent { id, digest, kind });
    }

    /// Notes what somebody wants of a download, and does it where it is not running. One that runs is told, and does it
    /// when it has stopped.
    fn wish(self: &Arc<Self>, id: DownloadId, wish: Wish) -> bool {
        let mut queue = self.queue();
        let Some(entry) = queue.entry(id) else { return false };
        entry.wish = wish;
        if entry.is_running() {
            entry.stop.send_replace(wish != Wish::Go);
        } else {
            self.settle(&mut queue, id);
            self.start(&mut queue);
        }
        true
    }

    /// Does what is wished of a download that does not run.
    fn settle(&self, queue: &mut Queue, id: DownloadId) {
        let Some(entry) = queue.entry(id) else { return };
        let digest = entry.wanted.digest;
        match entry.wish {
            Wish::Go => {
                entry.queue_again();
                self.tell(id, digest, EventKind::Queued);
            }
            Wish::Pause => {
                entry.standing = Standing::Paused;
                entry.progress.send_modify(|progress| progress.stand(Phase::Paused));
                self.tell(id, digest, EventKind::Paused);
            }
            wish @ (Wish::Cancel | Wish::Discard) => {
                if wish == Wish::Discard {
                    // Another process may be at it, or it may be gone: either is not ours to remove.
                    let _ = self.place.staging.discard(&digest);
                }
                entry.ended.send_replace(Some(Err(DownloadError::Cancelled)));
                queue.remove(id);
                self.tell(id, digest, EventKind::Cancelled);
            }
        }
    }

    /// Starts what may run.
    fn start(self: &Arc<Self>, queue: &mut Queue) {
        while let Some(entry) = queue.next(self.place.config.at_once) {
            let (id, wanted) = (entry.id, entry.wanted.clone());
            let digest = wanted.digest;
            let stop = entry.run();
            self.tell(id, digest, EventKind::Started);
            let hub = Arc::clone(self);
            let telling = Arc::clone(self);
            let tell = Box::new(move |notice| telling.tell(id, digest, EventKind::Notice(notice)));
            let mut reins = Reins { progress: Arc::clone(&entry.progress), stop, tell };
            let place = Arc::clone(&self.place);
            let run = self.runtime.spawn(async move { download::fetch(&place, &wanted, &mut reins).await });
            self.runtime.spawn(async move {
                // A run that panicked has said so; the queue goes on without it.
                let outcome = run.await.unwrap_or(Err(DownloadError::Ended));
                hub.ended(id, outcome);
            });
        }
    }

    fn ended(self: &Arc<Self>, id: DownloadId, outcome: Result<Outcome, DownloadError>) {
        let mut queue = self.queue();
        let Some(entry) = queue.entry(id) else { return };
        let digest = entry.wanted.digest;
        entry.rest();
        match outcome {
            Ok(Outcome::Ready(ready)) => {
                entry.progress.send_modify(|progress| {
                    progress.stand(Phase::Done);
                    (progress.held_bytes, progress.prefix_bytes) = (ready.size_bytes, ready.size_bytes);
                });
                entry.ended.send_replace(Some(Ok(ready.clone())));
                let discard = entry.wish == Wish::Discard;
                queue.remove(id);
                if discard && !ready.present {
                    let _ = self.place.staging.discard(&digest);
                }
                self.tell(id, digest, EventKind::Ready(ready));
            }
            Ok(Outcome::Stopped) => self.settle(&mut queue, id),
            Err(_) if entry.wish != Wish::Go => self.settle(&mut queue, id),
            Err(error) => {
                entry.standing = Standing::Failed(error.clone());
                entry.progress.send_modify(|progress| progress.stand(Phase::Failed));
                entry.ended.send_replace(Some(Err(error.clone())));
                if entry.subscriptions == 0 && !entry.detached {
                    queue.remove(id);
                }
                self.tell(id, digest, EventKind::Failed(error));
            }
        }
        self.start(&mut queue);
    }
}

impl BlobProgress {
    /// It stands still.
    fn stand(&mut self, phase: Phase) {
        (self.phase, self.bytes_per_s, self.eta, self.streams) = (phase, 0, None, 0);
    }
}

#[cfg(test)]
mod tests;
