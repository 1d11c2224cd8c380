//! Where a model may come from: its registry, and mirrors of that registry in an order that the user chose.
//!
//! A blob may come from anybody, because its digest proves it. A name may not: what `llama3` is today only its own
//! registry says, or a mirror that the user joined ([`Trust`]). A source that fails is asked last for a while, and
//! whoever listens to [`Sources::events`] learns of it; nothing falls back in silence.
//!
//! A name that a mirror resolved is remembered ([`SourceMemory`]). When its own registry says something else later, that is
//! told.

mod health;
mod memory;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use bytes::Bytes;
use cairn_store::{Digest, ModelRef};
use tokio::sync::broadcast;

use crate::client::{AddressError, ManifestBytes, Registry, Transport};
use crate::{BlobSource, Body, Opened, PeerKey, Pending, SignIn, SourceError};
use health::Health;
pub use health::HealthRules;
pub use memory::SourceMemory;

/// Events that wait for a slow listener; it misses the oldest beyond.
const WAITING_EVENTS: usize = 256;
/// Names whose meaning by the word of a mirror is remembered.
const MAX_SAID: usize = 10_000;
/// How long a mirror may take to look at a manifest before we go on without it.
const PREPARES_WITHIN: Duration = Duration::from_secs(5);

/// What a mirror is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The user joined it: it may say which manifest a name has, where this key signed what it says.
    Joined(PeerKey),
    /// It has blobs, and its word on names counts for nothing.
    BlobsOnly,
}

/// One line of the list of sources of a registry's models.
#[derive(Debug, Clone)]
pub enum Place {
    /// The registry itself.
    Origin,
    /// Another server that keeps the same models.
    Mirror {
        /// `http://nas:11434`. Plain `http` is fine, because the user wrote it.
        address: String,
        /// What it is believed.
        trust: Trust,
        /// Who we are to it.
        sign_in: SignIn,
    },
}

/// Something about sources that users should be able to see.
#[derive(Debug, Clone)]
pub enum SourceEvent {
    /// One failed, and is asked last for a while.
    Rests {
        /// Which.
        host: String,
        /// What happened.
        reason: SourceError,
    },
    /// One that had failed works again.
    Recovered {
        /// Which.
        host: String,
    },
    /// A name was resolved by another source than the first of its list.
    FellBack {
        /// Which name.
        name: ModelRef,
        /// Who resolved it.
        to: String,
        /// Why those before it did not.
        reasons: Vec<SourceError>,
    },
    /// A name's own registry says something else than a mirror said before.
    Disagreement {
        /// Which name.
        name: ModelRef,
        /// The mirror.
        mirror: String,
        /// What the mirror said.
        mirror_digest: Digest,
        /// What the registry says.
        origin_digest: Digest,
    },
}

/// A name's manifest, and on whose word.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The manifest.
    pub manifest: ManifestBytes,
    /// Who said so.
    pub host: String,
    /// Whether it was a mirror, and not the name's own registry.
    pub by_mirror: bool,
    /// Why those before it in the list did not say.
    pub fell_back: Vec<SourceError>,
}

/// Who we are to a registry, by its host.
pub type SignInByHost = Arc<dyn Fn(&str) -> SignIn + Send + Sync>;

/// All sources of all registries.
pub struct Sources {
    transport: Transport,
    sign_in: SignInByHost,
    /// By the host of names, in lower case. A host without a list has only itself.
    lists: Mutex<HashMap<String, Vec<Listed>>>,
    /// Registries that were asked before, with their tokens; by host and plain `http`.
    origins: Mutex<HashMap<(String, bool), Registry>>,
    shared: Arc<Shared>,
}

/// A line of a list, as it is used.
#[derive(Clone)]
enum Listed {
    Origin,
    Mirror(Box<Registry>, Trust),
}

/// What all sources remember together.
struct Shared {
    health: Health,
    /// What mirrors said of names.
    said: Mutex<HashMap<ModelRef, (String, Digest)>>,
    events: broadcast::Sender<SourceEvent>,
    /// Tells who writes down what is remembered.
    changed: OnceLock<mpsc::Sender<()>>,
}

impl Sources {
    /// Every registry by itself, until [`Sources::set`] says otherwise.
    #[must_use]
    pub fn new(transport: Transport, sign_in: SignInByHost, rules: HealthRules) -> Self {
        let shared = Shared {
            health: Health::new(rules),
            said: Mutex::default(),
            events: broadcast::Sender::new(WAITING_EVENTS),
            changed: OnceLock::new(),
        };
        Self { transport, sign_in, lists: Mutex::default(), origins: Mutex::default(), shared: Arc::new(shared) }
    }

    /// Sets the list of a registry's sources, in the order in which they are asked. Where the registry itself is not in the
    /// list, it is never asked.
    ///
    /// # Errors
    /// When the address of a mirror is none; the list stays as it was.
    pub fn set(&self, host: &str, places: Vec<Place>) -> Result<(), AddressError> {
        let listed = places.into_iter().map(|place| match place {
            Place::Origin => Ok(Listed::Origin),
            Place::Mirror { address, trust, sign_in } => {
                let registry = Registry::at(&address, true, &self.transport, sign_in)?;
                let registry = match trust {
                    Trust::Joined(key) => registry.pinned_to(key),
                    Trust::BlobsOnly => registry,
                };
                Ok(Listed::Mirror(Box::new(registry.standing_for(host)), trust))
            }
        });
        let listed = listed.collect::<Result<_, _>>()?;
        lock(&self.lists).insert(host.to_ascii_lowercase(), listed);
        Ok(())
    }

    /// The sources of one name. `insecure` makes its own registry plain `http`.
    ///
    /// # Errors
    /// When the registry of the name cannot be asked so, and is in the list.
    pub fn of(&self, name: &ModelRef, insecure: bool) -> Result<ModelSources, AddressError> {
        let list = lock(&self.lists).get(&name.host().to_ascii_lowercase()).cloned();
        let places = list.unwrap_or_else(|| vec![Listed::Origin]).into_iter().map(|listed| match listed {
            Listed::Origin => Ok(Asked { registry: self.origin(name, insecure)?, standing: Standing::Origin }),
            Listed::Mirror(registry, trust) => Ok(Asked { registry: *registry, standing: Standing::Mirror(trust) }),
        });
        let places = places.collect::<Result<_, _>>()?;
        Ok(ModelSources { name: name.clone(), places, shared: Arc::clone(&self.shared) })
    }

    /// A name's own registry: where pushes go.
    ///
    /// # Errors
    /// As [`Registry::of`].
    pub fn origin(&self, name: &ModelRef, insecure: bool) -> Result<Registry, AddressError> {
        let key = (name.host().to_ascii_lowercase(), insecure || name.insecure());
        // The rules of plain `http` hold for every name anew.
        let registry = Registry::of(name, insecure, &self.transport, (self.sign_in)(name.host()))?;
        Ok(lock(&self.origins).entry(key).or_insert(registry).clone())
    }

    /// Asks anew who we are to every registry: what they were told before, and their tokens, count no more.
    pub fn sign_in_anew(&self) {
        lock(&self.origins).clear();
    }

    /// What becomes known from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<SourceEvent> {
        self.shared.events.subscribe()
    }

    /// Recalls what an earlier program wrote down there, and writes down what changes. Blocks while it reads.
    pub fn keep_at(&self, memory: SourceMemory) {
        memory.serve(&self.shared);
    }
}

/// The sources of one name, in their order.
pub struct ModelSources {
    name: ModelRef,
    places: Vec<Asked>,
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Asked {
    registry: Registry,
    standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Origin,
    Mirror(Trust),
}

impl ModelSources {
    /// The manifest of the name, by the first that may say and can. What the name's own registry says is final: where it
    /// has no such model, no mirror is asked after it.
    ///
    /// # Errors
    /// What the registry itself said, or else the last of those that were asked.
    pub async fn resolve(&self) -> Result<Resolved, SourceError> {
        let mut fell_back = Vec::new();
        for asked in self.in_order().filter(|asked| asked.standing != Standing::Mirror(Trust::BlobsOnly)) {
            let origin = asked.standing == Standing::Origin;
            let host = asked.registry.host().to_owned();
            let got = asked.registry.manifest(&self.name).await;
            self.shared.note(&host, got.as_ref().err());
            match got {
                Ok(manifest) => {
                    self.compare(&host, origin, manifest.manifest.digest);
                    if origin {
                        self.prepare_mirrors(&fell_back).await;
                    }
                    if !fell_back.is_empty() {
                        let (name, to) = (self.name.clone(), host.clone());
                        self.shared.tell(SourceEvent::FellBack { name, to, reasons: fell_back.clone() });
                    }
                    return Ok(Resolved { manifest, host, by_mirror: !origin, fell_back });
                }
                Err(error @ (SourceError::Absent { .. } | SourceError::Refused { .. })) if origin => return Err(error),
                Err(error) => fell_back.push(error),
            }
        }
        let own =
            self.places.iter().find(|asked| asked.standing == Standing::Origin).map(|asked| asked.registry.host());
        let of_origin = fell_back.iter().rposition(|error| Some(error.host()) == own);
        let told = of_origin.map(|index| fell_back.swap_remove(index)).or_else(|| fell_back.pop());
        Err(told.unwrap_or_else(|| SourceError::Refused {
            host: self.name.host().to_owned(),
            status: None,
            reason: "none of its sources may say what the name means".to_owned(),
        }))
    }

    /// Has the mirrors that were joined ask for the name's manifest too, so that one which fetches for us knows what we are
    /// going to ask it for, and can stand in for the registry later. What they say counts for nothing now. Those that `failed`
    /// were asked already.
    async fn prepare_mirrors(&self, failed: &[SourceError]) {
        let joined = self.places.iter().filter(|asked| matches!(asked.standing, Standing::Mirror(Trust::Joined(_))));
        let passed_over =
            |host: &str| self.shared.health.rests(host) || failed.iter().any(|error| error.host() == host);
        for asked in joined.filter(|asked| !passed_over(asked.registry.host())) {
            let asking = tokio::time::timeout(PREPARES_WITHIN, asked.registry.manifest(&self.name));
            if let Ok(Err(error)) = asking.await {
                self.shared.note(asked.registry.host(), Some(&error));
            }
        }
    }

    /// Everybody who may have the name's blobs, those that failed lately last.
    #[must_use]
    pub fn blobs(&self) -> Vec<Arc<dyn BlobSource>> {
        let watched = self.in_order().map(|asked| {
            let inner = asked.registry.blobs(&self.name);
            Arc::new(Watched { inner, shared: Arc::clone(&self.shared) }) as Arc<dyn BlobSource>
        });
        watched.collect()
    }

    /// The list, those that rest behind the others.
    fn in_order(&self) -> impl Iterator<Item = &Asked> {
        let (resting, ready): (Vec<_>, Vec<_>) =
            self.places.iter().partition(|asked| self.shared.health.rests(asked.registry.host()));
        ready.into_iter().chain(resting)
    }

    /// Holds what the registry says against what a mirror said, or remembers what a mirror says.
    fn compare(&self, host: &str, origin: bool, digest: Digest) {
        if !origin {
            self.shared.remember(self.name.clone(), host.to_owned(), digest);
            return self.shared.changes();
        }
        let Some((mirror, mirror_digest)) = lock(&self.shared.said).remove(&self.name) else { return };
        self.shared.changes();
        if mirror_digest != digest {
            let name = self.name.clone();
            self.shared.tell(SourceEvent::Disagreement { name, mirror, mirror_digest, origin_digest: digest });
        }
    }
}

impl Shared {
    /// Remembers how it went with a host.
    fn note(&self, host: &str, error: Option<&SourceError>) {
        match error {
            Some(error @ (SourceError::Broken { .. } | SourceError::Busy { .. } | SourceError::Untrusted { .. })) => {
                if self.health.failed(host) {
                    self.changes();
                    self.tell(SourceEvent::Rests { host: host.to_owned(), reason: error.clone() });
                }
            }
            // It works, whether it has what was asked for or not.
            Some(SourceError::Absent { .. } | SourceError::Refused { .. }) | None => {
                if self.health.worked(host) {
                    self.changes();
                    self.tell(SourceEvent::Recovered { host: host.to_owned() });
                }
            }
        }
    }

    /// Takes note of what a mirror said of a name.
    fn remember(&self, name: ModelRef, mirror: String, digest: Digest) {
        let mut said = lock(&self.said);
        if said.len() >= MAX_SAID
            && !said.contains_key(&name)
            && let Some(other) = said.keys().next().cloned()
        {
            said.remove(&other);
        }
        said.insert(name, (mirror, digest));
    }

    /// Something of what is remembered is another now.
    fn changes(&self) {
        if let Some(changed) = self.changed.get() {
            // Who writes it down ends with this.
            let _ = changed.send(());
        }
    }

    fn tell(&self, event: SourceEvent) {
        // Nobody has to listen.
        let _ = self.events.send(event);
    }
}

/// A source whose failures are remembered.
struct Watched {
    inner: Arc<dyn BlobSource>,
    shared: Arc<Shared>,
}

impl BlobSource for Watched {
    fn host(&self) -> &str {
        self.inner.host()
    }

    fn open<'a>(
        &'a self,
        digest: &'a Digest,
        size_bytes: u64,
        range: Range<u64>,
    ) -> Pending<'a, Result<Opened, SourceError>> {
        Box::pin(async move {
            let opened = self.inner.open(digest, size_bytes, range).await;
            self.shared.note(self.host(), opened.as_ref().err());
            let Opened { offset, body } = opened?;
            let (host, shared) = (self.host().to_owned(), Arc::clone(&self.shared));
            Ok(Opened { offset, body: Box::new(WatchedBody { body, host, shared }) })
        })
    }
}

struct WatchedBody {
    body: Box<dyn Body>,
    host: String,
    shared: Arc<Shared>,
}

impl Body for WatchedBody {
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let more = self.body.next().await;
            if let Err(error) = &more {
                self.shared.note(&self.host, Some(error));
            }
            more
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
