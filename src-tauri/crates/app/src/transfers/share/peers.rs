//! Who reads this machine's models: how much each took, and how many answers each gets at once.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

/// Answers that one client gets at once; more are asked to wait. Ollama's client takes 16 parts of a blob at a time, and
/// many clients may come from one address.
const MAX_OPEN: u32 = 256;
/// Clients that are remembered; beyond them the one that was not heard of for longest is forgotten.
const MAX_PEERS: usize = 1024;

/// What is known of all clients. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct Peers(Arc<Mutex<HashMap<IpAddr, Peer>>>);

/// A client, since the daemon started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Answers that it is getting.
    pub open: u32,
    /// Blobs and parts of blobs that it asked for.
    pub requests: u64,
    /// Those that it was refused because it had too many open.
    pub refused: u64,
    /// Bytes of blobs that it was sent.
    pub sent_bytes: u64,
    /// When it last asked.
    pub asked_at: SystemTime,
}

/// An answer that a client is getting; it ends when this is dropped.
#[derive(Debug)]
pub struct Serving {
    peers: Peers,
    address: IpAddr,
}

impl Peers {
    /// A client asks for a blob; `None` when it has too many answers open.
    #[must_use]
    pub fn begin(&self, address: IpAddr, now: SystemTime) -> Option<Serving> {
        let address = address.to_canonical();
        let mut peers = self.0.lock();
        if peers.len() >= MAX_PEERS && !peers.contains_key(&address) {
            let quiet = peers.values().filter(|peer| peer.open == 0).min_by_key(|peer| peer.asked_at);
            // When a thousand clients are being served, one more has to wait.
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

    /// All clients, the one that took most first.
    #[must_use]
    pub fn list(&self) -> Vec<Peer> {
        let mut peers: Vec<Peer> = self.0.lock().values().copied().collect();
        peers.sort_by(|a, b| b.sent_bytes.cmp(&a.sent_bytes).then(a.address.cmp(&b.address)));
        peers
    }
}

impl Serving {
    /// Counts bytes that go out.
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
    fn a_client_gets_so_many_answers_at_once() {
        let peers = Peers::default();
        let ask = |address: &str| peers.begin(address.parse().unwrap(), UNIX_EPOCH);
        let open: Vec<Serving> = (0..MAX_OPEN).map(|_| ask("10.0.0.1").expect("below the limit")).collect();
        assert!(ask("10.0.0.1").is_none() && ask("::ffff:10.0.0.1").is_none(), "one address in either notation");
        open[0].sent(5);
        let other = ask("10.0.0.2").expect("another client has its own limit");
        drop(open);
        let again = ask("10.0.0.1").expect("others have ended");
        let rows = peers.list();
        let first = rows.first().expect("two clients");
        assert_eq!((first.open, first.refused, first.sent_bytes), (1, 2, 5), "{rows:?}");
        drop((other, again));
        assert!(peers.list().iter().all(|peer| peer.open == 0), "all have ended");
    }

    #[test]
    fn clients_that_were_long_gone_are_forgotten() {
        let peers = Peers::default();
        let ask = |n: u32| peers.begin(IpAddr::from(n.to_be_bytes()), UNIX_EPOCH + Duration::from_secs(n.into()));
        let kept = ask(1).expect("the first");
        let count = u32::try_from(MAX_PEERS).unwrap() + 10;
        assert!((2..count).all(|n| ask(n).is_some()), "everybody is served");
        assert_eq!(peers.list().len(), MAX_PEERS, "not all are remembered");
        assert!(peers.list().iter().any(|peer| peer.open == 1), "who is being served is");
        drop(kept);
    }
}
