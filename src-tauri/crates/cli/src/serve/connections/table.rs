//! The open connections: a connection beyond a limit evicts the oldest idle one.
//!
//! All operations are logarithmic in the number of connections, because an attacker decides how often they run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Returns the most connections beyond a limit, while evicted connections still close. On a busy machine that takes a while.
fn closing_limit(limit: usize) -> usize {
    limit + (limit / 4).max(64)
}

/// The open connections by id; the lowest id is the oldest.
#[derive(Default)]
pub(super) struct Table {
    last_id: u64,
    open: BTreeMap<u64, Connection>,
    /// Connections without an active request that are not evicted.
    idle: BTreeSet<u64>,
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
    /// Number of connections with an active request.
    active: usize,
    /// Signals that a connection has closed.
    closed: Arc<Notify>,
}

/// State of one connection.
struct Connection {
    address: Option<IpAddr>,
    active_requests: usize,
    evicted: Arc<Notify>,
}

impl Table {
    /// Returns a permit for a new connection; `None` at a limit if no connection is idle.
    ///
    /// `all` limits the number of connections, `per_address` that of the connections of `address`.
    pub(super) fn admit(
        table: &Arc<Mutex<Self>>,
        address: Option<IpAddr>,
        all: usize,
        per_address: usize,
    ) -> Option<ConnectionPermit> {
        let mut locked = table.lock();
        let of_address = address.and_then(|address| locked.by_address.get(&address));
        let (same, oldest_same) = of_address.map_or((0, None), |ids| (ids.len(), locked.oldest_idle(ids)));
        if same >= per_address {
            locked.evict(oldest_same.filter(|_| same < closing_limit(per_address))?);
        }
        let (open, oldest) = (locked.open.len(), locked.idle.first().copied());
        if open >= all {
            locked.evict(oldest.filter(|_| open < closing_limit(all))?);
        }
        locked.last_id += 1;
        let (id, evicted) = (locked.last_id, Arc::new(Notify::new()));
        if let Some(address) = address {
            locked.by_address.entry(address).or_default().insert(id);
        }
        locked.open.insert(id, Connection { address, active_requests: 0, evicted: Arc::clone(&evicted) });
        locked.idle.insert(id);
        Some(ConnectionPermit { id, evicted, table: Arc::clone(table) })
    }

    /// Signal of the next connection that closes, if evicted connections have not closed yet.
    pub(super) fn closing(&self) -> Option<Arc<Notify>> {
        (self.open.len() > self.idle.len() + self.active).then(|| Arc::clone(&self.closed))
    }

    /// Evicts the oldest idle connection, if any.
    pub(super) fn evict_oldest_idle(&mut self) {
        if let Some(oldest) = self.idle.first().copied() {
            self.evict(oldest);
        }
    }

    fn oldest_idle(&self, among: &BTreeSet<u64>) -> Option<u64> {
        among.iter().copied().find(|id| self.idle.contains(id))
    }

    fn evict(&mut self, id: u64) {
        self.idle.remove(&id);
        if let Some(connection) = self.open.get(&id) {
            connection.evicted.notify_one();
        }
    }

    fn begin_request(&mut self, id: u64) {
        self.idle.remove(&id);
        if let Some(connection) = self.open.get_mut(&id) {
            connection.active_requests += 1;
            self.active += usize::from(connection.active_requests == 1);
        }
    }

    fn end_request(&mut self, id: u64) {
        let Some(connection) = self.open.get_mut(&id) else { return };
        connection.active_requests -= 1;
        if connection.active_requests == 0 {
            self.active -= 1;
            self.idle.insert(id);
        }
    }

    fn remove(&mut self, id: u64) {
        self.idle.remove(&id);
        let Some(connection) = self.open.remove(&id) else { return };
        self.active -= usize::from(connection.active_requests > 0);
        self.closed.notify_one();
        let Some(address) = connection.address else { return };
        if let Some(same) = self.by_address.get_mut(&address) {
            same.remove(&id);
            if same.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }
}

/// Permit for one connection. Dropping it frees the place.
pub(super) struct ConnectionPermit {
    id: u64,
    evicted: Arc<Notify>,
    table: Arc<Mutex<Table>>,
}

impl ConnectionPermit {
    /// Completes when another connection needs this place. A request that arrived before then keeps the place.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    pub(super) fn has_active_request(&self) -> bool {
        self.table.lock().open.get(&self.id).is_some_and(|connection| connection.active_requests > 0)
    }

    /// Counts an active request of the connection until the returned value is dropped.
    pub(super) fn begin_request(&self) -> ActiveRequest {
        self.table.lock().begin_request(self.id);
        ActiveRequest { id: self.id, table: Arc::clone(&self.table) }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.table.lock().remove(self.id);
    }
}

/// An active request of a connection.
pub(super) struct ActiveRequest {
    id: u64,
    table: Arc<Mutex<Table>>,
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.table.lock().end_request(self.id);
    }
}
