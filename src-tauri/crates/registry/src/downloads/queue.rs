//! Which downloads there are, in which order they run, and what is wished of them.

use std::sync::Arc;

use cairn_store::Digest;
use tokio::sync::watch;

use super::{DownloadRow, Ended};
use crate::download::{BlobProgress, DownloadError, Phase, Wanted};

/// Names a download in this process. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DownloadId(pub u64);

/// A download's place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// After all others.
    Background,
    /// In the order of asking.
    Normal,
    /// At once, whatever else runs: somebody waits for the bytes.
    Now,
}

/// What somebody wants of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Go,
    Pause,
    Cancel,
    Discard,
}

/// What a download does.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    Queued,
    Running,
    Paused,
    Failed(DownloadError),
}

pub(super) struct Entry {
    pub(super) id: DownloadId,
    pub(super) wanted: Wanted,
    pub(super) standing: Standing,
    pub(super) wish: Wish,
    pub(super) subscriptions: usize,
    pub(super) detached: bool,
    pub(super) progress: Arc<watch::Sender<BlobProgress>>,
    pub(super) ended: watch::Sender<Ended>,
    pub(super) stop: watch::Sender<bool>,
    /// Whether it does not run.
    pub(super) idle: watch::Sender<bool>,
    priority: Priority,
    label: String,
}

/// All downloads, in the order of asking or as they were reordered.
#[derive(Default)]
pub(super) struct Queue {
    entries: Vec<Entry>,
    last_id: u64,
}

impl Queue {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn entry(&mut self, id: DownloadId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    pub(super) fn remove(&mut self, id: DownloadId) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// Joins the download of a digest, which is made where there is none. Says whether it is now in the queue and was not.
    pub(super) fn join(&mut self, wanted: Wanted, priority: Priority, label: String) -> (DownloadId, bool) {
        let going = |entry: &&mut Entry| {
            entry.wanted.digest == wanted.digest && !matches!(entry.wish, Wish::Cancel | Wish::Discard)
        };
        if let Some(entry) = self.entries.iter_mut().find(going) {
            entry.subscriptions += 1;
            entry.priority = entry.priority.max(priority);
            let again = matches!(entry.standing, Standing::Paused | Standing::Failed(_));
            if again {
                // It may be asked of others than before.
                let wishes = Arc::clone(&entry.wanted.wishes);
                entry.wanted = Wanted { wishes, ..wanted };
                entry.queue_again();
            } else if entry.wish == Wish::Pause {
                entry.wish = Wish::Go;
                entry.stop.send_replace(false);
            }
            return (entry.id, again);
        }
        self.last_id += 1;
        let id = DownloadId(self.last_id);
        self.entries.push(Entry {
            id,
            progress: Arc::new(watch::Sender::new(BlobProgress::new(wanted.size_bytes))),
            wanted,
            standing: Standing::Queued,
            wish: Wish::Go,
            subscriptions: 1,
            detached: false,
            ended: watch::Sender::new(None),
            stop: watch::Sender::new(false),
            idle: watch::Sender::new(true),
            priority,
            label,
        });
        (id, true)
    }

    /// One subscription less. Says whether nobody wants it any more.
    pub(super) fn leave(&mut self, id: DownloadId) -> bool {
        let Some(entry) = self.entry(id) else { return false };
        entry.subscriptions = entry.subscriptions.saturating_sub(1);
        entry.subscriptions == 0 && !entry.detached
    }

    /// The next that may run while `at_once` may. One whose digest is still being put away by its predecessor waits.
    pub(super) fn next(&mut self, at_once: usize) -> Option<&mut Entry> {
        let counted = |entry: &&Entry| entry.is_running() && entry.priority != Priority::Now;
        let full = self.entries.iter().filter(counted).count() >= at_once.max(1);
        let running: Vec<Digest> =
            self.entries.iter().filter(|entry| entry.is_running()).map(|entry| entry.wanted.digest).collect();
        let may = |entry: &&mut Entry| {
            matches!(entry.standing, Standing::Queued)
                && (!full || entry.priority == Priority::Now)
                && !running.contains(&entry.wanted.digest)
        };
        // The first of the highest priority: of equals, `max_by_key` would give the last.
        self.entries.iter_mut().filter(may).rev().max_by_key(|entry| entry.priority)
    }

    /// Moves an entry to a place among those of its priority.
    pub(super) fn reorder(&mut self, id: DownloadId, position: usize) -> bool {
        let Some(from) = self.entries.iter().position(|entry| entry.id == id) else { return false };
        let moved = self.entries.remove(from);
        let mut peers = self.entries.iter().enumerate().filter(|(_, entry)| entry.priority == moved.priority);
        let to = peers.nth(position).map_or(self.entries.len(), |(index, _)| index);
        self.entries.insert(to, moved);
        true
    }
}

impl Entry {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.standing, Standing::Running)
    }

    pub(super) fn queue_again(&mut self) {
        self.standing = Standing::Queued;
        self.wish = Wish::Go;
        self.ended.send_if_modified(|ended| ended.take().is_some());
        self.progress.send_modify(|progress| progress.phase = Phase::Queued);
    }

    /// It runs, until what is returned becomes true.
    pub(super) fn run(&mut self) -> watch::Receiver<bool> {
        self.standing = Standing::Running;
        self.stop.send_replace(false);
        self.idle.send_replace(false);
        self.stop.subscribe()
    }

    /// It does not run any more.
    pub(super) fn rest(&mut self) {
        self.standing = Standing::Queued;
        self.idle.send_replace(true);
    }

    pub(super) fn row(&self) -> DownloadRow {
        DownloadRow {
            id: self.id,
            digest: self.wanted.digest,
            label: self.label.clone(),
            priority: self.priority,
            progress: self.progress.borrow().clone(),
            subscriptions: self.subscriptions,
            detached: self.detached,
            error: match &self.standing {
                Standing::Failed(error) => Some(error.clone()),
                _ => None,
            },
        }
    }
}
