//! The sources of a model: its registry, and mirrors of that registry in the user's order.
//!
//! A blob may come from any source, because its digest proves it. A name is resolved only by its own registry or by a
//! mirror that the user joined ([`MirrorTrust`]). A source that fails is tried last for a while. [`Sources::events`] reports
//! failures and fallbacks.
//!
//! Names that a mirror resolved are stored ([`SourceStateFile`]). If the registry later returns another digest, that is
//! reported as a disagreement.

mod backoff;
mod state_file;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use bytes::Bytes;
use cairn_store::{Digest, ModelRef};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::client::{AddressError, FetchedManifest, Registry, Transport};
use crate::{BlobSource, Body, BoxFuture, Credentials, PeerKey, RangeResponse, SourceError};
pub use backoff::BackoffConfig;
use backoff::BackoffTracker;
pub use state_file::SourceStateFile;

/// Capacity of the event channel; a slow receiver loses the oldest events.
const EVENT_CAPACITY: usize = 256;
/// Maximum number of stored mirror resolutions.
const MAX_RESOLUTIONS: usize = 10_000;
/// Timeout for preparing a mirror.
const MIRROR_PREPARE_TIMEOUT: Duration = Duration::from_secs(5);

/// How far a mirror is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorTrust {
    /// A joined mirror: it may resolve names, if it signs its response with this key.
    Joined(PeerKey),
    /// The mirror may supply blobs only.
    BlobsOnly,
}

/// An entry in the list of sources of a registry's models.
#[derive(Debug, Clone)]
pub enum SourceEntry {
    /// The registry itself.
    Origin,
    /// A mirror of the registry.
    Mirror {
        /// The address, for example `http://nas:11434`. Plain `http` is allowed, because the user configured it.
        address: String,
        /// How far it is trusted.
        trust: MirrorTrust,
        /// Credentials for the mirror.
        credentials: Credentials,
    },
}

/// A change in the state of sources that users should see.
#[derive(Debug, Clone)]
pub enum SourceEvent {
    /// A source failed and is tried last for a while.
    BackedOff {
        /// The host of the source.
        host: String,
        /// The error.
        reason: SourceError,
    },
    /// A source that had failed works again.
    Recovered {
        /// The host of the source.
        host: String,
    },
    /// A name was resolved by another source than the first in its list.
    FellBack {
        /// The model name.
        name: ModelRef,
        /// The host that resolved it.
        to: String,
        /// Errors of the sources before it.
        reasons: Vec<SourceError>,
    },
    /// The registry resolved a name to another digest than a mirror did before.
    Disagreement {
        /// The model name.
        name: ModelRef,
        /// The host of the mirror.
        mirror: String,
        /// The digest from the mirror.
        mirror_digest: Digest,
        /// The digest from the registry.
        origin_digest: Digest,
    },
}

/// A resolved name: its manifest and the source of that.
#[derive(Debug, Clone)]
pub struct ResolvedManifest {
    /// The manifest.
    pub manifest: FetchedManifest,
    /// The host that resolved the name.
    pub host: String,
    /// Whether a mirror resolved the name, not its own registry.
    pub is_from_mirror: bool,
    /// Errors of the sources before it in the list.
    pub failures: Vec<SourceError>,
}

/// Returns the credentials for a registry's host.
pub type CredentialsByHost = Arc<dyn Fn(&str) -> Credentials + Send + Sync>;

/// The configured sources of all registries.
pub struct Sources {
    transport: Transport,
    credentials_by_host: CredentialsByHost,
    /// Sources by lower-case host of a registry. A host without a list has only itself as a source.
    lists: Mutex<HashMap<String, Vec<ListEntry>>>,
    /// Registries in use, with their cached tokens; by host and plain `http`.
    origins: Mutex<HashMap<(String, bool), Registry>>,
    shared: Arc<Shared>,
}

/// An entry of a list, with its client.
#[derive(Clone)]
enum ListEntry {
    Origin,
    Mirror(Box<Registry>, MirrorTrust),
}

/// State that all sources share.
struct Shared {
    backoff: BackoffTracker,
    /// Host and digest of the last resolution by a mirror.
    mirror_resolutions: Mutex<HashMap<ModelRef, (String, Digest)>>,
    events: broadcast::Sender<SourceEvent>,
    /// Wakes the thread that writes the state file.
    changed: OnceLock<mpsc::Sender<()>>,
}

impl Sources {
    /// Creates sources without mirrors; [`Sources::set_entries`] adds them.
    #[must_use]
    pub fn new(transport: Transport, credentials_by_host: CredentialsByHost, backoff: BackoffConfig) -> Self {
        let shared = Shared {
            backoff: BackoffTracker::new(backoff),
            mirror_resolutions: Mutex::default(),
            events: broadcast::Sender::new(EVENT_CAPACITY),
            changed: OnceLock::new(),
        };
        Self {
            transport,
            credentials_by_host,
            lists: Mutex::default(),
            origins: Mutex::default(),
            shared: Arc::new(shared),
        }
    }

    /// Sets the list of a registry's sources, in the order in which they are tried. A registry that is not in its own list is
    /// never used.
    ///
    /// # Errors
    /// If the address of a mirror is invalid. The list is unchanged then.
    pub fn set_entries(&self, host: &str, entries: Vec<SourceEntry>) -> Result<(), AddressError> {
        let listed = entries.into_iter().map(|entry| match entry {
            SourceEntry::Origin => Ok(ListEntry::Origin),
            SourceEntry::Mirror { address, trust, credentials } => {
                let registry = Registry::from_address(&address, true, &self.transport, credentials)?;
                let registry = match trust {
                    MirrorTrust::Joined(key) => registry.with_pinned_key(key),
                    MirrorTrust::BlobsOnly => registry,
                };
                Ok(ListEntry::Mirror(Box::new(registry.as_mirror_of(host)), trust))
            }
        });
        let listed = listed.collect::<Result<_, _>>()?;
        self.lists.lock().insert(host.to_ascii_lowercase(), listed);
        Ok(())
    }

    /// Returns the sources of a name. With `insecure`, its registry is contacted over plain `http`.
    ///
    /// # Errors
    /// If the registry is in the list and its address is invalid or insecure.
    pub fn for_model(&self, name: &ModelRef, insecure: bool) -> Result<ModelSources, AddressError> {
        let list = self.lists.lock().get(&name.host().to_ascii_lowercase()).cloned();
        let sources = list.unwrap_or_else(|| vec![ListEntry::Origin]).into_iter().map(|listed| match listed {
            ListEntry::Origin => Ok(ModelSource { registry: self.origin(name, insecure)?, kind: SourceKind::Origin }),
            ListEntry::Mirror(registry, trust) => {
                Ok(ModelSource { registry: *registry, kind: SourceKind::Mirror(trust) })
            }
        });
        let sources = sources.collect::<Result<_, _>>()?;
        Ok(ModelSources { name: name.clone(), sources, shared: Arc::clone(&self.shared) })
    }

    /// Returns a name's own registry, the target of pushes.
    ///
    /// # Errors
    /// As [`Registry::for_name`].
    pub fn origin(&self, name: &ModelRef, insecure: bool) -> Result<Registry, AddressError> {
        let key = (name.host().to_ascii_lowercase(), insecure || name.insecure());
        // Check plain `http` for every name, also if the registry is cached.
        let registry = Registry::for_name(name, insecure, &self.transport, (self.credentials_by_host)(name.host()))?;
        Ok(self.origins.lock().entry(key).or_insert(registry).clone())
    }

    /// Discards the credentials and tokens of all registries. The next request reads the credentials again.
    pub fn reset_credentials(&self) {
        self.origins.lock().clear();
    }

    /// Subscribes to events.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<SourceEvent> {
        self.shared.events.subscribe()
    }

    /// Restores the state from a file and keeps the file up to date. Blocks while reading.
    pub fn persist_to(&self, state_file: SourceStateFile) {
        state_file.attach(&self.shared);
    }
}

/// The sources of one name, in the configured order.
pub struct ModelSources {
    name: ModelRef,
    sources: Vec<ModelSource>,
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct ModelSource {
    registry: Registry,
    kind: SourceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceKind {
    Origin,
    Mirror(MirrorTrust),
}

impl ModelSources {
    /// Resolves the name with the first trusted source that responds. If the name's own registry
    /// refuses or has no such model, that is final: no mirror is tried after it.
    ///
    /// # Errors
    /// The error of the registry itself, otherwise that of the last source.
    pub async fn resolve(&self) -> Result<ResolvedManifest, SourceError> {
        let mut failures = Vec::new();
        for source in self.in_order().filter(|source| source.kind != SourceKind::Mirror(MirrorTrust::BlobsOnly)) {
            let is_origin = source.kind == SourceKind::Origin;
            let host = source.registry.host().to_owned();
            let result = source.registry.manifest(&self.name).await;
            self.shared.record_result(&host, result.as_ref().err());
            match result {
                Ok(manifest) => {
                    self.compare(&host, is_origin, manifest.manifest.digest);
                    if is_origin {
                        self.prepare_mirrors(&failures).await;
                    }
                    if !failures.is_empty() {
                        let (name, to) = (self.name.clone(), host.clone());
                        self.shared.send_event(SourceEvent::FellBack { name, to, reasons: failures.clone() });
                    }
                    return Ok(ResolvedManifest { manifest, host, is_from_mirror: !is_origin, failures });
                }
                Err(
                    error @ (SourceError::Absent { .. }
                    | SourceError::Refused { .. }
                    | SourceError::InvalidManifest { .. }),
                ) if is_origin => {
                    return Err(error);
                }
                Err(error) => failures.push(error),
            }
        }
        let own =
            self.sources.iter().find(|source| source.kind == SourceKind::Origin).map(|source| source.registry.host());
        let of_origin = failures.iter().rposition(|error| Some(error.host()) == own);
        let error = of_origin.map(|index| failures.swap_remove(index)).or_else(|| failures.pop());
        Err(error.unwrap_or_else(|| SourceError::Refused {
            host: self.name.host().to_owned(),
            status: None,
            reason: "none of its sources is trusted to resolve the name".to_owned(),
        }))
    }

    /// Requests the manifest from the joined mirrors too. So a caching mirror learns which model will be downloaded, and can
    /// replace the registry later. The responses are ignored. Mirrors in `failed` were asked already.
    async fn prepare_mirrors(&self, failed: &[SourceError]) {
        let joined =
            self.sources.iter().filter(|source| matches!(source.kind, SourceKind::Mirror(MirrorTrust::Joined(_))));
        let is_skipped =
            |host: &str| self.shared.backoff.is_active(host) || failed.iter().any(|error| error.host() == host);
        for source in joined.filter(|source| !is_skipped(source.registry.host())) {
            let request = tokio::time::timeout(MIRROR_PREPARE_TIMEOUT, source.registry.manifest(&self.name));
            if let Ok(Err(error)) = request.await {
                self.shared.record_result(source.registry.host(), Some(&error));
            }
        }
    }

    /// Returns all sources of the name's blobs. Sources in backoff come last.
    #[must_use]
    pub fn blobs(&self) -> Vec<Arc<dyn BlobSource>> {
        let sources = self.in_order().map(|source| {
            let inner = source.registry.blobs(&self.name);
            Arc::new(MonitoredSource { inner, shared: Arc::clone(&self.shared) }) as Arc<dyn BlobSource>
        });
        sources.collect()
    }

    /// The sources in the order in which they are tried: those in backoff last.
    fn in_order(&self) -> impl Iterator<Item = &ModelSource> {
        let (backed_off, ready): (Vec<_>, Vec<_>) =
            self.sources.iter().partition(|source| self.shared.backoff.is_active(source.registry.host()));
        ready.into_iter().chain(backed_off)
    }

    /// Stores the digest from a mirror, or compares the digest from the registry with the stored one.
    fn compare(&self, host: &str, is_origin: bool, digest: Digest) {
        if !is_origin {
            self.shared.remember(self.name.clone(), host.to_owned(), digest);
            return self.shared.state_changed();
        }
        let Some((mirror, mirror_digest)) = self.shared.mirror_resolutions.lock().remove(&self.name) else { return };
        self.shared.state_changed();
        if mirror_digest != digest {
            let name = self.name.clone();
            self.shared.send_event(SourceEvent::Disagreement { name, mirror, mirror_digest, origin_digest: digest });
        }
    }
}

impl Shared {
    /// Records the result of a request to a host.
    fn record_result(&self, host: &str, error: Option<&SourceError>) {
        match error {
            Some(error @ (SourceError::Broken { .. } | SourceError::Busy { .. } | SourceError::Untrusted { .. })) => {
                if self.backoff.record_failure(host) {
                    self.state_changed();
                    self.send_event(SourceEvent::BackedOff { host: host.to_owned(), reason: error.clone() });
                }
            }
            // The host works, whether it has the content or not.
            Some(SourceError::Absent { .. } | SourceError::Refused { .. } | SourceError::InvalidManifest { .. })
            | None => {
                if self.backoff.record_success(host) {
                    self.state_changed();
                    self.send_event(SourceEvent::Recovered { host: host.to_owned() });
                }
            }
        }
    }

    /// Stores the resolution of a name by a mirror.
    fn remember(&self, name: ModelRef, mirror: String, digest: Digest) {
        let mut resolutions = self.mirror_resolutions.lock();
        if resolutions.len() >= MAX_RESOLUTIONS
            && !resolutions.contains_key(&name)
            && let Some(other) = resolutions.keys().next().cloned()
        {
            resolutions.remove(&other);
        }
        resolutions.insert(name, (mirror, digest));
    }

    /// Wakes the writer of the state file.
    fn state_changed(&self) {
        if let Some(changed) = self.changed.get() {
            // The writer has ended; that is not an error.
            let _ = changed.send(());
        }
    }

    fn send_event(&self, event: SourceEvent) {
        // There may be no receiver; that is not an error.
        let _ = self.events.send(event);
    }
}

/// A blob source whose results are recorded in the backoff tracker.
struct MonitoredSource {
    inner: Arc<dyn BlobSource>,
    shared: Arc<Shared>,
}

impl BlobSource for MonitoredSource {
    fn host(&self) -> &str {
        self.inner.host()
    }

    fn open<'a>(
        &'a self,
        digest: &'a Digest,
        size_bytes: u64,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<RangeResponse, SourceError>> {
        Box::pin(async move {
            let opened = self.inner.open(digest, size_bytes, range).await;
            self.shared.record_result(self.host(), opened.as_ref().err());
            let RangeResponse { offset, body } = opened?;
            let (host, shared) = (self.host().to_owned(), Arc::clone(&self.shared));
            Ok(RangeResponse { offset, body: Box::new(MonitoredBody { body, host, shared }) })
        })
    }
}

struct MonitoredBody {
    body: Box<dyn Body>,
    host: String,
    shared: Arc<Shared>,
}

impl Body for MonitoredBody {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let more = self.body.next().await;
            if let Err(error) = &more {
                self.shared.record_result(&self.host, Some(error));
            }
            more
        })
    }
}

#[cfg(test)]
mod tests;
