//! Other machines of the local network that have models, found and not introduced.
//!
//! Anybody on the network can announce anything, so whoever is found is asked for one thing only: contents whose digest
//! the origin of a model has told already. What a name means they are never asked. What they send goes through the same
//! check as everything else; one who sent wrong bytes is not asked again while this program runs, and neither is its
//! address. They are asked without credentials, without a proxy, and no redirect of theirs is followed.
//!
//! Nothing of this is done before [`Lookout::open`], which is where the network is first listened to and spoken to.

mod lookout;
mod peer;

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use cairn_store::ModelRef;

pub use lookout::{Announcement, Lookout, LookoutError};

use crate::client::{Clock, Registry, Transport};
use crate::{BlobSource, SignIn};
use peer::PeerBlobs;

/// Machines that are remembered; a network can announce any number.
const MAX_FOUND: usize = 64;
/// Of these, how many are asked for one model: each that does not have it costs a question.
const MAX_ASKED: usize = 8;

/// A machine, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What its announcement is called on the network.
    pub instance: String,
    /// Its name for people.
    pub label: String,
    /// Its version of this program.
    pub version: String,
    /// The fingerprint of the key that it says it has. Nothing proves it.
    pub fingerprint: String,
    /// Where it says that it listens, the best first.
    pub addresses: Vec<SocketAddr>,
}

/// What was seen on the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// A machine is there, or says something new.
    Here(Found),
    /// The announcement with that name is withdrawn or ran out.
    Gone(String),
}

/// A machine that was found, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearbyPeer {
    /// What it says of itself.
    pub found: Found,
    /// When it was last heard of, or last sent something.
    pub seen_at: SystemTime,
    /// Bytes that it sent.
    pub got_bytes: u64,
    /// It sent wrong bytes, and is not asked any more.
    pub dropped: bool,
}

/// All machines that were found. Clones share them.
#[derive(Clone)]
pub struct Nearby(Arc<Inner>);

struct Inner {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    peers: BTreeMap<String, Arc<Peer>>,
    /// Who sent wrong bytes: names of announcements, and addresses.
    wrong_instances: HashSet<String>,
    wrong_addresses: HashSet<IpAddr>,
}

/// One of them, for as long as anybody reads from it.
struct Peer {
    found: Found,
    counts: Arc<Counts>,
}

/// What one sent, whatever it is called in between.
struct Counts {
    got_bytes: AtomicU64,
    seen_at: Mutex<SystemTime>,
}

impl Nearby {
    /// Nobody, so far.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner { clock, state: Mutex::default() }))
    }

    /// Takes note of what was seen.
    pub fn saw(&self, sighting: Sighting) {
        let now = (self.0.clock)();
        let mut state = self.state();
        match sighting {
            Sighting::Here(found) => {
                if state.peers.len() >= MAX_FOUND && !state.peers.contains_key(&found.instance) {
                    return;
                }
                let known = state.peers.get(&found.instance).map(|peer| Arc::clone(&peer.counts));
                let new = || Counts { got_bytes: AtomicU64::new(0), seen_at: Mutex::new(now) };
                let counts = known.unwrap_or_else(|| Arc::new(new()));
                counts.seen(now);
                state.peers.insert(found.instance.clone(), Arc::new(Peer { found, counts }));
            }
            Sighting::Gone(instance) => drop(state.peers.remove(&instance)),
        }
    }

    /// Everybody who is there, by name.
    #[must_use]
    pub fn list(&self) -> Vec<NearbyPeer> {
        let state = self.state();
        let peer = |peer: &Arc<Peer>| NearbyPeer {
            found: peer.found.clone(),
            seen_at: *peer.counts.seen_at.lock().unwrap_or_else(PoisonError::into_inner),
            got_bytes: peer.counts.got_bytes.load(Ordering::Relaxed),
            dropped: state.is_wrong(&peer.found),
        };
        state.peers.values().map(peer).collect()
    }

    /// Those who may be asked for a model's contents. `besides` are fingerprints of machines that are asked already.
    #[must_use]
    pub fn sources(&self, name: &ModelRef, transport: &Transport, besides: &[String]) -> Vec<Arc<dyn BlobSource>> {
        let state = self.state();
        let usable = state.peers.values().filter(|peer| {
            !state.is_wrong(&peer.found) && !besides.iter().any(|known| *known == peer.found.fingerprint)
        });
        let sources = usable.filter_map(|peer| {
            let address = peer.found.addresses.first()?;
            // Plain http is as good as any other here: the digest proves what comes, and there is nobody to prove.
            let registry = Registry::at(&format!("http://{address}"), true, transport, SignIn::anonymous()).ok()?;
            let inner = registry.standing_for(name.host()).blobs_of_stranger(name);
            Some(Arc::new(PeerBlobs::new(inner, Arc::clone(&peer.counts), Arc::clone(&self.0.clock))) as Arc<_>)
        });
        sources.take(MAX_ASKED).collect()
    }

    /// Is anybody there who could be asked?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state().peers.is_empty()
    }

    /// Who answers at `host` sent wrong bytes, and is not asked any more; whether that is one of these.
    pub fn sent_wrong_bytes(&self, host: &str) -> bool {
        let mut state = self.state();
        let asked = |peer: &Arc<Peer>| peer.found.addresses.first().copied();
        let theirs = state.peers.values().filter(|peer| asked(peer).is_some_and(|address| host_of(address) == host));
        let wrong: Vec<(String, Option<SocketAddr>)> =
            theirs.map(|peer| (peer.found.instance.clone(), asked(peer))).collect();
        let found = !wrong.is_empty();
        for (instance, address) in wrong {
            state.wrong_instances.insert(instance);
            // The address without its port: another port would be a new name for the same machine.
            state.wrong_addresses.extend(address.map(|address| address.ip()));
        }
        found
    }

    /// Nothing in it can be left half-changed, so a panic elsewhere while it was held does no harm.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a registry at an address is called: without the port where that is the one of plain http.
fn host_of(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) if address.port() == 80 => address.ip().to_string(),
        SocketAddr::V6(address) if address.port() == 80 => format!("[{}]", address.ip()),
        address => address.to_string(),
    }
}

impl State {
    fn is_wrong(&self, found: &Found) -> bool {
        self.wrong_instances.contains(&found.instance)
            || found.addresses.iter().any(|address| self.wrong_addresses.contains(&address.ip()))
    }
}

impl Counts {
    fn seen(&self, now: SystemTime) {
        *self.seen_at.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

#[cfg(test)]
mod tests;
