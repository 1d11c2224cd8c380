//! Machines of the local network: announced to and looked for only while this machine shares its models, and asked for
//! contents alone.

use parking_lot::Mutex;
use std::net::SocketAddr;

use cairn_registry::{Announcement, NearbyPeer, PeerDiscovery};
use tokio::task::spawn_blocking;

use crate::transfers::error::Error;
use crate::transfers::handle::Transfers;
use crate::version::VERSION;

/// The network being watched, once it is.
#[derive(Default)]
pub(crate) struct Lan(Mutex<Option<PeerDiscovery>>);

/// A machine that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPeer {
    /// What is known of it.
    pub peer: NearbyPeer,
    /// The key that it says it has is that of a machine that joined this one, or that this one joined. It is what people
    /// are shown; nothing is believed for it.
    pub joined: bool,
}

impl Lan {
    fn set(&self, lookout: Option<PeerDiscovery>) -> Option<PeerDiscovery> {
        std::mem::replace(&mut *self.0.lock(), lookout)
    }
}

impl Transfers {
    /// Announces this machine as `label` and looks for others, if its user shares models (`CAIRN_SHARE`); otherwise
    /// nothing is sent and no socket opened. `listens` is where the daemon can be reached. Returns whether it does.
    ///
    /// # Errors
    /// When the system allows no multicast, or there is no key.
    pub async fn open_lan(&self, label: &str, listens: &[SocketAddr]) -> Result<bool, Error> {
        if !self.settings.sharing.share {
            return Ok(false);
        }
        let listens = listens.iter().copied().find(|address| !address.ip().is_loopback());
        let key = self.peer_key().await?;
        let me = Announcement { label: label.to_owned(), version: VERSION.to_owned(), key, listens };
        let nearby = self.pulls.outside().nearby().clone();
        let opened = spawn_blocking(move || PeerDiscovery::open(&me, move |sighting| nearby.apply(sighting)));
        let lookout = opened.await.expect("opening sockets does not panic")?;
        drop(self.lan.set(Some(lookout)));
        Ok(true)
    }

    /// Takes the announcement back and stops looking.
    pub async fn close_lan(&self) {
        let lookout = self.lan.set(None);
        // It says farewell, which takes a moment.
        spawn_blocking(move || drop(lookout)).await.expect("closing sockets does not panic");
    }

    /// Who was found on the local network.
    ///
    /// # Errors
    /// When the list of known keys cannot be read.
    pub fn found_peers(&self) -> Result<Vec<FoundPeer>, Error> {
        let (known, joined) = self.known_peers()?;
        let keys: Vec<String> = known.iter().chain(&joined).map(|known| known.key.fingerprint()).collect();
        let found = self.pulls.outside().nearby().list().into_iter();
        Ok(found.map(|peer| FoundPeer { joined: keys.contains(&peer.info.fingerprint), peer }).collect())
    }
}
