//! Room for another model: unloads others, and provides the compute threads.

use std::sync::{Arc, Weak};
use std::time::Instant;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_models::ModelFile;
use cairn_tensor::Team;

use super::{DEFAULT_CONTEXT_TOKENS, Engine};
use crate::command::{Command, DrainLimits};
use crate::config::{LoadOptions, ModelId};
use crate::error::LoadError;
use crate::loaded::check_memory;

impl Engine {
    /// Unloads models until there is room for another one: idle models first, in the order in which they expire. If every model
    /// is busy, drains one: stops routing requests to it and waits. Otherwise steady traffic would starve the new model. The
    /// drain is limited by [`LoadTimeouts`](crate::LoadTimeouts). Otherwise a client that does not read would also starve it.
    pub(super) async fn make_room(
        &self,
        id: &str,
        file: &ModelFile,
        tower_bytes: u64,
        options: &LoadOptions,
    ) -> Result<(), LoadError> {
        let mut drain: Option<Drain> = None;
        loop {
            let idle = self.0.idle.notified();
            let fits = if options.force {
                Ok(())
            } else {
                // Probed each time, because an unload frees memory.
                let context_tokens = options.context_tokens.unwrap_or(DEFAULT_CONTEXT_TOKENS);
                check_memory(file, tower_bytes, context_tokens, self.kv_type(options), &Machine::probe())
            };
            if let Err(error @ LoadError::Model(_)) = fits {
                return Err(error);
            }
            let victim = {
                let mut entries = self.0.entries.lock();
                let replaces = entries.contains_key(id);
                if !replaces && entries.len() < self.0.config.max_loaded && (fits.is_ok() || entries.is_empty()) {
                    return fits;
                }
                let victim = entries
                    .iter()
                    .filter(|(key, _)| !replaces || key.as_str() == id)
                    .min_by_key(|(_, entry)| (entry.is_busy(), !entry.is_draining, entry.keep_alive, entry.expires));
                let (key, entry) = victim.expect("a model is loaded, because there is no room");
                let key = key.clone();
                let is_late = drain.as_ref().is_some_and(|drain| drain.id == key && drain.deadline <= Instant::now());
                if !entry.is_busy() || is_late {
                    tracing::info!(id = %key, by = %id, "model unloaded to make room");
                    // Clients that have not read the end of an answer still have leases. These must not keep the cache in memory.
                    entry.model.commands.send(Command::Drain);
                    entries.remove(&key);
                    continue;
                }
                key
            };
            let drain = match &mut drain {
                Some(drain) if drain.id == victim => drain,
                other => {
                    tracing::info!(id = %victim, by = %id, "model drained to make room");
                    // Dropping the previous drain leaves its model loaded.
                    other.insert(self.begin_drain(victim))
                }
            };
            // An error means that the deadline has passed.
            let _ = tokio::time::timeout_at(drain.deadline.into(), idle).await;
        }
    }

    /// Stops routing requests to a model, and limits the time of its generations.
    fn begin_drain(&self, id: ModelId) -> Drain {
        let timeouts = &self.0.config.load_timeouts;
        let deadline = Instant::now() + timeouts.drain;
        let drain = Drain { engine: self.clone(), id, deadline };
        drain.set(Some(DrainLimits { unread: timeouts.unread, deadline }));
        drain
    }

    /// Number of compute threads for these options, at most one per core: more would wait for each other.
    pub(super) fn threads(&self, options: &LoadOptions) -> usize {
        let cores = self.0.config.machine.cpu.usable_cores.len();
        options.threads.unwrap_or(cores).min(cores).max(1)
    }

    /// Type of keys and values for these options.
    pub(super) fn kv_type(&self, options: &LoadOptions) -> DType {
        options.kv_type.unwrap_or(self.0.config.kv_type)
    }

    /// The compute team of this size. Models share it.
    pub(super) fn team(&self, threads: usize) -> std::io::Result<Arc<Team>> {
        let mut teams = self.0.teams.lock();
        if let Some(team) = teams.get(&threads).and_then(Weak::upgrade) {
            return Ok(team);
        }
        let team = Arc::new(Team::new(threads, &self.0.config.machine.cpu.usable_cores)?);
        teams.insert(threads, Arc::downgrade(&team));
        Ok(team)
    }
}

/// Drain of a busy model, of at most one load at a time. Dropping it ends the drain: a model that is still loaded accepts
/// requests again, for example if the client of the load has disconnected.
struct Drain {
    engine: Engine,
    id: ModelId,
    /// Time at which the model is unloaded even if it is busy.
    deadline: Instant,
}

impl Drain {
    fn set(&self, limits: Option<DrainLimits>) {
        if let Some(entry) = self.engine.0.entries.lock().get_mut(&self.id) {
            entry.is_draining = limits.is_some();
            entry.model.commands.send(Command::Limit(limits));
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.set(None);
    }
}
