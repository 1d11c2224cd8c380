//! Caches of loaded models: clear, delete an owner's rows, look up a prefix.
//!
//! Only a model's scheduler thread touches its cache, so these commands are sent to it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cairn_kv::PrefixMatch;
use cairn_tier::{Fingerprint, Key, LookupTrace, Owner};

use super::{Engine, Lease};
use crate::adapters;
use crate::command::{CacheCommand, Command};
use crate::input;
use crate::picture::{self, PromptPicture};
use crate::scheduler::FLUSH_TIMEOUT;

/// Timeout for a cache command.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The cached prefix of a prompt, in memory and in the tiers.
#[derive(Clone, Debug)]
pub struct PrefixLookup {
    /// Tokens whose rows are in the loaded model's pages.
    pub memory_tokens: usize,
    /// The token that follows them in memory, if it differs from the prompt's.
    pub memory_next: Option<u32>,
    /// What the tiers hold, and the reason for the first miss; none if the model has no tiers.
    pub tiers: Option<LookupTrace>,
}

impl Engine {
    /// Drops rows from the pages of all loaded models: those that only this owner has, or all. Rows of running sequences stay.
    /// Blocks until it is done, and until models that were just unloaded have flushed their caches.
    pub fn clear_caches(&self, owner: Option<&Owner>) {
        let (done, all_done) = mpsc::channel();
        let until = Instant::now() + FLUSH_TIMEOUT;
        while self.flushing().iter().any(|running| running.load(Ordering::Acquire)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        for model in self.models() {
            let done = done.clone();
            model.commands.send(Command::Cache(match owner {
                Some(owner) => CacheCommand::ForgetOwner(owner.clone(), done),
                None => CacheCommand::Clear(done),
            }));
        }
        drop(done);
        let until = Instant::now() + TIMEOUT;
        while all_done.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
    }
}

impl Lease {
    /// The cached prefix of a prompt with these pictures in a scope, and the reason why it is not longer. Rows are those of
    /// the model's adapters with the scale 1. Blocks.
    pub fn lookup_prefix(&self, prompt: &[u32], pictures: &[PromptPicture], scope: Option<Arc<str>>) -> PrefixLookup {
        let mut keys = Vec::new();
        let tower = self.model.vision.as_ref().and_then(|vision| vision.as_ref().ok());
        match self.model.hparams.decoder_start {
            Some(_) => keys = input::keys(prompt),
            None => picture::extend_keys(&mut keys, prompt, pictures, tower.map(|vision| &vision.identity)),
        }
        let adapters = adapters::resolve(None, self.model.adapters).unwrap_or_default();
        let scope = adapters::scope_name(scope, &adapters);
        let tiers = self.model.tiers.as_ref().map(|tiers| tiers.in_scope(scope.as_deref()));
        let (reply, found) = mpsc::channel();
        self.model.commands.send(Command::Cache(CacheCommand::Lookup(keys.clone(), scope, reply)));
        let found = found.recv_timeout(TIMEOUT).unwrap_or(PrefixMatch { tokens: 0, next: None });
        PrefixLookup {
            memory_tokens: found.tokens,
            memory_next: found.next.and_then(Key::as_token),
            tiers: tiers.map(|tiers| tiers.tiers.trace(&tiers.prefix(keys.into()))),
        }
    }

    /// The fingerprint of this model's chunks; none if the model has no tiers.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.model.tiers.as_ref().map(|tiers| tiers.fingerprint)
    }
}
