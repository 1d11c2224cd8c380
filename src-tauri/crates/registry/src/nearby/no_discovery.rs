//! Replacement for [`PeerDiscovery`] in a build without the feature `lan`.

use super::{Announcement, PeerDiscoveryError, PeerEvent};

/// Announcement and discovery on the local network, which this build does not support. There are no values of this type.
#[derive(Debug)]
pub enum PeerDiscovery {}

impl PeerDiscovery {
    /// Opens no socket.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &Announcement, _: impl Fn(PeerEvent) + Send + 'static) -> Result<Self, PeerDiscoveryError> {
        Err(PeerDiscoveryError("this build has no LAN discovery; build with the feature `lan`".to_owned()))
    }
}

/// Callers end a discovery by dropping it.
impl Drop for PeerDiscovery {
    fn drop(&mut self) {
        match *self {}
    }
}
