//! Adds, removes and lists remotes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_upstream::{BaseUrl, Counts, Failure, Health, ServerKind, Upstream, detect};
use tokio::task::spawn_blocking;

use super::error::Error;
use super::handle::{Entry, Remotes};
use super::index::canonical;
use super::limits::MAX_REMOTES;
use super::store::StoredRemote;
use crate::short_name::is_name;
use crate::values::excerpt;

/// A remote to add.
#[derive(Clone)]
pub struct NewRemote {
    /// Name of the remote.
    pub name: String,
    /// Address of its server.
    pub url: String,
    /// API key.
    pub key: Option<String>,
    /// Whether the key may be sent over plain HTTP to another machine.
    pub insecure: bool,
}

/// A remote and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteStatus {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// What its server is.
    pub kind: ServerKind,
    /// Whether it has an API key.
    pub has_key: bool,
    /// Result of the last check.
    pub health: Health,
    /// The failure because of which the circuit breaker holds requests back; `None` if it does not.
    pub circuit_failure: Option<Failure>,
    /// How long the server took to list its models in the last check; `None` if it did not list them.
    pub latency: Option<Duration>,
    /// Its models.
    pub models: Vec<String>,
    /// Those of its models that a local model of the same name hides.
    pub hidden_models: Vec<String>,
    /// Requests in progress.
    pub outstanding: usize,
    /// Counters since the start of the daemon.
    pub counts: Counts,
}

impl Remotes {
    /// Finds out what the server is, lists its models and stores the remote.
    ///
    /// # Errors
    /// If the name, address or key is invalid, the server is this daemon or does not list its models, or the remote cannot be
    /// stored. Nothing is stored then.
    ///
    /// # Cancellation
    /// A change that has begun completes even if the caller drops the future: a blocking thread makes all of it.
    pub async fn add(&self, new: NewRemote) -> Result<(), Error> {
        let NewRemote { name, url, key, insecure } = new;
        if !is_name(&name) {
            return Err(Error::Name(excerpt(&name).into_owned()));
        }
        let base: BaseUrl = url.parse()?;
        let is_plain = !base.is_encrypted() && !base.is_loopback();
        if key.is_some() && is_plain && !insecure {
            return Err(Error::PlainKey(base.to_string()));
        }
        self.check_room(&name)?;
        let (url, has_key) = (base.to_string(), key.is_some());
        let mut stored = StoredRemote { url: url.clone(), kind: ServerKind::OpenAi, key };
        let (remotes, named, remote) = (self.clone(), name.clone(), stored.clone());
        let client = spawn_blocking(move || remotes.client(&named, &remote));
        let client = client.await.expect("reading certificates does not panic")?;
        let no_server = |failure| Error::NoServer { url: url.clone(), failure };
        let detected = detect(&client).await.map_err(no_server)?;
        if detected.instance.as_deref() == Some(self.instance()) {
            return Err(Error::OwnUrl(url));
        }
        stored.kind = detected.kind;
        let upstream = Arc::new(Upstream::new(&name, stored.kind, client));
        upstream.check().await.map_err(no_server)?;
        let entry = Entry { url: url.clone(), has_key, upstream };
        let (remotes, named) = (self.clone(), name.clone());
        spawn_blocking(move || remotes.store_entry(&named, stored, entry)).await.expect("writing does not panic")
    }

    /// Removes a remote. Its running answers continue. A caller that drops the future does not cancel the removal.
    ///
    /// # Errors
    /// If there is no such remote, or the change cannot be stored.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let (remotes, named) = (self.clone(), name.to_owned());
        let removed = spawn_blocking(move || {
            let store = remotes.0.store.lock();
            let mut stored = store.read()?;
            if stored.remove(&named).is_none() {
                return Err(Error::NotFound(excerpt(&named).into_owned()));
            }
            store.write(stored)?;
            remotes.0.upstreams.write().remove(&named);
            remotes.reindex();
            tracing::info!(remote = named, "removed a remote");
            Ok(())
        });
        removed.await.expect("writing does not panic")
    }

    /// Checks all remotes, or one, now.
    ///
    /// # Errors
    /// If there is no such remote.
    pub async fn check(&self, name: Option<&str>) -> Result<(), Error> {
        if let Some(name) = name.filter(|name| !self.0.upstreams.read().contains_key(*name)) {
            return Err(Error::NotFound(excerpt(name).into_owned()));
        }
        self.check_all(name).await;
        Ok(())
    }

    /// All remotes by name. Blocks.
    ///
    /// # Errors
    /// If the local models or the remotes cannot be read.
    pub fn list(&self) -> Result<Vec<RemoteStatus>, Error> {
        self.0.store.lock().read()?;
        let local: HashSet<String> = self.0.library.list()?.iter().map(|model| canonical(&model.name)).collect();
        let status = |(name, entry): (&String, &Entry)| {
            let upstream = &entry.upstream;
            let models: Vec<String> = upstream.models().iter().map(|model| model.name.clone()).collect();
            RemoteStatus {
                name: name.clone(),
                url: entry.url.clone(),
                kind: upstream.kind(),
                has_key: entry.has_key,
                health: upstream.health(),
                circuit_failure: upstream.circuit_failure(),
                latency: upstream.latency(),
                hidden_models: models.iter().filter(|model| local.contains(&canonical(model))).cloned().collect(),
                models,
                outstanding: upstream.outstanding(),
                counts: upstream.counts(),
            }
        };
        Ok(self.0.upstreams.read().iter().map(status).collect())
    }

    fn check_room(&self, name: &str) -> Result<(), Error> {
        let upstreams = self.0.upstreams.read();
        match () {
            () if upstreams.contains_key(name) => Err(Error::Taken(name.to_owned())),
            () if upstreams.len() >= MAX_REMOTES => Err(Error::TooMany),
            () => Ok(()),
        }
    }

    /// Stores a remote, uses it and watches its health. The state of other remotes stays as it is.
    fn store_entry(&self, name: &str, remote: StoredRemote, entry: Entry) -> Result<(), Error> {
        let store = self.0.store.lock();
        let mut stored = store.read()?;
        self.check_room(name)?;
        stored.insert(name.to_owned(), remote);
        store.write(stored)?;
        self.0.upstreams.write().insert(name.to_owned(), entry);
        self.reindex();
        self.watch();
        tracing::info!(remote = name, "added a remote");
        Ok(())
    }
}
