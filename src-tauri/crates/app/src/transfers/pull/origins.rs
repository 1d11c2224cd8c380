//! Sources of a model: its registry, which resolves its name, and mirrors, which supply blobs.
//!
//! A digest proves a blob, but not the meaning of a name. So the registry of a name resolves it. Only if that registry
//! is unreachable, a joined mirror resolves it, authenticated by its pinned key, and the user sees a note. Blobs come
//! from mirrors first. Mirrors that a request names, and peers on the local network, supply blobs but never manifests.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cairn_disk::RealDisk;
use cairn_registry::{
    BackoffConfig, BlobSource, Credentials, CredentialsByHost, FetchedManifest, JoinCode, KeyFile, Login, LoginStore,
    MirrorTrust, ModelSources, NearbyPeers, PeerKey, PeerList, Proxies, Registry, ResolvedManifest, SourceEntry,
    SourceError, SourceEvent, SourceStateFile, Sources, Transport, TransportConfig, TrustedPeer, join_mirror,
};
use cairn_store::ModelRef;
use tokio::sync::broadcast;

use super::error::PullError;
use crate::clock::Clock;
use crate::settings::Settings;
use crate::transfers::error::Error;
use crate::transfers::share::DEFAULT_HOST;
use crate::version::VERSION;

/// Maximum number of requests for a manifest.
const TRIES: u32 = 5;
/// Delay before the second request; doubled for each further one.
const BACKOFF: Duration = Duration::from_millis(500);
/// Maximum delay that a registry may ask for; a longer one is an error.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Timeout of peers on the local network.
const LAN_TIMEOUT: Duration = Duration::from_secs(3);

/// Connections to registries. They are opened on first use, because loading the system's certificates is slow.
pub(crate) struct RegistryAccess {
    settings: Arc<Settings>,
    clock: Clock,
    key: Arc<KeyFile>,
    logins: Arc<LoginStore>,
    joined: PeerList,
    connections: OnceLock<Result<Connections, PullError>>,
    /// Peers that were found on the local network.
    nearby: NearbyPeers,
    lan_transport: OnceLock<Result<Transport, PullError>>,
}

struct Connections {
    transport: Transport,
    sources: Sources,
}

impl RegistryAccess {
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
        let (connections, lan_transport) = (OnceLock::new(), OnceLock::new());
        let time = clock.clone();
        let nearby = NearbyPeers::new(Arc::new(move || time.now()));
        let (key, logins) = (Arc::new(key), Arc::new(logins));
        Self { settings, clock, key, logins, joined, connections, nearby, lan_transport }
    }

    fn connections(&self) -> Result<&Connections, PullError> {
        self.connections.get_or_init(|| self.open()).as_ref().map_err(Clone::clone)
    }

    /// Configuration that all transports share.
    fn transport_config(&self) -> TransportConfig {
        let clock = self.clock.clone();
        let agent = format!("cairn/{VERSION} ({} {})", std::env::consts::ARCH, std::env::consts::OS);
        TransportConfig::new(agent, Arc::new(move || clock.now()))
    }

    fn open(&self) -> Result<Connections, PullError> {
        let mut config = self.transport_config();
        config.proxies = self.settings.proxies.clone();
        config.extra_ca.clone_from(&self.settings.network.ca_file);
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
        self.set_mirrors(&sources)?;
        let clock = self.clock.clone();
        sources.persist_to(SourceStateFile {
            path: self.settings.places().data.join("sources.json"),
            disk: Arc::new(RealDisk),
            clock: Arc::new(move || clock.now()),
            warn: Box::new(|line| tracing::warn!("{line}")),
        });
        Ok(Connections { transport, sources })
    }

    /// Sets the mirrors of the settings and the joined mirrors as sources of their registries. Only joined mirrors may
    /// resolve names.
    fn set_mirrors(&self, sources: &Sources) -> Result<(), PullError> {
        let joined = self.joined.read().map_err(|error| PullError::Transport(error.to_string()))?;
        let mut lists = BTreeMap::from([(DEFAULT_HOST.to_owned(), vec![SourceEntry::Origin])]);
        let mut add = |host: &str, address: &str| {
            let key = joined.iter().find(|peer| peer.label == address).map(|peer| peer.key);
            let entry = match key {
                Some(key) => {
                    let credentials = Credentials::key(Arc::clone(&self.key));
                    SourceEntry::Mirror { address: address.to_owned(), trust: MirrorTrust::Joined(key), credentials }
                }
                None => {
                    let credentials = login(&self.logins, address).unwrap_or_else(Credentials::anonymous);
                    SourceEntry::Mirror { address: address.to_owned(), trust: MirrorTrust::BlobsOnly, credentials }
                }
            };
            lists.entry(host.to_ascii_lowercase()).or_insert_with(|| vec![SourceEntry::Origin]).push(entry);
        };
        for (host, address) in &self.settings.downloads.mirrors {
            add(host, address);
        }
        for peer in &joined {
            if !self.settings.downloads.mirrors.iter().any(|(_, address)| *address == peer.label) {
                add(DEFAULT_HOST, &peer.label);
            }
        }
        for (host, list) in lists {
            sources.set_entries(&host, list)?;
        }
        Ok(())
    }

    /// User names and passwords for registries.
    pub(crate) fn logins(&self) -> &LoginStore {
        &self.logins
    }

    /// Applies changed logins.
    pub(crate) fn reset_credentials(&self) -> Result<(), PullError> {
        let connections = self.connections()?;
        connections.sources.reset_credentials();
        self.set_mirrors(&connections.sources)
    }

    /// Peers that were found on the local network.
    pub(crate) fn nearby(&self) -> &NearbyPeers {
        &self.nearby
    }

    /// Found peers that are not joined, as sources of blobs. They are reached without a proxy and with a short timeout.
    fn lan_sources(&self, name: &ModelRef) -> Result<Vec<Arc<dyn BlobSource>>, PullError> {
        if self.nearby.is_empty() {
            return Ok(Vec::new());
        }
        let transport = self.lan_transport.get_or_init(|| {
            let mut config = self.transport_config();
            (config.connect_timeout, config.response_timeout) = (LAN_TIMEOUT, LAN_TIMEOUT);
            config.proxies = Proxies::none();
            Transport::new(config).map_err(|error| PullError::Transport(error.to_string()))
        });
        let joined = self.joined.read().map_err(|error| PullError::Transport(error.to_string()))?;
        let joined: Vec<String> = joined.iter().map(|peer| peer.key.fingerprint()).collect();
        Ok(self.nearby.sources(name, transport.as_ref().map_err(Clone::clone)?, &joined))
    }

    /// This machine's key.
    pub(crate) fn key(&self) -> &Arc<KeyFile> {
        &self.key
    }

    /// Joined mirrors. The label of each is its address.
    pub(crate) fn trusted_mirrors(&self) -> &PeerList {
        &self.joined
    }

    /// Applies a changed list of joined mirrors.
    pub(crate) fn replace_mirrors(&self) -> Result<(), PullError> {
        match self.connections.get() {
            Some(Ok(connections)) => self.set_mirrors(&connections.sources),
            _ => Ok(()),
        }
    }

    /// Joins the mirror at an address with the code that it displays, and uses it as a source from then on.
    pub(crate) async fn join(&self, address: &str, code: &JoinCode, label: &str) -> Result<PeerKey, Error> {
        let address = address.trim_end_matches('/');
        let key = join_mirror(address, code, &self.key, label, &self.connections()?.transport).await?;
        self.joined.add(TrustedPeer { key, label: address.to_owned() })?;
        self.set_mirrors(&self.connections()?.sources)?;
        Ok(key)
    }

    /// The transport, for requests outside of pulls. Blocks on first use to load the system's certificates.
    pub(crate) fn transport(&self) -> Result<Transport, PullError> {
        Ok(self.connections()?.transport.clone())
    }

    /// The registry that a name belongs to.
    pub(super) fn registry(&self, name: &ModelRef, insecure: bool) -> Result<Registry, PullError> {
        Ok(self.connections()?.sources.origin(name, insecure)?)
    }

    /// The sources of a model. `sources` are addresses from the request.
    pub(super) fn origins(&self, name: &ModelRef, insecure: bool, sources: &[String]) -> Result<Origins, PullError> {
        let connections = self.connections()?;
        let model = connections.sources.for_model(name, insecure)?;
        let requested = sources.iter().map(|address| {
            // An address with `http://` is an explicit request for plain http.
            let registry = Registry::from_address(address, true, &connections.transport, Credentials::anonymous())?;
            Ok(registry.as_mirror_of(name.host()).blobs(name))
        });
        Ok(Origins {
            name: name.clone(),
            registry: connections.sources.origin(name, insecure)?.host().to_owned(),
            requested: requested.collect::<Result<_, PullError>>()?,
            lan: self.lan_sources(name)?,
            model,
            events: connections.sources.events(),
            backoff: self.settings.downloads.stall.map_or(BACKOFF, |stall| stall / 60),
        })
    }
}

/// The stored login for a host or an address, if any.
fn login(logins: &LoginStore, host: &str) -> Option<Credentials> {
    logins
        .find(host)
        .unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the passwords for registries");
            None
        })
        .map(Login::into_credentials)
}

/// The sources of one model.
pub(crate) struct Origins {
    name: ModelRef,
    /// Host of the name's registry.
    registry: String,
    /// Mirrors from the request.
    requested: Vec<Arc<dyn BlobSource>>,
    /// Peers on the local network.
    lan: Vec<Arc<dyn BlobSource>>,
    model: ModelSources,
    events: broadcast::Receiver<SourceEvent>,
    backoff: Duration,
}

impl Origins {
    /// The sources of blobs, in order of preference.
    pub(crate) fn blob_sources(&self) -> Vec<Arc<dyn BlobSource>> {
        let (own, mirrors): (Vec<_>, Vec<_>) =
            self.model.blobs().into_iter().partition(|source| source.host() == self.registry);
        self.requested.iter().chain(&mirrors).chain(&self.lan).chain(&own).cloned().collect()
    }

    /// Resolves the name once, without retries.
    pub(crate) async fn resolve(&self) -> Result<ResolvedManifest, SourceError> {
        self.model.resolve().await
    }

    /// Resolves the name with retries. Returns the manifest and the host that supplied it; `report` receives lines for
    /// the user.
    pub(super) async fn manifest(
        &mut self,
        report: &(dyn Fn(String) + Sync),
    ) -> Result<(FetchedManifest, String), PullError> {
        let (mut wait, mut tries) = (self.backoff, 1);
        let error = loop {
            let error = match self.model.resolve().await {
                Ok(resolved) => {
                    self.report_mirror(&resolved, report);
                    return Ok((resolved.manifest, resolved.host));
                }
                Err(error) => error,
            };
            let retry_after = match &error {
                SourceError::Broken { .. } => None,
                SourceError::Busy { retry_after, .. } if retry_after.unwrap_or_default() <= MAX_RETRY_AFTER => {
                    *retry_after
                }
                _ => break error,
            };
            if tries == TRIES {
                break error;
            }
            let pause = retry_after.unwrap_or(wait);
            report(format!("{error}; asking for the manifest again in {:.1} s", pause.as_secs_f32()));
            tokio::time::sleep(pause).await;
            (wait, tries) = (wait * 2, tries + 1);
        };
        Err(PullError::of_manifest(error, &self.name.to_string(), tries))
    }

    /// Reports that a mirror resolved the name, or that a mirror disagreed with the registry.
    fn report_mirror(&mut self, resolved: &ResolvedManifest, report: &(dyn Fn(String) + Sync)) {
        let name = &self.name;
        if resolved.is_from_mirror {
            let reasons: Vec<String> = resolved.failures.iter().map(ToString::to_string).collect();
            // A registry that failed recently is not asked again.
            let why = if reasons.is_empty() { "it failed a moment ago".to_owned() } else { reasons.join("; ") };
            report(format!(
                "the manifest of {name} was taken from the mirror {}, because its registry is unreachable: {why}",
                resolved.host
            ));
        }
        while let Ok(event) = self.events.try_recv() {
            if let SourceEvent::Disagreement { name: of, mirror, .. } = event
                && of == *name
            {
                report(format!(
                    "{name} is not what the mirror {mirror} supplied before; using the registry's manifest"
                ));
            }
        }
    }
}
