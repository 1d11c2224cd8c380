//! Who is asked for a model: its registry, which says what the model is made of, and mirrors, which may have its contents.
//!
//! A digest proves contents and not what a name stands for. So the manifest comes from the registry that the name belongs
//! to; only where that one cannot be reached at all does a mirror that the user set down in the settings answer for it, and
//! that is said. A mirror that a single request names supplies contents and never a manifest.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cairn_disk::RealDisk;
use cairn_registry::{BlobSource, KeyFile, ManifestBytes, Registry, SignIn, SourceError, Transport, TransportConfig};
use cairn_store::ModelRef;

use super::error::PullError;
use crate::settings::DownloadSettings;
use crate::{Clock, VERSION};

/// How often the manifest is asked for before it is an error.
const TRIES: u32 = 5;
/// A registry that asks for a longer wait than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The way out to registries, set up when it is first needed: the system's certificates take a moment to read.
pub(super) struct Outside {
    settings: DownloadSettings,
    clock: Clock,
    transport: OnceLock<Result<Transport, PullError>>,
    key: Arc<KeyFile>,
}

impl Outside {
    pub(super) fn new(settings: DownloadSettings, clock: Clock) -> Self {
        let disk = Arc::new(RealDisk);
        let key = match &settings.foreign_key {
            Some(path) => KeyFile::read_from(path.clone(), disk),
            None => KeyFile::made_at(settings.own_key.clone(), disk),
        };
        Self { settings, clock, transport: OnceLock::new(), key: Arc::new(key) }
    }

    fn transport(&self) -> Result<&Transport, PullError> {
        let made = self.transport.get_or_init(|| {
            let clock = self.clock.clone();
            let agent = format!("cairn/{VERSION} ({} {})", std::env::consts::ARCH, std::env::consts::OS);
            let mut config = TransportConfig::new(agent, Arc::new(move || clock.now()));
            config.proxies = self.settings.proxies.clone();
            config.extra_ca.clone_from(&self.settings.ca_file);
            if let Some(stall) = self.settings.stall {
                config.connect_timeout = config.connect_timeout.min(stall);
                config.answer_timeout = stall * 2;
            }
            Transport::new(config).map_err(|error| PullError::Transport(error.to_string()))
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Who is asked for a model. `sources` are addresses that the request names.
    pub(super) fn origins(&self, name: &ModelRef, insecure: bool, sources: &[String]) -> Result<Origins, PullError> {
        let transport = self.transport()?;
        let sign_in = || SignIn::key(Arc::clone(&self.key));
        let origin = Registry::of(name, insecure, transport, sign_in())?;
        // An address that the settings or the request spell out with http asks for http. They are told nothing of us.
        let mirror = |address: &String| {
            Ok(Registry::at(address, true, transport, SignIn::anonymous())?.standing_for(name.host()))
        };
        let joined = self.settings.mirrors.iter().filter(|(host, _)| host.eq_ignore_ascii_case(name.host()));
        let joined: Vec<Registry> = joined.map(|(_, address)| mirror(address)).collect::<Result<_, PullError>>()?;
        let named: Vec<Registry> = sources.iter().map(mirror).collect::<Result<_, PullError>>()?;
        Ok(Origins { name: name.clone(), origin, joined, named, backoff: self.settings.stall.map(|stall| stall / 60) })
    }
}

/// Who is asked for one model.
pub(super) struct Origins {
    name: ModelRef,
    origin: Registry,
    joined: Vec<Registry>,
    named: Vec<Registry>,
    backoff: Option<Duration>,
}

impl Origins {
    /// Who has contents, in the order in which they are asked.
    pub(super) fn blob_sources(&self) -> Vec<Arc<dyn BlobSource>> {
        let all = self.named.iter().chain(&self.joined).chain([&self.origin]);
        all.map(|registry| registry.blobs(&self.name)).collect()
    }

    /// What the model is made of, and who said so.
    pub(super) async fn manifest(&self, tell: &(dyn Fn(String) + Sync)) -> Result<(ManifestBytes, String), PullError> {
        let host = self.origin.host().to_owned();
        let last = match self.ask(&self.origin, tell).await {
            Ok(manifest) => return Ok((manifest, host)),
            Err(SourceError::Absent { .. }) => return Err(PullError::Absent { host, name: self.name.to_string() }),
            Err(error @ SourceError::Refused { .. }) => return Err(PullError::Refused(error)),
            Err(error) => error,
        };
        for mirror in &self.joined {
            tell(format!("{last}; asking the mirror {} what {} is", mirror.host(), self.name));
            match self.ask(mirror, tell).await {
                Ok(manifest) => {
                    let (mirror, origin) = (mirror.host().to_owned(), &host);
                    tell(format!("{} is what {mirror} says that it is: {origin} could not be asked", self.name));
                    return Ok((manifest, mirror));
                }
                Err(error) => tell(error.to_string()),
            }
        }
        Err(PullError::Unreachable { last, times: TRIES })
    }

    /// Asks one of them until it answers, or has failed too often.
    async fn ask(&self, registry: &Registry, tell: &(dyn Fn(String) + Sync)) -> Result<ManifestBytes, SourceError> {
        let (mut wait, mut tries) = (self.backoff.unwrap_or(Duration::from_millis(500)), 1);
        loop {
            let error = match registry.manifest(&self.name).await {
                Ok(manifest) => return Ok(manifest),
                Err(error) => error,
            };
            let asked = match &error {
                SourceError::Broken { .. } => None,
                SourceError::Busy { retry_after, .. } if retry_after.unwrap_or_default() <= PATIENCE => *retry_after,
                _ => return Err(error),
            };
            if tries == TRIES {
                return Err(error);
            }
            let pause = asked.unwrap_or(wait);
            tell(format!("{error}; asking for the manifest again in {:.1} s", pause.as_secs_f32()));
            tokio::time::sleep(pause).await;
            (wait, tries) = (wait * 2, tries + 1);
        }
    }
}
