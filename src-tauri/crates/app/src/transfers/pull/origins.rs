//! Who is asked for a model: its registry, which says what the model is made of, and mirrors, which may have its contents.
//!
//! A digest proves contents and not what a name stands for. So the registry that a name belongs to is asked first what it
//! means; only where that one cannot be reached does a mirror answer that the user joined, by the key that was pinned then,
//! and that is said. Contents come from mirrors first: that is what they are for. A mirror that a single request names, and a
//! machine that was found on the network, supply contents and never a manifest.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cairn_disk::RealDisk;
use cairn_registry::{
    BackoffConfig, BlobSource, Credentials, CredentialsByHost, FetchedManifest, JoinCode, KeyFile, Login, LoginStore,
    MirrorTrust, ModelSources, NearbyPeers, PeerKey, PeerList, Proxies, RedirectPolicy, Registry, ResolvedManifest,
    SourceEntry, SourceError, SourceEvent, SourceStateFile, Sources, Transport, TransportConfig, TrustedPeer,
    join_mirror,
};
use cairn_store::ModelRef;
use tokio::sync::broadcast;

use super::error::PullError;
use crate::clock::Clock;
use crate::settings::Settings;
use crate::transfers::error::Error;
use crate::transfers::share::DEFAULT_HOST;
use crate::version::VERSION;

/// How often the manifest is asked for before it is an error.
const TRIES: u32 = 5;
/// How long to wait before the second try; twice as long before each further one.
const BACKOFF: Duration = Duration::from_millis(500);
/// A registry that asks for a longer wait than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a machine of the local network may take to answer.
const NEAR_ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// The way out to registries, set up when it is first needed: the system's certificates take a moment to read.
pub(crate) struct Outside {
    settings: Arc<Settings>,
    clock: Clock,
    key: Arc<KeyFile>,
    logins: Arc<LoginStore>,
    joined: PeerList,
    ways: OnceLock<Result<Ways, PullError>>,
    /// Machines that were found on the local network, and the way to them.
    nearby: NearbyPeers,
    near: OnceLock<Result<Transport, PullError>>,
}

struct Ways {
    transport: Transport,
    sources: Sources,
}

impl Outside {
    pub(super) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let disk = Arc::new(RealDisk);
        let key = match &settings.network.key {
            Some(path) => KeyFile::read_only(path.clone(), disk.clone()),
            None => KeyFile::create_if_missing(settings.places().config.join("id_ed25519"), disk.clone()),
        };
        let logins = LoginStore::new(
            settings.places().data.join("logins.json"),
            settings.network.auth_file.clone(),
            disk.clone(),
        );
        let joined = PeerList::new(settings.places().data.join("joined-mirrors.json"), disk);
        let (ways, near) = (OnceLock::new(), OnceLock::new());
        let time = clock.clone();
        let nearby = NearbyPeers::new(Arc::new(move || time.now()));
        let (key, logins) = (Arc::new(key), Arc::new(logins));
        Self { settings, clock, key, logins, joined, ways, nearby, near }
    }

    fn ways(&self) -> Result<&Ways, PullError> {
        self.ways.get_or_init(|| self.open()).as_ref().map_err(Clone::clone)
    }

    /// What all ways out have in common.
    fn transport_config(&self) -> TransportConfig {
        let clock = self.clock.clone();
        let agent = format!("cairn/{VERSION} ({} {})", std::env::consts::ARCH, std::env::consts::OS);
        TransportConfig::new(agent, Arc::new(move || clock.now()))
    }

    fn open(&self) -> Result<Ways, PullError> {
        let mut config = self.transport_config();
        config.proxies = self.settings.proxies.clone();
        config.extra_ca.clone_from(&self.settings.network.ca_file);
        if self.settings.fetches_for_others {
            config.redirects = RedirectPolicy::SameAsRegistry;
        }
        let mut backoff = BackoffConfig::default();
        if let Some(stall) = self.settings.downloads.stall {
            config.connect_timeout = config.connect_timeout.min(stall);
            config.response_timeout = stall * 2;
            (backoff.initial, backoff.max) = (stall / 2, stall * 20);
        }
        let transport = Transport::new(config).map_err(|error| PullError::Transport(error.to_string()))?;
        let (logins, key) = (Arc::clone(&self.logins), Arc::clone(&self.key));
        let credentials_by_host: CredentialsByHost =
            Arc::new(move |host| login(&logins, host).unwrap_or_else(|| Credentials::key(Arc::clone(&key))));
        let sources = Sources::new(transport.clone(), credentials_by_host, backoff);
        self.place_mirrors(&sources)?;
        let clock = self.clock.clone();
        sources.persist_to(SourceStateFile {
            path: self.settings.places().data.join("sources.json"),
            disk: Arc::new(RealDisk),
            clock: Arc::new(move || clock.now()),
            warn: Box::new(|line| tracing::warn!("{line}")),
        });
        Ok(Ways { transport, sources })
    }

    /// Puts the mirrors of the settings, and those that were joined, behind the registries that they stand for. Only one that
    /// was joined is believed on names.
    fn place_mirrors(&self, sources: &Sources) -> Result<(), PullError> {
        let joined = self.joined.read().map_err(|error| PullError::Transport(error.to_string()))?;
        let mut lists = BTreeMap::from([(DEFAULT_HOST.to_owned(), vec![SourceEntry::Origin])]);
        let mut add = |host: &str, address: &str| {
            let key = joined.iter().find(|known| known.label == address).map(|known| known.key);
            let place = match key {
                Some(key) => {
                    let credentials = Credentials::key(Arc::clone(&self.key));
                    SourceEntry::Mirror { address: address.to_owned(), trust: MirrorTrust::Joined(key), credentials }
                }
                None => {
                    let credentials = login(&self.logins, address).unwrap_or_else(Credentials::anonymous);
                    SourceEntry::Mirror { address: address.to_owned(), trust: MirrorTrust::BlobsOnly, credentials }
                }
            };
            lists.entry(host.to_ascii_lowercase()).or_insert_with(|| vec![SourceEntry::Origin]).push(place);
        };
        for (host, address) in &self.settings.downloads.mirrors {
            add(host, address);
        }
        for known in &joined {
            if !self.settings.downloads.mirrors.iter().any(|(_, address)| *address == known.label) {
                add(DEFAULT_HOST, &known.label);
            }
        }
        for (host, list) in lists {
            sources.set_entries(&host, list)?;
        }
        Ok(())
    }

    /// Names and passwords of registries.
    pub(crate) fn logins(&self) -> &LoginStore {
        &self.logins
    }

    /// Does what the names and passwords say, which have changed.
    pub(crate) fn reset_credentials(&self) -> Result<(), PullError> {
        let ways = self.ways()?;
        ways.sources.reset_credentials();
        self.place_mirrors(&ways.sources)
    }

    /// Machines that were found on the local network.
    pub(crate) fn nearby(&self) -> &NearbyPeers {
        &self.nearby
    }

    /// Those of them that have not been joined, as sources of a model's contents. No proxy leads to them, and there is no
    /// point in waiting for one that is near.
    fn near(&self, name: &ModelRef) -> Result<Vec<Arc<dyn BlobSource>>, PullError> {
        if self.nearby.is_empty() {
            return Ok(Vec::new());
        }
        let transport = self.near.get_or_init(|| {
            let mut config = self.transport_config();
            (config.connect_timeout, config.response_timeout) = (NEAR_ANSWERS_WITHIN, NEAR_ANSWERS_WITHIN);
            config.proxies = Proxies::none();
            Transport::new(config).map_err(|error| PullError::Transport(error.to_string()))
        });
        let joined = self.joined.read().map_err(|error| PullError::Transport(error.to_string()))?;
        let joined: Vec<String> = joined.iter().map(|known| known.key.fingerprint()).collect();
        Ok(self.nearby.sources(name, transport.as_ref().map_err(Clone::clone)?, &joined))
    }

    /// This machine's key.
    pub(crate) fn key(&self) -> &Arc<KeyFile> {
        &self.key
    }

    /// Mirrors that were joined; each one's label is its address.
    pub(crate) fn joined(&self) -> &PeerList {
        &self.joined
    }

    /// Does what the list of joined mirrors says, which has changed.
    pub(crate) fn replace_mirrors(&self) -> Result<(), PullError> {
        match self.ways.get() {
            Some(Ok(ways)) => self.place_mirrors(&ways.sources),
            _ => Ok(()),
        }
    }

    /// Joins the mirror at an address by the code that it shows, and takes models from it from now on.
    pub(crate) async fn join(&self, address: &str, code: &JoinCode, label: &str) -> Result<PeerKey, Error> {
        let address = address.trim_end_matches('/');
        let key = join_mirror(address, code, &self.key, label, &self.ways()?.transport).await?;
        self.joined.add(TrustedPeer { key, label: address.to_owned() })?;
        self.place_mirrors(&self.ways()?.sources)?;
        Ok(key)
    }

    /// The way out itself, for questions that no pull asks. The system's certificates may be read here.
    pub(crate) fn transport(&self) -> Result<Transport, PullError> {
        Ok(self.ways()?.transport.clone())
    }

    /// The registry that a name belongs to: where pushes go.
    pub(super) fn registry(&self, name: &ModelRef, insecure: bool) -> Result<Registry, PullError> {
        Ok(self.ways()?.sources.origin(name, insecure)?)
    }

    /// Who is asked for a model. `sources` are addresses that the request names.
    pub(super) fn origins(&self, name: &ModelRef, insecure: bool, sources: &[String]) -> Result<Origins, PullError> {
        let ways = self.ways()?;
        let model = ways.sources.for_model(name, insecure)?;
        let named = sources.iter().map(|address| {
            // Whoever writes an address with http asks for http.
            let registry = Registry::from_address(address, true, &ways.transport, Credentials::anonymous())?;
            Ok(registry.as_mirror_of(name.host()).blobs(name))
        });
        Ok(Origins {
            name: name.clone(),
            own: ways.sources.origin(name, insecure)?.host().to_owned(),
            named: named.collect::<Result<_, PullError>>()?,
            near: self.near(name)?,
            model,
            events: ways.sources.events(),
            backoff: self.settings.downloads.stall.map_or(BACKOFF, |stall| stall / 60),
        })
    }
}

/// Who the user is to the server at a host or an address, where that is told by a name and a password.
fn login(logins: &LoginStore, host: &str) -> Option<Credentials> {
    logins
        .find(host)
        .unwrap_or_else(|error| {
            tracing::warn!(%error, "passwords for registries cannot be read");
            None
        })
        .map(Login::into_credentials)
}

/// Who is asked for one model.
pub(crate) struct Origins {
    name: ModelRef,
    /// The host of the name's own registry.
    own: String,
    named: Vec<Arc<dyn BlobSource>>,
    near: Vec<Arc<dyn BlobSource>>,
    model: ModelSources,
    events: broadcast::Receiver<SourceEvent>,
    backoff: Duration,
}

impl Origins {
    /// Who has contents, in the order in which they are asked.
    pub(crate) fn blob_sources(&self) -> Vec<Arc<dyn BlobSource>> {
        let (own, mirrors): (Vec<_>, Vec<_>) = self.model.blobs().into_iter().partition(|one| one.host() == self.own);
        self.named.iter().chain(&mirrors).chain(&self.near).chain(&own).cloned().collect()
    }

    /// What the model is made of, asked once.
    pub(crate) async fn resolve(&self) -> Result<ResolvedManifest, SourceError> {
        self.model.resolve().await
    }

    /// What the model is made of, and who said so.
    pub(super) async fn manifest(
        &mut self,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<(FetchedManifest, String), PullError> {
        let (mut wait, mut tries) = (self.backoff, 1);
        let error = loop {
            let error = match self.model.resolve().await {
                Ok(resolved) => {
                    self.say(&resolved, tell);
                    return Ok((resolved.manifest, resolved.host));
                }
                Err(error) => error,
            };
            let asked = match &error {
                SourceError::Broken { .. } => None,
                SourceError::Busy { retry_after, .. } if retry_after.unwrap_or_default() <= PATIENCE => *retry_after,
                _ => break error,
            };
            if tries == TRIES {
                break error;
            }
            let pause = asked.unwrap_or(wait);
            tell(format!("{error}; asking for the manifest again in {:.1} s", pause.as_secs_f32()));
            tokio::time::sleep(pause).await;
            (wait, tries) = (wait * 2, tries + 1);
        };
        Err(PullError::of_manifest(error, &self.name.to_string(), tries))
    }

    /// Says on whose word a name was taken, where that is news.
    fn say(&mut self, resolved: &ResolvedManifest, tell: &(dyn Fn(String) + Sync)) {
        let name = &self.name;
        if resolved.is_from_mirror {
            let reasons: Vec<String> = resolved.failures.iter().map(ToString::to_string).collect();
            // One that rests was not asked again.
            let why = if reasons.is_empty() { "it failed a moment ago".to_owned() } else { reasons.join("; ") };
            tell(format!(
                "what {name} is was taken from the mirror {}, because its own registry could not be asked: {why}",
                resolved.host
            ));
        }
        while let Ok(event) = self.events.try_recv() {
            if let SourceEvent::Disagreement { name: of, mirror, .. } = event
                && of == *name
            {
                tell(format!("{name} is not what the mirror {mirror} said before; its own registry's word is taken"));
            }
        }
    }
}
