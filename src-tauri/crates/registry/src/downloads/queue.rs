//! The queue of downloads, with their states and priorities.

use std::sync::Arc;

use cairn_store::Digest;
use tokio::sync::watch;

use super::{Completion, DownloadRow};
use crate::download::{BlobProgress, DownloadError, DownloadSpec, Phase};

/// Id of a download in this process. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DownloadId(pub u64);

/// Priority of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// After all other downloads.
    Background,
    /// In the order of the requests.
    Normal,
    /// At once, regardless of other downloads: a client waits for the bytes.
    Now,
}

/// The state that the user or a subscriber wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DesiredState {
    Running,
    Paused,
    Cancelled,
    Discarded,
}

/// The current state.
#[derive(Debug, Clone)]
pub(super) enum EntryState {
    Queued,
    Running,
    Paused,
    Failed(DownloadError),
}

pub(super) struct QueueEntry {
    pub(super) id: DownloadId,
    pub(super) spec: DownloadSpec,
    pub(super) state: EntryState,
    pub(super) desired: DesiredState,
    pub(super) subscriptions: usize,
    pub(super) detached: bool,
    pub(super) progress: Arc<watch::Sender<BlobProgress>>,
    pub(super) completion: watch::Sender<Completion>,
    pub(super) stop: watch::Sender<bool>,
    /// Whether the download is not running.
    pub(super) idle: watch::Sender<bool>,
    priority: Priority,
    label: String,
}

/// All downloads, in the order of the requests or as reordered.
#[derive(Default)]
pub(super) struct Queue {
    entries: Vec<QueueEntry>,
    last_id: u64,
}

impl Queue {
    pub(super) fn entries(&self) -> &[QueueEntry] {
        &self.entries
    }

    pub(super) fn entry(&mut self, id: DownloadId) -> Option<&mut QueueEntry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    pub(super) fn remove(&mut self, id: DownloadId) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// Adds a download or joins the existing one of the digest. Returns its id and whether it was queued.
    pub(super) fn join(&mut self, spec: DownloadSpec, priority: Priority, label: String) -> (DownloadId, bool) {
        let is_active = |entry: &&mut QueueEntry| {
            entry.spec.digest == spec.digest
                && !matches!(entry.desired, DesiredState::Cancelled | DesiredState::Discarded)
        };
        if let Some(entry) = self.entries.iter_mut().find(is_active) {
            entry.subscriptions += 1;
            entry.priority = entry.priority.max(priority);
            entry.spec.limit.raise(spec.limit.bytes());
            let is_requeued = matches!(entry.state, EntryState::Paused | EntryState::Failed(_));
            if is_requeued {
                // The new request may have other sources.
                let (read_positions, limit) = (Arc::clone(&entry.spec.read_positions), Arc::clone(&entry.spec.limit));
                entry.spec = DownloadSpec { read_positions, limit, ..spec };
                entry.requeue();
            } else if entry.desired == DesiredState::Paused {
                entry.desired = DesiredState::Running;
                entry.stop.send_replace(false);
            }
            return (entry.id, is_requeued);
        }
        self.last_id += 1;
        let id = DownloadId(self.last_id);
        self.entries.push(QueueEntry {
            id,
            progress: Arc::new(watch::Sender::new(BlobProgress::new(spec.size_bytes))),
            spec,
            state: EntryState::Queued,
            desired: DesiredState::Running,
            subscriptions: 1,
            detached: false,
            completion: watch::Sender::new(None),
            stop: watch::Sender::new(false),
            idle: watch::Sender::new(true),
            priority,
            label,
        });
        (id, true)
    }

    /// Removes a subscription. Returns whether the download has none left and is not detached.
    pub(super) fn unsubscribe(&mut self, id: DownloadId) -> bool {
        let Some(entry) = self.entry(id) else { return false };
        entry.subscriptions = entry.subscriptions.saturating_sub(1);
        entry.subscriptions == 0 && !entry.detached
    }

    /// The next download to start, if fewer than `max_parallel` run. A download waits while an earlier one of the same digest
    /// is still stopping.
    pub(super) fn next(&mut self, max_parallel: usize) -> Option<&mut QueueEntry> {
        let counted = |entry: &&QueueEntry| entry.is_running() && entry.priority != Priority::Now;
        let full = self.entries.iter().filter(counted).count() >= max_parallel.max(1);
        let running: Vec<Digest> =
            self.entries.iter().filter(|entry| entry.is_running()).map(|entry| entry.spec.digest).collect();
        let is_startable = |entry: &&mut QueueEntry| {
            matches!(entry.state, EntryState::Queued)
                && (!full || entry.priority == Priority::Now)
                && !running.contains(&entry.spec.digest)
        };
        // Reversed, because `max_by_key` returns the last of equal elements.
        self.entries.iter_mut().filter(is_startable).rev().max_by_key(|entry| entry.priority)
    }

    /// Moves an entry to a position among the entries of its priority.
    pub(super) fn reorder(&mut self, id: DownloadId, position: usize) -> bool {
        let Some(from) = self.entries.iter().position(|entry| entry.id == id) else { return false };
        let moved = self.entries.remove(from);
        let mut peers = self.entries.iter().enumerate().filter(|(_, entry)| entry.priority == moved.priority);
        let to = peers.nth(position).map_or(self.entries.len(), |(index, _)| index);
        self.entries.insert(to, moved);
        true
    }
}

impl QueueEntry {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, EntryState::Running)
    }

    pub(super) fn requeue(&mut self) {
        self.state = EntryState::Queued;
        self.desired = DesiredState::Running;
        self.completion.send_if_modified(|completion| completion.take().is_some());
        self.progress.send_modify(|progress| progress.phase = Phase::Queued);
    }

    /// Marks the download as running. The returned receiver becomes true when it must stop.
    pub(super) fn set_running(&mut self) -> watch::Receiver<bool> {
        self.state = EntryState::Running;
        self.stop.send_replace(false);
        self.idle.send_replace(false);
        self.stop.subscribe()
    }

    /// Marks the download as stopped.
    pub(super) fn set_stopped(&mut self) {
        self.state = EntryState::Queued;
        self.idle.send_replace(true);
    }

    pub(super) fn row(&self) -> DownloadRow {
        DownloadRow {
            id: self.id,
            digest: self.spec.digest,
            label: self.label.clone(),
            priority: self.priority,
            progress: self.progress.borrow().clone(),
            subscriptions: self.subscriptions,
            detached: self.detached,
            error: match &self.state {
                EntryState::Failed(error) => Some(error.clone()),
                _ => None,
            },
        }
    }
}
