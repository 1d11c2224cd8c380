//! A registry on this machine that lies, stalls and breaks as it is told.
//!
//! It speaks HTTP/1.1 over plain sockets, a thread for each connection, because a proper server would refuse to send
//! what a broken one sends. It listens at two addresses: the registry's, and that of another host to which it may send
//! clients for blobs, as registries do that keep theirs with a storage service. What is asked and how many bytes of each
//! blob go out is counted, so that a test can say what was fetched twice.

mod fault;
mod http;
mod serve;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

pub use fault::{Fault, Faults};
pub use http::Request;

use crate::Random;

/// A running registry; dropping it stops it.
pub struct FakeRegistry {
    state: Arc<State>,
}

/// What all connections share.
struct State {
    registry: SocketAddr,
    storage: SocketAddr,
    faults: Mutex<Faults>,
    random: Mutex<Random>,
    /// Answers that a storm still spoils, and with which status.
    storm: Mutex<(u32, u16)>,
    manifests: Mutex<HashMap<String, Vec<u8>>>,
    blobs: Mutex<HashMap<String, Arc<[u8]>>>,
    sent_bytes: Mutex<HashMap<String, u64>>,
    requests: Mutex<Vec<Seen>>,
    /// The number in tokens, and in the addresses of blobs in storage, that are good at the moment.
    token: AtomicU64,
    ticket: AtomicU64,
    stopped: AtomicBool,
    /// Out of reach for the time being.
    away: AtomicBool,
}

/// A request that came in.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Whether it came to the storage's address rather than the registry's.
    pub at_storage: bool,
    /// What was asked.
    pub request: Request,
}

/// Which of the two addresses a connection came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Registry,
    Storage,
}

impl FakeRegistry {
    /// Starts a registry without models. `seed` decides which answers are spoilt and how.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn start(seed: u64, faults: Faults) -> io::Result<Self> {
        let doors = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let state = Arc::new(State {
            registry: doors[0].local_addr()?,
            storage: doors[1].local_addr()?,
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
            away: AtomicBool::new(false),
        });
        for (listener, door) in doors.into_iter().zip([Door::Registry, Door::Storage]) {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for connection in listener.incoming() {
                    if state.stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(connection) = connection else { continue };
                    let state = Arc::clone(&state);
                    // A client that goes away ends its thread, and nobody minds.
                    thread::spawn(move || drop(state.converse(&connection, door)));
                }
            });
        }
        Ok(Self { state })
    }

    /// `127.0.0.1:PORT`, the host of names of its models.
    #[must_use]
    pub fn host(&self) -> String {
        self.state.registry.to_string()
    }

    /// Where blobs come from when [`Faults::redirect`] is set.
    #[must_use]
    pub fn storage_host(&self) -> String {
        self.state.storage.to_string()
    }

    /// Makes contents known by their digest, `sha256:...`.
    pub fn put_blob(&self, digest: &str, bytes: Arc<[u8]>) {
        lock(&self.state.blobs).insert(digest.to_owned(), bytes);
    }

    /// Gives a model a manifest; `repository` is `namespace/model`.
    pub fn put_manifest(&self, repository: &str, tag: &str, manifest: &[u8]) {
        lock(&self.state.manifests).insert(format!("{repository}/manifests/{tag}"), manifest.to_owned());
    }

    /// From now on these faults.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.state.faults) = faults;
        *lock(&self.state.storm) = (0, 0);
    }

    /// Whether every connection breaks before there is an answer.
    pub fn set_away(&self, away: bool) {
        self.state.away.store(away, Ordering::SeqCst);
    }

    /// Makes every token and every address of storage that was given out worthless.
    pub fn expire(&self) {
        self.state.token.fetch_add(1, Ordering::SeqCst);
        self.state.ticket.fetch_add(1, Ordering::SeqCst);
    }

    /// Bytes of a blob that went out so far, to everybody together.
    #[must_use]
    pub fn sent_bytes(&self, digest: &str) -> u64 {
        lock(&self.state.sent_bytes).get(digest).copied().unwrap_or(0)
    }

    /// Everything that was asked so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Seen> {
        lock(&self.state.requests).clone()
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

/// A panic elsewhere is that test's failure, and not a second one here.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
