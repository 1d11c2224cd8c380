//! A mirror: this machine fetches what the clients of its registry ask for and it lacks, once for all of them.
//!
//! ```text
//! manifest  stored or told before ---- asked of its origin within a minute ---> as it is
//!                `---- else the origin is asked: its word; out of reach: what is here, marked stale
//! blob      in a library ---> from there
//!                `---- named by a manifest that was told ---> one download for all, read while it comes;
//!                                                             with its first byte the whole model is brought here
//! ```
//!
//! A tag means what its origin says, and nobody else's word is taken for it. Fetching begins only for a client who may
//! ask for that ([`Client::fetches`]); whoever reads this machine's models reads what has begun, too.
//!
//! **Invariants:** only names of configured origins are asked for; each blob is fetched by the one download of its digest
//! that all of the process share; a model is listed only when all of it is here, because a pull publishes it; what a user of
//! this machine made under an origin's name is not replaced by what clients want.

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
use crate::transfers::error::Error;
use crate::transfers::handle::Transfers;
use crate::transfers::pull::PullError;
use crate::transfers::pull::Pulls;
use crate::transfers::share::{Reference, SharedBlob, SharedManifest, name_of};
use blob::Arriving;
pub use blob::{BlobBytes, BlobReader};
use counts::Counts;
pub use counts::MirrorCounts;
use tag::{Known, Tag};

/// How long the origin's word on a tag holds.
const ASKED_EVERY: Duration = Duration::from_secs(60);
/// How long an origin that could not be asked is left alone, while there is something to answer without it.
const RESTS: Duration = Duration::from_secs(10);
/// Tags, and blobs that were named, that are remembered.
const MAX_TAGS: usize = 4096;
const MAX_NAMED: usize = 65_536;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// May models be fetched for it?
    pub fetches: bool,
}

/// A manifest as it is given to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedManifest {
    /// The manifest.
    pub manifest: SharedManifest,
    /// Whose it is.
    pub name: ModelRef,
    /// Why its origin did not say so now, where it was to be asked.
    pub stale: Option<String>,
}

/// What the models of this machine are asked for, and what comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer<T> {
    /// This.
    Here(T),
    /// There is no such thing.
    Nothing,
    /// It would have to be fetched, and not for this client.
    NotForYou,
}

/// The part of a mirror that remembers. Clones share it.
#[derive(Clone)]
pub(crate) struct Mirror(Arc<Inner>);

struct Inner {
    pulls: Pulls,
    settings: SharingSettings,
    tags: Mutex<HashMap<ModelRef, Tag>>,
    /// Blobs that manifests named which were told to clients.
    named: Mutex<HashMap<Digest, Named>>,
    counts: Counts,
    /// Whether what is fetched is being counted.
    counting: std::sync::Once,
}

/// A blob that a manifest named.
#[derive(Clone)]
struct Named {
    size_bytes: u64,
    name: ModelRef,
    insecure: bool,
    /// Somebody who may have had it fetched.
    begun: bool,
}

impl Transfers {
    /// The manifest of a model for a client of the registry: the origin's where this machine is a mirror of it, else what a
    /// library has. `host` is the registry whose model is meant, where the client says. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// When the name is none, a library cannot be read, or nothing is here and the origin cannot be asked.
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
            let told = match reference {
                Reference::Digest(digest) => mirror.told(&name, digest),
                Reference::Tag(_) => None,
            };
            return Ok(stored.or(told).map_or(Offer::Nothing, |manifest| offer(manifest, None)));
        };
        let tag = mirror.tag(&name);
        let mut known = tag.lock().await;
        if !client.fetches {
            // For strangers nobody is asked.
            let here = stored.or_else(|| known.manifest.clone());
            return Ok(here.map_or(Offer::NotForYou, |manifest| offer(manifest, None)));
        }
        if !known.holds(ASKED_EVERY, RESTS) {
            let asked = mirror.ask(&name, origin.insecure).await;
            known.asked_at = Some(Instant::now());
            known.trouble = None;
            match asked {
                Ok(manifest) => known.manifest = Some(manifest),
                // The name may be that of a model which was made here.
                Err(PullError::Absent { .. }) if stored.is_some() => known.manifest = None,
                Err(error) if known.manifest.is_none() && stored.is_none() => {
                    mirror.forget(&name);
                    return match error {
                        PullError::Absent { .. } => Ok(Offer::Nothing),
                        error => Err(error.into()),
                    };
                }
                Err(error) => {
                    tracing::warn!(model = %name, %error, "its origin cannot be asked; clients get what is here");
                    known.trouble = Some(error.to_string());
                }
            }
        }
        let stale = known.trouble.clone();
        if stale.is_some() {
            mirror.counts.stale();
        }
        let manifest = known.manifest.clone().or(stored);
        Ok(manifest.map_or(Offer::Nothing, |manifest| offer(manifest, stale)))
    }

    /// How long a blob is that a client of the registry asks after.
    pub async fn offered_blob_size(&self, digest: &Digest) -> Option<u64> {
        match self.stored_blob(digest).await {
            Some(blob) => Some(blob.size_bytes),
            None => self.mirror.0.named(digest).map(|named| named.size_bytes),
        }
    }

    /// A blob for a client of the registry: out of a library, or as it comes from where it is fetched. Must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// When it cannot be fetched.
    pub async fn offered_blob(&self, digest: &Digest, client: Client) -> Result<Offer<BlobBytes>, Error> {
        let mirror = &self.mirror.0;
        if let Some(blob) = self.stored_blob(digest).await {
            mirror.counts.hit();
            return Ok(Offer::Here(BlobBytes::stored(blob)));
        }
        let Some(named) = mirror.named(digest) else { return Ok(Offer::Nothing) };
        if !named.begun && !client.fetches {
            return Ok(Offer::NotForYou);
        }
        mirror.counts.miss();
        // Whatever the origin calls so, what a user made under the name stays.
        let stored = self.stored_manifest(&named.name, &Reference::Tag(named.name.tag().to_owned())).await?;
        let replaces = stored.is_none_or(|stored| mirror.pulls.may_replace(&named.name, &stored.digest));
        let arriving = mirror.fetch(*digest, named, replaces).await?;
        Ok(Offer::Here(BlobBytes::arriving(arriving)))
    }

    /// What the mirror did since the daemon started.
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
    /// Whose models are meant when a client does not say.
    fn default_host(&self) -> &str {
        let first = self.settings.mirror_origins.first().filter(|_| self.settings.mirror);
        first.map_or(crate::transfers::share::DEFAULT_HOST, |origin| &origin.host)
    }

    /// What is known of a tag. Whoever has it locked asks, and the others wait for the answer.
    fn tag(&self, name: &ModelRef) -> Tag {
        let mut tags = self.tags.lock();
        if tags.len() >= MAX_TAGS {
            // Those that nobody holds can be asked for again.
            tags.retain(|_, tag| Arc::strong_count(tag) > 1);
        }
        Arc::clone(tags.entry(name.clone()).or_default())
    }

    fn forget(&self, name: &ModelRef) {
        self.tags.lock().remove(name);
    }

    /// A manifest that was told, by its digest.
    fn told(&self, name: &ModelRef, digest: &Digest) -> Option<SharedManifest> {
        let tags: Vec<Tag> = {
            let tags = self.tags.lock();
            tags.iter().filter(|(told, _)| told.same_repository(name)).map(|(_, tag)| Arc::clone(tag)).collect()
        };
        tags.iter().find_map(|tag| tag.try_lock().ok()?.manifest.clone().filter(|told| told.digest == *digest))
    }

    /// The origin's word on a name, whose blobs are then known.
    async fn ask(&self, name: &ModelRef, insecure: bool) -> Result<SharedManifest, PullError> {
        let origins = self.pulls.origins(name, insecure)?;
        let resolved = origins.resolve().await;
        let resolved = resolved.map_err(|error| PullError::of_manifest(error, &name.to_string(), 1))?;
        let manifest = &resolved.manifest.manifest;
        let mut named = self.named.lock();
        if named.len() >= MAX_NAMED {
            named.clear();
        }
        for layer in manifest.layers.iter().chain(&manifest.config) {
            let new = Named { size_bytes: layer.size_bytes, name: name.clone(), insecure, begun: false };
            named.entry(layer.digest).or_insert(new);
        }
        Ok(SharedManifest { digest: manifest.digest, bytes: resolved.manifest.bytes.to_vec() })
    }

    /// A blob of a manifest that was told, or of a model that is on its way here: a daemon that starts anew goes on with
    /// those, while its clients still ask for their parts.
    fn named(&self, digest: &Digest) -> Option<Named> {
        let named = self.named.lock().get(digest).cloned();
        named.or_else(|| {
            let (name, size_bytes, insecure) = self.pulls.on_its_way(digest)?;
            self.settings.origin_of(&name).filter(|_| self.settings.mirror)?;
            let named = Named { size_bytes, name, insecure, begun: true };
            Some(self.named.lock().entry(*digest).or_insert(named).clone())
        })
    }

    /// Joins the download of a blob. The first time, the model that it is part of begins to come here, if it `replaces`
    /// nothing of this machine's users.
    async fn fetch(self: &Arc<Self>, digest: Digest, named: Named, replaces: bool) -> Result<Arriving, Error> {
        let Named { size_bytes, name, insecure, .. } = named;
        let (within, asked) = (Arc::clone(self), name.clone());
        let prepared = spawn_blocking(move || {
            let origins = within.pulls.origins(&asked, insecure)?;
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
        });
        let begins = {
            let mut all = self.named.lock();
            let of_model = all.values_mut().filter(|other| other.name == name);
            of_model.fold(false, |begins, other| begins | !std::mem::replace(&mut other.begun, true))
        };
        if begins && replaces {
            self.pulls.bring(&name, insecure)?;
        } else if begins {
            tracing::warn!(model = %name, "clients get what its registry calls so; the model that was made here stays");
        }
        Ok(Arriving::new(subscription, self.pulls.library().clone(), downloads.staging().clone(), digest, size_bytes))
    }
}

impl Known {
    /// Need its origin not be asked now?
    fn holds(&self, while_good: Duration, while_bad: Duration) -> bool {
        let holds = if self.trouble.is_some() { while_bad } else { while_good };
        self.asked_at.is_some_and(|asked_at| asked_at.elapsed() < holds)
    }
}
