//! A fake registry on localhost with configurable faults.
//!
//! It uses plain sockets with one thread per connection, because HTTP libraries refuse to send invalid responses. It
//! listens at two addresses: the registry, and a storage host to which it can redirect requests for blobs. It records
//! all requests and the number of bytes sent of each blob, so tests can detect repeated downloads.

mod fault;
mod http;
mod serve;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use parking_lot::Mutex;

pub use fault::{Fault, Faults};
pub use http::Request;

use crate::Random;

/// Running registry. Dropping it stops it.
pub struct FakeRegistry {
    state: Arc<State>,
}

/// State shared by all connections.
struct State {
    registry: SocketAddr,
    storage: SocketAddr,
    faults: Mutex<Faults>,
    random: Mutex<Random>,
    /// Remaining error responses of a storm, and their status.
    storm: Mutex<(u32, u16)>,
    manifests: Mutex<HashMap<String, Vec<u8>>>,
    blobs: Mutex<HashMap<String, Arc<[u8]>>>,
    sent_bytes: Mutex<HashMap<String, u64>>,
    requests: Mutex<Vec<ReceivedRequest>>,
    /// Generation number of the valid tokens. Earlier tokens have expired.
    token: AtomicU64,
    /// Generation number of the valid storage addresses. Earlier addresses have expired.
    ticket: AtomicU64,
    stopped: AtomicBool,
    /// Whether all connections are closed without a response.
    offline: AtomicBool,
}

/// Request received by the registry.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Whether the storage host received it, not the registry.
    pub at_storage: bool,
    /// The request.
    pub request: Request,
}

/// Address of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Registry,
    Storage,
}

impl FakeRegistry {
    /// Starts a registry without models. `seed` determines the faults of responses.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(seed: u64, faults: Faults) -> io::Result<Self> {
        let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let state = Arc::new(State {
            registry: listeners[0].local_addr()?,
            storage: listeners[1].local_addr()?,
            faults: Mutex::new(faults),
            random: Mutex::new(Random::new(seed)),
            storm: Mutex::default(),
            manifests: Mutex::default(),
            blobs: Mutex::default(),
            sent_bytes: Mutex::default(),
            requests: Mutex::default(),
            token: AtomicU64::new(1),
            ticket: AtomicU64::new(1),
            stopped: AtomicBool::new(false),
            offline: AtomicBool::new(false),
        });
        for (listener, endpoint) in listeners.into_iter().zip([Endpoint::Registry, Endpoint::Storage]) {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for connection in listener.incoming() {
                    if state.stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(connection) = connection else { continue };
                    let state = Arc::clone(&state);
                    // A client may disconnect at any time; that is not an error.
                    thread::spawn(move || drop(state.serve(&connection, endpoint)));
                }
            });
        }
        Ok(Self { state })
    }

    /// Returns `127.0.0.1:PORT`, the host in the names of its models.
    #[must_use]
    pub fn host(&self) -> String {
        self.state.registry.to_string()
    }

    /// Returns the host of blobs if [`Faults::redirect`] is set.
    #[must_use]
    pub fn storage_host(&self) -> String {
        self.state.storage.to_string()
    }

    /// Stores a blob under its digest, `sha256:...`.
    pub fn put_blob(&self, digest: &str, bytes: Arc<[u8]>) {
        self.state.blobs.lock().insert(digest.to_owned(), bytes);
    }

    /// Stores a model's manifest; `repository` is `namespace/model`.
    pub fn put_manifest(&self, repository: &str, tag: &str, manifest: &[u8]) {
        self.state.manifests.lock().insert(format!("{repository}/manifests/{tag}"), manifest.to_owned());
    }

    /// Deletes a model's manifest; `repository` is `namespace/model`.
    pub fn remove_manifest(&self, repository: &str, tag: &str) {
        self.state.manifests.lock().remove(&format!("{repository}/manifests/{tag}"));
    }

    /// Replaces the faults.
    pub fn set_faults(&self, faults: Faults) {
        *self.state.faults.lock() = faults;
        *self.state.storm.lock() = (0, 0);
    }

    /// Sets whether all connections are closed without a response.
    pub fn set_offline(&self, offline: bool) {
        self.state.offline.store(offline, Ordering::SeqCst);
    }

    /// Invalidates all issued tokens and storage addresses.
    pub fn expire(&self) {
        self.state.token.fetch_add(1, Ordering::SeqCst);
        self.state.ticket.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of bytes of a blob that were sent to all clients.
    #[must_use]
    pub fn sent_bytes(&self, digest: &str) -> u64 {
        self.state.sent_bytes.lock().get(digest).copied().unwrap_or(0)
    }

    /// Returns all received requests.
    #[must_use]
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.requests.lock().clone()
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        for address in [self.state.registry, self.state.storage] {
            // Wakes the thread that waits for connections.
            drop(TcpStream::connect(address));
        }
    }
}

#[cfg(test)]
mod tests;
