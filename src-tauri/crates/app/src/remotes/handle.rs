//! The handle of remotes, and the checks of their health.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cairn_upstream::{BaseUrl, Deadlines, HttpClients, RemoteKey, ServerKind, Target, Upstream, UpstreamClient};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at};

use super::error::Error;
use super::index::Index;
use super::store::{Store, StoredRemote};
use crate::library::ModelLibrary;
use crate::settings::Settings;
use crate::transfers::Transfers;

/// Pause between two checks of all remotes.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Time after which a check of several remotes uses the results that it has, while others are outstanding.
const PARTIAL_RESULTS: Duration = Duration::from_secs(3);

/// The remotes of this user. Clones share them.
#[derive(Clone)]
pub struct Remotes(pub(super) Arc<Shared>);

pub(super) struct Shared {
    /// Random id of this process.
    instance: String,
    pub(super) store: Mutex<Store>,
    pub(super) library: ModelLibrary,
    transfers: Transfers,
    pub(super) upstreams: RwLock<BTreeMap<String, Entry>>,
    index: RwLock<Index>,
    /// Serialises builds of the index, so that an older one never replaces a newer one.
    indexing: Mutex<()>,
    /// Whether the remotes of the start were checked, as far as they responded within [`PARTIAL_RESULTS`].
    is_settled: watch::Sender<bool>,
    /// Whether the task that checks the remotes runs. It runs only while there are remotes.
    is_watching: Mutex<bool>,
}

/// A remote in use.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) url: String,
    pub(super) has_key: bool,
    pub(super) upstream: Arc<Upstream>,
}

impl Remotes {
    /// Reads the remotes and begins to check them. Must be called inside a tokio runtime. Without a readable file no remote is used,
    /// and the log has the reason.
    /// `instance` is a random id of this process.
    pub(crate) fn open(library: &ModelLibrary, transfers: &Transfers, settings: &Settings, instance: String) -> Self {
        let store = Store::open(settings.places().config.join("remotes.json"));
        let stored = store.read().unwrap_or_else(|error| {
            tracing::warn!("{error}");
            BTreeMap::new()
        });
        let remotes = Self(Arc::new(Shared {
            instance,
            store: Mutex::new(store),
            library: library.clone(),
            transfers: transfers.clone(),
            upstreams: RwLock::default(),
            index: RwLock::default(),
            indexing: Mutex::default(),
            is_settled: watch::Sender::new(false),
            is_watching: Mutex::new(false),
        }));
        let mut entries = BTreeMap::new();
        for (name, remote) in stored {
            match remotes.entry(&name, &remote) {
                Ok(entry) => drop(entries.insert(name, entry)),
                Err(error) => tracing::warn!(remote = name, %error, "a remote cannot be used"),
            }
        }
        // Without a usable remote nothing is checked, so that nothing must wait for a check.
        remotes.0.is_settled.send_replace(entries.is_empty());
        *remotes.0.upstreams.write() = entries;
        remotes.watch();
        remotes
    }

    /// Returns the random id of this process, for other daemons.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.0.instance
    }

    /// Prepares a stored remote for requests. Blocks on first use to load the system's certificates.
    fn entry(&self, name: &str, remote: &StoredRemote) -> Result<Entry, Error> {
        let client = self.client(name, remote)?;
        let upstream = Arc::new(Upstream::new(name, remote.kind, client));
        Ok(Entry { url: remote.url.clone(), has_key: remote.key.is_some(), upstream })
    }

    pub(super) fn client(&self, name: &str, remote: &StoredRemote) -> Result<UpstreamClient, Error> {
        let base: BaseUrl = remote.url.parse()?;
        let key = remote.key.as_deref().map(|key| RemoteKey::new(key).ok_or(Error::Key)).transpose()?;
        let transport = self.0.transfers.transport().map_err(|error| Error::Network(error.to_string()))?;
        let http = HttpClients { pooled: transport.http_client(), single_use: transport.single_use_http_client() };
        Ok(UpstreamClient::new(http, name, base, key, Deadlines::default()))
    }

    /// Starts the task that checks the remotes, unless it runs or there are none.
    pub(super) fn watch(&self) {
        let mut is_watching = self.0.is_watching.lock();
        if *is_watching || self.0.upstreams.read().is_empty() {
            return;
        }
        *is_watching = true;
        let shared = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            while check_once(&shared).await {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        });
    }

    /// Checks all remotes, or one, at the same time. A remote that does not respond does not hide the models of others for longer
    /// than [`PARTIAL_RESULTS`].
    pub(super) async fn check_all(&self, only: Option<&str>) {
        let chosen: Vec<Arc<Upstream>> = {
            let upstreams = self.0.upstreams.read();
            let entries = upstreams.iter().filter(|(name, _)| only.is_none_or(|only| only == name.as_str()));
            entries.map(|(_, entry)| Arc::clone(&entry.upstream)).collect()
        };
        let mut checks = JoinSet::new();
        for upstream in chosen {
            checks.spawn(async move {
                // The upstream keeps the failure and logs the change.
                let _ = upstream.check().await;
            });
        }
        let mut partial = interval_at(Instant::now() + PARTIAL_RESULTS, PARTIAL_RESULTS);
        loop {
            tokio::select! {
                checked = checks.join_next() => if checked.is_none() { break },
                _ = partial.tick() => {
                    self.reindex();
                    self.0.is_settled.send_replace(true);
                }
            }
        }
        self.reindex();
    }

    /// Rebuilds the index after a change of the remotes or their models.
    pub(super) fn reindex(&self) {
        let _indexing = self.0.indexing.lock();
        let index = Index::of(self.0.upstreams.read().values().map(|entry| &entry.upstream));
        *self.0.index.write() = index;
    }

    /// Waits until the remotes of the start were checked, but at most [`PARTIAL_RESULTS`] after the start: a remote that does not
    /// respond takes 5 s, and an Ollama without capabilities in its list also describes up to 32 models, each in 5 s at most.
    pub async fn settled(&self) {
        // The sender is dropped at shutdown only.
        let _ = self.0.is_settled.subscribe().wait_for(|is_settled| *is_settled).await;
    }

    /// Whether [`Remotes::settled`] returns at once.
    pub(crate) fn is_settled(&self) -> bool {
        *self.0.is_settled.borrow()
    }

    /// The servers that have a model; `None` if no remote has it.
    pub(crate) fn find(&self, name: &str) -> Option<Vec<Target>> {
        self.0.index.read().targets(name).map(<[Target]>::to_vec)
    }

    /// The remotes in the order of their names.
    pub(crate) fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.0.upstreams.read().values().map(|entry| Arc::clone(&entry.upstream)).collect()
    }

    /// Whether all servers have Ollama's API.
    pub(crate) fn have_ollama_api(targets: &[Target]) -> bool {
        targets.iter().map(|target| target.upstream.kind()).all(ServerKind::has_ollama_api)
    }
}

/// Checks all remotes. Returns `false` if there are none any more, or the daemon shuts down.
async fn check_once(shared: &Weak<Shared>) -> bool {
    let Some(remotes) = shared.upgrade().map(Remotes) else { return false };
    {
        let mut is_watching = remotes.0.is_watching.lock();
        if remotes.0.upstreams.read().is_empty() {
            *is_watching = false;
            remotes.0.is_settled.send_replace(true);
            return false;
        }
    }
    remotes.check_all(None).await;
    remotes.0.is_settled.send_replace(true);
    true
}
