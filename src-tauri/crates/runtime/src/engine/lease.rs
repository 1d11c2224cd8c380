//! Leases, and the keep-alive timer that starts when the last one ends.

use std::sync::Arc;
use std::time::Instant;

use cairn_grammar::Vocabulary;
use cairn_models::{Hparams, TowerHparams};
use cairn_prompt::Template;
use cairn_tokenizer::Tokenizer;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Engine;
use crate::adapters;
use crate::client::Client;
use crate::command::Command;
use crate::config::ModelId;
use crate::constraint::ActiveConstraint;
use crate::embedding::{EmbedJob, EmbedText};
use crate::error::LoadError;
use crate::generation::{EventSender, Generation};
use crate::keep_alive::KeepAlive;
use crate::loaded::LoadedModel;
use crate::model_use::ModelUse;
use crate::queue::QueuePlace;
use crate::request::{Event, GenerateError, Request};
use crate::sequence::Job;

/// Events that a slow client may leave unread before its generation pauses.
const EVENTS: usize = 32;

/// Handle that keeps a model loaded. The keep-alive time starts when the last lease is dropped.
pub struct Lease {
    pub(super) engine: Engine,
    pub(super) id: ModelId,
    pub(super) model: Arc<LoadedModel>,
    pub(super) context_tokens: u32,
    pub(super) load_ns: u64,
    /// Its requests share the model's compute time with those of other clients.
    pub(super) client: Client,
    /// Use of the model and place in its queue, until the first generation takes them.
    pub(super) first: Mutex<Option<(ModelUse, QueuePlace)>>,
}

impl Lease {
    /// The same lease for a client. Its requests share the model's compute time with those of other clients.
    #[must_use]
    pub fn for_client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// Time that the model took to load; 0 if it was loaded already.
    pub fn load_ns(&self) -> u64 {
        self.load_ns
    }

    /// Size of the weights.
    pub fn weights_bytes(&self) -> u64 {
        self.model.weights_bytes
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.model.tokenizer
    }

    /// The chat template in the model's file, if it has one.
    ///
    /// # Errors
    /// When the template cannot be used.
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

    /// Shape of the model's vision tower; none if it has none.
    ///
    /// # Errors
    /// When the tower cannot be used.
    pub fn vision(&self) -> Result<Option<&TowerHparams>, &LoadError> {
        self.model.vision.as_ref().map(|vision| vision.as_ref().map(|vision| &vision.hparams)).transpose()
    }

    /// Tokens that prompt and answer may have together.
    pub fn context_tokens(&self) -> u32 {
        self.context_tokens
    }

    /// The model's vocabulary for constraints. Waits until it is built, about a second after a large model was loaded.
    ///
    /// # Errors
    /// When the vocabulary cannot be indexed.
    pub fn vocabulary(&self) -> Result<Arc<Vocabulary>, cairn_grammar::Error> {
        self.model.vocabulary()
    }

    /// Computes the vector of each text, not normalised. For a cross-encoder, the vector is one score. Dropping the future
    /// cancels the request.
    ///
    /// # Errors
    /// When a text is empty or too long, or the computation fails.
    pub async fn embed(&self, texts: Vec<EmbedText>) -> Result<Vec<Vec<f32>>, GenerateError> {
        let (reply, vectors) = oneshot::channel();
        let (_model_use, _place) = self.enter();
        let (context_tokens, client) = (self.context_tokens as usize, self.client.clone());
        let job = EmbedJob { texts, context_tokens, client, reply, _model_use, _place };
        self.model.commands.send(Command::Embed(Box::new(job)));
        vectors.await.unwrap_or(Err(GenerateError::Unloaded))
    }

    /// Starts a generation. Dropping the result cancels it; computed rows stay cached.
    pub fn generate(&self, mut request: Request) -> Generation {
        let commands = &self.model.commands;
        let (mut events, generation) = EventSender::channel(EVENTS, commands.waker());
        let (_model_use, place) = self.enter();
        match adapters::resolve(request.adapters.take(), self.model.adapters) {
            Ok(uses) => {
                request.scope.name = adapters::scope_name(request.scope.name.take(), &uses);
                request.adapters = Some(uses);
            }
            Err(error) => {
                events.end(Event::Error(error));
                return generation;
            }
        }
        // The first mask is computed while the request waits and its prompt is computed.
        let constraint = request.constraint.take();
        let constraint = constraint.map(|constraint| ActiveConstraint::new(constraint, self.model.mask_worker()));
        let job = Job {
            request,
            constraint,
            context_tokens: self.context_tokens as usize,
            events,
            client: self.client.clone(),
            place: Some(place),
            _model_use,
        };
        // If the scheduler has ended, the job is dropped and sends `GenerateError::Unloaded`.
        commands.send(Command::Generate(Box::new(job)));
        generation
    }
}

impl Lease {
    /// The use of the model and the place in its queue for one computation.
    fn enter(&self) -> (ModelUse, QueuePlace) {
        let first = self.first.lock().take();
        first.unwrap_or_else(|| (self.model.uses.begin(), self.model.queue.enter_again()))
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
        let mut entries = self.0.entries.lock();
        // The entry may have been removed, or belong to another load of the same model.
        let Some(entry) = entries.get_mut(id).filter(|entry| Arc::ptr_eq(&entry.model, model)) else { return };
        entry.leases -= 1;
        if entry.leases > 0 {
            return;
        }
        self.0.idle.notify_waiters();
        let KeepAlive::For(time) = entry.keep_alive else { return };
        // A time beyond the clock's range never ends.
        let Some(expires) = Instant::now().checked_add(time) else { return };
        if time.is_zero() {
            entries.remove(id);
            return;
        }
        entry.expires = Some(expires);
        let (engine, id) = (self.clone(), id.to_owned());
        let unload = async move {
            tokio::time::sleep_until(expires.into()).await;
            let mut entries = engine.0.entries.lock();
            if entries.get(&id).is_some_and(|entry| entry.expires == Some(expires)) {
                tracing::info!(%id, "model unloaded: keep-alive expired");
                entries.remove(&id);
            }
        };
        entry.timer = Some(Timer(self.0.runtime.spawn(unload).abort_handle()));
    }
}

/// A task that is aborted on drop, so that a busy model does not collect one for each request.
pub(super) struct Timer(tokio::task::AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
