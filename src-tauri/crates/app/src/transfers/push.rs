//! Push: a model of a library goes to the registry that its name belongs to.
//!
//! Nothing is remembered of a push: blobs that arrived stay at the registry, and the next push passes over them. It ends
//! when nobody listens any more.

mod error;

use std::sync::Arc;

use parking_lot::Mutex;
use std::time::{Duration, Instant};

use cairn_registry::{PushConfig, PushStep as Sent, PushWatcher, Registry};
use cairn_store::{Digest, Library, ModelRef};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::library::pebble;
use crate::library::{self, catalog::Origin};
use crate::transfers::error::Error;
use crate::transfers::handle::Transfers;
pub use error::PushError;

/// Between two reports of one blob's progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Reports that may wait for a slow reader before the work waits too.
const WAITING_EVENTS: usize = 16;
/// Whose models have pages of their own: the host of names without one, and its other names.
const OLLAMA_HOSTS: [&str; 3] = ["registry.ollama.ai", "ollama.com", "ollama.ai"];

/// A model that is to go to its registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Push {
    /// Its name, which says where to.
    pub name: String,
    /// Whether its registry may be asked over plain http.
    pub insecure: bool,
}

/// What becomes of a push.
#[derive(Debug)]
pub enum PushEvent {
    /// The model's manifest is looked for here.
    Retrieving,
    /// A blob is on its way, or was there.
    Blob {
        /// Which.
        digest: Digest,
        /// Its length.
        size_bytes: u64,
        /// How much of it is there; never less than before.
        sent_bytes: u64,
    },
    /// A step failed, and is tried again after a while: a line for people.
    Trouble(String),
    /// All blobs are there; the manifest goes.
    Manifest,
    /// The end: it can be pulled from there.
    Success,
    /// The end: it cannot, unless it could before.
    Failed(Error),
}

/// A model and what is to be sent of it.
struct Found {
    name: ModelRef,
    manifest: Vec<u8>,
    library: Library,
}

impl Transfers {
    /// Pushes a model, and tells how far it has come. Dropping the receiver ends it. Must be called inside a tokio
    /// runtime. What is wrong with the name comes before anything else.
    #[must_use]
    pub fn push(&self, push: Push) -> mpsc::Receiver<PushEvent> {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let transfers = self.clone();
        tokio::spawn(async move {
            let pushed = tokio::select! {
                pushed = transfers.push_now(push, &sender) => pushed,
                () = sender.closed() => return,
            };
            let event = match pushed {
                Ok(()) => PushEvent::Success,
                Err(error) => PushEvent::Failed(error),
            };
            // Nobody is left to be told when this fails.
            let _ = sender.send(event).await;
        });
        receiver
    }

    async fn push_now(&self, push: Push, sender: &mpsc::Sender<PushEvent>) -> Result<(), Error> {
        let (transfers, asked) = (self.clone(), push.name);
        let found = spawn_blocking(move || transfers.find_to_push(&asked));
        let found = found.await.expect("looking for a model does not panic")?;
        // A reader that is gone ends all this from outside.
        let _ = sender.send(PushEvent::Retrieving).await;
        let (transfers, name) = (self.clone(), found.name.clone());
        let registry = spawn_blocking(move || transfers.pulls.registry(&name, push.insecure));
        let registry = registry.await.expect("setting up the way out does not panic").map_err(PushError::Way)?;
        let mut config = PushConfig::default();
        if let Some(stall) = self.settings.downloads.stall {
            config.backoff = stall / 30;
        }
        send(&registry, &found, &config, sender).await.map_err(|error| PushError::of(error, registry.host()))?;
        tracing::info!(model = %found.name, to = registry.host(), "pushed");
        Ok(())
    }

    fn find_to_push(&self, asked: &str) -> Result<Found, Error> {
        let name: ModelRef = asked.parse()?;
        match self.library.origin(&name)? {
            None => Err(library::Error::NotFound(asked.to_owned()).into()),
            Some(Origin::BuiltIn) => Err(library::Error::BuiltIn(pebble::NAME).into()),
            Some(Origin::Opened) => Err(library::Error::OutsideStore(asked.to_owned()).into()),
            Some(Origin::Stored(library, stored)) => {
                let manifest = library.manifest_bytes(&stored.name).map_err(library::Error::from)?;
                // As it was asked for: `http://` in front of it counts.
                Ok(Found { name, manifest, library: library.clone() })
            }
        }
    }
}

/// Sends a model, and passes on what is heard of it. A slow reader slows the work.
async fn send(
    registry: &Registry,
    found: &Found,
    config: &PushConfig,
    sender: &mpsc::Sender<PushEvent>,
) -> Result<(), cairn_registry::PushError> {
    let (told, mut heard) = mpsc::unbounded_channel();
    let throttle = Mutex::new(Throttle::default());
    let watcher: PushWatcher = Arc::new(move |step: Sent| {
        if throttle.lock().lets_pass(&step) {
            // The one who hears lives as long as this push.
            let _ = told.send(step);
        }
    });
    let mut pushing = std::pin::pin!(registry.push(&found.name, &found.manifest, &found.library, config, &watcher));
    loop {
        tokio::select! {
            biased;
            Some(step) = heard.recv() => pass_on(step, sender).await,
            pushed = &mut pushing => {
                while let Ok(step) = heard.try_recv() {
                    pass_on(step, sender).await;
                }
                return pushed;
            }
        }
    }
}

async fn pass_on(step: Sent, sender: &mpsc::Sender<PushEvent>) {
    let event = match step {
        Sent::Blob { digest, size_bytes, sent_bytes } => PushEvent::Blob { digest, size_bytes, sent_bytes },
        Sent::Waiting { reason, wait } => {
            PushEvent::Trouble(format!("{reason}; trying again in {:.0} s", wait.as_secs_f32().ceil()))
        }
        Sent::Manifest => PushEvent::Manifest,
    };
    // A reader that is gone ends all this from outside.
    let _ = sender.send(event).await;
}

/// Lets the first and the last report of each blob pass, and some between.
#[derive(Default)]
struct Throttle(Option<(Digest, Instant)>);

impl Throttle {
    fn lets_pass(&mut self, step: &Sent) -> bool {
        let Sent::Blob { digest, size_bytes, sent_bytes } = step else { return true };
        let soon = self.0.is_some_and(|(last, at)| last == *digest && at.elapsed() < REPORT_EVERY);
        if soon && sent_bytes < size_bytes {
            return false;
        }
        self.0 = Some((*digest, Instant::now()));
        true
    }
}

/// Where people find a model that was pushed: a page where its registry has one for it, else its whole name.
#[must_use]
pub fn pushed_to(name: &str) -> String {
    let Ok(name) = name.parse::<ModelRef>() else { return name.to_owned() };
    if !OLLAMA_HOSTS.iter().any(|host| name.host().eq_ignore_ascii_case(host)) {
        return name.full();
    }
    let tag = if name.tag() == "latest" { String::new() } else { format!(":{}", name.tag()) };
    format!("https://ollama.com/{}/{}{tag}", name.namespace(), name.model())
}

#[cfg(test)]
mod tests;
