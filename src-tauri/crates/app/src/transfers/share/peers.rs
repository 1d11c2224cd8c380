//! Statistics and limits of the clients that read this machine's models.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of parallel responses to one client. Ollama's client reads 16 parts of a blob at a time, and many
/// clients may share an address.
const MAX_OPEN: u32 = 256;
/// Maximum number of remembered clients. The one with the oldest last request is forgotten first.
const MAX_PEERS: usize = 1024;

/// Statistics of all clients. Clones share all state.
#[derive(Debug, Clone, Default)]
pub struct Peers(Arc<Mutex<HashMap<IpAddr, Peer>>>);

/// Statistics of a client since the daemon started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Address of the client.
    pub address: IpAddr,
    /// Responses in progress.
    pub open: u32,
    /// Requests for blobs and parts of blobs.
    pub requests: u64,
    /// Requests that were rejected because too many responses were in progress.
    pub refused: u64,
    /// Bytes of blobs that were sent.
    pub sent_bytes: u64,
    /// Time of the last request.
    pub asked_at: SystemTime,
}

/// A response in progress. It ends when this is dropped.
#[derive(Debug)]
pub struct Serving {
    peers: Peers,
    address: IpAddr,
}

impl Peers {
    /// Registers a request for a blob; `None` if the client has too many responses in progress.
    #[must_use]
    pub fn begin(&self, address: IpAddr, now: SystemTime) -> Option<Serving> {
        let address = address.to_canonical();
        let mut peers = self.0.lock();
        if peers.len() >= MAX_PEERS && !peers.contains_key(&address) {
            let quiet = peers.values().filter(|peer| peer.open == 0).min_by_key(|peer| peer.asked_at);
            // If all remembered clients are being served, a new one has to wait.
            let forgotten = quiet.map(|peer| peer.address)?;
            peers.remove(&forgotten);
        }
        let new = Peer { address, open: 0, requests: 0, refused: 0, sent_bytes: 0, asked_at: now };
        let peer = peers.entry(address).or_insert(new);
        peer.requests += 1;
        peer.asked_at = now;
        if peer.open >= MAX_OPEN {
            peer.refused += 1;
            return None;
        }
        peer.open += 1;
        Some(Serving { peers: self.clone(), address })
    }

    /// All clients, in descending order of bytes sent.
    #[must_use]
    pub fn list(&self) -> Vec<Peer> {
        let mut peers: Vec<Peer> = self.0.lock().values().copied().collect();
        peers.sort_by(|a, b| b.sent_bytes.cmp(&a.sent_bytes).then(a.address.cmp(&b.address)));
        peers
    }
}

impl Serving {
    /// Adds to the bytes sent.
    pub fn sent(&self, bytes: u64) {
        self.with(|peer| peer.sent_bytes += bytes);
    }

    fn with(&self, change: impl FnOnce(&mut Peer)) {
        if let Some(peer) = self.peers.0.lock().get_mut(&self.address) {
            change(peer);
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.with(|peer| peer.open = peer.open.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn client_is_limited_to_max_parallel_responses() {
        let peers = Peers::default();
        let ask = |address: &str| peers.begin(address.parse().unwrap(), UNIX_EPOCH);
        let open: Vec<Serving> = (0..MAX_OPEN).map(|_| ask("10.0.0.1").expect("below the limit")).collect();
        assert!(ask("10.0.0.1").is_none() && ask("::ffff:10.0.0.1").is_none(), "one client in two notations");
        open[0].sent(5);
        let other = ask("10.0.0.2").expect("another client has its own limit");
        drop(open);
        let again = ask("10.0.0.1").expect("earlier responses have ended");
        let rows = peers.list();
        let first = rows.first().expect("two clients");
        assert_eq!((first.open, first.refused, first.sent_bytes), (1, 2, 5), "{rows:?}");
        drop((other, again));
        assert!(peers.list().iter().all(|peer| peer.open == 0), "all responses have ended");
    }

    #[test]
    fn clients_with_oldest_requests_are_forgotten() {
        let peers = Peers::default();
        let ask = |n: u32| peers.begin(IpAddr::from(n.to_be_bytes()), UNIX_EPOCH + Duration::from_secs(n.into()));
        let kept = ask(1).expect("the first");
        let count = u32::try_from(MAX_PEERS).unwrap() + 10;
        assert!((2..count).all(|n| ask(n).is_some()), "each client is served");
        assert_eq!(peers.list().len(), MAX_PEERS, "the list is bounded");
        assert!(peers.list().iter().any(|peer| peer.open == 1), "a client that is being served stays");
        drop(kept);
    }
}
