//! Log of the last requests and their clients, in memory only: time, client, path, status and usage. It never contains
//! prompts, answers or query strings.

mod entry;

use std::collections::VecDeque;
use std::sync::Arc;

use cairn_wire::app::{LoggedRequest, ServerClient};
use parking_lot::Mutex;
use tokio::sync::watch;

use entry::LogEntry;
pub(crate) use entry::LogHandle;

/// Limit of logged requests. A new request evicts the oldest.
const MAX_REQUESTS: usize = 500;
/// Limit of logged clients. A new client evicts the least recently seen.
const MAX_CLIENTS: usize = 64;

/// Bounded log of requests and clients. Clones share one log.
#[derive(Clone)]
pub(crate) struct RequestLog(Arc<Inner>);

struct Inner {
    entries: Mutex<Entries>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Entries {
    last_id: u64,
    /// From oldest to newest.
    requests: VecDeque<Arc<Mutex<LogEntry>>>,
    /// From least to most recently seen.
    clients: Vec<ServerClient>,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self(Arc::new(Inner { entries: Mutex::default(), changed: watch::Sender::new(0) }))
    }
}

impl RequestLog {
    /// Returns the logged requests from newest to oldest.
    pub(crate) fn requests(&self) -> Vec<LoggedRequest> {
        self.0.entries.lock().requests.iter().rev().map(|entry| entry.lock().snapshot()).collect()
    }

    /// Returns the logged clients from most to least recently seen.
    pub(crate) fn clients(&self) -> Vec<ServerClient> {
        self.0.entries.lock().clients.iter().rev().cloned().collect()
    }

    /// Returns a receiver that is notified of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn add(&self, entry: &Arc<Mutex<LogEntry>>) {
        let mut entries = self.0.entries.lock();
        entries.last_id += 1;
        let id = entries.last_id;
        let client = {
            let mut entry = entry.lock();
            entry.request.id = id;
            entry.client()
        };
        entries.requests.push_back(Arc::clone(entry));
        let surplus = entries.requests.len().saturating_sub(MAX_REQUESTS);
        entries.requests.drain(..surplus);
        let is_same = |other: &ServerClient| other.name == client.name && other.address == client.address;
        let count = entries.clients.iter().position(is_same).map(|index| entries.clients.remove(index).requests);
        entries.clients.push(ServerClient { requests: count.unwrap_or(0) + 1, ..client });
        let surplus = entries.clients.len().saturating_sub(MAX_CLIENTS);
        entries.clients.drain(..surplus);
        drop(entries);
        self.notify();
    }

    fn notify(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }
}
