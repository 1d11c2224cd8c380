//! Peers on the local network. This machine announces itself and searches for peers only while it shares its models.
//! Peers supply blobs only.

use parking_lot::Mutex;
use std::net::SocketAddr;

use cairn_registry::{Announcement, NearbyPeer, PeerDiscovery};
use tokio::task::spawn_blocking;

use crate::transfers::Transfers;
use crate::transfers::error::Error;
use crate::version::VERSION;

/// The running discovery; `None` while it is off.
#[derive(Default)]
pub(crate) struct Lan(Mutex<Option<PeerDiscovery>>);

/// A peer that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPeer {
    /// The announcement and state of the peer.
    pub peer: NearbyPeer,
    /// Whether the announced key is that of a joined machine. For display only: the announcement does not prove
    /// possession of the key.
    pub joined: bool,
}

impl Lan {
    fn set(&self, discovery: Option<PeerDiscovery>) -> Option<PeerDiscovery> {
        std::mem::replace(&mut *self.0.lock(), discovery)
    }
}

impl Transfers {
    /// Announces this machine as `label` and searches for peers, if the user shares models (`CAIRN_SHARE`). Otherwise
    /// opens no socket. `listens` are the daemon's addresses. Returns whether discovery runs.
    ///
    /// # Errors
    /// If the system does not allow multicast, or the key cannot be used.
    pub async fn open_lan(&self, label: &str, listens: &[SocketAddr]) -> Result<bool, Error> {
        if !self.settings.sharing.share {
            return Ok(false);
        }
        let listens = listens.iter().copied().find(|address| !address.ip().is_loopback());
        let key = self.peer_key().await?;
        let me = Announcement { label: label.to_owned(), version: VERSION.to_owned(), key, listens };
        let nearby = self.pulls.registry_access().nearby().clone();
        let opened = spawn_blocking(move || PeerDiscovery::open(&me, move |sighting| nearby.apply(sighting)));
        let discovery = opened.await.expect("opening sockets does not panic")?;
        drop(self.lan.set(Some(discovery)));
        Ok(true)
    }

    /// Withdraws the announcement and stops the search.
    pub async fn close_lan(&self) {
        let discovery = self.lan.set(None);
        // Dropping blocks until the farewell is sent.
        spawn_blocking(move || drop(discovery)).await.expect("closing sockets does not panic");
    }

    /// Lists the peers that were found on the local network.
    ///
    /// # Errors
    /// If the lists of trusted keys cannot be read.
    pub fn found_peers(&self) -> Result<Vec<FoundPeer>, Error> {
        let (clients, mirrors) = self.known_peers()?;
        let keys: Vec<String> = clients.iter().chain(&mirrors).map(|peer| peer.key.fingerprint()).collect();
        let found = self.pulls.registry_access().nearby().list().into_iter();
        Ok(found.map(|peer| FoundPeer { joined: keys.contains(&peer.info.fingerprint), peer }).collect())
    }
}
