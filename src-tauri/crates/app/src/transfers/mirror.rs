//! Mirror: downloads models that clients of this machine's registry request and that no library has, once for all
//! clients.
//!
//! ```text
//! manifest  resolved by its origin within a minute ---> that one
//!                `---- else the origin resolves it; if it is unreachable: the local manifest, marked as stale
//! blob      in a library ---> from there
//!                `---- of an offered manifest ---> one shared download, read while it runs;
//!                                                  its first request starts a pull of the whole model
//! ```
//!
//! Only the origin resolves a tag. Only clients with [`Client::fetches`] start downloads; other clients of this machine
//! may read a download that runs.
//!
//! **Invariants:** only names of configured origins are requested; all requests for a blob share one download; a model
//! is listed only when it is complete, because a pull publishes it; a model that a user created under an origin's name
//! is not replaced for clients.

mod blob;
mod counts;
mod tag;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_registry::{BlobRequest, Priority};
use cairn_store::{Digest, ModelRef};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::settings::SharingSettings;
use crate::transfers::Transfers;
use crate::transfers::downloading_blob::DownloadingBlob;
use crate::transfers::error::Error;
use crate::transfers::pull::PullError;
use crate::transfers::pull::Pulls;
use crate::transfers::share::{Reference, SharedBlob, SharedManifest, name_of};
pub use blob::{BlobBytes, BlobReader};
use counts::Counts;
pub use counts::MirrorCounts;
use tag::{Tag, TagState};

/// How long a resolved tag is fresh.
const TAG_LIFETIME: Duration = Duration::from_secs(60);
/// Delay before an unreachable origin is asked again, if a local answer exists.
const ORIGIN_BACKOFF: Duration = Duration::from_secs(10);
/// Maximum number of cached tags, and of known blobs.
const MAX_TAGS: usize = 4096;
const MAX_NAMED: usize = 65_536;

/// A client of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Whether the mirror downloads models for the client.
    pub fetches: bool,
}

/// A manifest for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedManifest {
    /// The manifest.
    pub manifest: SharedManifest,
    /// Name of the model.
    pub name: ModelRef,
    /// Why the origin could not resolve the tag now, if it should have.
    pub stale: Option<String>,
}

/// The result of a client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer<T> {
    /// Available.
    Here(T),
    /// Does not exist.
    Nothing,
    /// Would need a download, which this client may not start.
    SignInRequired,
}

/// The state of the mirror. Clones share it.
#[derive(Clone)]
pub(crate) struct Mirror(Arc<Inner>);

struct Inner {
    pulls: Pulls,
    settings: SharingSettings,
    tags: Mutex<HashMap<ModelRef, Tag>>,
    /// Blobs of the manifests that were offered to clients.
    named: Mutex<HashMap<Digest, NamedBlob>>,
    counts: Counts,
    /// Starts the count of downloaded bytes.
    counting: std::sync::Once,
}

/// A blob of an offered manifest.
#[derive(Clone)]
struct NamedBlob {
    size_bytes: u64,
    name: ModelRef,
    insecure: bool,
    /// Whether a client has started its download.
    is_requested: bool,
}

impl Transfers {
    /// Returns the manifest of a model for a client of the registry: the origin's, if this machine mirrors it, else
    /// that of a library. `host` is the registry of the model, if the client states it. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// If the name is invalid, a library cannot be read, or no manifest is local and the origin is unreachable.
    pub async fn offered_manifest(
        &self,
        host: Option<&str>,
        namespace: &str,
        model: &str,
        reference: &Reference,
        client: Client,
    ) -> Result<Offer<OfferedManifest>, Error> {
        let mirror = &self.mirror.0;
        let name = name_of(host.unwrap_or_else(|| mirror.default_host()), namespace, model, reference)?;
        let mut stored = self.stored_manifest(&name, reference).await?;
        if stored.is_none()
            && host.is_none()
            && !name.host().eq_ignore_ascii_case(crate::transfers::share::DEFAULT_HOST)
        {
            let ours = name_of(crate::transfers::share::DEFAULT_HOST, namespace, model, reference)?;
            stored = self.stored_manifest(&ours, reference).await?;
        }
        let origin = mirror.settings.origin_of(&name).filter(|_| mirror.settings.mirror);
        let offer = |manifest, stale| Offer::Here(OfferedManifest { manifest, name: name.clone(), stale });
        let (Some(origin), Reference::Tag(_)) = (origin, reference) else {
            let offered = match reference {
                Reference::Digest(digest) => mirror.offered_by_digest(&name, digest),
                Reference::Tag(_) => None,
            };
            return Ok(stored.or(offered).map_or(Offer::Nothing, |manifest| offer(manifest, None)));
        };
        let tag = mirror.tag(&name);
        let mut state = tag.lock().await;
        if !client.fetches {
            // Requests of untrusted clients are not forwarded to the origin.
            let local = stored.or_else(|| state.manifest.clone());
            return Ok(local.map_or(Offer::SignInRequired, |manifest| offer(manifest, None)));
        }
        if !state.is_fresh(TAG_LIFETIME, ORIGIN_BACKOFF) {
            let resolved = mirror.resolve(&name, origin.insecure).await;
            state.resolved_at = Some(Instant::now());
            state.problem = None;
            match resolved {
                Ok(manifest) => state.manifest = Some(manifest),
                // The name may be that of a model that was created here.
                Err(PullError::Absent { .. }) if stored.is_some() => state.manifest = None,
                Err(error) if state.manifest.is_none() && stored.is_none() => {
                    mirror.forget(&name);
                    return match error {
                        PullError::Absent { .. } => Ok(Offer::Nothing),
                        error => Err(error.into()),
                    };
                }
                Err(error) => {
                    tracing::warn!(model = %name, %error, "cannot reach the origin; clients get the local manifest");
                    state.problem = Some(error.to_string());
                }
            }
        }
        let stale = state.problem.clone();
        if stale.is_some() {
            mirror.counts.stale();
        }
        let manifest = state.manifest.clone().or(stored);
        Ok(manifest.map_or(Offer::Nothing, |manifest| offer(manifest, stale)))
    }

    /// Returns the size of a blob for a client of the registry; `None` if the blob is unknown.
    pub async fn offered_blob_size(&self, digest: &Digest) -> Option<u64> {
        match self.stored_blob(digest).await {
            Some(blob) => Some(blob.size_bytes),
            None => self.mirror.0.named(digest).map(|named| named.size_bytes),
        }
    }

    /// Returns a blob for a client of the registry, from a library or from a download that runs. Must be called inside
    /// a tokio runtime.
    ///
    /// # Errors
    /// If the blob cannot be downloaded.
    pub async fn offered_blob(&self, digest: &Digest, client: Client) -> Result<Offer<BlobBytes>, Error> {
        let mirror = &self.mirror.0;
        if let Some(blob) = self.stored_blob(digest).await {
            mirror.counts.hit();
            return Ok(Offer::Here(BlobBytes::stored(blob)));
        }
        let Some(named) = mirror.named(digest) else { return Ok(Offer::Nothing) };
        if !named.is_requested && !client.fetches {
            return Ok(Offer::SignInRequired);
        }
        mirror.counts.miss();
        // A model that a user created under the name is not replaced.
        let stored = self.stored_manifest(&named.name, &Reference::Tag(named.name.tag().to_owned())).await?;
        let replaces = stored.is_none_or(|stored| mirror.pulls.may_replace(&named.name, &stored.digest));
        let downloading = mirror.fetch(*digest, named, replaces).await?;
        Ok(Offer::Here(BlobBytes::downloading(downloading)))
    }

    /// Counters since the daemon started.
    #[must_use]
    pub fn mirror_counts(&self) -> MirrorCounts {
        self.mirror.0.counts.read()
    }

    async fn stored_manifest(&self, name: &ModelRef, reference: &Reference) -> Result<Option<SharedManifest>, Error> {
        let (transfers, name, reference) = (self.clone(), name.clone(), reference.clone());
        let found =
            spawn_blocking(move || transfers.shared_manifest(name.host(), name.namespace(), name.model(), &reference));
        found.await.expect("reading a manifest does not panic")
    }

    async fn stored_blob(&self, digest: &Digest) -> Option<SharedBlob> {
        let (transfers, digest) = (self.clone(), *digest);
        spawn_blocking(move || transfers.shared_blob(&digest)).await.expect("looking for a file does not panic")
    }
}

impl Mirror {
    pub(crate) fn new(pulls: Pulls, settings: SharingSettings) -> Self {
        Self(Arc::new(Inner {
            pulls,
            settings,
            tags: Mutex::default(),
            named: Mutex::default(),
            counts: Counts::default(),
            counting: std::sync::Once::new(),
        }))
    }
}

impl Inner {
    /// The registry of a model if the client does not state it.
    fn default_host(&self) -> &str {
        let first = self.settings.mirror_origins.first().filter(|_| self.settings.mirror);
        first.map_or(crate::transfers::share::DEFAULT_HOST, |origin| &origin.host)
    }

    /// Returns the state of a tag. The task that holds its lock resolves the tag while the others wait.
    fn tag(&self, name: &ModelRef) -> Tag {
        let mut tags = self.tags.lock();
        if tags.len() >= MAX_TAGS {
            // Tags that no task holds can be resolved again.
            tags.retain(|_, tag| Arc::strong_count(tag) > 1);
        }
        Arc::clone(tags.entry(name.clone()).or_default())
    }

    fn forget(&self, name: &ModelRef) {
        self.tags.lock().remove(name);
    }

    /// Returns an offered manifest by its digest.
    fn offered_by_digest(&self, name: &ModelRef, digest: &Digest) -> Option<SharedManifest> {
        let tags: Vec<Tag> = {
            let tags = self.tags.lock();
            tags.iter().filter(|(offered, _)| offered.same_repository(name)).map(|(_, tag)| Arc::clone(tag)).collect()
        };
        let with_digest = |tag: &Tag| tag.try_lock().ok()?.manifest.clone().filter(|offered| offered.digest == *digest);
        tags.iter().find_map(with_digest)
    }

    /// Resolves a name at its origin, and remembers the manifest's blobs.
    async fn resolve(&self, name: &ModelRef, insecure: bool) -> Result<SharedManifest, PullError> {
        let origins = self.pulls.origins(name, insecure)?;
        let resolved = origins.resolve().await;
        let resolved = resolved.map_err(|error| PullError::of_manifest(error, &name.to_string(), 1))?;
        let manifest = &resolved.manifest.manifest;
        let mut named = self.named.lock();
        if named.len() >= MAX_NAMED {
            named.clear();
        }
        for layer in manifest.layers.iter().chain(&manifest.config) {
            let new = NamedBlob { size_bytes: layer.size_bytes, name: name.clone(), insecure, is_requested: false };
            named.entry(layer.digest).or_insert(new);
        }
        Ok(SharedManifest { digest: manifest.digest, bytes: resolved.manifest.bytes.to_vec() })
    }

    /// Returns a blob of an offered manifest, or of a model that is being pulled. The latter lets clients continue
    /// after a restart of the daemon.
    fn named(&self, digest: &Digest) -> Option<NamedBlob> {
        let named = self.named.lock().get(digest).cloned();
        named.or_else(|| {
            let (name, size_bytes, insecure) = self.pulls.find_active_download(digest)?;
            self.settings.origin_of(&name).filter(|_| self.settings.mirror)?;
            let named = NamedBlob { size_bytes, name, insecure, is_requested: true };
            Some(self.named.lock().entry(*digest).or_insert(named).clone())
        })
    }

    /// Joins the download of a blob. The first download of a model's blob also starts a pull of the model, unless that
    /// would replace a user's model (`replaces` is false).
    async fn fetch(
        self: &Arc<Self>,
        digest: Digest,
        named: NamedBlob,
        replaces: bool,
    ) -> Result<DownloadingBlob, Error> {
        let NamedBlob { size_bytes, name, insecure, .. } = named;
        let (within, origin_name) = (Arc::clone(self), name.clone());
        let prepared = spawn_blocking(move || {
            let origins = within.pulls.origins(&origin_name, insecure)?;
            Ok::<_, PullError>((within.pulls.downloads()?, origins))
        });
        let (downloads, origins) = prepared.await.expect("preparing does not panic")?;
        self.counting.call_once(|| {
            tokio::spawn(Arc::clone(self).count(downloads.events()));
        });
        let subscription = downloads.fetch(BlobRequest {
            digest,
            size_bytes,
            sources: origins.blob_sources(),
            priority: Priority::Now,
            label: name.to_string(),
            limit_bytes: None,
        });
        let is_first = {
            let mut all = self.named.lock();
            let of_model = all.values_mut().filter(|other| other.name == name);
            of_model.fold(false, |is_first, other| is_first | !std::mem::replace(&mut other.is_requested, true))
        };
        if is_first && replaces {
            self.pulls.pull_for_clients(&name, insecure)?;
        } else if is_first {
            tracing::warn!(model = %name, "clients get the registry's model; the local model of that name stays");
        }
        Ok(DownloadingBlob::new(
            subscription,
            self.pulls.library().clone(),
            downloads.staging().clone(),
            digest,
            size_bytes,
        ))
    }
}

impl TagState {
    /// Whether the origin need not be asked again.
    fn is_fresh(&self, lifetime: Duration, backoff: Duration) -> bool {
        let duration = if self.problem.is_some() { backoff } else { lifetime };
        self.resolved_at.is_some_and(|resolved_at| resolved_at.elapsed() < duration)
    }
}
