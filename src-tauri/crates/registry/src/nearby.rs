//! Untrusted peers on the local network that have models.
//!
//! Any machine on the network can announce itself as a peer. So peers are sources of blobs only: the digests come from
//! the model's origin, and a peer never resolves a name. The bytes of peers are verified like all downloads. A peer
//! that sent wrong bytes is blocked, with its address, until the process ends. Requests carry no credentials, use no
//! proxy and follow no redirects.
//!
//! No network access happens before [`PeerDiscovery::open`].

#[cfg_attr(not(feature = "lan"), path = "nearby/no_discovery.rs")]
mod discovery;
mod peer;

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use cairn_store::ModelRef;
use parking_lot::{Mutex, MutexGuard};

pub use discovery::PeerDiscovery;

use crate::client::{Clock, Registry, Transport};
use crate::{BlobSource, Credentials, PeerKey};
use peer::PeerBlobs;

/// Maximum number of stored peers; a network can announce any number.
const MAX_PEERS: usize = 64;
/// Maximum number of peers that are sources of one model. A peer without the model costs a request.
const MAX_SOURCES: usize = 8;

/// The announcement of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The display name.
    pub label: String,
    /// The version of Cairn.
    pub version: String,
    /// This machine's key.
    pub key: PeerKey,
    /// The address for connections from other machines; may be the unspecified address. `None` if the daemon listens on
    /// loopback only: then peers are discovered, but nothing is announced.
    pub listens: Option<SocketAddr>,
}

/// Multicast DNS is not available.
#[derive(Debug, Clone, thiserror::Error)]
#[error("multicast DNS is not available: {0}")]
pub struct PeerDiscoveryError(String);

/// A peer as its announcement describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// The instance name of the announcement.
    pub instance: String,
    /// The display name.
    pub label: String,
    /// The peer's version of Cairn.
    pub version: String,
    /// The fingerprint of the key that the peer claims to have. It is not verified.
    pub fingerprint: String,
    /// The peer's addresses, the preferred one first.
    pub addresses: Vec<SocketAddr>,
}

/// A change on the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerEvent {
    /// A peer is announced, or its announcement changed.
    Found(PeerInfo),
    /// The announcement with this instance name was withdrawn or expired.
    Lost(String),
}

/// A peer on the local network, with its statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearbyPeer {
    /// The peer's announcement.
    pub info: PeerInfo,
    /// The time of its last announcement or its last data.
    pub seen_at: SystemTime,
    /// Bytes received from the peer.
    pub received_bytes: u64,
    /// Whether the peer is blocked because it sent wrong bytes.
    pub blocked: bool,
}

/// The peers on the local network. Clones share their state.
#[derive(Clone)]
pub struct NearbyPeers(Arc<Inner>);

struct Inner {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    peers: BTreeMap<String, Arc<Peer>>,
    /// Instance names and addresses that sent wrong bytes.
    blocked_instances: HashSet<String>,
    blocked_addresses: HashSet<IpAddr>,
}

/// A peer, shared with the sources that read from it.
struct Peer {
    info: PeerInfo,
    counts: Arc<Counts>,
}

/// Statistics of a peer; they survive changes of its announcement.
struct Counts {
    received_bytes: AtomicU64,
    seen_at: Mutex<SystemTime>,
}

impl NearbyPeers {
    /// Creates an empty list.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner { clock, state: Mutex::default() }))
    }

    /// Applies a change on the network.
    pub fn apply(&self, event: PeerEvent) {
        let now = (self.0.clock)();
        let mut state = self.state();
        match event {
            PeerEvent::Found(found) => {
                if state.peers.len() >= MAX_PEERS && !state.peers.contains_key(&found.instance) {
                    return;
                }
                let known = state.peers.get(&found.instance).map(|peer| Arc::clone(&peer.counts));
                let new = || Counts { received_bytes: AtomicU64::new(0), seen_at: Mutex::new(now) };
                let counts = known.unwrap_or_else(|| Arc::new(new()));
                counts.set_seen(now);
                state.peers.insert(found.instance.clone(), Arc::new(Peer { info: found, counts }));
            }
            PeerEvent::Lost(instance) => drop(state.peers.remove(&instance)),
        }
    }

    /// Returns all peers, sorted by instance name.
    #[must_use]
    pub fn list(&self) -> Vec<NearbyPeer> {
        let state = self.state();
        let peer = |peer: &Arc<Peer>| NearbyPeer {
            info: peer.info.clone(),
            seen_at: *peer.counts.seen_at.lock(),
            received_bytes: peer.counts.received_bytes.load(Ordering::Relaxed),
            blocked: state.is_blocked(&peer.info),
        };
        state.peers.values().map(peer).collect()
    }

    /// Returns peers as sources of a model's blobs. Peers with a fingerprint in `except` are left out.
    #[must_use]
    pub fn sources(&self, name: &ModelRef, transport: &Transport, except: &[String]) -> Vec<Arc<dyn BlobSource>> {
        let state = self.state();
        let usable = state.peers.values().filter(|peer| {
            !state.is_blocked(&peer.info) && !except.iter().any(|known| *known == peer.info.fingerprint)
        });
        let sources = usable.filter_map(|peer| {
            let address = peer.info.addresses.first()?;
            // Plain http is sufficient: the digest proves the content, and an untrusted peer has no verified identity.
            let registry =
                Registry::from_address(&format!("http://{address}"), true, transport, Credentials::anonymous()).ok()?;
            let inner = registry.as_mirror_of(name.host()).untrusted_blobs(name);
            Some(Arc::new(PeerBlobs::new(inner, Arc::clone(&peer.counts), Arc::clone(&self.0.clock))) as Arc<_>)
        });
        sources.take(MAX_SOURCES).collect()
    }

    /// Whether there are no peers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state().peers.is_empty()
    }

    /// Blocks the peer at `host`, which sent wrong bytes. Returns whether there is such a peer.
    pub fn block_host(&self, host: &str) -> bool {
        let mut state = self.state();
        let address = |peer: &Arc<Peer>| peer.info.addresses.first().copied();
        let theirs = state.peers.values().filter(|peer| address(peer).is_some_and(|address| host_of(address) == host));
        let wrong: Vec<(String, Option<SocketAddr>)> =
            theirs.map(|peer| (peer.info.instance.clone(), address(peer))).collect();
        let found = !wrong.is_empty();
        for (instance, address) in wrong {
            state.blocked_instances.insert(instance);
            // The address without the port: the same machine could announce another port.
            state.blocked_addresses.extend(address.map(|address| address.ip()));
        }
        found
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

/// Returns the host of a registry at an address. The default port of http is left out.
fn host_of(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) if address.port() == 80 => address.ip().to_string(),
        SocketAddr::V6(address) if address.port() == 80 => format!("[{}]", address.ip()),
        address => address.to_string(),
    }
}

impl State {
    fn is_blocked(&self, found: &PeerInfo) -> bool {
        self.blocked_instances.contains(&found.instance)
            || found.addresses.iter().any(|address| self.blocked_addresses.contains(&address.ip()))
    }
}

impl Counts {
    fn set_seen(&self, now: SystemTime) {
        *self.seen_at.lock() = now;
    }
}

#[cfg(test)]
mod tests;
