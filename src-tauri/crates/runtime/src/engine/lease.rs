//! Leases: what keeps a model loaded, and what happens when the last one ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use cairn_models::Hparams;
use cairn_prompt::Template;
use cairn_tokenizer::Tokenizer;
use tokio::sync::mpsc;

use super::Engine;
use crate::config::ModelId;
use crate::keep_alive::KeepAlive;
use crate::loaded::LoadedModel;
use crate::request::{Event, Request};
use crate::sequence::{Job, Listener};

/// Events that may wait for a slow listener before its answer pauses.
const EVENTS: usize = 32;

/// Keeps a model loaded. The keep-alive time starts when the last lease is dropped.
pub struct Lease {
    pub(super) engine: Engine,
    pub(super) id: ModelId,
    pub(crate) model: Arc<LoadedModel>,
    pub(super) context_tokens: u32,
    pub(super) load_ns: u64,
}

impl Lease {
    /// Time that this request waited for the model to load; 0 when it was loaded.
    pub fn load_ns(&self) -> u64 {
        self.load_ns
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.model.tokenizer
    }

    /// The chat template in the model's file, if it has one; why it cannot be used, if so.
    pub fn template(&self) -> Result<Option<&Template>, &cairn_prompt::Error> {
        self.model.template.as_ref().map(Option::as_ref)
    }

    /// The file's metadata.
    pub fn metadata(&self) -> &cairn_gguf::Metadata {
        self.model.file.gguf().metadata()
    }

    /// The model's shape.
    pub fn hparams(&self) -> &Hparams {
        &self.model.hparams
    }

    /// Tokens that prompt and answer may have together.
    pub fn context_tokens(&self) -> u32 {
        self.context_tokens
    }

    /// Starts an answer. Dropping the receiver cancels it; what was computed stays cached.
    pub fn generate(&self, request: Request) -> mpsc::Receiver<Event> {
        let (listener, receiver) = Listener::channel(EVENTS);
        let job = Job { request, context_tokens: self.context_tokens as usize, listener };
        self.model.queued.fetch_add(1, Ordering::Relaxed);
        // Where the thread has ended, since the model's file failed or the engine closes, the job's drop says so.
        let _ = self.model.jobs.send(job);
        receiver
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.engine.release(&self.id, &self.model);
    }
}

impl Engine {
    /// Ends a lease.
    fn release(&self, id: &str, model: &Arc<LoadedModel>) {
        let mut entries = self.0.entries();
        // The entry may have gone, or be another load of the same model.
        let Some(entry) = entries.get_mut(id).filter(|entry| Arc::ptr_eq(&entry.model, model)) else { return };
        entry.leases -= 1;
        if entry.leases > 0 {
            return;
        }
        self.0.idle.notify_waiters();
        let KeepAlive::For(time) = entry.keep_alive else { return };
        // A time too long for the clock is for ever.
        let Some(expires) = Instant::now().checked_add(time) else { return };
        if time.is_zero() {
            entries.remove(id);
            return;
        }
        entry.expires = Some(expires);
        let (engine, id) = (self.clone(), id.to_owned());
        let unload = async move {
            tokio::time::sleep_until(expires.into()).await;
            let mut entries = engine.0.entries();
            if entries.get(&id).is_some_and(|entry| entry.expires == Some(expires)) {
                tracing::info!(%id, "model unloaded, its keep-alive is over");
                entries.remove(&id);
            }
        };
        entry.timer = Some(Timer(self.0.runtime.spawn(unload).abort_handle()));
    }
}

/// A task that ends when this is dropped, so that a busy model does not gather one for each of its requests.
pub(super) struct Timer(tokio::task::AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
