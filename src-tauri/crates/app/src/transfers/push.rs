//! Push: transfers a model from a library to the registry that its name belongs to.
//!
//! A push has no local state: the registry keeps uploaded blobs, and the next push skips them. Dropping the event
//! receiver cancels the push.

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
use crate::transfers::Transfers;
use crate::transfers::error::Error;
pub use error::PushError;

/// Minimum time between two progress reports of one blob.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Capacity of the event channel. A slow receiver slows down the push.
const QUEUED_EVENTS: usize = 16;
/// Hosts whose models have web pages at ollama.com.
const OLLAMA_HOSTS: [&str; 3] = ["registry.ollama.ai", "ollama.com", "ollama.ai"];

/// Parameters of a push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Push {
    /// Name of the model, which determines the registry.
    pub name: String,
    /// Whether plain http is allowed.
    pub insecure: bool,
}

/// An event of a push.
#[derive(Debug)]
pub enum PushEvent {
    /// Looks up the model's manifest in the libraries.
    Retrieving,
    /// Progress of a blob. A blob that the registry already has is complete at once.
    Blob {
        /// Digest of the blob.
        digest: Digest,
        /// Size of the blob.
        size_bytes: u64,
        /// Bytes that the registry has. Never decreases.
        sent_bytes: u64,
    },
    /// A warning about a step that will be retried, as a line for the user.
    Problem(String),
    /// All blobs are uploaded; sends the manifest.
    Manifest,
    /// The push is complete. This is the last event.
    Success,
    /// The push failed. This is the last event.
    Failed(Error),
}

/// A model to push.
struct Found {
    name: ModelRef,
    manifest: Vec<u8>,
    library: Library,
}

impl Transfers {
    /// Pushes a model and returns its events. Dropping the receiver cancels the push. Must be called inside a tokio
    /// runtime. If the name is invalid, the error is the first event.
    #[must_use]
    pub fn push(&self, push: Push) -> mpsc::Receiver<PushEvent> {
        let (sender, receiver) = mpsc::channel(QUEUED_EVENTS);
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
            // The receiver may have been dropped; that is not an error.
            let _ = sender.send(event).await;
        });
        receiver
    }

    async fn push_now(&self, push: Push, sender: &mpsc::Sender<PushEvent>) -> Result<(), Error> {
        let (transfers, push_name) = (self.clone(), push.name);
        let found = spawn_blocking(move || transfers.find_to_push(&push_name));
        let found = found.await.expect("looking for a model does not panic")?;
        // If the receiver was dropped, the caller cancels this future.
        let _ = sender.send(PushEvent::Retrieving).await;
        let (transfers, name) = (self.clone(), found.name.clone());
        let registry = spawn_blocking(move || transfers.pulls.registry(&name, push.insecure));
        let registry = registry.await.expect("opening connections does not panic").map_err(PushError::Way)?;
        let mut config = PushConfig::default();
        if let Some(stall) = self.settings.downloads.stall {
            config.backoff = stall / 30;
        }
        send(&registry, &found, &config, sender).await.map_err(|error| PushError::of(error, registry.host()))?;
        tracing::info!(model = %found.name, to = registry.host(), "pushed");
        Ok(())
    }

    fn find_to_push(&self, push_name: &str) -> Result<Found, Error> {
        let name: ModelRef = push_name.parse()?;
        match self.library.origin(&name)? {
            None => Err(library::Error::NotFound(push_name.to_owned()).into()),
            Some(Origin::BuiltIn) => Err(library::Error::BuiltIn(pebble::NAME).into()),
            Some(Origin::Opened) => Err(library::Error::OutsideStore(push_name.to_owned()).into()),
            Some(Origin::Stored(library, stored)) => {
                let manifest = library.manifest_bytes(&stored.name).map_err(library::Error::from)?;
                // The name as requested, because `http://` in front of it is significant.
                Ok(Found { name, manifest, library: library.clone() })
            }
        }
    }
}

/// Pushes a model and forwards its progress. A slow receiver slows down the push.
async fn send(
    registry: &Registry,
    found: &Found,
    config: &PushConfig,
    sender: &mpsc::Sender<PushEvent>,
) -> Result<(), cairn_registry::PushError> {
    let (steps, mut received) = mpsc::unbounded_channel();
    let throttle = Mutex::new(Throttle::default());
    let watcher: PushWatcher = Arc::new(move |step: Sent| {
        if throttle.lock().allows(&step) {
            // The receiver lives as long as this push.
            let _ = steps.send(step);
        }
    });
    let mut pushing = std::pin::pin!(registry.push(&found.name, &found.manifest, &found.library, config, &watcher));
    loop {
        tokio::select! {
            biased;
            Some(step) = received.recv() => forward(step, sender).await,
            pushed = &mut pushing => {
                while let Ok(step) = received.try_recv() {
                    forward(step, sender).await;
                }
                return pushed;
            }
        }
    }
}

async fn forward(step: Sent, sender: &mpsc::Sender<PushEvent>) {
    let event = match step {
        Sent::Blob { digest, size_bytes, sent_bytes } => PushEvent::Blob { digest, size_bytes, sent_bytes },
        Sent::Waiting { reason, wait } => {
            PushEvent::Problem(format!("{reason}; trying again in {:.0} s", wait.as_secs_f32().ceil()))
        }
        Sent::Manifest => PushEvent::Manifest,
    };
    // If the receiver was dropped, the caller cancels this future.
    let _ = sender.send(event).await;
}

/// Passes the first and the last report of each blob, and a limited number between.
#[derive(Default)]
struct Throttle(Option<(Digest, Instant)>);

impl Throttle {
    fn allows(&mut self, step: &Sent) -> bool {
        let Sent::Blob { digest, size_bytes, sent_bytes } = step else { return true };
        let soon = self.0.is_some_and(|(last, at)| last == *digest && at.elapsed() < REPORT_EVERY);
        if soon && sent_bytes < size_bytes {
            return false;
        }
        self.0 = Some((*digest, Instant::now()));
        true
    }
}

/// The location of a pushed model for users: its web page if the registry has one, else its full name.
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
